//! Claims, messages, slots and worktrees.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use turntree_core::time::{Clock, Timestamp};
use turntree_harness::coordination::Coordination;
use turntree_harness::coordination::claims::Mode;
use turntree_harness::{HarnessError, Project};

use crate::support::{Repository, git};

/// A clock that a test moves.
#[derive(Debug)]
struct Manual(AtomicI64);

impl Clock for Manual {
    fn now(&self) -> Timestamp {
        Timestamp::from_microseconds(self.0.load(Ordering::SeqCst) * 1_000)
    }
}

fn work(repository: &Repository) -> (Coordination, Arc<Manual>) {
    let clock = Arc::new(Manual(AtomicI64::new(1_000_000)));
    let project = Project::find_with_clock(&repository.tree(), clock.clone()).unwrap();
    let state = project.state().unwrap();
    (Coordination::new(&project, state), clock)
}

#[test]
fn an_exclusive_claim_keeps_others_out_until_it_is_released() {
    let repository = Repository::new();
    let (work, _) = work(&repository);
    let lease = work.claim("a", "file:src/x.rs", Mode::Exclusive, 1_000).unwrap();

    let error = work.claim("b", "file:./src/../src/x.rs", Mode::Shared, 1_000).unwrap_err();
    assert!(matches!(&error, HarnessError::ClaimConflict { holder, .. } if holder == "a"), "{error}");

    assert!(work.release(&lease).unwrap());
    assert!(!work.release(&lease).unwrap());
    let next = work.claim("b", "file:src/x.rs", Mode::Exclusive, 1_000).unwrap();
    assert!(next.token > lease.token);
}

#[test]
fn a_file_has_one_name_in_claims() {
    let repository = Repository::new();
    let (work, _) = work(&repository);
    work.claim("a", "file:src/x.rs", Mode::Exclusive, 1_000).unwrap();

    for folder in [repository.main(), repository.tree()] {
        let absolute = format!("file:{}/src/x.rs", folder.display());
        let error = work.claim("b", &absolute, Mode::Exclusive, 1_000).unwrap_err();
        assert!(matches!(error, HarnessError::ClaimConflict { .. }), "{error}");
    }
    for outside in ["file:../x.rs", "file:/etc/hosts", "dir:.."] {
        let error = work.claim("b", outside, Mode::Exclusive, 1_000).unwrap_err();
        assert!(error.to_string().contains("outside of the project"), "{error}");
    }
}

#[test]
fn the_time_of_leases_is_bounded() {
    let repository = Repository::new();
    let (work, _) = work(&repository);
    let lease = work.claim("a", "port:80", Mode::Exclusive, 1_000).unwrap();

    for time in [0, -1, i64::MAX] {
        assert!(matches!(work.claim("a", "port:81", Mode::Exclusive, time), Err(HarnessError::Invalid(_))));
        assert!(matches!(work.renew(&lease, time), Err(HarnessError::Invalid(_))));
        assert!(matches!(work.take_slot("model", "a", 1, time), Err(HarnessError::Invalid(_))));
    }
}

#[test]
fn a_forecast_with_an_unknown_branch_fails() {
    let repository = Repository::new();
    let (work, _) = work(&repository);

    let error = work.forecast("main", "feature/unknown").unwrap_err();

    assert!(error.to_string().contains("feature/unknown"), "{error}");
    assert_eq!(work.forecast("main", "feature/x").unwrap(), Vec::<String>::new());
}

#[test]
fn an_owner_that_claims_twice_releases_twice() {
    let repository = Repository::new();
    let (work, _) = work(&repository);
    let first = work.claim("a", "port:80", Mode::Exclusive, 1_000).unwrap();
    let second = work.claim("a", "port:80", Mode::Exclusive, 1_000).unwrap();
    assert_eq!(first.token, second.token);

    work.release(&second).unwrap();
    assert!(work.claim("b", "port:80", Mode::Exclusive, 1_000).is_err());
    work.release(&first).unwrap();

    assert!(work.claim("b", "port:80", Mode::Exclusive, 1_000).is_ok());
}

#[test]
fn an_expired_claim_is_lost_and_its_token_is_stale() {
    let repository = Repository::new();
    let (work, clock) = work(&repository);
    let old = work.claim("a", "branch:main", Mode::Exclusive, 1_000).unwrap();
    clock.0.fetch_add(1_001, Ordering::SeqCst);

    assert!(!work.is_valid(&old).unwrap() && !work.renew(&old, 1_000).unwrap());
    let new = work.claim("b", "branch:main", Mode::Exclusive, 1_000).unwrap();

    assert!(new.token > old.token);
    assert!(work.is_valid(&new).unwrap());
}

