//! The hooks of a middleware.

use std::fmt;
use std::sync::Arc;

use bitflags::bitflags;
use futures_util::future::{BoxFuture, ready};

use super::context::CallContext;
use crate::error::UppError;
use turntree_core::json::RawJson;
use turntree_core::message::{StreamEvent, ToolDefinition, Turn};

/// The future of a hook.
pub type HookFuture<'a> = BoxFuture<'a, Result<(), UppError>>;

/// Hooks around the calls of a model. Every hook has a default that does nothing.
///
/// One middleware serves any number of calls at once. State of one call belongs in [`CallContext::state`].
///
/// # Errors
/// An error of a hook ends the call, and [`Self::on_error`] of every middleware is called with it. An error of a tool
/// hook counts as an error of the tool. Errors of `on_error` and [`Self::on_abort`] are only logged.
///
/// # Cancel safety
/// The future of any hook may be dropped when the call is cancelled.
///
/// Spec: UPP-1.2 §17
pub trait Middleware: Send + Sync + fmt::Debug {
    /// The hooks that this middleware implements. The others are not called.
    fn hooks(&self) -> Hooks {
        Hooks::all()
    }
    /// Called when a call begins.
    fn on_start<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// Called before the request is sent. May change the request.
    fn on_request<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// Called with the last response. In reverse order.
    fn on_response<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// Called with the complete turn, for language models only. In reverse order.
    fn on_turn<'a>(&'a self, _turn: &'a Arc<Turn>, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// Called when the call has succeeded. In reverse order.
    fn on_end<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// Called when the call has failed; also when a call without a stream was cancelled.
    fn on_error<'a>(&'a self, _error: &'a UppError, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// Called when a stream was aborted or dropped before its end, instead of `on_error`.
    fn on_abort<'a>(&'a self, _error: &'a UppError, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// Called with each event, as the middleware before this one returned it. Must not block.
    ///
    /// # Errors
    /// An error ends the call.
    fn on_stream_event(&self, event: StreamEvent, _context: &Arc<CallContext>) -> Result<Emitted, UppError> {
        Ok(Emitted::One(event))
    }
    /// Called after the last event of a stream; not after an error or an abort.
    fn on_stream_end<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// Called when the model calls a tool.
    fn on_tool_call<'a>(
        &'a self,
        _tool: &'a ToolDefinition,
        _params: &'a RawJson,
        _context: &'a Arc<CallContext>,
    ) -> HookFuture<'a> {
        done()
    }
    /// Called with the result of a tool.
    fn on_tool_result<'a>(
        &'a self,
        _tool: &'a ToolDefinition,
        _result: &'a RawJson,
        _context: &'a Arc<CallContext>,
    ) -> HookFuture<'a> {
        done()
    }
}

/// A future that is ready.
pub(super) fn done<'a>() -> HookFuture<'a> {
    Box::pin(ready(Ok(())))
}

/// What a middleware emits for an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Emitted {
    /// Nothing: the event is dropped.
    Nothing,
    /// One event: the same one or a replacement.
    One(StreamEvent),
    /// Several events, in this order.
    Many(Vec<StreamEvent>),
}

impl From<StreamEvent> for Emitted {
    fn from(event: StreamEvent) -> Self {
        Self::One(event)
    }
}

impl From<Vec<StreamEvent>> for Emitted {
    fn from(events: Vec<StreamEvent>) -> Self {
        Self::Many(events)
    }
}

/// Iterates over the events in order.
impl IntoIterator for Emitted {
    type Item = StreamEvent;
    type IntoIter = std::iter::Chain<std::option::IntoIter<StreamEvent>, std::vec::IntoIter<StreamEvent>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self {
            Self::Nothing => (None, Vec::new()),
            Self::One(event) => (Some(event), Vec::new()),
            Self::Many(events) => (None, events),
        };
        one.into_iter().chain(many)
    }
}

bitflags! {
    /// A set of hooks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Hooks: u16 {
        /// [`Middleware::on_start`].
        const START = 1 << 0;
        /// [`Middleware::on_request`].
        const REQUEST = 1 << 1;
        /// [`Middleware::on_response`].
        const RESPONSE = 1 << 2;
        /// [`Middleware::on_turn`].
        const TURN = 1 << 3;
        /// [`Middleware::on_end`].
        const END = 1 << 4;
        /// [`Middleware::on_error`].
        const ERROR = 1 << 5;
        /// [`Middleware::on_abort`].
        const ABORT = 1 << 6;
        /// [`Middleware::on_stream_event`].
        const STREAM_EVENT = 1 << 7;
        /// [`Middleware::on_stream_end`].
        const STREAM_END = 1 << 8;
        /// [`Middleware::on_tool_call`].
        const TOOL_CALL = 1 << 9;
        /// [`Middleware::on_tool_result`].
        const TOOL_RESULT = 1 << 10;
    }
}
