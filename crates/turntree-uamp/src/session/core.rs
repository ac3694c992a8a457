//! The state machine of a session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use turntree_core::ids::IdSource;
use turntree_core::json::{self, RawJson, RawObject};
use turntree_core::time::{Clock, Timestamp};

use super::effect::{AgentOutput, Effect, ResponseRequest};
use super::input::{Input, InputTooLarge, MAX_BYTES, size_of};
use super::stream::{Active, Stage};
use crate::event::{
    CapabilitiesEvent, ClientEvent, Envelope as _, Pong, PresenceTyping, RateLimit, ResponseCancel,
    ResponseCancelled, ResponseCreate, ResponseCreated, ResponseDone, ResponseError, ServerEvent,
    SessionCreated, SessionEnd, SessionError, SessionUpdate, SessionUpdated, ToolResultEvent, VoiceDecline,
};
use crate::session::ToolOutcome;
use crate::signature::{SignedResponse, SigningKey};
use crate::types::{
    Capabilities, ConcurrentResponses, ErrorCode, ErrorDetails, Message, Number, Response, ResponseStatus,
    Role, Session, SessionConfig, SessionStatus, rounded_up,
};

/// The version that the server speaks.
pub(crate) const VERSION: &str = "1.0";

/// How many requests for responses may wait for the active one.
const MAX_WAITING: usize = 16;

/// The longest id of a call that is repeated, in bytes.
const MAX_CALL_ID: usize = 1_024;

/// Signs the responses of a session.
#[derive(Debug, Clone)]
pub struct Signer {
    /// The key.
    pub key: Arc<SigningKey>,
    /// Who signs: the URL of the agent, or its name.
    pub issuer: String,
    /// Who asks.
    pub audience: Option<String>,
}

impl Signer {
    /// The signature of a response; `messages` is a JSON array. `None` if the key cannot sign.
    pub(crate) fn sign(&self, id: &str, text: &str, messages: &str, now: Timestamp) -> Option<String> {
        let response = SignedResponse {
            issuer: &self.issuer,
            audience: self.audience.as_deref(),
            response_id: id,
            text,
            messages,
            now: now.milliseconds().div_euclid(1000),
        };
        self.key.sign(&response).ok()
    }
}

/// What a session begins with.
#[derive(Debug)]
pub struct SessionSettings {
    /// The id.
    pub id: String,
    /// The name of the agent.
    pub agent: Option<String>,
    /// The chat that the session belongs to.
    pub chat: Option<String>,
    /// The configuration.
    pub config: SessionConfig,
    /// What the agent can do.
    pub capabilities: Capabilities,
    /// What the client can do.
    pub client_capabilities: Option<Capabilities>,
    /// True if the session existed before.
    pub is_resumed: bool,
    /// The sequence number of the last event that the client has; 0 for a new session.
    pub seq: u64,
    /// True if a gate decides whether responses must be paid.
    pub has_payment_gate: bool,
    /// The payment token that the client has sent.
    pub payment_token: Option<String>,
    /// When the client's token expires, in seconds since 1970.
    pub token_expires_at: Option<i64>,
    /// Signs complete responses.
    pub signer: Option<Signer>,
    /// Makes ids.
    pub ids: Arc<dyn IdSource>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// A request for a response, with the input before it.
#[derive(Debug)]
struct Asked {
    request: ResponseCreate,
    messages: Vec<Message>,
    replaces: bool,
}

/// A session: takes the events of the client and the output of the agent, and returns effects.
#[derive(Debug)]
pub struct SessionCore {
    settings: SessionSettings,
    created_at: i64,
    input: Input,
    pub(super) active: Option<Active>,
    waiting: VecDeque<Asked>,
    is_closed: bool,
}

impl SessionCore {
    /// A session, and the events that announce it.
    pub fn new(settings: SessionSettings) -> (Self, Vec<Effect>) {
        let created_at = settings.clock.now().milliseconds().div_euclid(1000);
        let mut core = Self {
            settings,
            created_at,
            input: Input::default(),
            active: None,
            waiting: VecDeque::new(),
            is_closed: false,
        };
        let created = core.created(core.settings.is_resumed);
        let effects = vec![core.send(created), core.send_capabilities()];
        (core, effects)
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.settings.id
    }

    /// The response that has not ended.
    pub fn active_response(&self) -> Option<&str> {
        self.active.as_ref().map(|active| active.id.as_str())
    }

    /// True if no response is active, and none waits.
    pub fn is_idle(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty()
    }

