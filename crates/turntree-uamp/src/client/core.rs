//! What a client knows and sends, without I/O.
//!
//! ```text
//!   user ──open, run, resolve, cancel, end──> ClientCore ──Output::Send──> connection
//!   user <─Opened, Event, Failed, Closed───              <─on_text, on_connected, on_disconnected──
//! ```
//!
//! The events of a response are kept until the response has begun. After a lost connection the client continues its
//! sessions (`extensions.uamp.resume`), receives what it has missed, and sends again what the server does not have. Each
//! event keeps its id, so that a server can recognise it.
//!
//! Spec: UAMP-1.0 §5, §6, §10

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use turntree_core::ids::IdSource;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::secret::Secret;

use super::error::ClientError;
use crate::event::{
    ClientEvent, Envelope, EventLimits, InputText, Ping, ResponseCancel, ResponseCreate, ResponseError,
    ServerEvent, SessionCreate, SessionCreated, SessionEnd, ToolResultEvent,
};
use crate::session::ToolOutcome;
use crate::types::{
    ErrorCode, ErrorDetails, Modality, ResponseFormat, ResponseOptions, Resume, SessionConfig, UampExtension,
};

/// The version that the client speaks.
const VERSION: &str = "1.0";

/// A session of the client, before and after it has an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(u64);

/// What a response answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResponseInput {
    /// The text of the user.
    pub text: String,
    /// Settings, for example the tools that the client runs.
    pub options: Option<ResponseOptions>,
    /// The form of the output.
    pub response_format: Option<ResponseFormat>,
}

/// What the user of the core must do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send an event to the server.
    Send(ClientEvent),
    /// The session is open.
    Opened(SessionKey, Box<SessionCreated>),
    /// An event of the session's response.
    Event(SessionKey, Box<ServerEvent>),
    /// The response of the session has ended.
    Ended(SessionKey),
    /// The session could not be opened, or its response has failed.
    Failed(SessionKey, ClientError),
    /// The server has ended the session.
    Closed(SessionKey),
}

/// A response that has not ended.
#[derive(Debug, Default)]
struct Active {
    /// The events that ask for it, until it has begun.
    request: Vec<ClientEvent>,
    /// The results of tools.
    results: Vec<ClientEvent>,
    response_id: Option<String>,
    is_cancelled: bool,
}

impl Active {
    /// True if an error about this event is one about this response.
    fn asked_with(&self, reply_to: Option<&str>) -> bool {
        let asked = |event: &ClientEvent| event.event_id().as_deref() == reply_to;
        reply_to.is_some() && self.request.iter().any(asked)
    }
}

#[derive(Debug)]
struct Slot {
    agent: Option<String>,
    session_id: Option<String>,
    after_seq: u64,
    active: Option<Active>,
    /// The ping behind what the client has missed; until its answer the session sends nothing.
    catching_up: Option<String>,
    is_open: bool,
}

/// The state of a client. It does no I/O.
#[derive(Debug)]
pub struct ClientCore {
    ids: Arc<dyn IdSource>,
    token: Option<Secret>,
    limits: EventLimits,
    slots: BTreeMap<SessionKey, Slot>,
    /// The sessions that are opened or continued, one after the other; the first one waits for its answer.
    opening: VecDeque<SessionKey>,
    last_key: u64,
    is_connected: bool,
}

impl ClientCore {
    /// A client without sessions and without a connection.
    pub fn new(token: Option<Secret>, ids: Arc<dyn IdSource>) -> Self {
        let (slots, opening) = (BTreeMap::new(), VecDeque::new());
        Self { ids, token, limits: EventLimits::default(), slots, opening, last_key: 0, is_connected: false }
    }

