//! `ExecutionState` and `PlanStep`.
//!
//! Spec: UAP-1.0 §5.1, §13.4.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyValueError;
use pyo3::types::{PyDict, PyList};

use crate::bridge::gc::garbage_collected;
use crate::data::{Data, DataClass, levels, value_of};
use crate::to_python::{ToPython, attributes, data_class};
use turntree_agents::types::{ExecutionState, PlanStatus, PlanStep as CoreStep};
use turntree_core::json::Extra;

data_class! {
    /// A step of a plan.
    ///
    /// Args:
    ///     id: Unique in its plan.
    ///     description: The task of the step.
    ///     tool: The tool for the step, if the plan names one.
    ///     depends_on: The ids of the steps that must be completed before.
    ///     status: The status of the step.
    ///
    /// Raises:
    ///     ValueError: The status is unknown.
    ///
    /// Spec: UAP-1.0 §13.4.
    PlanStep as "PlanStep" in "turntree" over CoreStep {
        /// The id, unique in its plan.
        id,
        /// The task of the step.
        description,
        /// The tool for the step, if the plan names one.
        tool,
        /// The ids of the steps that must be completed before.
        depends_on,
        /// The status of the step.
        status,
    }

    #[new]
    #[pyo3(signature = (id, description, tool = None, depends_on = Vec::new(), status = "pending"))]
    fn new(
        id: String,
        description: String,
        tool: Option<String>,
        depends_on: Vec<String>,
        status: &str,
    ) -> PyResult<PyClassInitializer<Self>> {
        let Some(status) = PlanStatus::ALL.into_iter().find(|known| known.as_str() == status) else {
            let known = PlanStatus::ALL.map(PlanStatus::as_str).join("\", \"");
            return Err(PyValueError::new_err(format!("status must be one of \"{known}\", not \"{status}\"")));
        };
        Ok(Self::holding(CoreStep { id, description, tool, depends_on, status, extra: Extra::new() }))
    }
}

impl ToPython for PlanStatus {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.as_str().to_python(py)
    }
}

/// The state of a run that hooks and stop conditions receive, at the time of the call.
///
/// Spec: UAP-1.0 §5.1, §13.4.
#[pyclass(frozen, extends = Data, name = "ExecutionState", module = "turntree")]
pub(crate) struct PyExecutionState {
    /// The writable metadata of an active run.
    metadata: Option<Py<PyDict>>,
}

impl DataClass for PyExecutionState {
    type Value = ExecutionState;
    const OUTER_LEVELS: usize = levels::RUN_STATE;
    fn wrap(py: Python<'_>, value: Arc<ExecutionState>) -> PyResult<Py<PyAny>> {
        let class = Self { metadata: None };
        Ok(Py::new(py, PyClassInitializer::from(Data::new(value)).add_subclass(class))?.into_any())
    }
}

impl ToPython for ExecutionState {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyExecutionState::wrap(py, Arc::new(self.clone()))?.into_bound(py))
    }
}

impl PyExecutionState {
    /// Creates the state of an active run, with its writable metadata.
    ///
    /// # Errors
    /// Only if Python fails, for example out of memory.
    pub(crate) fn live(py: Python<'_>, state: ExecutionState, metadata: Py<PyDict>) -> PyResult<Py<PyAny>> {
        let class = Self { metadata: Some(metadata) };
        Ok(Py::new(py, PyClassInitializer::from(Data::new(Arc::new(state))).add_subclass(class))?.into_any())
    }

    fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a ExecutionState> {
        value_of(slf.as_super())
    }
}

attributes! { PyExecutionState(slf) {
    /// The current step, from 1.
    step = Self::of(slf)?.step;

    /// The reasoning of the model, one text per step; None if the strategy has no reasoning phase.
    reasoning = Self::of(slf)?.reasoning;

    /// The steps of the plan; None if the strategy creates none.
    plan = Self::of(slf)?.plan;
} }

#[pymethods]
impl PyExecutionState {
    /// The input, followed by all new messages, in order.
    ///
    /// A hook receives a tuple, because it cannot change the messages of an active run; a checkpoint returns a new
    /// list.
    #[getter]
    fn messages<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let messages = Self::of(slf)?.messages.to_python(slf.py())?;
        match &slf.get().metadata {
            Some(_) => Ok(messages.cast_into::<PyList>()?.to_tuple().into_any()),
            None => Ok(messages),
        }
    }

    /// The metadata of the run, JSON data.
    ///
    /// A hook receives the run's own dict: values that hooks and tools add are present in all later steps, in
    /// checkpoints, and when the run is resumed. A run starts with an empty dict.
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match &slf.get().metadata {
            Some(metadata) => Ok(metadata.bind(slf.py()).clone().into_any()),
            None => Self::of(slf)?.metadata.to_python(slf.py()),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let state = Self::of(slf)?;
        Ok(format!("ExecutionState(step={}, messages={})", state.step, state.messages.len()))
    }
}

garbage_collected!(PyExecutionState: metadata);
