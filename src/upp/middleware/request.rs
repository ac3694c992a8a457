//! The request and the response of a model call, as hooks see them.

use std::sync::{Arc, Mutex};

use crate::error::not_constructible;
use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyString};

use crate::bridge::gc::{Collect, garbage_collected};
use crate::bridge::gil::lock;
use crate::convert::json::{to_raw, to_raw_object};
use crate::convert::text::text_of;
use crate::thread::history_from;
use crate::to_python::ToPython;
use crate::upp::embedding::{input_type_of, inputs_from};
use crate::upp::image::prompt_from;
use crate::upp::request::system_from;
use turntree_core::json::{Extra, RawJson, RawObject, describe_part};
use turntree_core::message::ToolDefinition;
use turntree_upp::embedding::EmbeddingRequest;
use turntree_upp::image::ImageRequest;
use turntree_upp::middleware::{CallContext as CoreContext, Request};
use turntree_upp::{ModelRequest, ModelResponse, System};

/// The request of a call.
///
/// ``on_start`` and ``on_request`` may set its attributes, and change their lists and dicts in place. Changes
/// take effect when the hook returns. Requests of language models have `messages`, `system`, `tools` and
/// `structure`, those of embedding models `inputs` and `input_type`, those of image models `prompt`; all have
/// `params`. Other attributes raise `TypeError`.
#[pyclass(frozen, module = "turntree.upp.middleware")]
pub(crate) struct CallRequest {
    core: Arc<CoreContext>,
    shown: Mutex<Shown>,
}

/// The members that were read or set since the last hook, as Python objects.
#[derive(Default)]
struct Shown(Vec<(Member, Py<PyAny>)>);

/// A member of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Messages,
    System,
    Params,
    Tools,
    Structure,
    Inputs,
    InputType,
    Prompt,
}

impl Shown {
    fn get(&self, member: Member) -> Option<&Py<PyAny>> {
        self.0.iter().find(|(known, _)| *known == member).map(|(_, object)| object)
    }

    /// Removes and returns a member.
    fn take(&mut self, member: Member) -> Option<Py<PyAny>> {
        let place = self.0.iter().position(|(known, _)| *known == member)?;
        Some(self.0.swap_remove(place).1)
    }

    fn taken<'py>(&mut self, py: Python<'py>, member: Member) -> Option<Bound<'py, PyAny>> {
        self.take(member).map(|object| object.into_bound(py))
    }
}

impl Collect for Shown {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().try_for_each(|(_, object)| visit.call(object))
    }
}

fn missing(what: &str) -> PyErr {
    PyTypeError::new_err(format!("only requests of {what} have this"))
}

impl CallRequest {
    pub(super) fn new(core: Arc<CoreContext>) -> Self {
        Self { core, shown: Mutex::default() }
    }

    fn llm(&self) -> PyResult<ModelRequest> {
        self.core.llm_request().ok_or_else(|| missing("language models"))
    }

    fn embedding(&self) -> PyResult<EmbeddingRequest> {
        self.core.embedding_request().ok_or_else(|| missing("embedding models"))
    }

    fn image(&self) -> PyResult<ImageRequest> {
        self.core.image_request().ok_or_else(|| missing("image models"))
    }

    fn get<'py>(
        &self,
        py: Python<'py>,
        member: Member,
        show: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(shown) = lock(&self.shown).get(member) {
            return Ok(shown.bind(py).clone());
        }
        let value = show()?;
        self.set(member, &value);
        Ok(value)
    }

    fn set(&self, member: Member, value: &Bound<'_, PyAny>) {
        let mut shown = lock(&self.shown);
        let replaced = shown.take(member);
        shown.0.push((member, value.clone().unbind()));
        drop(shown);
        drop(replaced);
    }

    /// Applies the changes to the request.
    pub(super) fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let mut shown = std::mem::take(&mut *lock(&self.shown));
        if shown.0.is_empty() {
            return Ok(());
        }
        let changed = match self.core.request() {
            Request::Llm(request) => Request::Llm(settled_llm(py, request, &mut shown)?),
            Request::Embedding(request) => Request::Embedding(settled_embedding(py, request, &mut shown)?),
            Request::Image(request) => Request::Image(settled_image(py, request, &mut shown)?),
        };
        self.core.set_request(changed);
        Ok(())
    }
}

