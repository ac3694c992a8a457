//! Conversations as sessions of a store.

use std::sync::Arc;

use turntree_agents::session::store::{SavedState, SessionStore};
use turntree_agents::{Agent, Session, SessionError, SessionOptions};
use turntree_core::ids::IdSource;
use turntree_core::json::RawObject;
use turntree_core::message::{Message, MessageKind, Thread};
use turntree_core::persistence::PersistenceError;
use turntree_core::time::Clock;
use turntree_server::Principal;
use turntree_store::Engine;
use turntree_store::engines::memory::MemoryEngine;

/// Why a conversation cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The store failed.
    #[error("the store of conversations failed: {0}")]
    Store(#[from] PersistenceError),
    /// The session cannot be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// There is nothing to answer.
    #[error("the conversation has no new message of the user; send one before you ask for a response")]
    NoInput,
}

/// The conversations of a server, in a store. Cloning shares them.
///
/// A conversation of a principal is a session whose id is `<principal>/<id>`; without a principal it is `<id>`. So no
/// principal can open the conversations of another one, and applications can open them as sessions.
#[derive(Debug, Clone)]
pub struct Conversations {
    store: Arc<dyn SessionStore>,
    engine: Arc<dyn Engine>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
}

impl Conversations {
    /// Conversations in this store. Records of protocols, such as tasks of A2A, are kept in memory.
    pub fn new(store: Arc<dyn SessionStore>, ids: Arc<dyn IdSource>, clock: Arc<dyn Clock>) -> Self {
        Self { store, engine: Arc::new(MemoryEngine::new()), ids, clock }
    }

    /// Keeps the records of protocols in this engine, so that they survive a restart. No effect if the engine stores no
    /// records.
    #[must_use]
    pub fn with_engine(self, engine: Arc<dyn Engine>) -> Self {
        if engine.records().is_none() {
            log::warn!("{} stores no records: tasks of A2A are kept in memory", engine.name());
            return self;
        }
        Self { engine, ..self }
    }

    /// The engine of the records of protocols.
    pub const fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Opens a conversation as the store has it now, or begins one.
    ///
    /// # Errors
    /// The store failed, or the id is empty, too long or not printable.
    pub async fn open(
        &self,
        agent: &Agent,
        principal: Option<&Principal>,
        id: &str,
    ) -> Result<Session, ConversationError> {
        if let Some(session) = self.find(agent, principal, id).await? {
            return Ok(session);
        }
        let options = SessionOptions { id: Some(session_id(principal, id).into()), ..self.options(None) };
        Ok(Session::new(agent.clone(), options)?)
    }

    /// Opens a conversation as the store has it now; `None` if the store does not have it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn find(
        &self,
        agent: &Agent,
        principal: Option<&Principal>,
        id: &str,
    ) -> Result<Option<Session>, ConversationError> {
        let Some(loaded) = self.store.load(&session_id(principal, id)).await? else { return Ok(None) };
        let options = self.options(loaded.saved);
        Ok(Some(Session::from_snapshot(loaded.snapshot, agent.clone(), options)))
    }

    fn options(&self, saved: Option<SavedState>) -> SessionOptions {
        SessionOptions {
            persistence: Some(Arc::clone(&self.store)),
            saved,
            save_interval: self.store.default_save_interval(),
            ids: Arc::clone(&self.ids),
            clock: Arc::clone(&self.clock),
            ..SessionOptions::default()
        }
    }

    /// Adds messages to a conversation, and returns the one to run with: the last one, of the user. If `replaces`, the
    /// messages are the whole conversation: a new branch of the session begins with them, unless the session's history is
    /// the beginning of them.
    ///
    /// # Errors
    /// The last message is not the user's.
    pub fn append(
        &self,
        session: &Session,
        mut messages: Vec<Message>,
        replaces: bool,
    ) -> Result<Arc<Message>, ConversationError> {
        let input = messages.pop().filter(|message| message.kind() == MessageKind::User);
        let input = input.ok_or(ConversationError::NoInput)?;
        let mut tree = session.tree().lock();
        if replaces {
            let history = tree.history();
            let is_prefix = history.len() <= messages.len()
                && history.iter().zip(&messages).all(|(old, new)| old.body == new.body);
            if is_prefix {
                messages.drain(..history.len());
            } else {
                let thread =
                    Thread::new(messages.drain(..).map(Arc::new).collect(), &*self.ids, &*self.clock);
                let node = tree.add_side_thread(thread, None, RawObject::new(), &*self.ids);
                let node = node.map_err(SessionError::from)?;
                tree.checkout(node.as_str()).map_err(SessionError::from)?;
            }
        }
        tree.push(messages.into_iter().map(Arc::new), &*self.clock);
        Ok(Arc::new(input))
    }
}

/// The id of the session of a conversation.
pub fn session_id(principal: Option<&Principal>, id: &str) -> String {
    match principal {
        None => id.to_owned(),
        Some(principal) => format!("{}/{id}", principal.id().replace('%', "%25").replace('/', "%2F")),
    }
}
