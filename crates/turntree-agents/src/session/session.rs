//! The session handle: identity, forks, checkpoint restore, snapshots and saving.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agent::Agent;
use crate::host::event_queue::EventQueue;
use crate::session::checkpoint::{Checkpoint, CheckpointState, Checkpoints, SubAgentStates};
use crate::session::error::SessionError;
use crate::session::id::is_session_id;
use crate::session::json::SessionSnapshot;
use crate::session::key::key_of;
use crate::session::metadata::{self, SessionMetadata};
use crate::session::options::{CheckpointInterval, SaveInterval, SessionOptions};
use crate::session::state::SessionState;
use crate::session::store::{SavedState, SessionStore};
use crate::session::unfinished_run::UnfinishedRun;
use crate::tree::node::NodeId;
use crate::tree::position::TreePosition;
use crate::tree::shared_tree::SharedTree;
use crate::tree::thread_tree::ThreadTree;
use crate::types::event::AgentStreamEvent;
use crate::types::middleware_state::MiddlewareState;
use turntree_core::ids::IdSource;
use turntree_core::json::{self, Extra, RawObject};
use turntree_core::message::Thread;
use turntree_core::time::{Clock, Timestamp};

/// The name of the branch that receives the messages after a restored checkpoint.
const ABANDONED: &str = "abandoned";

/// An agent with a conversation, checkpoints and saved state. Cloning returns another handle to the same session.
///
/// `run`, `resume` and `restore` are queued and execute one at a time, in the order of the calls. All other operations
/// are allowed at any time, also during a run.
#[derive(Clone)]
pub struct Session {
    pub(super) shared: Arc<Shared>,
    /// The agent of the runs of this handle.
    pub(super) agent: Agent,
    pub(super) persistence: Option<Arc<dyn SessionStore>>,
    pub(super) save_interval: SaveInterval,
    /// The session of the run that calls the agent as a tool: this session is a part of it and is saved with it.
    pub(super) caller: Option<Arc<Self>>,
    pub(super) entry: RunEntry,
}

/// How the runs of a handle enter the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunEntry {
    pub(super) ticket: Option<u64>,
    /// True if the event loop of the polling thread must continue to run while the run waits.
    pub(super) on_event_loop: bool,
}

/// The data of a session that never changes.
pub(super) struct Header {
    pub(super) id: Arc<str>,
    agent_id: Arc<str>,
    created_at: Timestamp,
    pub(super) interval: CheckpointInterval,
    extra: Extra,
    reserved: RawObject,
}

