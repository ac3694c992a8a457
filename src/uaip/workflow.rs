//! A checked workflow with its Python functions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use crate::prelude::*;
use pyo3::exceptions::PyValueError;
use pyo3::types::PyDict;

use crate::bridge::callbacks::PyCallback;
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil::lock;
use crate::bridge::sync;
use crate::convert::json::{json_to_python, to_raw};
use crate::convert::text::text_of;
use crate::error::{OrRaise as _, ToException, value_error};
use serde_json::Value;
use turntree_core::time::{Clock as _, SystemClock};
use turntree_store::Engine;
use turntree_uaip::store::{ApprovalDecision, PendingApproval};
use turntree_uaip::{DefinitionError, SessionStore, Workflow, WorkflowDefinition};

/// Which function of a workflow: its kind, and two names.
///
/// `("task", stage, task)`, `("guard", from, to)`, `("prerequisites", stage, "")`, `("on_enter", stage, "")`,
/// `("on_exit", stage, "")`.
pub(super) type FunctionKey = (String, String, String);

/// The native half of ``turntree.uaip.Workflow``: a definition that was checked, with its functions.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct WorkflowCore {
    workflow: Arc<Workflow>,
    functions: Functions,
    /// The stores of the services that run now. Weak: the services hold them.
    engines: Mutex<Vec<Weak<dyn Engine>>>,
}

/// The functions of a workflow.
#[derive(Clone, Default)]
pub(super) struct Functions {
    by_key: Arc<HashMap<FunctionKey, Arc<PyCallback>>>,
}

impl ToException for DefinitionError {
    fn to_exception(&self, _py: Python<'_>) -> PyErr {
        PyValueError::new_err(self.to_string())
    }
}

impl Functions {
    /// Finds a function.
    pub(super) fn get(&self, key: &FunctionKey) -> Option<Arc<PyCallback>> {
        self.by_key.get(key).map(Arc::clone)
    }
}

impl WorkflowCore {
    /// The workflow.
    pub(super) fn workflow(&self) -> Arc<Workflow> {
        Arc::clone(&self.workflow)
    }

    /// Remembers the store of a service of this workflow, for approvals.
    pub(super) fn attach(&self, engine: &Arc<dyn Engine>) {
        let mut engines = lock(&self.engines);
        engines.retain(|known| known.strong_count() > 0);
        let is_known = engines.iter().any(|known| known.as_ptr().cast::<()>() == Arc::as_ptr(engine).cast());
        if !is_known {
            engines.push(Arc::downgrade(engine));
        }
    }

    /// The stores of the services that run now.
    fn stores(&self) -> PyResult<Vec<SessionStore>> {
        let engines: Vec<_> = lock(&self.engines).iter().filter_map(Weak::upgrade).collect();
        engines.into_iter().map(|engine| SessionStore::new(engine).or_raise_held()).collect()
    }

    /// The functions, with the name of the workflow.
    pub(super) fn named_functions(&self) -> (String, Functions) {
        (self.workflow.name().to_owned(), self.functions.clone())
    }
}

#[pymethods]
impl WorkflowCore {
    /// Checks a definition. ``functions`` maps ``(kind, stage, name)`` to functions.
    ///
    /// A function receives the arguments, the state and the context. Raises ValueError with the place, the rule and the
    /// remedy.
    #[new]
    fn new(definition: &Bound<'_, PyAny>, functions: &Bound<'_, PyDict>) -> PyResult<Self> {
        let definition = to_raw(definition, "definition")?;
        let definition: WorkflowDefinition = serde_json::from_str(definition.get()).map_err(value_error)?;
        let workflow = Workflow::new(definition).map_err(value_error)?;
        let mut by_key = HashMap::with_capacity(functions.len());
        for (key, function) in functions {
            by_key.insert(text_of(&key, "functions")?, PyCallback::patient(&function)?);
        }
        let functions = Functions { by_key: Arc::new(by_key) };
        Ok(Self { workflow: Arc::new(workflow), functions, engines: Mutex::default() })
    }

    /// The calls that wait for a decision, in the stores of running services: ``(id, task, arguments)``.
    fn approvals(&self, py: Python<'_>) -> PyResult<Vec<(String, String, Py<PyAny>)>> {
        let (stores, workflow) = (self.stores()?, Arc::clone(&self.workflow));
        let waiting = sync::run_sync(py, async move {
            let mut all = Vec::new();
            for store in stores {
                let calls = store.pending_approvals(workflow.name(), SystemClock.now()).await;
                all.extend(calls.or_raise_held()?);
            }
            Ok(all)
        })?;
        let row = |call: PendingApproval| {
            let arguments = json_to_python(py, &Value::Object(call.arguments).to_string())?;
            Ok((call.id, call.task, arguments))
        };
        waiting.into_iter().map(row).collect()
    }

    /// Stores a decision: ``reason`` None grants the call. Returns whether a call with this id waited.
    fn decide(&self, py: Python<'_>, id: String, reason: Option<String>) -> PyResult<bool> {
        let decision = reason.map_or(ApprovalDecision::Granted, |reason| ApprovalDecision::Denied { reason });
        let (stores, workflow) = (self.stores()?, Arc::clone(&self.workflow));
        sync::run_sync(py, async move {
            let mut is_stored = false;
            for store in stores {
                let decided = store.decide(workflow.name(), &id, &decision, SystemClock.now()).await;
                is_stored |= decided.or_raise_held()?;
            }
            Ok(is_stored)
        })
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.workflow.name()
    }

    /// The name of the stage in which sessions start.
    #[getter]
    fn initial_stage(&self) -> &str {
        self.workflow.initial_stage()
    }
}

garbage_collected!(WorkflowCore: functions);

impl crate::bridge::gc::Collect for Functions {
    fn traverse(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.by_key.values().try_for_each(|function| function.traverse(visit))
    }

    fn clear(&self) {
        for function in self.by_key.values() {
            function.clear();
        }
    }
}
