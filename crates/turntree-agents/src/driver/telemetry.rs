//! The operations and outcomes of agent runs, with the attributes of OpenTelemetry's semantic conventions for generative AI.
//!
//! ```text
//!   invoke_agent ─┬─ step 1 ─┬─ chat gpt-5
//!                 │          └─ execute_tool weather ── (operations that the tool starts)
//!                 └─ step 2 ─── chat gpt-5
//! ```
//!
//! Spans of model calls are defined in [`turntree_upp::telemetry`], the port in [`turntree_core::telemetry`].
//!
//! Spec: UAP-1.0 §8.4

use std::borrow::Cow;

use crate::types::action::ToolOutcome;
use crate::types::identity::RunIdentity;
use turntree_core::message::message::History;
use turntree_core::message::{ToolCall, ToolDefinition, Turn};
use turntree_core::telemetry::{Attributes, Operation, Outcome, SpanFailure};
use turntree_upp::Model;
use turntree_upp::telemetry::{content, provider_name, usage_attributes};

/// A run of an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgentOperation<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) identity: &'a RunIdentity,
    pub(super) model: &'a dyn Model,
    pub(super) input: &'a History,
}

impl Operation for AgentOperation<'_> {
    fn name(&self) -> Cow<'_, str> {
        self.name.map_or("invoke_agent".into(), |name| format!("invoke_agent {name}").into())
    }

    fn is_root(&self) -> bool {
        true
    }

    fn attributes(&self) -> Attributes<'_> {
        let Self { name, identity, model, .. } = self;
        let mut all = vec![
            ("gen_ai.operation.name", "invoke_agent".into()),
            ("gen_ai.provider.name", provider_name(model.provider()).into()),
            ("gen_ai.request.model", model.model_id().into()),
            ("gen_ai.agent.id", (&*identity.agent_id).into()),
            ("turntree.turn.id", (&*identity.turn_id).into()),
        ];
        all.extend(name.map(|name| ("gen_ai.agent.name", name.into())));
        all.extend(identity.session_id.as_deref().map(|id| ("gen_ai.conversation.id", id.into())));
        if let Some(parent) = &identity.parent {
            all.push(("turntree.parent.agent.id", (&*parent.agent_id).into()));
            all.push(("turntree.parent.turn.id", (&*parent.turn_id).into()));
        }
        all
    }

    fn content(&self) -> Attributes<'_> {
        vec![("gen_ai.input.messages", content::input(self.input.iter()).into())]
    }
}

/// A call of a bare model with tools: all of its tool rounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolLoopOperation<'a> {
    pub(super) model: &'a dyn Model,
}

impl Operation for ToolLoopOperation<'_> {
    fn name(&self) -> Cow<'_, str> {
        format!("generate {}", self.model.model_id()).into()
    }

    fn is_root(&self) -> bool {
        true
    }

    fn attributes(&self) -> Attributes<'_> {
        vec![
            ("gen_ai.provider.name", provider_name(self.model.provider()).into()),
            ("gen_ai.request.model", self.model.model_id().into()),
        ]
    }
}

/// A step of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepOperation<'a> {
    /// The step, from 1.
    pub(super) number: u32,
    pub(super) id: &'a str,
}

impl Operation for StepOperation<'_> {
    fn name(&self) -> Cow<'_, str> {
        format!("step {}", self.number).into()
    }

    fn attributes(&self) -> Attributes<'_> {
        vec![("turntree.step.number", u64::from(self.number).into()), ("turntree.step.id", self.id.into())]
    }
}

/// A tool call, with its hooks and its approval.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolOperation<'a> {
    pub(super) call: &'a ToolCall,
    /// `None` if the agent has no tool with this name.
    pub(super) definition: Option<&'a ToolDefinition>,
}

impl Operation for ToolOperation<'_> {
    fn name(&self) -> Cow<'_, str> {
        format!("execute_tool {}", self.call.tool_name).into()
    }

    fn attributes(&self) -> Attributes<'_> {
        let mut all = vec![
            ("gen_ai.operation.name", "execute_tool".into()),
            ("gen_ai.tool.name", self.call.tool_name.as_str().into()),
            ("gen_ai.tool.call.id", self.call.tool_call_id.as_str().into()),
            ("gen_ai.tool.type", "function".into()),
        ];
        let description = self.definition.map(|tool| tool.description.as_str());
        let description = description.filter(|text| !text.is_empty());
        all.extend(description.map(|text| ("gen_ai.tool.description", text.into())));
        all
    }

    fn content(&self) -> Attributes<'_> {
        vec![("gen_ai.tool.call.arguments", self.call.arguments.get().into())]
    }
}

/// The turn of a run. The turn of an aborted run is marked.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnOutcome<'a>(pub(super) &'a Turn);

impl TurnOutcome<'_> {
    fn is_aborted(self) -> bool {
        self.0.response().namespace("uap").is_some_and(|marks| marks.get("aborted").is_some())
    }
}

impl Outcome for TurnOutcome<'_> {
    fn attributes(&self) -> Attributes<'_> {
        let mut all = Attributes::new();
        // The sum of the model calls inside, for backends that drop their spans.
        usage_attributes(&self.0.usage, false, &mut all);
        if self.is_aborted() {
            all.push(("turntree.aborted", true.into()));
        }
        all
    }

    fn content(&self) -> Attributes<'_> {
        let reason = if self.is_aborted() { "error" } else { "stop" };
        vec![("gen_ai.output.messages", content::output(self.0.response(), reason).into())]
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolCallOutcome<'a>(pub(super) &'a ToolOutcome);

impl Outcome for ToolCallOutcome<'_> {
    fn attributes(&self) -> Attributes<'_> {
        let approved = self.0.execution.approved;
        approved.map(|approved| ("turntree.tool.approved", approved.into())).into_iter().collect()
    }

    fn content(&self) -> Attributes<'_> {
        vec![("gen_ai.tool.call.result", self.0.model_result().get().into())]
    }

    fn failure(&self) -> Option<SpanFailure<'_>> {
        let execution = &self.0.execution;
        if !execution.is_error {
            return None;
        }
        let (kind, message) = match execution.approved {
            Some(false) => ("tool_denied", "denied by the approval handler"),
            _ => ("tool_error", ""),
        };
        Some(SpanFailure { kind, message, exception: None })
    }
}
