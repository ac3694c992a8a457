//! A WebSocket connection with its sessions.
//!
//! One half reads the events of the client in their order, the other one writes the events of all sessions in turn.
//!
//! Spec: UAMP-1.0 §13.1

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::mpsc;
use turntree_core::runtime;
use turntree_server::{CloseFrame, Message, WebSocket};

use super::connection::{Sessions, Target};
use super::log::{Attachment, LogGap, MAX_UNREAD_EVENTS};
use super::mailbox::{Mail, Mailbox};
use super::opening::{Identity, MAX_COMMANDS, Opened, Opener, check_ids, not_found};
use super::refusal::{CLOSE_AGENT_NOT_FOUND, CLOSE_POLICY, CLOSE_UNAUTHORIZED, Refusal};
use super::table::{Command, SessionHandle};
use crate::event::{ClientEvent, Envelope as _, ServerEvent, SessionCreate, SessionUpdated};
use crate::service::Route;
use crate::types::ErrorCode;

/// The client reads too slowly.
const CLOSE_OVERLOAD: u16 = 1013;

/// Events one after the other that cannot be read before the connection is closed.
const MAX_UNREADABLE: usize = 100;

/// How long a slow client has to read why its connection ends.
const FAREWELL: Duration = Duration::from_secs(30);

/// A session of the connection.
#[derive(Debug)]
pub(super) struct Joined {
    handle: Arc<SessionHandle>,
    /// The connection reads the session's events until this is dropped.
    _attachment: Attachment,
}

/// Serves a connection until it ends. Its sessions continue without it for the resume window.
pub(super) async fn serve(opener: Opener, route: Route, identity: Option<Identity>, socket: WebSocket) {
    let mailbox = Arc::new(Mailbox::default());
    let slow = opener.limits.slow_consumer;
    let reader =
        Reader { opener, route, identity, mailbox: Arc::clone(&mailbox), sessions: Sessions::default() };
    let (incoming, outgoing) = socket.split();
    let ended = {
        let reading = std::pin::pin!(reader.read(incoming));
        let writing = std::pin::pin!(write(&mailbox, &outgoing, slow));
        match select(reading, writing).await {
            // The connection is refused: the reason is written first.
            Either::Left((Some(code), writing)) => {
                mailbox.close(code);
                writing.await
            }
            Either::Left((None, _)) => Ended::Closed,
            Either::Right((ended, _)) => ended,
        }
    };
    if ended == Ended::TooSlow {
        let error =
            Refusal::new(ErrorCode::SlowConsumer, "the client reads too slowly; connect again and resume");
        let close = CloseFrame { code: CLOSE_OVERLOAD, reason: "slow consumer".to_owned() };
        let farewell = async {
            outgoing.send(Message::Text(error.event().to_json())).await?;
            outgoing.send(Message::Close(Some(close))).await
        };
        let limit = std::pin::pin!(runtime::sleep(FAREWELL));
        drop(select(std::pin::pin!(farewell), limit).await);
    }
}

/// Tells a client that the path of its connection names no agent: browsers see no response to a handshake.
pub(super) async fn serve_unknown_agent(opener: Opener, message: String, socket: WebSocket) {
    let mailbox = Arc::new(Mailbox::default());
    let slow = opener.limits.slow_consumer;
    let route = Route { agent: None, base: "".into(), path: "".into() };
    let reader = Reader {
        opener,
        route,
        identity: None,
        mailbox: Arc::clone(&mailbox),
        sessions: Sessions::default(),
    };
    reader.push(Refusal::new(ErrorCode::AgentNotFound, message).event());
    mailbox.close(CLOSE_AGENT_NOT_FOUND);
    let (_incoming, outgoing) = socket.split();
    write(&mailbox, &outgoing, slow).await;
}

/// How the writing of a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Closed,
    TooSlow,
}

/// Writes what the connection has to send.
pub(super) async fn write(mailbox: &Mailbox, outgoing: &mpsc::Sender<Message>, slow: Duration) -> Ended {
    loop {
        let (log, reader) = match mailbox.next().await {
            Mail::Control(frame) => match send(outgoing, Message::Text(frame), slow).await {
                Ok(()) => continue,
                Err(ended) => return ended,
            },
            Mail::Close(code) => {
                let reason = match code {
                    CLOSE_UNAUTHORIZED => "unauthorized",
                    CLOSE_AGENT_NOT_FOUND => "no such agent",
                    CLOSE_POLICY => "too many events that cannot be read",
                    _ => "",
                };
                let frame = CloseFrame { code, reason: reason.to_owned() };
                // The client may have gone.
                let _ = send(outgoing, Message::Close(Some(frame)), slow).await;
                return Ended::Closed;
            }
            Mail::Log(log, reader) => (log, reader),
        };
        let taken = log.take(reader);
        for frame in taken.frames {
            if let Err(ended) = send(outgoing, Message::Text(frame.json.to_string()), slow).await {
                return ended;
            }
        }
        if taken.has_more {
            mailbox.push_log(log, reader);
        }
    }
}

