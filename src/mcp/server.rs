//! Functions of Python as the tools of an MCP server.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::types::PyDict;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::agents::tool_context::{RequestedTask, ToolContext};
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil;
use crate::convert::json::{json_to_python, to_raw};
use crate::error::{OrRaise as _, value_error};
use crate::server::ApplicationFactory;
use crate::server::event_loop::ServerLoop;
use crate::server::native::{ServeOptions, ServerCore};
use crate::store::store::answer;
use turntree_agents::Structure;
use turntree_core::ids::{IdSource as _, RandomIds};
use turntree_core::json::RawJson;
use turntree_mcp::{McpService, PortError, ServedTool, ServerInfo, ServerPort, serve_stdio};

/// What a server says of itself, and its tools as JSON.
#[derive(FromPyObject)]
pub(crate) struct Served {
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    version: String,
    #[pyo3(item)]
    instructions: Option<String>,
    #[pyo3(item)]
    tools: Vec<String>,
    /// Whether the arguments of each tool are validated here; the functions of the others do it.
    #[pyo3(item)]
    validated: Vec<bool>,
}

/// The schemas that arguments are validated with, by the names of the tools.
type Schemas = Arc<HashMap<String, Structure>>;

impl Served {
    fn parts(self) -> PyResult<(ServerInfo, Arc<[ServedTool]>, Schemas)> {
        let read = |text: &String| serde_json::from_str(text).map(ServedTool).map_err(value_error);
        let tools: PyResult<Vec<ServedTool>> = self.tools.iter().map(read).collect();
        let info = ServerInfo { name: self.name, version: self.version, instructions: self.instructions };
        let tools: Arc<[ServedTool]> = tools?.into();
        let validated = tools.iter().zip(self.validated).filter(|(_, validated)| *validated);
        let schemas: PyResult<HashMap<String, Structure>> =
            validated.map(|(tool, _)| schema_of(tool)).collect();
        Ok((info, tools, Arc::new(schemas?)))
    }
}

fn schema_of(tool: &ServedTool) -> PyResult<(String, Structure)> {
    let member = |name: &str| tool.0.get(name).unwrap_or(&Value::Null);
    let schema = RawJson::from_value(member("inputSchema")).map_err(value_error)?;
    Ok((member("name").as_str().unwrap_or_default().to_owned(), Structure::without_wrapper(Arc::new(schema))))
}

/// The members of `CallToolResult` for arguments that the schema refuses.
fn refused(reason: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": reason }], "isError": true })
}

/// Calls tools: a function of the name, the arguments and the context, on the server's event loop.
struct PyTools {
    tools: Arc<[ServedTool]>,
    schemas: Schemas,
    function: Arc<PyCallback>,
    server_loop: ServerLoop,
}

impl fmt::Debug for PyTools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PyTools")
    }
}

impl ServerPort for PyTools {
    fn tools(&self) -> Vec<ServedTool> {
        self.tools.to_vec()
    }

    fn call(
        &self,
        name: String,
        arguments: Value,
        progress: mpsc::Sender<Value>,
    ) -> BoxFuture<'static, Result<Value, PortError>> {
        let (function, server_loop) = (Arc::clone(&self.function), self.server_loop.clone());
        let schemas = Arc::clone(&self.schemas);
        Box::pin(async move {
            if let Some(schema) = schemas.get(&name) {
                let checked = RawJson::from_value(&arguments)
                    .map_err(|error| PortError::internal(error.to_string()))?;
                if let Err(reason) = schema.check_arguments(&checked) {
                    return Ok(refused(&reason));
                }
            }
            let calling = server_loop.clone();
            let work = async move { perform(&function, &calling, &name, &arguments, progress).await };
            let called = server_loop.run("mcp", work).await;
            called.ok_or_else(|| PortError::internal("the event loop of the server is closed"))?
        })
    }
}

