//! Stores conversations: loads stored messages before each request and appends the new turn.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::Mutex as AsyncMutex;

use super::context::{CallContext, Request};
use super::hooks::{HookFuture, Hooks, Middleware};
use crate::error::{ErrorCode, UppError};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::message::message::History;
use turntree_core::message::{Message, Thread, Turn};
use turntree_core::time::{Clock, SystemClock};

/// The store of one conversation.
pub trait PersistenceAdapter: Send + Sync {
    /// The id of the conversation in the store.
    fn id(&self) -> &str;

    /// Loads the conversation; `None` if nothing is stored yet.
    fn load(&self) -> BoxFuture<'_, Result<Option<Thread>, UppError>>;

    /// Stores the whole conversation and replaces the previous one.
    fn save(&self, thread: Thread) -> BoxFuture<'_, Result<(), UppError>>;
}

/// Inserts the stored messages before each request and stores each turn.
///
/// Concurrent calls of one conversation are safe within one process: each turn is appended to the conversation as it
/// is stored at that time.
///
/// # Errors
/// An error while loading ends the call before anything is sent. An error while storing ends the call with the store's
/// error; the stored conversation is unchanged, and the error carries the turn.
pub struct Persistence {
    adapter: Arc<dyn PersistenceAdapter>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
    /// Serializes the appends.
    writing: AsyncMutex<()>,
}

impl fmt::Debug for Persistence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Persistence").field("id", &self.adapter.id()).finish_non_exhaustive()
    }
}

/// The messages of the request after this middleware.
#[derive(Default)]
struct SentMessages(Mutex<History>);

impl Persistence {
    /// Stores the conversation of `adapter`.
    pub fn new(adapter: Arc<dyn PersistenceAdapter>) -> Self {
        let (ids, clock) = (Arc::new(RandomIds), Arc::new(SystemClock));
        Self { adapter, ids, clock, writing: AsyncMutex::new(()) }
    }

    /// Sets the sources of ids and timestamps of new conversations.
    #[must_use]
    pub fn with_sources(self, ids: Arc<dyn IdSource>, clock: Arc<dyn Clock>) -> Self {
        Self { ids, clock, ..self }
    }

    async fn prepend(&self, context: &CallContext) -> Result<(), UppError> {
        // Only language models have conversations.
        let Some(mut request) = context.llm_request() else { return Ok(()) };
        let stored = self.adapter.load().await.map_err(|error| self.failed("load", error, context))?;
        let older: Vec<Arc<Message>> = match &stored {
            Some(thread) => unseen(&thread.messages, request.messages.iter()).cloned().collect(),
            None => Vec::new(),
        };
        if !older.is_empty() {
            context.add_history(older.iter().map(Arc::clone));
            let mut messages: History = older.into_iter().collect();
            messages.extend(request.messages.iter().map(Arc::clone));
            request.messages = messages;
            context.set_request(Request::Llm(request.clone()));
        }
        let sent: Arc<SentMessages> = context.state.of(self);
        *sent.0.lock().unwrap_or_else(PoisonError::into_inner) = request.messages;
        Ok(())
    }

    async fn append(&self, turn: &Turn, context: &CallContext) -> Result<(), UppError> {
        let sent: Arc<SentMessages> = context.state.of(self);
        let sent = sent.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let _alone = self.writing.lock().await;
        let stored = self.adapter.load().await.map_err(|error| self.failed("load", error, context))?;
        let mut thread = stored.unwrap_or_else(|| self.new_thread());
        let messages = sent.iter().chain(turn.messages.iter());
        let mut seen: HashSet<&str> = HashSet::new();
        let messages = messages.filter(|message| seen.insert(message.id.as_str()));
        let new: Vec<_> = unseen(messages, thread.messages.iter()).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        thread.push(new, &*self.clock);
        self.adapter.save(thread).await.map_err(|error| self.failed("save", error, context))
    }

    fn new_thread(&self) -> Thread {
        let thread = Thread::new(History::new(), &*self.ids, &*self.clock);
        Thread { id: self.adapter.id().to_owned(), ..thread }
    }

    /// Converts an error of the store into an error of the call, with the original as its cause.
    fn failed(&self, what: &str, error: UppError, context: &CallContext) -> UppError {
        let message = format!("persistence could not {what} \"{}\": {}", self.adapter.id(), error.message);
        let failed = UppError::new(ErrorCode::ProviderError, &*context.provider, message);
        UppError { modality: context.modality, ..failed.with_cause(error) }
    }
}

/// The messages whose ids are not in `known`.
fn unseen<'a>(
    messages: impl IntoIterator<Item = &'a Arc<Message>>,
    known: impl Iterator<Item = &'a Arc<Message>>,
) -> impl Iterator<Item = &'a Arc<Message>> {
    let known: HashSet<&str> = known.map(|message| message.id.as_str()).collect();
    messages.into_iter().filter(move |message| !known.contains(message.id.as_str()))
}

impl Middleware for Persistence {
    fn hooks(&self) -> Hooks {
        Hooks::REQUEST | Hooks::TURN
    }

    fn on_request<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        Box::pin(self.prepend(context))
    }

    fn on_turn<'a>(&'a self, turn: &'a Arc<Turn>, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        Box::pin(self.append(turn, context))
    }
}
