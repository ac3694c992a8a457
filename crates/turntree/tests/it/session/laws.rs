//! A session beside the plainest one there is, through any steps.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use turntree::agents::SessionError;
use turntree::agents::session::CheckpointInterval;
use turntree::agents::types::Verdict;
use turntree::agents::types::approval_required;

use super::{World, ids_of, poll_at_most, reachable};
use crate::support::agents::{block_on, clock};

/// What is done to a session; numbers choose nodes, checkpoints and how far a run comes.
#[derive(Debug, Clone)]
enum Step {
    Run(u8),
    Fail(u8),
    Drop(u8, usize),
    Abort(u8, usize),
    /// A run whose rounds wait for a person.
    Ask(u8),
    /// Decides about one pending call: which, and whether it may run.
    Decide(usize, bool),
    Discard,
    Resume,
    Restore(usize),
    Fork(usize),
    Checkout(usize),
    Merge(usize, usize),
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any = || 0..1000_usize;
    let step = prop_oneof![
        4 => (0..3_u8).prop_map(Step::Run),
        2 => (0..3_u8).prop_map(Step::Fail),
        2 => (0..3_u8, 0..60_usize).prop_map(|(rounds, polls)| Step::Drop(rounds, polls)),
        1 => (1..3_u8, 0..30_usize).prop_map(|(rounds, polls)| Step::Abort(rounds, polls)),
        2 => (1..3_u8).prop_map(Step::Ask),
        3 => (any(), proptest::bool::ANY).prop_map(|(call, may)| Step::Decide(call, may)),
        1 => Just(Step::Discard),
        3 => Just(Step::Resume),
        4 => any().prop_map(Step::Restore),
        1 => any().prop_map(Step::Fork),
        2 => any().prop_map(Step::Checkout),
        1 => (any(), any()).prop_map(|(source, target)| Step::Merge(source, target)),
        2 => Just(Step::Reload),
    ];
    proptest::collection::vec(step, 0..14)
}

/// What a checkpoint promises: the history, and what the next run sees beside it.
#[derive(Debug, Clone, PartialEq)]
struct Promise {
    history: Vec<String>,
    pending: Vec<String>,
}

/// A session, and what is known of it without it.
struct Pair {
    world: World,
    /// By the ids of checkpoints, as they were when they were made or their run ended.
    promises: HashMap<String, Promise>,
    /// Everything that was ever in the tree.
    ever: HashSet<String>,
}

impl Pair {
    fn after(interval: CheckpointInterval, steps: &[Step]) -> Result<Self, TestCaseError> {
        let mut pair = Self { world: World::new(interval), promises: HashMap::new(), ever: HashSet::new() };
        for step in steps {
            pair.take(step)?;
            pair.check()?;
        }
        Ok(pair)
    }

    fn node(&self, number: usize) -> String {
        let tree = self.world.session.tree().snapshot();
        tree.nodes().nth(number % tree.node_count()).unwrap().id.to_string()
    }

    fn history(&self) -> Vec<String> {
        ids_of(&self.world.session.tree().snapshot().history())
    }

    fn pending(&self) -> Vec<String> {
        let left = self.world.session.unfinished().filter(|left| left.restored);
        left.map(|left| ids_of(&left.messages())).unwrap_or_default()
    }

    /// Notes what the checkpoints that a run has made promise. That of its last step promises the end once the run is in
    /// the tree.
    fn note(&mut self, known: usize, before: &[String], beside: &[String], ended: bool) {
        let points = self.world.session.checkpoints();
        for point in &points[known..] {
            let pending = [beside, &ids_of(&point.state().messages)[..]].concat();
            self.promises.insert(point.id.to_string(), Promise { history: before.to_vec(), pending });
        }
        if let (true, Some(last)) = (ended, self.world.session.current_checkpoint())
            && !last.is_resumable()
            && !self.promises[&*last.id].pending.is_empty()
        {
            let promise = Promise { history: self.history_at(&last), pending: Vec::new() };
            self.promises.insert(last.id.to_string(), promise);
        }
    }

    fn history_at(&self, point: &turntree::agents::Checkpoint) -> Vec<String> {
        let tree = self.world.session.tree().snapshot();
        ids_of(&tree.history_of(point.position.node.as_str()).unwrap())
    }

