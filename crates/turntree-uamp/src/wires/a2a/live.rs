//! A task that the server works on: its state and its events, for any number of readers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{Stream, stream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::machine::TaskMachine;
use super::model::{StreamEvent, Task};

/// How many events are kept for readers that join late or are slow. A reader that is later receives the task as it is.
const MAX_EVENTS: usize = 4_096;

/// A task that the server works on. Readers never make the work wait: what they miss, the task contains.
#[derive(Debug)]
pub(super) struct LiveTask {
    state: Mutex<State>,
    /// The number of the next event.
    changed: watch::Sender<u64>,
    /// Cancels the work.
    pub(super) cancellation: CancellationToken,
}

#[derive(Debug)]
struct State {
    machine: TaskMachine,
    events: VecDeque<StreamEvent>,
    /// The number of the first event that is kept.
    first: u64,
    ended: bool,
}

impl LiveTask {
    /// A task whose stream begins with the task.
    pub(super) fn new(machine: TaskMachine) -> Arc<Self> {
        let events = VecDeque::from([StreamEvent::Task(machine.task().clone())]);
        let state = State { machine, events, first: 0, ended: false };
        let (changed, _) = watch::channel(1);
        Arc::new(Self { state: Mutex::new(state), changed, cancellation: CancellationToken::new() })
    }

    /// Locks the state for one operation.
    fn state(&self) -> MutexGuard<'_, State> {
        // Each operation leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task as it is now.
    pub(super) fn task(&self) -> Task {
        self.state().machine.task().clone()
    }

    /// True if the work has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Changes the task, and returns the events for [`Self::publish`].
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut TaskMachine) -> R) -> R {
        change(&mut self.state().machine)
    }

    /// Sends events to the readers. `ended`: nothing follows.
    pub(super) fn publish(&self, events: impl IntoIterator<Item = StreamEvent>, ended: bool) {
        let next = {
            let mut state = self.state();
            state.events.extend(events);
            while state.events.len() > MAX_EVENTS {
                state.events.pop_front();
                state.first += 1;
            }
            state.ended |= ended;
            state.first + state.events.len() as u64
        };
        self.changed.send_replace(next);
    }

    /// The number of the next event.
    fn next(&self) -> u64 {
        let state = self.state();
        state.first + state.events.len() as u64
    }

    /// The events from a number on, and whether the work has ended. A reader that is too late receives the task.
    fn since(&self, number: u64) -> (Vec<(u64, StreamEvent)>, bool) {
        let state = self.state();
        let next = state.first + state.events.len() as u64;
        if number < state.first || number > next {
            let task = StreamEvent::Task(state.machine.task().clone());
            return (vec![(next.saturating_sub(1), task)], state.ended);
        }
        let skipped = usize::try_from(number - state.first).unwrap_or(usize::MAX);
        let kept = state.events.iter().skip(skipped).cloned();
        ((number..).zip(kept).collect(), state.ended)
    }

    /// All events from a number on, until the end.
    pub(super) fn follow(self: Arc<Self>, from: u64) -> impl Stream<Item = (u64, StreamEvent)> + Send {
        let changes = self.changed.subscribe();
        let reader = Reader { live: self, changes, next: from, waiting: VecDeque::new() };
        stream::unfold(reader, async |mut reader| {
            let event = reader.next().await?;
            Some((event, reader))
        })
    }

    /// The task as it is now, and then the events that follow.
    pub(super) fn follow_from_now(self: Arc<Self>) -> impl Stream<Item = (u64, StreamEvent)> + Send {
        let (next, task) = (self.next(), StreamEvent::Task(self.task()));
        let changes = self.changed.subscribe();
        let waiting = VecDeque::from([(next.saturating_sub(1), task)]);
        let reader = Reader { live: self, changes, next, waiting };
        stream::unfold(reader, async |mut reader| {
            let event = reader.next().await?;
            Some((event, reader))
        })
    }

    /// Waits for the end of the work, and returns the task.
    pub(super) async fn ended(&self) -> Task {
        let mut changes = self.changed.subscribe();
        // The sender lives as long as `self`.
        while !self.has_ended() && changes.changed().await.is_ok() {}
        self.task()
    }
}

/// Reads the events of a task.
struct Reader {
    live: Arc<LiveTask>,
    changes: watch::Receiver<u64>,
    next: u64,
    waiting: VecDeque<(u64, StreamEvent)>,
}

impl Reader {
    async fn next(&mut self) -> Option<(u64, StreamEvent)> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            // Before the events are read, so that no change is missed.
            drop(self.changes.borrow_and_update());
            let (events, ended) = self.live.since(self.next);
            if let Some((number, _)) = events.last() {
                self.next = number + 1;
                self.waiting.extend(events);
            } else if ended || self.changes.changed().await.is_err() {
                return None;
            }
        }
    }
}
