//! What announcements of several agents have in common; names of files in several spellings.

use std::fs;

use proptest::prelude::*;
use serde_json::json;
use turntree_harness::coordination::Coordination;
use turntree_harness::coordination::claims::Mode;
use turntree_harness::coordination::overlaps::{Relation, Risk, Suggestion};
use turntree_harness::hooks::handle;
use turntree_harness::path::{composed, have_common_match, matches};
use turntree_harness::{HarnessError, Project};

use crate::support::Repository;

fn work(repository: &Repository) -> Coordination {
    let project = Project::find(&repository.tree()).unwrap();
    let state = project.state().unwrap();
    Coordination::new(&project, state)
}

/// How the announcements of another agent and of this one overlap.
fn relation(work: &Coordination, other: &str, own: &str) -> Option<Relation> {
    work.announce("other", other, "editing", "").unwrap();
    let found = work.announce("own", own, "editing", "").unwrap();
    for (agent, resource) in [("other", other), ("own", own)] {
        assert!(work.complete(agent, resource).unwrap());
    }
    found.overlaps.first().map(|overlap| overlap.relation)
}

#[test]
fn files_folders_and_patterns_overlap() {
    let repository = Repository::new();
    let work = work(&repository);
    let cases = [
        ("file:src/a.rs", "file:./src/b/../a.rs", Some(Relation::Same)),
        ("port:80", "port:80", Some(Relation::Same)),
        ("dir:src", "file:src/parser/a.rs", Some(Relation::Inside)),
        ("file:src/**/*.rs", "file:src/parser/a.rs", Some(Relation::Inside)),
        ("file:src/*.rs", "dir:src", Some(Relation::Inside)),
        ("file:src/*.rs", "file:*/a.*", Some(Relation::Inside)),
        ("dir:.", "file:src/a.rs", Some(Relation::Inside)),
        ("dir:src/parser", "dir:src", Some(Relation::Inside)),
        ("file:src/a.rs", "file:src/b.rs", Some(Relation::Folder)),
        ("file:a.rs", "file:b.rs", None),
        ("file:src/*.rs", "file:src/a.py", None),
        ("file:src/*.rs", "file:src/parser/a.rs", None),
        ("dir:src", "file:srcs/a.rs", None),
        ("dir:src", "file:src.rs", None),
        ("port:80", "port:81", None),
        ("port:80", "file:80", None),
    ];
    for (other, own, expected) in cases {
        assert_eq!(relation(&work, other, own), expected, "{other} and {own}");
        assert_eq!(relation(&work, own, other), expected, "{own} and {other}");
    }
}

#[test]
fn the_risk_grows_with_what_others_do() {
    let repository = Repository::new();
    let work = work(&repository);
    let own = |intent: &str| {
        let found = work.announce("own", "file:src/a.rs", intent, "").unwrap();
        (found.risk, found.suggestion, found.order)
    };
    let order = |agents: &[&str]| agents.iter().map(|agent| (*agent).to_owned()).collect::<Vec<_>>();
    assert_eq!(own("editing"), (Risk::None, Suggestion::ParallelOk, Vec::new()));

    work.announce("anna", "dir:src", "reviewing", "").unwrap();
    assert_eq!(own("editing"), (Risk::Low, Suggestion::ParallelOk, order(&["anna", "own"])));
    work.announce("ben", "file:src/b.rs", "editing", "").unwrap();
    assert_eq!(own("editing"), (Risk::Medium, Suggestion::MergeOrder, order(&["anna", "ben", "own"])));
    assert_eq!(own("testing").2, order(&["anna", "own", "ben"]));
    work.announce("ben", "file:src/*", "editing", "").unwrap();
    assert_eq!(own("editing").0, Risk::High);
    work.leave("anna").unwrap();
    assert_eq!(own("editing").0, Risk::Medium);
    work.announce("ben", "file:src/a.rs", "refactoring", "").unwrap();
    assert_eq!(own("editing"), (Risk::High, Suggestion::Sequence, order(&["own", "ben"])));
    work.announce("cleo", "file:src/a.rs", "an intent of its own", "").unwrap();
    assert_eq!(own("reviewing").0, Risk::Critical);
}

#[test]
fn a_resource_that_is_too_long_to_compare_is_refused() {
    let repository = Repository::new();
    let work = work(&repository);

    let error = work.announce("a", &format!("file:{}", "*a".repeat(600)), "editing", "").unwrap_err();

    assert!(matches!(&error, HarnessError::Invalid(text) if text.contains("1024")), "{error}");
}

/// `é` as one character, and as two.
const NAMES: [&str; 2] = ["caf\u{e9}.rs", "cafe\u{301}.rs"];

#[test]
fn two_spellings_of_a_name_are_one_file() {
    let repository = Repository::new();
    let work = work(&repository);
    let [one, two] = NAMES.map(|name| format!("file:src/{name}"));
    assert_ne!(one, two);

    let lease = work.claim("a", &one, Mode::Exclusive, 60_000).unwrap();
    let error = work.claim("b", &two, Mode::Exclusive, 60_000).unwrap_err();
    assert!(matches!(error, HarnessError::ClaimConflict { .. }), "{error}");
    assert_eq!(lease.resource, composed(&two));
    assert_eq!(relation(&work, &one, &two), Some(Relation::Same));
    assert!(matches("**/caf\u{e9}.*", &two) && matches(&two, &one));
}

#[test]
fn a_hook_finds_the_announcement_of_a_file_in_another_spelling() {
    let repository = Repository::new();
    let tree = repository.tree();
    let edit = |session: &str, name: &str| {
        fs::write(tree.join(name), "").unwrap();
        let event = json!({"hook_event_name": "PreToolUse", "session_id": session, "cwd": tree, "tool_name": "Write",
            "tool_input": {"file_path": tree.join(name), "content": "x"}});
        handle("claude", event.to_string().as_bytes(), &tree)
    };
    assert_eq!(edit("one", NAMES[0]).exit, 0);

    let reply = edit("two", NAMES[1]);

    assert_eq!(reply.exit, 2);
    assert!(reply.stderr.contains("coordination.collision"), "{reply:?}");
}

proptest! {
    #[test]
    fn patterns_that_match_a_text_have_a_common_match(
        left in "[ab/*?]{0,8}", right in "[ab/*?]{0,8}", text in "[ab/]{0,6}",
    ) {
        if matches(&left, &text) && matches(&right, &text) {
            prop_assert!(have_common_match(&left, &right), "{left} {right} {text}");
        }
        prop_assert_eq!(have_common_match(&left, &text), matches(&left, &text), "{} {}", left, text);
        prop_assert_eq!(have_common_match(&left, &right), have_common_match(&right, &left));
        prop_assert!(have_common_match(&left, &left));
    }
}
