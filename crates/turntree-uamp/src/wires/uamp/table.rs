//! The sessions of a server.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::log::EventLog;
use crate::event::{ClientEvent, Envelope as _, ServerEvent};
use crate::types::ErrorCode;

/// Ids of events that are remembered, so that an event that is sent again has no effect.
const REMEMBERED: usize = 256;

/// What a session is told.
#[derive(Debug)]
pub(super) enum Command {
    /// An event of the client.
    Event(ClientEvent),
    /// An event of the client with a new token, which expires at this time.
    Renew(ClientEvent, Option<i64>),
    /// The client has connected again, with a token that expires at this time.
    Announce(Option<i64>, oneshot::Sender<Vec<ServerEvent>>),
    /// An event of another session of the chat.
    Broadcast(ServerEvent),
    /// The client's request is refused.
    Refuse(ErrorCode, String, Option<String>),
    /// End without an event when all responses have ended. The answer comes when all commands before are done.
    EndWhenIdle(oneshot::Sender<()>),
    /// End now.
    End(&'static str),
}

/// A session that runs. Cloning is cheap.
#[derive(Debug)]
pub(super) struct SessionHandle {
    /// The id.
    pub id: Arc<str>,
    /// The principal who created it.
    pub principal: Option<Arc<str>>,
    /// The chat.
    pub chat: Option<Arc<str>>,
    /// The events.
    pub log: Arc<EventLog>,
    /// To the session.
    pub commands: mpsc::Sender<Command>,
    /// The event that created the session, and the last events.
    pub event_ids: Mutex<VecDeque<String>>,
    /// The sequence number of the last event before the last response.
    pub response_began: AtomicU64,
}

impl SessionHandle {
    /// Gives the session a command. Returns false if the session has ended, if too many commands wait, or if too many
    /// answers wait for a client that does not read.
    pub(super) fn send(&self, command: Command) -> bool {
        let is_of_client = matches!(
            command,
            Command::Event(_) | Command::Renew(..) | Command::Refuse(..) | Command::Broadcast(_)
        );
        !(is_of_client && self.log.is_flooded()) && self.commands.try_send(command).is_ok()
    }

    /// Remembers the id of an event. Returns false if it is remembered already: the event has no effect. Each ping is
    /// answered.
    pub(super) fn remember(&self, event: &ClientEvent) -> bool {
        let id = event.event_id().filter(|_| !matches!(event, ClientEvent::Ping(_)));
        let Some(id) = id else { return true };
        let mut ids = self.event_ids();
        if ids.iter().any(|known| **known == *id) {
            return false;
        }
        if ids.len() >= REMEMBERED {
            ids.pop_front();
        }
        ids.push_back(id.into_owned());
        true
    }

    /// Forgets the id of an event that the session did not take, so that the client can send it again.
    pub(super) fn forget(&self, id: Option<&str>) {
        if let Some(id) = id {
            self.event_ids().retain(|known| known != id);
        }
    }

    fn event_ids(&self) -> MutexGuard<'_, VecDeque<String>> {
        // Each operation leaves the list consistent.
        self.event_ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this principal may use the session.
    pub(super) fn belongs_to(&self, principal: Option<&str>) -> bool {
        self.principal.as_deref() == principal
    }
}

/// Why a session cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAdded {
    /// The id is in use.
    Exists,
    /// The server has too many sessions.
    Full,
}

/// The sessions of a server.
#[derive(Debug, Default)]
pub(super) struct SessionTable {
    sessions: Mutex<HashMap<Arc<str>, Arc<SessionHandle>>>,
}

impl SessionTable {
    fn sessions(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<SessionHandle>>> {
        // Each operation leaves the map consistent.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session.
    pub(super) fn add(&self, handle: &Arc<SessionHandle>, limit: usize) -> Result<(), NotAdded> {
        let mut sessions = self.sessions();
        if sessions.len() >= limit {
            return Err(NotAdded::Full);
        }
        match sessions.entry(Arc::clone(&handle.id)) {
            Entry::Occupied(_) => Err(NotAdded::Exists),
            Entry::Vacant(entry) => {
                entry.insert(Arc::clone(handle));
                Ok(())
            }
        }
    }

    /// The session of a principal with this id.
    pub(super) fn get(&self, id: &str, principal: Option<&str>) -> Option<Arc<SessionHandle>> {
        self.sessions().get(id).filter(|session| session.belongs_to(principal)).cloned()
    }

    /// Removes a session. Another one with the same id stays.
    pub(super) fn remove(&self, session: &Arc<SessionHandle>) {
        let mut sessions = self.sessions();
        if sessions.get(&session.id).is_some_and(|found| Arc::ptr_eq(found, session)) {
            sessions.remove(&session.id);
        }
    }

    /// The number of sessions.
    pub(super) fn len(&self) -> usize {
        self.sessions().len()
    }

    /// Sends an event to the other sessions of a chat.
    pub(super) fn broadcast(&self, from: &SessionHandle, event: &ServerEvent) {
        if from.chat.is_none() {
            return;
        }
        let sessions = self.sessions();
        let others = sessions.values().filter(|other| {
            other.chat == from.chat && other.principal == from.principal && other.id != from.id
        });
        for other in others {
            // A session that is too busy misses that somebody types.
            other.send(Command::Broadcast(event.clone()));
        }
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        for session in self.sessions().values() {
            session.send(Command::End("shutdown"));
        }
    }
}
