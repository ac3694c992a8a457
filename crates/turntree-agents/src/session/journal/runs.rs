//! Which run of the log contains the data of a run of the session.
//!
//! The checkpoints of a run share its data, a [`SharedHistory`]. All of them refer to the same run of the log, so that they
//! share the data again after the log was read. An unfinished run has no shared history of its own: it belongs to that of the
//! current checkpoint if it continues it, otherwise to the run that was added to the log last.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::machine::run_totals::{Mark, RunTotals};
use crate::session::checkpoint::shared_history::SharedHistory;

/// The runs of a log.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// The number of runs in the log.
    count: u32,
    /// The last run, while no checkpoint has its data.
    open: Option<Run>,
    /// The runs of shared histories by address. The weak references keep the addresses unique.
    of_histories: HashMap<usize, HistoryRun>,
    /// The number of shared histories above which those that were dropped are removed.
    limit: usize,
}

/// A run of the log, and its data.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) number: u32,
    pub(super) data: RunTotals,
}

/// The run of a shared history.
#[derive(Debug)]
struct HistoryRun {
    history: Weak<SharedHistory>,
    number: u32,
    data: Data,
}

/// The data of a run that the log contains.
#[derive(Debug)]
enum Data {
    /// The start of the shared history.
    Start(Mark),
    /// More than the history has: the run continued after its last checkpoint.
    Other(Box<RunTotals>),
}

impl Data {
    fn new(history: &SharedHistory, data: RunTotals) -> Self {
        if history.starts_with(&data) { Self::Start(data.mark()) } else { Self::Other(Box::new(data)) }
    }

    fn totals(&self, history: &SharedHistory) -> RunTotals {
        match self {
            Self::Start(mark) => history.until(*mark),
            Self::Other(data) => RunTotals::clone(data),
        }
    }
}

impl Runs {
    /// Returns the runs of a log that was read, by their numbers: the data of each, and the history that its checkpoints
    /// share.
    pub(super) fn of_log(runs: impl IntoIterator<Item = (RunTotals, Option<Arc<SharedHistory>>)>) -> Self {
        let mut read = Self::default();
        for (data, history) in runs {
            let number = read.count;
            read.count = number.saturating_add(1);
            read.open = None;
            match history {
                Some(history) => read.insert(&history, Run { number, data }),
                None => read.open = Some(Run { number, data }),
            }
        }
        read
    }

    /// Takes over the changes of an entry that was appended to the log.
    pub(super) fn commit(&mut self, changes: RunChanges) {
        self.count = changes.count;
        self.open = changes.open;
        for (history, run) in changes.of_histories.into_values() {
            self.insert(&history, run);
        }
        if self.of_histories.len() > self.limit {
            self.of_histories.retain(|_, run| run.history.strong_count() > 0);
            self.limit = self.of_histories.len() * 2 + 8;
        }
    }

    fn insert(&mut self, history: &Arc<SharedHistory>, run: Run) {
        let (address, weak) = (address(history), Arc::downgrade(history));
        let data = Data::new(history, run.data);
        self.of_histories.insert(address, HistoryRun { history: weak, number: run.number, data });
    }

    fn of_history(&self, history: &Arc<SharedHistory>) -> Option<Run> {
        let run = self.of_histories.get(&address(history))?;
        Some(Run { number: run.number, data: run.data.totals(history) })
    }
}

/// What an entry changes in the runs of its log.
#[derive(Debug)]
pub(super) struct RunChanges {
    count: u32,
    open: Option<Run>,
    of_histories: HashMap<usize, (Arc<SharedHistory>, Run)>,
}

/// Where an entry writes the data of a run.
#[derive(Debug)]
pub(super) struct Place {
    /// The number of the run.
    pub(super) run: u32,
    /// The part of the data that the log has; `None` if it has all of it.
    pub(super) written: Option<Mark>,
    /// True if earlier entries refer to another run for the same history.
    pub(super) is_moved: bool,
}

/// Chooses the runs for the data of an entry.
pub(super) struct RunWriter<'a> {
    runs: &'a Runs,
    changes: RunChanges,
}

impl<'a> RunWriter<'a> {
    pub(super) fn new(runs: &'a Runs) -> Self {
        let changes = RunChanges { count: runs.count, open: runs.open.clone(), of_histories: HashMap::new() };
        Self { runs, changes }
    }

    pub(super) fn into_changes(self) -> RunChanges {
        self.changes
    }

    /// Returns the number of the run of a shared history that has a place.
    pub(super) fn number_of(&self, history: &Arc<SharedHistory>) -> Option<u32> {
        self.of_history(history).map(|run| run.number)
    }

    /// Chooses the run for the data of checkpoints that share a history.
    pub(super) fn place(&mut self, history: &Arc<SharedHistory>, data: &RunTotals) -> Place {
        let known = self.of_history(history);
        let is_known = known.is_some();
        // A run that failed after its last checkpoint has added data to the log that another continuation does not have.
        let run = known.filter(|known| is_same_run(&known.data, data));
        let is_moved = is_known && run.is_none();
        let run = match run {
            Some(run) => Some(run),
            // From now on the last run is that of the history.
            None => self.changes.open.take_if(|open| is_same_run(&open.data, data)),
        };
        let (run, written) = self.extend(run, data);
        let number = run.number;
        self.changes.of_histories.insert(address(history), (Arc::clone(history), run));
        Place { run: number, written, is_moved }
    }

    /// Chooses the run for the data of the unfinished run. `current` is the history of the current checkpoint.
    pub(super) fn place_unfinished(
        &mut self,
        current: Option<&Arc<SharedHistory>>,
        data: &RunTotals,
    ) -> Place {
        let known = current.and_then(|history| Some((history, self.of_history(history)?)));
        let known = known.filter(|(_, run)| is_same_run(&run.data, data));
        let (run, written) = if let Some((history, run)) = known {
            let (run, written) = self.extend(Some(run), data);
            self.changes.of_histories.insert(address(history), (Arc::clone(history), run.clone()));
            (run, written)
        } else {
            let open = self.changes.open.take_if(|open| is_same_run(&open.data, data));
            let (run, written) = self.extend(open, data);
            self.changes.open = Some(run.clone());
            (run, written)
        };
        Place { run: run.number, written, is_moved: false }
    }

    fn of_history(&self, history: &Arc<SharedHistory>) -> Option<Run> {
        match self.changes.of_histories.get(&address(history)) {
            Some((_, run)) => Some(run.clone()),
            None => self.runs.of_history(history),
        }
    }

    /// Adds what is new in `data` to a run, or starts one. Returns the run, and the part that the log has; `None` if it has
    /// all of it.
    fn extend(&mut self, run: Option<Run>, data: &RunTotals) -> (Run, Option<Mark>) {
        match run {
            Some(run) if run.data.extends(data) => (run, None),
            Some(Run { number, data: known }) => (Run { number, data: data.clone() }, Some(known.mark())),
            None => {
                let number = self.changes.count;
                self.changes.count = number.saturating_add(1);
                (Run { number, data: data.clone() }, Some(Mark::default()))
            }
        }
    }
}

/// True if the lists of one run start with those of the other.
fn is_same_run(one: &RunTotals, other: &RunTotals) -> bool {
    // A run starts with its input.
    let starts = one.messages.front().zip(other.messages.front());
    starts.is_some_and(|(one, other)| Arc::ptr_eq(one, other)) && (one.extends(other) || other.extends(one))
}

fn address(history: &Arc<SharedHistory>) -> usize {
    Arc::as_ptr(history).addr()
}