    /// True if there is a session for which a lost connection must be made again.
    pub fn has_sessions(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Opens a session.
    pub fn open(&mut self, agent: Option<String>) -> (SessionKey, Vec<Output>) {
        self.last_key = self.last_key.saturating_add(1);
        let key = SessionKey(self.last_key);
        let slot =
            Slot { agent, session_id: None, after_seq: 0, active: None, catching_up: None, is_open: false };
        self.slots.insert(key, slot);
        self.opening.push_back(key);
        let is_first = self.opening.len() == 1 && self.is_connected;
        (key, if is_first { self.open_next() } else { Vec::new() })
    }

    /// Asks for a response.
    ///
    /// # Errors
    /// The session has ended, or has a response.
    pub fn run(&mut self, key: SessionKey, input: ResponseInput) -> Result<Vec<Output>, ClientError> {
        let ids = Arc::clone(&self.ids);
        let slot = self.slots.get_mut(&key).ok_or(ClientError::Closed)?;
        if slot.active.is_some() {
            return Err(ClientError::Busy);
        }
        let ResponseInput { text, options, response_format } = input;
        let text = InputText { text, event_id: Some(ids.string()), ..InputText::default() };
        let create = ResponseCreate {
            response: options,
            response_format,
            event_id: Some(ids.string()),
            ..ResponseCreate::default()
        };
        let request =
            vec![ClientEvent::InputText(Box::new(text)), ClientEvent::ResponseCreate(Box::new(create))];
        slot.active = Some(Active { request: request.clone(), ..Active::default() });
        Ok(self.send_all(key, request))
    }

    /// Gives the result of a tool that the client has run.
    pub fn resolve(&mut self, key: SessionKey, outcome: ToolOutcome) -> Vec<Output> {
        let event = ClientEvent::ToolResult(Box::new(ToolResultEvent {
            event_id: Some(self.ids.string()),
            call_id: outcome.call_id,
            result: outcome.result,
            is_error: outcome.is_error.then_some(true),
            ..ToolResultEvent::default()
        }));
        let Some(active) = self.slots.get_mut(&key).and_then(|slot| slot.active.as_mut()) else {
            return Vec::new();
        };
        active.results.push(event.clone());
        self.send_all(key, vec![event])
    }

    /// Cancels the response of a session. Without one, this does nothing.
    pub fn cancel(&mut self, key: SessionKey) -> Vec<Output> {
        let Some(active) = self.slots.get_mut(&key).and_then(|slot| slot.active.as_mut()) else {
            return Vec::new();
        };
        if std::mem::replace(&mut active.is_cancelled, true) {
            return Vec::new();
        }
        let event = self.cancel_event(key);
        self.send_all(key, vec![event])
    }

    /// Ends a session.
    pub fn end(&mut self, key: SessionKey) -> Vec<Output> {
        let event = SessionEnd { event_id: Some(self.ids.string()), ..SessionEnd::default() };
        let mut outputs = self.send_all(key, vec![ClientEvent::SessionEnd(Box::new(event))]);
        outputs.extend(self.remove(key, None));
        outputs
    }

    /// The connection is made: opens the sessions, or continues them.
    pub fn on_connected(&mut self) -> Vec<Output> {
        self.is_connected = true;
        self.opening = self.slots.keys().copied().collect();
        self.open_next()
    }

    /// The connection is lost.
    pub fn on_disconnected(&mut self) {
        self.is_connected = false;
        self.opening.clear();
        for slot in self.slots.values_mut() {
            slot.is_open = false;
            slot.catching_up = None;
        }
    }

    /// The connection cannot be made again: all sessions fail.
    pub fn on_given_up(&mut self, error: &ClientError) -> Vec<Output> {
        self.on_disconnected();
        std::mem::take(&mut self.slots).into_keys().map(|key| Output::Failed(key, error.clone())).collect()
    }

    /// Reads an event of the server. A text that is not one is ignored, as the protocol demands of unknown events.
    pub fn on_text(&mut self, text: &str) -> Vec<Output> {
        match ServerEvent::parse(text, &self.limits) {
            Ok(event) => self.on_event(event),
            Err(error) => {
                log::warn!(target: "turntree.uamp", "the server has sent a text that is not an event: {error}");
                Vec::new()
            }
        }
    }

    fn on_event(&mut self, event: ServerEvent) -> Vec<Output> {
        if let ServerEvent::SessionCreated(created) = event {
            return self.on_created(created);
        }
        let key = self.key_of(&event);
        if key.is_some_and(|key| self.was_seen(key, &event)) {
            return Vec::new();
        }
        if let ServerEvent::Pong(pong) = &event {
            return self.on_pong(pong.reply_to.as_deref());
        }
        let Some(key) = key else { return self.on_error_of_opening(event) };
        match event {
            ServerEvent::SessionEnd(_) => self.remove(key, Some(Output::Closed(key))),
            ServerEvent::SessionError(error) if self.ends_session(key, &error.error) => {
                self.fail_session(key, error.error)
            }
            ServerEvent::SessionError(error) => {
                let is_of_response = |active: &Active| {
                    active.response_id.is_none() || active.asked_with(error.reply_to.as_deref())
                };
                let has_failed = self.active(key).is_some_and(is_of_response);
                let failure = ClientError::Server(Box::new(error.error.clone()));
                self.deliver(key, ServerEvent::SessionError(error), has_failed.then_some(failure))
            }
            ServerEvent::ResponseError(error) => self.on_response_error(key, error),
            ServerEvent::ResponseCreated(created) => {
                if let Some(active) = self.slots.get_mut(&key).and_then(|slot| slot.active.as_mut()) {
                    active.response_id.get_or_insert_with(|| created.response_id.clone());
                    active.request.clear();
                }
                self.deliver(key, ServerEvent::ResponseCreated(created), None)
            }
            ServerEvent::ResponseDone(_) | ServerEvent::ResponseCancelled(_) => self.on_terminal(key, event),
            other => self.deliver(key, other, None),
        }
    }

    /// The session of an event: that which it names, or the only one.
    fn key_of(&self, event: &ServerEvent) -> Option<SessionKey> {
        let mut open = self.slots.iter().filter(|(_, slot)| slot.session_id.is_some());
        match event.session_id() {
            Some(id) => open.find(|(_, slot)| slot.session_id.as_deref() == Some(&*id)).map(|(key, _)| *key),
            None if self.opening.is_empty() => {
                let (key, _) = open.next()?;
                open.next().is_none().then_some(*key)
            }
            None => None,
        }
    }

    /// True if the event was received before the connection was lost.
    fn was_seen(&mut self, key: SessionKey, event: &ServerEvent) -> bool {
        let (Some(seq), Some(slot)) = (event.seq(), self.slots.get_mut(&key)) else { return false };
        if seq <= slot.after_seq {
            return true;
        }
        slot.after_seq = seq;
        false
    }

    fn on_created(&mut self, created: Box<SessionCreated>) -> Vec<Output> {
        let Some(key) = self.opening.pop_front() else { return Vec::new() };
        let mut outputs = Vec::new();
        let id = created.session_id.clone().unwrap_or_else(|| created.session.id.clone());
        // A session of another process has a log of its own: the event that creates it is a part of that log.
        let has_log = created.resumed == Some(true) && created.seq.is_none();
        let ping_id = self.ids.string();
        if let Some(slot) = self.slots.get_mut(&key) {
            let is_continued = slot.session_id.replace(id.clone()).is_some();
            let began = slot.active.as_ref().is_some_and(|active| active.response_id.is_some());
            slot.is_open = true;
            slot.after_seq = if has_log { slot.after_seq } else { created.seq.unwrap_or(0) };
            if is_continued && !has_log && began {
                slot.active = None;
                let reason = "it no longer has the events of the response";
                outputs.push(Output::Failed(key, ClientError::Lost { what: "the response", reason }));
            } else if is_continued && slot.active.is_some() {
                slot.catching_up = Some(ping_id.clone());
                // With the id of the session, the answer comes after what the client has missed.
                let ping = Ping { event_id: Some(ping_id), session_id: Some(id), ..Ping::default() };
                outputs.push(Output::Send(ClientEvent::Ping(Box::new(ping))));
            }
            outputs.insert(0, Output::Opened(key, created));
            if !is_continued {
                outputs.extend(self.pending(key));
            }
        }
        outputs.extend(self.open_next());
        outputs
    }

    /// The server has sent all that the client has missed: what it does not have is sent again.
    fn on_pong(&mut self, reply_to: Option<&str>) -> Vec<Output> {
        let caught_up = |slot: &Slot| slot.catching_up.is_some() && slot.catching_up.as_deref() == reply_to;
        let Some(key) = self.slots.iter().find(|(_, slot)| caught_up(slot)).map(|(key, _)| *key) else {
            return Vec::new();
        };
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.catching_up = None;
        }
        self.pending(key)
    }

