//! Token usage and costs.
//!
//! Spec: UAMP-1.0 §8.7

use super::number::Number;

object! {
    /// Costs.
    Cost {
        /// The cost of the input.
        pub input_cost: Option<Number> = "input_cost",
        /// The cost of the output.
        pub output_cost: Option<Number> = "output_cost",
        /// The sum.
        pub total_cost: Option<Number> = "total_cost",
        /// The currency, as ISO 4217.
        pub currency: Option<String> = "currency",
    }
}

object! {
    /// Durations of audio.
    AudioUsage {
        /// The seconds that the client sent.
        pub input_seconds: Option<Number> = "input_seconds",
        /// The seconds that the agent sent.
        pub output_seconds: Option<Number> = "output_seconds",
    }
}

object! {
    /// The usage of a response; in `usage.delta`, the increase.
    UsageStats {
        /// Input tokens.
        pub input_tokens: Option<u64> = "input_tokens",
        /// Output tokens.
        pub output_tokens: Option<u64> = "output_tokens",
        /// Input and output tokens.
        pub total_tokens: Option<u64> = "total_tokens",
        /// Tokens that were read from a cache.
        pub cached_tokens: Option<u64> = "cached_tokens",
        /// The costs.
        pub cost: Option<Cost> = "cost",
        /// The durations of audio.
        pub audio: Option<AudioUsage> = "audio",
    }
}

impl UsageStats {
    /// Adds the tokens and the costs of another model call. Costs of different currencies cannot be added: the sum has
    /// no costs then. Sums stop at the largest number.
    pub fn add(&mut self, other: &Self) {
        add_tokens(&mut self.input_tokens, other.input_tokens);
        add_tokens(&mut self.output_tokens, other.output_tokens);
        add_tokens(&mut self.total_tokens, other.total_tokens);
        add_tokens(&mut self.cached_tokens, other.cached_tokens);
        self.cost = match (self.cost.take(), &other.cost) {
            (None, cost) => cost.clone(),
            (cost, None) => cost,
            (Some(cost), Some(more)) if cost.currency == more.currency => Some(Cost {
                input_cost: sum(cost.input_cost, more.input_cost.as_ref()),
                output_cost: sum(cost.output_cost, more.output_cost.as_ref()),
                total_cost: sum(cost.total_cost, more.total_cost.as_ref()),
                ..cost
            }),
            (Some(_), Some(_)) => None,
        };
        self.audio = match (self.audio.take(), &other.audio) {
            (None, audio) => audio.clone(),
            (audio, None) => audio,
            (Some(audio), Some(more)) => Some(AudioUsage {
                input_seconds: sum(audio.input_seconds, more.input_seconds.as_ref()),
                output_seconds: sum(audio.output_seconds, more.output_seconds.as_ref()),
                ..audio
            }),
        };
    }
}

fn add_tokens(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

fn sum(first: Option<Number>, second: Option<&Number>) -> Option<Number> {
    match (first, second) {
        (None, second) => second.cloned(),
        (first, None) => first,
        (Some(first), Some(second)) => {
            let whole = first.as_u64().zip(second.as_u64()).and_then(|(a, b)| a.checked_add(b));
            whole.map(Number::from).or_else(|| Number::from_f64(first.as_f64() + second.as_f64()))
        }
    }
}
