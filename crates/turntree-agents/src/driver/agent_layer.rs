//! Applies an agent's middleware to a run.
//!
//! Spec: UAP-1.0 §10; decisions A12, A46 to A52

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{Either, select};

use crate::driver::driver::{Driver, DriverConfig, Next};
use crate::driver::stop::{Stop, stop};
use crate::host::host::Host;
use crate::machine::machine::Machine;
use crate::machine::setup::Setup;
use crate::middleware::budget::BudgetUsage;
use crate::middleware::context::{MiddlewareContext, RunStart};
use crate::middleware::hooks::Hooks;
use crate::middleware::stack::{
    AgentMiddlewareStack, call_after, call_on_error, call_on_event, call_on_model_request,
    call_on_model_response,
};
use crate::types::action::ActionResult;
use crate::types::approval::approval_required;
use crate::types::event::AgentStreamEvent;
use crate::types::failure;
use crate::types::identity::AgentInfo;
use crate::types::middleware_state::MiddlewareState;
use turntree_core::message::{CodeExecutionBlock, ContentBlock, Delta, Message, StreamEvent, Turn};
use turntree_core::time::Timestamp;
use turntree_upp::llm::capability_check;
use turntree_upp::{ErrorCode, ModelRequest, ModelResponse, UppError};

/// The middleware of an agent around one run.
pub(crate) struct AgentMiddlewareLayer {
    stack: AgentMiddlewareStack,
    context: Arc<MiddlewareContext>,
    /// The number of middlewares whose `before` has started. If the run fails, their `on_error` is called.
    begun: AtomicUsize,
    /// Stream events of the current model call, held back until the response is complete.
    held: Mutex<Vec<StreamEvent>>,
}

impl fmt::Debug for AgentMiddlewareLayer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AgentMiddlewareLayer").field("stack", &self.stack).finish_non_exhaustive()
    }
}

impl AgentMiddlewareLayer {
    /// Creates the layer of a run.
    pub(crate) fn new(
        agent: Arc<AgentInfo>,
        stack: AgentMiddlewareStack,
        driver: &Driver,
        middleware_state: Option<Arc<MiddlewareState>>,
    ) -> Self {
        let (identity, provider) = (Arc::clone(&driver.identity), driver.model.provider());
        let context = MiddlewareContext::new(agent, identity, provider, &driver.host, middleware_state);
        Self { stack, context: Arc::new(context), begun: AtomicUsize::new(0), held: Mutex::default() }
    }

    /// Runs the machine inside the middleware. If `after` fails, its error carries the turn.
    pub(super) async fn run(
        &self,
        machine: &mut Machine,
        driver: &Driver,
        next: impl Next + Send,
    ) -> Result<Arc<Turn>, UppError> {
        let mut guard = AbortGuard { layer: Some(self), host: &driver.host };
        let outcome = self.run_hooks(machine, driver, next).await;
        guard.layer = None;
        self.store_usage();
        match outcome {
            Ok(turn) => Ok(turn),
            // The process stops: no hook is called.
            Err(error) if error.code == ErrorCode::Cancelled && error.host.is_some() => Err(error),
            // The run has not failed: it waits for approval.
            Err(error) if approval_required(&error).is_some() => Err(error),
            Err(error) => {
                let begun = self.begun.load(Ordering::Relaxed);
                call_on_error(&self.stack, begun, &self.context, error).await
            }
        }
    }

    async fn run_hooks(
        &self,
        machine: &mut Machine,
        driver: &Driver,
        next: impl Next + Send,
    ) -> Result<Arc<Turn>, UppError> {
        let state = machine.state();
        let input = state.messages().front().map(Arc::clone);
        self.context.begin(input, machine.setup().history.clone());
        self.context.open(spent_before(machine));
        let began = driver.beginning();
        let finished = self.before(machine, driver, began).await?;
        self.apply_changes(machine, driver)?;
        let rest = driver.time_left(began);
        let turn = if rest.is_some() {
            let config = DriverConfig { time_left: rest, ..driver.config.clone() };
            next.run(machine, &Driver { config, ..driver.clone() }).await?
        } else {
            next.run(machine, driver).await?
        };
        let outcome = self.after(driver, began, finished, &turn).await;
        outcome.map_err(|error| failure::attach(error, Turn::clone(&turn)))
    }

