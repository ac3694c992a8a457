//! Selects the actions of an edit from a Python argument.

use std::collections::HashSet;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};

use super::actions::wrap;
use crate::error::OrRaise as _;
use crate::time::from_python;
use turntree_thread_protocol::{Slice, Thread};

/// The sequence numbers of the actions that `which` selects: numbers, or a function that is called with each action.
///
/// # Errors
/// `TypeError` for anything else, `ValueError` for a number that no action has, and what the function raises.
pub(super) fn sequences(thread: &Thread, which: &Bound<'_, PyAny>) -> PyResult<HashSet<u64>> {
    let py = which.py();
    if which.is_callable() {
        let mut chosen = HashSet::new();
        for action in thread.actions.iter() {
            if which.call1((wrap(py, Arc::clone(action))?,))?.is_truthy()? {
                chosen.insert(action.sequence());
            }
        }
        return Ok(chosen);
    }
    let known: HashSet<u64> = thread.actions.iter().map(|action| action.sequence()).collect();
    let mut chosen = HashSet::new();
    for number in super::lists::items_of(which, "which")? {
        let number = number?;
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

/// The arguments of a slice.
///
/// # Errors
/// `turntree.ValidationError` for an agent that the registry does not have; `TypeError` or `ValueError` for an invalid
/// time.
pub(super) fn slice(
    py: Python<'_>,
    thread: &Thread,
    agent_id: Option<String>,
    since: Option<&Bound<'_, PyAny>>,
    until: Option<&Bound<'_, PyAny>>,
) -> PyResult<Slice> {
    if let Some(agent_id) = &agent_id {
        thread.agent(agent_id).or_raise(py)?;
    }
    let since = since.map(|time| from_python(time, "since")).transpose()?;
    let until = until.map(|time| from_python(time, "until")).transpose()?;
    Ok(Slice { agent_id, since, until })
}
