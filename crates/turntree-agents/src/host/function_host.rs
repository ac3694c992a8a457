//! A host for agents whose tools are Rust functions.

use std::fmt;
use std::sync::Arc;

use crate::host::error::HostError;
use crate::host::host::{Host, HostFuture};
use crate::host::tool::Tool;
use crate::host::tool_invocation::ToolInvocation;
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::time::{Clock, SystemClock};

/// Calls the Rust functions of the tools. Implements no hooks.
pub struct FunctionHost {
    tools: Arc<[Tool]>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl FunctionHost {
    /// A host for these tools, with the system clock and random ids.
    pub fn new(tools: Arc<[Tool]>) -> Self {
        Self { tools, clock: Arc::new(SystemClock), ids: Arc::new(RandomIds) }
    }

    /// Replaces clock and ids.
    #[must_use]
    pub fn with_sources(self, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self { clock, ids, ..self }
    }
}

impl fmt::Debug for FunctionHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FunctionHost").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Host for FunctionHost {
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn ids(&self) -> &dyn IdSource {
        &*self.ids
    }

    fn sub_host(
        &self,
        tools: &Arc<[Tool]>,
        _invocation: &ToolInvocation,
        _metadata: &Arc<RawObject>,
    ) -> Result<Arc<dyn Host>, HostError> {
        let (clock, ids) = (Arc::clone(&self.clock), Arc::clone(&self.ids));
        Ok(Arc::new(Self { tools: Arc::clone(tools), clock, ids }))
    }

    fn call_tool(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, RawJson> {
        if let Some(function) = self.tools.get(invocation.tool).and_then(|tool| tool.function.as_ref()) {
            return function(invocation);
        }
        let message = format!("Tool '{}' has no Rust function", invocation.call.tool_name);
        Box::pin(std::future::ready(Err(HostError::raised("MissingFunction", message))))
    }
}
