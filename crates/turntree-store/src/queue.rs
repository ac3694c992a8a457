//! The port of queues: runs that wait for a worker, and the leases of the sessions that they belong to.
//!
//! At most one worker has the lease of a session. Each lease has a fencing token, which is greater than those of all
//! earlier leases of the session; an append with an older token fails, see [`crate::engine::Append::fence`].
//!
//! The runs of a session execute in the order in which they were added. A run that was started comes before those that
//! were not, and a run whose [`NewRun::not_before`] is in the future does not block later ones.

use std::sync::Arc;
use std::time::Duration;

use turntree_core::time::Timestamp;

use crate::engine::EngineFuture;
use crate::error::StoreError;

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// It waits for a worker, or for its next attempt.
    Queued,
    /// A worker executes it. If the worker's lease has expired, another one takes it over.
    Running,
    /// Tool calls wait for a decision. The run continues after the session was changed and no call waits any more, and
    /// after [`Queue::resume`]. It blocks the later runs of its session.
    Waiting,
    /// It has a turn.
    Done,
    /// It was given up. Its session may have a run to resume.
    Failed,
}

impl RunStatus {
    /// All values.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Waiting, Self::Done, Self::Failed];

    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Returns the status with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Returns whether a worker may still execute the run.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Queued | Self::Running | Self::Waiting)
    }
}

/// A run to add.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The id. A queue does not add a second run with the same id.
    pub id: Arc<str>,
    /// The id of the session.
    pub session: Arc<str>,
    /// The input as JSON; `None` resumes the session's unfinished run.
    pub input: Option<String>,
    /// The name or id of the agent; `None` for the agent of any worker.
    pub agent: Option<String>,
    /// Sessions with a higher priority are served first.
    pub priority: i32,
    /// The time before which the run does not start.
    pub not_before: Option<Timestamp>,
}

/// A run of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The id.
    pub id: Arc<str>,
    /// The id of the session.
    pub session: Arc<str>,
    /// The input as JSON; see [`NewRun::input`].
    pub input: Option<String>,
    /// The agent; see [`NewRun::agent`].
    pub agent: Option<String>,
    /// The status.
    pub status: RunStatus,
    /// The number of times that a worker has started or taken over the run since it was queued or waited last.
    pub attempts: u32,
    /// The number of attempts that have ended with an error since the run was queued or waited last.
    pub failures: u32,
    /// The message of the last error.
    pub error: Option<String>,
    /// The turn as JSON.
    pub turn: Option<String>,
    /// When the run was added.
    pub created_at: Timestamp,
    /// When the run last changed.
    pub updated_at: Timestamp,
}

/// What users and agents have written in a run: what an encrypted store encrypts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTexts {
    /// [`Run::input`].
    pub input: Option<String>,
    /// [`Run::error`].
    pub error: Option<String>,
    /// [`Run::turn`].
    pub turn: Option<String>,
}

impl RunTexts {
    /// Returns the texts of a run.
    pub fn of(run: &Run) -> Self {
        Self { input: run.input.clone(), error: run.error.clone(), turn: run.turn.clone() }
    }
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunQuery {
    /// Only runs with this status.
    pub status: Option<RunStatus>,
    /// Only runs of this session.
    pub session: Option<String>,
    /// The largest number of runs of a page; at least 1.
    pub limit: usize,
    /// The position after which the page starts: [`RunPage::next`] of the page before it.
    pub after: Option<String>,
}

/// A page of runs, the newest first.
#[derive(Debug, Clone, Default)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<Run>,
    /// The position of the next page; `None` if this is the last one.
    pub next: Option<String>,
}

impl RunQuery {
    /// Checks the query, and returns the number that the runs of the page are below.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if `limit` is zero or `after` is not the position of a page.
    pub(crate) fn below(&self) -> Result<i64, StoreError> {
        if self.limit == 0 {
            return Err(StoreError::Invalid("limit must be at least 1".to_owned()));
        }
        let Some(after) = &self.after else { return Ok(i64::MAX) };
        let number = after.parse().ok().filter(|number: &i64| number.is_positive() || after == "0");
        number.ok_or_else(|| {
            StoreError::Invalid(format!("after: {after:?} is not the position of a page of runs"))
        })
    }

    /// Makes a page of the runs and their numbers, of which there is one more than the page has if others follow.
    pub(crate) fn page(&self, mut found: Vec<(i64, Run)>) -> RunPage {
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().filter(|_| has_more).map(|(number, _)| number.to_string());
        RunPage { runs: found.into_iter().map(|(_, run)| run).collect(), next }
    }

    /// One more than the number of runs of the page.
    pub(crate) fn rows(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX).saturating_add(1)
    }
}

