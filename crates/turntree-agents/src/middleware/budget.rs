//! Limits on the tokens, cost, steps and time of runs.
//!
//! The driver counts once for all budgets of a run. A budget compares these counts with its limits before each model call.
//!
//! Spec: UAP-1.0 §10.4

use std::fmt;
use std::sync::Arc;

use futures_util::future::ready;
use serde::{Deserialize, Serialize};

use crate::middleware::context::MiddlewareContext;
use crate::middleware::hooks::{HookFuture, Hooks, Middleware};
use crate::types::limits::calls_have;
use turntree_core::message::TokenUsage;
use turntree_core::time::Timestamp;
use turntree_upp::{ErrorCode, ModelRequest, UppError};

/// The resources that a run or a session has used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetUsage {
    /// Input and output tokens.
    pub tokens: u64,
    /// Cost in US dollars of the calls with a known cost.
    pub cost: f64,
    /// Number of calls without a known cost.
    pub unpriced_calls: u64,
    /// Number of steps whose model call returned a response.
    pub steps: u64,
    /// Duration of the runs in seconds.
    pub seconds: f64,
}

impl BudgetUsage {
    /// The key in the middleware state of a session.
    pub(crate) const KEY: &str = "spent";

    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost + other.cost,
            unpriced_calls: self.unpriced_calls.saturating_add(other.unpriced_calls),
            steps: self.steps.saturating_add(other.steps),
            seconds: self.seconds + other.seconds,
        }
    }

    fn count(&mut self, usage: &TokenUsage) {
        let sum = usage.input_tokens.saturating_add(usage.output_tokens);
        self.tokens = self.tokens.saturating_add(sum.max(usage.total_tokens));
        match usage.cost {
            Some(cost) => self.cost += cost,
            None => self.unpriced_calls = self.unpriced_calls.saturating_add(1),
        }
    }

    /// Sums up the model calls that a resumed run has already made.
    pub(crate) fn of_calls<'a>(calls: impl IntoIterator<Item = &'a TokenUsage>) -> Self {
        let mut spent = Self::default();
        calls.into_iter().for_each(|usage| spent.count(usage));
        spent
    }
}

/// Counts the resources that one run uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BudgetTracker {
    /// Used by the run before it was resumed.
    before: BudgetUsage,
    /// Used by the session before this run.
    session: BudgetUsage,
    /// Used since the run was started or resumed, without steps and seconds.
    now: BudgetUsage,
    /// The step that calls the model.
    step: u32,
    /// The last step whose model call returned a response.
    answered: u32,
    began: Option<Timestamp>,
}

impl BudgetTracker {
    pub(crate) fn new(before: BudgetUsage, session: BudgetUsage, began: Timestamp) -> Self {
        let answered = u32::try_from(before.steps).unwrap_or(u32::MAX);
        Self { before, session, answered, began: Some(began), ..Self::default() }
    }

    pub(crate) const fn call(&mut self, step: u32) {
        self.step = step;
    }

    pub(crate) fn add(&mut self, usage: &TokenUsage) {
        self.answered = self.answered.max(self.step);
        self.now.count(usage);
    }

    /// True if the current step has already received a response from the model and calls it again.
    pub(crate) const fn calls_again(&self) -> bool {
        self.step > 0 && self.answered >= self.step
    }

    /// Used since the run was started or resumed.
    fn present(&self, now: Timestamp) -> BudgetUsage {
        let milliseconds =
            self.began.map_or(0, |began| now.milliseconds().saturating_sub(began.milliseconds()));
        #[expect(clippy::cast_precision_loss, reason = "no run lasts 2^53 milliseconds")]
        let seconds = milliseconds.max(0) as f64 / 1000.0;
        let steps = u64::from(self.answered).saturating_sub(self.before.steps);
        BudgetUsage { steps, seconds, ..self.now }
    }

    pub(crate) fn of_run(&self, now: Timestamp) -> BudgetUsage {
        self.before.plus(self.present(now))
    }

    pub(crate) fn of_session(&self, now: Timestamp) -> BudgetUsage {
        self.session.plus(self.present(now))
    }
}

