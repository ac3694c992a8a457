//! Adds the partial JSON of a stream to its events, as `delta.parsed`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::context::CallContext;
use super::hooks::{Emitted, HookFuture, Hooks, Middleware, done};
use crate::error::UppError;
use turntree_core::json::{PartialJson, RawJson};
use turntree_core::message::{Delta, StreamEvent};

/// Parses structured output and tool arguments while they are streamed.
///
/// Every `object_delta` and `tool_call_delta` gets a member `parsed`: the JSON of its block so far, with open strings,
/// lists and objects closed. There is no member if nothing can be parsed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedObject {
    /// Parses structured output. Default: true.
    pub objects: bool,
    /// Parses tool arguments. Default: true.
    pub tool_calls: bool,
}

impl Default for ParsedObject {
    fn default() -> Self {
        Self { objects: true, tool_calls: true }
    }
}

/// The text of each block so far.
#[derive(Default)]
struct Documents(Mutex<HashMap<(Kind, u32), PartialJson>>);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Object,
    ToolCall,
}

impl Documents {
    fn parsed(&self, kind: Kind, index: u32, piece: &str) -> Option<RawJson> {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let document = documents.entry((kind, index)).or_default();
        document.push(piece);
        document.read().map(|read| read.value)
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl ParsedObject {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the address of the owner is the key of the state")]
    fn documents(&self, context: &CallContext) -> Arc<Documents> {
        context.state.of(self)
    }
}

impl Middleware for ParsedObject {
    fn hooks(&self) -> Hooks {
        Hooks::STREAM_EVENT | Hooks::STREAM_END
    }

    fn on_stream_event(
        &self,
        mut event: StreamEvent,
        context: &Arc<CallContext>,
    ) -> Result<Emitted, UppError> {
        match &mut event.delta {
            // A new message starts: its blocks are numbered anew.
            Delta::MessageStart(_) => self.documents(context).clear(),
            Delta::Object(delta) if self.objects => {
                if let Some(parsed) = self.documents(context).parsed(Kind::Object, event.index, &delta.text) {
                    delta.extra.insert("parsed", parsed);
                }
            }
            Delta::ToolCall(delta) if self.tool_calls => {
                let piece = &delta.arguments_json;
                if let Some(parsed) = self.documents(context).parsed(Kind::ToolCall, event.index, piece) {
                    delta.extra.insert("parsed", parsed);
                }
            }
            _ => {}
        }
        Ok(Emitted::One(event))
    }

    fn on_stream_end<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.documents(context).clear();
        done()
    }
}
