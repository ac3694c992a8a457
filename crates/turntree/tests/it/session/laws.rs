//! Random operations on a session, checked against a simple model.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use turntree::agents::SessionError;
use turntree::agents::session::CheckpointInterval;
use turntree::agents::session::journal::Journal;
use turntree::agents::types::Verdict;
use turntree::agents::types::approval_required;

use super::{Fixture, ids_of, poll_at_most, reachable};
use crate::support::agents::{block_on, clock};
use crate::support::with_cases;

/// An operation on a session; the numbers choose nodes and checkpoints and limit the polls of a run.
#[derive(Debug, Clone)]
enum Operation {
    Run(u8),
    Fail(u8),
    Drop(u8, usize),
    Abort(u8, usize),
    /// A run whose tool rounds need approval.
    Ask(u8),
    /// Approves or denies one pending call.
    Decide(usize, bool),
    Discard,
    Resume,
    Restore(usize),
    Fork(usize),
    Checkout(usize),
    Merge(usize, usize),
    Reload,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let any = || 0..1000_usize;
    let operation = prop_oneof![
        4 => (0..3_u8).prop_map(Operation::Run),
        2 => (0..3_u8).prop_map(Operation::Fail),
        2 => (0..3_u8, 0..60_usize).prop_map(|(rounds, polls)| Operation::Drop(rounds, polls)),
        1 => (1..3_u8, 0..30_usize).prop_map(|(rounds, polls)| Operation::Abort(rounds, polls)),
        2 => (1..3_u8).prop_map(Operation::Ask),
        3 => (any(), proptest::bool::ANY).prop_map(|(call, may)| Operation::Decide(call, may)),
        1 => Just(Operation::Discard),
        3 => Just(Operation::Resume),
        4 => any().prop_map(Operation::Restore),
        1 => any().prop_map(Operation::Fork),
        2 => any().prop_map(Operation::Checkout),
        1 => (any(), any()).prop_map(|(source, target)| Operation::Merge(source, target)),
        2 => Just(Operation::Reload),
    ];
    proptest::collection::vec(operation, 0..14)
}

/// The expected state after a restore: the history, and the messages that the next run also sees.
#[derive(Debug, Clone, PartialEq)]
struct Expected {
    history: Vec<String>,
    pending: Vec<String>,
}

/// A session and the model of its state.
struct ModelTest {
    fixture: Fixture,
    /// By checkpoint id, updated when the run of the checkpoint ends.
    expectations: HashMap<String, Expected>,
    /// The ids of all messages that were ever in the tree.
    ever: HashSet<String>,
    /// The session's log, which gets an entry after each operation.
    journal: Journal,
    log: Vec<String>,
}

impl ModelTest {
    fn after(interval: CheckpointInterval, operations: &[Operation]) -> Result<Self, TestCaseError> {
        let mut test = Self {
            fixture: Fixture::new(interval),
            expectations: HashMap::new(),
            ever: HashSet::new(),
            journal: Journal::default(),
            log: Vec::new(),
        };
        for operation in operations {
            test.apply(operation)?;
            test.check()?;
        }
        Ok(test)
    }

    fn node(&self, number: usize) -> String {
        let tree = self.fixture.session.tree().snapshot();
        tree.nodes().nth(number % tree.node_count()).unwrap().id.to_string()
    }

    fn history(&self) -> Vec<String> {
        ids_of(&self.fixture.session.tree().snapshot().history())
    }

    fn pending(&self) -> Vec<String> {
        let left = self.fixture.session.unfinished().filter(|left| left.restored);
        left.map(|left| ids_of(&left.messages())).unwrap_or_default()
    }

    /// Records the expected states of the checkpoints that a run created. After the run is committed, the state of its
    /// last checkpoint is the end of the run.
    fn record_checkpoints(&mut self, known: usize, before: &[String], beside: &[String], ended: bool) {
        let checkpoints = self.fixture.session.checkpoints();
        for checkpoint in &checkpoints[known..] {
            let pending = [beside, &ids_of(&checkpoint.state().messages)[..]].concat();
            self.expectations
                .insert(checkpoint.id.to_string(), Expected { history: before.to_vec(), pending });
        }
        if let (true, Some(last)) = (ended, self.fixture.session.current_checkpoint())
            && !last.is_resumable()
            && !self.expectations[&*last.id].pending.is_empty()
        {
            let expected_state = Expected { history: self.history_at(&last), pending: Vec::new() };
            self.expectations.insert(last.id.to_string(), expected_state);
        }
    }