#[test]
fn threads_that_claim_one_resource_hold_it_one_at_a_time() {
    let repository = Repository::new();
    let project = Project::find(&repository.tree()).unwrap();
    let claims = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let project = project.clone();
                scope.spawn(move || {
                    let work = Coordination::new(&project, project.state().unwrap());
                    let mut tokens = Vec::new();
                    for _ in 0..20 {
                        if let Ok(lease) =
                            work.claim(&format!("t{number}"), "task:1", Mode::Exclusive, 60_000)
                        {
                            tokens.push(lease.token);
                            assert_eq!(work.claims().unwrap().len(), 1);
                            assert!(work.release(&lease).unwrap());
                        }
                    }
                    tokens
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let mut sorted = claims.clone();
    sorted.sort_unstable();
    sorted.dedup();

    assert!(!claims.is_empty());
    assert_eq!(sorted.len(), claims.len(), "each lease has a token of its own");
}

#[test]
fn a_broadcast_reaches_each_receiver_once_and_not_its_sender() {
    let repository = Repository::new();
    let (work, _) = work(&repository);
    for agent in ["a", "b", "c"] {
        work.register(agent, "test", "").unwrap();
    }
    work.send("a", None, "general", "hello", 5).unwrap();
    work.send("a", Some("b"), "general", "only you", 9).unwrap();

    let texts =
        |agent: &str| work.inbox(agent).unwrap().into_iter().map(|message| message.text).collect::<Vec<_>>();

    assert_eq!(texts("b"), ["only you", "hello"]);
    assert_eq!(texts("c"), ["hello"]);
    assert!(texts("a").is_empty() && texts("b").is_empty());
}

#[test]
fn an_announcement_of_an_agent_that_is_gone_is_completed_by_the_next() {
    let repository = Repository::new();
    let (work, clock) = work(&repository);
    work.announce("a", "file:x", "editing", "").unwrap();
    assert_eq!(work.announce("b", "file:x", "editing", "").unwrap().overlaps.len(), 1);
    assert!(work.complete("b", "file:x").unwrap());

    clock.0.fetch_add(121_000, Ordering::SeqCst);

    assert!(work.announce("b", "file:x", "editing", "").unwrap().overlaps.is_empty());
    assert_eq!(work.announcements().unwrap().len(), 1);
}

#[test]
fn a_slot_limit_is_halved_by_exhaustion_and_recovers() {
    let repository = Repository::new();
    let (work, clock) = work(&repository);
    let take = || work.take_slot("gpu", "a", 4, 60_000).unwrap();
    let slots: Vec<_> = (0..4).map(|_| take().unwrap()).collect();
    assert!(take().is_none());

    work.give_slot(&slots[0], true).unwrap();
    assert_eq!(work.slot_limit("gpu").unwrap(), Some(2));
    assert!(take().is_none());
    clock.0.fetch_add(10_000, Ordering::SeqCst);
    work.give_slot(&slots[1], false).unwrap();
    assert_eq!(work.slot_limit("gpu").unwrap(), Some(3));

    clock.0.fetch_add(60_000, Ordering::SeqCst);
    assert!(take().is_some(), "slots of holders that are gone end by themselves");
}

#[test]
fn a_worktree_is_created_listed_and_removed() {
    let repository = Repository::new();
    let (work, _) = work(&repository);
    let created = work.create_worktree("parser", None).unwrap();
    assert_eq!((created.name.as_str(), created.branch.as_str()), ("001-parser", "feature/001-parser"));
    assert!(created.path.join("a.rs").exists());
    assert_eq!(work.worktrees().unwrap().len(), 3);

    std::fs::write(created.path.join("new.rs"), "").unwrap();
    let error = work.remove_worktree("001-parser", false).unwrap_err().to_string();
    assert!(error.contains("uncommitted"), "{error}");
    work.remove_worktree("001-parser", true).unwrap();

    assert_eq!(work.worktrees().unwrap().len(), 2);
    assert!(work.create_worktree("../x", None).is_err());
}

#[test]
fn a_forecast_names_the_files_that_would_conflict() {
    let repository = Repository::new();
    let (work, _) = work(&repository);
    std::fs::write(repository.main().join("a.rs"), "fn main() {}\n").unwrap();
    git(&repository.main(), &["commit", "-qam", "Main"]);
    assert!(work.forecast("main", "feature/x").unwrap().is_empty());

    std::fs::write(repository.tree().join("a.rs"), "fn tree() {}\n").unwrap();
    git(&repository.tree(), &["commit", "-qam", "Tree"]);

    assert_eq!(work.forecast("main", "feature/x").unwrap(), ["a.rs"]);
}
