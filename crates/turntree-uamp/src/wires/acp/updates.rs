//! The output of a run, and stored messages, as updates of a session; without I/O.

use std::collections::HashMap;

use serde_json::{Value, json};
use turntree_agents::types::{PlanStatus, PlanStep};
use turntree_agents::{Agent, Strategy};
use turntree_core::message::message::Body;
use turntree_core::message::{ContentBlock, Message};

use super::content::{block_of_item, block_of_stored, text_block};
use crate::agent::plan_of;
use crate::event::Progress;
use crate::session::{AgentOutput, ToolOutcome};
use crate::types::{ProgressTarget, ToolCall, UsageStats};

/// How much of the progress of one call is sent again with each report, in bytes.
const MAX_PROGRESS: usize = 4_096;

/// Makes the updates of one prompt, which can be several runs.
#[derive(Debug, Clone, Default)]
pub struct Updates {
    /// The calls that the client knows.
    calls: HashMap<String, Call>,
    usage: UsageStats,
    /// True if the strategy of the agent makes plans. Their text is not an answer: it is sent as a plan.
    makes_plans: bool,
    is_in_step: bool,
}

#[derive(Debug, Clone, Default)]
struct Call {
    arguments: String,
    progress: String,
}

impl Updates {
    /// The updates of prompts to an agent.
    pub fn new(agent: &Agent) -> Self {
        let makes_plans = matches!(agent.options().effective_strategy(), Strategy::Plan(_));
        Self { makes_plans, ..Self::default() }
    }

    /// The updates of a piece of output.
    pub fn push(&mut self, output: AgentOutput) -> Vec<Value> {
        match output {
            AgentOutput::Text(_) if self.makes_plans && !self.is_in_step => Vec::new(),
            AgentOutput::Text(text) | AgentOutput::Transcript(text) => {
                chunk("agent_message_chunk", &text).into_iter().collect()
            }
            AgentOutput::Thinking(text) => chunk("agent_thought_chunk", &text).into_iter().collect(),
            AgentOutput::ToolCallFragment(call) => self.fragment(&call),
            AgentOutput::ServerToolResult(outcome) => self.result(&outcome),
            AgentOutput::ToolProgress { call_id, text } => self.progress(&call_id, &text),
            AgentOutput::Progress(progress) => self.reported(&progress),
            AgentOutput::Item(item) => {
                let content = block_of_item(&item);
                content
                    .map(|content| update("agent_message_chunk", json!({ "content": content })))
                    .into_iter()
                    .collect()
            }
            AgentOutput::Usage(usage) => {
                // A step has ended.
                self.is_in_step = false;
                self.usage.add(&usage);
                Vec::new()
            }
            // Complete audio follows as an item; clients of this protocol have no tools of their own.
            AgentOutput::Audio(_)
            // The plan itself is an update.
            | AgentOutput::Planning(_)
            | AgentOutput::ClientToolCall(_)
            | AgentOutput::AwaitingClient
            | AgentOutput::Done
            | AgentOutput::Failed(_) => Vec::new(),
        }
    }

