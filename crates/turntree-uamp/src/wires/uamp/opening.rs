//! How sessions begin: version, authentication, agent, new or resumed.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use turntree_core::runtime;
use turntree_server::Principal;

use super::hosted::HostedSession;
use super::limits::UampLimits;
use super::log::EventLog;
use super::refusal::Refusal;
use super::runs::RunPlace;
use super::table::{Command, NotAdded, SessionHandle, SessionTable};
use crate::agent::{RunRequest, ServedAgent};
use crate::event::{ClientEvent, Envelope as _, ServerEvent, SessionCreate};
use crate::service::{Route, Site};
use crate::session::{SessionCore, SessionSettings};
use crate::types::{ErrorCode, Modality, Resume, SessionConfig};

/// Events of a client that may wait for one session.
pub(super) const MAX_COMMANDS: usize = 512;

/// The longest id of an event or of a session in bytes.
const MAX_ID: usize = 1_024;

/// The largest sequence number that JavaScript can read.
const MAX_SEQ: u64 = (1 << 53) - 1;

/// Who a client is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// The principal; `None` without authentication.
    pub principal: Option<Principal>,
    /// When the token expires, in seconds since 1970.
    pub expires_at: Option<i64>,
}

impl Identity {
    /// The identity of a principal that is already known.
    pub(super) fn of(principal: Option<Principal>) -> Self {
        let expires_at = principal.as_ref().and_then(|principal| principal.claims().get("exp")?.as_i64());
        Self { principal, expires_at }
    }

    /// The id of the principal.
    pub(super) fn id(&self) -> Option<&str> {
        self.principal.as_ref().map(Principal::id)
    }
}

/// What the faces of the wire share.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    /// What all wires share.
    pub site: Arc<Site>,
    /// The sessions.
    pub table: Arc<SessionTable>,
    /// The limits.
    pub limits: UampLimits,
}

/// A session that a client has opened.
#[derive(Debug)]
pub(super) struct Opened {
    /// The session.
    pub handle: Arc<SessionHandle>,
    /// The last event that the client has.
    pub after_seq: u64,
    /// Events that precede those of the log.
    pub announcement: Vec<ServerEvent>,
}

impl Opener {
    /// Checks a token.
    ///
    /// # Errors
    /// The token is not valid, or it cannot be checked now.
    pub(super) async fn identify(&self, token: &str) -> Result<Identity, Refusal> {
        let Some(authenticator) = &self.site.authenticator else { return Ok(Identity::default()) };
        match authenticator.authenticate(token).await {
            Ok(Some(principal)) => Ok(Identity::of(Some(principal))),
            Ok(None) => {
                Err(Refusal::new(ErrorCode::Unauthorized, "the token is not valid; send a valid token"))
            }
            Err(error) => {
                log::warn!(target: "turntree.uamp", "{error}");
                let refusal = Refusal::new(ErrorCode::AgentOffline, error.public_message());
                Err(Refusal { status: 503, ..refusal })
            }
        }
    }

    /// Opens a session: a new one, or one that the client had before. `connection` is who the client is without a token
    /// of the session.
    ///
    /// # Errors
    /// Why the session is refused.
    pub(super) async fn open(
        &self,
        route: &Route,
        create: SessionCreate,
        connection: Option<&Identity>,
    ) -> Result<Opened, Refusal> {
        self.open_for(route, create, connection, None).await
    }

