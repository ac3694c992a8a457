//! What a run has collected, kept once for all its checkpoints.
//!
//! A run only adds to what it has collected, so the newest state holds those of all earlier points as its beginnings. A
//! [`Point`] remembers how long its beginning is. Were each to hold the vectors themselves, every step would leave a copy
//! of their last chunks behind (1.5 KB).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::machine::state::{Collected, Mark, RunState};
use turntree_core::message::message::History;

/// What one run has collected until its newest point.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Collected>);

/// The state of a run at one point.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// The state without what is in the record.
    rest: RunState,
    /// How much of the record is of this point.
    mark: Mark,
    record: Arc<Record>,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Collected> {
        // Assigned as a whole, so it is whole at all times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A point of the run of this record; of a record of its own where the state is not what the last one has become.
    pub(crate) fn point(self: &Arc<Self>, state: &RunState) -> Point {
        let mut collected = self.lock();
        if !state.collected.goes_on_from(&collected) {
            drop(collected);
            return Point::alone(state);
        }
        *collected = state.collected.clone();
        drop(collected);
        Point { rest: state.without_collected(), mark: state.collected.mark(), record: Arc::clone(self) }
    }
}

impl Point {
    /// A point with a record of its own.
    pub(crate) fn alone(state: &RunState) -> Self {
        let record = Arc::new(Record(Mutex::new(state.collected.clone())));
        Self { rest: state.without_collected(), mark: state.collected.mark(), record }
    }

    /// The state of the run.
    pub(crate) fn run(&self) -> RunState {
        let mut run = self.rest.clone();
        let Collected { data, ending, .. } = run.collected;
        run.collected = Collected { data, ending, ..self.record.lock().cut(self.mark) };
        run
    }

    pub(crate) const fn step(&self) -> u32 {
        self.rest.step()
    }

    /// The input, then everything new, in order.
    pub(crate) fn messages(&self) -> History {
        self.record.lock().cut(self.mark).messages
    }
}