fn settled_params(py: Python<'_>, before: Arc<RawObject>, shown: &mut Shown) -> PyResult<Arc<RawObject>> {
    match shown.taken(py, Member::Params) {
        Some(params) => Ok(Arc::new(to_raw_object(&params, "request.params")?)),
        None => Ok(before),
    }
}

fn settled_llm(py: Python<'_>, mut request: ModelRequest, shown: &mut Shown) -> PyResult<ModelRequest> {
    if let Some(messages) = shown.taken(py, Member::Messages) {
        let messages = history_from(&messages, "request.messages")?;
        // Keep an unchanged list, so that the start of the turn stays exact.
        let same = messages.len() == request.messages.len()
            && messages.iter().zip(&request.messages).all(|(new, old)| Arc::ptr_eq(new, old));
        if !same {
            request.messages = messages;
        }
    }
    if let Some(system) = shown.taken(py, Member::System) {
        request.system = if system.is_none() { None } else { Some(Arc::new(system_from(&system)?)) };
    }
    request.params = settled_params(py, request.params, shown)?;
    if let Some(tools) = shown.taken(py, Member::Tools) {
        let tools = tools.try_iter()?.map(|tool| definition_from(&tool?));
        request.tools = tools.collect::<PyResult<Vec<_>>>()?.into();
    }
    if let Some(structure) = shown.taken(py, Member::Structure) {
        let schema = if structure.is_none() { None } else { Some(to_raw(&structure, "request.structure")?) };
        if schema.as_ref() != request.structure.as_deref() {
            request.structure = schema.map(Arc::new);
        }
    }
    Ok(request)
}

fn settled_embedding(
    py: Python<'_>,
    mut request: EmbeddingRequest,
    shown: &mut Shown,
) -> PyResult<EmbeddingRequest> {
    if let Some(inputs) = shown.taken(py, Member::Inputs) {
        request.inputs = inputs_from(&inputs)?.into();
    }
    if let Some(kind) = shown.taken(py, Member::InputType) {
        request.input_type = text_of::<Option<String>>(&kind, "request.input_type")?
            .as_deref()
            .map(input_type_of)
            .transpose()?;
    }
    request.params = settled_params(py, request.params, shown)?;
    Ok(request)
}

fn settled_image(py: Python<'_>, mut request: ImageRequest, shown: &mut Shown) -> PyResult<ImageRequest> {
    if let Some(prompt) = shown.taken(py, Member::Prompt) {
        request.prompt = prompt_from(&prompt)?.into();
    }
    request.params = settled_params(py, request.params, shown)?;
    Ok(request)
}

/// A tool from its dict or from anything that has a tool's attributes.
fn definition_from(tool: &Bound<'_, PyAny>) -> PyResult<ToolDefinition> {
    if tool.is_instance_of::<PyDict>() {
        let raw = to_raw(tool, "request.tools")?;
        return raw
            .to()
            .map_err(|error| PyTypeError::new_err(format!("request.tools: {}", describe_part(&error))));
    }
    let metadata = tool.getattr("metadata")?;
    Ok(ToolDefinition {
        name: text_of(&tool.getattr("name")?, "request.tools: name")?,
        description: text_of(&tool.getattr("description")?, "request.tools: description")?,
        parameters: to_raw(&tool.getattr("parameters")?, "parameters")?,
        metadata: if metadata.is_none() { None } else { Some(to_raw_object(&metadata, "metadata")?) },
        extra: Extra::new(),
    })
}

