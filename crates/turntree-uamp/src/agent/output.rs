//! Events of an agent as output of a response.
//!
//! Spec: UAMP-1.0 §6.6, §6.13

use std::sync::Arc;

use turntree_agents::Session;
use turntree_agents::host::progress::TOOL_EXECUTION_PROGRESS;
use turntree_agents::types::event::{StepEnd, StepStart};
use turntree_agents::types::{
    AgentStreamEvent, PendingCall, PlanStatus, PlanStep, SubAgentEvent, UapData, UapEvent, approval_required,
};
use turntree_core::json::RawJson;
use turntree_core::message::event::Delta;
use turntree_core::message::{CodeExecutionBlock, ContentBlock, StreamEvent, TokenUsage, Turn};
use turntree_upp::{ErrorCode as UppErrorCode, UppError};

use super::client_tools::ClientTools;
use super::messages::item_from_block;
use super::usage::usage_from_upp;
use crate::event::Progress;
use crate::session::{AgentOutput, ToolOutcome};
use crate::types::{ErrorCode, ErrorDetails, Number, ProgressTarget, ToolCall};

/// Translates the events of one run.
#[derive(Debug)]
pub(super) struct OutputTranslator {
    client_tools: ClientTools,
    /// The sum of the usage that was reported.
    reported: TokenUsage,
    /// True if the answer has a structure: models then send its text a second time, as pieces of the structured output.
    is_structured: bool,
}

impl OutputTranslator {
    pub(super) fn new(client_tools: ClientTools, is_structured: bool) -> Self {
        Self { client_tools, reported: TokenUsage::default(), is_structured }
    }

    /// The output of an event; `None` for events that clients do not see.
    pub(super) fn translate(&mut self, event: AgentStreamEvent) -> Option<AgentOutput> {
        match event {
            AgentStreamEvent::Upp(event) => self.of_model(event),
            AgentStreamEvent::Uap(event) => self.of_agent(event),
            AgentStreamEvent::SubAgent(event) => of_sub_agent(*event),
        }
    }

    fn of_model(&mut self, event: StreamEvent) -> Option<AgentOutput> {
        Some(match event.delta {
            Delta::Text(_) | Delta::CodeExecution(_) if self.is_structured => return None,
            Delta::Text(delta) | Delta::Object(delta) => AgentOutput::Text(delta.text),
            Delta::Reasoning(delta) => AgentOutput::Thinking(delta.text),
            Delta::Audio(delta) => AgentOutput::Audio(delta.data.to_base64()),
            Delta::CodeExecution(delta) => {
                AgentOutput::Text(format!("\n\n{}\n\n", CodeExecutionBlock::from(&delta).to_markdown()))
            }
            Delta::ToolCall(delta) => AgentOutput::ToolCallFragment(ToolCall {
                id: delta.tool_call_id.to_string(),
                name: delta.tool_name.to_string(),
                arguments: delta.arguments_json,
                ..ToolCall::default()
            }),
            Delta::ToolExecutionStart(start) => {
                if self.client_tools.contains(&start.tool_name) {
                    return None;
                }
                AgentOutput::Progress(Box::new(Progress {
                    target: ProgressTarget::Tool,
                    target_id: Some(start.tool_call_id),
                    stage: Some("start".to_owned()),
                    message: Some(start.tool_name),
                    ..Progress::default()
                }))
            }
            Delta::ToolExecutionEnd(end) => {
                if self.client_tools.contains(&end.tool_name) {
                    return None;
                }
                AgentOutput::ServerToolResult(ToolOutcome {
                    call_id: end.tool_call_id,
                    result: end.result.get().to_owned(),
                    is_error: end.is_error,
                })
            }
            Delta::Unknown { kind, delta } if &*kind == TOOL_EXECUTION_PROGRESS => {
                let call_id = delta.get("toolCallId")?.as_string()?;
                let report = delta.get("progress")?;
                let text = report.as_string().unwrap_or_else(|| report.get().to_owned());
                AgentOutput::ToolProgress { call_id, text }
            }
            _ => return None,
        })
    }

