//! `auth=`: a Python function that finds the principal of a token, or a native authenticator.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::intern;
use pyo3::types::{PyDict, PyString};

use super::access_log;
use super::event_loop::ServerLoop;
use super::jwt::PyJwtAuthenticator;
use crate::bridge::callbacks::PyCallback;
use crate::bridge::gil;
use crate::convert::json::to_raw;
use crate::convert::text::text_of;
use crate::error::wrong_type;
use turntree_server::{Authenticator, JwtAuthenticator, Principal, ServerError};

/// The argument `auth` of a server.
#[derive(Clone)]
pub(crate) enum Auth {
    Function(Arc<PyCallback>),
    Jwt(Arc<JwtAuthenticator>),
}

impl Auth {
    /// Reads the argument.
    ///
    /// # Errors
    /// `TypeError` if it cannot be called.
    pub(crate) fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(jwt) = value.cast::<PyJwtAuthenticator>() {
            return Ok(Self::Jwt(Arc::clone(jwt.get().native())));
        }
        if !value.is_callable() {
            return Err(wrong_type(value, "auth", "a function of the bearer token, or a JwtAuthenticator"));
        }
        Ok(Self::Function(PyCallback::patient(value)?))
    }

    /// The function, for the garbage collector.
    pub(crate) fn callback(&self) -> Option<Arc<PyCallback>> {
        match self {
            Self::Function(function) => Some(Arc::clone(function)),
            Self::Jwt(_) => None,
        }
    }

    /// The authenticator of a server. Functions are called on its loop.
    pub(crate) fn authenticator(&self, server_loop: &ServerLoop) -> Arc<dyn Authenticator> {
        match self {
            Self::Function(function) => {
                Arc::new(PyAuthenticator::new(Arc::clone(function), server_loop.clone()))
            }
            Self::Jwt(native) => Arc::clone(native) as Arc<dyn Authenticator>,
        }
    }
}

/// Calls `auth(token)`: async functions on the server's loop, others in a thread.
struct PyAuthenticator {
    function: Arc<PyCallback>,
    server_loop: ServerLoop,
}

impl PyAuthenticator {
    fn new(function: Arc<PyCallback>, server_loop: ServerLoop) -> Self {
        Self { function, server_loop }
    }
}

impl fmt::Debug for PyAuthenticator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PyAuthenticator").finish_non_exhaustive()
    }
}

impl Authenticator for PyAuthenticator {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, ServerError>> {
        let (function, server_loop) = (Arc::clone(&self.function), self.server_loop.clone());
        let token = token.to_owned();
        let call = async move {
            let call = gil::require_held(|py| {
                let positional = (token,).into_pyobject(py)?.unbind();
                function.call_from(py, positional, &server_loop.caller(py)?)
            });
            let value = match call {
                Ok(call) => call.await,
                Err(error) => Err(error),
            };
            gil::require_held(|py| {
                value.and_then(|value| principal_of(value.bind(py))).inspect_err(|error| {
                    access_log::exception(py, "auth() failed; the request is answered with 503", error);
                })
            })
        };
        Box::pin(async move {
            let unavailable = |reason: &str| ServerError::Authenticator { reason: reason.to_owned() };
            match self.server_loop.run("auth", call).await {
                Some(Ok(principal)) => Ok(principal),
                Some(Err(_)) => Err(unavailable("auth() raised an exception, which is in the log")),
                None => Err(unavailable("the event loop of the server is closed")),
            }
        })
    }
}

/// The principal that `auth` returns: None; the id as text; or a dict with `id` or `sub`, whose members are the claims.
fn principal_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Principal>> {
    if value.is_none() {
        return Ok(None);
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Some(Principal::new(text_of::<String>(value, "the result of auth()")?)));
    }
    let expected = "None, the principal's id as text, or a dict with the member \"id\" or \"sub\"";
    let wrong = || wrong_type(value, "the result of auth()", expected);
    let py = value.py();
    let dict = value.cast::<PyDict>().map_err(|_| wrong())?;
    let id = match dict.get_item(intern!(py, "id"))? {
        Some(id) => id,
        None => dict.get_item(intern!(py, "sub"))?.ok_or_else(wrong)?,
    };
    let id: String = text_of(id.cast::<PyString>().map_err(|_| wrong())?, "the id in the result of auth()")?;
    let claims = to_raw(value, "the result of auth()")?;
    let claims = serde_json::from_str(claims.get()).map_err(crate::error::value_error)?;
    Ok(Some(Principal::new(id).with_claims(claims)))
}
