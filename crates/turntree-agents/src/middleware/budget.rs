//! Limits on what runs spend. UAP-1.0 §10.4.
//!
//! The driver counts once for all budgets of a run; a budget only compares, before each call of the model.

use std::fmt;
use std::sync::Arc;

use futures_util::future::ready;
use serde::{Deserialize, Serialize};

use crate::middleware::context::MiddlewareContext;
use crate::middleware::hooks::{HookFuture, Hooks, Middleware};
use turntree_core::message::TokenUsage;
use turntree_core::time::Timestamp;
use turntree_upp::{ErrorCode, ModelRequest, UppError};

/// What a run, or a session, has spent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spent {
    /// Tokens read and written.
    pub tokens: u64,
    /// US dollars, of the calls whose cost is known.
    pub cost: f64,
    /// Calls whose cost is not known.
    pub unpriced_calls: u64,
    /// Steps whose model has answered.
    pub steps: u64,
    /// Seconds that runs lasted.
    pub seconds: f64,
}

impl Spent {
    /// Under which it stands in the middleware state of a session.
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

    /// What the calls of a run cost that goes on.
    pub(crate) fn of_calls<'a>(calls: impl IntoIterator<Item = &'a TokenUsage>) -> Self {
        let mut spent = Self::default();
        calls.into_iter().for_each(|usage| spent.count(usage));
        spent
    }
}

/// The books of one run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Accounts {
    /// By the run, before it was taken up again.
    before: Spent,
    /// By the session, before.
    session: Spent,
    /// Now, but for steps and seconds.
    now: Spent,
    /// The step that calls its model.
    step: u32,
    /// The last step whose model has answered.
    answered: u32,
    began: Option<Timestamp>,
}

impl Accounts {
    pub(crate) fn new(before: Spent, session: Spent, began: Timestamp) -> Self {
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

    /// Whether the step that calls its model is among those that have spent: it calls again.
    pub(crate) const fn calls_again(&self) -> bool {
        self.step > 0 && self.answered >= self.step
    }

    /// Since the run was begun or taken up.
    fn present(&self, now: Timestamp) -> Spent {
        let milliseconds =
            self.began.map_or(0, |began| now.milliseconds().saturating_sub(began.milliseconds()));
        #[expect(clippy::cast_precision_loss, reason = "no run lasts 2^53 milliseconds")]
        let seconds = milliseconds.max(0) as f64 / 1000.0;
        let steps = u64::from(self.answered).saturating_sub(self.before.steps);
        Spent { steps, seconds, ..self.now }
    }

    pub(crate) fn of_run(&self, now: Timestamp) -> Spent {
        self.before.plus(self.present(now))
    }

    pub(crate) fn of_session(&self, now: Timestamp) -> Spent {
        self.session.plus(self.present(now))
    }
}

/// What a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Tokens read and written.
    Tokens,
    /// US dollars.
    Cost,
    /// Steps.
    Steps,
    /// Seconds.
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

/// A budget is used up.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetError {
    /// What is used up.
    pub resource: Resource,
    /// How much there was.
    pub limit: f64,
    /// How much is spent.
    pub spent: f64,
    /// Whether it was the session's.
    pub by_session: bool,
}

impl fmt::Display for BudgetError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, limit, spent, by_session } = self;
        let (name, whose) = (resource.as_str(), if *by_session { "session" } else { "run" });
        write!(
            formatter,
            "the budget of the {whose} is used up: {spent} of {limit} {name}; the model was not called again. Raise \
             budget({name}=…), or go on with what there is"
        )
    }
}

impl std::error::Error for BudgetError {}

/// Stops a run before the model is called again, once something is used up.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// Its name.
    pub name: String,
    /// Most tokens, read and written.
    pub tokens: Option<u64>,
    /// Most US dollars.
    pub cost: Option<f64>,
    /// Most steps.
    pub steps: Option<u64>,
    /// Most seconds.
    pub seconds: Option<f64>,
    /// Whether all runs of a session share it.
    pub by_session: bool,
    /// Whether calls without a known cost count as free; else they end a run that has a budget of cost.
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
    /// The first limit that leaves nothing for another call. `steps` are those before the one that is about to call.
    #[expect(clippy::cast_precision_loss, reason = "for people: no budget has 2^53 tokens")]
    fn exhausted(&self, spent: &Spent, steps: u64) -> Option<(Resource, f64, f64)> {
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
        // A step that calls its model again was let in already: it does not count against itself.
        let steps = spent.steps.saturating_sub(u64::from(context.calls_again()));
        if let Some((resource, limit, spent)) = self.exhausted(&spent, steps) {
            let error = BudgetError { resource, limit, spent, by_session: self.by_session };
            let words = error.to_string();
            return Err(UppError::new(ErrorCode::QuotaExceeded, &*context.provider, words).with_cause(error));
        }
        if self.cost.is_some() && !self.ignore_unpriced && spent.unpriced_calls > 0 {
            let words = format!(
                "{} cannot hold a budget of cost: {} calls have no known cost; add the model's price with \
                 turntree.upp.prices, limit tokens instead, or ignore such calls",
                self.name, spent.unpriced_calls
            );
            return Err(UppError::invalid_request(&*context.provider, words));
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