async fn send(outgoing: &mpsc::Sender<Message>, message: Message, slow: Duration) -> Result<(), Ended> {
    // Most messages are sent at once, without a timer.
    let message = match outgoing.try_send(message) {
        Ok(()) => return Ok(()),
        Err(mpsc::error::TrySendError::Closed(_)) => return Err(Ended::Closed),
        Err(mpsc::error::TrySendError::Full(message)) => message,
    };
    let sending = std::pin::pin!(outgoing.send(message));
    match select(sending, std::pin::pin!(runtime::sleep(slow))).await {
        Either::Left((Ok(()), _)) => Ok(()),
        Either::Left((Err(_), _)) => Err(Ended::Closed),
        Either::Right(_) => Err(Ended::TooSlow),
    }
}

/// Reads the events of the client.
pub(super) struct Reader {
    pub(super) opener: Opener,
    pub(super) route: Route,
    pub(super) identity: Option<Identity>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) sessions: Sessions<Joined>,
}

impl Reader {
    /// Reads until the connection ends, or until it must be closed with a code.
    async fn read(mut self, mut incoming: mpsc::Receiver<Message>) -> Option<u16> {
        let mut unreadable = 0;
        while let Some(message) = incoming.recv().await {
            self.mailbox.has_room().await;
            let limits = &self.opener.limits.event;
            let (event, bytes) = match &message {
                Message::Text(text) => (ClientEvent::parse(text, limits), text.as_bytes()),
                Message::Binary(bytes) => (ClientEvent::parse_bytes(bytes, limits), &**bytes),
                Message::Close(_) => return None,
            };
            let done = match event {
                Ok(event) => {
                    unreadable = 0;
                    self.on(event).await
                }
                Err(error) => {
                    unreadable += 1;
                    Err(Refusal::unreadable(error, bytes))
                }
            };
            if let Err(refusal) = done {
                let close = refusal.close_code(!self.sessions.is_empty());
                self.refuse(refusal);
                if close.is_some() {
                    return close;
                }
                if unreadable >= MAX_UNREADABLE {
                    return Some(CLOSE_POLICY);
                }
            }
        }
        None
    }

    /// An event of the connection itself as JSON.
    fn json(&self, mut event: ServerEvent) -> String {
        event.set_event_id(self.opener.site.ids.string());
        event.set_timestamp(self.opener.site.clock.now().milliseconds());
        event.to_json()
    }

    /// Sends an event of the connection itself.
    pub(super) fn push(&self, event: ServerEvent) {
        self.mailbox.push(self.json(event));
    }

    /// Sends why a request is refused, after the limit that it is over.
    pub(super) fn refuse(&self, refusal: Refusal) {
        if let Some(limit) = refusal.rate_limit(self.opener.site.clock.now()) {
            self.push(limit.into());
        }
        self.push(refusal.event());
    }

