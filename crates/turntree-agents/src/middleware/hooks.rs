//! The hooks of a middleware.

use std::fmt;
use std::sync::Arc;

use bitflags::bitflags;
use futures_util::future::{BoxFuture, ready};

use crate::middleware::context::MiddlewareContext;
use crate::types::event::AgentStreamEvent;
use turntree_core::message::Turn;
use turntree_upp::{ModelRequest, ModelResponse, UppError};

/// What a hook gives, when it is over.
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

/// Stands around the runs of an agent. UAP-1.0 §10.1.
///
/// Each hook has a default that does nothing; a middleware tells in [`Middleware::hooks`] which it has. One middleware
/// serves any number of runs at once: what belongs to one run is kept in [`MiddlewareContext::state`].
///
/// # Errors
/// What a hook fails with ends the run; [`Middleware::on_error`] hears of it.
///
/// # Cancel safety
/// Any hook may be dropped at any point: the run was cancelled. `before` is also dropped when the run is aborted.
pub trait Middleware: Send + Sync + fmt::Debug {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// The hooks that it has.
    fn hooks(&self) -> Hooks;

    /// The run begins: input and history may be replaced in the context. In order.
    fn before<'a>(&'a self, _context: &'a Arc<MiddlewareContext>) -> HookFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The turn is whole; gives it, or another. In reverse order.
    fn after<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        turn: Arc<Turn>,
    ) -> HookFuture<'a, Arc<Turn>> {
        Box::pin(ready(Ok(turn)))
    }

    /// The run has failed, or was cancelled; a turn that it gives is what the run gives. In reverse order, until one
    /// gives a turn. An error of its own takes the place of the run's.
    fn on_error<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        _error: &'a UppError,
    ) -> HookFuture<'a, Option<Arc<Turn>>> {
        Box::pin(ready(Ok(None)))
    }

    /// Something happens: steps, tools and, where somebody listens, what the model streams. In order, before the listener
    /// hears of it.
    fn on_event<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        _event: &'a AgentStreamEvent,
    ) -> HookFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    /// The model is about to be called; gives what is sent this time. What is stored stays as it is. In order.
    fn on_model_request<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        request: ModelRequest,
    ) -> HookFuture<'a, ModelRequest> {
        Box::pin(ready(Ok(request)))
    }

    /// The model has answered; gives the answer that counts. In reverse order.
    fn on_model_response<'a>(
        &'a self,
        _context: &'a Arc<MiddlewareContext>,
        response: ModelResponse,
    ) -> HookFuture<'a, ModelResponse> {
        Box::pin(ready(Ok(response)))
    }
}
