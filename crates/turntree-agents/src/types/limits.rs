//! Limits of a run and of everything that it starts: sub-agents, runs inside tools, and repeated requests.
//!
//! A [`UsageMeter`] counts. The runs that a run starts share its meter, so that the limits hold for all of them together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turntree_core::message::TokenUsage;
use turntree_core::time::Timestamp;

/// The most that a run may use, with everything that it starts. Without a value, there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Requests to models.
    pub requests: Option<u64>,
    /// Input tokens.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// Input and output tokens.
    pub total_tokens: Option<u64>,
    /// Tool calls, also those of sub-agents.
    pub tool_calls: Option<u64>,
    /// Cost in US dollars.
    pub cost: Option<f64>,
    /// Seconds since the first request.
    pub seconds: Option<f64>,
}

/// Why a run may not go on.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// A limit is reached.
    #[error(
        "the limit of the run is reached: {spent} of {limit} {resource}; raise Limits({resource}=…), or continue with \
         the partial result"
    )]
    Reached {
        /// The name of the limit, as in [`Limits`].
        resource: &'static str,
        /// The limit.
        limit: f64,
        /// The amount used, or the amount that the next calls would make of it.
        spent: f64,
    },
    /// The cost is limited, and that of some calls is not known.
    #[error(
        "the cost limit cannot be enforced: {} no known cost; add the model's price with turntree.upp.prices, or limit \
         tokens instead",
        calls_have(*calls)
    )]
    Unpriced {
        /// The number of calls without a known cost.
        calls: u64,
    },
}

/// The beginning of a sentence about a number of calls.
pub(crate) fn calls_have(calls: u64) -> String {
    if calls == 1 { "1 call has".to_owned() } else { format!("{calls} calls have") }
}

/// What was used so far.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    tool_calls: u64,
    cost: f64,
    unpriced_calls: u64,
    began: Option<Timestamp>,
    /// The limit that has ended a run. It ends the runs around it too.
    reached: Option<LimitError>,
}

/// What a run is about to do.
#[derive(Debug, Clone, Copy)]
enum Next {
    Request,
    Calls(u64),
}

/// Counts what runs use, and compares it with limits.
///
/// Clones count together.
#[derive(Debug, Clone, Default)]
pub struct UsageMeter {
    limits: Limits,
    spent: Arc<Mutex<Spent>>,
    /// The meter of the run that contains the runs of this one. It counts the same usage.
    outer: Option<Arc<Self>>,
}

impl UsageMeter {
    /// A meter that has counted nothing.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The same meter for a run inside another run, whose meter counts the same usage.
    #[must_use]
    pub fn inside(&self, outer: Option<Arc<Self>>) -> Self {
        Self { outer, ..self.clone() }
    }

    /// Counts a request to a model that is about to be sent.
    ///
    /// # Errors
    /// [`LimitError`] if a limit is reached; the request must not be sent. It is not counted then.
    pub(crate) fn begin_request(&self, now: Timestamp) -> Result<(), LimitError> {
        self.begin(Next::Request, now)
    }

    /// Counts tool calls that are about to be made.
    ///
    /// # Errors
    /// [`LimitError`] if there would be more calls than the limit; none of them is counted then.
    pub(crate) fn begin_calls(&self, count: usize, now: Timestamp) -> Result<(), LimitError> {
        self.begin(Next::Calls(u64::try_from(count).unwrap_or(u64::MAX)), now)
    }

    fn begin(&self, next: Next, now: Timestamp) -> Result<(), LimitError> {
        for (place, meter) in self.chain().enumerate() {
            if let Err(error) = meter.spent().begin(next, &meter.limits, now) {
                self.chain().take(place).for_each(|meter| meter.spent().undo(next));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Adds the usage of a response.
    pub(crate) fn count(&self, usage: &TokenUsage) {
        self.chain().for_each(|meter| meter.spent().add(usage));
    }

    /// Adds what a run has used before it was resumed.
    pub(crate) fn restore<'a>(&self, calls: impl IntoIterator<Item = &'a TokenUsage>, tool_calls: usize) {
        let calls: Vec<&TokenUsage> = calls.into_iter().collect();
        for meter in self.chain() {
            let mut spent = meter.spent();
            let requests = u64::try_from(calls.len()).unwrap_or(u64::MAX);
            spent.requests = spent.requests.saturating_add(requests);
            let tool_calls = u64::try_from(tool_calls).unwrap_or(u64::MAX);
            spent.tool_calls = spent.tool_calls.saturating_add(tool_calls);
            for usage in &calls {
                spent.add(usage);
            }
        }
    }

    /// This meter and those around it.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |meter| meter.outer.as_deref())
    }

    fn spent(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spent {
    /// Checks the limits and counts the next request or calls.
    fn begin(&mut self, next: Next, limits: &Limits, now: Timestamp) -> Result<(), LimitError> {
        if let Some(reached) = self.reached {
            return Err(reached);
        }
        let began = *self.began.get_or_insert(now);
        if let Some(reached) = self.reached(next, limits, now, began) {
            self.reached = Some(reached);
            return Err(reached);
        }
        match next {
            Next::Request => self.requests = self.requests.saturating_add(1),
            Next::Calls(count) => self.tool_calls = self.tool_calls.saturating_add(count),
        }
        Ok(())
    }

    /// The first limit that is reached.
    #[expect(clippy::cast_precision_loss, reason = "for error messages: no run has 2^53 tokens")]
    fn reached(&self, next: Next, limits: &Limits, now: Timestamp, began: Timestamp) -> Option<LimitError> {
        let seconds = now.milliseconds().saturating_sub(began.milliseconds()).max(0) as f64 / 1000.0;
        let count = |limit: Option<u64>, spent: u64| (limit.map(|limit| limit as f64), spent as f64);
        let (calls_limit, calls) = match next {
            Next::Request => (None, 0.0),
            Next::Calls(calls) => count(limits.tool_calls, self.tool_calls.saturating_add(calls)),
        };
        if let Some(limit) = calls_limit.filter(|limit| calls > *limit) {
            return Some(LimitError::Reached { resource: "tool_calls", limit, spent: calls });
        }
        let requests = match next {
            Next::Request => count(limits.requests, self.requests),
            Next::Calls(_) => (None, 0.0),
        };
        let reached = [
            ("requests", requests),
            ("input_tokens", count(limits.input_tokens, self.input_tokens)),
            ("output_tokens", count(limits.output_tokens, self.output_tokens)),
            ("total_tokens", count(limits.total_tokens, self.total_tokens)),
            ("cost", (limits.cost, self.cost)),
            ("seconds", (limits.seconds, seconds)),
        ];
        let reached = reached.into_iter().find_map(|(resource, (limit, spent))| {
            let limit = limit.filter(|limit| spent >= *limit)?;
            Some(LimitError::Reached { resource, limit, spent })
        });
        let unpriced = (limits.cost.is_some() && self.unpriced_calls > 0)
            .then_some(LimitError::Unpriced { calls: self.unpriced_calls });
        reached.or(unpriced)
    }

    /// Takes back what [`Self::begin`] has counted.
    fn undo(&mut self, next: Next) {
        match next {
            Next::Request => self.requests = self.requests.saturating_sub(1),
            Next::Calls(count) => self.tool_calls = self.tool_calls.saturating_sub(count),
        }
    }

    fn add(&mut self, usage: &TokenUsage) {
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
        let sum = usage.input_tokens.saturating_add(usage.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(sum.max(usage.total_tokens));
        match usage.cost {
            Some(cost) => self.cost += cost,
            None => self.unpriced_calls = self.unpriced_calls.saturating_add(1),
        }
    }
}
