//! The queue of a store: what its methods have in common.

use std::sync::Arc;
use std::time::Duration;

use crate::prelude::*;
use pyo3::exceptions::PyValueError;

use crate::time::to_datetime;
use turntree_core::time::Timestamp;
use turntree_store::queue::{NewRun, Outcome, Queue, Run, RunStatus};
use turntree_store::{Engine, StoreError};

/// The members of a `Run` in order, and the input.
pub(super) type RunTuple =
    (String, String, &'static str, Option<String>, Option<String>, u32, u32, Option<String>);

pub(super) fn run_tuple(run: Run) -> RunTuple {
    let (id, session) = (run.id.to_string(), run.session.to_string());
    (id, session, run.status.as_str(), run.turn, run.error, run.attempts, run.failures, run.input)
}

/// The members of a `Run` of Python in order.
pub(super) type RunRow = (
    String,
    String,
    &'static str,
    Option<String>,
    Option<String>,
    u32,
    Option<String>,
    Option<String>,
    Py<PyAny>,
    Py<PyAny>,
);

pub(super) fn run_row(py: Python<'_>, run: Run) -> PyResult<RunRow> {
    let created_at = to_datetime(py, run.created_at)?.unbind();
    let updated_at = to_datetime(py, run.updated_at)?.unbind();
    let (id, session, status) = (run.id.to_string(), run.session.to_string(), run.status.as_str());
    Ok((id, session, status, run.turn, run.error, run.attempts, run.input, run.agent, created_at, updated_at))
}

pub(super) fn status_of(name: &str) -> PyResult<RunStatus> {
    RunStatus::from_name(name).ok_or_else(|| {
        let names = RunStatus::ALL.map(RunStatus::as_str).join(", ");
        PyValueError::new_err(format!("status must be one of {names}, not \"{name}\""))
    })
}

/// Returns the queue of an engine.
pub(super) fn of(engine: &dyn Engine) -> Result<&dyn Queue, StoreError> {
    engine.queue().ok_or_else(|| {
        StoreError::Invalid(format!("{} has no queue of runs: it needs SQLite or PostgreSQL", engine.name()))
    })
}

pub(super) async fn enqueue(engine: &dyn Engine, run: NewRun) -> Result<String, StoreError> {
    let queue = of(engine)?;
    if run.input.is_none()
        && let Some(id) = queue.resume(&run.session).await?
    {
        return Ok(id.to_string());
    }
    let id = Arc::clone(&run.id);
    queue.enqueue(run).await?;
    Ok(id.to_string())
}

pub(super) fn duration(seconds: f64, name: &str) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!(
            "{name} must be a number of seconds that is not negative, not {seconds}"
        ))
    })
}

pub(super) fn outcome(
    name: &str,
    text: Option<String>,
    delay: Duration,
    updated_at: Option<Timestamp>,
) -> PyResult<Outcome> {
    let error = text.clone().unwrap_or_default();
    match (name, updated_at) {
        ("done", _) => Ok(Outcome::Done(text)),
        ("failed", _) => Ok(Outcome::Failed(error)),
        ("retry", _) => Ok(Outcome::Retry { error, delay }),
        ("waiting", Some(updated_at)) => Ok(Outcome::Waiting { error, updated_at }),
        ("released", _) => Ok(Outcome::Released),
        _ => Err(PyValueError::new_err(format!("unknown outcome \"{name}\""))),
    }
}
