//! The hooks of a middleware.

use std::fmt;
use std::sync::Arc;

use bitflags::bitflags;
use futures_util::future::{BoxFuture, ready};

use super::context::CallContext;
use crate::error::UppError;
use turntree_core::json::RawJson;
use turntree_core::message::{StreamEvent, ToolDefinition, Turn};

/// What a hook awaits.
pub type HookFuture<'a> = BoxFuture<'a, Result<(), UppError>>;

/// Something around the calls of a model. Every hook has a default that does nothing. UPP-1.2 §17.
///
/// One middleware serves any number of calls at once; what belongs to one call is kept in its
/// [`CallContext::state`].
///
/// # Errors
/// What a hook fails with ends the call, and [`Self::on_error`] of every middleware hears of it. A failed tool hook
/// counts as the tool's failure. Failures of `on_error` and [`Self::on_abort`] are logged and go no further.
///
/// # Cancel safety
/// The future of any hook may be dropped: the call was cancelled.
pub trait Middleware: Send + Sync + fmt::Debug {
    /// The hooks that it has; the others are not called, and nothing is prepared for them.
    fn hooks(&self) -> Hooks {
        Hooks::all()
    }
    /// A call begins.
    fn on_start<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// The request is about to be sent: it may be changed.
    fn on_request<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// The last answer is there. Called in reverse order.
    fn on_response<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// The turn is whole; only for language models. Called in reverse order.
    fn on_turn<'a>(&'a self, _turn: &'a Arc<Turn>, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// The call has succeeded. Called in reverse order.
    fn on_end<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// The call has failed; a cancelled call without a stream too.
    fn on_error<'a>(&'a self, _error: &'a UppError, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// The stream was aborted or dropped before its end. `on_error` is not called then.
    fn on_abort<'a>(&'a self, _error: &'a UppError, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// An event on its way to the listener, as the middleware before this one left it. Must not block.
    ///
    /// # Errors
    /// Ends the call.
    fn on_stream_event(&self, event: StreamEvent, _context: &Arc<CallContext>) -> Result<Emitted, UppError> {
        Ok(Emitted::One(event))
    }
    /// The model has said its last and no more events come; not after an error or an abort.
    fn on_stream_end<'a>(&'a self, _context: &'a Arc<CallContext>) -> HookFuture<'a> {
        done()
    }
    /// The model wants a tool called.
    fn on_tool_call<'a>(
        &'a self,
        _tool: &'a ToolDefinition,
        _params: &'a RawJson,
        _context: &'a Arc<CallContext>,
    ) -> HookFuture<'a> {
        done()
    }
    /// A tool has answered.
    fn on_tool_result<'a>(
        &'a self,
        _tool: &'a ToolDefinition,
        _result: &'a RawJson,
        _context: &'a Arc<CallContext>,
    ) -> HookFuture<'a> {
        done()
    }
}

/// Nothing to wait for.
pub(super) fn done<'a>() -> HookFuture<'a> {
    Box::pin(ready(Ok(())))
}

/// What becomes of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Emitted {
    /// It goes no further.
    Nothing,
    /// It goes on, or another in its place.
    One(StreamEvent),
    /// Several go on in its place, in this order.
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

/// The events in order.
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
