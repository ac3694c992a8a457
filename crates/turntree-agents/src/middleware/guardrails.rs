//! Guardrails: rules that check the input and the output of a run.
//!
//! Text rules check each text block of the input, and each text and reasoning block of every model response, before it is
//! stored, sent or streamed. Data rules check the structured output.
//!
//! Spec: UAP-1.0 §10.4, §16.3

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, ready};

use crate::middleware::context::MiddlewareContext;
use crate::middleware::hooks::{HookFuture, Hooks, Middleware};
use crate::types::structure::{Structure, Violation, unwrapped};
use turntree_core::json::RawJson;
use turntree_core::limits::Limits;
use turntree_core::message::{Body, CodeExecutionBlock, ContentBlock, Message, MessageKind, Turn};
use turntree_upp::{ErrorCode, ModelResponse, UppError};

/// The side of a run that a rule checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GuardrailSide {
    /// The input of the run.
    Input,
    /// The output of a model.
    Output,
}

impl GuardrailSide {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// The result of checking a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleOutcome {
    /// The text passes unchanged.
    Pass,
    /// The text is rejected, for this reason.
    Reject(String),
    /// The text is replaced by this one.
    Replace(String),
}

/// Checks texts.
pub trait RuleCheck: Send + Sync {
    /// Checks one text.
    ///
    /// # Errors
    /// The error of the application's own code. It ends the run.
    fn check<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<RuleOutcome, UppError>>;
}

impl<F: Fn(&str) -> RuleOutcome + Send + Sync> RuleCheck for F {
    fn check<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<RuleOutcome, UppError>> {
        Box::pin(ready(Ok(self(text))))
    }
}

/// A named rule.
#[derive(Clone)]
pub struct Rule {
    /// Name of the rule, for error messages.
    pub name: String,
    kind: RuleKind,
}

#[derive(Clone)]
enum RuleKind {
    Text(Arc<dyn RuleCheck>),
    Data(Arc<Structure>),
}

impl fmt::Debug for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl Rule {
    /// Creates a text rule.
    pub fn of_text(name: impl Into<String>, check: Arc<dyn RuleCheck>) -> Self {
        Self { name: name.into(), kind: RuleKind::Text(check) }
    }

    /// Creates a data rule: the output must be JSON that is valid against a JSON Schema.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`] if the schema is not a valid JSON Schema.
    pub fn of_data(name: impl Into<String>, schema: RawJson) -> Result<Self, UppError> {
        let structure = Structure::without_wrapper(Arc::new(schema));
        structure.check_schema("")?;
        Ok(Self { name: name.into(), kind: RuleKind::Data(Arc::new(structure)) })
    }
}

/// Cause of the error that ends a run when a rule rejects a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("guardrail '{rule}' rejected the {}: {reason}", side.as_str())]
pub struct GuardrailError {
    /// Name of the rule.
    pub rule: String,
    /// The side that was checked.
    pub side: GuardrailSide,
    /// The reason for the rejection.
    pub reason: String,
    /// The rejected text.
    pub text: String,
}

/// Middleware that rejects or rewrites input and output.
#[derive(Debug, Clone)]
pub struct Guardrails {
    /// Name of the middleware.
    pub name: String,
    /// Input rules, applied in order: each receives the result of the rule before it.
    pub input: Vec<Rule>,
    /// Output rules, applied in order.
    pub output: Vec<Rule>,
    /// If true (the default), a response is streamed only after all of it has passed. If false, it is streamed as it
    /// arrives, and only the turn has the result of the rules.
    pub hold: bool,
}

impl Default for Guardrails {
    fn default() -> Self {
        let name = "guardrails".to_owned();
        Self { name, input: Vec::new(), output: Vec::new(), hold: true }
    }
}

/// Messages of a run that have passed the output rules.
#[derive(Default)]
struct Passed(Mutex<Vec<Arc<Message>>>);

impl Passed {
    fn add(&self, message: &Arc<Message>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(message));
    }

    fn has(&self, message: &Arc<Message>) -> bool {
        let passed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        passed.iter().any(|known| Arc::ptr_eq(known, message))
    }
}

