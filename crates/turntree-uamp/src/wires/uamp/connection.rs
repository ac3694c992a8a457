//! Which session an event of a connection belongs to, without I/O.
//!
//! Spec: UAMP-1.0 §10

use std::collections::HashMap;
use std::sync::Arc;

use super::refusal::Refusal;
use crate::event::{ClientEvent, Envelope as _, Pong, ServerEvent};
use crate::types::ErrorCode;

/// Where an event goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// It creates a session.
    Create,
    /// It renews the token of the connection.
    Connection,
    /// It is for a session.
    Session(Arc<str>),
    /// It is answered at once.
    Answer(Box<ServerEvent>),
    /// It is refused.
    Refused(Box<Refusal>),
    /// It has no effect.
    Ignored,
}

/// The sessions of one connection.
#[derive(Debug)]
pub struct Sessions<T>(HashMap<Arc<str>, T>);

impl<T> Default for Sessions<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Sessions<T> {
    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a session.
    pub fn insert(&mut self, id: Arc<str>, session: T) {
        self.0.insert(id, session);
    }

    /// The session with this id.
    pub fn get(&self, id: &str) -> Option<&T> {
        self.0.get(id)
    }

    /// All sessions.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    /// Removes a session.
    pub fn remove(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Removes the sessions that have ended.
    pub fn retain(&mut self, is_open: impl Fn(&T) -> bool) {
        self.0.retain(|_, session| is_open(session));
    }

    /// Where an event goes: an event without a session belongs to the only one.
    pub fn target(&self, event: &ClientEvent) -> Target {
        let reply_to = || event.event_id().map(std::borrow::Cow::into_owned);
        let refuse = |refusal: Refusal| Target::Refused(Box::new(refusal.in_reply_to(reply_to())));
        if matches!(event, ClientEvent::SessionCreate(_)) {
            return Target::Create;
        }
        if let Some(id) = event.session_id() {
            return match self.0.get_key_value(&*id) {
                Some((id, _)) => Target::Session(Arc::clone(id)),
                None => refuse(super::opening::not_found(&id)),
            };
        }
        match event {
            ClientEvent::Ping(_) => {
                return Target::Answer(Box::new(Pong { reply_to: reply_to(), ..Pong::default() }.into()));
            }
            ClientEvent::SessionUpdate(update) if update.token.is_some() => return Target::Connection,
            ClientEvent::Unknown(_) | ClientEvent::ExtensionMessage(_) | ClientEvent::MessageRead(_) => {
                return Target::Ignored;
            }
            _ => {}
        }
        let mut ids = self.0.keys();
        match (ids.next(), ids.next()) {
            (Some(id), None) => Target::Session(Arc::clone(id)),
            (None, _) => refuse(Refusal::new(
                ErrorCode::SessionRequired,
                "there is no session yet; send `session.create` first",
            )),
            _ => refuse(Refusal::new(
                ErrorCode::SessionIdRequired,
                "the connection has several sessions; add `session_id` to the event",
            )),
        }
    }
}
