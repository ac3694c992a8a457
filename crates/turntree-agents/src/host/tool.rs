//! A tool of an agent: its definition and how it is called.
//!
//! Spec: UPP-1.2 §5

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::host::agent_tool::AgentTool;
use crate::host::error::HostError;
use crate::host::tool_invocation::ToolInvocation;
use turntree_core::json::RawJson;
use turntree_core::message::ToolDefinition;

/// A tool's implementation in Rust.
pub type ToolFunction =
    Arc<dyn Fn(Arc<ToolInvocation>) -> BoxFuture<'static, Result<RawJson, HostError>> + Send + Sync>;

/// A tool of an agent.
#[derive(Clone)]
pub struct Tool {
    /// The definition that the model receives.
    pub definition: ToolDefinition,
    /// True if every call needs the host's approval.
    pub requires_approval: bool,
    /// The implementation in Rust; `None` if the host calls the tool another way, for example a Python function.
    pub function: Option<ToolFunction>,
    /// The agent behind the tool, if it is one. The driver runs it.
    pub agent: Option<Arc<dyn AgentTool>>,
}

impl Tool {
    /// A tool that the host calls.
    pub const fn new(definition: ToolDefinition) -> Self {
        Self { definition, requires_approval: false, function: None, agent: None }
    }

    /// Sets the implementation in Rust.
    #[must_use]
    pub fn with_function<F, R>(self, function: F) -> Self
    where
        F: Fn(Arc<ToolInvocation>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<RawJson, HostError>> + Send + 'static,
    {
        Self { function: Some(Arc::new(move |invocation| Box::pin(function(invocation)))), ..self }
    }

    /// Requires the host's approval for every call.
    #[must_use]
    pub fn with_approval(self) -> Self {
        Self { requires_approval: true, ..self }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tool")
            .field("name", &self.definition.name)
            .field("requires_approval", &self.requires_approval)
            .finish_non_exhaustive()
    }
}
