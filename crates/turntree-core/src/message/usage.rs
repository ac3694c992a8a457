//! Tokens spent. UPP-1.2 §6.

use crate::json::json_object;

json_object! {
    /// Tokens of one model call, inside a [`TokenUsage`].
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct CycleUsage {
        /// Tokens read.
        pub input_tokens: u64 = "inputTokens", default,
        /// Tokens written.
        pub output_tokens: u64 = "outputTokens", default,
        /// Tokens read from a cache.
        pub cache_read_tokens: u64 = "cacheReadTokens", default,
        /// Tokens written to a cache.
        pub cache_write_tokens: u64 = "cacheWriteTokens", default,
        /// What the call cost, in US dollars, where that is known.
        pub cost: Option<f64> = "cost",
    }
}

json_object! {
    /// Tokens of a model call, or of all the calls of a turn.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct TokenUsage {
        /// Tokens read.
        pub input_tokens: u64 = "inputTokens", default,
        /// Tokens written.
        pub output_tokens: u64 = "outputTokens", default,
        /// As the vendor counts, or the sum of both.
        pub total_tokens: u64 = "totalTokens", default,
        /// Tokens read from a cache; 0 where the vendor has none.
        pub cache_read_tokens: u64 = "cacheReadTokens", default,
        /// Tokens written to a cache; 0 where the vendor does not say.
        pub cache_write_tokens: u64 = "cacheWriteTokens", default,
        /// How many of the tokens written to a cache stay there for an hour, where there are some; their price is higher.
        pub cache_write_1h_tokens: Option<u64> = "cacheWrite1hTokens",
        /// One entry a model call, when this is a sum.
        pub cycles: Option<Vec<CycleUsage>> = "cycles",
        /// What it cost, in US dollars; of a sum, only where the cost of every call is known.
        pub cost: Option<f64> = "cost",
    }
}

impl TokenUsage {
    /// Nothing spent, no calls.
    pub fn empty() -> Self {
        Self { cycles: Some(Vec::new()), ..Self::default() }
    }

    /// Of one call, where the vendor gives no total.
    pub fn of_call(input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            input_tokens,
            output_tokens,
            total_tokens: input_tokens.saturating_add(output_tokens),
            ..Self::default()
        }
    }

    /// The sum over calls. The total is input + output, whatever the vendors said; the cost is known where that of
    /// every call is, and of no calls it is not.
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
