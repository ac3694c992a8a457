//! A model with tools and without an agent: `llm()`. UPP-1.2 §10 and §11.
//!
//! An [`Llm`] is the tool loop of an agent that keeps UPP's rules instead of UAP's ([`Protocol::Upp`]): any number of
//! inputs, no hooks of steps, no events of steps, and an aborted call fails. A call starts in `Llm::start`, its events
//! pass through [`LlmStream`], and it ends in [`Driver::run`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt as _, ready};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::driver::driver::{Driver, DriverConfig, DriverPorts, Protocol};
use crate::driver::model_layer::ModelMiddlewareLayer;
use crate::driver::stream::AgentStream;
use crate::host::run_context::RunContext;
use crate::host::tool::Tool;
use crate::machine::machine::Machine;
use crate::options::{AgentOptions, ToolUseStrategy};
use crate::types::event::AgentStreamEvent;
use crate::types::failure;
use crate::types::partial_output::PartialOutput;
use turntree_core::ids::IdSource;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{StreamEvent, Turn};
use turntree_upp::llm::{Input, capability_check};
use turntree_upp::middleware::MiddlewareStack;
use turntree_upp::{Capabilities, Model, System, UppError};

/// Options of an [`Llm`]. UPP-1.2 §10
#[derive(Debug, Clone)]
pub struct LlmOptions {
    /// The model, bound to its configuration.
    pub model: Arc<dyn Model>,
    /// The model's own parameters, passed on as they are.
    pub params: Arc<RawObject>,
    /// The system prompt.
    pub system: Option<Arc<System>>,
    /// The tools.
    pub tools: Vec<Tool>,
    /// How tools are used.
    pub tool_strategy: ToolUseStrategy,
    /// JSON Schema of the structured answer.
    pub structure: Option<Arc<RawJson>>,
    /// True if the model is asked once to repair output that does not match the structure.
    pub structure_repair: bool,
    /// Middleware around each call. UPP-1.2 §17
    pub middleware: MiddlewareStack,
}

impl LlmOptions {
    /// A model and nothing else.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            params: Arc::default(),
            system: None,
            tools: Vec::new(),
            tool_strategy: ToolUseStrategy::default(),
            structure: None,
            structure_repair: false,
            middleware: MiddlewareStack::default(),
        }
    }
}

/// A model with its tools, ready to be called.
///
/// Immutable; clones share everything. One serves any number of concurrent calls.
#[derive(Debug, Clone)]
pub struct Llm {
    model: Arc<dyn Model>,
    agent: Agent,
    middleware: MiddlewareStack,
}

impl Llm {
    /// A model with these options.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`] when the model has no tools or no structured answers and some are
    /// wanted, or when two tools share a name.
    pub fn new(options: LlmOptions, ids: &dyn IdSource) -> Result<Self, UppError> {
        let LlmOptions {
            model,
            params,
            system,
            tools,
            tool_strategy,
            structure,
            structure_repair,
            middleware,
        } = options;
        capability_check::check_features(&*model, structure.is_some(), !tools.is_empty())?;
        let options = AgentOptions {
            model: Some(Arc::clone(&model)),
            params,
            system,
            tools,
            tool_strategy,
            structure,
            structure_repair,
            ..AgentOptions::default()
        };
        let agent = Agent::new(options, ids);
        agent.spec().check_tool_names(model.provider())?;
        Ok(Self { model, agent, middleware })
    }

