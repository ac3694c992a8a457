//! Runs a machine to its end and converts the outcome.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use super::functions::Functions;
use super::host_conversions::turn_to_python;
use crate::bridge::gil;
use turntree_agents::driver::Driver;
use turntree_agents::machine::Machine;
use turntree_core::message::Turn;
use turntree_upp::UppError;

/// Runs a machine to its end and returns the turn.
pub(super) async fn run_machine(
    mut machine: Machine,
    driver: Driver,
    functions: Arc<Mutex<Functions>>,
) -> PyResult<Py<PyAny>> {
    let outcome = driver.run(&mut machine).await;
    outcome_to_python(outcome, &functions)
}

/// Converts the outcome of a run.
pub(super) fn outcome_to_python(
    outcome: Result<Arc<Turn>, UppError>,
    functions: &Mutex<Functions>,
) -> PyResult<Py<PyAny>> {
    gil::require_held(|py| match outcome {
        Ok(turn) => turn_to_python(py, functions, turn),
        Err(error) => Err(crate::upp::error::to_exception(py, &error)),
    })
}
