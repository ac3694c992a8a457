//! OpenAI's Realtime protocol: `/realtime` over WebSocket, in the generation of today and in that of the beta.
//!
//! | module | content |
//! |---|---|
//! | [`core`] | a connection as a state machine without I/O |
//! | [`items`] | items of the conversation, and their messages |
//! | [`response`] | the events of a response, without I/O |
//! | [`names`] | the names in which the generations differ |
//!
//! A connection is one conversation, in memory. Speech is not detected: the client commits its audio, and asks for
//! responses. Audio is sent to models that take audio.
//!
//! Spec: UAMP-1.0 §13; OpenAI API reference, "Realtime"

pub mod core;
pub mod items;
pub mod names;
pub mod response;

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, select};
use http::{HeaderMap, Method, StatusCode};
use percent_encoding::percent_decode_str;
use turntree_server::websocket::Message;
use turntree_server::{Principal, Response, ServerError, WebSocket, WebSocketUpgrade};

use self::core::{Core, Effect};
use self::names::Generation;
use crate::agent::{RunInput, RunOptions, RunRequest, ServedAgent};
use crate::service::{Exchange, Site, Wire};
use crate::wires::openai::error::ApiError;
use crate::wires::openai::payment;
use crate::wires::openai::{Reply, ReplyPart};

const PATH: &str = "/realtime";

/// The wire of the Realtime protocol.
#[derive(Debug, Clone, Copy, Default)]
pub struct Realtime;

impl Wire for Realtime {
    fn serves(&self, method: &Method, path: &str) -> bool {
        method == Method::GET && path == PATH
    }

    fn call(&self, _exchange: Exchange) -> BoxFuture<'static, Response> {
        let message = "this path is a WebSocket; connect with the scheme ws: or wss:";
        let error = ApiError::new(StatusCode::UPGRADE_REQUIRED, message).with_code("upgrade_required");
        std::future::ready(error.response()).boxed()
    }

    fn websocket(
        &self,
        exchange: Exchange<http::Request<()>>,
        upgrade: WebSocketUpgrade,
    ) -> BoxFuture<'static, ()> {
        let Exchange { site, route, request, context } = exchange;
        let query = request.uri().query().unwrap_or_default();
        let model = parameter(query, "model");
        let agent = match route.agent(&site, model.as_deref()) {
            Ok(agent) => Arc::clone(agent),
            Err(error) => {
                upgrade.reject(ApiError::model_not_found(&error).response());
                return std::future::ready(()).boxed();
            }
        };
        let generation = generation(request.headers(), upgrade.subprotocols());
        let subprotocol = upgrade.subprotocols().iter().find(|name| *name == "realtime").cloned();
        let payment_token = payment::token(request.headers(), request.uri().query());
        async move {
            let Ok(socket) = upgrade.accept(subprotocol) else { return };
            let core = Core::new(generation, &agent, Arc::clone(&site.ids), Arc::clone(&site.clock));
            let connection =
                Connection { site, agent, principal: context.principal, payment_token, core, reply: None };
            connection.serve(socket).await;
        }
        .boxed()
    }

    fn refuse(&self, error: &ServerError) -> Response {
        ApiError::from(error).response()
    }
}

/// A parameter of a URL.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    let text = value.replace('+', " ");
    Some(percent_decode_str(&text).decode_utf8_lossy().into_owned())
}

/// The beta is asked for by a header, or by a subprotocol in browsers.
fn generation(headers: &HeaderMap, subprotocols: &[String]) -> Generation {
    let header = headers.get("openai-beta").and_then(|value| value.to_str().ok());
    let is_beta = header.is_some_and(|value| value.contains("realtime=v1"))
        || subprotocols.iter().any(|name| name == "openai-beta.realtime-v1");
    if is_beta { Generation::Beta } else { Generation::Current }
}

/// One connection.
struct Connection {
    site: Arc<Site>,
    agent: Arc<ServedAgent>,
    principal: Option<Principal>,
    payment_token: Option<Arc<str>>,
    core: Core,
    reply: Option<Reply>,
}

/// What a connection waits for.
enum Happened {
    Message(Option<Message>),
    Part(Option<ReplyPart>),
}

impl Connection {
    /// Serves until the client has gone. Dropping the future cancels the response.
    async fn serve(mut self, mut socket: WebSocket) {
        let created = self.core.created();
        if self.perform(vec![created], &socket).await.is_err() {
            return;
        }
        loop {
            let happened = match &mut self.reply {
                None => Happened::Message(socket.receive().await),
                Some(reply) => {
                    let (message, part) = (Box::pin(socket.receive()), Box::pin(reply.next()));
                    match select(message, part).await {
                        Either::Left((message, _)) => Happened::Message(message),
                        Either::Right((part, _)) => Happened::Part(part),
                    }
                }
            };
            let effects = match happened {
                Happened::Message(None | Some(Message::Close(_))) => return,
                Happened::Message(Some(Message::Text(text))) => self.core.on(&text),
                Happened::Message(Some(Message::Binary(_))) => self.core.on_binary(),
                Happened::Part(Some(part)) => {
                    let usage = self.reply.as_ref().map(Reply::usage).unwrap_or_default();
                    self.core.on_part(part, &usage)
                }
                Happened::Part(None) => {
                    self.reply = None;
                    continue;
                }
            };
            if self.perform(effects, &socket).await.is_err() {
                return;
            }
        }
    }

    /// Performs effects in their order.
    ///
    /// # Errors
    /// The client has gone.
    async fn perform(&mut self, effects: Vec<Effect>, socket: &WebSocket) -> Result<(), ServerError> {
        for effect in effects {
            match effect {
                Effect::Send(event) => socket.send(Message::Text(event)).await?,
                Effect::Cancel => {
                    if let Some(reply) = &self.reply {
                        reply.control().cancel();
                    }
                }
                Effect::Start(start) => {
                    let token = self.payment_token.clone();
                    let principal = self.principal.as_ref();
                    let paid =
                        payment::check(&self.site, &self.agent, principal, &start.response_id, token).await;
                    if let Err(error) = paid {
                        for event in self.core.refused(&error) {
                            socket.send(Message::Text(event)).await?;
                        }
                        continue;
                    }
                    let input: RunInput = start.input;
                    let agent = Arc::clone(&self.agent);
                    let options = RunOptions { principal: self.principal.clone(), ..start.options };
                    self.reply = Some(Reply::start(RunRequest { agent, input, options }));
                }
            }
        }
        Ok(())
    }
}