    /// Calls `after`, for as long as the run may take.
    async fn after(
        &self,
        driver: &Driver,
        began: Option<Timestamp>,
        finished: usize,
        turn: &Arc<Turn>,
    ) -> Result<Arc<Turn>, UppError> {
        let hooks = call_after(&self.stack, finished, &self.context, Arc::clone(turn));
        let Some(left) = driver.time_left(began) else { return hooks.await };
        // The hooks first: one that does not wait ends, whatever is left.
        match select(pin!(hooks), driver.host.timer(left)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(driver.timeout_error()),
        }
    }

    /// Calls `before` in order and returns the number of calls that have finished. An abort of the run skips the rest.
    async fn before(
        &self,
        machine: &Machine,
        driver: &Driver,
        began: Option<Timestamp>,
    ) -> Result<usize, UppError> {
        let list = self.stack.list();
        for (place, middleware) in list.iter().enumerate() {
            let hook = async {
                self.begun.store(place + 1, Ordering::Relaxed);
                if middleware.hooks().contains(Hooks::BEFORE) {
                    return middleware.before(&self.context).await;
                }
                Ok(())
            };
            let timer = driver.time_left(began).map(|left| driver.host.timer(left));
            if driver.cancellation.is_none() && timer.is_none() {
                hook.await?;
                continue;
            }
            match select(stop(driver.cancellation.as_ref(), timer), pin!(hook)).await {
                Either::Left((Stop::Aborted, _)) => return Ok(place),
                Either::Left((Stop::TimedOut, _)) => {
                    return Err(machine.with_turn_so_far(driver.timeout_error()));
                }
                Either::Right((outcome, _)) => outcome?,
            }
        }
        Ok(list.len())
    }

    /// Applies the changes of the hooks to the machine, then checks that the model supports the messages.
    fn apply_changes(&self, machine: &mut Machine, driver: &Driver) -> Result<(), UppError> {
        let RunStart { input, history, is_changed } = self.context.run_start();
        if is_changed {
            let mut messages = machine.state().messages().clone();
            // The input of a resumed run cannot change: the model has answered it.
            if let (true, Some(input)) = (machine.state().step() == 0, input) {
                messages.pop_front();
                messages.push_front(input);
            }
            let setup = Setup { history, ..Setup::clone(machine.setup()) };
            machine.rewrite(setup, messages);
        }
        let messages = machine.setup().history.iter().chain(machine.state().messages());
        capability_check::check_media(&*driver.model, messages.map(AsRef::as_ref))
    }

    /// Calls the hooks before a model call. Returns the request to send.
    pub(super) async fn request(&self, step: u32, request: ModelRequest) -> Result<ModelRequest, UppError> {
        self.held().clear();
        self.context.call(step);
        call_on_model_request(&self.stack, &self.context, request).await
    }

    /// Calls the hooks after a model call. Returns the response to use and the stream events that were held back.
    pub(super) async fn response(
        &self,
        response: ModelResponse,
    ) -> Result<(ModelResponse, Vec<StreamEvent>), UppError> {
        self.context.count(&response.usage);
        self.store_usage();
        let message = Arc::clone(&response.message);
        let response = call_on_model_response(&self.stack, &self.context, response).await?;
        let held = std::mem::take(&mut *self.held());
        if Arc::ptr_eq(&message, &response.message) {
            return Ok((response, held));
        }
        let events = rewrite_events(held, &message, &response.message);
        Ok((response, events))
    }

