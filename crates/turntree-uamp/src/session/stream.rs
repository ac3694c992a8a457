//! The events of a response while the agent produces it.

use super::effect::{AgentOutput, ResponseRequest, ToolOutcome};
use super::output::Output;
use crate::event::{
    AudioDeltaEvent, AudioDone, ResponseDelta, ServerEvent, Thinking, ToolCallDone, ToolCallEvent,
    TranscriptDelta, TranscriptDone, UsageDelta,
};
use crate::payments::PaymentReceipt;
use crate::types::{
    Delta, ToolCallDelta, ToolProgress, ToolProgressDelta, ToolResult, ToolResultContent, ToolResultDelta,
    ToolResultSummary,
};

/// Where a response is.
#[derive(Debug)]
pub(super) enum Stage {
    /// The gate has not said yet whether the response must be paid.
    CheckingPayment(Box<ResponseRequest>),
    /// The client must pay.
    AwaitingPayment(Box<ResponseRequest>),
    /// The agent runs.
    Running,
}

/// A response that has not ended.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: String,
    pub(super) stage: Stage,
    pub(super) output: Output,
    /// The calls that the client runs, in order, with the results that have arrived.
    pub(super) calls: Vec<(String, Option<ToolOutcome>)>,
    pub(super) receipt: Option<Box<PaymentReceipt>>,
    /// The messages of the request as JSON, if the response is signed.
    pub(super) signed_messages: Option<String>,
    has_audio: bool,
    transcript: Option<String>,
}

impl Active {
    pub(super) fn new(id: String, stage: Stage, signed_messages: Option<String>) -> Self {
        Self {
            id,
            stage,
            output: Output::default(),
            calls: Vec::new(),
            receipt: None,
            signed_messages,
            has_audio: false,
            transcript: None,
        }
    }

    /// The events that complete the streams of audio.
    pub(super) fn audio_ends(&mut self) -> Vec<ServerEvent> {
        let response_id = Some(self.id.clone());
        let mut events = Vec::new();
        if let Some(transcript) = self.transcript.take() {
            let (response_id, transcript) = (response_id.clone(), Some(transcript));
            events.push(TranscriptDone { response_id, transcript, ..TranscriptDone::default() }.into());
        }
        if std::mem::take(&mut self.has_audio) {
            events.push(AudioDone { response_id, ..AudioDone::default() }.into());
        }
        events
    }

    /// The events of a piece of output, which is added to the output of the response.
    pub(super) fn events(&mut self, output: AgentOutput) -> Vec<ServerEvent> {
        let id = self.id.clone();
        let response_id = Some(id.clone());
        let delta =
            |delta| ServerEvent::from(ResponseDelta { response_id: id, delta, ..ResponseDelta::default() });
        match output {
            AgentOutput::Text(text) if text.is_empty() => Vec::new(),
            AgentOutput::Text(text) => {
                self.output.push_text(&text);
                vec![delta(Delta::text(text))]
            }
            AgentOutput::Thinking(content) => {
                vec![Thinking { content, is_delta: Some(true), response_id, ..Thinking::default() }.into()]
            }
            AgentOutput::Planning(content) => vec![planning(content, response_id)],
            AgentOutput::Audio(audio) => {
                self.has_audio = true;
                vec![AudioDeltaEvent { response_id, audio, ..AudioDeltaEvent::default() }.into()]
            }
            AgentOutput::Transcript(transcript) => {
                self.transcript.get_or_insert_default().push_str(&transcript);
                vec![TranscriptDelta { response_id, transcript, ..TranscriptDelta::default() }.into()]
            }
            AgentOutput::ToolCallFragment(tool_call) => {
                vec![delta(ToolCallDelta { tool_call, ..ToolCallDelta::default() }.into())]
            }
            AgentOutput::ClientToolCall(call) => {
                self.calls.push((call.id.clone(), None));
                self.output.push_call(call.clone());
                let (call_id, name, arguments) = (call.id, call.name, call.arguments);
                vec![
                    ToolCallEvent { call_id, name, arguments, response_id, ..ToolCallEvent::default() }
                        .into(),
                ]
            }
            AgentOutput::ServerToolResult(outcome) => {
                let call_id = outcome.call_id.clone();
                let result = delta(result_delta(&outcome).into());
                self.output.push(result_item(outcome).into());
                vec![result, ToolCallDone { call_id, response_id, ..ToolCallDone::default() }.into()]
            }
            AgentOutput::ToolProgress { call_id, text } => {
                let tool_progress = ToolProgress { call_id, text, ..ToolProgress::default() };
                vec![delta(ToolProgressDelta { tool_progress, ..ToolProgressDelta::default() }.into())]
            }
            AgentOutput::Progress(mut progress) => {
                progress.response_id = response_id;
                vec![(*progress).into()]
            }
            AgentOutput::Item(item) => {
                self.output.push(*item);
                Vec::new()
            }
            AgentOutput::Usage(usage) => {
                self.output.add_usage(&usage);
                vec![UsageDelta { response_id, delta: *usage, ..UsageDelta::default() }.into()]
            }
            AgentOutput::AwaitingClient | AgentOutput::Done | AgentOutput::Failed(_) => Vec::new(),
        }
    }
}

/// The plan of an agent, which is whole.
fn planning(content: String, response_id: Option<String>) -> ServerEvent {
    let stage = Some("planning".to_owned());
    Thinking { content, stage, is_delta: Some(false), response_id, ..Thinking::default() }.into()
}

fn result_delta(outcome: &ToolOutcome) -> ToolResultDelta {
    let status = if outcome.is_error { "error" } else { "success" };
    let tool_result = ToolResultSummary {
        call_id: outcome.call_id.clone(),
        result: Some(outcome.result.clone()),
        status: Some(status.to_owned()),
        ..ToolResultSummary::default()
    };
    ToolResultDelta { tool_result, ..ToolResultDelta::default() }
}

fn result_item(outcome: ToolOutcome) -> ToolResultContent {
    let tool_result = ToolResult {
        call_id: outcome.call_id,
        result: outcome.result,
        is_error: Some(outcome.is_error),
        ..ToolResult::default()
    };
    ToolResultContent { tool_result, ..ToolResultContent::default() }
}
