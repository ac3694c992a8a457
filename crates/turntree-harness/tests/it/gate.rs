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
