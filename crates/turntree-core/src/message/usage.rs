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

    /// The sum over calls. The total is input + output, independent of the totals of the vendors. The cost is `None`
    /// if that of a call is `None`, or if there are no calls.
    pub fn aggregate<'a>(calls: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::empty();
        let mut cycles = Vec::new();
        let mut cost = Some(0.0);
        for call in calls {
            cost = cost.zip(call.cost).map(|(sum, cost)| sum + cost);
            if let Some(hour) = call.cache_write_1h_tokens {
                let sum = sum.cache_write_1h_tokens.get_or_insert_default();
                *sum = sum.saturating_add(hour);
            }
            sum.input_tokens = sum.input_tokens.saturating_add(call.input_tokens);
            sum.output_tokens = sum.output_tokens.saturating_add(call.output_tokens);
            sum.cache_read_tokens = sum.cache_read_tokens.saturating_add(call.cache_read_tokens);
            sum.cache_write_tokens = sum.cache_write_tokens.saturating_add(call.cache_write_tokens);
            cycles.push(CycleUsage {
                input_tokens: call.input_tokens,
                output_tokens: call.output_tokens,
                cache_read_tokens: call.cache_read_tokens,
                cache_write_tokens: call.cache_write_tokens,
                cost: call.cost,
                ..CycleUsage::default()
            });
        }
        sum.total_tokens = sum.input_tokens.saturating_add(sum.output_tokens);
        sum.cost = cost.filter(|_| !cycles.is_empty());
        sum.cycles = Some(cycles);
        sum
    }
}
