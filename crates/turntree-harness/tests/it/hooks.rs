//! Events of harnesses and the replies to them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree_harness::hooks::adapter::adapters;
use turntree_harness::hooks::{HookReply, handle};

use crate::support::Repository;

/// The fixture of a harness with a command in it: `tests/data/hooks/<harness>.json`.
fn event(harness: &str, command: &str, cwd: &Path) -> Vec<u8> {
    let file = format!("{}/tests/data/hooks/{harness}.json", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(file).unwrap();
    let quoted = serde_json::to_string(command).unwrap();
    text.replace("\"COMMAND\"", &quoted).replace("CWD", &cwd.display().to_string()).into_bytes()
}

fn denies(reply: &HookReply) -> bool {
    reply.exit == 2 || reply.stdout.contains("\"deny\"")
}

#[test]
fn the_adapters_are_valid() {
    let names: Vec<&str> = adapters().iter().map(|adapter| adapter.name.as_str()).collect();

    assert_eq!(names, ["claude", "factory", "codex", "cursor", "opencode", "generic"]);
}

#[test]
fn every_harness_blocks_a_denied_command_and_passes_an_allowed_one() {
    let repository = Repository::new();
    let tree = repository.tree();
    for adapter in adapters() {
        let denied = handle(&adapter.name, &event(&adapter.name, "git push --force", &tree), &tree);
        let allowed = handle(&adapter.name, &event(&adapter.name, "cargo test", &tree), &tree);

        assert!(denies(&denied), "{}: {denied:?}", adapter.name);
        let text = format!("{}{}", denied.stdout, denied.stderr);
        assert!(text.contains("git.force-push") && text.contains("Instead:"), "{}: {text}", adapter.name);
        assert!(!denies(&allowed) && allowed.exit == 0, "{}: {allowed:?}", adapter.name);
    }
}

#[test]
fn a_question_is_asked_where_the_harness_can_ask_and_denied_elsewhere() {
    let repository = Repository::new();
    let tree = repository.tree();
    let reply = |harness: &str| handle(harness, &event(harness, "npm publish", &tree), &tree);

    let claude: Value = serde_json::from_str(&reply("claude").stdout).unwrap();
    assert_eq!(claude["hookSpecificOutput"]["permissionDecision"], "ask");
    let cursor: Value = serde_json::from_str(&reply("cursor").stdout).unwrap();
    assert_eq!(cursor["permission"], "ask");
    assert_eq!(reply("codex").exit, 2);
    assert!(denies(&reply("opencode")));
}

#[test]
fn an_edit_of_a_file_that_another_session_edits_is_denied() {
    let repository = Repository::new();
    let tree = repository.tree();
    let edit = |session: &str| {
        let event = json!({"hook_event_name": "PreToolUse", "session_id": session, "cwd": tree, "tool_name": "Edit",
            "tool_input": {"file_path": tree.join("a.rs"), "new_string": "x"}});
        handle("claude", event.to_string().as_bytes(), &tree)
    };
    assert_eq!(edit("one").exit, 0);
    assert_eq!(edit("one").exit, 0);

    let second = edit("two");
    assert_eq!(second.exit, 2);
    assert!(
        second.stderr.contains("coordination.collision") && second.stderr.contains("claude:one"),
        "{}",
        second.stderr
    );

    let end = json!({"hook_event_name": "SessionEnd", "session_id": "one", "cwd": tree});
    handle("claude", end.to_string().as_bytes(), &tree);

    assert_eq!(edit("two").exit, 0);
}

#[test]
fn a_session_starts_with_rules_and_where_to_work() {
    let repository = Repository::new();
    let start = json!({"hook_event_name": "SessionStart", "session_id": "a", "cwd": repository.main(), "source": "startup"});

    let reply = handle("claude", start.to_string().as_bytes(), &repository.main());

    assert_eq!(reply.exit, 0);
    assert!(
        reply.stdout.contains("turntree worktree create") && reply.stdout.contains("git.force-push"),
        "{}",
        reply.stdout
    );
}

#[test]
fn the_end_of_a_turn_is_stopped_once_if_files_are_uncommitted() {
    let repository = Repository::new();
    let tree = repository.tree();
    fs::write(tree.join("b.rs"), "").unwrap();
    let stop = json!({"hook_event_name": "Stop", "session_id": "a", "cwd": tree}).to_string();

    assert_eq!(handle("claude", stop.as_bytes(), &tree).exit, 2);
    assert_eq!(handle("claude", stop.as_bytes(), &tree).exit, 0);
}

#[test]
fn a_tool_call_that_cannot_be_checked_is_blocked_and_context_fails_open() {
    let repository = Repository::new();
    let tree = repository.tree();
    fs::create_dir_all(repository.main().join(".turntree")).unwrap();
    fs::write(
        repository.main().join(".turntree/state.db"),
        "this is not a database, it is a text of some length",
    )
    .unwrap();

    for adapter in adapters() {
        assert!(
            denies(&handle(&adapter.name, &event(&adapter.name, "ls", &tree), &tree)),
            "{}",
            adapter.name
        );
    }
    let start = json!({"hook_event_name": "SessionStart", "session_id": "a", "cwd": tree}).to_string();

    assert_eq!(handle("claude", start.as_bytes(), &tree), HookReply::default());
}

#[test]
fn an_unknown_harness_blocks() {
    assert_eq!(handle("vim", b"{}", Path::new("/")).exit, 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_pass_as_a_tool_call(bytes in proptest::collection::vec(any::<u8>(), 0..200), index in 0_usize..6) {
        let name = adapters()[index].name.as_str();

        let reply = handle(name, &bytes, Path::new("/nonexistent"));

        prop_assert!(denies(&reply), "{name}: {reply:?}");
    }

    #[test]
    fn arbitrary_commands_never_panic_and_a_denied_command_behind_them_stays_denied(text in "[ a-z$(){}'\"`;|&<>\\\\\n-]{0,60}") {
        use turntree_harness::shell::{Surroundings, analyze};

        let script = analyze(&format!("{text}\ngit push --force"), &Surroundings::default());

        let is_found = script.commands.iter().any(|command| command.program().as_deref() == Some("git"));
        let is_unknown = !script.unknown.is_empty();
        let is_swallowed = text.contains(['\'', '"', '`', '<', '\\', '(', '{', '$', '-', '|', '&']);
        prop_assert!(is_found || is_unknown || is_swallowed, "{script:?}");
    }
}