    /// Sends the events of the response that the server may not have.
    fn pending(&mut self, key: SessionKey) -> Vec<Output> {
        let Some(active) = self.active(key) else { return Vec::new() };
        let mut events = active.request.clone();
        events.extend(active.results.iter().cloned());
        if active.is_cancelled {
            events.push(self.cancel_event(key));
        }
        self.send_all(key, events)
    }

    /// An error that belongs to no open session: that of the session that is being opened.
    fn on_error_of_opening(&mut self, event: ServerEvent) -> Vec<Output> {
        let error = match event {
            ServerEvent::SessionError(event) => event.error,
            ServerEvent::ResponseError(event) => event.error,
            _ => return Vec::new(),
        };
        match self.opening.front().copied() {
            Some(key) => self.fail_session(key, error),
            None => Vec::new(),
        }
    }

    /// True if the session cannot be used after this error.
    fn ends_session(&self, key: SessionKey, error: &ErrorDetails) -> bool {
        error.code == ErrorCode::SessionNotFound || self.opening.front() == Some(&key)
    }

    /// Forgets a session that the server refuses, and opens the next one if it waited for this one.
    fn fail_session(&mut self, key: SessionKey, error: ErrorDetails) -> Vec<Output> {
        let is_opening = self.opening.front() == Some(&key);
        let was_open = self.slots.get(&key).is_some_and(|slot| slot.session_id.is_some());
        let error = if was_open && error.code == ErrorCode::SessionNotFound {
            ClientError::Lost { what: "the session", reason: "it was away for too long" }
        } else {
            ClientError::Server(Box::new(error))
        };
        let mut outputs = self.remove(key, Some(Output::Failed(key, error)));
        if is_opening {
            outputs.extend(self.open_next());
        }
        outputs
    }