    fn history_at(&self, checkpoint: &turntree::agents::Checkpoint) -> Vec<String> {
        let tree = self.fixture.session.tree().snapshot();
        ids_of(&tree.history_of(checkpoint.position.node.as_str()).unwrap())
    }

    fn run(&mut self, text: &str, polls: Option<usize>) -> Result<(), TestCaseError> {
        let (known, before) = (self.fixture.session.checkpoints().len(), self.history());
        let here = self.fixture.session.unfinished().is_some_and(|left| {
            let tree = self.fixture.session.tree().snapshot();
            left.position.node == tree.current().id
                && left.position.length == Some(tree.current().thread.messages.len())
        });
        let beside = if here { self.pending() } else { Vec::new() };
        let context = self.fixture.context();
        let mut run = Box::pin(self.fixture.session.run(text, context));
        let ended = match polls {
            None => Some(block_on(run.as_mut())),
            Some(polls) => poll_at_most(run.as_mut(), polls),
        };
        drop(run);
        if let Some(Ok(turn)) = ended {
            let turn_ids = ids_of(&turn.messages.iter().cloned().collect());
            prop_assert_eq!(self.history(), [&before[..], &beside, &turn_ids].concat());
            self.record_checkpoints(known, &before, &beside, true);
        } else {
            prop_assert_eq!(self.history(), before.clone(), "a run that did not end changed the history");
            self.record_checkpoints(known, &before, &beside, false);
        }
        Ok(())
    }

