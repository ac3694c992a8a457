//! The session: what it holds, how it goes back, and how it is saved. UAP-1.0 §6.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::session::checkpoint::{Checkpoint, Place, Stand, SubAgentStates};
use crate::session::error::SessionError;
use crate::session::json::{SessionSnapshot, is_uuid_v4};
use crate::session::metadata;
use crate::session::metadata::SessionMetadata;
use crate::session::state::{Book, Unfinished};
use crate::tree::node::NodeId;
use crate::tree::shared_tree::SharedTree;
use crate::tree::thread_tree::ThreadTree;
use crate::types::middleware_state::MiddlewareState;
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::{self, Extra, RawObject};
use turntree_core::message::Thread;
use turntree_core::persistence::PersistenceAdapter;
use turntree_core::time::{Clock, SystemClock, Timestamp};

/// The name of the branch that keeps what a session went back from.
const ABANDONED: &str = "abandoned";

/// When a session makes checkpoints. UAP-1.0 §6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointInterval {
    /// After every step.
    #[default]
    Step,
    /// After every run that has ended well.
    Turn,
    /// Never: there is nothing to restore.
    Off,
}

/// When a session with persistence is saved while it runs; at the end of a run it always is.
///
/// Whatever the interval, what people decided is saved before it is carried out, and again after each call that was
/// approved: a decision and its effect are worth a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveInterval {
    /// Not before the end of the run.
    #[default]
    Turn,
    /// When it begins, and after every step.
    Step,
    /// When it begins, after every model answer that wants tools, every tool and every step.
    Tool,
}

/// What a session is made of. All have a default.
pub struct SessionOptions {
    /// Its id, a UUIDv4; a fresh one when not given.
    pub id: Option<Arc<str>>,
    /// When checkpoints are made.
    pub interval: CheckpointInterval,
    /// Where it is saved after each run; nowhere when not given.
    pub persistence: Option<Arc<dyn PersistenceAdapter>>,
    /// When it is saved while it runs.
    pub save_interval: SaveInterval,
    /// The application's facts.
    pub metadata: Arc<dyn SessionMetadata>,
    /// Mints ids of nodes and checkpoints.
    pub ids: Arc<dyn IdSource>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            id: None,
            interval: CheckpointInterval::default(),
            persistence: None,
            save_interval: SaveInterval::default(),
            metadata: Arc::new(Mutex::new(RawObject::new())),
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
        }
    }
}

impl fmt::Debug for SessionOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SessionOptions")
            .field("id", &self.id)
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

/// An agent with a conversation that it remembers. Cloning gives another handle on the same session.
///
/// Runs, `resume` and `restore` come one after the other, in the order they were asked for; everything else may happen
/// at any time, also while a run is under way.
#[derive(Clone)]
pub struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) persistence: Option<Arc<dyn PersistenceAdapter>>,
    pub(super) save_interval: SaveInterval,
    pub(super) entry: Entry,
}

/// How the runs of a handle enter the line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) ticket: Option<u64>,
    /// The event loop of the thread that polls must go on while they wait.
    pub(super) on_loop: bool,
}