/// A property for each member: read once from the request, and then the object that hooks change or replace.
macro_rules! members {
    ($( $(#[doc = $doc:literal])* $getter:ident, $setter:ident: $member:ident = |$this:ident, $py:ident| $value:expr; )+) => {
        #[pymethods]
        impl CallRequest {
            $(
                $(#[doc = $doc])*
                #[getter]
                fn $getter<'py>(&self, $py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                    let $this = self;
                    self.get($py, Member::$member, || $value)
                }

                #[setter]
                fn $setter(&self, value: &Bound<'_, PyAny>) {
                    self.set(Member::$member, value);
                }
            )+
        }
    };
}

members! {
    /// The conversation as a list, oldest message first. The ids of the messages mark where the turn starts.
    messages, set_messages: Messages =
        |this, py| this.llm()?.messages.iter().cloned().collect::<Vec<_>>().to_python(py);
    /// The system prompt: a text, a list of blocks, or None.
    system, set_system: System = |this, py| match this.llm()?.system.as_deref() {
        Some(System::Text(text)) => text.to_python(py),
        Some(System::Blocks(blocks)) => blocks.to_python(py),
        None => Ok(py.None().into_bound(py)),
    };
    /// The model's own parameters, a dict.
    params, set_params: Params = |this, py| match this.core.request() {
        Request::Llm(request) => request.params.to_python(py),
        Request::Embedding(request) => request.params.to_python(py),
        Request::Image(request) => request.params.to_python(py),
    };
    /// The tools that the model may call. Remove, reorder or change them.
    ///
    /// A tool that was not passed to the model can be added, but not executed.
    tools, set_tools: Tools = |this, py| RawJson::from_value(&*this.llm()?.tools)
        .map_err(|error| crate::convert::error::serialization(py, &error))?
        .to_python(py);
    /// JSON Schema of the structured answer, or None.
    structure, set_structure: Structure = |this, py| this.llm()?.structure.as_deref().cloned().to_python(py);
    /// The inputs to embed, before batching: a list of texts and `Image` blocks.
    inputs, set_inputs: Inputs = |this, py| this.embedding()?.inputs.to_vec().to_python(py);
    /// Purpose of the embeddings: "document", "query" or None.
    input_type, set_input_type: InputType = |this, py| {
        this.embedding()?.input_type.map(|kind| kind.as_str().to_owned()).to_python(py)
    };
    /// The prompt of an image, or of the change to an image.
    prompt, set_prompt: Prompt = |this, py| Ok(PyString::new(py, &this.image()?.prompt).into_any());
}

not_constructible!(CallRequest, "the context of a middleware has one as context.request");

#[pymethods]
impl CallRequest {
    fn __repr__(&self) -> String {
        match self.core.request() {
            Request::Llm(request) => {
                format!("CallRequest({} messages, {} tools)", request.messages.len(), request.tools.len())
            }
            Request::Embedding(request) => format!("CallRequest({} inputs)", request.inputs.len()),
            Request::Image(_) => "CallRequest(a prompt)".to_owned(),
        }
    }
}

garbage_collected!(CallRequest: shown);

/// The last response of a language model.
#[pyclass(frozen, module = "turntree.upp.middleware")]
pub(crate) struct CallResponse(pub(super) ModelResponse);

not_constructible!(CallResponse, "the context of a middleware has one as context.response");

#[pymethods]
impl CallResponse {
    /// The model's message.
    #[getter]
    fn message<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.message.to_python(py)
    }

    /// Tokens of this call.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.usage.to_python(py)
    }

    /// The stop reason, such as `end_turn`.
    #[getter]
    fn stop_reason(&self) -> &'static str {
        self.0.stop_reason.as_str()
    }

    /// The structured answer, or None.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.data.to_python(py)
    }

    fn __repr__(&self) -> String {
        format!("CallResponse(stop_reason=\"{}\")", self.0.stop_reason.as_str())
    }
}
