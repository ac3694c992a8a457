//! A connection: the requests of a client, and those of the agent that the client answers.
//!
//! Messages are taken in their order. Prompts run as tasks beside each other, so that a later message can cancel them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use turntree_core::runtime;
use turntree_server::Principal;

use super::content::{self, PromptBlock};
use super::json_rpc::{self, Incoming, Malformed, RpcError};
use super::outbox::{Lane, Outbox, lock};
use super::prompt::Prompt;
use super::sessions::{SessionIndex, SessionRecord};
use super::updates;
use crate::agent::ServedAgent;
use crate::service::Site;
use crate::types::Modality;

/// The version of the protocol.
pub const PROTOCOL_VERSION: u64 = 1;

/// How many sessions a connection has open at most.
const MAX_SESSIONS: usize = 256;

/// A connection of a client with an agent. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

/// What the tasks of a connection share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) site: Arc<Site>,
    pub(super) agent: Arc<ServedAgent>,
    pub(super) principal: Option<Principal>,
    pub(super) index: SessionIndex,
    outbox: Outbox,
    state: Mutex<State>,
    /// Cancelled when the connection ends.
    pub(super) closed: CancellationToken,
    /// The number of prompts that run.
    running: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    is_initialized: bool,
    sessions: HashMap<Arc<str>, Arc<OpenSession>>,
    /// The requests that the client has not answered.
    asked: HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>,
    last_request: u64,
}

