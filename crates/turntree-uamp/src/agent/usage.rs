//! Usage of UPP as usage of UAMP.
//!
//! Spec: UAMP-1.0 §8.7

use turntree_core::message::TokenUsage;

use crate::types::{Cost, Number, UsageStats};

/// The usage of model calls. Costs are in US dollars.
pub fn usage_from_upp(usage: &TokenUsage) -> UsageStats {
    let cost = usage.cost.and_then(Number::from_f64).map(|total| Cost {
        total_cost: Some(total),
        currency: Some("USD".to_owned()),
        ..Cost::default()
    });
    UsageStats {
        input_tokens: Some(usage.input_tokens),
        output_tokens: Some(usage.output_tokens),
        total_tokens: Some(usage.total_tokens),
        cached_tokens: Some(usage.cache_read_tokens),
        cost,
        ..UsageStats::default()
    }
}