    /// As [`Self::open`]. `run` is the run of the first response, if it was made from another request.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) async fn open_for(
        &self,
        route: &Route,
        mut create: SessionCreate,
        connection: Option<&Identity>,
        run: Option<Arc<RunRequest>>,
    ) -> Result<Opened, Refusal> {
        let reply_to = create.event_id.clone();
        let opened = async {
            check_version(create.uamp_version.as_deref())?;
            let identity = match (create.session_token(), connection) {
                (Some(token), _) if self.site.authenticator.is_some() => self.identify(token).await?,
                (_, Some(identity)) => identity.clone(),
                (_, None) if self.site.authenticator.is_none() => Identity::default(),
                _ => {
                    let message =
                        "the session needs a token; send it in `session.create`, or connect with one";
                    return Err(Refusal::new(ErrorCode::Unauthorized, message));
                }
            };
            let agent = route.agent(&self.site, create.agent_name());
            let agent =
                Arc::clone(agent.map_err(|error| Refusal::new(ErrorCode::AgentNotFound, error.to_string()))?);
            let config = create.session.take().unwrap_or_default();
            let extension = config.uamp_extension().map_err(|error| {
                Refusal::new(ErrorCode::InvalidEvent, format!("session.extensions.uamp: {error}"))
            })?;
            let resumed = extension.resume.as_ref().map(|resume| resume.session_id.as_str());
            if let Some(id) = create.chat.as_deref().into_iter().chain(resumed).find(|id| !is_id(id)) {
                let id: String = id.chars().take(128).collect();
                let message = format!("\"{id}\" cannot be an id; use 1 to 128 printable characters");
                return Err(Refusal::new(ErrorCode::InvalidEvent, message));
            }
            let payment_token = create.payment_token.take().or_else(|| payment_token_of(&config));
            let base = Arc::clone(&route.base);
            let opening = Opening { agent, identity, config, payment_token, create, base, run };
            match extension.resume {
                Some(resume) => self.resume(opening, resume).await,
                None => self.begin(opening, None),
            }
        };
        opened.await.map_err(|refusal| refusal.in_reply_to(reply_to))
    }

    /// Continues a session of this process, or takes over that of another one.
    async fn resume(&self, opening: Opening, resume: Resume) -> Result<Opened, Refusal> {
        let id = resume.session_id.clone();
        if resume.after_seq > MAX_SEQ {
            return Err(Refusal::new(ErrorCode::InvalidEvent, "after_seq is larger than 2^53 - 1"));
        }
        if let Some(handle) = self.table.get(&id, opening.identity.id()) {
            return Self::join(handle, &opening.identity, resume.after_seq).await;
        }
        let (agent, principal) = (opening.agent.agent(), opening.identity.principal.as_ref());
        let conversation = opening.create.chat.as_deref().unwrap_or(&id);
        let found = self.site.conversations.find(agent, principal, conversation).await;
        match found {
            Ok(Some(_)) => self.begin(opening, Some(resume)),
            Ok(None) => Err(not_found(&id)),
            Err(error) => {
                log::error!(target: "turntree.uamp", "{error}");
                let message = "the conversation could not be opened; try again later";
                Err(Refusal::new(ErrorCode::InternalError, message))
            }
        }
    }

    /// Joins a session that runs.
    async fn join(
        handle: Arc<SessionHandle>,
        identity: &Identity,
        after_seq: u64,
    ) -> Result<Opened, Refusal> {
        let (answer, answered) = oneshot::channel();
        let is_sent = handle.send(Command::Announce(identity.expires_at, answer));
        let announcement = if is_sent { answered.await.ok() } else { None };
        match announcement {
            Some(announcement) => Ok(Opened { handle, after_seq, announcement }),
            None => Err(not_found(&handle.id)),
        }
    }

    /// Begins a session. `resumed` is a session whose conversation the store has: its earlier events are not replayed.
    fn begin(&self, opening: Opening, resumed: Option<Resume>) -> Result<Opened, Refusal> {
        let seq = resumed.as_ref().map_or(0, |resume| resume.after_seq);
        let is_resumed = resumed.is_some();
        let id = resumed.map_or_else(|| self.site.ids.string(), |resume| resume.session_id).into();
        self.start(opening, Beginning { id, seq, is_resumed, of_router: false })
    }

    /// Begins a session of a router, which has its id and has announced it. The router keeps conversations that it
    /// sends whole.
    ///
    /// # Errors
    /// Why the session is refused.
    pub(super) fn begin_for_router(
        &self,
        id: Arc<str>,
        agent: Arc<ServedAgent>,
        config: SessionConfig,
    ) -> Result<Arc<SessionHandle>, Refusal> {
        let opening = Opening {
            agent,
            identity: Identity::default(),
            config,
            payment_token: None,
            create: SessionCreate::default(),
            base: "".into(),
            run: None,
        };
        let beginning = Beginning { id, seq: 0, is_resumed: false, of_router: true };
        self.start(opening, beginning).map(|opened| opened.handle)
    }

    /// Starts the task of a session.
    fn start(&self, opening: Opening, beginning: Beginning) -> Result<Opened, Refusal> {
        let Opening { agent, identity, config, payment_token, create, base, run } = opening;
        let Beginning { id, seq, is_resumed, of_router } = beginning;
        let modalities = config.modalities.clone().or_else(|| Some(vec![Modality::Text]));
        let (core, effects) = SessionCore::new(SessionSettings {
            id: id.to_string(),
            agent: Some(agent.name().to_string()),
            chat: create.chat.clone(),
            config: SessionConfig { modalities, ..config },
            capabilities: agent.capabilities(),
            client_capabilities: create.client_capabilities,
            is_resumed,
            seq,
            has_payment_gate: self.site.payment_gate.is_some(),
            payment_token,
            token_expires_at: identity.expires_at,
            signer: self.site.signer(&agent, &base, identity.id()),
            ids: Arc::clone(&self.site.ids),
            clock: Arc::clone(&self.site.clock),
        });
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        let handle = Arc::new(SessionHandle {
            id: Arc::clone(&id),
            principal: identity.id().map(Into::into),
            chat: create.chat.map(Into::into),
            log: Arc::new(EventLog::new(self.limits.log_bytes, self.limits.unread_bytes, seq)),
            commands,
            event_ids: Mutex::new(create.event_id.into_iter().collect()),
            response_began: AtomicU64::new(0),
        });
        match self.table.add(&handle, self.limits.sessions) {
            Ok(()) => {}
            Err(NotAdded::Exists) => {
                let message =
                    "the session was opened by another connection at the same time; resume it again";
                return Err(Refusal::new(ErrorCode::RateLimited, message));
            }
            Err(NotAdded::Full) => {
                let message = "the server has too many sessions; try again later";
                return Err(Refusal::limited(self.limits.sessions, message));
            }
        }
        let place = RunPlace {
            site: Arc::clone(&self.site),
            agent,
            principal: identity.principal,
            conversation: handle.chat.clone().unwrap_or(id),
            run,
            keeps_sent_conversations: !of_router,
        };
        let (of_task, table) = (Arc::clone(&handle), Arc::clone(&self.table));
        // A router has announced its session itself.
        let effects = if of_router { Vec::new() } else { effects };
        let session = HostedSession::new(core, effects, of_task, table, place, self.limits);
        runtime::spawn(session.run(receiver)).detach();
        Ok(Opened { handle, after_seq: seq, announcement: Vec::new() })
    }
}