    /// What the client can do, as far as it has said so.
    pub const fn client_capabilities(&self) -> Option<&Capabilities> {
        self.settings.client_capabilities.as_ref()
    }

    /// True after the end of the session. It ignores events and output then.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Sets when the client's token expires, in seconds since 1970. After that, requests for responses are refused.
    pub fn set_token_expiry(&mut self, expires_at: Option<i64>) {
        self.settings.token_expires_at = expires_at;
    }

    /// Takes an event of the client. Events of unknown types and those for internal use have no effect.
    pub fn on(&mut self, event: ClientEvent) -> Vec<Effect> {
        if self.is_closed {
            return Vec::new();
        }
        let reply_to = event.event_id().map(std::borrow::Cow::into_owned);
        let ids = Arc::clone(&self.settings.ids);
        let of_user = |role: &Option<Role>| role.as_ref().is_none_or(|role| *role == Role::User);
        let asks = matches!(&event, ClientEvent::InputText(input) if of_user(&input.role));
        let added = match event {
            ClientEvent::InputText(mut input) => {
                self.set_payment_token(input.payment_token.take());
                self.input.add_text(*input)
            }
            ClientEvent::InputAudio(input) => self.input.add_media((*input).into(), &*ids),
            ClientEvent::InputImage(input) => self.input.add_media((*input).into(), &*ids),
            ClientEvent::InputVideo(input) => self.input.add_media((*input).into(), &*ids),
            ClientEvent::InputFile(input) => self.input.add_media((*input).into(), &*ids),
            other => return self.on_request(other, reply_to),
        };
        match added {
            Err(error) => vec![self.too_large(error, reply_to)],
            Ok(()) if asks && self.extension().auto_response == Some(true) => {
                self.create(ResponseCreate::default(), reply_to)
            }
            Ok(()) => Vec::new(),
        }
    }

    /// Events that are no input.
    fn on_request(&mut self, event: ClientEvent, reply_to: Option<String>) -> Vec<Effect> {
        match event {
            ClientEvent::ResponseCreate(request) => self.create(*request, reply_to),
            ClientEvent::ResponseCancel(request) => self.cancel(&request, reply_to),
            ClientEvent::ToolResult(result) => self.tool_result(*result, reply_to),
            ClientEvent::PaymentSubmit(submit) => self.submit(*submit, reply_to),
            ClientEvent::SessionUpdate(update) => self.update(*update, reply_to),
            ClientEvent::SessionEnd(end) => self.end(end.reason.as_deref()),
            ClientEvent::Ping(_) => vec![self.send(Pong { reply_to, ..Pong::default() })],
            ClientEvent::CapabilitiesQuery(query) => match query.model {
                Some(model) if model != self.settings.capabilities.id => {
                    let known = &self.settings.capabilities.id;
                    let message = format!("there is no model \"{}\"; use \"{known}\"", shown(&model));
                    vec![self.session_error(ErrorCode::ModelNotFound, message, reply_to)]
                }
                _ => vec![self.send_capabilities()],
            },
            ClientEvent::ClientCapabilities(event) => {
                self.settings.client_capabilities = Some(event.capabilities);
                Vec::new()
            }
            ClientEvent::InputTyping(input) => {
                let typing = PresenceTyping {
                    is_typing: Some(input.is_typing),
                    chat_id: input.chat_id.or_else(|| self.settings.chat.clone()),
                    ..PresenceTyping::default()
                };
                vec![Effect::Broadcast(typing.into())]
            }
            ClientEvent::VoiceInvite(invite) => {
                let reason = Some("unsupported".to_owned());
                let call_id = invite.call_id.filter(|id| id.len() <= MAX_CALL_ID);
                vec![self.send(VoiceDecline { call_id, reason, ..VoiceDecline::default() })]
            }
            _ => Vec::new(),
        }
    }

    /// Takes output of the agent. Output of a response that has ended has no effect.
    pub fn on_output(&mut self, response_id: &str, output: AgentOutput) -> Vec<Effect> {
        let Some(mut active) = self.active.take_if(|active| active.id == response_id) else {
            return Vec::new();
        };
        match output {
            AgentOutput::Done => {
                let effects = self.finish(active);
                return self.start_waiting(effects);
            }
            AgentOutput::Failed(error) => {
                let effects = self.fail(&mut active, *error);
                return self.start_waiting(effects);
            }
            _ => {}
        }
        let events = active.events(output);
        self.active = Some(active);
        events.into_iter().map(|event| self.send(event)).collect()
    }

