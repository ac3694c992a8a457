//! Applies a model's middleware to a run.
//!
//! Spec: UPP-1.2 §17

use std::borrow::Cow;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Weak};

use futures_util::future::{Either, select};

use crate::driver::driver::{Driver, Next};
use crate::host::error::{HostError, HostErrorKind};
use crate::host::host::Host;
use crate::machine::machine::Machine;
use crate::machine::setup::Setup;
use crate::types::failure;
use crate::types::structure::Structure;
use turntree_core::message::{StreamEvent, ToolDefinition, Turn};
use turntree_core::time::{Clock, SystemClock, Timestamp};
use turntree_upp::llm::capability_check;
use turntree_upp::middleware::context::CalledModel;
use turntree_upp::middleware::{CallContext, Emitted, MiddlewareStack, Response};
use turntree_upp::{ErrorCode, Modality, ModelRequest, ModelResponse, UppError};

/// The middleware of one run, and the context that its hooks receive.
#[derive(Debug, Clone)]
pub(crate) struct ModelMiddlewareLayer {
    pub(super) stack: MiddlewareStack,
    pub(super) context: Arc<CallContext>,
}

impl ModelMiddlewareLayer {
    /// Creates the layer of a run.
    pub(crate) fn new(stack: MiddlewareStack, machine: &Machine, driver: &Driver, streaming: bool) -> Self {
        let model = &driver.model;
        let setup = machine.setup();
        let mut messages = setup.history.clone();
        messages.extend(machine.state().messages().iter().map(Arc::clone));
        let request = ModelRequest {
            messages,
            system: setup.system.clone(),
            params: Arc::clone(&setup.params),
            tools: Arc::clone(&setup.tools),
            structure: setup.structure.clone(),
            strict: None,
        };
        let called = CalledModel {
            modality: Modality::Llm,
            model_id: model.model_id().into(),
            provider: model.provider().into(),
            streaming,
        };
        let clock = Arc::new(HostClock(Arc::downgrade(&driver.host)));
        let context = Arc::new(CallContext::llm(called, request, setup.history.len(), clock));
        Self { stack, context }
    }

    /// Runs the machine inside the middleware. If a hook fails after the run, its error carries the turn.
    pub(super) async fn run(
        &self,
        machine: &mut Machine,
        driver: &Driver,
        next: impl Next + Send,
    ) -> Result<Arc<Turn>, UppError> {
        let mut finished = None;
        let slot = &mut finished;
        let work = move || async move {
            let driver = self.apply_changes(machine, driver)?;
            let turn = next.run(machine, &driver).await?;
            *slot = Some(Arc::clone(&turn));
            wait_for_consumer(&driver).await?;
            Ok(turn)
        };
        let outcome = self.stack.call(&self.context, driver.cancellation.as_ref(), work).await;
        outcome.map_err(|error| match finished {
            Some(turn) => failure::attach(error, Arc::unwrap_or_clone(turn)),
            None => error,
        })
    }

    /// Checks that the model supports the request after the hooks, then applies their changes to the machine.
    fn apply_changes<'a>(
        &self,
        machine: &mut Machine,
        driver: &'a Driver,
    ) -> Result<Cow<'a, Driver>, UppError> {
        let Some(request) = self.context.llm_request() else { return Ok(Cow::Borrowed(driver)) };
        capability_check::check_features(
            &*driver.model,
            request.structure.is_some(),
            !request.tools.is_empty(),
        )?;
        capability_check::check_media(&*driver.model, request.messages.iter().map(AsRef::as_ref))?;
        let start = self.context.turn_start(&request.messages);
        let before = machine.setup();
        let driver = match (&request.structure, &before.structure) {
            (Some(new), Some(old)) if Arc::ptr_eq(new, old) => Cow::Borrowed(driver),
            (None, None) => Cow::Borrowed(driver),
            (new, _) => {
                let structure = new.as_ref().map(|schema| Arc::new(Structure::new(schema)));
                if let Some(structure) = &structure {
                    structure.check_schema(driver.model.provider())?;
                }
                Cow::Owned(Driver { structure, ..driver.clone() })
            }
        };
        let setup = Setup {
            history: request.messages.take(start),
            system: request.system,
            params: request.params,
            // All tools, because calls refer to them by index. Each request declares the offered ones.
            tools: Arc::clone(&before.tools),
            structure: driver.structure.as_ref().map(|structure| Arc::clone(structure.schema())),
            plan_schema: before.plan_schema.clone(),
            plan_rules: before.plan_rules.clone(),
            is_wrapped: driver.structure.as_ref().is_some_and(|structure| structure.is_wrapped()),
            structure_repair: before.structure_repair,
            output_retries: before.output_retries,
            validates_output: before.validates_output,
            agent: before.agent.clone(),
            provider: Arc::clone(&before.provider),
        };
        machine.rewrite(setup, request.messages.skip(start));
        Ok(driver)
    }

    /// The tools that are offered to the model: those of the request after the hooks, and the tools of toolsets, which
    /// the hooks do not see.
    pub(super) fn offered(&self, of_toolsets: &[ToolDefinition]) -> Arc<[ToolDefinition]> {
        let offered = self.context.llm_request().map(|request| request.tools).unwrap_or_default();
        if of_toolsets.is_empty() { offered } else { offered.iter().chain(of_toolsets).cloned().collect() }
    }

    /// True if one of the agent's own tools is offered to the model.
    pub(super) fn offers(&self, tool: &str) -> bool {
        self.offered(&[]).iter().any(|offered| offered.name == tool)
    }

    /// Stores the response in the context.
    pub(super) fn set_response(&self, response: &ModelResponse) {
        self.context.set_response(Response::Llm(response.clone()));
    }

    pub(super) fn event(&self, event: StreamEvent) -> Result<Emitted, UppError> {
        self.stack.stream_event(event, &self.context)
    }
}

/// Waits until the consumer has taken the last event. The call can be aborted until then.
async fn wait_for_consumer(driver: &Driver) -> Result<(), UppError> {
    let (Some(events), Some(cancellation)) = (&driver.ports.events, &driver.cancellation) else {
        return Ok(());
    };
    let (cancelled, taken) = (pin!(cancellation.cancelled()), pin!(events.wait_until_empty()));
    match select(cancelled, taken).await {
        Either::Left(_) => Err(UppError::cancelled(driver.model.provider())),
        Either::Right(_) => Ok(()),
    }
}

/// The clock of the application. Weak, because contexts may outlive their runs.
struct HostClock(Weak<dyn Host>);

impl fmt::Debug for HostClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HostClock")
    }
}

impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        self.0.upgrade().map_or_else(|| SystemClock.now(), |host| host.clock().now())
    }
}

/// Converts the error of a tool hook to a failure of the tool. A cancellation ends the run.
pub(super) fn tool_failure(error: UppError) -> HostError {
    let kind = match error.code {
        ErrorCode::Cancelled => HostErrorKind::Fatal,
        _ => HostErrorKind::Raised,
    };
    HostError { kind, type_name: "MiddlewareError".to_owned(), message: error.message, payload: error.host }
}
