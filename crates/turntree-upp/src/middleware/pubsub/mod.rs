//! Publishes a stream to further subscribers, each from its start and at its own speed.
//!
//! [`Pubsub`] publishes events into a [`MemoryPubsub`]; [`MemoryPubsub::subscribe`] reads them. When the caller aborts
//! or drops the stream, the call stops, and every subscriber receives the events so far and then the error. A
//! subscriber that leaves has no effect on the call.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::CallContext;
use super::hooks::{Emitted, HookFuture, Hooks, Middleware, done};
use super::state::StateValue;
use crate::error::UppError;
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::RawJson;
use turntree_core::message::{StreamEvent, Turn};

mod channel;
mod memory;
mod subscription;

pub use memory::{MAX_STREAMS, MemoryPubsub};
pub use subscription::Subscription;

use memory::Publisher;

/// The name in [`CallContext::state`] of the stream's id.
pub const STREAM_ID: &str = "pubsub:streamId";

/// Publishes streams. It publishes events as the middlewares before it left them: put it last to publish the final
/// events.
pub struct Pubsub {
    adapter: MemoryPubsub,
    stream_id: Option<Arc<str>>,
    ids: Arc<dyn IdSource>,
}

impl fmt::Debug for Pubsub {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Pubsub");
        shown.field("adapter", &self.adapter).field("stream_id", &self.stream_id).finish_non_exhaustive()
    }
}

/// The published stream of one call.
#[derive(Default)]
struct Published(Mutex<(Option<Publisher>, Option<Arc<Turn>>)>);

impl Published {
    fn lock(&self) -> MutexGuard<'_, (Option<Publisher>, Option<Arc<Turn>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pubsub {
    /// Publishes into `adapter`. Without an id, each call uses the id under [`STREAM_ID`], or a new one.
    pub fn new(adapter: MemoryPubsub, stream_id: Option<Arc<str>>) -> Self {
        Self { adapter, stream_id, ids: Arc::new(RandomIds) }
    }

    /// The store of published streams.
    pub const fn adapter(&self) -> &MemoryPubsub {
        &self.adapter
    }

    fn published(&self, context: &CallContext) -> Arc<Published> {
        context.state.of(self)
    }

    fn begin(&self, context: &CallContext) -> Result<(), UppError> {
        let from_state = || match context.state.get(STREAM_ID) {
            Some(StateValue::Json(id)) => id.as_string(),
            _ => None,
        };
        let fixed = self.stream_id.as_deref().map(str::to_owned);
        let id = fixed.or_else(from_state).unwrap_or_else(|| self.ids.string());
        context.state.insert(STREAM_ID, StateValue::Json(RawJson::from_str_value(&id)));
        let publisher = self.adapter.begin(id.into(), &context.provider)?;
        self.published(context).lock().0 = Some(publisher);
        Ok(())
    }

    fn end(&self, context: &CallContext, failure: Option<&UppError>) {
        let (publisher, turn) = std::mem::take(&mut *self.published(context).lock());
        if let Some(publisher) = publisher {
            // Subscribers do not get the caller's own exception: it would keep its frames alive with the stream.
            let end = failure.map_or(Ok(turn), |error| Err(UppError { host: None, ..error.clone() }));
            publisher.end(end);
        }
    }
}

impl Middleware for Pubsub {
    fn hooks(&self) -> Hooks {
        Hooks::START | Hooks::STREAM_EVENT | Hooks::TURN | Hooks::END | Hooks::ERROR | Hooks::ABORT
    }

    fn on_start<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        Box::pin(std::future::ready(self.begin(context)))
    }

    fn on_stream_event(&self, event: StreamEvent, context: &Arc<CallContext>) -> Result<Emitted, UppError> {
        if let Some(publisher) = &self.published(context).lock().0 {
            publisher.publish(event.clone());
        }
        Ok(Emitted::One(event))
    }

    fn on_turn<'a>(&'a self, turn: &'a Arc<Turn>, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.published(context).lock().1 = Some(Arc::clone(turn));
        done()
    }

    fn on_end<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.end(context, None);
        done()
    }

    fn on_error<'a>(&'a self, error: &'a UppError, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.end(context, Some(error));
        done()
    }

    fn on_abort<'a>(&'a self, error: &'a UppError, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.end(context, Some(error));
        done()
    }
}
