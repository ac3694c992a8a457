//! The client of A2A agents of `turntree.uamp`.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::PyDict;

use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil;
use crate::convert::json::json_to_python;
use crate::error::{OrRaise as _, ToException, build, value_error};
use crate::store::store::answer;
use turntree_core::http::HttpClient;
use turntree_core::ids::RandomIds;
use turntree_core::secret::Secret;
use turntree_uamp::a2a_client::{A2aClient, A2aClientError, CallEvent, MessageInput};

/// The native half of ``turntree.uamp.a2a_agent``.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct A2aClientCore {
    client: A2aClient,
}

#[pymethods]
impl A2aClientCore {
    #[new]
    fn new(py: Python<'_>, url: &str, token: Option<String>) -> PyResult<Self> {
        let http = HttpClient::shared(&A2aClient::default_config()).map_err(value_error)?;
        let client = A2aClient::new(url, token.map(Secret::new), http, Arc::new(RandomIds));
        client.or_raise(py).map(|client| Self { client })
    }

    /// Read the agent card, as a dict. With ``blocking=False``, return a coroutine.
    fn card(&self, py: Python<'_>, blocking: bool) -> PyResult<Py<PyAny>> {
        let client = self.client.clone();
        answer(py, "card", blocking, async move {
            let card = client.card().await.or_raise_held()?;
            gil::require_held(|py| json_to_python(py, &card.json.to_string()))
        })
    }

    /// Return a coroutine that sends a message and returns the answer.
    ///
    /// ``report`` is called with pieces of it. It is a dict with ``text``, ``context_id`` and ``waiting_task_id``.
    fn send(
        &self,
        text: String,
        context_id: Option<String>,
        task_id: Option<String>,
        report: Py<PyAny>,
    ) -> Coroutine {
        let client = self.client.clone();
        let roots = GcRoots::default();
        let index = roots.add(report);
        let shared = roots.clone();
        Coroutine::new("send", roots, async move {
            let mut call = client.call(MessageInput { text, context_id, task_id });
            while let Some(event) = call.next().await {
                match event.or_raise_held()? {
                    CallEvent::Progress(text) => {
                        gil::require_held(|py| shared.get(py, index)?.call1((text,)).map(drop))?;
                    }
                    CallEvent::Answer(answer) => {
                        return gil::require_held(|py| {
                            let found = PyDict::new(py);
                            found.set_item(intern!(py, "text"), answer.text)?;
                            found.set_item(intern!(py, "context_id"), answer.context_id)?;
                            found.set_item(intern!(py, "waiting_task_id"), answer.waiting_task_id)?;
                            Ok(found.into_any().unbind())
                        });
                    }
                }
            }
            let reason = "the call has ended without an answer".to_owned();
            Err(A2aClientError::Protocol { reason }).or_raise_held()
        })
    }
}

/// `turntree.uamp.UampError`.
impl ToException for A2aClientError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        if let Self::Url { .. } = self {
            return value_error(self);
        }
        let details = self.details().to_string();
        build((|| {
            let class = py.import(intern!(py, "turntree.uamp._errors"))?.getattr(intern!(py, "UampError"))?;
            class.call1((self.to_string(), self.code(), json_to_python(py, &details)?))
        })())
    }
}