/// Who asks for a run.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The name of the worker, for people who look at the store.
    pub worker: String,
    /// The names and ids of the agents that the worker has.
    pub agents: Vec<String>,
    /// How long the worker has the session without a [`Queue::heartbeat`].
    pub lease: Duration,
}

/// A run and the lease of its session.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The run.
    pub run: Run,
    /// The fencing token.
    pub token: u64,
    /// Whether an earlier attempt may have left something in the session.
    pub was_started: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The run has a turn, as JSON; a resumption with nothing to resume has none.
    Done(Option<String>),
    /// The run is given up, for this reason.
    Failed(String),
    /// The run is tried again after a pause, because of this error.
    Retry {
        /// The message of the error.
        error: String,
        /// The pause.
        delay: Duration,
    },
    /// Tool calls wait for a decision.
    Waiting {
        /// Which calls.
        error: String,
        /// When the session last changed, as the worker has saved it.
        updated_at: Timestamp,
    },
    /// The worker stops before the run has ended. The attempt does not count.
    Released,
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The id of the run.
    pub run: Arc<str>,
    /// The id of its session.
    pub session: Arc<str>,
    /// The token of the lease.
    pub token: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// Stores runs and leases. Times are those of the database's clock where the engine has one.
///
/// # Cancel safety
/// Any future may be dropped at any point. The operation is then done as a whole or not at all.
///
/// # Errors
/// As for [`Engine`](crate::Engine).
pub trait Queue: Send + Sync {
    /// Adds a run. A run with the same id is not added again. When the future has returned, the run is as durable as an
    /// appended entry.
    fn enqueue(&self, run: NewRun) -> EngineFuture<'_, ()>;

    /// Lets the waiting run of a session continue, and returns its id; `None` if there is no such run.
    fn resume(&self, session: &str) -> EngineFuture<'_, Option<Arc<str>>>;

    /// Reads a run; `None` for an unknown id.
    fn run(&self, id: &str) -> EngineFuture<'_, Option<Run>>;

    /// Lists runs, the newest first. A run that was added before the first page was read is in exactly one page, unless it
    /// is removed.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if `limit` is zero or `after` is not the position of a page.
    fn runs(&self, query: RunQuery) -> EngineFuture<'_, RunPage>;

    /// Removes the runs that are done or failed and did not change after `before`. Returns their number.
    fn prune_runs(&self, before: Timestamp) -> EngineFuture<'_, u64>;

    /// Replaces the texts of a run if they are `from`. Returns whether they were.
    fn rewrite(&self, id: &str, from: RunTexts, to: RunTexts) -> EngineFuture<'_, bool>;

    /// Takes the next run and the lease of its session; `None` if there is nothing to do.
    fn claim(&self, claim: Claim) -> EngineFuture<'_, Option<Claimed>>;

    /// Extends a lease. Returns false if it was taken over.
    fn heartbeat(&self, session: &str, token: u64, lease: Duration) -> EngineFuture<'_, bool>;

    /// Stores how an attempt ended, and gives the lease back, in one step.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the lease was taken over; nothing changes then.
    fn finish(&self, finish: Finish) -> EngineFuture<'_, ()>;

    /// Waits until a run may have become available, and for the timeout at most.
    fn wait(&self, timeout: Duration) -> EngineFuture<'_, ()>;
}

/// A duration in microseconds.
pub(crate) fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// What the end of an attempt changes in the run.
pub(crate) struct Change<'a> {
    pub(crate) status: RunStatus,
    pub(crate) turn: Option<&'a str>,
    /// Replaces the stored error unless it is `None`.
    pub(crate) error: Option<&'a str>,
    /// 0 if attempts and failures are counted anew, else 1.
    pub(crate) factor: i32,
    pub(crate) failures: i32,
    pub(crate) attempts: i32,
    /// The pause before the next attempt, in microseconds.
    pub(crate) delay: i64,
    /// When the session last changed, in microseconds, if the run waits.
    pub(crate) seen: i64,
}

impl Outcome {
    pub(crate) fn change(&self) -> Change<'_> {
        let change = |status, error| Change {
            status,
            turn: None,
            error,
            factor: 1,
            failures: 0,
            attempts: 0,
            delay: 0,
            seen: 0,
        };
        match self {
            Self::Done(turn) => Change { turn: turn.as_deref(), ..change(RunStatus::Done, None) },
            Self::Failed(error) => Change { failures: 1, ..change(RunStatus::Failed, Some(error)) },
            Self::Retry { error, delay } => {
                let delay = microseconds(*delay);
                Change { failures: 1, delay, ..change(RunStatus::Queued, Some(error)) }
            }
            Self::Waiting { error, updated_at } => {
                let seen = updated_at.microseconds();
                Change { factor: 0, seen, ..change(RunStatus::Waiting, Some(error)) }
            }
            Self::Released => Change { attempts: -1, ..change(RunStatus::Queued, None) },
        }
    }
}