/// Sets a flag when the call is over or dropped.
struct Cancelled(Arc<AtomicBool>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls the function on the thread of the event loop. It returns the members of `CallToolResult`, or the code and the
/// message of an error.
async fn perform(
    function: &Arc<PyCallback>,
    server_loop: &ServerLoop,
    name: &str,
    arguments: &Value,
    progress: mpsc::Sender<Value>,
) -> Result<Value, PortError> {
    let cancelled = Cancelled(Arc::default());
    let started = gil::require_held(|py| {
        let context = context_of(py, progress, &cancelled.0)?;
        let arguments = json_to_python(py, &arguments.to_string())?;
        let positional = (name, arguments, context).into_pyobject(py)?.unbind();
        function.call_from(py, positional, &server_loop.caller(py)?)
    });
    let value = async { started?.await }.await;
    let read = gil::require_held(|py| {
        let (result, refused): (Bound<'_, PyAny>, Option<(i32, String)>) = value?.extract(py)?;
        match refused {
            Some((code, message)) => Ok(Err(PortError { code, message })),
            None => serde_json::from_str(to_raw(&result, "result")?.get()).map(Ok).map_err(value_error),
        }
    });
    read.unwrap_or_else(|error: PyErr| {
        log::error!(target: "turntree.mcp", "the tool \"{name}\" failed: {error}");
        Err(PortError::internal("the tool failed"))
    })
}

fn context_of(
    py: Python<'_>,
    progress: mpsc::Sender<Value>,
    is_cancelled: &Arc<AtomicBool>,
) -> PyResult<Py<ToolContext>> {
    let call_id: Arc<str> = RandomIds.string().into();
    let reports = AtomicU64::new(0);
    let task = RequestedTask {
        principal: None,
        session_id: Arc::clone(&call_id),
        idempotency_key: Arc::clone(&call_id),
        call_id,
        is_cancelled: Arc::clone(is_cancelled),
        report: Box::new(move |report| {
            let number = reports.fetch_add(1, Ordering::Relaxed) + 1;
            // A client that is too slow misses reports, not the result.
            let _sent = progress.try_send(progress_of(&report, number));
        }),
    };
    Py::new(py, ToolContext::of_request(task, PyDict::new(py).unbind()))
}

/// A report as MCP has it: an object with `progress` as it is; text is the message; any other value is JSON in it.
fn progress_of(report: &RawJson, number: u64) -> Value {
    match serde_json::from_str(report.get()) {
        Ok(Value::Object(members)) if members.get("progress").is_some_and(Value::is_number) => {
            Value::Object(members)
        }
        Ok(Value::String(message)) => json!({ "progress": number, "message": message }),
        _ => json!({ "progress": number, "message": report.get() }),
    }
}

/// A native server of tools over Streamable HTTP.
#[pyfunction]
pub(crate) fn mcp_server(
    served: Served,
    call: &Bound<'_, PyAny>,
    host: String,
    port: u16,
    auth: Option<&Bound<'_, PyAny>>,
) -> PyResult<ServerCore> {
    let (info, tools, schemas) = served.parts()?;
    let function = PyCallback::new(call)?;
    let callbacks = Callbacks { functions: vec![Arc::clone(&function)], ..Callbacks::default() };
    let local_only = matches!(host.as_str(), "127.0.0.1" | "localhost" | "::1");
    let make: ApplicationFactory = Box::new(move |server_loop| {
        let port = PyTools {
            tools: Arc::clone(&tools),
            schemas: Arc::clone(&schemas),
            function: Arc::clone(&function),
            server_loop: server_loop.clone(),
        };
        Ok(Arc::new(McpService::new(info.clone(), Arc::new(port), local_only)))
    });
    Ok(ServerCore::new(make, ServeOptions::new(host, port, auth, None, None)?, callbacks))
}

/// Serves tools over the standard streams until the input ends.
#[pyfunction]
pub(crate) fn mcp_stdio(py: Python<'_>, served: Served, call: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let (info, tools, schemas) = served.parts()?;
    let port = PyTools {
        tools,
        schemas,
        function: PyCallback::new(call)?,
        server_loop: ServerLoop::capture(py, false)?,
    };
    answer(py, "serve", false, async move { serve_stdio(info, Arc::new(port)).await.or_raise_held() })
}
