//! Middlewares in order. UPP-1.2 §17.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::future::BoxFuture;

use super::context::CallContext;
use super::hooks::{Emitted, HookFuture, Hooks, Middleware};
use crate::error::UppError;
use turntree_core::json::RawJson;
use turntree_core::message::{StreamEvent, ToolDefinition, Turn};
use turntree_core::runtime;

/// Finishes what a call that was dropped still owes its middleware.
pub trait Finisher: Send + Sync {
    /// Runs `rest` to its end, somewhere.
    fn finish(&self, rest: BoxFuture<'static, ()>);
}

/// Middlewares in the order in which they were given. An empty chain costs nothing.
///
/// `on_start`, `on_request`, the hooks of streams and tools, `on_error` and `on_abort` run in this order, `on_response`,
/// `on_turn` and `on_end` in reverse: what comes first is outermost.
#[derive(Clone, Default)]
pub struct Chain {
    list: Option<Arc<[Arc<dyn Middleware>]>>,
    /// The hooks of all together.
    hooks: Hooks,
    finisher: Option<Arc<dyn Finisher>>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.list()).finish()
    }
}

impl FromIterator<Arc<dyn Middleware>> for Chain {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Middleware>>>(middlewares: I) -> Self {
        let list: Arc<[_]> = middlewares.into_iter().collect();
        let hooks = list.iter().fold(Hooks::NONE, |hooks, middleware| hooks | middleware.hooks());
        Self { list: (!list.is_empty()).then_some(list), hooks, finisher: None }
    }
}

impl Chain {
    /// With somebody who finishes what dropped calls owe; by default a task of [`runtime`] does.
    #[must_use]
    pub fn with_finisher(self, finisher: Arc<dyn Finisher>) -> Self {
        Self { finisher: Some(finisher), ..self }
    }

    /// Whether there is no middleware.
    pub const fn is_empty(&self) -> bool {
        self.list.is_none()
    }

    /// Whether any middleware has this hook.
    pub const fn has(&self, hook: Hooks) -> bool {
        self.hooks.contains(hook)
    }

    fn list(&self) -> &[Arc<dyn Middleware>] {
        self.list.as_deref().unwrap_or_default()
    }

    fn having(&self, hook: Hooks) -> impl DoubleEndedIterator<Item = &Arc<dyn Middleware>> + Send {
        self.list().iter().filter(move |middleware| middleware.hooks().contains(hook))
    }

    /// Runs `on_start`, in order.
    ///
    /// # Errors
    /// That of the first hook that fails; the others are not called.
    pub async fn start(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.having(Hooks::START), |middleware| middleware.on_start(context)).await
    }

    /// Runs `on_request`, in order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn request(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.having(Hooks::REQUEST), |middleware| middleware.on_request(context)).await
    }

    /// Runs `on_response`, in reverse order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn response(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.having(Hooks::RESPONSE).rev(), |middleware| middleware.on_response(context)).await
    }

    /// Runs `on_turn`, in reverse order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn turn(&self, turn: &Arc<Turn>, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.having(Hooks::TURN).rev(), |middleware| middleware.on_turn(turn, context)).await
    }

    /// Runs `on_end`, in reverse order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn end(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.having(Hooks::END).rev(), |middleware| middleware.on_end(context)).await
    }

    /// Runs `on_error`, in order; failures are logged.
    pub async fn error(&self, error: &UppError, context: &Arc<CallContext>) {
        for middleware in self.having(Hooks::ERROR) {
            log_failure("on_error", middleware.on_error(error, context).await);
        }
    }

    /// Runs `on_abort`, in order; failures are logged.
    pub async fn abort(&self, error: &UppError, context: &Arc<CallContext>) {
        for middleware in self.having(Hooks::ABORT) {
            log_failure("on_abort", middleware.on_abort(error, context).await);
        }
    }

    /// Runs `on_stream_end`, in order.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn stream_end(&self, context: &Arc<CallContext>) -> Result<(), UppError> {
        each(self.having(Hooks::STREAM_END), |middleware| middleware.on_stream_end(context)).await
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
        each(self.having(Hooks::TOOL_CALL), |middleware| middleware.on_tool_call(tool, params, context)).await
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
        each(self.having(Hooks::TOOL_RESULT), |middleware| middleware.on_tool_result(tool, result, context))
            .await
    }

    /// What becomes of an event: each middleware sees what the one before it left.
    ///
    /// # Errors
    /// That of the first hook that fails.
    pub fn stream_event(&self, event: StreamEvent, context: &Arc<CallContext>) -> Result<Emitted, UppError> {
        if !self.has(Hooks::STREAM_EVENT) {
            return Ok(Emitted::One(event));
        }
        let mut emitted = Emitted::One(event);
        for middleware in self.having(Hooks::STREAM_EVENT) {
            emitted = match emitted {
                Emitted::Nothing => return Ok(Emitted::Nothing),
                Emitted::One(event) => middleware.on_stream_event(event, context)?,
                Emitted::Many(events) => {
                    let mut kept = Vec::with_capacity(events.len());
                    for event in events {
                        kept.extend(middleware.on_stream_event(event, context)?);
                    }
                    Emitted::Many(kept)
                }
            };
        }
        Ok(emitted)
    }

    /// Finishes what a dropped call owes: at once where nothing waits, else in the background.
    pub(super) fn finish(&self, mut rest: BoxFuture<'static, ()>) {
        if let Some(finisher) = &self.finisher {
            return finisher.finish(rest);
        }
        if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            runtime::spawn(rest).detach();
        }
    }
}

/// One hook after the other, until one fails.
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
