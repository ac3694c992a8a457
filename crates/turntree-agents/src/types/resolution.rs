//! What the application says about tool calls that may have been executed before their process died.
//!
//! Spec: decision A112

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use turntree_core::json::RawJson;
use turntree_core::message::ToolCall;

/// What happens with a call in doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Resolution {
    /// The tool was executed and has returned this value. It is not called again.
    Result(RawJson),
    /// The model receives an error result with this text. The tool is not called again.
    Error(String),
    /// The tool is called again, with the same idempotency key.
    Retry,
}

/// A call that was in doubt, with its resolution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResolvedCall {
    /// The call, with the arguments that the tool has received if they are known.
    pub(crate) call: Arc<ToolCall>,
    /// True if the call was approved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) approved: bool,
    /// The resolution.
    pub(crate) resolution: Resolution,
}