    fn of_agent(&mut self, event: UapEvent) -> Option<AgentOutput> {
        let progress = |stage: &str, message: Option<String>| {
            AgentOutput::Progress(Box::new(Progress {
                target: ProgressTarget::Response,
                stage: Some(stage.to_owned()),
                message,
                step: Some(u64::from(event.step).into()),
                ..Progress::default()
            }))
        };
        Some(match event.data {
            UapData::StepStart(_) => progress("step", None),
            UapData::StepEnd(end) => {
                add(&mut self.reported, &end.usage);
                AgentOutput::Usage(Box::new(usage_from_upp(&end.usage)))
            }
            UapData::Checkpoint(made) => progress("checkpoint", Some(made.checkpoint_id)),
            _ => return None,
        })
    }

    /// The output at the end of a run: media, usage that no step has reported, and the end.
    pub(super) fn finish(&self, turn: &Turn) -> Vec<AgentOutput> {
        let blocks = turn
            .messages
            .iter()
            .filter(|message| message.kind() == turntree_core::message::MessageKind::Assistant);
        let media = blocks.flat_map(|message| message.content()).filter(|block| is_media(block));
        let mut outputs: Vec<AgentOutput> =
            media.filter_map(item_from_block).map(|item| AgentOutput::Item(Box::new(item))).collect();
        let rest = TokenUsage {
            input_tokens: turn.usage.input_tokens.saturating_sub(self.reported.input_tokens),
            output_tokens: turn.usage.output_tokens.saturating_sub(self.reported.output_tokens),
            total_tokens: turn.usage.total_tokens.saturating_sub(self.reported.total_tokens),
            cache_read_tokens: turn.usage.cache_read_tokens.saturating_sub(self.reported.cache_read_tokens),
            ..TokenUsage::default()
        };
        if rest.input_tokens > 0 || rest.output_tokens > 0 {
            outputs.push(AgentOutput::Usage(Box::new(usage_from_upp(&rest))));
        }
        outputs.push(AgentOutput::Done);
        outputs
    }
}

fn add(sum: &mut TokenUsage, more: &TokenUsage) {
    sum.input_tokens = sum.input_tokens.saturating_add(more.input_tokens);
    sum.output_tokens = sum.output_tokens.saturating_add(more.output_tokens);
    sum.total_tokens = sum.total_tokens.saturating_add(more.total_tokens);
    sum.cache_read_tokens = sum.cache_read_tokens.saturating_add(more.cache_read_tokens);
}

const fn is_media(block: &ContentBlock) -> bool {
    matches!(
        block,
        ContentBlock::Image(_)
            | ContentBlock::Document(_)
            | ContentBlock::Audio(_)
            | ContentBlock::Video(_)
            | ContentBlock::Binary(_)
    )
}

/// Text and reasoning of a sub-agent are progress of the call that runs it.
fn of_sub_agent(event: SubAgentEvent) -> Option<AgentOutput> {
    let SubAgentEvent { run, event } = event;
    let AgentStreamEvent::Upp(event) = event else { return None };
    let (Delta::Text(delta) | Delta::Reasoning(delta)) = event.delta else { return None };
    Some(AgentOutput::ToolProgress { call_id: run.tool_call_id.to_string(), text: delta.text })
}

/// The error of a run, without details that only the operator may see. `session`: that of the run, if it has one.
pub(super) fn error_of(error: &UppError, session: Option<&Session>) -> ErrorDetails {
    let code = match error.code {
        UppErrorCode::RateLimited | UppErrorCode::QuotaExceeded => ErrorCode::RateLimitExceeded,
        UppErrorCode::Timeout => ErrorCode::Timeout,
        UppErrorCode::NetworkError => ErrorCode::AgentOffline,
        _ => ErrorCode::GenerationError,
    };
    let mut details = ErrorDetails::new(code, error.message.clone());
    let mut more = serde_json::Map::new();
    more.insert("code".to_owned(), error.code.as_str().into());
    if let Some(seconds) = error.retry_after.and_then(Number::from_f64) {
        more.insert("retry_after".to_owned(), serde_json::json!(seconds));
    }
    if let Some(required) = approval_required(error) {
        let mut calls: Vec<ToolCall> = required.calls.iter().map(|call| tool_call(call)).collect();
        if let Some(session) = session.filter(|_| !required.is_in_doubt) {
            set_shown_ids(&mut calls, &required.calls, session.pending_by_key());
        }
        more.insert(PENDING.to_owned(), serde_json::json!(calls));
    }
    details.details = turntree_core::json::RawJson::from_value(&more).ok();
    details
}

