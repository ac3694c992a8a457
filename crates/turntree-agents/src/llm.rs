//! A model with tools, without an agent: `llm()`.
//!
//! An [`Llm`] runs the tool loop of an agent under the rules of UPP instead of UAP ([`Protocol::Upp`]): a call has any
//! number of inputs, steps have no hooks and no events, and an aborted call fails. `Llm::start` prepares a call,
//! [`Driver::run`] executes it, and [`LlmStream`] streams its events.
//!
//! Spec: UPP-1.2 §10, §11

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
use crate::host::strategy::StrategyScope;
use crate::host::tool::Tool;
use crate::machine::machine::Machine;
use crate::options::{AgentOptions, ToolUseStrategy};
use crate::types::event::AgentStreamEvent;
use crate::types::failure;
use crate::types::limits::UsageMeter;
use crate::types::partial_output::PartialOutput;
use turntree_core::ids::IdSource;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{StreamEvent, Turn};
use turntree_upp::llm::{Input, capability_check};
use turntree_upp::middleware::MiddlewareStack;
use turntree_upp::{Capabilities, Model, System, UppError};

/// Options of an [`Llm`].
///
/// Spec: UPP-1.2 §10
#[derive(Debug, Clone)]
pub struct LlmOptions {
    /// The model, bound to its configuration.
    pub model: Arc<dyn Model>,
    /// The model's own parameters, sent unchanged.
    pub params: Arc<RawObject>,
    /// The system prompt.
    pub system: Option<Arc<System>>,
    /// The tools.
    pub tools: Vec<Tool>,
    /// Limits of tool use.
    pub tool_strategy: ToolUseStrategy,
    /// JSON Schema of the structured output.
    pub structure: Option<Arc<RawJson>>,
    /// True if the model is asked once to repair output that does not match the structure.
    pub structure_repair: bool,
    /// How often the model is asked again for output that does not match the structure; `None` for once, with
    /// `structure_repair`.
    pub output_retries: Option<u32>,
    /// Middleware around each call.
    ///
    /// Spec: UPP-1.2 §17
    pub middleware: MiddlewareStack,
}

impl LlmOptions {
    /// Options with a model and the defaults.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            params: Arc::default(),
            system: None,
            tools: Vec::new(),
            tool_strategy: ToolUseStrategy::default(),
            structure: None,
            structure_repair: false,
            output_retries: None,
            middleware: MiddlewareStack::default(),
        }
    }
}

/// A model with tools.
///
/// Immutable; clones share everything. One `Llm` serves any number of concurrent calls.
#[derive(Debug, Clone)]
pub struct Llm {
    model: Arc<dyn Model>,
    agent: Agent,
    middleware: MiddlewareStack,
    /// Counts the usage of the run that the calls belong to.
    meter: Option<Arc<UsageMeter>>,
}

impl Llm {
    /// Creates an `Llm` from options.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`] if the options have tools or a structure that the model does not
    /// support, or if two tools have the same name.
    pub fn new(options: LlmOptions, ids: &dyn IdSource) -> Result<Self, UppError> {
        let LlmOptions {
            model,
            params,
            system,
            tools,
            tool_strategy,
            structure,
            structure_repair,
            output_retries,
            middleware,
        } = options;
        let options = AgentOptions {
            params,
            system,
            tools,
            structure,
            structure_repair,
            output_retries,
            tool_strategy,
            ..AgentOptions::default()
        };
        Self::of_options(model, options, middleware, ids)
    }