    /// True if calls wait for a decision, or decided calls wait for a resume.
    fn waits(&self) -> bool {
        let text = self.fixture.session.to_json().unwrap();
        text.contains(r#"{"asked":{"#) || text.contains(r#"{"decided":{"#)
    }

    /// Checks that a new run is refused, because it would drop pending approvals.
    fn check_new_run_is_refused(&self) -> Result<(), TestCaseError> {
        let before = self.fixture.session.to_json().unwrap();
        let refused = block_on(self.fixture.session.run("0", self.fixture.context()));
        let is_refused = matches!(refused, Err(SessionError::OpenApprovals { .. }));
        prop_assert!(is_refused);
        prop_assert_eq!(self.fixture.session.to_json().unwrap(), before);
        Ok(())
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        let failing = matches!(operation, Operation::Fail(_));
        self.fixture.model.failing.store(failing, Ordering::Relaxed);
        let runs = matches!(
            operation,
            Operation::Run(_)
                | Operation::Fail(_)
                | Operation::Ask(_)
                | Operation::Drop(..)
                | Operation::Abort(..)
        );
        if runs && self.waits() {
            return self.check_new_run_is_refused();
        }
        match *operation {
            Operation::Ask(rounds) => self.run(&format!("{rounds}?"), None)?,
            Operation::Decide(number, may) => self.decide(number, may)?,
            Operation::Discard => {
                let was = self.fixture.session.unfinished().is_some();
                prop_assert_eq!(self.fixture.session.discard().unwrap(), was);
                prop_assert!(!self.waits());
            }
            Operation::Run(rounds) => self.run(&rounds.to_string(), None)?,
            Operation::Fail(rounds) => self.run(&format!("{rounds}!"), None)?,
            Operation::Drop(rounds, polls) => self.run(&rounds.to_string(), Some(polls))?,
            Operation::Abort(rounds, polls) => self.abort(rounds, polls)?,
            Operation::Resume => self.resume()?,
            Operation::Restore(number) => self.restore(number)?,
            Operation::Fork(number) => {
                self.fixture.session.fork(&self.node(number)).unwrap();
            }
            Operation::Checkout(number) => {
                let node = self.node(number);
                self.fixture.session.tree().lock().checkout(&node).unwrap();
            }
            Operation::Merge(source, target) => {
                let (source, target) = (self.node(source), self.node(target));
                self.fixture.session.tree().lock().merge(&source, &target, &clock()).unwrap();
            }
            Operation::Reload => self.reload(),
        }
        Ok(())
    }

    fn decide(&self, number: usize, may: bool) -> Result<(), TestCaseError> {
        let pending = self.fixture.session.pending();
        let Some(call) = pending.get(number % pending.len().max(1)) else { return Ok(()) };
        let verdict = if may { Verdict::Approved } else { Verdict::Denied { reason: None } };
        self.fixture.session.decide_call(call, verdict, None).unwrap();
        prop_assert_eq!(self.fixture.session.pending().len(), pending.len() - 1);
        Ok(())
    }

    fn abort(&mut self, rounds: u8, polls: usize) -> Result<(), TestCaseError> {
        let (known, before) = (self.fixture.session.checkpoints().len(), self.history());
        // A run restored at another position is not part of this history.
        let current = self.fixture.session.tree().snapshot().current().clone();
        let left = self.fixture.session.unfinished().filter(|left| {
            left.restored
                && left.position.node == current.id
                && left.position.length == Some(current.thread.messages.len())
        });
        let beside = left.map(|left| ids_of(&left.messages())).unwrap_or_default();
        let mut stream = self.fixture.session.stream(rounds.to_string(), self.fixture.context()).unwrap();
        let _ended = poll_at_most(Box::pin(stream.turn()).as_mut(), polls);
        stream.abort();
        let turn = block_on(stream.turn()).unwrap();
        let turn_ids = ids_of(&turn.messages.iter().cloned().collect());
        if self.fixture.session.unfinished().is_none() {
            prop_assert_eq!(self.history(), [&before[..], &beside, &turn_ids].concat());
        }
        self.record_checkpoints(known, &before, &beside, true);
        Ok(())
    }

    fn resume(&mut self) -> Result<(), TestCaseError> {
        let session = &self.fixture.session;
        let known = session.checkpoints().len();
        let Some(left) = session.unfinished().filter(|_| session.is_resumable()) else {
            let refused = block_on(session.resume(self.fixture.context()));
            let is_refused = matches!(refused, Err(SessionError::NothingToResume { .. }));
            prop_assert!(is_refused);
            return Ok(());
        };
        let tree = session.tree().snapshot();
        let node = tree.node(left.position.node.as_str()).unwrap();
        let after = node.thread.messages.len() - left.position.length.unwrap();
        let whole = ids_of(&tree.history_of(node.id.as_str()).unwrap());
        let history = whole[..whole.len() - after].to_vec();
        let ended = block_on(session.resume(self.fixture.context()));
        if let Err(error) = &ended {
            // Only pending approvals stop a run here.
            prop_assert!(matches!(error, SessionError::Run(error) if approval_required(error).is_some()));
            prop_assert!(!session.pending().is_empty());
            let unchanged = session.tree().snapshot().history_of(node.id.as_str()).unwrap();
            prop_assert_eq!(ids_of(&unchanged), whole);
        }
        let beside = ids_of(&left.uncommitted);
        self.record_checkpoints(known, &history, &beside, ended.is_ok());
        Ok(())
    }

    fn restore(&self, number: usize) -> Result<(), TestCaseError> {
        let checkpoints = self.fixture.session.checkpoints();
        if checkpoints.is_empty() {
            return Ok(());
        }
        let id = checkpoints[number % checkpoints.len()].id.to_string();
        let everything = reachable(&self.fixture.session);
        block_on(self.fixture.session.restore(&id)).unwrap();
        let actual = Expected { history: self.history(), pending: self.pending() };
        prop_assert_eq!(&actual, &self.expectations[&id]);
        prop_assert_eq!(&*self.fixture.session.current_checkpoint().unwrap().id, id.as_str());
        prop_assert_eq!(reachable(&self.fixture.session), everything);
        Ok(())
    }

    /// Continues with the session as its log has it.
    fn reload(&mut self) {
        if !self.log.is_empty() {
            self.journal = Journal::read(self.log.iter().map(String::as_str)).unwrap();
        }
        self.fixture.session = match self.journal.snapshot() {
            Some(snapshot) => self.fixture.continued(snapshot.clone()),
            None => self.fixture.reloaded(),
        };
    }

    /// Appends an entry to the log, and checks that the log leads to the session's state.
    fn check_log(&mut self) -> Result<(), TestCaseError> {
        let snapshot = self.fixture.session.snapshot().unwrap();
        let prepared = self.journal.prepare(snapshot).unwrap();
        self.log.push(prepared.text().to_owned());
        self.journal.commit(prepared);

        let read = Journal::read(self.log.iter().map(String::as_str)).unwrap();
        let read = self.fixture.continued(read.snapshot().unwrap().clone());
        prop_assert_eq!(read.to_json().unwrap(), self.fixture.session.to_json().unwrap());
        let again = self.journal.prepare(self.fixture.session.snapshot().unwrap()).unwrap();
        let rest = again.text().len();
        let unchanged = r#"{"session":{}}"#.len();
        prop_assert!(rest == unchanged || self.fixture.session.unfinished().is_some(), "{}", again.text());
        Ok(())
    }

    /// Checks the invariants of a session.
    fn check(&mut self) -> Result<(), TestCaseError> {
        self.check_log()?;
        let session = &self.fixture.session;
        let text = session.to_json().unwrap();
        let loaded = self.fixture.load(&text);
        prop_assert_eq!(loaded.snapshot().unwrap(), session.snapshot().unwrap());
        prop_assert_eq!(loaded.to_json().unwrap(), text);
        let now = reachable(session);
        prop_assert!(self.ever.is_subset(&now), "messages were lost");
        self.ever = now;
        let ids: HashSet<_> =
            session.checkpoints().iter().map(|checkpoint| checkpoint.id.to_string()).collect();
        prop_assert_eq!(ids.len(), session.checkpoints().len());
        prop_assert!(ids.iter().all(|id| self.expectations.contains_key(id)));
        Ok(())
    }
}

#[test]
fn the_checkpoints_of_a_resumed_run_are_in_one_run_of_the_log() {
    use Operation::{Abort, Ask, Drop, Restore, Resume};
    // Another run has been written since.
    ModelTest::after(CheckpointInterval::Step, &[Abort(2, 19), Ask(1), Restore(0), Resume]).unwrap();

    // The log has data of the run after its first checkpoint, and the resumed run has other data there.
    let mut rewritten = 0;
    for polls in 0..40 {
        let operations = [Drop(2, polls), Restore(0), Resume];
        let test = ModelTest::after(CheckpointInterval::Step, &operations).unwrap();
        let last = test.log.last().unwrap();
        rewritten +=
            usize::from(last.contains(r#""checkpoints":[{"index":0,"#) && last.contains(r#"{"index":1,"#));
    }
    assert!(rewritten > 0, "no run was dropped between two checkpoints");
}

proptest! {
    #![proptest_config(with_cases(48))]

    #[test]
    fn every_checkpoint_can_be_restored_after_any_operations(operations in operations()) {
        let test = ModelTest::after(CheckpointInterval::Step, &operations)?;

        // Every checkpoint can be restored, in any order and in another process.
        let copy = test.fixture.reloaded();
        for (id, expected_state) in &test.expectations {
            block_on(copy.restore(id)).unwrap();
            let pending = copy.unfinished().map(|left| ids_of(&left.messages())).unwrap_or_default();
            let history = ids_of(&copy.tree().snapshot().history());
            prop_assert_eq!(&Expected { history, pending }, expected_state);
        }
    }

    #[test]
    fn the_invariants_hold_with_one_checkpoint_for_each_turn(operations in operations()) {
        ModelTest::after(CheckpointInterval::Turn, &operations)?;
    }

    #[test]
    fn a_reloaded_session_continues_like_the_original(operations in operations()) {
        let test = ModelTest::after(CheckpointInterval::Step, &operations)?;
        test.fixture.model.failing.store(false, Ordering::Relaxed);
        let twin = test.fixture.reloaded();

        let ends = [&test.fixture.session, &twin].map(|session| {
            let resumed = loop {
                for call in session.pending() {
                    session.decide_call(&call, Verdict::Approved, None).unwrap();
                }
                let resumed = block_on(session.resume(test.fixture.context()));
                if session.pending().is_empty() {
                    break resumed.ok();
                }
            };
            let turn = block_on(session.run("1", test.fixture.context())).unwrap();
            (resumed.map(|turn| turn.messages.len()), turn.messages.len(), ids_of(&session.tree().snapshot().history()).len())
        });

        prop_assert_eq!(ends[0], ends[1]);
    }
}