    /// Takes an event from another session of the chat.
    pub fn on_broadcast(&mut self, event: ServerEvent) -> Vec<Effect> {
        if self.is_closed { Vec::new() } else { vec![self.send(event)] }
    }

    fn create(&mut self, request: ResponseCreate, reply_to: Option<String>) -> Vec<Effect> {
        let now = self.settings.clock.now().milliseconds().div_euclid(1000);
        if self.settings.token_expires_at.is_some_and(|expires_at| expires_at <= now) {
            let message = "the token has expired; send a new one with `session.update`";
            let details = RawJson::from_value(&serde_json::json!({ "reason": "token_expired" })).ok();
            let error = ErrorDetails { details, ..ErrorDetails::new(ErrorCode::Unauthorized, message) };
            return vec![self.send(SessionError { error, reply_to, ..SessionError::default() })];
        }
        let Some(active_id) = self.active_response() else { return self.begin(request, reply_to) };
        match self.extension().on_concurrent {
            Some(ConcurrentResponses::Supersede) => {
                let mut effects = self.active.take().map(|active| self.cancelled(active)).unwrap_or_default();
                effects.extend(self.begin(request, reply_to));
                effects
            }
            Some(ConcurrentResponses::Queue) if self.has_room() => match self.ask(request) {
                Err(error) => vec![self.too_large(error, reply_to)],
                Ok(asked) => {
                    self.waiting.push_back(asked);
                    Vec::new()
                }
            },
            _ => {
                let message = format!("the response {active_id} has not ended; wait for it or cancel it");
                let details =
                    RawJson::from_value(&serde_json::json!({ "active_response_id": active_id })).ok();
                let error =
                    ErrorDetails { details, ..ErrorDetails::new(ErrorCode::ResponseInProgress, message) };
                vec![self.send(ResponseError { error, reply_to, ..ResponseError::default() })]
            }
        }
    }

    /// True if another request may wait.
    fn has_room(&self) -> bool {
        let bytes = self.waiting.iter().map(|asked| size_of(&asked.messages)).fold(0, usize::saturating_add);
        self.waiting.len() < MAX_WAITING && bytes < MAX_BYTES
    }

    /// Starts the next response that waits.
    pub(super) fn start_waiting(&mut self, mut effects: Vec<Effect>) -> Vec<Effect> {
        while self.active.is_none()
            && let Some(asked) = self.waiting.pop_front()
        {
            effects.extend(self.start(asked));
        }
        effects
    }

    /// Takes the input that a request is about.
    ///
    /// # Errors
    /// The messages of the request are too large.
    fn ask(&mut self, mut request: ResponseCreate) -> Result<Asked, InputTooLarge> {
        let options = request.response.as_mut();
        if let Some(messages) = options.and_then(|options| options.messages.take()) {
            self.input.replace(messages)?;
        }
        let (messages, replaces) = self.input.take();
        Ok(Asked { request, messages, replaces })
    }

    /// Starts a response with the input that there is.
    fn begin(&mut self, request: ResponseCreate, reply_to: Option<String>) -> Vec<Effect> {
        match self.ask(request) {
            Err(error) => vec![self.too_large(error, reply_to)],
            Ok(asked) => self.start(asked),
        }
    }

    fn start(&mut self, asked: Asked) -> Vec<Effect> {
        let Asked { mut request, messages, replaces } = asked;
        let signed = self.settings.signer.is_some().then(|| json::write(&messages).unwrap_or_default());
        let id = self.settings.ids.string();
        let config = &self.settings.config;
        let of_response = request.response.as_mut();
        let (instructions, tools) =
            of_response.map_or((None, None), |options| (options.instructions.take(), options.tools.take()));
        let start = Box::new(ResponseRequest {
            response_id: id.clone(),
            messages,
            replaces,
            instructions: instructions.or_else(|| config.instructions.clone()),
            tools: tools.or_else(|| config.tools.clone()).unwrap_or_default(),
            options: request.response,
            response_format: request.response_format.or_else(|| config.response_format.clone()),
        });
        let created = self.send(ResponseCreated { response_id: id.clone(), ..ResponseCreated::default() });
        let (stage, next) = if self.settings.has_payment_gate {
            let payment_token = self.settings.payment_token.clone();
            let check = Effect::CheckPayment { response_id: id.clone(), payment_token };
            (Stage::CheckingPayment(start), check)
        } else {
            (Stage::Running, Effect::Start(start))
        };
        self.active = Some(Active::new(id, stage, signed));
        vec![created, next]
    }

