//! What the models behind Bedrock support, by their names.
//!
//! A name may have a region before it (`eu.anthropic.claude-sonnet-4-5-20250929-v1:0`) and may be an ARN.

use crate::dialects::messages;

/// The name of a model of Anthropic, as Anthropic writes it.
fn claude(model_id: &str) -> Option<&str> {
    model_id.split_once("anthropic.").map(|(_, name)| name)
}

/// True if the model enforces schemas of structured output.
pub(super) fn enforces_schemas(model_id: &str) -> bool {
    claude(model_id).is_some_and(messages::enforces_schemas)
}

/// True if the model can be forced to call a tool.
pub(super) fn can_be_forced(model_id: &str) -> bool {
    ["anthropic.", "amazon.nova", "mistral."].iter().any(|vendor| model_id.contains(vendor))
}