    fn run(&mut self, text: &str, polls: Option<usize>) -> Result<(), TestCaseError> {
        let (known, before) = (self.world.session.checkpoints().len(), self.history());
        let here = self.world.session.unfinished().is_some_and(|left| {
            let tree = self.world.session.tree().snapshot();
            left.position.node == tree.current().id
                && left.position.length == Some(tree.current().thread.messages.len())
        });
        let beside = if here { self.pending() } else { Vec::new() };
        let context = self.world.context();
        let mut run = Box::pin(self.world.session.run(text, context));
        let ended = match polls {
            None => Some(block_on(run.as_mut())),
            Some(polls) => poll_at_most(run.as_mut(), polls),
        };
        drop(run);
        if let Some(Ok(turn)) = ended {
            let said = ids_of(&turn.messages.iter().cloned().collect());
            prop_assert_eq!(self.history(), [&before[..], &beside, &said].concat());
            self.note(known, &before, &beside, true);
        } else {
            prop_assert_eq!(self.history(), before.clone(), "a run that did not end added something");
            self.note(known, &before, &beside, false);
        }
        Ok(())
    }

    /// Whether calls wait for a decision, or for the run to be taken up after it.
    fn waits(&self) -> bool {
        let text = self.world.session.to_json().unwrap();
        text.contains(r#"{"asked":{"#) || text.contains(r#"{"decided":{"#)
    }

    /// A new run would drop what a person was asked about.
    fn is_refused(&self) -> Result<(), TestCaseError> {
        let before = self.world.session.to_json().unwrap();
        let refused = block_on(self.world.session.run("0", self.world.context()));
        let is_refused = matches!(refused, Err(SessionError::OpenApprovals { .. }));
        prop_assert!(is_refused);
        prop_assert_eq!(self.world.session.to_json().unwrap(), before);
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let failing = matches!(step, Step::Fail(_));
        self.world.model.failing.store(failing, Ordering::Relaxed);
        let runs =
            matches!(step, Step::Run(_) | Step::Fail(_) | Step::Ask(_) | Step::Drop(..) | Step::Abort(..));
        if runs && self.waits() {
            return self.is_refused();
        }
        match *step {
            Step::Ask(rounds) => self.run(&format!("{rounds}?"), None)?,
            Step::Decide(number, may) => {
                let pending = self.world.session.pending();
                let Some(call) = pending.get(number % pending.len().max(1)) else { return Ok(()) };
                let verdict = if may { Verdict::Approved } else { Verdict::Denied { reason: None } };
                self.world.session.decide(&call.tool_call_id, verdict, None).unwrap();
                prop_assert_eq!(self.world.session.pending().len(), pending.len() - 1);
            }
            Step::Discard => {
                let was = self.world.session.unfinished().is_some();
                prop_assert_eq!(self.world.session.discard().unwrap(), was);
                prop_assert!(!self.waits());
            }
            Step::Run(rounds) => self.run(&rounds.to_string(), None)?,
            Step::Fail(rounds) => self.run(&format!("{rounds}!"), None)?,
            Step::Drop(rounds, polls) => self.run(&rounds.to_string(), Some(polls))?,
            Step::Abort(rounds, polls) => self.abort(rounds, polls)?,
            Step::Resume => self.resume()?,
            Step::Restore(number) => self.restore(number)?,
            Step::Fork(number) => {
                self.world.session.fork(&self.node(number)).unwrap();
            }
            Step::Checkout(number) => {
                let node = self.node(number);
                self.world.session.tree().lock().checkout(&node).unwrap();
            }
            Step::Merge(source, target) => {
                let (source, target) = (self.node(source), self.node(target));
                self.world.session.tree().lock().merge(&source, &target, &clock()).unwrap();
            }
            Step::Reload => self.world.session = self.world.reloaded(),
        }
        Ok(())
    }

    fn abort(&mut self, rounds: u8, polls: usize) -> Result<(), TestCaseError> {
        let (known, before) = (self.world.session.checkpoints().len(), self.history());
        // What was restored elsewhere is not seen here.
        let current = self.world.session.tree().snapshot().current().clone();
        let left = self.world.session.unfinished().filter(|left| {
            left.restored
                && left.position.node == current.id
                && left.position.length == Some(current.thread.messages.len())
        });
        let beside = left.map(|left| ids_of(&left.messages())).unwrap_or_default();
        let mut stream = self.world.session.stream(rounds.to_string(), self.world.context()).unwrap();
        let _ended = poll_at_most(Box::pin(stream.turn()).as_mut(), polls);
        stream.abort();
        let turn = block_on(stream.turn()).unwrap();
        let said = ids_of(&turn.messages.iter().cloned().collect());
        if self.world.session.unfinished().is_none() {
            prop_assert_eq!(self.history(), [&before[..], &beside, &said].concat());
        }
        self.note(known, &before, &beside, true);
        Ok(())
    }

    fn resume(&mut self) -> Result<(), TestCaseError> {
        let known = self.world.session.checkpoints().len();
        let Some(left) = self.world.session.unfinished().filter(|_| self.world.session.is_resumable()) else {
            let refused = block_on(self.world.session.resume(self.world.context()));
            let is_refused = matches!(refused, Err(SessionError::NothingToResume { .. }));
            prop_assert!(is_refused);
            return Ok(());
        };
        let tree = self.world.session.tree().snapshot();
        let node = tree.node(left.position.node.as_str()).unwrap();
        let after = node.thread.messages.len() - left.position.length.unwrap();
        let whole = ids_of(&tree.history_of(node.id.as_str()).unwrap());
        let history = whole[..whole.len() - after].to_vec();
        let ended = block_on(self.world.session.resume(self.world.context()));
        if let Err(error) = &ended {
            // Only what a person has to decide about holds a run up here.
            prop_assert!(matches!(error, SessionError::Run(error) if approval_required(error).is_some()));
            prop_assert!(!self.world.session.pending().is_empty());
            prop_assert_eq!(
                ids_of(&self.world.session.tree().snapshot().history_of(node.id.as_str()).unwrap()),
                whole
            );
        }
        let beside = ids_of(&left.uncommitted);
        self.note(known, &history, &beside, ended.is_ok());
        Ok(())
    }

    fn restore(&mut self, number: usize) -> Result<(), TestCaseError> {
        let points = self.world.session.checkpoints();
        if points.is_empty() {
            return Ok(());
        }
        let id = points[number % points.len()].id.to_string();
        let everything = reachable(&self.world.session);
        block_on(self.world.session.restore(&id)).unwrap();
        let found = Promise { history: self.history(), pending: self.pending() };
        prop_assert_eq!(&found, &self.promises[&id]);
        prop_assert_eq!(&*self.world.session.current_checkpoint().unwrap().id, id.as_str());
        prop_assert_eq!(reachable(&self.world.session), everything);
        Ok(())
    }

    /// What holds at all times.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let session = &self.world.session;
        let text = session.to_json().unwrap();
        let loaded = self.world.load(&text);
        prop_assert_eq!(loaded.snapshot().unwrap(), session.snapshot().unwrap());
        prop_assert_eq!(loaded.to_json().unwrap(), text);
        let now = reachable(session);
        prop_assert!(self.ever.is_subset(&now), "messages were lost");
        self.ever = now;
        let ids: HashSet<_> = session.checkpoints().iter().map(|point| point.id.to_string()).collect();
        prop_assert_eq!(ids.len(), session.checkpoints().len());
        prop_assert!(ids.iter().all(|id| self.promises.contains_key(id)));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_session_keeps_its_promises_through_any_history(steps in steps()) {
        let pair = Pair::after(CheckpointInterval::Step, &steps)?;

        // Every checkpoint can still be gone back to, in any order, and in another process.
        let copy = pair.world.reloaded();
        for (id, promise) in &pair.promises {
            block_on(copy.restore(id)).unwrap();
            let pending = copy.unfinished().map(|left| ids_of(&left.messages())).unwrap_or_default();
            let history = ids_of(&copy.tree().snapshot().history());
            prop_assert_eq!(&Promise { history, pending }, promise);
        }
    }

    #[test]
    fn with_a_checkpoint_a_turn_too(steps in steps()) {
        Pair::after(CheckpointInterval::Turn, &steps)?;
    }

    #[test]
    fn going_on_in_another_process_is_going_on_in_this_one(steps in steps()) {
        let pair = Pair::after(CheckpointInterval::Step, &steps)?;
        pair.world.model.failing.store(false, Ordering::Relaxed);
        let twin = pair.world.reloaded();

        let ends = [&pair.world.session, &twin].map(|session| {
            let resumed = loop {
                for call in session.pending() {
                    session.decide(&call.tool_call_id, Verdict::Approved, None).unwrap();
                }
                let resumed = block_on(session.resume(pair.world.context()));
                if session.pending().is_empty() {
                    break resumed.ok();
                }
            };
            let turn = block_on(session.run("1", pair.world.context())).unwrap();
            (resumed.map(|turn| turn.messages.len()), turn.messages.len(), ids_of(&session.tree().snapshot().history()).len())
        });

        prop_assert_eq!(ends[0], ends[1]);
    }
}
