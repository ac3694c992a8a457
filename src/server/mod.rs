//! Servers: the native half of `turntree._server`, which the protocols use for `serve` and `asgi_app`.
//!
//! | module | content |
//! |---|---|
//! | [`event_loop`] | the event loop on which an application calls Python |
//! | [`native`] | a native server and its life |
//! | [`asgi`], [`asgi_scope`], [`asgi_websocket`] | the ASGI 3 application |
//! | [`authenticator`], [`jwt`], [`access_log`] | `auth=`, `JwtAuthenticator` and the logger `turntree.server` |
//!
//! A protocol gives an [`ApplicationFactory`]. Requests of the native server run on the tokio runtime. When they need
//! Python, they submit a future to the event loop ([`event_loop::ServerLoop::run`]): a network thread never takes the GIL.

pub(crate) mod access_log;
pub(crate) mod asgi;
mod asgi_scope;
mod asgi_websocket;
pub(crate) mod authenticator;
pub(crate) mod event_loop;
pub(crate) mod jwt;
pub(crate) mod native;

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};

use crate::error::ToException;
use turntree_server::{Application, ServerError};

/// Makes the application of a server, once its event loop is known.
pub(crate) type ApplicationFactory =
    Box<dyn Fn(&event_loop::ServerLoop) -> PyResult<Arc<dyn Application>> + Send + Sync>;

/// `OSError` if the address cannot be used, `ValueError` for arguments.
impl ToException for ServerError {
    fn to_exception(&self, _py: Python<'_>) -> PyErr {
        let text = self.to_string();
        match self {
            Self::Bind { .. } => PyOSError::new_err(text),
            Self::AuthenticatorRequired { .. } | Self::Setting { .. } => PyValueError::new_err(text),
            _ => PyRuntimeError::new_err(text),
        }
    }
}