/// The data that all handles of a session share. Lock order: `state`, then `tree`.
pub(super) struct Shared {
    pub(super) header: Header,
    pub(super) tree: Arc<SharedTree>,
    metadata: Arc<dyn SessionMetadata>,
    pub(super) middleware_state: Arc<MiddlewareState>,
    state: Mutex<SessionState>,
    /// Held by the run or restore that executes now. Waiting ones acquire it in the order of their calls.
    pub(super) run_lock: Arc<tokio::sync::Mutex<()>>,
    /// What the store remembers of the session. Held during a save, so that an older state never overwrites a newer one.
    pub(super) saved: tokio::sync::Mutex<Option<SavedState>>,
    pub(super) ids: Arc<dyn IdSource>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Shared {
    /// Locks the state for one operation. Never hold the guard across an `await` or a call into the application.
    pub(super) fn state(&self) -> MutexGuard<'_, SessionState> {
        // Each operation leaves the state consistent before it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a new number that identifies a run.
    pub(super) fn new_ticket(&self) -> u64 {
        let mut state = self.state();
        state.last_ticket += 1;
        state.last_ticket
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("id", self.id()).finish_non_exhaustive()
    }
}

impl Session {
    /// Creates a session with an empty conversation.
    ///
    /// # Errors
    /// [`SessionError::InvalidId`] if the id is empty, too long or not printable; [`SessionError::Metadata`].
    pub fn new(agent: Agent, options: SessionOptions) -> Result<Self, SessionError> {
        let id = match &options.id {
            Some(id) if !is_session_id(id) => return Err(SessionError::InvalidId { id: id.to_string() }),
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
            checkpoints: Checkpoints::new(),
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

    /// Restores a saved session. The id, the interval and all data come from the snapshot. Of the options it uses
    /// persistence, save interval, metadata, ids and clock; the metadata should be those of the snapshot.
    pub fn from_snapshot(snapshot: SessionSnapshot, agent: Agent, options: SessionOptions) -> Self {
        let state = SessionState {
            checkpoints: snapshot.checkpoints,
            current: snapshot.current,
            sub_agents: snapshot.unfinished.as_ref().map(|run| run.sub_agents.clone()).unwrap_or_default(),
            running_sub_agents: Vec::new(),
            unsent_events: Vec::new(),
            tools: None,
            updated_at: snapshot.updated_at,
            last_current_node: snapshot.tree.current().id.clone(),
            unfinished: snapshot.unfinished,
            last_ticket: 0,
            running: None,
            event_loop_threads: Vec::new(),
        };
        let header = Header {
            id: snapshot.id,
            agent_id: snapshot.agent_id,
            created_at: snapshot.created_at,
            interval: snapshot.interval,
            extra: snapshot.extra,
            reserved: snapshot.reserved,
        };
        let shared = Shared {
            header,
            tree: Arc::new(SharedTree::new(snapshot.tree)),
            metadata: options.metadata,
            middleware_state: Arc::new(MiddlewareState::new(snapshot.middleware)),
            state: Mutex::new(state),
            run_lock: Arc::default(),
            saved: tokio::sync::Mutex::new(options.saved),
            ids: options.ids,
            clock: options.clock,
        };
        Self {
            shared: Arc::new(shared),
            agent,
            persistence: options.persistence,
            save_interval: options.save_interval,
            caller: None,
            entry: RunEntry::default(),
        }
    }

    /// Returns a handle to the same session that saves to another store, or not at all.
    #[must_use]
    pub fn with_persistence(&self, persistence: Option<Arc<dyn SessionStore>>) -> Self {
        Self { persistence, ..self.clone() }
    }

    /// Returns the id of the session.
    pub fn id(&self) -> &Arc<str> {
        &self.shared.header.id
    }

    /// Returns the id of the agent that the session was created with. It differs from that of [`Self::agent`] if the
    /// session was loaded with another agent.
    ///
    /// Spec: decision A69.
    pub fn agent_id(&self) -> &Arc<str> {
        &self.shared.header.agent_id
    }

    /// Returns the agent.
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Returns a handle to the same session whose runs use another agent, for example one with more tools for one run.
    /// [`Self::agent_id`] stays.
    #[must_use]
    pub fn with_agent(&self, agent: Agent) -> Self {
        Self { agent, ..self.clone() }
    }

    /// Returns the conversation. It may be changed at any time; a run that has started still continues from the history
    /// it started with.
    pub fn tree(&self) -> &Arc<SharedTree> {
        &self.shared.tree
    }

    /// Returns when the session was created.
    pub fn created_at(&self) -> Timestamp {
        self.shared.header.created_at
    }

    /// Returns when the session last changed: by a run, a fork, a restore, a checkout or a change of its tree.
    pub fn updated_at(&self) -> Timestamp {
        let mut state = self.shared.state();
        self.detect_checkout(&mut state);
        self.changed_at(&state)
    }

    /// The later one of the changes of the session and of its tree, which the application can change directly.
    fn changed_at(&self, state: &SessionState) -> Timestamp {
        self.shared.tree.lock().changed_at().map_or(state.updated_at, |tree| tree.max(state.updated_at))
    }

    /// Returns the values that the agent's middleware stores with the session.
    pub fn middleware_state(&self) -> &Arc<MiddlewareState> {
        &self.shared.middleware_state
    }

    /// Returns when checkpoints are created.
    pub fn interval(&self) -> CheckpointInterval {
        self.shared.header.interval
    }

    /// Returns all checkpoints, oldest first.
    pub fn checkpoints(&self) -> Vec<Arc<Checkpoint>> {
        self.shared.state().checkpoints.iter().cloned().collect()
    }

    /// Returns the newest checkpoint, or the one that was restored last.
    pub fn current_checkpoint(&self) -> Option<Arc<Checkpoint>> {
        self.shared.state().current_checkpoint().cloned()
    }

    /// Returns the run that is active, failed, was cancelled or was restored.
    pub fn unfinished(&self) -> Option<UnfinishedRun> {
        self.shared.state().unfinished.clone()
    }

    /// Returns true if [`Self::resume`] has a run to resume.
    pub fn is_resumable(&self) -> bool {
        self.shared.state().unfinished.as_ref().is_some_and(|unfinished| unfinished.run.is_some())
    }

    /// Returns a ticket for one run, to pass to [`Self::with_ticket`] and [`Self::is_running`].
    pub fn new_ticket(&self) -> u64 {
        self.shared.new_ticket()
    }

    /// Returns true if the run with this ticket is active.
    pub fn is_running(&self, ticket: u64) -> bool {
        self.shared.state().running == Some(ticket)
    }

    /// Returns a handle to the same session whose next run has this ticket. `on_event_loop`: an event loop polls the
    /// run, and must continue to run until the run ends.
    #[must_use]
    pub fn with_ticket(&self, ticket: u64, on_event_loop: bool) -> Self {
        Self { entry: RunEntry { ticket: Some(ticket), on_event_loop }, ..self.clone() }
    }

    /// Checks that this thread may block until the session's runs have ended.
    ///
    /// # Errors
    /// [`SessionError::WouldBlock`] if this thread's event loop polls one of these runs.
    pub fn check_may_block(&self) -> Result<(), SessionError> {
        if self.shared.state().event_loop_threads.contains(&std::thread::current().id()) {
            return Err(SessionError::WouldBlock { id: Arc::clone(self.id()) });
        }
        Ok(())
    }

    /// Starts a branch at a node and returns the new node. The current node does not change.
    ///
    /// # Errors
    /// [`SessionError::Tree`] if no node has this id.
    pub fn fork(&self, node: &str) -> Result<NodeId, SessionError> {
        let (mut state, shared) = (self.shared.state(), &self.shared);
        let branch = shared.tree.lock().branch(node, None, &*shared.ids, &*shared.clock)?;
        state.updated_at = shared.clock.now();
        Ok(branch)
    }

    /// Stores a side conversation in the session's tree: as a node under the root, with a history of its own. The
    /// current node does not change. Returns the new node.
    ///
    /// # Errors
    /// [`SessionError::Tree`] if the metadata has a key that the tree writes.
    ///
    /// Spec: decision A99.
    pub fn add_side_thread(&self, thread: Thread, metadata: RawObject) -> Result<NodeId, SessionError> {
        let (mut state, shared) = (self.shared.state(), &self.shared);
        let node = shared.tree.lock().add_side_thread(thread, None, metadata, &*shared.ids)?;
        state.updated_at = shared.clock.now();
        Ok(node)
    }

    /// Adds the session of a sub-agent to the active run. Checkpoints that are created later contain it.
    ///
    /// Spec: decision A73.
    pub fn add_sub_agent(&self, tool_call_id: &str, state: Arc<SessionSnapshot>) {
        self.shared.state().sub_agents.insert(tool_call_id, state);
    }

    /// Returns the sessions of the sub-agents that the active or unfinished run has called, by the ids of the tool calls
    /// that started them: finished, stopped and running ones.
    ///
    /// Spec: decisions A73, A74.
    pub fn sub_agent_states(&self) -> SubAgentStates {
        self.shared.state().all_sub_agents()
    }

    /// Restores a checkpoint, after earlier runs have ended.
    ///
    /// The checkpoint's node becomes current and has the messages that it had then. Later messages, and the checkpoints
    /// created there, move to a new branch of the node. The next run sees the messages of the checkpoint's run;
    /// [`Self::resume`] resumes that run.
    ///
    /// # Errors
    /// [`SessionError::UnknownCheckpoint`]; [`SessionError::MessagesRemoved`] if messages were removed from the node. The
    /// session does not change then.
    ///
    /// # Cancel safety
    /// Dropping the future while it waits changes nothing.
    ///
    /// Spec: UAP-1.0 §6.5, decisions A64, A65.
    pub async fn restore(&self, id: &str) -> Result<(), SessionError> {
        let _lock = Arc::clone(&self.shared.run_lock).lock_owned().await;
        let shared = &self.shared;
        let mut state = shared.state();
        let unknown =
            || SessionError::UnknownCheckpoint { id: id.to_owned(), session: Arc::clone(self.id()) };
        let index =
            state.checkpoints.iter().position(|checkpoint| *checkpoint.id == *id).ok_or_else(unknown)?;
        let checkpoint = state.checkpoints.get(index).map(Arc::clone).ok_or_else(unknown)?;
        let node = &checkpoint.position.node;
        let mut tree = shared.tree.lock();
        let found = tree.node(node.as_str()).map_or(0, |node| node.thread.messages.len());
        let length = checkpoint.position.length.unwrap_or(found);
        if length > found {
            let id = Arc::clone(&checkpoint.id);
            return Err(SessionError::MessagesRemoved { id, node: node.to_string(), needed: length, found });
        }
        tree.checkout(node.as_str())?;
        let name = Some(ABANDONED.to_owned());
        if let Some(tail) = tree.split(node.as_str(), length, name, &*shared.ids, &*shared.clock)? {
            state.move_checkpoints(node, length, &tail);
        }
        let position = TreePosition { node: node.clone(), length: Some(length) };
        let (uncommitted, run) = match &checkpoint.state {
            CheckpointState::Resumable(snapshot, _) => {
                (checkpoint.uncommitted.clone(), Some(snapshot.run_state()))
            }
            CheckpointState::Finished(_) => (checkpoint.messages_outside(&tree.history()), None),
        };
        let has_messages = run.is_some() || !uncommitted.is_empty();
        let sub_agents = SubAgentStates::default();
        let unfinished =
            UnfinishedRun { position, uncommitted, run, active: false, restored: true, sub_agents };
        state.unfinished = has_messages.then_some(unfinished);
        state.sub_agents = checkpoint.sub_agent_states.clone();
        state.current = Some(index);
        state.last_current_node = node.clone();
        state.updated_at = shared.clock.now();
        Ok(())
    }

    /// Returns the session's data at this moment. Shares everything with the session.
    ///
    /// # Errors
    /// [`SessionError::Metadata`] if the metadata cannot be written as JSON.
    pub fn snapshot(&self) -> Result<SessionSnapshot, SessionError> {
        let shared = &self.shared;
        let header = &shared.header;
        let metadata = metadata::checked(&*shared.metadata)?;
        let mut state = shared.state();
        self.detect_checkout(&mut state);
        let unfinished = state.unfinished.clone();
        Ok(SessionSnapshot {
            id: Arc::clone(&header.id),
            agent_id: Arc::clone(&header.agent_id),
            created_at: header.created_at,
            updated_at: self.changed_at(&state),
            tree: shared.tree.snapshot(),
            checkpoints: state.checkpoints.clone(),
            current: state.current,
            unfinished: unfinished.map(|run| UnfinishedRun { sub_agents: state.all_sub_agents(), ..run }),
            interval: header.interval,
            middleware: shared.middleware_state.all(),
            metadata,
            extra: header.extra.clone(),
            reserved: header.reserved.clone(),
        })
    }

    /// Returns the session as JSON.
    ///
    /// # Errors
    /// As for [`Self::snapshot`]; [`SessionError::Serialization`].
    ///
    /// Spec: UAP-1.0 §13.1.
    pub fn to_json(&self) -> Result<String, SessionError> {
        json::write(&self.snapshot()?).map_err(|error| SessionError::Serialization(error.to_string()))
    }

    /// Returns the key that a session is saved under: `session:` and the id in percent-encoding.
    pub fn key_of(id: &str) -> String {
        key_of(id)
    }

    /// Saves the session. Does nothing without persistence.
    ///
    /// # Errors
    /// [`SessionError::Store`], and those of [`Self::to_json`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the session may or may not have been saved; see [`SessionStore`].
    pub async fn save(&self) -> Result<(), SessionError> {
        if let Some(caller) = &self.caller {
            // Boxed: the caller can be a sub-agent too.
            return Box::pin(caller.save()).await;
        }
        let Some(store) = &self.persistence else { return Ok(()) };
        let mut saved = self.shared.saved.lock().await;
        // The snapshot has the checkpoints of these events.
        let events = self.shared.state().unsent_events.len();
        let snapshot = self.snapshot()?;
        let result = store.save(snapshot, &mut saved).await;
        result.map_err(|error| SessionError::Store { id: Arc::clone(self.id()), error })?;
        for (queue, event) in self.shared.state().take_unsent_events(events) {
            queue.push_and_wake(event);
        }
        Ok(())
    }

    /// Sends an event when the session is saved the next time; at once without a store.
    pub(super) fn send_when_saved(&self, events: &Arc<EventQueue>, event: AgentStreamEvent) {
        let saved = self.outermost();
        if saved.persistence.is_none() {
            events.push(event);
        } else {
            saved.shared.state().unsent_events.push((Arc::clone(events), event));
        }
    }

    /// True if [`Self::save`] writes to a store.
    pub(super) fn has_store(&self) -> bool {
        self.outermost().persistence.is_some()
    }

    /// Returns the session that is saved with this one in it.
    fn outermost(&self) -> &Self {
        std::iter::successors(Some(self), |session| session.caller.as_deref()).last().unwrap_or(self)
    }

    /// Updates the session if a checkout was made through the tree.
    fn detect_checkout(&self, state: &mut SessionState) {
        let current = self.shared.tree.lock().current().id.clone();
        if current != state.last_current_node {
            state.last_current_node = current;
            state.updated_at = self.shared.clock.now();
        }
    }
}
