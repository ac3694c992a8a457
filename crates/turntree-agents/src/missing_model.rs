//! The model of an agent that has none, because its strategy runs other agents.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _, ready};
use futures_util::stream::{StreamExt as _, once};

use turntree_upp::provider::{Capabilities, Model, ModelResponse, ModelStream};
use turntree_upp::{ModelRequest, UppError};

/// Refuses every call, with the agent that needs a model.
#[derive(Debug)]
pub(crate) struct MissingModel {
    agent: Arc<str>,
}

impl MissingModel {
    pub(crate) fn of(agent: &str) -> Self {
        Self { agent: agent.into() }
    }

    pub(crate) fn error(agent: &str) -> UppError {
        let message =
            format!("agent '{agent}' has no model; give it one, or run it as a tool of an agent that has one");
        UppError::invalid_request("", message)
    }
}

impl Model for MissingModel {
    fn model_id(&self) -> &str {
        ""
    }

    fn provider(&self) -> &str {
        ""
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn complete(&self, _request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        ready(Err(Self::error(&self.agent))).boxed()
    }

    fn stream(&self, _request: ModelRequest) -> ModelStream {
        once(ready(Err(Self::error(&self.agent)))).boxed()
    }
}
