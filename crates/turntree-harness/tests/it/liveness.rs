//! Who counts as alive, files that have drifted, edits of other lines.

use std::fs;
use std::path::Path;

use serde_json::json;
use turntree_harness::coordination::Coordination;
use turntree_harness::coordination::claims::Mode;
use turntree_harness::coordination::liveness::AgentLock;
use turntree_harness::hooks::{HookReply, handle};
use turntree_harness::{HarnessError, Project};

use crate::support::{Repository, git};

fn edit(tree: &Path, session: &str, old: &str) -> HookReply {
    let input = json!({"file_path": tree.join("a.rs"), "old_string": old, "new_string": "x"});
    let event = json!({"hook_event_name": "PreToolUse", "session_id": session, "cwd": tree, "tool_name": "Edit",
        "tool_input": input});
    handle("claude", event.to_string().as_bytes(), tree)
}

fn work(repository: &Repository) -> Coordination {
    let project = Project::find(&repository.tree()).unwrap();
    let state = project.state().unwrap();
    Coordination::new(&project, state)
}

#[test]
fn a_claim_of_an_agent_whose_lock_is_free_is_taken_over_at_once() {
    let repository = Repository::new();
    let (work, folder) = (work(&repository), repository.main().join(".turntree"));
    work.register("one", "test", "").unwrap();
    let lock = AgentLock::take(&folder, "one").unwrap().unwrap();
    assert!(AgentLock::take(&folder, "one").unwrap().is_none());
    let old = work.claim("one", "port:1", Mode::Exclusive, 600_000).unwrap();

    let error = work.claim("two", "port:1", Mode::Exclusive, 1_000).unwrap_err();
    assert!(matches!(error, HarnessError::ClaimConflict { .. }));
    // The process ends: the system frees the lock, the file stays.
    drop(lock);
    let new = work.claim("two", "port:1", Mode::Exclusive, 1_000).unwrap();

    assert!(new.token > old.token && !work.is_valid(&old).unwrap());
    assert!(!work.agents().unwrap().iter().any(|agent| agent.id == "one" && agent.is_live));
}

#[cfg(target_os = "linux")]
#[test]
fn an_agent_whose_process_has_ended_does_not_block_edits() {
    let repository = Repository::new();
    let tree = repository.tree();
    let work = work(&repository);
    work.register_own("one", "test").unwrap();
    work.announce("one", "file:a.rs", "editing", "").unwrap();
    assert_eq!(edit(&tree, "two", "fn").exit, 2);

    // As if this process had ended and another one had its number.
    let state = rusqlite::Connection::open(repository.main().join(".turntree/state.db")).unwrap();
    state.execute("UPDATE agent SET pid_start = pid_start + 1 WHERE id = 'one'", []).unwrap();
    let reply = edit(&tree, "two", "fn");

    assert_eq!(reply.exit, 0, "{reply:?}");
    assert!(reply.stdout.contains("is gone"), "{reply:?}");
}

#[test]
fn an_edit_of_a_file_that_has_changed_on_the_base_branch_is_denied_until_it_is_merged() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    assert_eq!(edit(&tree, "one", "fn").exit, 0);
    fs::write(main.join("a.rs"), "fn b() {}\n").unwrap();
    git(&main, &["commit", "-qam", "Change"]);
    git(&main, &["update-ref", "refs/remotes/origin/main", "main"]);

    let reply = edit(&tree, "one", "fn");
    assert_eq!(reply.exit, 2);
    assert!(
        reply.stderr.contains("coordination.drift") && reply.stderr.contains("rebase origin/main"),
        "{reply:?}"
    );

    git(&tree, &["rebase", "-q", "origin/main"]);
    assert_eq!(edit(&tree, "one", "fn").exit, 0);
}

