//! The client of `turntree.uamp`.

use std::time::Duration;

use crate::prelude::*;
use futures_util::stream;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use serde_json::Value;

use crate::bridge::gc::GcRoots;
use crate::bridge::stream::{Leaving, PyEventStream};
use crate::convert::json::{json_to_python, to_raw};
use crate::error::{OrRaise, ToException, build, value_error};
use crate::store::store::answer;
use turntree_core::secret::Secret;
use turntree_uamp::client::{
    ClientError, ClientOptions, ClientResponse, ClientSession, ResponseInput, UampClient,
};
use turntree_uamp::session::ToolOutcome;

/// The native half of ``turntree.uamp.Client``.
///
/// With ``blocking=False``, operations return a coroutine.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct UampClientCore {
    client: UampClient,
}

#[pymethods]
impl UampClientCore {
    /// Connect to a server and return the client.
    #[staticmethod]
    fn connect(
        py: Python<'_>,
        url: String,
        token: Option<String>,
        reconnect_for: f64,
        blocking: bool,
    ) -> PyResult<Py<PyAny>> {
        let reconnect_for = Duration::try_from_secs_f64(reconnect_for).map_err(|_| {
            let message =
                format!("reconnect_for must be a number of seconds, 0 or more, not {reconnect_for}");
            PyValueError::new_err(message)
        })?;
        let options = ClientOptions { url, token: token.map(Secret::new), reconnect_for };
        answer(py, "connect", blocking, async move {
            UampClient::connect(options).await.map(|client| Self { client }).or_raise_held()
        })
    }

    /// Open a session and return it.
    fn session(&self, py: Python<'_>, agent: Option<String>, blocking: bool) -> PyResult<Py<PyAny>> {
        let client = self.client.clone();
        answer(py, "session", blocking, async move {
            client.session(agent).await.map(|session| UampSessionCore { session }).or_raise_held()
        })
    }

    /// Close the connection.
    fn close(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let client = self.client.clone();
        answer(py, "close", blocking, async move {
            client.close().await;
            Ok(())
        })
    }
}

/// The native half of ``turntree.uamp.Session``.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct UampSessionCore {
    session: ClientSession,
}

#[pymethods]
impl UampSessionCore {
    /// The id.
    #[getter]
    fn id(&self) -> &str {
        self.session.id()
    }

    /// The name of the agent, if the server says it.
    #[getter]
    fn agent(&self) -> Option<&str> {
        let created = self.session.created();
        created.agent.as_deref().or(created.session.agent.as_deref())
    }

    /// Ask for a response and return the stream of its events, as ``convert`` makes them of dicts.
    fn run(
        &self,
        py: Python<'_>,
        text: String,
        options: Option<&Bound<'_, PyAny>>,
        response_format: Option<&Bound<'_, PyAny>>,
        convert: Py<PyAny>,
    ) -> PyResult<PyEventStream> {
        let options =
            options.map(|options| to_raw(options, "options")?.to().map_err(value_error)).transpose()?;
        let response_format = response_format
            .map(|format| to_raw(format, "response_format")?.to().map_err(value_error))
            .transpose()?;
        let response = self.session.run(ResponseInput { text, options, response_format });
        let roots = GcRoots::default();
        let index = roots.add(convert);
        let shared = roots.clone();
        let to_python = move |py: Python<'_>, event: String| {
            shared.get(py, index)?.call1((json_to_python(py, &event)?,)).map(Bound::unbind)
        };
        Ok(PyEventStream::new(py, stream::unfold(response, next_event), to_python, roots)?
            .stopped_by_leaving(Leaving::Drops))
    }

    /// Give the result of a tool that the server has called.
    fn resolve(&self, call_id: String, result: &Bound<'_, PyAny>, is_error: bool) -> PyResult<()> {
        let result = to_raw(result, "result")?.get().to_owned();
        self.session.resolve(ToolOutcome { call_id, result, is_error });
        Ok(())
    }

    /// Cancel the response.
    fn cancel(&self) {
        self.session.cancel();
    }

    /// End the session.
    fn end(&self) {
        self.session.end();
    }
}

/// The next event of a response as JSON.
async fn next_event(mut response: ClientResponse) -> Option<(PyResult<String>, ClientResponse)> {
    let event = response.next().await?;
    Some((event.map(|event| event.to_json()).or_raise_held(), response))
}

/// `turntree.uamp.UampError`.
impl ToException for ClientError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        let details = match self {
            Self::Server(error) => error.details.as_ref().map(|details| details.get().to_owned()),
            Self::Refused { status, .. } => Some(serde_json::json!({ "status": status }).to_string()),
            Self::Url { .. } => return value_error(self),
            _ => None,
        };
        let details = details.unwrap_or_else(|| Value::Null.to_string());
        build((|| {
            let class = py.import(intern!(py, "turntree.uamp._errors"))?.getattr(intern!(py, "UampError"))?;
            class.call1((self.to_string(), self.code(), json_to_python(py, &details)?))
        })())
    }
}

/// Check the signature of a response and return its claims.
#[pyfunction]
pub(crate) fn uamp_verify(
    py: Python<'_>,
    token: &str,
    text: &str,
    messages: Option<&Bound<'_, PyAny>>,
    jwks: &Bound<'_, PyAny>,
    now: i64,
) -> PyResult<Py<PyAny>> {
    let messages = messages.map(|messages| to_raw(messages, "messages")).transpose()?;
    let jwks = to_raw(jwks, "jwks")?;
    let messages = messages.as_ref().map(turntree_core::json::RawJson::get);
    let claims =
        turntree_uamp::signature::verify(token, text, messages, jwks.get(), now).map_err(value_error)?;
    json_to_python(py, &serde_json::to_string(&claims).map_err(value_error)?)
}