/// A session that the client has begun or loaded.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) id: Arc<str>,
    pub(super) cwd: String,
    /// Cancels the prompt that runs.
    active: Mutex<Option<CancellationToken>>,
    /// The permissions that the user has given or refused for the rest of the session, by tool.
    pub(super) permissions: Mutex<HashMap<String, bool>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenParams {
    cwd: String,
    #[serde(default)]
    mcp_servers: Vec<Value>,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionParams {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptParams {
    session_id: String,
    prompt: Vec<PromptBlock>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    // Read, so that a request without it is refused. The agent answers with its own version.
    #[serde(rename = "protocolVersion")]
    _protocol_version: u64,
}

#[derive(Deserialize)]
struct ListParams {
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
}

/// What a request gets.
enum Answer {
    Now(Value),
    /// A task answers it.
    Later,
}

impl Connection {
    /// A connection with an agent.
    pub fn new(
        site: Arc<Site>,
        agent: Arc<ServedAgent>,
        principal: Option<Principal>,
        outbox: Outbox,
    ) -> Self {
        let engine = Arc::clone(site.conversations.engine());
        let index = SessionIndex::new(engine, agent.name(), principal.as_ref());
        let shared = Shared {
            site,
            agent,
            principal,
            index,
            outbox,
            state: Mutex::default(),
            closed: CancellationToken::new(),
            running: watch::channel(0).0,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The principal of the connection.
    pub fn principal(&self) -> Option<&Principal> {
        self.shared.principal.as_ref()
    }

    /// Takes text. What is not a message is answered with an error.
    pub async fn receive_bytes(&self, bytes: &[u8]) {
        match json_rpc::read(bytes) {
            Ok(message) => self.receive(message).await,
            Err(malformed) => self.refuse(&malformed).await,
        }
    }

    /// Answers what is not a message.
    pub(super) async fn refuse(&self, malformed: &Malformed) {
        let lane = self.shared.outbox.lane(None);
        self.shared.send(&lane, malformed.response()).await;
    }

    /// Waits until the connection is closed.
    pub(super) fn closed(&self) -> WaitForCancellationFutureOwned {
        self.shared.closed.clone().cancelled_owned()
    }

    /// Takes a message. Returns when it is answered; for a prompt, when it runs.
    pub async fn receive(&self, message: Incoming) {
        match message {
            Incoming::Request { id, method, params } => {
                let session = params.get("sessionId").and_then(Value::as_str);
                // A client that loads a session may begin to read its stream at any time: one load uses one stream.
                let lane = self.shared.outbox.lane(session);
                let answer = match self.perform(&id, &method, params, &lane).await {
                    Ok(Answer::Later) => return,
                    Ok(Answer::Now(result)) => json_rpc::response(&id, Ok(&result)),
                    Err(error) => json_rpc::response(&id, Err(&error)),
                };
                self.shared.send(&lane, answer).await;
            }
            Incoming::Notification { method, params } => self.on_notification(&method, &params),
            Incoming::Response { id, outcome } => self.shared.answered(&id, outcome),
        }
    }

    /// The answer to `initialize`.
    ///
    /// # Errors
    /// The parameters are not valid.
    pub fn initialize(&self, params: Value) -> Result<Value, RpcError> {
        let _: InitializeParams = json_rpc::params(params)?;
        lock(&self.shared.state).is_initialized = true;
        let agent = &self.shared.agent;
        let modalities = agent.capabilities().modalities;
        Ok(json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {
                    "image": modalities.contains(&Modality::Image),
                    "audio": modalities.contains(&Modality::Audio),
                    "embeddedContext": true,
                },
                "mcpCapabilities": { "http": false, "sse": false },
                "sessionCapabilities": { "list": {}, "resume": {}, "close": {} },
            },
            "authMethods": [],
            "agentInfo": { "name": &**agent.name(), "version": env!("CARGO_PKG_VERSION") },
        }))
    }

    async fn perform(
        &self,
        id: &Value,
        method: &str,
        params: Value,
        lane: &Lane,
    ) -> Result<Answer, RpcError> {
        if method.starts_with("session/") && !lock(&self.shared.state).is_initialized {
            return Err(RpcError::invalid_request("send initialize before any other request"));
        }
        Ok(Answer::Now(match method {
            "initialize" => self.initialize(params)?,
            "authenticate" => json!({}),
            "capabilities" | "_capabilities" => json!(self.shared.agent.capabilities()),
            "session/new" => self.begin(json_rpc::params(params)?).await?,
            "session/load" => self.open(json_rpc::params(params)?, Some(lane)).await?,
            "session/resume" => self.open(json_rpc::params(params)?, None).await?,
            "session/list" => self.list(&json_rpc::params(params)?).await?,
            "session/close" => self.close_session(&json_rpc::params(params)?)?,
            "session/prompt" => {
                self.prompt(id, json_rpc::params(params)?)?;
                return Ok(Answer::Later);
            }
            _ => return Err(RpcError::method_not_found(method)),
        }))
    }

    /// Begins a session. It is in the store after its first prompt.
    async fn begin(&self, params: OpenParams) -> Result<Value, RpcError> {
        check_directory(&params.cwd)?;
        let (shared, id) = (&self.shared, self.shared.site.ids.string());
        let now = shared.site.clock.now();
        self.check_room()?;
        let record = SessionRecord { id: id.clone(), cwd: params.cwd.clone(), title: None, updated_at: now };
        shared.index.add(&record).await?;
        self.insert(&id, params.cwd);
        shared.outbox.open(&id);
        Ok(with_meta(json!({ "sessionId": id }), &params.mcp_servers))
    }

    /// Opens a session of the store; with a stream, its conversation is sent there first.
    async fn open(&self, params: OpenParams, replayed_to: Option<&Lane>) -> Result<Value, RpcError> {
        check_directory(&params.cwd)?;
        let shared = &self.shared;
        let id = params.session_id.ok_or_else(|| RpcError::invalid_params("params: missing `sessionId`"))?;
        self.check_room()?;
        let (agent, principal) = (shared.agent.agent(), shared.principal.as_ref());
        let found = shared.site.conversations.find(agent, principal, &id).await;
        let found = found.map_err(|error| {
            log::error!("ACP: the session {id} cannot be read: {error}");
            RpcError::internal("the session cannot be read; try again later")
        })?;
        if found.is_none() && shared.index.find(&id).await?.is_none() {
            return Err(unknown_session(&id));
        }
        let history = found.map(|session| session.tree().lock().history()).unwrap_or_default();
        if let Some(lane) = replayed_to {
            for message in &history {
                for update in updates::replay(message) {
                    let params = json!({ "sessionId": id, "update": update });
                    if !shared.send(lane, json_rpc::notification("session/update", &params)).await {
                        return Err(RpcError::internal("the connection is closed"));
                    }
                }
            }
        }
        self.insert(&id, params.cwd);
        Ok(with_meta(json!({}), &params.mcp_servers))
    }

    async fn list(&self, params: &ListParams) -> Result<Value, RpcError> {
        let page = self.shared.index.list(params.cwd.as_deref(), params.cursor.as_deref()).await?;
        let sessions: Vec<Value> = page
            .sessions
            .iter()
            .map(|session| {
                let mut members = json!({
                    "sessionId": session.id, "cwd": session.cwd, "updatedAt": session.updated_at,
                });
                if let (Some(title), Some(members)) = (&session.title, members.as_object_mut()) {
                    members.insert("title".to_owned(), title.as_str().into());
                }
                members
            })
            .collect();
        let mut result = json!({ "sessions": sessions });
        if let (Some(next), Some(members)) = (page.next, result.as_object_mut()) {
            members.insert("nextCursor".to_owned(), next.into());
        }
        Ok(result)
    }

    /// Closes a session of the connection; its prompt is cancelled. The conversation stays in the store.
    fn close_session(&self, params: &SessionParams) -> Result<Value, RpcError> {
        let session = lock(&self.shared.state).sessions.remove(&*params.session_id);
        let session = session.ok_or_else(|| unknown_session(&params.session_id))?;
        session.cancel();
        Ok(json!({}))
    }

    /// Starts a prompt.
    fn prompt(&self, id: &Value, params: PromptParams) -> Result<(), RpcError> {
        let shared = &self.shared;
        let session = lock(&shared.state).sessions.get(&*params.session_id).cloned();
        let session = session.ok_or_else(|| unknown_session(&params.session_id))?;
        let message = content::message(params.prompt, &*shared.site.ids, &*shared.site.clock)?;
        let cancellation = session.activate(&shared.closed)?;
        let running = Running::new(Arc::clone(shared));
        let prompt = Prompt::new(Arc::clone(shared), Arc::clone(&session), cancellation);
        let id = id.clone();
        runtime::spawn(async move {
            let outcome = prompt.run(message).await;
            // Before the answer: the client may prompt again at once.
            session.deactivate();
            let lane = running.0.outbox.lane(Some(&session.id));
            running.0.send(&lane, json_rpc::response(&id, outcome.as_ref())).await;
        })
        .detach();
        Ok(())
    }

    fn on_notification(&self, method: &str, params: &Value) {
        if method != "session/cancel" {
            log::debug!("ACP: a notification without effect: {method}");
            return;
        }
        let id = params.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        let session = lock(&self.shared.state).sessions.get(id).cloned();
        if let Some(session) = session {
            session.cancel();
        }
    }

    /// Ends the connection: cancels its prompts.
    pub fn close(&self) {
        self.shared.closed.cancel();
        let asked = std::mem::take(&mut lock(&self.shared.state).asked);
        drop(asked);
    }

    /// Waits until no prompt runs: the tools of cancelled prompts have ended, too.
    pub async fn idle(&self) {
        let mut running = self.shared.running.subscribe();
        // The sender lives as long as `self`.
        let _ = running.wait_for(|count| *count == 0).await;
    }

    fn check_room(&self) -> Result<(), RpcError> {
        if lock(&self.shared.state).sessions.len() < MAX_SESSIONS {
            return Ok(());
        }
        Err(RpcError::invalid_request(format!("{MAX_SESSIONS} sessions are open; close some first")))
    }

    fn insert(&self, id: &str, cwd: String) {
        let id: Arc<str> = id.into();
        let mut state = lock(&self.shared.state);
        // A session that is loaded again keeps its prompt and its permissions.
        state.sessions.entry(Arc::clone(&id)).or_insert_with(|| {
            Arc::new(OpenSession { id, cwd, active: Mutex::default(), permissions: Mutex::default() })
        });
    }
}

impl OpenSession {
    /// Begins a prompt.
    fn activate(&self, connection: &CancellationToken) -> Result<CancellationToken, RpcError> {
        let mut active = lock(&self.active);
        if active.is_some() {
            let message = "a prompt of the session is active; wait for its answer, or cancel it";
            return Err(RpcError::invalid_request(message));
        }
        Ok(active.insert(connection.child_token()).clone())
    }

    fn deactivate(&self) {
        drop(lock(&self.active).take());
    }

    fn cancel(&self) {
        if let Some(active) = &*lock(&self.active) {
            active.cancel();
        }
    }
}

/// Counts a prompt while it runs.
struct Running(Arc<Shared>);

impl Running {
    fn new(shared: Arc<Shared>) -> Self {
        shared.running.send_modify(|count| *count += 1);
        Self(shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
    }
}

impl Shared {
    /// Sends a message. Waits while the client reads slowly. Returns false if the connection is closed.
    pub(super) async fn send(&self, lane: &Lane, text: String) -> bool {
        let text = match lane.try_send(text) {
            Ok(()) => return true,
            Err(error) => error.into_inner(),
        };
        let (sent, closed) = (std::pin::pin!(lane.send(text)), std::pin::pin!(self.closed.cancelled()));
        matches!(select(sent, closed).await, Either::Left((Ok(()), _)))
    }

    /// Sends an update of a session. Returns false if the connection is closed.
    pub(super) async fn update(&self, session: &str, update: &Value) -> bool {
        let params = json!({ "sessionId": session, "update": update });
        let lane = self.outbox.lane(Some(session));
        self.send(&lane, json_rpc::notification("session/update", &params)).await
    }

    /// Asks the client. `None` if the connection is closed.
    ///
    /// # Cancel safety
    /// The answer to a request whose future was dropped is ignored.
    pub(super) async fn ask(
        &self,
        session: &str,
        method: &str,
        params: &Value,
    ) -> Option<Result<Value, RpcError>> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut state = lock(&self.state);
            state.last_request += 1;
            let id = state.last_request;
            state.asked.insert(id, sender);
            id
        };
        let _asked = Asked { shared: self, id };
        let lane = self.outbox.lane(Some(session));
        if !self.send(&lane, json_rpc::request(id, method, params)).await {
            return None;
        }
        let closed = std::pin::pin!(self.closed.cancelled());
        match select(answer.map(Result::ok), closed).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => None,
        }
    }

    /// Takes the answer of the client. Answers to unknown requests are ignored.
    fn answered(&self, id: &Value, outcome: Result<Value, RpcError>) {
        // Some clients return a number as text.
        let number = id.as_u64().or_else(|| id.as_str()?.parse().ok());
        let sender = number.and_then(|id| lock(&self.state).asked.remove(&id));
        if let Some(sender) = sender {
            // The prompt may have been cancelled.
            let _ = sender.send(outcome);
        }
    }
}