    /// Stores the usage of the session if a middleware needs it.
    fn store_usage(&self) {
        if self.stack.has(Hooks::USAGE) {
            self.context.store_usage();
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<StreamEvent>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the stream events of the model are held back until the response is complete.
    pub(super) fn holds_events(&self) -> bool {
        self.stack.has(Hooks::HOLD)
    }

    /// Holds an event back.
    pub(super) fn hold(&self, event: StreamEvent) {
        self.held().push(event);
    }

    /// True if a middleware implements `on_event`.
    pub(super) fn wants_events(&self) -> bool {
        self.stack.has(Hooks::EVENT)
    }

    pub(super) async fn event(&self, event: &AgentStreamEvent) -> Result<(), UppError> {
        if self.wants_events() { call_on_event(&self.stack, &self.context, event).await } else { Ok(()) }
    }
}

/// Converts the error of an event hook to an action result. A cancellation ends the run.
pub(super) fn hook_failure(error: UppError) -> Result<ActionResult, UppError> {
    if error.code == ErrorCode::Cancelled { Err(error) } else { Ok(ActionResult::Failed(error)) }
}

/// The usage of a run before it was resumed.
fn spent_before(machine: &Machine) -> BudgetUsage {
    let state = machine.state();
    let step_has_answered = machine.step_usage().cycles.is_some_and(|cycles| !cycles.is_empty());
    let steps = u64::from(state.step()).saturating_sub(u64::from(!step_has_answered));
    BudgetUsage { steps, ..BudgetUsage::of_calls(state.collected.usage.iter().map(AsRef::as_ref)) }
}

/// Replaces the texts in stream events by the texts of the changed response. Removes the events of removed blocks.
fn rewrite_events(held: Vec<StreamEvent>, before: &Message, after: &Message) -> Vec<StreamEvent> {
    let (new_texts, mut new_codes) = (texts_of(after), codes_of(after));
    if texts_of(before) == new_texts && codes_of(before).eq(codes_of(after)) {
        return held;
    }
    let mut streamed: Vec<(u32, bool, String)> = Vec::new();
    for event in &held {
        let Some((is_thought, piece)) = text_of(event) else { continue };
        match streamed.iter_mut().find(|(index, kind, _)| (*index, *kind) == (event.index, is_thought)) {
            Some((_, _, text)) => text.push_str(piece),
            None => streamed.push((event.index, is_thought, piece.to_owned())),
        }
    }
    // The first event of each block receives all of the new text; the others are removed.
    let mut replaced: Vec<(u32, bool)> = Vec::new();
    let mut events = Vec::with_capacity(held.len());
    for event in held {
        if matches!(event.delta, Delta::CodeExecution(_)) {
            events.extend(new_codes.next().map(|block| StreamEvent::code_execution(event.index, block)));
            continue;
        }
        let Some((is_thought, _)) = text_of(&event) else {
            events.push(event);
            continue;
        };
        let key = (event.index, is_thought);
        if replaced.contains(&key) {
            continue;
        }
        let order = streamed.iter().filter(|(_, kind, _)| *kind == is_thought);
        let place = order.clone().position(|(index, ..)| *index == event.index);
        let text =
            place.and_then(|place| new_texts.iter().filter(|(kind, _)| *kind == is_thought).nth(place));
        replaced.push(key);
        if let Some((_, text)) = text {
            events.push(with_text(event, text));
        }
    }
    events
}

/// The texts of a message; true marks reasoning.
fn texts_of(message: &Message) -> Vec<(bool, &str)> {
    let blocks = message.content().iter();
    blocks
        .filter_map(|block| match block {
            ContentBlock::Text(block) => Some((false, block.text.as_str())),
            ContentBlock::Reasoning(block) => Some((true, block.text.as_str())),
            _ => None,
        })
        .collect()
}

/// The code that the vendor ran, in the order of its events.
fn codes_of(message: &Message) -> impl Iterator<Item = &CodeExecutionBlock> {
    message.content().iter().filter_map(|block| match block {
        ContentBlock::CodeExecution(block) => Some(&**block),
        _ => None,
    })
}

fn text_of(event: &StreamEvent) -> Option<(bool, &str)> {
    match &event.delta {
        Delta::Text(delta) | Delta::Object(delta) => Some((false, &delta.text)),
        Delta::Reasoning(delta) => Some((true, &delta.text)),
        _ => None,
    }
}

fn with_text(mut event: StreamEvent, text: &str) -> StreamEvent {
    if let Delta::Text(delta) | Delta::Object(delta) | Delta::Reasoning(delta) = &mut event.delta {
        text.clone_into(&mut delta.text);
    }
    event
}

/// Calls `on_error` with a cancellation if the run is dropped before its end.
struct AbortGuard<'a> {
    layer: Option<&'a AgentMiddlewareLayer>,
    host: &'a Arc<dyn Host>,
}

impl Drop for AbortGuard<'_> {
    fn drop(&mut self) {
        let Some(layer) = self.layer else { return };
        layer.store_usage();
        let begun = layer.begun.load(Ordering::Relaxed);
        if begun == 0 || !layer.stack.has(Hooks::ERROR) {
            return;
        }
        let (stack, context, host) = (layer.stack.clone(), Arc::clone(&layer.context), Arc::clone(self.host));
        let error = UppError::cancelled(&*context.provider);
        layer.stack.clean_up(Box::pin(async move {
            let outcome = call_on_error(&stack, begun, &context, error).await;
            drop((outcome, host));
        }));
    }
}