/// What all handles share. Where both are locked, the book is locked before the tree.
pub(super) struct Shared {
    pub(super) id: Arc<str>,
    pub(super) agent: Agent,
    agent_id: Arc<str>,
    created_at: Timestamp,
    pub(super) interval: CheckpointInterval,
    pub(super) tree: Arc<SharedTree>,
    metadata: Arc<dyn SessionMetadata>,
    /// What the agent's middleware keeps with it.
    pub(super) middleware_state: Arc<MiddlewareState>,
    extra: Extra,
    reserved: RawObject,
    book: Mutex<Book>,
    /// Whoever holds it is at work; the others wait in the order they came.
    pub(super) line: Arc<tokio::sync::Mutex<()>>,
    /// Saves come one after the other, so that an older state never lands on a newer one.
    saving: tokio::sync::Mutex<()>,
    pub(super) ids: Arc<dyn IdSource>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Shared {
    /// The book, for one operation. Never hold it over an `await` or a call of the application.
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        // Each operation leaves the book whole before it may panic.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a run.
    pub(super) fn ticket(&self) -> u64 {
        let mut book = self.book();
        book.tickets += 1;
        book.tickets
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

impl Session {
    /// A session that has said nothing.
    ///
    /// # Errors
    /// [`SessionError::InvalidId`] for an id that is no UUIDv4; [`SessionError::Metadata`].
    pub fn new(agent: Agent, options: SessionOptions) -> Result<Self, SessionError> {
        let id = match &options.id {
            Some(id) if !is_uuid_v4(id) => return Err(SessionError::InvalidId { id: id.to_string() }),
            Some(id) => Arc::clone(id),
            None => options.ids.string().into(),
        };
        metadata::checked(&*options.metadata)?;
        let now = options.clock.now();
        let snapshot = SessionSnapshot {
            id,
            agent_id: Arc::clone(agent.id()),
            created_at: now,
            updated_at: now,
            tree: ThreadTree::empty(&*options.ids, &*options.clock),
            checkpoints: Vec::new(),
            current: None,
            unfinished: None,
            interval: options.interval,
            middleware: RawObject::new(),
            metadata: RawObject::new(),
            extra: Extra::new(),
            reserved: RawObject::new(),
        };
        Ok(Self::from_snapshot(snapshot, agent, options))
    }

    /// A session that was saved. Id, interval and the rest come from the snapshot; of the options only persistence,
    /// metadata and sources count, and the metadata are expected to be those of the snapshot.
    pub fn from_snapshot(snapshot: SessionSnapshot, agent: Agent, options: SessionOptions) -> Self {
        let book = Book {
            checkpoints: snapshot.checkpoints,
            current: snapshot.current,
            sub_agents: snapshot.unfinished.as_ref().map(|left| left.sub_agents.clone()).unwrap_or_default(),
            children: Vec::new(),
            updated_at: snapshot.updated_at,
            seen: snapshot.tree.current().id.clone(),
            unfinished: snapshot.unfinished,
            tickets: 0,
            running: None,
            loops: Vec::new(),
        };
        let shared = Shared {
            id: snapshot.id,
            agent,
            agent_id: snapshot.agent_id,
            created_at: snapshot.created_at,
            interval: snapshot.interval,
            tree: Arc::new(SharedTree::new(snapshot.tree)),
            metadata: options.metadata,
            middleware_state: Arc::new(MiddlewareState::new(snapshot.middleware)),
            extra: snapshot.extra,
            reserved: snapshot.reserved,
            book: Mutex::new(book),
            line: Arc::default(),
            saving: tokio::sync::Mutex::default(),
            ids: options.ids,
            clock: options.clock,
        };
        Self {
            shared: Arc::new(shared),
            persistence: options.persistence,
            save_interval: options.save_interval,
            entry: Entry::default(),
        }
    }

    /// A handle on the same session whose runs are saved elsewhere, or nowhere.
    #[must_use]
    pub fn with_persistence(&self, persistence: Option<Arc<dyn PersistenceAdapter>>) -> Self {
        Self { persistence, ..self.clone() }
    }

    /// Its id.
    pub fn id(&self) -> &Arc<str> {
        &self.shared.id
    }

    /// The id of the agent that it was made with; another one than [`Self::agent`]'s where it was loaded (decision A69).
    pub fn agent_id(&self) -> &Arc<str> {
        &self.shared.agent_id
    }

    /// Its agent.
    pub fn agent(&self) -> &Agent {
        &self.shared.agent
    }

    /// The conversation; may be read and changed at any time. A run goes on from where it started all the same.
    pub fn tree(&self) -> &Arc<SharedTree> {
        &self.shared.tree
    }

    /// When it was made.
    pub fn created_at(&self) -> Timestamp {
        self.shared.created_at
    }

    /// When it last changed: by a run, a fork, a restore or a checkout.
    pub fn updated_at(&self) -> Timestamp {
        let mut book = self.shared.book();
        self.look(&mut book);
        book.updated_at
    }

    /// What the agent's middleware keeps with it.
    pub fn middleware_state(&self) -> &Arc<MiddlewareState> {
        &self.shared.middleware_state
    }

    /// When it makes checkpoints.
    pub fn interval(&self) -> CheckpointInterval {
        self.shared.interval
    }

    /// All checkpoints, oldest first.
    pub fn checkpoints(&self) -> Vec<Arc<Checkpoint>> {
        self.shared.book().checkpoints.clone()
    }

    /// The latest checkpoint, or the one that was restored.
    pub fn current_checkpoint(&self) -> Option<Arc<Checkpoint>> {
        self.shared.book().current().cloned()
    }

    /// The run that is under way, failed, was cancelled or was restored.
    pub fn unfinished(&self) -> Option<Unfinished> {
        self.shared.book().unfinished.clone()
    }

    /// Whether [`Self::resume`] has a run to go on with.
    pub fn is_resumable(&self) -> bool {
        self.shared.book().unfinished.as_ref().is_some_and(|unfinished| unfinished.run.is_some())
    }

    /// A ticket for one run: it tells later whether that run is under way.
    pub fn ticket(&self) -> u64 {
        self.shared.ticket()
    }

    /// Whether the run with this ticket is under way.
    pub fn is_running(&self, ticket: u64) -> bool {
        self.shared.book().running == Some(ticket)
    }

    /// A handle on the same session whose run has a ticket. `on_loop` says that an event loop polls it, which has to go
    /// on for the run to end.
    #[must_use]
    pub fn entering(&self, ticket: u64, on_loop: bool) -> Self {
        Self { entry: Entry { ticket: Some(ticket), on_loop }, ..self.clone() }
    }

    /// Refuses to wait for runs that this thread's own event loop drives.
    ///
    /// # Errors
    /// [`SessionError::WouldBlock`].
    pub fn check_waiting(&self) -> Result<(), SessionError> {
        if self.shared.book().loops.contains(&std::thread::current().id()) {
            return Err(SessionError::WouldBlock { id: Arc::clone(self.id()) });
        }
        Ok(())
    }

    /// Starts a branch at a node; the current node stays current. Gives the new node.
    ///
    /// # Errors
    /// [`SessionError::Tree`] for an unknown node.
    pub fn fork(&self, node: &str) -> Result<NodeId, SessionError> {
        let (mut book, shared) = (self.shared.book(), &self.shared);
        let branch = shared.tree.lock().branch(node, None, &*shared.ids, &*shared.clock)?;
        book.updated_at = shared.clock.now();
        Ok(branch)
    }

    /// Keeps a side conversation with the session: under the root, with a history of its own, never current
    /// (decision A99). Gives the new node.
    ///
    /// # Errors
    /// [`SessionError::Tree`] for metadata that the tree keeps for itself.
    pub fn plant(&self, thread: Thread, metadata: RawObject) -> Result<NodeId, SessionError> {
        let (mut book, shared) = (self.shared.book(), &self.shared);
        let node = shared.tree.lock().plant(thread, None, metadata, &*shared.ids)?;
        book.updated_at = shared.clock.now();
        Ok(node)
    }

    /// Keeps the session of a sub-agent of the run that is under way; the checkpoints made from now on hold it
    /// (decision A73).
    pub fn keep_sub_agent(&self, tool_call_id: &str, state: Arc<SessionSnapshot>) {
        self.shared.book().sub_agents.keep(tool_call_id, state);
    }

    /// The sessions of the sub-agents that the run has called which is under way or not finished, by the tool calls that
    /// started them: those that have ended, were stopped, or run now (decisions A73, A74).
    pub fn sub_agent_states(&self) -> SubAgentStates {
        self.shared.book().all_sub_agents()
    }

    /// Goes back to a checkpoint, once the runs that were asked for before are over. UAP-1.0 §6.5, decisions A64, A65.
    ///
    /// The node of the checkpoint is current again and has the messages that it had; what came after becomes a branch of
    /// it, and the checkpoints made there follow. The next run sees what the checkpoint's run had said until then;
    /// [`Self::resume`] goes on with that run.
    ///
    /// # Errors
    /// [`SessionError::UnknownCheckpoint`]; [`SessionError::Gone`] when messages were taken away. Nothing has changed then.
    ///
    /// # Cancel safety
    /// Dropped while it waits, it has changed nothing.
    pub async fn restore(&self, id: &str) -> Result<(), SessionError> {
        let _at_work = Arc::clone(&self.shared.line).lock_owned().await;
        let shared = &self.shared;
        let mut book = shared.book();
        let unknown =
            || SessionError::UnknownCheckpoint { id: id.to_owned(), session: Arc::clone(&shared.id) };
        let index =
            book.checkpoints.iter().position(|checkpoint| *checkpoint.id == *id).ok_or_else(unknown)?;
        let checkpoint = book.checkpoints.get(index).map(Arc::clone).ok_or_else(unknown)?;
        let node = &checkpoint.place.node;
        let mut tree = shared.tree.lock();
        let found = tree.node(node.as_str()).map_or(0, |node| node.thread.messages.len());
        let length = checkpoint.place.length.unwrap_or(found);
        if length > found {
            let id = Arc::clone(&checkpoint.id);
            return Err(SessionError::Gone { id, node: node.to_string(), needed: length, found });
        }
        tree.checkout(node.as_str())?;
        let name = Some(ABANDONED.to_owned());
        if let Some(tail) = tree.split(node.as_str(), length, name, &*shared.ids, &*shared.clock)? {
            book.follow(node, length, &tail);
        }
        let place = Place { node: node.clone(), length: Some(length) };
        book.unfinished = match &checkpoint.stand {
            Stand::Unfinished(point, _) => {
                let (before, run) = (checkpoint.before.clone(), Some(point.run()));
                let sub_agents = SubAgentStates::default();
                Some(Unfinished { place, before, run, restored: true, sub_agents })
            }
            Stand::Told(_) => {
                let before = checkpoint.pending(&tree.history());
                let sub_agents = SubAgentStates::default();
                let left = Unfinished { place, before, run: None, restored: true, sub_agents };
                (!left.before.is_empty()).then_some(left)
            }
        };
        book.sub_agents = checkpoint.sub_agent_states.clone();
        book.current = Some(index);
        book.seen = node.clone();
        book.updated_at = shared.clock.now();
        Ok(())
    }

    /// The session as it is now; shares everything.
    ///
    /// # Errors
    /// [`SessionError::Metadata`] when the metadata have no JSON.
    pub fn snapshot(&self) -> Result<SessionSnapshot, SessionError> {
        let metadata = metadata::checked(&*self.shared.metadata)?;
        let shared = &self.shared;
        let mut book = shared.book();
        self.look(&mut book);
        Ok(SessionSnapshot {
            id: Arc::clone(&shared.id),
            agent_id: Arc::clone(&shared.agent_id),
            created_at: shared.created_at,
            updated_at: book.updated_at,
            tree: shared.tree.snapshot(),
            checkpoints: book.checkpoints.clone(),
            current: book.current,
            unfinished: book
                .unfinished
                .clone()
                .map(|unfinished| Unfinished { sub_agents: book.all_sub_agents(), ..unfinished }),
            interval: shared.interval,
            middleware: shared.middleware_state.all(),
            metadata,
            extra: shared.extra.clone(),
            reserved: shared.reserved.clone(),
        })
    }

    /// Its JSON. UAP-1.0 §13.1.
    ///
    /// # Errors
    /// As [`Self::snapshot`]; [`SessionError::Unwritable`].
    pub fn to_json(&self) -> Result<String, SessionError> {
        json::write(&self.snapshot()?).map_err(|error| SessionError::Unwritable(error.to_string()))
    }

    /// The key under which a session is saved.
    pub fn key_of(id: &str) -> String {
        format!("session:{id}")
    }

    /// Saves the session. Does nothing where it has no persistence.
    ///
    /// # Errors
    /// [`SessionError::Store`], and those of [`Self::to_json`].
    ///
    /// # Cancel safety
    /// Dropped, it has saved the session or not; see [`PersistenceAdapter`].
    pub async fn save(&self) -> Result<(), SessionError> {
        let Some(persistence) = &self.persistence else { return Ok(()) };
        let _in_order = self.shared.saving.lock().await;
        let text = self.to_json()?;
        Ok(persistence.save(Self::key_of(self.id()), text).await?)
    }

    /// Notices a checkout that was made through the tree.
    fn look(&self, book: &mut Book) {
        let current = self.shared.tree.lock().current().id.clone();
        if current != book.seen {
            book.seen = current;
            book.updated_at = self.shared.clock.now();
        }
    }
}
