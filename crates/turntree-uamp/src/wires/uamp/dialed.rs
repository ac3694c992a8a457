//! The sessions that a router makes for agents of this process: the process has connected, and the router asks.
//!
//! ```text
//!   session.create ──>  router     one session per agent, one after the other
//!   session.created <──
//!   input.text <── router          asks for a response
//!   response.created, response.delta, … ──>
//! ```
//!
//! The sessions outlive the connection for the resume window. After a new connection, a router that still has a session
//! answers with `resumed: true`; it then receives the events after the position that it names
//! (`session.extensions.uamp.resume.after_seq`), or those of the last response again, with the same ids.
//!
//! Spec: UAMP-1.0 §10.2

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{mpsc, watch};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::runtime;
use turntree_core::secret::Secret;
use turntree_server::{Message, WebSocket};

use super::connection::Sessions;
use super::limits::UampLimits;
use super::mailbox::Mailbox;
use super::opening::{Identity, Opener, is_id};
use super::refusal::Refusal;
use super::socket::{Reader, write};
use super::table::{Command, SessionHandle, SessionTable};
use crate::agent::ServedAgent;
use crate::event::{ClientEvent, Envelope as _, ServerEvent, SessionCreate, SessionCreated, SessionError};
use crate::service::{Route, Site};
use crate::types::{
    ConcurrentResponses, ErrorCode, ErrorDetails, Modality, Resume, SessionConfig, UampExtension,
};

/// The version that is spoken.
const VERSION: &str = "1.0";

/// How long an agent waits before it asks for another session after the router has ended one.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the last events may take when the process leaves the router.
const FAREWELL: Duration = Duration::from_secs(5);

/// The code of a normal end.
const CLOSE_NORMAL: u16 = 1000;

/// An agent, and its session at the router.
#[derive(Debug)]
struct DialedAgent {
    agent: Arc<ServedAgent>,
    session: Option<Arc<SessionHandle>>,
    /// The last event of the router that has a number.
    after_seq: u64,
}

/// The agents that a process offers to a router.
#[derive(Debug)]
pub(crate) struct DialedAgents {
    opener: Opener,
    token: Option<Secret>,
    agents: Vec<DialedAgent>,
    /// The number of agents that have sessions.
    open: watch::Sender<usize>,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parting {
    /// It was lost.
    Lost,
    /// The router refuses an agent.
    Refused(Box<ErrorDetails>),
    /// The process has left.
    Left,
}

/// What happens next on a connection.
enum Next {
    Message(Option<Message>),
    Reopen(usize),
}

/// A connection to a router.
struct Connection<'a> {
    agents: &'a mut DialedAgents,
    reader: Reader,
    /// The agents that need sessions; the first one waits for the answer.
    pending: VecDeque<usize>,
    pausing: FuturesUnordered<BoxFuture<'static, usize>>,
}

impl DialedAgents {
    /// The agents of a site.
    pub(crate) fn new(site: Arc<Site>, token: Option<Secret>, limits: UampLimits) -> Self {
        let agents = site.agents.iter();
        let agents =
            agents.map(|agent| DialedAgent { agent: Arc::clone(agent), session: None, after_seq: 0 });
        let agents = agents.collect();
        let opener = Opener { site, table: Arc::new(SessionTable::default()), limits };
        Self { opener, token, agents, open: watch::Sender::new(0) }
    }

    /// The number of agents.
    pub(crate) const fn count(&self) -> usize {
        self.agents.len()
    }

    /// The number of agents that have sessions, as it changes.
    pub(crate) fn open(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }

    /// Serves the router until the connection ends, or until `leave` is ready.
    pub(crate) async fn serve(&mut self, socket: WebSocket, leave: impl Future<Output = ()>) -> Parting {
        let mailbox = Arc::new(Mailbox::default());
        let (incoming, outgoing) = socket.split();
        let (opener, slow) = (self.opener.clone(), self.opener.limits.slow_consumer);
        let parting = {
            let writing = std::pin::pin!(write(&mailbox, &outgoing, slow));
            let table = Arc::clone(&opener.table);
            let route = Route { agent: None, base: "".into(), path: "".into() };
            let identity = Some(Identity::default());
            let reader = Reader {
                opener,
                route,
                identity,
                mailbox: Arc::clone(&mailbox),
                sessions: Sessions::default(),
            };
            let pending = (0..self.agents.len()).collect();
            let connection = Connection { agents: self, reader, pending, pausing: FuturesUnordered::new() };
            let reading = std::pin::pin!(connection.read(incoming));
            let leaving = std::pin::pin!(leave_after(leave, &table, &mailbox));
            match select(select(reading, leaving), writing).await {
                Either::Left((Either::Left((parting, _)), _)) => parting,
                Either::Left((Either::Right(((), _)), writing)) => {
                    mailbox.close(CLOSE_NORMAL);
                    writing.await;
                    Parting::Left
                }
                Either::Right(_) => Parting::Lost,
            }
        };
        self.open.send_replace(0);
        parting
    }
}