/// Applies the rules of one side.
struct RuleChecker<'a> {
    rules: &'a [Rule],
    side: GuardrailSide,
    provider: &'a str,
}

impl RuleChecker<'_> {
    fn rejected(&self, rule: &Rule, reason: String, text: &str) -> UppError {
        let error =
            GuardrailError { rule: rule.name.clone(), side: self.side, reason, text: text.to_owned() };
        let code = match self.side {
            GuardrailSide::Input => ErrorCode::InvalidRequest,
            GuardrailSide::Output => ErrorCode::ContentFiltered,
        };
        UppError::new(code, self.provider, error.to_string()).with_cause(error)
    }

    /// Applies the text rules. Returns `None` if the text is unchanged.
    async fn text(&self, text: &str) -> Result<Option<String>, UppError> {
        let mut left: Option<String> = None;
        for rule in self.rules {
            let RuleKind::Text(check) = &rule.kind else { continue };
            let seen = left.as_deref().unwrap_or(text);
            match check.check(seen).await? {
                RuleOutcome::Pass => {}
                RuleOutcome::Reject(reason) => return Err(self.rejected(rule, reason, seen)),
                RuleOutcome::Replace(other) if other == seen => {}
                RuleOutcome::Replace(other) => left = Some(other),
            }
        }
        Ok(left)
    }

    /// Applies the text rules to code and its output.
    async fn code(&self, block: &CodeExecutionBlock) -> Result<Option<CodeExecutionBlock>, UppError> {
        let mut left = block.clone();
        for text in [&mut left.code, &mut left.output].into_iter().flatten() {
            if let Some(other) = self.text(text).await? {
                *text = other;
            }
        }
        Ok((left != *block).then_some(left))
    }

    /// Applies the data rules to `data`, or to the JSON in `text` if `data` is `None`.
    fn data(&self, text: &str, data: Option<&RawJson>) -> Result<(), UppError> {
        for rule in self.rules {
            let RuleKind::Data(structure) = &rule.kind else { continue };
            let read = match data {
                Some(data) => Some(data.clone()),
                None => RawJson::from_embedded(text),
            };
            let violations = match &read {
                Some(data) => structure.violations(data),
                None => vec![Violation::no_json()],
            };
            if !violations.is_empty() {
                let text = data.map_or(text, RawJson::get);
                return Err(self.rejected(rule, Violation::list(&violations, "; "), text));
            }
        }
        Ok(())
    }

    /// Applies the text rules to blocks. Returns `None` if nothing has changed. A reasoning block that a rule rewrites is
    /// removed, because vendors accept only their own reasoning unchanged.
    async fn blocks(&self, content: &[ContentBlock]) -> Result<Option<Vec<ContentBlock>>, UppError> {
        let mut left = Vec::with_capacity(content.len());
        let mut is_changed = false;
        for block in content {
            let changed = match block {
                ContentBlock::Text(block) => self.text(&block.text).await?.map(|text| {
                    let mut block = block.clone();
                    block.text = text;
                    Some(ContentBlock::Text(block))
                }),
                ContentBlock::Reasoning(block) => self.text(&block.text).await?.map(|_| None),
                ContentBlock::CodeExecution(block) => self.code(block).await?.map(|block| Some(block.into())),
                _ => None,
            };
            is_changed |= changed.is_some();
            left.extend(changed.unwrap_or_else(|| Some(block.clone())));
        }
        Ok(is_changed.then_some(left))
    }

    /// Applies the text rules to a message. Returns the same message if nothing has changed.
    async fn message(&self, message: &Arc<Message>) -> Result<Arc<Message>, UppError> {
        let Some(left) = self.blocks(message.content()).await? else { return Ok(Arc::clone(message)) };
        let mut message = Message::clone(message);
        if let Body::User { content } | Body::Assistant { content, .. } = &mut message.body {
            *content = left;
        }
        Ok(Arc::new(message))
    }
}

impl Guardrails {
    fn checker<'a>(&'a self, side: GuardrailSide, context: &'a MiddlewareContext) -> RuleChecker<'a> {
        let rules = match side {
            GuardrailSide::Input => &self.input,
            GuardrailSide::Output => &self.output,
        };
        RuleChecker { rules: rules.as_slice(), side, provider: &context.provider }
    }

