//! Calls the hooks of an agent's middlewares in order.
//!
//! Spec: UAP-1.0 §10.2

use std::sync::Arc;

use crate::middleware::context::MiddlewareContext;
use crate::middleware::hooks::{Hooks, Middleware};
use crate::types::event::AgentStreamEvent;
use turntree_core::message::Turn;
use turntree_upp::middleware::{DeclaresHooks, MiddlewareStack};
use turntree_upp::{ModelRequest, ModelResponse, UppError};

/// The middlewares of an agent in order; the first one is the outermost.
pub type AgentMiddlewareStack = MiddlewareStack<dyn Middleware>;

impl DeclaresHooks for dyn Middleware + '_ {
    type Hooks = Hooks;

    fn declared_hooks(&self) -> Hooks {
        self.hooks()
    }
}

/// Calls `after` of the first `count` middlewares in reverse order. Stops at the first error.
pub(crate) async fn call_after(
    stack: &AgentMiddlewareStack,
    count: usize,
    context: &Arc<MiddlewareContext>,
    mut turn: Arc<Turn>,
) -> Result<Arc<Turn>, UppError> {
    for middleware in stack.list().iter().take(count).rev() {
        if middleware.hooks().contains(Hooks::AFTER) {
            turn = middleware.after(context, turn).await?;
        }
    }
    Ok(turn)
}

/// Calls `on_error` of the first `count` middlewares in reverse order, until one returns a turn.
///
/// # Errors
/// The error of the run, or the last error that a hook raised instead.
pub(crate) async fn call_on_error(
    stack: &AgentMiddlewareStack,
    count: usize,
    context: &Arc<MiddlewareContext>,
    mut error: UppError,
) -> Result<Arc<Turn>, UppError> {
    for middleware in stack.list().iter().take(count).rev() {
        if !middleware.hooks().contains(Hooks::ERROR) {
            continue;
        }
        match middleware.on_error(context, &error).await {
            Ok(Some(turn)) => return Ok(turn),
            Ok(None) => {}
            Err(other) => error = other,
        }
    }
    Err(error)
}

/// Calls `on_event` in order. Stops at the first error.
pub(crate) async fn call_on_event(
    stack: &AgentMiddlewareStack,
    context: &Arc<MiddlewareContext>,
    event: &AgentStreamEvent,
) -> Result<(), UppError> {
    for middleware in stack.with_hooks(Hooks::EVENT) {
        middleware.on_event(context, event).await?;
    }
    Ok(())
}

/// Calls `on_model_request` in order. Stops at the first error.
pub(crate) async fn call_on_model_request(
    stack: &AgentMiddlewareStack,
    context: &Arc<MiddlewareContext>,
    mut request: ModelRequest,
) -> Result<ModelRequest, UppError> {
    for middleware in stack.with_hooks(Hooks::MODEL_REQUEST) {
        request = middleware.on_model_request(context, request).await?;
    }
    Ok(request)
}

/// Calls `on_model_response` in reverse order. Stops at the first error.
pub(crate) async fn call_on_model_response(
    stack: &AgentMiddlewareStack,
    context: &Arc<MiddlewareContext>,
    mut response: ModelResponse,
) -> Result<ModelResponse, UppError> {
    for middleware in stack.with_hooks(Hooks::MODEL_RESPONSE).rev() {
        response = middleware.on_model_response(context, response).await?;
    }
    Ok(response)
}
