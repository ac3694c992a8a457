//! Connections to MCP servers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil;
use crate::convert::json::{json_to_python, to_raw};
use crate::error::{OrRaise as _, value_error};
use crate::server::event_loop::ServerLoop;
use crate::store::store::answer;
use turntree_core::http::{HttpConfig, ReqwestTransport};
use turntree_core::runtime;
use turntree_core::secret::Secret;
use turntree_mcp::{
    CallEvent, CallKey, Client, ClientOptions, ClientPort, Endpoint, HttpEndpoint, PortError, RunningCall,
    StdioCommand,
};

/// The native half of a connection of ``turntree.mcp``. Operations return a coroutine.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct McpClientCore {
    client: Arc<Client>,
    callbacks: Callbacks,
}

/// What a client declares to servers; `timeout` is in seconds.
#[derive(FromPyObject)]
pub(crate) struct Settings {
    #[pyo3(item)]
    version: String,
    #[pyo3(item)]
    timeout: Option<f64>,
    #[pyo3(item)]
    sampling: bool,
    #[pyo3(item)]
    elicitation: bool,
    #[pyo3(item)]
    roots: bool,
}

impl Settings {
    fn options(self) -> PyResult<ClientOptions> {
        let seconds = |number| {
            let duration = Duration::try_from_secs_f64(number).ok().filter(|duration| !duration.is_zero());
            duration.ok_or_else(|| {
                value_error(format!("timeout must be a number of seconds greater than 0, not {number}"))
            })
        };
        Ok(ClientOptions {
            client: ("turntree".to_owned(), self.version),
            timeout: self.timeout.map(seconds).transpose()?,
            sampling: self.sampling,
            elicitation: self.elicitation,
            roots: self.roots,
        })
    }
}

/// Calls a Python function with the requests and notifications of a server, on the event loop that has connected.
struct PyPort {
    answer: Arc<PyCallback>,
    server_loop: ServerLoop,
}

impl fmt::Debug for PyPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PyPort")
    }
}

impl ClientPort for PyPort {
    fn request(
        &self,
        method: String,
        params: Value,
        call: Option<CallKey>,
    ) -> BoxFuture<'static, Result<Value, PortError>> {
        let (function, server_loop) = (Arc::clone(&self.answer), self.server_loop.clone());
        Box::pin(async move {
            let calling = server_loop.clone();
            let work = async move { self::call(&function, &calling, &method, &params, call).await };
            let answered = server_loop.run("mcp", work).await;
            answered.ok_or_else(|| PortError::internal("the event loop of the client is closed"))?
        })
    }

    fn notification(&self, method: String, params: Value) {
        let answering = self.request(method, params, None);
        runtime::spawn(async move {
            if let Err(error) = answering.await {
                log::debug!(target: "turntree.mcp", "a notification is not handled: {error}");
            }
        })
        .detach();
    }
}

