//! Calls one hook on every middleware of a stack that implements it.
//!
//! `on_start`, `on_request`, the hooks of streams and tools, `on_error` and `on_abort` run in order; `on_response`,
//! `on_turn` and `on_end` run in reverse order.
//!
//! Spec: UPP-1.2 §17

use std::sync::Arc;

use super::context::CallContext;
use super::hooks::{Emitted, HookFuture, Hooks, Middleware};
use super::stack::{DeclaresHooks, MiddlewareStack};
use crate::error::UppError;
use turntree_core::json::RawJson;
use turntree_core::message::{StreamEvent, ToolDefinition, Turn};

impl DeclaresHooks for dyn Middleware + '_ {
    type Hooks = Hooks;

    fn declared_hooks(&self) -> Hooks {
        self.hooks()
    }
}

impl MiddlewareStack {
    /// Runs `on_start`, in order.
    ///
    /// # Errors
    /// That of the first hook that fails; the others are not called.
    pub async fn start(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.with_hooks(Hooks::START), |middleware| middleware.on_start(context)).await
    }

    /// Runs `on_request`, in order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn request(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.with_hooks(Hooks::REQUEST), |middleware| middleware.on_request(context)).await
    }

    /// Runs `on_response`, in reverse order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn response(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.with_hooks(Hooks::RESPONSE).rev(), |middleware| middleware.on_response(context)).await
    }

    /// Runs `on_turn`, in reverse order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn turn(&self, turn: &Arc<Turn>, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.with_hooks(Hooks::TURN).rev(), |middleware| middleware.on_turn(turn, context)).await
    }

    /// Runs `on_end`, in reverse order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn end(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.with_hooks(Hooks::END).rev(), |middleware| middleware.on_end(context)).await
    }

    /// Runs `on_error`, in order; failures are logged.
    pub async fn error(&self, error: &UppError, context: &Arc<CallContext>) {
        for middleware in self.with_hooks(Hooks::ERROR) {
            log_failure("on_error", middleware.on_error(error, context).await);
        }
    }

    /// Runs `on_abort`, in order; failures are logged.
    pub async fn abort(&self, error: &UppError, context: &Arc<CallContext>) {
        for middleware in self.with_hooks(Hooks::ABORT) {
            log_failure("on_abort", middleware.on_abort(error, context).await);
        }
    }

    /// Runs `on_stream_end`, in order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn stream_end(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.with_hooks(Hooks::STREAM_END), |middleware| middleware.on_stream_end(context)).await
    }

    /// Runs `on_tool_call`, in order. A failure counts as the tool's.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn tool_call(
        &self,
        tool: &ToolDefinition,
        params: &RawJson,
        context: &Arc<CallContext>,
    ) -> Result<(), UppError> {
        each(self.with_hooks(Hooks::TOOL_CALL), |middleware| middleware.on_tool_call(tool, params, context))
            .await
    }

    /// Runs `on_tool_result`, in order. A failure counts as the tool's.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn tool_result(
        &self,
        tool: &ToolDefinition,
        result: &RawJson,
        context: &Arc<CallContext>,
    ) -> Result<(), UppError> {
        each(self.with_hooks(Hooks::TOOL_RESULT), |middleware| {
            middleware.on_tool_result(tool, result, context)
        })
        .await
    }

    /// Passes an event through `on_stream_event` of each middleware, in order. Each one gets the output of the one
    /// before it.
    ///
    /// # Errors
    /// That of the first hook that fails.
    pub fn stream_event(&self, event: StreamEvent, context: &Arc<CallContext>) -> Result<Emitted, UppError> {
        if !self.has(Hooks::STREAM_EVENT) {
            return Ok(Emitted::One(event));
        }
        let mut emitted = Emitted::One(event);
        for middleware in self.with_hooks(Hooks::STREAM_EVENT) {
            emitted = match emitted {
                Emitted::Nothing => return Ok(Emitted::Nothing),
                Emitted::One(event) => middleware.on_stream_event(event, context)?,
                Emitted::Many(events) => {
                    let mut output = Vec::with_capacity(events.len());
                    for event in events {
                        output.extend(middleware.on_stream_event(event, context)?);
                    }
                    Emitted::Many(output)
                }
            };
        }
        Ok(emitted)
    }
}

/// Calls a hook on one middleware after the other, until one fails.
async fn each<'a>(
    middlewares: impl Iterator<Item = &'a Arc<dyn Middleware>> + Send,
    hook: impl Fn(&'a Arc<dyn Middleware>) -> HookFuture<'a> + Send,
) -> Result<(), UppError> {
    for middleware in middlewares {
        hook(middleware).await?;
    }
    Ok(())
}

fn log_failure(hook: &str, outcome: Result<(), UppError>) {
    if let Err(error) = outcome {
        log::error!(target: "turntree", "{hook} of a middleware failed: {error:?}");
    }
}
