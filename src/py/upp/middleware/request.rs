//! What is asked and what was answered, as hooks see them.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::core::json::{Extra, RawJson};
use crate::message::ToolDefinition;
use crate::py::bridge::guard::lock;
use crate::py::convert::json::{to_raw, to_raw_object};
use crate::py::show::Show;
use crate::py::thread::history_from;
use crate::py::upp::model::system_from;
use crate::upp::middleware::{CallContext as CoreContext, Request};
use crate::upp::{ModelRequest, ModelResponse, System};

/// What a model is about to be asked. In on_start and on_request its members may be set, and their lists and dicts be
/// changed in place: both take effect when the hook is over.
#[pyclass(frozen, module = "turntree.upp.middleware")]
pub(crate) struct CallRequest {
    core: Arc<CoreContext>,
    shown: Mutex<Shown>,
}

/// The members that were read or set since the last hook, as Python has them.
#[derive(Default)]
struct Shown {
    messages: Option<Py<PyAny>>,
    system: Option<Py<PyAny>>,
    params: Option<Py<PyAny>>,
    tools: Option<Py<PyAny>>,
    structure: Option<Py<PyAny>>,
}

type Slot = fn(&mut Shown) -> &mut Option<Py<PyAny>>;

impl CallRequest {
    pub(super) fn new(core: Arc<CoreContext>) -> Self {
        Self { core, shown: Mutex::default() }
    }

    fn llm(&self) -> PyResult<ModelRequest> {
        self.core
            .llm_request()
            .ok_or_else(|| PyTypeError::new_err("only requests of language models have this"))
    }

    fn get<'py>(
        &self,
        py: Python<'py>,
        slot: Slot,
        show: impl FnOnce(ModelRequest) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(shown) = slot(&mut lock(&self.shown)) {
            return Ok(shown.bind(py).clone());
        }
        let value = show(self.llm()?)?;
        *slot(&mut lock(&self.shown)) = Some(value.clone().unbind());
        Ok(value)
    }

    fn set(&self, slot: Slot, value: &Bound<'_, PyAny>) {
        let replaced = slot(&mut lock(&self.shown)).replace(value.clone().unbind());
        drop(replaced);
    }

    /// Takes over what was changed.
    pub(super) fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let shown = std::mem::take(&mut *lock(&self.shown));
        let changed = [&shown.messages, &shown.system, &shown.params, &shown.tools, &shown.structure];
        if changed.iter().all(|member| member.is_none()) {
            return Ok(());
        }
        let before = self.llm()?;
        let mut request = before.clone();
        if let Some(messages) = &shown.messages {
            let messages = history_from(messages.bind(py), "request.messages")?;
            // The same messages stay the same list: where the turn starts is then known exactly.
            let same = messages.len() == before.messages.len()
                && messages.iter().zip(&before.messages).all(|(new, old)| Arc::ptr_eq(new, old));
            request.messages = if same { before.messages.clone() } else { messages };
        }
        if let Some(system) = shown.system.map(|system| system.into_bound(py)) {
            request.system = if system.is_none() { None } else { Some(Arc::new(system_from(&system)?)) };
        }
        if let Some(params) = &shown.params {
            request.params = Arc::new(to_raw_object(params.bind(py), "request.params")?);
        }
        if let Some(tools) = &shown.tools {
            let tools = tools.bind(py).try_iter()?.map(|tool| definition_from(&tool?));
            request.tools = tools.collect::<PyResult<Vec<_>>>()?.into();
        }
        if let Some(structure) = shown.structure.map(|structure| structure.into_bound(py)) {
            let schema =
                if structure.is_none() { None } else { Some(to_raw(&structure, "request.structure")?) };
            if schema.as_ref() != before.structure.as_deref() {
                request.structure = schema.map(Arc::new);
            }
        }
        self.core.set_request(Request::Llm(request));
        Ok(())
    }
}