    /// Takes an event of the client.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) async fn on(&mut self, event: ClientEvent) -> Result<(), Refusal> {
        check_ids(&event)?;
        if event.session_id().is_none() {
            self.sessions.retain(|joined| !joined.handle.commands.is_closed());
        }
        let reply_to = event.event_id().map(std::borrow::Cow::into_owned);
        match self.sessions.target(&event) {
            Target::Create => match event {
                ClientEvent::SessionCreate(create) => self.create(*create).await,
                _ => Ok(()),
            },
            Target::Connection => self.renew(event).await,
            Target::Session(id) => self.forward(&id, event).await,
            Target::Answer(answer) => {
                self.mailbox.push_late(self.json(*answer));
                Ok(())
            }
            Target::Refused(refusal) => Err(*refusal),
            Target::Ignored => {
                log::debug!(target: "turntree.uamp", "an event without effect: {}", event.kind());
                Ok(())
            }
        }
        .map_err(|refusal| refusal.in_reply_to(reply_to))
    }

    async fn create(&mut self, create: SessionCreate) -> Result<(), Refusal> {
        self.sessions.retain(|joined| !joined.handle.commands.is_closed());
        if self.sessions.len() >= self.opener.limits.sessions_per_connection {
            let message = "the connection has too many sessions; end some, or open another connection";
            return Err(Refusal::limited(self.opener.limits.sessions_per_connection, message));
        }
        let Opened { handle, after_seq, announcement } =
            self.opener.open(&self.route, create, self.identity.as_ref()).await?;
        let id = Arc::clone(&handle.id);
        self.join(handle, after_seq).map_err(|gap| {
            let details = serde_json::json!({ "reason": "events_dropped", "last_seq": gap.last_seq });
            Refusal::new(ErrorCode::SessionNotFound, gap.to_string()).with_details(&details).of_session(&id)
        })?;
        // Frames of the connection itself precede those of logs, and nothing is written between these lines.
        for event in announcement {
            self.mailbox.push(event.to_json());
        }
        Ok(())
    }

    /// Reads the events of a session from a position on.
    ///
    /// # Errors
    /// Events after the position were dropped.
    pub(super) fn join(&mut self, handle: Arc<SessionHandle>, after_seq: u64) -> Result<(), LogGap> {
        let id = Arc::clone(&handle.id);
        // The former attachment of the same connection is dropped first: a log has one reader.
        self.sessions.remove(&id);
        let attachment = handle.log.attach(Arc::clone(&self.mailbox), after_seq)?;
        self.sessions.insert(id, Joined { handle, _attachment: attachment });
        Ok(())
    }

    /// Renews the token of the connection, and of its only session.
    async fn renew(&mut self, event: ClientEvent) -> Result<(), Refusal> {
        let ClientEvent::SessionUpdate(update) = &event else { return Ok(()) };
        let identity = self.opener.identify(update.token.as_deref().unwrap_or_default()).await?;
        if self.identity.as_ref().is_some_and(|known| known.id() != identity.id()) {
            return Err(other_principal());
        }
        let only = (self.sessions.len() == 1).then(|| self.sessions.iter().next()).flatten();
        let only = only.map(|joined| Arc::clone(&joined.handle.id));
        self.identity = Some(identity);
        if let Some(id) = only {
            return self.forward(&id, event).await;
        }
        self.push(SessionUpdated::default().into());
        Ok(())
    }

    /// Gives an event to its session.
    async fn forward(&mut self, id: &str, event: ClientEvent) -> Result<(), Refusal> {
        let Some(joined) = self.sessions.get(id) else { return Err(not_found(id)) };
        let handle = Arc::clone(&joined.handle);
        // A client that has connected again repeats what may not have arrived.
        if !handle.remember(&event) {
            return Ok(());
        }
        let event_id = event.event_id().map(std::borrow::Cow::into_owned);
        let command = command_of(&self.opener, &handle, event).await;
        if handle.send(command) {
            return Ok(());
        }
        handle.forget(event_id.as_deref());
        if handle.commands.is_closed() {
            self.sessions.remove(id);
            return Err(not_found(id));
        }
        Err(too_busy(&handle))
    }
}

/// An event as a command: a new token is checked first.
pub(super) async fn command_of(opener: &Opener, handle: &SessionHandle, event: ClientEvent) -> Command {
    let ClientEvent::SessionUpdate(update) = &event else { return Command::Event(event) };
    let Some(token) = update.token.as_deref().filter(|_| opener.site.authenticator.is_some()) else {
        return Command::Event(event);
    };
    let refusal = match opener.identify(token).await {
        Ok(identity) if handle.belongs_to(identity.id()) => {
            return Command::Renew(event, identity.expires_at);
        }
        Ok(_) => other_principal(),
        Err(refusal) => refusal,
    };
    let reply_to = event.event_id().map(std::borrow::Cow::into_owned);
    Command::Refuse(refusal.error.code, refusal.error.message, reply_to)
}

/// A session has too many events that it has not taken yet, or that its client has not read.
pub(super) fn too_busy(handle: &SessionHandle) -> Refusal {
    let refusal = if handle.log.is_flooded() {
        Refusal::limited(MAX_UNREAD_EVENTS, "too many events of the session wait to be read; read them first")
    } else {
        Refusal::limited(MAX_COMMANDS, "too many events wait for the session; send them more slowly")
    };
    refusal.of_session(&handle.id)
}

fn other_principal() -> Refusal {
    Refusal::new(ErrorCode::Forbidden, "the token belongs to another principal; the session keeps its own")
}
