//! A tool of an agent: its definition and how it is called.
//!
//! Spec: UPP-1.2 §5

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::host::agent_tool::AgentTool;
use crate::host::error::HostError;
#[expect(unused_imports, reason = "for the documentation")]
use crate::host::error::HostErrorKind;
use crate::host::tool_invocation::{ToolBinding, ToolInvocation};
use crate::types::structure::Structure;
use turntree_core::json::RawJson;
use turntree_core::message::ToolDefinition;

/// A tool's implementation in Rust.
pub type ToolFunction =
    Arc<dyn Fn(Arc<ToolInvocation>) -> BoxFuture<'static, Result<RawJson, HostError>> + Send + Sync>;

/// How often in succession a tool may ask the model to call it again.
pub const DEFAULT_RETRIES: u32 = 1;

/// A tool of an agent.
#[derive(Clone)]
pub struct Tool {
    /// The definition that the model receives.
    pub definition: ToolDefinition,
    /// True if every call needs the host's approval.
    pub requires_approval: bool,
    /// True if a call can be repeated without a further effect. After a crash, a resumed run repeats such calls.
    pub idempotent: bool,
    /// How often in succession the tool may ask the model to call it again ([`HostErrorKind::Retry`]) before the run fails.
    pub retries: u32,
    /// The implementation in Rust; `None` if the host calls the tool another way, for example a Python function.
    pub function: Option<ToolFunction>,
    /// The agent behind the tool, if it is one. The driver runs it.
    pub agent: Option<Arc<dyn AgentTool>>,
    /// The name of the agent that takes over the conversation, if the tool is a handoff. That agent is `agent`, or the one
    /// that [`Host::handoff_agent`](crate::host::Host::handoff_agent) returns.
    pub handoff: Option<Arc<str>>,
    /// The driver validates arguments with it before it calls the tool; `None` if the tool validates them itself.
    pub arguments: Option<Arc<Structure>>,
    /// The host's own data about the tool; `None` if the host finds the tool by its index.
    pub binding: Option<ToolBinding>,
}

impl Tool {
    /// A tool that the host calls.
    pub const fn new(definition: ToolDefinition) -> Self {
        Self {
            definition,
            requires_approval: false,
            idempotent: false,
            retries: DEFAULT_RETRIES,
            function: None,
            agent: None,
            handoff: None,
            arguments: None,
            binding: None,
        }
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

    /// Validates the arguments of every call with the definition's JSON Schema. A call with invalid arguments gets an
    /// error result, and the tool is not called. A schema that is itself invalid is not applied.
    #[must_use]
    pub fn with_validated_arguments(self) -> Self {
        let schema = Arc::new(self.definition.parameters.clone());
        Self { arguments: Some(Arc::new(Structure::without_wrapper(schema))), ..self }
    }

    /// Sets the host's own data about the tool.
    #[must_use]
    pub fn with_binding(self, binding: ToolBinding) -> Self {
        Self { binding: Some(binding), ..self }
    }

    /// Requires the host's approval for every call.
    #[must_use]
    pub fn with_approval(self) -> Self {
        Self { requires_approval: true, ..self }
    }

    /// Sets how often in succession the tool may ask the model to call it again.
    #[must_use]
    pub fn with_retries(self, retries: u32) -> Self {
        Self { retries, ..self }
    }

    /// Declares that a call can be repeated without a further effect, for example because the tool only reads, or because
    /// it sends [`ToolInvocation::idempotency_key`] to a service.
    #[must_use]
    pub fn with_idempotence(self) -> Self {
        Self { idempotent: true, ..self }
    }
}

/// The names of the tools of one kind.
pub(crate) fn names_of(tools: &[Tool], is_of_kind: fn(&Tool) -> bool) -> Vec<Arc<str>> {
    tools.iter().filter(|tool| is_of_kind(tool)).map(|tool| tool.definition.name.as_str().into()).collect()
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
