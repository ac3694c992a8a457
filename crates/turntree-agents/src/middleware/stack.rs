//! Middlewares in order. UAP-1.0 §10.2.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::future::BoxFuture;

use crate::middleware::context::MiddlewareContext;
use crate::middleware::hooks::{Hooks, Middleware};
use crate::types::event::AgentStreamEvent;
use turntree_core::message::Turn;
use turntree_core::runtime;
use turntree_upp::middleware::CleanupExecutor;
use turntree_upp::{ModelRequest, ModelResponse, UppError};

/// Middlewares in the order in which they were given; what comes first is outermost. An empty one costs nothing.
#[derive(Clone, Default)]
pub struct AgentMiddlewareStack {
    list: Option<Arc<[Arc<dyn Middleware>]>>,
    /// The hooks of all together.
    hooks: Hooks,
    finisher: Option<Arc<dyn CleanupExecutor>>,
}

impl fmt::Debug for AgentMiddlewareStack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.list().iter().map(|middleware| middleware.name())).finish()
    }
}

impl FromIterator<Arc<dyn Middleware>> for AgentMiddlewareStack {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Middleware>>>(middlewares: I) -> Self {
        let list: Arc<[_]> = middlewares.into_iter().collect();
        let hooks = list.iter().fold(Hooks::NONE, |hooks, middleware| hooks | middleware.hooks());
        Self { list: (!list.is_empty()).then_some(list), hooks, finisher: None }
    }
}

impl AgentMiddlewareStack {
    /// With somebody who tells `on_error` of runs that were dropped; by default a task of [`runtime`] does.
    #[must_use]
    pub fn with_finisher(self, finisher: Arc<dyn CleanupExecutor>) -> Self {
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

    /// The middlewares, outermost first.
    pub fn list(&self) -> &[Arc<dyn Middleware>] {
        self.list.as_deref().unwrap_or_default()
    }

    fn having(&self, hook: Hooks) -> impl DoubleEndedIterator<Item = &Arc<dyn Middleware>> + Send {
        self.list().iter().filter(move |middleware| middleware.hooks().contains(hook))
    }

    /// Runs `after` of the first `count` middlewares, in reverse order.
    ///
    /// # Errors
    /// That of the first hook that fails; the others are not called.
    pub(crate) async fn after(
        &self,
        count: usize,
        context: &Arc<MiddlewareContext>,
        turn: Arc<Turn>,
    ) -> Result<Arc<Turn>, UppError> {
        let mut turn = turn;
        for middleware in self.list().iter().take(count).rev() {
            if middleware.hooks().contains(Hooks::AFTER) {
                turn = middleware.after(context, turn).await?;
            }
        }
        Ok(turn)
    }

    /// Runs `on_error` of the first `count` middlewares, in reverse order, until one gives a turn.
    ///
    /// # Errors
    /// The error of the run, or the one that a hook put in its place.
    pub(crate) async fn recover(
        &self,
        count: usize,
        context: &Arc<MiddlewareContext>,
        error: UppError,
    ) -> Result<Arc<Turn>, UppError> {
        let mut error = error;
        for middleware in self.list().iter().take(count).rev() {
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

    /// Runs `on_event`, in order.
    ///
    /// # Errors
    /// That of the first hook that fails; the others are not called.
    pub(crate) async fn event(
        &self,
        context: &Arc<MiddlewareContext>,
        event: &AgentStreamEvent,
    ) -> Result<(), UppError> {
        for middleware in self.having(Hooks::EVENT) {
            middleware.on_event(context, event).await?;
        }
        Ok(())
    }

    /// Runs `on_model_request`, in order.
    ///
    /// # Errors
    /// As [`Self::event`].
    pub(crate) async fn request(
        &self,
        context: &Arc<MiddlewareContext>,
        mut request: ModelRequest,
    ) -> Result<ModelRequest, UppError> {
        for middleware in self.having(Hooks::MODEL_REQUEST) {
            request = middleware.on_model_request(context, request).await?;
        }
        Ok(request)
    }

    /// Runs `on_model_response`, in reverse order.
    ///
    /// # Errors
    /// As [`Self::event`].
    pub(crate) async fn response(
        &self,
        context: &Arc<MiddlewareContext>,
        mut response: ModelResponse,
    ) -> Result<ModelResponse, UppError> {
        for middleware in self.having(Hooks::MODEL_RESPONSE).rev() {
            response = middleware.on_model_response(context, response).await?;
        }
        Ok(response)
    }

    /// Finishes what a dropped run owes: at once where nothing waits, else in the background.
    pub(crate) fn finish(&self, mut rest: BoxFuture<'static, ()>) {
        if let Some(finisher) = &self.finisher {
            return finisher.execute(rest);
        }
        if rest.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            runtime::spawn(rest).detach();
        }
    }
}