    async fn check_input(&self, context: &MiddlewareContext) -> Result<(), UppError> {
        let Some(input) = context.input() else { return Ok(()) };
        let checker = self.checker(GuardrailSide::Input, context);
        let left = checker.message(&input).await?;
        checker.data(&left.text(), None)?;
        if !Arc::ptr_eq(&left, &input) {
            context.set_input(left);
        }
        Ok(())
    }

    async fn check_response(
        &self,
        mut response: ModelResponse,
        context: &MiddlewareContext,
    ) -> Result<ModelResponse, UppError> {
        let checker = self.checker(GuardrailSide::Output, context);
        let message = checker.message(&response.message).await?;
        if let Some(data) = &response.data {
            response.data = Some(self.checked_data(data, &checker).await?);
        }
        // A response with tool calls is not the final output.
        if !message.has_tool_calls() {
            let is_wrapped = context.agent.wraps_output;
            let inner = response.data.as_ref().filter(|_| is_wrapped).and_then(unwrapped);
            checker.data(&message.text(), inner.as_ref().or(response.data.as_ref()))?;
        }
        let passed: Arc<Passed> = context.state.of(self);
        passed.add(&message);
        response.message = message;
        Ok(response)
    }

    /// Applies the text rules to structured output. The result must still be JSON.
    async fn checked_data(&self, data: &RawJson, checker: &RuleChecker<'_>) -> Result<RawJson, UppError> {
        let Some(left) = checker.text(data.get()).await? else { return Ok(data.clone()) };
        RawJson::from_embedded(&left).ok_or_else(|| {
            let message = format!(
                "{}: a rule replaced the structured output by text that is not JSON with at most {} levels; \
                 return valid JSON",
                self.name,
                Limits::PAYLOAD.depth
            );
            UppError::invalid_request(checker.provider, message)
        })
    }

    /// Checks the messages that [`Self::check_response`] has not seen, for example after an abort or from another middleware.
    async fn check_turn(&self, turn: Arc<Turn>, context: &MiddlewareContext) -> Result<Arc<Turn>, UppError> {
        let checker = self.checker(GuardrailSide::Output, context);
        let passed: Arc<Passed> = context.state.of(self);
        let mut messages = Vec::with_capacity(turn.messages.len());
        let mut is_changed = false;
        for message in &turn.messages {
            let left = if message.kind() == MessageKind::Assistant && !passed.has(message) {
                checker.message(message).await?
            } else {
                Arc::clone(message)
            };
            is_changed |= !Arc::ptr_eq(&left, message);
            messages.push(left);
        }
        if !is_changed {
            return Ok(turn);
        }
        let Turn { tool_executions, usage, cycles, data, extra, .. } = Turn::clone(&turn);
        let rewritten = Turn::new(messages, tool_executions, usage, cycles, data);
        // The number of responses is unchanged, so this does not fail.
        Ok(rewritten.map_or(turn, |mut rewritten| {
            rewritten.extra = extra;
            Arc::new(rewritten)
        }))
    }
}

impl Middleware for Guardrails {
    fn name(&self) -> &str {
        &self.name
    }

    fn hooks(&self) -> Hooks {
        let input = if self.input.is_empty() { Hooks::empty() } else { Hooks::BEFORE };
        if self.output.is_empty() {
            return input;
        }
        let hold = if self.hold { Hooks::HOLD } else { Hooks::empty() };
        input | Hooks::MODEL_RESPONSE | Hooks::AFTER | hold
    }

    fn before<'a>(&'a self, context: &'a Arc<MiddlewareContext>) -> HookFuture<'a, ()> {
        Box::pin(self.check_input(context))
    }

    fn after<'a>(
        &'a self,
        context: &'a Arc<MiddlewareContext>,
        turn: Arc<Turn>,
    ) -> HookFuture<'a, Arc<Turn>> {
        Box::pin(self.check_turn(turn, context))
    }

    fn on_model_response<'a>(
        &'a self,
        context: &'a Arc<MiddlewareContext>,
        response: ModelResponse,
    ) -> HookFuture<'a, ModelResponse> {
        Box::pin(self.check_response(response, context))
    }
}