/// When the process leaves: ends the sessions, and waits until their last events are written.
async fn leave_after(leave: impl Future<Output = ()>, table: &SessionTable, mailbox: &Mailbox) {
    leave.await;
    table.end_all();
    let written = async {
        while table.len() > 0 || !mailbox.is_empty() {
            runtime::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = std::pin::pin!(runtime::sleep(FAREWELL));
    select(std::pin::pin!(written), limit).await;
}

impl Connection<'_> {
    /// Reads until the connection ends.
    async fn read(mut self, mut incoming: mpsc::Receiver<Message>) -> Parting {
        self.ask();
        loop {
            let next = if self.pausing.is_empty() {
                Next::Message(incoming.recv().await)
            } else {
                match select(std::pin::pin!(incoming.recv()), self.pausing.next()).await {
                    Either::Left((message, _)) => Next::Message(message),
                    Either::Right((Some(index), _)) => Next::Reopen(index),
                    Either::Right((None, _)) => continue,
                }
            };
            let text = match next {
                Next::Message(Some(Message::Text(text))) => text,
                Next::Message(Some(Message::Binary(bytes))) => String::from_utf8_lossy(&bytes).into_owned(),
                Next::Message(Some(Message::Close(_)) | None) => return Parting::Lost,
                Next::Reopen(index) => {
                    self.pending.push_back(index);
                    if self.pending.len() == 1 {
                        self.ask();
                    }
                    continue;
                }
            };
            self.reader.mailbox.has_room().await;
            if let Err(error) = self.on(&text).await {
                return Parting::Refused(error);
            }
        }
    }

    /// Takes an event of the router.
    ///
    /// # Errors
    /// The router refuses an agent.
    async fn on(&mut self, text: &str) -> Result<(), Box<ErrorDetails>> {
        let limits = self.reader.opener.limits.event;
        let event = match ClientEvent::parse(text, &limits) {
            // Events that only a server sends.
            Ok(ClientEvent::Unknown(_)) => return self.on_answer(text),
            Ok(event) => event,
            Err(error) => {
                self.reader.refuse(Refusal::unreadable(error, text.as_bytes()));
                return Ok(());
            }
        };
        let of_agent = event.session_id().and_then(|id| self.index_of(&id));
        if let (Some(index), Some(seq)) = (of_agent, event.seq())
            && let Some(agent) = self.agents.agents.get_mut(index)
        {
            agent.after_seq = agent.after_seq.max(seq);
        }
        let is_end = matches!(event, ClientEvent::SessionEnd(_));
        if let Err(refusal) = self.reader.on(event).await {
            self.reader.refuse(refusal);
        }
        if let Some(index) = of_agent.filter(|_| is_end) {
            self.reopen(index);
        }
        Ok(())
    }

    /// Takes the router's answer to a request for a session.
    fn on_answer(&mut self, text: &str) -> Result<(), Box<ErrorDetails>> {
        match ServerEvent::parse(text, &self.reader.opener.limits.event) {
            Ok(ServerEvent::SessionCreated(created)) => self.created(&created),
            Ok(ServerEvent::SessionError(event)) => self.refused(*event),
            Ok(ServerEvent::ResponseError(event)) if event.error.code == ErrorCode::VersionMismatch => {
                Err(Box::new(event.error))
            }
            Ok(event) => {
                log::debug!(target: "turntree.uamp", "an event of the router without effect: {}", event.kind());
                Ok(())
            }
            Err(error) => {
                log::debug!(target: "turntree.uamp", "an event of the router is not valid: {error}");
                Ok(())
            }
        }
    }

    fn index_of(&self, session_id: &str) -> Option<usize> {
        let has_id =
            |agent: &DialedAgent| agent.session.as_ref().is_some_and(|found| *found.id == *session_id);
        self.agents.agents.iter().position(has_id)
    }

    /// The router has refused the session that it was asked for, or has an error of another one.
    fn refused(&mut self, event: SessionError) -> Result<(), Box<ErrorDetails>> {
        let Some(index) = self.pending.front().copied() else { return Ok(()) };
        let of_agent = event.session_id.as_deref().and_then(|id| self.index_of(id));
        if of_agent.is_some_and(|found| found != index) {
            return Ok(());
        }
        let agent = self.agents.agents.get_mut(index);
        // The router does not have the session any more: the agent gets a new one.
        if event.error.code == ErrorCode::SessionNotFound
            && let Some(agent) = agent
            && let Some(former) = agent.session.take()
        {
            agent.after_seq = 0;
            former.send(Command::End("replaced"));
            self.ask();
            return Ok(());
        }
        Err(Box::new(event.error))
    }

    /// Asks for the session of the next agent.
    fn ask(&self) {
        let Some(agent) = self.pending.front().and_then(|index| self.agents.agents.get(*index)) else {
            return;
        };
        let resume = agent.session.as_ref().map(|session| Resume {
            session_id: session.id.to_string(),
            after_seq: agent.after_seq,
            ..Resume::default()
        });
        let token = self.agents.token.as_ref().map(|token| token.expose().to_owned());
        let name = agent.agent.name().to_string();
        // Routers read the agent and the token in one of both places.
        let config = SessionConfig {
            modalities: Some(vec![Modality::Text]),
            agent: Some(name.clone()),
            token: token.clone(),
            extensions: resume.and_then(|resume| {
                extensions(&UampExtension { resume: Some(resume), ..UampExtension::default() })
            }),
            ..SessionConfig::default()
        };
        let event = ClientEvent::SessionCreate(Box::new(SessionCreate {
            event_id: Some(self.reader.opener.site.ids.string()),
            uamp_version: Some(VERSION.to_owned()),
            session: Some(config),
            agent: Some(name),
            token,
            client_capabilities: Some(agent.agent.capabilities()),
            ..SessionCreate::default()
        }));
        self.reader.mailbox.push(event.to_json());
    }

    /// The router has the session that it was asked for.
    fn created(&mut self, created: &SessionCreated) -> Result<(), Box<ErrorDetails>> {
        let id = created.session_id.as_deref().unwrap_or(&created.session.id);
        let config = created.session.config.clone().unwrap_or_default();
        let invalid = |message: String| Box::new(ErrorDetails::new(ErrorCode::InvalidEvent, message));
        let extension = config.uamp_extension();
        let extension = extension.map_err(|error| invalid(format!("session.extensions.uamp: {error}")))?;
        if !is_id(id) {
            return Err(invalid(format!("\"{id}\" cannot be the id of a session")));
        }
        let Some(index) = self.pending.pop_front() else { return Ok(()) };
        let Some(agent) = self.agents.agents.get_mut(index) else { return Ok(()) };
        let former = agent.session.take();
        let continued = former.as_ref().filter(|former| {
            created.resumed == Some(true) && *former.id == *id && !former.commands.is_closed()
        });
        let (handle, after) = if let Some(handle) = continued {
            let named = extension.resume.as_ref().map(|resume| resume.after_seq);
            (Arc::clone(handle), named.unwrap_or_else(|| handle.response_began.load(Ordering::Relaxed)))
        } else {
            if let Some(former) = former {
                self.agents.opener.table.remove(&former);
                former.send(Command::End("replaced"));
            }
            agent.after_seq = 0;
            let settings = UampExtension {
                auto_response: extension.auto_response.or(Some(true)),
                on_concurrent: extension.on_concurrent.or(Some(ConcurrentResponses::Queue)),
                ..UampExtension::default()
            };
            let config = SessionConfig { extensions: extensions(&settings), ..config };
            let opened = self.agents.opener.begin_for_router(id.into(), Arc::clone(&agent.agent), config);
            (opened.map_err(|refusal| Box::new(refusal.error))?, 0)
        };
        agent.session = Some(Arc::clone(&handle));
        if let Err(gap) = self.reader.join(Arc::clone(&handle), after) {
            log::warn!(target: "turntree.uamp", "a router misses events: {gap}");
            // The last position of a log is always there.
            let _ = self.reader.join(handle, gap.last_seq);
        }
        let open = self.agents.agents.len() - self.pending.len() - self.pausing.len();
        self.agents.open.send_replace(open);
        self.ask();
        Ok(())
    }

    /// The router has ended the session of an agent: asks for another one, a little later.
    fn reopen(&mut self, index: usize) {
        if let Some(agent) = self.agents.agents.get_mut(index) {
            agent.session = None;
            agent.after_seq = 0;
        }
        self.pausing.push(Box::pin(async move {
            runtime::sleep(PAUSE).await;
            index
        }));
        self.agents.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}

/// The extensions of a session with these settings.
fn extensions(settings: &UampExtension) -> Option<RawObject> {
    let mut extensions = RawObject::new();
    extensions.insert("uamp", RawJson::from_value(settings).ok()?);
    Some(extensions)
}