#[test]
fn without_a_remote_the_branch_of_the_main_working_tree_is_the_base() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    assert_eq!(edit(&tree, "one", "fn").exit, 0);
    git(&main, &["checkout", "-q", "-b", "develop"]);
    fs::write(main.join("a.rs"), "fn b() {}\n").unwrap();
    git(&main, &["commit", "-qam", "Change"]);

    let reply = edit(&tree, "one", "fn");
    assert_eq!(reply.exit, 2);
    assert!(
        reply.stderr.contains("changed on \"develop\"") && reply.stderr.contains("rebase develop"),
        "{reply:?}"
    );

    git(&tree, &["merge", "-q", "develop"]);
    assert_eq!(edit(&tree, "one", "fn").exit, 0);
    git(&main, &["checkout", "-q", "--detach"]);
    fs::write(main.join("a.rs"), "fn c() {}\n").unwrap();
    git(&main, &["commit", "-qam", "Change"]);
    assert_eq!(edit(&tree, "one", "fn").exit, 0);
}

#[test]
fn other_lines_of_a_file_warn_if_the_project_says_so_and_the_same_lines_deny() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    let other = main.parent().unwrap().join("other");
    let text = (1..40).map(|number| format!("line {number};")).collect::<Vec<_>>().join("\n");
    fs::write(main.join("a.rs"), text).unwrap();
    git(&main, &["commit", "-qam", "Lines"]);
    git(&tree, &["merge", "-q", "main"]);
    git(&main, &["worktree", "add", "-q", "-b", "feature/y", "../other"]);
    let session = |tree: &Path, id: &str| {
        let event = json!({"hook_event_name": "SessionStart", "session_id": id, "cwd": tree});
        handle("claude", event.to_string().as_bytes(), tree);
    };
    session(&tree, "one");
    session(&other, "two");
    assert_eq!(edit(&tree, "one", "line 10;").exit, 0);
    assert_eq!(edit(&other, "two", "line 30;").exit, 2);

    fs::write(main.join("turntree.toml"), "[coordination]\noverlap = \"hunk\"\n").unwrap();

    let apart = edit(&other, "two", "line 30;");
    assert!(apart.exit == 0 && apart.stdout.contains("other lines"), "{apart:?}");
    assert_eq!(edit(&other, "two", "line 11;").exit, 2);
    // A text that is not in the file may be anywhere.
    assert_eq!(edit(&other, "two", "line 99;").exit, 2);
}

#[test]
fn a_forecast_names_the_branches_that_conflict_and_an_order() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    git(&main, &["worktree", "add", "-q", "-b", "feature/y", "../other"]);
    let other = main.parent().unwrap().join("other");
    git(&main, &["worktree", "add", "-q", "-b", "feature/z", "../third"]);
    for (folder, text) in [(&tree, "fn x() {}\n"), (&other, "fn y() {}\n")] {
        fs::write(folder.join("a.rs"), text).unwrap();
        git(folder, &["commit", "-qam", "Change"]);
    }

    let forecast = work(&repository).forecast_all().unwrap();

    assert_eq!(forecast.conflicts.len(), 1);
    assert_eq!(forecast.conflicts[0].files, ["a.rs"]);
    assert_eq!(forecast.order, ["feature/z", "feature/x", "feature/y"]);
}

#[test]
fn of_two_hooks_at_the_same_time_on_one_path_one_passes() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    git(&main, &["worktree", "add", "-q", "-b", "feature/y", "../other"]);
    let other = main.parent().unwrap().join("other");
    let start = std::sync::Barrier::new(2);
    for round in 0..10 {
        fs::write(tree.join(format!("{round}.rs")), "").unwrap();
        let hook = |tree: &Path, session: &str| {
            let input = json!({"file_path": tree.join(format!("{round}.rs")), "content": "x"});
            let event = json!({"hook_event_name": "PreToolUse", "session_id": session, "cwd": tree, "tool_name": "Write",
                "tool_input": input});
            start.wait();
            handle("claude", event.to_string().as_bytes(), tree).exit
        };
        let exits = std::thread::scope(|scope| {
            let one = scope.spawn(|| hook(&tree, "one"));
            let two = scope.spawn(|| hook(&other, "two"));
            (one.join().unwrap(), two.join().unwrap())
        });

        assert!(exits == (0, 2) || exits == (2, 0), "round {round}: {exits:?}");
    }
}
