//! Progress events of running tools.
//!
//! UPP-1.2 §11.1 defines events for the start and the end of a tool. This event has a type of its own, which other
//! readers skip: `tool_execution_progress` with `toolCallId`, `toolName`, `progress` and `timestamp`. Its `index` is
//! that of the start event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::host::event_queue::EventQueue;
use crate::types::event::AgentStreamEvent;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{Delta, StreamEvent, ToolCall};
use turntree_core::time::Timestamp;

/// The type of the event.
pub const TOOL_EXECUTION_PROGRESS: &str = "tool_execution_progress";

/// Sends the progress events of one call.
#[derive(Debug)]
pub(crate) struct Progress {
    events: Arc<EventQueue>,
    position: u32,
    over: AtomicBool,
}

impl Progress {
    pub(crate) const fn new(events: Arc<EventQueue>, position: u32) -> Self {
        Self { events, position, over: AtomicBool::new(false) }
    }

    /// Ends the call: later reports are dropped.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(crate) fn report(&self, call: &ToolCall, progress: RawJson, at: Timestamp) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let mut delta = RawObject::new();
        delta.insert("toolCallId", RawJson::from_str_value(&call.tool_call_id));
        delta.insert("toolName", RawJson::from_str_value(&call.tool_name));
        delta.insert("progress", progress);
        delta.insert("timestamp", RawJson::from_value(&at.milliseconds()).unwrap_or_default());
        let delta = Delta::Unknown { kind: TOOL_EXECUTION_PROGRESS.into(), delta };
        self.events.push_progress(AgentStreamEvent::Upp(StreamEvent::new(self.position, delta)));
    }
}