    fn on_response_error(&mut self, key: SessionKey, event: Box<ResponseError>) -> Vec<Output> {
        let Some(active) = self.active(key) else { return Vec::new() };
        let is_terminal = match (&event.response_id, &active.response_id) {
            (Some(of_event), Some(own)) => of_event == own,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => event.reply_to.is_none() || active.asked_with(event.reply_to.as_deref()),
        };
        // Results that are sent again after a resume have no call, and a response that has ended cannot be cancelled.
        let is_repetition =
            matches!(event.error.code, ErrorCode::UnknownCallId | ErrorCode::ResponseNotActive)
                && !is_terminal;
        if is_repetition {
            return Vec::new();
        }
        let failure = is_terminal.then(|| ClientError::Server(Box::new(event.error.clone())));
        self.deliver(key, ServerEvent::ResponseError(event), failure)
    }

    fn on_terminal(&mut self, key: SessionKey, event: ServerEvent) -> Vec<Output> {
        let Some(slot) = self.slots.get_mut(&key) else { return Vec::new() };
        if slot.active.take().is_none() {
            return Vec::new();
        }
        slot.catching_up = None;
        vec![Output::Event(key, Box::new(event)), Output::Ended(key)]
    }

    /// Gives an event to the response of the session, and ends the response if it has failed.
    fn deliver(&mut self, key: SessionKey, event: ServerEvent, failure: Option<ClientError>) -> Vec<Output> {
        let Some(slot) = self.slots.get_mut(&key) else { return Vec::new() };
        let mut outputs = Vec::new();
        if slot.active.is_some() {
            outputs.push(Output::Event(key, Box::new(event)));
        }
        if let Some(failure) = failure {
            slot.active = None;
            outputs.push(Output::Failed(key, failure));
        }
        outputs
    }

    fn active(&self, key: SessionKey) -> Option<&Active> {
        self.slots.get(&key)?.active.as_ref()
    }

    /// Forgets a session.
    fn remove(&mut self, key: SessionKey, last: Option<Output>) -> Vec<Output> {
        self.opening.retain(|opening| *opening != key);
        self.slots.remove(&key);
        last.into_iter().collect()
    }

    /// Sends events of a session, if it can be reached now. What it cannot send now is sent by [`Self::pending`].
    fn send_all(&self, key: SessionKey, events: Vec<ClientEvent>) -> Vec<Output> {
        let Some(slot) = self.slots.get(&key) else { return Vec::new() };
        let Some(id) = slot.session_id.as_ref().filter(|_| slot.is_open && slot.catching_up.is_none()) else {
            return Vec::new();
        };
        let addressed = events.into_iter().map(|mut event| {
            event.set_session_id(id.clone());
            Output::Send(event)
        });
        addressed.collect()
    }

    fn cancel_event(&self, key: SessionKey) -> ClientEvent {
        let response_id = self.active(key).and_then(|active| active.response_id.clone());
        let event_id = Some(self.ids.string());
        ClientEvent::ResponseCancel(Box::new(ResponseCancel {
            event_id,
            response_id,
            ..ResponseCancel::default()
        }))
    }

    /// The event that opens or continues the next session.
    fn open_next(&self) -> Vec<Output> {
        let Some(slot) = self.opening.front().and_then(|key| self.slots.get(key)) else { return Vec::new() };
        let resume = slot.session_id.clone().map(|session_id| Resume {
            session_id,
            after_seq: slot.after_seq,
            ..Resume::default()
        });
        let extensions = resume.and_then(|resume| {
            let extension = UampExtension { resume: Some(resume), ..UampExtension::default() };
            let mut extensions = RawObject::new();
            extensions.insert("uamp", RawJson::from_value(&extension).ok()?);
            Some(extensions)
        });
        let config =
            SessionConfig { modalities: Some(vec![Modality::Text]), extensions, ..SessionConfig::default() };
        vec![Output::Send(ClientEvent::SessionCreate(Box::new(SessionCreate {
            event_id: Some(self.ids.string()),
            uamp_version: Some(VERSION.to_owned()),
            session: Some(config),
            agent: slot.agent.clone(),
            token: self.token.as_ref().map(|token| token.expose().to_owned()),
            ..SessionCreate::default()
        })))]
    }
}