    /// The model.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&Arc<System>> {
        self.agent.options().system.as_ref()
    }

    /// The model's parameters.
    pub fn params(&self) -> &Arc<RawObject> {
        &self.agent.options().params
    }

    /// The tools.
    pub fn tools(&self) -> &Arc<[Tool]> {
        self.agent.tools()
    }

    /// The capabilities of the model.
    pub fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    /// Calls the model, and again while it wants tools. The history is not changed; without inputs the model goes on
    /// from it.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`], before anything is sent, for media that the model does not take,
    /// for a structure that is no JSON Schema, and for a call that says nothing. Then those of [`Driver::run`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the call: request and tools are dropped.
    pub async fn generate(
        &self,
        history: History,
        inputs: impl IntoIterator<Item = Input> + Send,
        context: RunContext,
    ) -> Result<Arc<Turn>, UppError> {
        let (mut machine, driver) = self.start(history, inputs, context)?;
        driver.run(&mut machine).await
    }

    /// As [`Self::generate`], as a stream. Nothing is sent before the stream is polled.
    ///
    /// # Errors
    /// As [`Self::generate`], and [`turntree_upp::ErrorCode::InvalidRequest`] for a model that cannot stream.
    pub fn stream(
        &self,
        history: History,
        inputs: impl IntoIterator<Item = Input>,
        context: RunContext,
    ) -> Result<LlmStream, UppError> {
        capability_check::check_streaming(&*self.model)?;
        let (machine, driver) = self.begin(history, inputs, context, true)?;
        let provider = self.model.provider().into();
        Ok(LlmStream { run: AgentStream::new(machine, driver), provider, outcome: None })
    }

    /// A machine and a driver for one call; where every call starts.
    ///
    /// # Errors
    /// As [`Self::generate`], before anything is sent.
    pub fn start(
        &self,
        history: History,
        inputs: impl IntoIterator<Item = Input>,
        context: RunContext,
    ) -> Result<(Machine, Driver), UppError> {
        self.begin(history, inputs, context, false)
    }

    fn begin(
        &self,
        history: History,
        inputs: impl IntoIterator<Item = Input>,
        mut context: RunContext,
        streaming: bool,
    ) -> Result<(Machine, Driver), UppError> {
        if context.middleware.is_empty() {
            context.middleware = self.middleware.clone();
        }
        let middleware = context.middleware.clone();
        // A bare model is not an agent, so it does not add a level of depth.
        let parent = context.parent_run.take();
        let nothing_before = history.is_empty();
        let (machine, driver) = self.agent.prepare_all(history, inputs, context)?;
        if nothing_before && machine.state().messages().is_empty() {
            let words = "there is nothing to answer; give an input, or a history that ends with one";
            return Err(UppError::invalid_request(self.model.provider(), words));
        }
        let model_middleware = (!middleware.is_empty())
            .then(|| ModelMiddlewareLayer::new(middleware, &machine, &driver, streaming));
        let config = DriverConfig { protocol: Protocol::Upp, ..driver.config.clone() };
        let ports = DriverPorts { model_middleware, parent, ..driver.ports.clone() };
        Ok((machine, Driver { config, ports, ..driver }))
    }
}

/// A call as a stream of its events. UPP-1.2 §11.2.
///
/// Lazy: nothing is sent before it is polled. May be polled on any executor. After an error, which an abort is, it
/// ends. The call counts as over when its last event has been taken, not when the model has sent it: so what an abort
/// does never depends on the network.
///
/// # Cancel safety
/// As [`AgentStream`].
#[derive(Debug)]
pub struct LlmStream {
    run: AgentStream,
    /// Whose model; in errors.
    provider: Arc<str>,
    outcome: Option<Result<Arc<Turn>, UppError>>,
}

impl LlmStream {
    /// Stops the call: the next item and [`Self::turn`] are [`turntree_upp::ErrorCode::Cancelled`], what had arrived is
    /// attached ([`partial_turn`](crate::types::partial_turn)). Events that have not been taken are dropped. No effect on a call that
    /// is over.
    pub fn abort(&self) {
        self.run.abort();
    }

    /// What aborts the call from elsewhere: cancelling it is [`Self::abort`].
    pub const fn abort_token(&self) -> &CancellationToken {
        self.run.abort_token()
    }

    /// The structured output in the events that were taken so far.
    pub const fn answer(&self) -> &Arc<PartialOutput> {
        self.run.answer()
    }

    /// The turn, when the call is over.
    pub const fn outcome(&self) -> Option<&Result<Arc<Turn>, UppError>> {
        self.outcome.as_ref()
    }

    /// Drives the call to its end and returns its turn; can be called again. Drops the events that were not taken.
    ///
    /// # Errors
    /// As [`Driver::run`].
    ///
    /// # Cancel safety
    /// As [`AgentStream::turn`].
    pub async fn turn(&mut self) -> Result<Arc<Turn>, UppError> {
        while self.outcome.is_none() {
            if self.next().await.is_none() {
                break;
            }
        }
        let unfinished = || Err(UppError::cancelled(""));
        self.outcome.clone().unwrap_or_else(unfinished)
    }

    fn end(&mut self, outcome: Result<Arc<Turn>, UppError>) -> Option<Result<StreamEvent, UppError>> {
        let error = outcome.as_ref().err().cloned();
        self.outcome = Some(outcome);
        error.map(Err)
    }
}

impl Stream for LlmStream {
    type Item = Result<StreamEvent, UppError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        if stream.outcome.is_some() {
            return Poll::Ready(None);
        }
        // The model was done, its last events were not taken.
        if let (true, Some(Ok(turn))) = (stream.run.abort_token().is_cancelled(), stream.run.outcome()) {
            let error = failure::attach(UppError::cancelled(&*stream.provider), Turn::clone(turn));
            return Poll::Ready(stream.end(Err(error)));
        }
        loop {
            match ready!(stream.run.poll_next_unpin(context)) {
                Some(Ok(AgentStreamEvent::Upp(event))) => return Poll::Ready(Some(Ok(event))),
                // A driver under `Protocol::Upp` sends none of these.
                Some(Ok(AgentStreamEvent::Uap(_) | AgentStreamEvent::SubAgent(_))) => {}
                Some(Err(error)) => return Poll::Ready(stream.end(Err(error))),
                None => {
                    let unfinished = || Err(UppError::cancelled(""));
                    let outcome = stream.run.outcome().cloned().unwrap_or_else(unfinished);
                    return Poll::Ready(stream.end(outcome));
                }
            }
        }
    }
}