    /// The tokens of the whole prompt.
    pub fn usage(&self) -> Value {
        let usage = &self.usage;
        let (input, output) = (usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
        json!({
            "inputTokens": input, "outputTokens": output,
            "totalTokens": usage.total_tokens.unwrap_or(input.saturating_add(output)),
            "cachedReadTokens": usage.cached_tokens.unwrap_or(0),
        })
    }

    /// The call of a request for permission, as an update of a call that the client knows.
    pub fn asked(&mut self, call: &ToolCall) -> (Vec<Value>, Value) {
        let known = self.begin(&call.id, &call.name);
        let asked = json!({
            "toolCallId": call.id, "title": &call.name, "kind": "other", "status": "pending",
            "rawInput": parsed(&call.arguments),
        });
        (known.into_iter().collect(), asked)
    }

    /// A call that the client does not know yet.
    fn begin(&mut self, call_id: &str, name: &str) -> Option<Value> {
        if self.calls.contains_key(call_id) {
            return None;
        }
        self.calls.insert(call_id.to_owned(), Call::default());
        let members = json!({ "toolCallId": call_id, "title": name, "kind": "other", "status": "pending" });
        Some(update("tool_call", members))
    }

    fn fragment(&mut self, call: &ToolCall) -> Vec<Value> {
        let begun = self.begin(&call.id, &call.name);
        if let Some(known) = self.calls.get_mut(&call.id) {
            known.arguments.push_str(&call.arguments);
        }
        begun.into_iter().collect()
    }

    fn reported(&mut self, progress: &Progress) -> Vec<Value> {
        if let Some(steps) = plan_of(progress) {
            return vec![plan(&steps)];
        }
        if progress.stage.as_deref() == Some("step") {
            self.is_in_step = true;
        }
        let is_start = progress.target == ProgressTarget::Tool && progress.stage.as_deref() == Some("start");
        let Some(call_id) = progress.target_id.as_deref().filter(|_| is_start) else { return Vec::new() };
        let mut updates: Vec<Value> =
            self.begin(call_id, progress.message.as_deref().unwrap_or_default()).into_iter().collect();
        let mut members = json!({ "toolCallId": call_id, "status": "in_progress" });
        let arguments = self.calls.get(call_id).map(|call| call.arguments.as_str()).unwrap_or_default();
        if let (false, Some(members)) = (arguments.is_empty(), members.as_object_mut()) {
            members.insert("rawInput".to_owned(), parsed(arguments));
        }
        updates.push(update("tool_call_update", members));
        updates
    }

    fn progress(&mut self, call_id: &str, text: &str) -> Vec<Value> {
        let Some(call) = self.calls.get_mut(call_id) else { return Vec::new() };
        call.progress.push_str(text);
        // The content replaces the earlier one.
        if let Some(excess) = call.progress.len().checked_sub(MAX_PROGRESS).filter(|excess| *excess > 0) {
            let start = (excess..=call.progress.len()).find(|index| call.progress.is_char_boundary(*index));
            call.progress.drain(..start.unwrap_or_default());
        }
        let members = json!({
            "toolCallId": call_id, "status": "in_progress", "content": [tool_content(&call.progress)],
        });
        vec![update("tool_call_update", members)]
    }

    fn result(&mut self, outcome: &ToolOutcome) -> Vec<Value> {
        let mut updates: Vec<Value> = self.begin(&outcome.call_id, "tool").into_iter().collect();
        updates.push(ended(&outcome.call_id, &parsed(&outcome.result), outcome.is_error));
        updates
    }
}

/// The updates of a stored message, for a client that loads a conversation.
pub fn replay(message: &Message) -> Vec<Value> {
    let chunk_of = |kind: &str, block: &ContentBlock| match block {
        ContentBlock::Reasoning(block) => chunk("agent_thought_chunk", &block.text),
        block => Some(update(kind, json!({ "content": block_of_stored(block)? }))),
    };
    match &message.body {
        Body::User { content } => {
            content.iter().filter_map(|block| chunk_of("user_message_chunk", block)).collect()
        }
        Body::Assistant { content, tool_calls } => {
            let blocks = content.iter().filter_map(|block| chunk_of("agent_message_chunk", block));
            let calls = tool_calls.iter().flatten().map(|call| {
                update(
                    "tool_call",
                    json!({
                        "toolCallId": call.tool_call_id, "title": call.tool_name, "kind": "other", "status": "pending",
                        "rawInput": parsed(call.arguments.get()),
                    }),
                )
            });
            blocks.chain(calls).collect()
        }
        Body::ToolResult { results } => results
            .iter()
            .map(|result| {
                ended(&result.tool_call_id, &parsed(result.result.get()), result.is_error.unwrap_or(false))
            })
            .collect(),
    }
}

/// A plan as an update. The protocol has no failed entries: the text of one says it.
pub fn plan(steps: &[PlanStep]) -> Value {
    let entries: Vec<Value> = steps
        .iter()
        .map(|step| {
            let (status, suffix) = match step.status {
                PlanStatus::Pending => ("pending", ""),
                PlanStatus::InProgress => ("in_progress", ""),
                PlanStatus::Completed => ("completed", ""),
                PlanStatus::Failed => ("completed", " (failed)"),
            };
            json!({ "content": format!("{}{suffix}", step.description), "priority": "medium", "status": status })
        })
        .collect();
    update("plan", json!({ "entries": entries }))
}

fn ended(call_id: &str, result: &Value, is_error: bool) -> Value {
    let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
    let status = if is_error { "failed" } else { "completed" };
    let members = json!({
        "toolCallId": call_id, "status": status, "rawOutput": result, "content": [tool_content(&text)],
    });
    update("tool_call_update", members)
}

fn tool_content(text: &str) -> Value {
    json!({ "type": "content", "content": text_block(text) })
}

/// A piece of text; `None` if it is empty.
fn chunk(kind: &str, text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| update(kind, json!({ "content": text_block(text) })))
}

fn update(kind: &str, mut members: Value) -> Value {
    if let Some(members) = members.as_object_mut() {
        members.insert("sessionUpdate".to_owned(), kind.into());
    }
    members
}

/// JSON text as a value; other text as a string.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