    fn cancel(&mut self, request: &ResponseCancel, reply_to: Option<String>) -> Vec<Effect> {
        let wanted = request.response_id.as_deref();
        if let Some(active) = self.active.take_if(|active| wanted.is_none_or(|id| id == active.id)) {
            let effects = self.cancelled(active);
            return self.start_waiting(effects);
        }
        let message = "the session has no such active response; it may have ended already";
        vec![self.response_error(ErrorCode::ResponseNotActive, message.to_owned(), reply_to)]
    }

    /// Ends a response. The host keeps what there is of its output in the conversation.
    fn cancelled(&mut self, active: Active) -> Vec<Effect> {
        let cancelled = ResponseCancelled {
            response_id: Some(active.id.clone()),
            partial_output: Some(active.output.items().to_vec()),
            ..ResponseCancelled::default()
        };
        vec![Effect::Cancel { response_id: active.id }, self.send(cancelled)]
    }

    fn finish(&mut self, mut active: Active) -> Vec<Effect> {
        let mut effects: Vec<Effect> =
            active.audio_ends().into_iter().map(|event| self.send(event)).collect();
        let response = Response {
            id: Some(active.id.clone()),
            status: ResponseStatus::Completed,
            output: active.output.items().to_vec(),
            usage: Some(active.output.usage().clone()),
            ..Response::default()
        };
        let signature = self.signature(&active);
        let response_id = Some(active.id.clone());
        effects.push(self.send(ResponseDone { response_id, response, signature, ..ResponseDone::default() }));
        effects.extend(self.balance(&mut active));
        effects
    }

    fn signature(&self, active: &Active) -> Option<String> {
        let signer = self.settings.signer.as_ref()?;
        let messages = active.signed_messages.as_deref()?;
        signer.sign(&active.id, &active.output.text(), messages, self.settings.clock.now())
    }

    /// Ends a response with an error. The host keeps what there is of its output in the conversation.
    pub(super) fn fail(&mut self, active: &mut Active, mut error: ErrorDetails) -> Vec<Effect> {
        let mut effects: Vec<Effect> =
            active.audio_ends().into_iter().map(|event| self.send(event)).collect();
        let mut details: serde_json::Map<String, serde_json::Value> =
            error.details.as_ref().and_then(|details| details.to().ok()).unwrap_or_default();
        details.insert("partial_output".to_owned(), serde_json::json!(active.output.items()));
        error.details = RawJson::from_value(&details).ok();
        effects.extend(self.rate_limit(&error).map(|limit| self.send(limit)));
        let response_id = Some(active.id.clone());
        effects.push(self.send(ResponseError { response_id, error, ..ResponseError::default() }));
        effects
    }

    /// The limit that a response has failed at.
    ///
    /// Spec: UAMP-1.0 §6.17
    fn rate_limit(&self, error: &ErrorDetails) -> Option<RateLimit> {
        if error.code != ErrorCode::RateLimitExceeded {
            return None;
        }
        let details = error.details.as_ref().and_then(RawObject::from_raw);
        let wait: Option<Number> = details.and_then(|details| details.get("retry_after")?.to().ok());
        let wait = wait.and_then(|wait| Duration::try_from_secs_f64(wait.as_f64()).ok());
        let wait = wait.and_then(|wait| i64::try_from(wait.as_millis()).ok());
        let now = self.settings.clock.now().milliseconds();
        let reset_at = wait.map(|wait| rounded_up(now.saturating_add(wait)).into());
        Some(RateLimit { reset_at, ..RateLimit::default() })
    }

    fn tool_result(&mut self, event: ToolResultEvent, reply_to: Option<String>) -> Vec<Effect> {
        let calls = self.active.as_mut().map(|active| &mut active.calls);
        let call = calls
            .and_then(|calls| calls.iter_mut().find(|(id, result)| *id == event.call_id && result.is_none()));
        let Some((_, result)) = call else {
            let message = format!("no call \"{}\" waits for a result", shown(&event.call_id));
            return vec![self.response_error(ErrorCode::UnknownCallId, message, reply_to)];
        };
        let is_error = event.is_error.unwrap_or(false);
        *result = Some(ToolOutcome { call_id: event.call_id, result: event.result, is_error });
        let Some(active) = self.active.as_mut() else { return Vec::new() };
        if active.calls.iter().any(|(_, result)| result.is_none()) {
            return Vec::new();
        }
        let results = active.calls.drain(..).filter_map(|(_, result)| result).collect();
        vec![Effect::Resume { response_id: active.id.clone(), results }]
    }