/// Replaces ids that several calls have by those with which `Session::decide_shown` finds each of them.
fn set_shown_ids(
    calls: &mut [ToolCall],
    asked: &[Arc<turntree_core::message::ToolCall>],
    mut pending: Vec<PendingCall>,
) {
    for (call, asked) in calls.iter_mut().zip(asked) {
        let Some(index) = pending.iter().position(|pending| pending.call == *asked) else { continue };
        call.id = pending.remove(index).shown_id;
    }
}

/// The member of a report of progress with the plan of the run.
const PLAN: &str = "plan";

/// Reports the plan of a run when it changes.
#[derive(Debug, Default)]
pub(super) struct PlanReporter {
    reported: Vec<PlanStep>,
}

impl PlanReporter {
    /// The plan in an event, if it has changed: as text if its steps are new, and its progress.
    pub(super) fn after(&mut self, event: &AgentStreamEvent) -> Vec<AgentOutput> {
        let AgentStreamEvent::Uap(UapEvent { data, .. }) = event else { return Vec::new() };
        let (UapData::StepStart(StepStart { plan, .. }) | UapData::StepEnd(StepEnd { plan, .. })) = data
        else {
            return Vec::new();
        };
        let Some(steps) = plan else { return Vec::new() };
        let is_known = steps.len() == self.reported.len()
            && steps
                .iter()
                .zip(&self.reported)
                .all(|(step, known)| step.id == known.id && step.description == known.description);
        let text = (!is_known && !steps.is_empty()).then(|| AgentOutput::Planning(text_of(steps)));
        text.into_iter().chain(self.report(steps.clone())).collect()
    }

    /// The plan at the end of a run that has succeeded.
    pub(super) fn finish(&mut self) -> Option<AgentOutput> {
        let mut steps = self.reported.clone();
        for step in steps.iter_mut().filter(|step| step.status == PlanStatus::InProgress) {
            step.status = PlanStatus::Completed;
        }
        self.report(steps)
    }

    fn report(&mut self, steps: Vec<PlanStep>) -> Option<AgentOutput> {
        if steps == self.reported {
            return None;
        }
        let ended = |step: &&PlanStep| matches!(step.status, PlanStatus::Completed | PlanStatus::Failed);
        let (done, total) = (steps.iter().filter(ended).count() as u64, steps.len() as u64);
        let mut progress = Progress {
            target: ProgressTarget::Response,
            stage: Some(PLAN.to_owned()),
            step: Some(done.into()),
            total_steps: Some(total.into()),
            ..Progress::default()
        };
        progress.extra.insert(PLAN, RawJson::from_value(&steps).ok()?);
        self.reported = steps;
        Some(AgentOutput::Progress(Box::new(progress)))
    }
}

/// A plan as a numbered list.
fn text_of(steps: &[PlanStep]) -> String {
    let lines = steps.iter().enumerate();
    let lines: Vec<String> =
        lines.map(|(index, step)| format!("{}. {}", index.saturating_add(1), step.description)).collect();
    lines.join("\n")
}

/// The plan in a report of progress; `None` for other reports.
pub fn plan_of(progress: &Progress) -> Option<Vec<PlanStep>> {
    let is_plan = progress.stage.as_deref() == Some(PLAN);
    progress.extra.get(PLAN).filter(|_| is_plan)?.to().ok()
}

/// The member of an error's details with the calls that wait for approval.
const PENDING: &str = "pending_approvals";

fn tool_call(call: &turntree_core::message::ToolCall) -> ToolCall {
    ToolCall {
        id: call.tool_call_id.clone(),
        name: call.tool_name.clone(),
        arguments: call.arguments.get().to_owned(),
        ..ToolCall::default()
    }
}

/// The calls that a run waits for, if the error is that they need approval. The session of the run can decide and resume.
pub fn pending_approvals(error: &ErrorDetails) -> Vec<ToolCall> {
    let details = error.details.as_ref().and_then(turntree_core::json::RawObject::from_raw);
    details.and_then(|details| details.get(PENDING)?.to().ok()).unwrap_or_default()
}
