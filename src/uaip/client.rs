//! Clients of servers, over HTTP and in process.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream;
use pyo3::intern;
use pyo3::types::PyList;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::serve::{Served, Settings, callbacks, workflow_list};
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil;
use crate::convert::json::{json_to_python, to_raw_object};
use crate::error::{OrRaise as _, ToException, build, value_error};
use crate::server::event_loop::ServerLoop;
use crate::store::store::{StoreCore, answer};
use turntree_core::http::{
    HttpClient, PreparedRequest, ResponseBody, Transport, TransportError, TransportFuture, TransportResponse,
};
use turntree_core::ids::{IdSource as _, RandomIds};
use turntree_core::secret::Secret;
use turntree_server::{BearerTokens, Body, Connection, Principal, Request, Service};
use turntree_uaip::client::{CallEvent, ClientError, ClientSession, UaipClient};

/// The native half of ``turntree.uaip.Client``.
///
/// With ``blocking=False``, operations return a coroutine.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct UaipClientCore {
    client: UaipClient,
    /// The workflows of a client in process.
    callbacks: Callbacks,
}

/// The native half of ``turntree.uaip.Session``.
///
/// With ``blocking=False``, operations return a coroutine.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct UaipSessionCore {
    session: Arc<ClientSession>,
    /// The workflows of a session in process.
    callbacks: Callbacks,
}

/// Answers requests by a service of this process, on the event loop of the caller.
struct InProcess {
    service: Service,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InProcess")
    }
}

impl Transport for InProcess {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let service = self.service.clone();
        // Called on the thread of the caller, the future is polled on another one.
        let server_loop = gil::require_held(|py| ServerLoop::capture(py, false));
        Box::pin(async move {
            let rejected = |message: &str| TransportError::Rejected { message: message.to_owned() };
            let server_loop = server_loop.map_err(|error| rejected(&error.to_string()))?;
            let mut inner = Request::new(Body::full(request.body));
            *inner.method_mut() = request.method;
            *inner.uri_mut() = request.url.as_str().parse().map_err(|_| rejected("the URL is invalid"))?;
            *inner.headers_mut() = request.headers;
            let (to_client, mut parts) = mpsc::channel(1);
            let work = async move { answer_in_parts(service, inner, to_client).await };
            let mut work = Box::pin(async move { server_loop.run("workflow", work).await });
            let closed = || rejected("the event loop is closed");
            let first = match select(work.as_mut(), Box::pin(parts.recv())).await {
                Either::Left((_, part)) => part.await,
                Either::Right((part, _)) => part,
            };
            let Some(Part::Head(head)) = first else { return Err(closed()) };
            let chunks = stream::unfold((parts, Some(work)), next_chunk);
            Ok(TransportResponse::from_parts(*head, ResponseBody::new(chunks)))
        })
    }
}

/// A part of a response in process.
enum Part {
    Head(Box<http::response::Parts>),
    Chunk(Result<Bytes, TransportError>),
}

/// Answers a request on the event loop, and sends the parts of the response to the client.
async fn answer_in_parts(service: Service, request: Request, to_client: mpsc::Sender<Part>) {
    let (head, mut body) = service.call(request, Connection::default()).await.into_parts();
    let mut part = Part::Head(Box::new(head));
    // A client that has gone.
    while to_client.send(part).await.is_ok() {
        let Some(chunk) = body.next().await else { return };
        part = Part::Chunk(chunk.map_err(|error| TransportError::Rejected { message: error.to_string() }));
    }
}

/// Drives the response while the client waits for its next chunk.
async fn next_chunk<W: Future + Unpin>(
    (mut parts, work): (mpsc::Receiver<Part>, Option<W>),
) -> Option<(Result<Bytes, TransportError>, (mpsc::Receiver<Part>, Option<W>))> {
    let (part, work) = match work {
        None => (parts.recv().await, None),
        Some(work) => match select(work, Box::pin(parts.recv())).await {
            Either::Left((_, part)) => (part.await, None),
            Either::Right((part, work)) => (part, Some(work)),
        },
    };
    match part {
        Some(Part::Chunk(chunk)) => Some((chunk, (parts, work))),
        Some(Part::Head(_)) | None => None,
    }
}