    fn update(&mut self, update: SessionUpdate, reply_to: Option<String>) -> Vec<Effect> {
        if let Some(changes) = update.session {
            if let Err(error) = changes.uamp_extension() {
                let message = format!("session.extensions.uamp: {error}");
                return vec![self.session_error(ErrorCode::InvalidEvent, message, reply_to)];
            }
            self.settings.config.merge(changes);
        }
        self.set_payment_token(update.payment_token);
        vec![self.send(SessionUpdated::default())]
    }

    fn set_payment_token(&mut self, token: Option<String>) {
        if token.is_some() {
            self.settings.payment_token = token;
        }
    }

    /// Ends the session: cancels the active response, and says so. For the client's request, and for the server's
    /// reasons, for example `timeout`.
    pub fn end(&mut self, reason: Option<&str>) -> Vec<Effect> {
        if self.is_closed {
            return Vec::new();
        }
        let mut effects = self.active.take().map(|active| self.cancelled(active)).unwrap_or_default();
        self.is_closed = true;
        self.waiting.clear();
        effects.push(self.send(SessionEnd { reason: reason.map(str::to_owned), ..SessionEnd::default() }));
        effects.push(Effect::Close);
        effects
    }

    fn extension(&self) -> crate::types::UampExtension {
        self.settings.config.uamp_extension().unwrap_or_default()
    }

    /// The event that announces the session. It has no envelope yet.
    fn created(&self, resumed: bool) -> SessionCreated {
        let settings = &self.settings;
        let session = Session {
            id: settings.id.clone(),
            created_at: Some(self.created_at.into()),
            config: Some(SessionConfig { token: None, ..settings.config.clone() }),
            status: Some(SessionStatus::Active),
            agent: settings.agent.clone(),
            ..Session::default()
        };
        SessionCreated {
            uamp_version: VERSION.to_owned(),
            session,
            chat: settings.chat.clone(),
            agent: settings.agent.clone(),
            resumed: resumed.then_some(true),
            ..SessionCreated::default()
        }
    }

    /// The events for a client that has connected again. They are not part of the log: they have no sequence number.
    pub fn announce_again(&self) -> Vec<ServerEvent> {
        let capabilities = self.settings.capabilities.clone();
        let events: [ServerEvent; 2] = [
            self.created(true).into(),
            CapabilitiesEvent { capabilities, ..CapabilitiesEvent::default() }.into(),
        ];
        events.into_iter().map(|event| self.enveloped(event)).collect()
    }

    fn send_capabilities(&mut self) -> Effect {
        let capabilities = self.settings.capabilities.clone();
        self.send(CapabilitiesEvent { capabilities, ..CapabilitiesEvent::default() })
    }

    fn too_large(&mut self, error: InputTooLarge, reply_to: Option<String>) -> Effect {
        self.session_error(ErrorCode::InvalidEvent, error.to_string(), reply_to)
    }

    /// An error of the session, for the host's own reasons too.
    pub fn session_error(&mut self, code: ErrorCode, message: String, reply_to: Option<String>) -> Effect {
        let error = ErrorDetails::new(code, message);
        self.send(SessionError { error, reply_to, ..SessionError::default() })
    }

    /// An error that ends no response.
    pub(super) fn response_error(
        &mut self,
        code: ErrorCode,
        message: String,
        reply_to: Option<String>,
    ) -> Effect {
        let error = ErrorDetails::new(code, message);
        self.send(ResponseError { error, reply_to, ..ResponseError::default() })
    }

    fn enveloped(&self, mut event: ServerEvent) -> ServerEvent {
        event.set_event_id(self.settings.ids.string());
        event.set_timestamp(self.settings.clock.now().milliseconds());
        event.set_session_id(self.settings.id.clone());
        event
    }

    /// Sets the envelope of an event.
    pub(super) fn send(&mut self, event: impl Into<ServerEvent>) -> Effect {
        let mut event = self.enveloped(event.into());
        self.settings.seq = self.settings.seq.saturating_add(1);
        event.set_seq(self.settings.seq);
        Effect::Send(event)
    }
}

/// The beginning of a name that a client has chosen, for an error: it may be as long as an event.
fn shown(name: &str) -> String {
    name.chars().take(100).collect()
}