/// A tool from its dict or from anything that has a tool's attributes.
fn definition_from(tool: &Bound<'_, PyAny>) -> PyResult<ToolDefinition> {
    if tool.is_instance_of::<PyDict>() {
        let raw = to_raw(tool, "request.tools")?;
        return raw.to().map_err(|error| PyTypeError::new_err(format!("request.tools: {error}")));
    }
    let metadata = tool.getattr("metadata")?;
    Ok(ToolDefinition {
        name: tool.getattr("name")?.extract()?,
        description: tool.getattr("description")?.extract()?,
        parameters: to_raw(&tool.getattr("parameters")?, "parameters")?,
        metadata: if metadata.is_none() { None } else { Some(to_raw_object(&metadata, "metadata")?) },
        extra: Extra::new(),
    })
}

#[pymethods]
impl CallRequest {
    /// The conversation, oldest first, as a list.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(
            py,
            |shown| &mut shown.messages,
            |request| request.messages.iter().cloned().collect::<Vec<_>>().show(py),
        )
    }

    #[setter]
    fn set_messages(&self, value: &Bound<'_, PyAny>) {
        self.set(|shown| &mut shown.messages, value);
    }

    /// The system prompt: a text, a list of blocks, or None.
    #[getter]
    fn system<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(
            py,
            |shown| &mut shown.system,
            |request| match request.system.as_deref() {
                Some(System::Text(text)) => text.show(py),
                Some(System::Blocks(blocks)) => blocks.show(py),
                None => Ok(py.None().into_bound(py)),
            },
        )
    }

    #[setter]
    fn set_system(&self, value: &Bound<'_, PyAny>) {
        self.set(|shown| &mut shown.system, value);
    }

    /// The model's own parameters, a dict.
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, |shown| &mut shown.params, |request| request.params.show(py))
    }

    #[setter]
    fn set_params(&self, value: &Bound<'_, PyAny>) {
        self.set(|shown| &mut shown.params, value);
    }

    /// The tools that are offered, a list of dicts; tools may be left out, put in another order or described anew.
    #[getter]
    fn tools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(
            py,
            |shown| &mut shown.tools,
            |request| {
                let tools = RawJson::from_value(&*request.tools)
                    .map_err(|error| crate::py::error::serialization(py, &error))?;
                tools.show(py)
            },
        )
    }

    #[setter]
    fn set_tools(&self, value: &Bound<'_, PyAny>) {
        self.set(|shown| &mut shown.tools, value);
    }

    /// JSON Schema of the structured answer, or None.
    #[getter]
    fn structure<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, |shown| &mut shown.structure, |request| request.structure.as_deref().cloned().show(py))
    }

    #[setter]
    fn set_structure(&self, value: &Bound<'_, PyAny>) {
        self.set(|shown| &mut shown.structure, value);
    }

    fn __repr__(&self) -> PyResult<String> {
        let request = self.llm()?;
        Ok(format!("CallRequest({} messages, {} tools)", request.messages.len(), request.tools.len()))
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature that pyo3 calls")]
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Never wait inside the collector: whoever holds the lock only clones a reference.
        let Ok(shown) = self.shown.try_lock() else { return Ok(()) };
        for member in [&shown.messages, &shown.system, &shown.params, &shown.tools, &shown.structure] {
            visit.call(member)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        let shown = std::mem::take(&mut *lock(&self.shown));
        drop(shown);
    }
}

/// What a language model answered last.
#[pyclass(frozen, module = "turntree.upp.middleware")]
pub(crate) struct CallResponse(pub(super) ModelResponse);

#[pymethods]
impl CallResponse {
    /// The model's message.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.message.show(py)
    }

    /// Tokens of this call.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.usage.show(py)
    }

    /// Why the model stopped, as "end_turn".
    #[getter]
    fn stop_reason(&self) -> &'static str {
        self.0.stop_reason.as_str()
    }

    /// The structured answer, when one was asked for and came.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.data.show(py)
    }

    fn __repr__(&self) -> String {
        format!("CallResponse(stop_reason=\"{}\")", self.0.stop_reason.as_str())
    }
}