#[pymethods]
impl UaipClientCore {
    /// A client of the server at a URL. Raises ValueError for a URL that is not one.
    #[staticmethod]
    fn connect(url: &str, token: Option<String>) -> PyResult<Self> {
        let http = HttpClient::shared(&UaipClient::default_config()).map_err(value_error)?;
        let client = UaipClient::new(url, token.map(Secret::new), http, Arc::new(RandomIds));
        Ok(Self { client, callbacks: Callbacks::default() })
    }

    /// A client of workflows in this process. Their functions run on the event loop of the caller.
    ///
    /// With a ``principal``, sessions belong to it: clients of servers on the same store do not find them.
    #[staticmethod]
    fn in_process(
        workflows: &Bound<'_, PyList>,
        store: &StoreCore,
        settings: Settings,
        principal: Option<String>,
    ) -> PyResult<Self> {
        let workflows = workflow_list(workflows)?;
        let application = Served::new(&workflows, store, settings)?.service(&ServerLoop::Running)?;
        let mut service = Service::new(application);
        let token = principal.map(|principal| {
            let token = Secret::new(RandomIds.string());
            (token, Principal::new(principal))
        });
        if let Some(known) = token.clone() {
            service = service.with_authenticator(BearerTokens::new([known]));
        }
        let http = HttpClient::new(Arc::new(InProcess { service }), &UaipClient::default_config());
        let token = token.map(|(token, _)| token);
        let client = UaipClient::new("http://in-process", token, http, Arc::new(RandomIds));
        Ok(Self { client, callbacks: callbacks(&workflows) })
    }

    /// Opens a session, or the one that was opened with the same ``key``.
    fn open(
        slf: Py<Self>,
        py: Python<'_>,
        workflow: Option<String>,
        key: Option<String>,
        blocking: bool,
    ) -> PyResult<Py<PyAny>> {
        let client = slf.get().client.clone();
        answer(py, "open", blocking, async move {
            let opened = match key {
                Some(key) => client.open_with_key(workflow.as_deref(), key).await,
                None => client.open(workflow.as_deref()).await,
            };
            let session = opened.or_raise_held()?;
            gil::require_held(|py| {
                let owner = Callbacks { objects: vec![slf.clone_ref(py).into_any()], ..Callbacks::default() };
                Py::new(py, UaipSessionCore { session: Arc::new(session), callbacks: owner })
            })
        })
    }

    /// The schema of a workflow.
    fn workflow(&self, py: Python<'_>, name: String, blocking: bool) -> PyResult<Py<PyAny>> {
        let client = self.client.clone();
        answer(py, "workflow", blocking, async move {
            let view = client.workflow(&name).await.or_raise_held()?;
            gil::require_held(|py| json_to_python(py, &view.to_string()))
        })
    }
}

garbage_collected!(UaipClientCore: callbacks);
garbage_collected!(UaipSessionCore: callbacks);

#[pymethods]
impl UaipSessionCore {
    /// The id, which is a secret.
    #[getter]
    fn id(&self) -> &str {
        self.session.id().expose()
    }

    /// The name of the workflow.
    #[getter]
    fn workflow(&self) -> &str {
        self.session.workflow()
    }

    /// The current stage.
    #[getter]
    fn stage(&self) -> String {
        self.session.stage()
    }

    /// The names of all stages.
    #[getter]
    fn stages(&self) -> Vec<String> {
        self.session.stages().to_vec()
    }

    /// The version of the state, if the server sends it.
    #[getter]
    fn version(&self) -> Option<u64> {
        self.session.version()
    }

    /// Whether no transition leaves the current stage.
    #[getter]
    fn terminal(&self) -> bool {
        self.session.is_terminal()
    }

    /// Whether the session was ended.
    #[getter]
    fn ended(&self) -> bool {
        self.session.has_ended()
    }

