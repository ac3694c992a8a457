//! Cerebras.
//!
//! Spec: UPP-1.2 §19.8

use crate::dialects::chat::{ChatDialect, ChatOptions, Member};
use crate::structured_output::SchemaRules;

/// `cerebras(model)`: `https://api.cerebras.ai/v1/chat/completions`, key in `CEREBRAS_API_KEY`. Text only.
pub fn cerebras() -> ChatDialect {
    ChatDialect::new(ChatOptions {
        reasoning_metadata_member: Some("reasoning"),
        metadata_members: &[Member::TimeInfo],
        schema_rules: &SchemaRules::CEREBRAS,
        ..ChatOptions::vendor("cerebras", "https://api.cerebras.ai/v1", &["CEREBRAS_API_KEY"])
    })
}
