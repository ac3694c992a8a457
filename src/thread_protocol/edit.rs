//! Selects the actions of an edit from a Python argument.

use std::collections::HashSet;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::actions::wrap;
use turntree_core::time::Timestamp;
use turntree_thread_protocol::{Slice, Thread};

/// The numbers of the actions that `which` means: numbers, or a function that is asked for each action.
///
/// # Errors
/// `TypeError` for anything else, `ValueError` for a number that no action has, and what the function raises.
pub(super) fn sequences(thread: &Thread, which: &Bound<'_, PyAny>) -> PyResult<HashSet<u64>> {
    let py = which.py();
    if which.is_callable() {
        let mut chosen = HashSet::new();
        for action in thread.actions.iter() {
            if which.call1((wrap(py, std::sync::Arc::clone(action))?,))?.is_truthy()? {
                chosen.insert(action.sequence());
            }
        }
        return Ok(chosen);
    }
    let known: HashSet<u64> = thread.actions.iter().map(|action| action.sequence()).collect();
    let mut chosen = HashSet::new();
    for number in super::lists::items_of(which, "which")? {
        let Ok(number) = number.extract::<u64>() else {
            let found = number.get_type().name()?;
            return Err(PyTypeError::new_err(format!("which must hold sequence numbers, not {found}")));
        };
        if !known.contains(&number) {
            return Err(PyValueError::new_err(format!("no action has the sequence {number}")));
        }
        chosen.insert(number);
    }
    Ok(chosen)
}

/// What to cut out.
///
/// # Errors
/// `turntree.ValidationError` for an agent that the registry does not have; `TypeError` or `ValueError` for what is no
/// time.
pub(super) fn slice(
    py: Python<'_>,
    thread: &Thread,
    agent_id: Option<String>,
    since: Option<&Bound<'_, PyAny>>,
    until: Option<&Bound<'_, PyAny>>,
) -> PyResult<Slice> {
    if let Some(agent_id) = agent_id.as_ref().filter(|id| !thread.agents.contains(id)) {
        let known = thread.agents.iter().map(|(key, _)| format!("\"{key}\"")).collect();
        let error = turntree_thread_protocol::ThreadError::UnknownAgent { agent_id: agent_id.clone(), known };
        return Err(super::error::to_exception(py, &error, None));
    }
    let time = |given: Option<&Bound<'_, PyAny>>, what: &str| -> PyResult<Option<Timestamp>> {
        let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(None) };
        let text = super::actions::timestamp_from(Some(given), what)?;
        text.parse().map(Some).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
    };
    Ok(Slice { agent_id, since: time(since, "since")?, until: time(until, "until")? })
}