/// A resource that a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Input and output tokens.
    Tokens,
    /// Cost in US dollars.
    Cost,
    /// Steps of the run.
    Steps,
    /// Duration in seconds.
    Seconds,
}

impl Resource {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Steps => "steps",
            Self::Seconds => "seconds",
        }
    }
}

/// Cause of the error that ends a run when its budget is used up.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetError {
    /// The resource that is used up.
    pub resource: Resource,
    /// The limit.
    pub limit: f64,
    /// The amount used.
    pub spent: f64,
    /// True if the limit applies to the session, false if it applies to the run.
    pub by_session: bool,
}

impl fmt::Display for BudgetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, limit, spent, by_session } = self;
        let (name, whose) = (resource.as_str(), if *by_session { "session" } else { "run" });
        write!(
            formatter,
            "the budget of the {whose} is used up: {spent} of {limit} {name}; the model was not called again. Raise \
             budget({name}=…), or continue with the partial result"
        )
    }
}

impl std::error::Error for BudgetError {}

/// Middleware that ends a run before the next model call if a limit is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// Name of the middleware.
    pub name: String,
    /// Maximum number of input and output tokens.
    pub tokens: Option<u64>,
    /// Maximum cost in US dollars.
    pub cost: Option<f64>,
    /// Maximum number of steps.
    pub steps: Option<u64>,
    /// Maximum duration in seconds.
    pub seconds: Option<f64>,
    /// True if all runs of a session share the limits.
    pub by_session: bool,
    /// True if calls without a known cost count as free. If false, such a call ends a run that has a cost limit.
    pub ignore_unpriced: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            name: "budget".to_owned(),
            tokens: None,
            cost: None,
            steps: None,
            seconds: None,
            by_session: false,
            ignore_unpriced: false,
        }
    }
}

impl Budget {
    /// Returns the first limit that is reached. `steps` is the number of steps before the current one.
    #[expect(clippy::cast_precision_loss, reason = "for error messages: no budget has 2^53 tokens")]
    fn exhausted(&self, spent: &BudgetUsage, steps: u64) -> Option<(Resource, f64, f64)> {
        let limits = [
            (Resource::Tokens, self.tokens.map(|limit| limit as f64), spent.tokens as f64),
            (Resource::Cost, self.cost, spent.cost),
            (Resource::Steps, self.steps.map(|limit| limit as f64), steps as f64),
            (Resource::Seconds, self.seconds, spent.seconds),
        ];
        limits.into_iter().find_map(|(resource, limit, spent)| {
            let limit = limit?;
            (spent >= limit).then_some((resource, limit, spent))
        })
    }

    fn check(&self, context: &MiddlewareContext) -> Result<(), UppError> {
        let spent = if self.by_session { context.spent_by_session() } else { context.spent() };
        // A step that calls the model again has passed this check before and is not counted again.
        let steps = spent.steps.saturating_sub(u64::from(context.calls_again()));
        if let Some((resource, limit, spent)) = self.exhausted(&spent, steps) {
            let error = BudgetError { resource, limit, spent, by_session: self.by_session };
            let message = error.to_string();
            return Err(
                UppError::new(ErrorCode::QuotaExceeded, &*context.provider, message).with_cause(error)
            );
        }
        if self.cost.is_some() && !self.ignore_unpriced && spent.unpriced_calls > 0 {
            let message = format!(
                "{} cannot enforce the cost limit: {} no known cost; add the model's price with turntree.upp.prices, \
                 limit tokens instead, or ignore such calls",
                self.name,
                calls_have(spent.unpriced_calls)
            );
            return Err(UppError::invalid_request(&*context.provider, message));
        }
        Ok(())
    }
}

impl Middleware for Budget {
    fn name(&self) -> &str {
        &self.name
    }

    fn hooks(&self) -> Hooks {
        if self.by_session { Hooks::MODEL_REQUEST | Hooks::USAGE } else { Hooks::MODEL_REQUEST }
    }

    fn on_model_request<'a>(
        &'a self,
        context: &'a Arc<MiddlewareContext>,
        request: ModelRequest,
    ) -> HookFuture<'a, ModelRequest> {
        Box::pin(ready(self.check(context).map(|()| request)))
    }
}