/// Forgets a request that no one waits for.
struct Asked<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        lock(&self.shared.state).asked.remove(&self.id);
    }
}

fn unknown_session(id: &str) -> RpcError {
    let id: String = id.chars().take(100).collect();
    let message = format!("the session \"{id}\" is not open; begin one with session/new, or load it");
    RpcError::new(RpcError::RESOURCE_NOT_FOUND, message)
}

/// Clients send absolute paths, also those of another system.
fn check_directory(cwd: &str) -> Result<(), RpcError> {
    let is_windows = cwd.as_bytes().get(1) == Some(&b':') || cwd.starts_with("\\\\");
    if Path::new(cwd).has_root() || is_windows {
        return Ok(());
    }
    Err(RpcError::invalid_params("cwd: expected an absolute path"))
}

/// Tells the client that the agent does not use its MCP servers.
fn with_meta(mut result: Value, mcp_servers: &[Value]) -> Value {
    if mcp_servers.is_empty() {
        return result;
    }
    log::warn!("ACP: the client has {} MCP servers; the agent uses its own tools only", mcp_servers.len());
    let names: Vec<&Value> = mcp_servers.iter().filter_map(|server| server.get("name")).collect();
    if let Some(members) = result.as_object_mut() {
        members.insert("_meta".to_owned(), json!({ "turntree": { "unusedMcpServers": names } }));
    }
    result
}