/// A request for a session that has passed the checks.
struct Opening {
    agent: Arc<ServedAgent>,
    identity: Identity,
    config: SessionConfig,
    payment_token: Option<String>,
    create: SessionCreate,
    base: Arc<str>,
    run: Option<Arc<RunRequest>>,
}

/// How a session begins.
struct Beginning {
    id: Arc<str>,
    /// The last event that the client has.
    seq: u64,
    is_resumed: bool,
    /// True for the session of a router that this process has connected to.
    of_router: bool,
}

/// A session that this server does not have.
pub(super) fn not_found(id: &str) -> Refusal {
    let message = format!("there is no session \"{id}\"; create one with `session.create`");
    Refusal::new(ErrorCode::SessionNotFound, message).of_session(id)
}

/// Whether a chat or a session can have this id.
pub(super) fn is_id(id: &str) -> bool {
    (1..=128).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// The ids of an event are remembered and repeated, so they have a limit.
///
/// # Errors
/// An id is too long.
pub(super) fn check_ids(event: &ClientEvent) -> Result<(), Refusal> {
    for (name, id) in [("event_id", event.event_id()), ("session_id", event.session_id())] {
        if id.is_some_and(|id| id.len() > MAX_ID) {
            let message = format!("{name}: it has more than {MAX_ID} bytes; use a UUID");
            return Err(Refusal::new(ErrorCode::InvalidEvent, message));
        }
    }
    Ok(())
}

/// Every version 1.x is served.
///
/// Spec: UAMP-1.0 §14.2
fn check_version(version: Option<&str>) -> Result<(), Refusal> {
    let Some(version) = version else { return Ok(()) };
    let mut parts = version.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next() == Some("1") && parts.all(is_number) {
        return Ok(());
    }
    let version: String = version.chars().take(20).collect();
    let message = format!("the version \"{version}\" is not spoken here; use \"1.0\"");
    Err(Refusal::new(ErrorCode::VersionMismatch, message).with_details(&json!({ "supported": ["1.0"] })))
}

/// Some clients send the payment token among the extensions.
fn payment_token_of(config: &SessionConfig) -> Option<String> {
    config.extensions.as_ref()?.get("X-Payment-Token")?.as_string()
}
