//! The gate on a repository: edits, levels, exceptions, audit.

use std::fs;

use turntree_harness::policy::{audit, overrides};
use turntree_harness::{Action, Gate, HarnessError, Outcome, Project};

use crate::support::{Repository, git};

fn gate(repository: &Repository) -> Gate {
    Gate::load(&Project::find(&repository.tree()).unwrap()).unwrap()
}

#[test]
fn an_edit_in_the_main_checkout_is_denied_and_one_in_a_worktree_is_allowed() {
    let repository = Repository::new();
    let gate = gate(&repository);
    let (main, tree) = (repository.main().display().to_string(), repository.tree().display().to_string());

    let denied = gate.check(&Action::edit(&["a.rs"], "", &main)).unwrap();
    let allowed = gate.check(&Action::edit(&["a.rs"], "", &tree)).unwrap();

    assert_eq!(denied.outcome, Outcome::Deny);
    assert!(denied.message().contains("turntree worktree create"), "{}", denied.message());
    assert_eq!(allowed.outcome, Outcome::Allow);
}

#[test]
fn a_link_into_the_main_checkout_is_followed() {
    let repository = Repository::new();
    std::os::unix::fs::symlink(repository.main().join("a.rs"), repository.tree().join("link.rs")).unwrap();

    let decision =
        gate(&repository).check(&Action::edit(&["link.rs"], "", &repository.tree().display().to_string()));

    assert_eq!(decision.unwrap().outcome, Outcome::Deny);
}

#[test]
fn a_level_of_the_configuration_turns_a_denial_into_a_warning() {
    let repository = Repository::new();
    fs::write(
        repository.main().join("turntree.toml"),
        "[policy.levels]\n\"files.worktree\" = \"recommended\"\n",
    )
    .unwrap();

    let decision =
        gate(&repository).check(&Action::edit(&["a.rs"], "", &repository.main().display().to_string()));

    assert_eq!(decision.unwrap().outcome, Outcome::Warn);
}

#[test]
fn a_rule_in_shadow_mode_is_reported_without_effect() {
    let repository = Repository::new();
    fs::write(repository.main().join("turntree.toml"), "[policy.levels]\n\"git.force-push\" = \"shadow\"\n")
        .unwrap();

    let action =
        Action::shell("git push --force origin feature/x", &repository.tree().display().to_string(), None);
    let decision = gate(&repository).check(&action).unwrap();

    assert_eq!(decision.outcome, Outcome::Allow);
    assert_eq!(decision.shadow[0].rule, "git.force-push");
}

#[test]
fn a_misspelled_rule_in_the_configuration_is_an_error() {
    let repository = Repository::new();
    fs::write(repository.main().join("turntree.toml"), "[policy.levels]\n\"git.force\" = \"off\"\n").unwrap();

    let error = Project::find(&repository.tree()).unwrap_err().to_string();

    assert!(error.contains("git.force") && error.contains("turntree policy list"), "{error}");
}

#[test]
fn an_exception_makes_a_rule_warn() {
    let repository = Repository::new();
    let gate = gate(&repository);
    let action =
        Action::shell("git push --force origin feature/x", &repository.tree().display().to_string(), None);
    assert!(matches!(gate.enforce(&action), Err(HarnessError::PolicyViolation(_))));

    overrides::add(gate.project(), gate.state(), "git.force-push", "a test", "me", 60).unwrap();

    assert_eq!(gate.check(&action).unwrap().outcome, Outcome::Warn);
}

#[test]
fn the_audit_has_every_decision_and_notices_a_change() {
    let repository = Repository::new();
    let gate = gate(&repository);
    let tree = repository.tree().display().to_string();
    for command in ["ls", "git push -f", "cargo test"] {
        gate.check(&Action::shell(command, &tree, None)).unwrap();
    }
    assert_eq!(audit::verify(gate.state()).unwrap(), 3);
    let outcomes: Vec<_> =
        audit::entries(gate.state(), 10).unwrap().into_iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, ["allow", "deny", "allow"]);

    let file = repository.main().join(".turntree/state.db");
    gate.state().close().unwrap();
    let connection = rusqlite::Connection::open(&file).unwrap();
    assert!(connection.execute("DELETE FROM policy_event", []).is_err());
    connection
        .execute_batch(
            "DROP TRIGGER policy_event_no_update; UPDATE policy_event SET outcome = 'allow' WHERE number = 2",
        )
        .unwrap();
    drop(connection);
    let error = audit::verify(Gate::load(gate.project()).unwrap().state()).unwrap_err();

    assert!(matches!(error, HarnessError::IntegrityViolation(_)), "{error}");
}