/// Calls the function on the thread of the event loop. It returns `(answer, None)` or `(None, (code, message))`.
async fn call(
    function: &Arc<PyCallback>,
    server_loop: &ServerLoop,
    method: &str,
    params: &Value,
    call: Option<CallKey>,
) -> Result<Value, PortError> {
    let started = gil::require_held(|py| {
        let (params, key) = (json_to_python(py, &params.to_string())?, call.map(|CallKey(key)| key));
        let arguments = (method, params, key).into_pyobject(py)?.unbind();
        function.call_from(py, arguments, &server_loop.caller(py)?)
    });
    let value = async { started?.await }.await;
    let read = gil::require_held(|py| {
        let (answer, refused): (Bound<'_, PyAny>, Option<(i32, String)>) = value?.extract(py)?;
        match refused {
            Some((code, message)) => Ok(Err(PortError { code, message })),
            None => serde_json::from_str(to_raw(&answer, "answer")?.get()).map(Ok).map_err(value_error),
        }
    });
    read.unwrap_or_else(|error: PyErr| Err(PortError::internal(error.to_string())))
}

/// Connects, and makes the object of the connection.
fn connecting(
    py: Python<'_>,
    endpoint: Endpoint,
    settings: Settings,
    function: &Bound<'_, PyAny>,
) -> PyResult<Py<PyAny>> {
    let function = PyCallback::new(function)?;
    let port = PyPort { answer: Arc::clone(&function), server_loop: ServerLoop::capture(py, false)? };
    let connected = Client::connect(endpoint, settings.options()?, Arc::new(port));
    answer(py, "connect", false, async move {
        let client = Arc::new(connected.await.or_raise_held()?);
        let callbacks = Callbacks { functions: vec![function], ..Callbacks::default() };
        gil::require_held(|py| Py::new(py, McpClientCore { client, callbacks }))
    })
}

#[pymethods]
impl McpClientCore {
    /// Starts a program and connects to it. ``answer`` takes the method and parameters of the server's requests.
    ///
    /// Its third argument is the key of the call on whose stream a request arrives, or None if that is not known.
    #[staticmethod]
    fn stdio(
        py: Python<'_>,
        command: Vec<String>,
        environment: BTreeMap<String, String>,
        directory: Option<PathBuf>,
        settings: Settings,
        answer: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let mut arguments = command.into_iter();
        let program = arguments.next().unwrap_or_default();
        let command = StdioCommand { program, arguments: arguments.collect(), environment, directory };
        connecting(py, Endpoint::Stdio(command), settings, answer)
    }

    /// Connects over Streamable HTTP; with ``sse``, over the HTTP transport of 2024.
    #[staticmethod]
    fn http(
        py: Python<'_>,
        url: &str,
        headers: Vec<(String, String)>,
        token: Option<String>,
        sse: bool,
        settings: Settings,
        answer: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let transport = ReqwestTransport::shared(&HttpConfig::default()).map_err(value_error)?;
        let token = token.map(Secret::new);
        let endpoint = HttpEndpoint::new(url, &headers, token.as_ref(), transport).map_err(value_error)?;
        let endpoint = if sse { Endpoint::Sse(endpoint) } else { Endpoint::Http(endpoint) };
        connecting(py, endpoint, settings, answer)
    }

    /// What the server said of itself.
    #[getter]
    fn server(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        json_to_python(py, &self.client.server().to_string())
    }

    /// Whether the connection has ended.
    #[getter]
    fn closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Sends a request, calls ``on_progress`` with each report, and returns the result.
    ///
    /// ``answer`` receives ``key`` with the requests of the server that this call causes.
    #[pyo3(signature = (method, params, on_progress, key = None))]
    fn call(
        &self,
        py: Python<'_>,
        method: String,
        params: &Bound<'_, PyAny>,
        on_progress: Option<&Bound<'_, PyAny>>,
        key: Option<u64>,
    ) -> PyResult<Py<PyAny>> {
        let params = serde_json::from_str(to_raw(params, "params")?.get()).map_err(value_error)?;
        let on_progress = on_progress.map(PyCallback::new).transpose()?;
        let client = Arc::clone(&self.client);
        answer(py, "call", false, async move {
            let running = client.start_call(method, params, key.map(CallKey));
            let result = follow(running, on_progress).await?;
            gil::require_held(|py| json_to_python(py, &result.to_string()))
        })
    }

    /// Ends the connection.
    fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let client = Arc::clone(&self.client);
        answer(py, "close", false, async move {
            client.close().await;
            Ok(())
        })
    }
}

garbage_collected!(McpClientCore: callbacks);

/// Reads a call to its end.
async fn follow(mut running: RunningCall, on_progress: Option<Arc<PyCallback>>) -> PyResult<Value> {
    loop {
        let report = match running.next().await.or_raise_held()? {
            CallEvent::Result(result) => return Ok(result),
            CallEvent::Progress(report) => report,
        };
        let Some(function) = &on_progress else { continue };
        let reported = gil::require_held(|py| {
            let report = json_to_python(py, &report.to_string())?;
            function.call(py, (report,).into_pyobject(py)?.unbind())
        })?;
        reported.await?;
    }
}