    /// The model of a run, with the tools and toolsets of the agent that has these options: for a custom strategy that calls the
    /// model itself.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn in_run(
        run: &dyn StrategyScope,
        agent: &AgentOptions,
        ids: &dyn IdSource,
    ) -> Result<Self, UppError> {
        let options = AgentOptions {
            params: Arc::clone(&run.setup().params),
            system: agent.system.clone(),
            tools: agent.tools.clone(),
            toolsets: agent.toolsets.clone(),
            structure: agent.structure.clone(),
            structure_repair: agent.structure_repair,
            output_retries: agent.output_retries,
            validates_output: agent.validates_output,
            tool_strategy: agent.tool_strategy,
            ..AgentOptions::default()
        };
        let llm = Self::of_options(Arc::clone(run.model()), options, MiddlewareStack::default(), ids)?;
        Ok(Self { meter: run.meter().cloned(), ..llm })
    }

    fn of_options(
        model: Arc<dyn Model>,
        options: AgentOptions,
        middleware: MiddlewareStack,
        ids: &dyn IdSource,
    ) -> Result<Self, UppError> {
        let has_tools = !options.tools.is_empty() || !options.toolsets.is_empty();
        capability_check::check_features(&*model, options.structure.is_some(), has_tools)?;
        let agent = Agent::new(AgentOptions { model: Some(Arc::clone(&model)), ..options }, ids);
        agent.spec().check_tool_names(model.provider())?;
        Ok(Self { model, agent, middleware, meter: None })
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

    /// Calls the model, runs the tools that it calls, and repeats until it calls none. The history is not changed.
    /// Without inputs, the model continues from the history.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`] before anything is sent: media that the model does not support, a
    /// structure that is not a valid JSON Schema, or neither inputs nor a history. Then the errors of [`Driver::run`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the call: the request and the tools are dropped.
    pub async fn generate(
        &self,
        history: History,
        inputs: impl IntoIterator<Item = Input> + Send,
        context: RunContext,
    ) -> Result<Arc<Turn>, UppError> {
        let (machine, driver) = self.start(history, inputs, context)?;
        driver.complete(machine).await
    }

    /// Like [`Self::generate`], and streams the events. Nothing is sent before the stream is polled.
    ///
    /// # Errors
    /// As for [`Self::generate`], and [`turntree_upp::ErrorCode::InvalidRequest`] for a model that cannot stream.
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

    /// Creates the machine and the driver of one call.
    ///
    /// # Errors
    /// As for [`Self::generate`], before anything is sent.
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
        if context.meter.is_none() {
            let of_parent = parent.as_ref().and_then(|parent| parent.meter.clone());
            context.meter = self.meter.clone().or(of_parent);
        }
        let is_first_turn = history.is_empty();
        let (machine, driver) = self.agent.prepare_all(history, inputs, context)?;
        if is_first_turn && machine.state().messages().is_empty() {
            let message =
                "the call has no messages; pass an input, or a history that ends with a user message";
            return Err(UppError::invalid_request(self.model.provider(), message));
        }
        let model_middleware = (!middleware.is_empty())
            .then(|| ModelMiddlewareLayer::new(middleware, &machine, &driver, streaming));
        let config = DriverConfig { protocol: Protocol::Upp, ..driver.config.clone() };
        let ports = DriverPorts { model_middleware, parent, ..driver.ports.clone() };
        Ok((machine, Driver { config, ports, ..driver }))
    }
}

/// The stream of a call's events.
///
/// Lazy: nothing is sent before the stream is polled. Any executor can poll it. The stream ends after an error; an abort
/// is an error. The call ends when the consumer has taken the last event, not when the model has sent it: so the result of
/// an abort does not depend on the network.
///
/// # Cancel safety
/// As for [`AgentStream`].
///
/// Spec: UPP-1.2 §11.2
#[derive(Debug)]
pub struct LlmStream {
    run: AgentStream,
    /// The model's provider, for errors.
    provider: Arc<str>,
    outcome: Option<Result<Arc<Turn>, UppError>>,
}

impl LlmStream {
    /// Stops the call: the next item and [`Self::turn`] are [`turntree_upp::ErrorCode::Cancelled`] with the partial turn
    /// attached ([`partial_turn`](crate::types::partial_turn)). Events in the queue are dropped. Has no effect on a call
    /// that has ended.
    pub fn abort(&self) {
        self.run.abort();
    }

    /// The token that aborts the call: cancelling it has the effect of [`Self::abort`].
    pub const fn abort_token(&self) -> &CancellationToken {
        self.run.abort_token()
    }

    /// The structured output in the events that the consumer has taken.
    pub const fn answer(&self) -> &Arc<PartialOutput> {
        self.run.answer()
    }

    /// The result of the call; `None` until it has ended.
    pub const fn outcome(&self) -> Option<&Result<Arc<Turn>, UppError>> {
        self.outcome.as_ref()
    }

    /// Runs the call to its end and returns its turn. Drops the remaining events. Can be called repeatedly.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    ///
    /// # Cancel safety
    /// As for [`AgentStream::turn`].
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
        // The model has finished, but the call was aborted before the consumer has taken the last events.
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
