//! The output of a run as the protocols of OpenAI know it: text, reasoning, calls of the client's tools, and one end.
//!
//! These protocols end a response when it calls tools of the client; the results come with a later request. So the run
//! ends there too. Tools of the server are not part of the reply.

use std::sync::Arc;

use turntree_core::message::Turn;
use turntree_upp::StopReason;

use crate::agent::usage::usage_from_upp;
use crate::agent::{AgentRun, RunControl, RunRequest};
use crate::session::AgentOutput;
use crate::types::{ContentItem, ErrorDetails, ToolCall, UsageStats};

/// A part of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyPart {
    /// A piece of text.
    Text(String),
    /// A piece of reasoning.
    Reasoning(String),
    /// A piece of audio, as base64.
    Audio(String),
    /// A piece of the text of audio.
    Transcript(String),
    /// A complete call of a tool of the client.
    Call(ToolCall),
    /// Media that is complete.
    Item(Box<ContentItem>),
    /// Something happened that the client does not see.
    Hidden,
    /// The end; nothing follows.
    End(Ending),
}

/// Why a reply is not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incomplete {
    /// The limit of tokens was reached.
    Length,
    /// The model or a filter has withheld the rest.
    Filtered,
}

/// How a reply ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// It is complete.
    Complete,
    /// The model was stopped before the reply was complete.
    Incomplete(Incomplete),
    /// The client must run tools.
    ToolCalls,
    /// The run was cancelled.
    Cancelled,
    /// The run failed.
    Failed(Box<ErrorDetails>),
}

/// The reply of an agent.
///
/// # Cancel safety
/// Dropping it cancels the run.
#[derive(Debug)]
pub struct Reply {
    run: AgentRun,
    usage: UsageStats,
    /// True if the client must run tools: the run is being ended.
    is_handed_back: bool,
    has_ended: bool,
}

impl Reply {
    /// Starts a run.
    pub fn start(request: RunRequest) -> Self {
        Self {
            run: AgentRun::start(request),
            usage: UsageStats::default(),
            is_handed_back: false,
            has_ended: false,
        }
    }

    /// Controls the run.
    pub const fn control(&self) -> &RunControl {
        self.run.control()
    }

    /// The turn, after the end of a run that did not fail.
    pub fn turn(&self) -> Option<&Arc<Turn>> {
        self.run.turn()
    }

    /// The usage of all model calls; complete after the end.
    pub fn usage(&self) -> UsageStats {
        self.run.turn().map_or_else(|| self.usage.clone(), |turn| usage_from_upp(&turn.usage))
    }

    /// The next part; `None` after the end.
    ///
    /// # Cancel safety
    /// No part is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<ReplyPart> {
        while !self.has_ended {
            let Some(output) = self.run.next().await else {
                let ending = if self.is_handed_back { Ending::ToolCalls } else { Ending::Cancelled };
                return Some(self.end(ending));
            };
            // Output of the last moments: the client has its calls already.
            if !self.is_handed_back
                && let Some(part) = self.part_of(output)
            {
                return Some(part);
            }
        }
        None
    }

    fn part_of(&mut self, output: AgentOutput) -> Option<ReplyPart> {
        Some(match output {
            AgentOutput::Text(text) => ReplyPart::Text(text),
            AgentOutput::Thinking(text) => ReplyPart::Reasoning(text),
            AgentOutput::Audio(audio) => ReplyPart::Audio(audio),
            AgentOutput::Transcript(text) => ReplyPart::Transcript(text),
            AgentOutput::ClientToolCall(call) => ReplyPart::Call(call),
            AgentOutput::Item(item) => ReplyPart::Item(item),
            AgentOutput::AwaitingClient => {
                self.is_handed_back = true;
                self.run.control().cancel();
                return None;
            }
            AgentOutput::Usage(usage) => {
                self.usage.add(&usage);
                return None;
            }
            AgentOutput::Done => {
                let ending = match self.run.stop_reason() {
                    Some(StopReason::MaxTokens) => Ending::Incomplete(Incomplete::Length),
                    Some(StopReason::ContentFilter) => Ending::Incomplete(Incomplete::Filtered),
                    _ => Ending::Complete,
                };
                self.end(ending)
            }
            AgentOutput::Failed(error) => self.end(Ending::Failed(error)),
            AgentOutput::ToolCallFragment(_)
            | AgentOutput::ServerToolResult(_)
            | AgentOutput::ToolProgress { .. } => ReplyPart::Hidden,
            AgentOutput::Progress(_) | AgentOutput::Planning(_) => return None,
        })
    }

    fn end(&mut self, ending: Ending) -> ReplyPart {
        self.has_ended = true;
        ReplyPart::End(ending)
    }
}
