//! Storage that all checkpoints of one run share.
//!
//! A run only appends to its messages and other collected data, so the newest state contains that of every earlier
//! checkpoint as a prefix. A [`RunSnapshot`] stores the length of its prefix. If each checkpoint stored its own vectors,
//! every step would retain a copy of their last chunks (1.5 KB).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::machine::run_totals::{Mark, RunTotals};
use crate::machine::state::RunState;
use turntree_core::message::message::History;

/// The collected data of one run up to its newest snapshot.
#[derive(Debug, Default)]
pub(crate) struct SharedHistory(Mutex<RunTotals>);

/// The state of a run at one moment.
#[derive(Debug, Clone)]
pub(crate) struct RunSnapshot {
    /// The state without the collected data.
    state: RunState,
    /// The length of this snapshot's prefix of the shared history.
    mark: Mark,
    history: Arc<SharedHistory>,
}

impl SharedHistory {
    fn lock(&self) -> MutexGuard<'_, RunTotals> {
        // The data is only replaced as a whole, so a panic cannot leave it half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a snapshot of a run. Starts another history if `state` does not extend the last snapshot.
    pub(crate) fn snapshot(self: &mut Arc<Self>, state: &RunState) -> RunSnapshot {
        let mut collected = self.lock();
        if state.collected.extends(&collected) {
            *collected = state.collected.clone();
            drop(collected);
        } else {
            drop(collected);
            *self = Self::new(state.collected.clone());
        }
        RunSnapshot::at(state, self)
    }

    /// Takes a snapshot of a run that was read from JSON: entries that are equal to those of the last snapshot are shared.
    pub(crate) fn snapshot_of_equal(self: &mut Arc<Self>, mut state: RunState) -> RunSnapshot {
        state.collected.share_with(&self.lock());
        self.snapshot(&state)
    }

    /// Returns a history that contains `collected`.
    pub(crate) fn new(collected: RunTotals) -> Arc<Self> {
        Arc::new(Self(Mutex::new(collected)))
    }

    /// Returns true if the mark is within the data.
    pub(crate) fn contains(&self, mark: Mark) -> bool {
        self.lock().contains_mark(mark)
    }

    /// Returns true if `data` is the start of the data.
    pub(crate) fn starts_with(&self, data: &RunTotals) -> bool {
        self.lock().extends(data)
    }

    /// Returns the data before a mark.
    pub(crate) fn until(&self, mark: Mark) -> RunTotals {
        self.lock().until(mark)
    }
}

impl RunSnapshot {
    /// Takes a snapshot with a history of its own.
    pub(crate) fn new(state: &RunState) -> Self {
        Self::at(state, &SharedHistory::new(state.collected.clone()))
    }

    /// Takes a snapshot of a run whose collected data is a prefix of `history`.
    pub(crate) fn at(state: &RunState, history: &Arc<SharedHistory>) -> Self {
        let (mark, history) = (state.collected.mark(), Arc::clone(history));
        Self { state: state.without_collected(), mark, history }
    }

    /// Returns the history that contains the collected data of the run, and the length of its prefix.
    pub(crate) const fn shared(&self) -> (&Arc<SharedHistory>, Mark) {
        (&self.history, self.mark)
    }

    /// Returns the state without the collected data, except for the structured output.
    pub(crate) const fn state(&self) -> &RunState {
        &self.state
    }

    /// Returns the complete state of the run.
    pub(crate) fn run_state(&self) -> RunState {
        let mut run = self.state.clone();
        let RunTotals { data, status, .. } = run.collected;
        run.collected = RunTotals { data, status, ..self.history.lock().until(self.mark) };
        run
    }

    pub(crate) const fn step(&self) -> u32 {
        self.state.step()
    }

    /// Returns the input and all new messages, in order.
    pub(crate) fn messages(&self) -> History {
        self.history.lock().until(self.mark).messages
    }
}