#[test]
fn the_audit_notices_that_its_newest_entries_were_removed() {
    let repository = Repository::new();
    let tree = repository.tree().display().to_string();
    let first = gate(&repository);
    for command in ["ls", "git push -f", "cargo test"] {
        first.check(&Action::shell(command, &tree, None)).unwrap();
    }
    first.state().close().unwrap();
    let connection = rusqlite::Connection::open(repository.main().join(".turntree/state.db")).unwrap();
    connection
        .execute_batch("DROP TRIGGER policy_event_no_delete; DELETE FROM policy_event WHERE number > 1")
        .unwrap();
    drop(connection);

    let next = gate(&repository);
    assert!(matches!(audit::verify(next.state()), Err(HarnessError::IntegrityViolation(_))));
    next.check(&Action::shell("ls", &tree, None)).unwrap();

    assert!(matches!(audit::verify(next.state()), Err(HarnessError::IntegrityViolation(_))));
}

#[test]
fn a_commit_after_a_checkout_changes_the_branch_that_is_checked_out() {
    let repository = Repository::new();
    let gate = gate(&repository);
    let tree = repository.tree().display().to_string();
    let outcome = |command: &str| gate.check(&Action::shell(command, &tree, None)).unwrap().outcome;

    assert_eq!(outcome("git checkout main && git commit -qm x"), Outcome::Deny);
    assert_eq!(outcome("git switch -q main; git merge feature/x"), Outcome::Deny);
    assert_eq!(outcome("git checkout -q -B main && git commit -qm x"), Outcome::Deny);
    assert_eq!(outcome("git checkout - && git commit -qm x"), Outcome::Ask);
    assert_eq!(outcome("git switch \"$BRANCH\" && git commit -qm x"), Outcome::Ask);
    assert_eq!(outcome("git checkout -b feature/y && git commit -qm x"), Outcome::Allow);
    assert_eq!(outcome("git commit -qm x && git switch main"), Outcome::Allow);
}

#[test]
fn configured_aliases_of_git_are_followed() {
    let repository = Repository::new();
    let tree = repository.tree();
    for (name, value) in
        [("yolo", "push --force"), ("wipe", "!git reset --hard; echo"), ("again", "yolo"), ("st", "status")]
    {
        git(&tree, &["config", &format!("alias.{name}"), value]);
    }
    let gate = gate(&repository);
    let cwd = tree.display().to_string();
    let outcome = |command: &str| gate.check(&Action::shell(command, &cwd, None)).unwrap().outcome;

    assert_eq!(outcome("git yolo origin feature/x"), Outcome::Deny);
    assert_eq!(outcome("git YOLO"), Outcome::Deny);
    assert_eq!(outcome("git again"), Outcome::Deny);
    assert_ne!(outcome("git wipe"), Outcome::Allow);
    assert_eq!(outcome("git st"), Outcome::Allow);
    assert_eq!(outcome("git unknown"), outcome("git status"));
    let many: Vec<String> = (0..20).map(|number| format!("git -C /tmp/{number} unknown")).collect();
    assert_ne!(outcome(&many.join(";")), Outcome::Allow);
}

#[test]
fn a_commit_of_source_without_tests_warns() {
    let repository = Repository::new();
    fs::write(repository.tree().join("b.rs"), "fn b() {}\n").unwrap();
    git(&repository.tree(), &["add", "."]);
    let tree = repository.tree().display().to_string();
    let commit = Action::shell("git commit -m x", &tree, None);
    assert_eq!(gate(&repository).check(&commit).unwrap().rules[0].finding.rule, "review.tests");

    fs::create_dir(repository.tree().join("tests")).unwrap();
    fs::write(repository.tree().join("tests/b.rs"), "").unwrap();
    git(&repository.tree(), &["add", "."]);

    assert_eq!(gate(&repository).check(&commit).unwrap().outcome, Outcome::Allow);
}

#[test]
fn a_branch_far_behind_its_base_warns_then_denies() {
    let repository = Repository::new();
    fs::write(repository.main().join("turntree.toml"), "[policy]\nbehind_warn = 0\nbehind_deny = 1\n")
        .unwrap();
    let push = Action::shell("git push origin feature/x", &repository.tree().display().to_string(), None);
    git(&repository.main(), &["commit", "-q", "--allow-empty", "-m", "One"]);
    assert_eq!(gate(&repository).check(&push).unwrap().outcome, Outcome::Warn);

    git(&repository.main(), &["commit", "-q", "--allow-empty", "-m", "Two"]);

    assert_eq!(gate(&repository).check(&push).unwrap().outcome, Outcome::Deny);
}
