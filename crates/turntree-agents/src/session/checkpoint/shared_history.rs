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

    /// Takes a snapshot of a run. Uses a separate history if `state` does not extend the last snapshot.
    pub(crate) fn snapshot(self: &Arc<Self>, state: &RunState) -> RunSnapshot {
        let mut collected = self.lock();
        if !state.collected.extends(&collected) {
            drop(collected);
            return RunSnapshot::new(state);
        }
        *collected = state.collected.clone();
        drop(collected);
        RunSnapshot {
            state: state.without_collected(),
            mark: state.collected.mark(),
            history: Arc::clone(self),
        }
    }
}

impl RunSnapshot {
    /// Takes a snapshot with a history of its own.
    pub(crate) fn new(state: &RunState) -> Self {
        let history = Arc::new(SharedHistory(Mutex::new(state.collected.clone())));
        Self { state: state.without_collected(), mark: state.collected.mark(), history }
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