    /// The tools that can be called now: dicts with ``name``, ``description`` and ``input_schema``.
    #[getter]
    fn tools(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        json_to_python(py, &serde_json::to_string(&*self.session.tools()).map_err(value_error)?)
    }

    /// Calls a task and returns its result.
    fn call(
        &self,
        py: Python<'_>,
        task: String,
        arguments: &Bound<'_, PyAny>,
        blocking: bool,
    ) -> PyResult<Py<PyAny>> {
        let (session, arguments) = (Arc::clone(&self.session), members(arguments, "arguments")?);
        answer(py, "call", blocking, async move {
            let result = session.call(&task, arguments).await.or_raise_held()?;
            gil::require_held(|py| json_to_python(py, &result.to_string()))
        })
    }

    /// Calls a task, and calls a function of each report. Returns the result.
    fn call_with_progress(
        &self,
        py: Python<'_>,
        task: String,
        arguments: &Bound<'_, PyAny>,
        on_progress: &Bound<'_, PyAny>,
        blocking: bool,
    ) -> PyResult<Py<PyAny>> {
        let (session, arguments) = (Arc::clone(&self.session), members(arguments, "arguments")?);
        let on_progress = PyCallback::new(on_progress)?;
        answer(py, "call", blocking, async move {
            let mut running = session.start_call(&task, arguments).await.or_raise_held()?;
            loop {
                let progress = match running.next().await.or_raise_held()? {
                    CallEvent::Result(result) => {
                        return gil::require_held(|py| json_to_python(py, &result.to_string()));
                    }
                    CallEvent::Progress(progress) => progress,
                };
                let reported = gil::require_held(|py| {
                    let text = serde_json::to_string(&progress).map_err(value_error)?;
                    let report = json_to_python(py, &text)?;
                    on_progress.call(py, (report,).into_pyobject(py)?.unbind())
                })?;
                reported.await?;
            }
        })
    }

    /// Moves to another stage.
    fn go(&self, py: Python<'_>, stage: String, blocking: bool) -> PyResult<Py<PyAny>> {
        let session = Arc::clone(&self.session);
        answer(py, "go", blocking, async move { session.go(&stage).await.or_raise_held() })
    }

    /// Writes values of the state.
    fn provide(&self, py: Python<'_>, values: &Bound<'_, PyAny>, blocking: bool) -> PyResult<Py<PyAny>> {
        let (session, values) = (Arc::clone(&self.session), members(values, "state")?);
        answer(py, "provide", blocking, async move { session.provide(values).await.or_raise_held() })
    }

    /// Ends the session.
    fn end(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let session = Arc::clone(&self.session);
        answer(py, "end", blocking, async move { session.end().await.or_raise_held() })
    }

    /// Reads the state that agents may see.
    fn state(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let session = Arc::clone(&self.session);
        answer(py, "state", blocking, async move {
            let state = session.state().await.or_raise_held()?;
            gil::require_held(|py| json_to_python(py, &Value::Object(state).to_string()))
        })
    }
}

fn members(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Map<String, Value>> {
    match serde_json::to_value(to_raw_object(value, what)?).map_err(value_error)? {
        Value::Object(members) => Ok(members),
        _ => Ok(Map::new()),
    }
}

/// `turntree.uaip.UaipError`.
impl ToException for ClientError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        let body = match self {
            Self::Refused { body, .. } => Value::Object(body.clone()),
            Self::ApprovalRequired { request, .. } => serde_json::json!({ "approval": request }),
            Self::TaskFailed { correlation_id: Some(id), .. } => serde_json::json!({ "correlation_id": id }),
            _ => Value::Object(Map::new()),
        };
        let detail = match self {
            Self::Refused { detail, .. } => detail.clone(),
            other => other.to_string(),
        };
        build((|| {
            let class = py.import(intern!(py, "turntree.uaip._errors"))?.getattr(intern!(py, "UaipError"))?;
            class.call1((detail, self.code(), self.status(), json_to_python(py, &body.to_string())?))
        })())
    }
}
