//! Token usage and cost.
//!
//! Spec: UPP-1.2 §6

use crate::json::json_object;

json_object! {
    /// The tokens of one model call, as an entry of [`TokenUsage::cycles`].
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct CycleUsage {
        /// Input tokens.
        pub input_tokens: u64 = "inputTokens", default,
        /// Output tokens.
        pub output_tokens: u64 = "outputTokens", default,
        /// Input tokens that were read from the vendor's cache.
        pub cache_read_tokens: u64 = "cacheReadTokens", default,
        /// Input tokens that were written to the vendor's cache.
        pub cache_write_tokens: u64 = "cacheWriteTokens", default,
        /// See [`TokenUsage::total_input_tokens`].
        pub total_input_tokens: Option<u64> = "totalInputTokens",
        /// See [`TokenUsage::reasoning_tokens`].
        pub reasoning_tokens: Option<u64> = "reasoningTokens",
        /// See [`TokenUsage::audio_tokens`].
        pub audio_tokens: Option<u64> = "audioTokens",
        /// The cost of the call in US dollars; `None` if it is not known.
        pub cost: Option<f64> = "cost",
    }
}

json_object! {
    /// The tokens of a model call, or of all calls of a turn.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct TokenUsage {
        /// Input tokens.
        pub input_tokens: u64 = "inputTokens", default,
        /// Output tokens.
        pub output_tokens: u64 = "outputTokens", default,
        /// Total tokens, as the vendor counts them, or the sum of input and output.
        pub total_tokens: u64 = "totalTokens", default,
        /// Input tokens that were read from the vendor's cache; 0 if the vendor does not report them.
        pub cache_read_tokens: u64 = "cacheReadTokens", default,
        /// Input tokens that were written to the vendor's cache; 0 if the vendor does not report them.
        pub cache_write_tokens: u64 = "cacheWriteTokens", default,
        /// Tokens written to the vendor's cache for one hour, at a higher price; `None` if the vendor does not report
        /// them.
        pub cache_write_1h_tokens: Option<u64> = "cacheWrite1hTokens",
        /// All input tokens, with those read from and written to the cache; `None` if that is `input_tokens`, as with
        /// vendors that count cached tokens as input. [`Self::total_input`] is the number for every vendor.
        pub total_input_tokens: Option<u64> = "totalInputTokens",
        /// Output tokens that the model spent on reasoning; `None` if the vendor reports none.
        pub reasoning_tokens: Option<u64> = "reasoningTokens",
        /// Input and output tokens that are audio; `None` if the vendor reports none.
        pub audio_tokens: Option<u64> = "audioTokens",
        /// One entry per model call, if this is a sum.
        pub cycles: Option<Vec<CycleUsage>> = "cycles",
        /// The cost in US dollars; `None` if it is not known. The cost of a sum is known if that of every call is.
        pub cost: Option<f64> = "cost",
    }
}

impl TokenUsage {
    /// The sum of no calls.
    pub fn empty() -> Self {
        Self { cycles: Some(Vec::new()), ..Self::default() }
    }

    /// The usage of one call. The total is input + output.
    pub fn of_call(input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            input_tokens,
            output_tokens,
            total_tokens: input_tokens.saturating_add(output_tokens),
            ..Self::default()
        }
    }

    /// Sets the total of the input for a vendor that counts cached tokens in addition to the input tokens.
    #[must_use]
    pub fn with_cache_apart(mut self) -> Self {
        let cached = self.cache_read_tokens.saturating_add(self.cache_write_tokens);
        self.total_input_tokens = (cached > 0).then(|| self.input_tokens.saturating_add(cached));
        self
    }

    /// All input tokens, with those read from and written to the cache, whatever the vendor.
    pub fn total_input(&self) -> u64 {
        self.total_input_tokens.unwrap_or(self.input_tokens)
    }

    /// The number of model calls: 1 if this is not a sum.
    pub fn requests(&self) -> usize {
        self.cycles.as_ref().map_or(1, Vec::len)
    }

    /// The sum over calls. The total is input + output, independent of the totals of the vendors. The cost is `None`
    /// if that of a call is `None`, or if there are no calls.
    pub fn aggregate<'a>(calls: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::empty();
        let mut cycles = Vec::new();
        let mut cost = Some(0.0);
        let mut total_input: u64 = 0;
        for call in calls {
            total_input = total_input.saturating_add(call.total_input());
            add_reported(&mut sum.reasoning_tokens, call.reasoning_tokens);
            add_reported(&mut sum.audio_tokens, call.audio_tokens);
            add_reported(&mut sum.cache_write_1h_tokens, call.cache_write_1h_tokens);
            cost = cost.zip(call.cost).map(|(sum, cost)| sum + cost);
            sum.input_tokens = sum.input_tokens.saturating_add(call.input_tokens);
            sum.output_tokens = sum.output_tokens.saturating_add(call.output_tokens);
            sum.cache_read_tokens = sum.cache_read_tokens.saturating_add(call.cache_read_tokens);
            sum.cache_write_tokens = sum.cache_write_tokens.saturating_add(call.cache_write_tokens);
            cycles.push(CycleUsage {
                input_tokens: call.input_tokens,
                output_tokens: call.output_tokens,
                cache_read_tokens: call.cache_read_tokens,
                cache_write_tokens: call.cache_write_tokens,
                total_input_tokens: call.total_input_tokens,
                reasoning_tokens: call.reasoning_tokens,
                audio_tokens: call.audio_tokens,
                cost: call.cost,
                ..CycleUsage::default()
            });
        }
        sum.total_tokens = sum.input_tokens.saturating_add(sum.output_tokens);
        sum.total_input_tokens = (total_input != sum.input_tokens).then_some(total_input);
        sum.cost = cost.filter(|_| !cycles.is_empty());
        sum.cycles = Some(cycles);
        sum
    }
}

impl CycleUsage {
    /// See [`TokenUsage::total_input`].
    pub fn total_input(&self) -> u64 {
        self.total_input_tokens.unwrap_or(self.input_tokens)
    }
}

/// Adds a count that not every vendor reports.
fn add_reported(sum: &mut Option<u64>, reported: Option<u64>) {
    if let Some(reported) = reported {
        *sum = Some(sum.unwrap_or_default().saturating_add(reported));
    }
}
