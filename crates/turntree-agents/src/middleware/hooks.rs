//! The trait for middleware of agents.

use std::fmt;
use std::sync::Arc;

use bitflags::bitflags;
use futures_util::future::{BoxFuture, ready};

use crate::middleware::context::MiddlewareContext;
use crate::types::event::AgentStreamEvent;
use turntree_core::message::Turn;
use turntree_upp::{ModelRequest, ModelResponse, UppError};

/// The future of a hook.
pub type HookFuture<'a, T> = BoxFuture<'a, Result<T, UppError>>;

bitflags! {
    /// The hooks that a middleware implements. The driver does not call the others and prepares nothing for them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Hooks: u16 {
        /// [`Middleware::before`].
        const BEFORE = 1;
        /// [`Middleware::after`].
        const AFTER = 1 << 1;
        /// [`Middleware::on_error`].
        const ERROR = 1 << 2;
        /// [`Middleware::on_event`].
        const EVENT = 1 << 3;
        /// [`Middleware::on_model_request`].
        const MODEL_REQUEST = 1 << 4;
        /// [`Middleware::on_model_response`].
        const MODEL_RESPONSE = 1 << 5;
        /// Stream events of a model are held back until [`Middleware::on_model_response`] has seen the whole response.
        const HOLD = 1 << 6;
        /// Token usage and cost are stored with the session.
        const USAGE = 1 << 7;
    }
}

/// Hooks around the runs of an agent. UAP-1.0 §10.1
///
/// Every hook has a default that does nothing; [`Middleware::hooks`] declares which ones a middleware implements. One
/// middleware serves any number of concurrent runs; store the data of a run in [`MiddlewareContext::state`].
///
/// # Errors
/// An error of a hook ends the run and is passed to [`Middleware::on_error`].
///
/// # Cancel safety
/// Any hook may be dropped at any point when the run is cancelled. `before` is also dropped when the run is aborted.
pub trait Middleware: Send + Sync + fmt::Debug {
    /// The name, for logs and messages.
    fn name(&self) -> &str;

    /// The hooks that the middleware implements.
    fn hooks(&self) -> Hooks;

    /// Called when the run begins, in order. The context allows to replace input and history.
    fn before<'a>(&'a self, _context: &'a Arc<MiddlewareContext>) -> HookFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Called with the complete turn, in reverse order. Returns this turn or another one.
    fn after<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        turn: Arc<Turn>,
    ) -> HookFuture<'a, Arc<Turn>> {
        Box::pin(ready(Ok(turn)))
    }

    /// Called when the run has failed or was cancelled, in reverse order, until one middleware returns a turn. That
    /// turn is the result of the run. An error of the hook replaces the error of the run.
    fn on_error<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        _error: &'a UppError,
    ) -> HookFuture<'a, Option<Arc<Turn>>> {
        Box::pin(ready(Ok(None)))
    }

    /// Called for every event: steps, tools and, if the run is streamed, the model's stream. In order, before the
    /// consumer receives the event.
    fn on_event<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        _event: &'a AgentStreamEvent,
    ) -> HookFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Called before each model call, in order. Returns the request to send. Stored messages do not change.
    fn on_model_request<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        request: ModelRequest,
    ) -> HookFuture<'a, ModelRequest> {
        Box::pin(ready(Ok(request)))
    }

    /// Called after each model call, in reverse order. Returns the response to use.
    fn on_model_response<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        response: ModelResponse,
    ) -> HookFuture<'a, ModelResponse> {
        Box::pin(ready(Ok(response)))
    }
}
