//! The wire of UAMP: in process, with the frames that a socket would carry.

mod completions;
mod connection;
mod http;
mod load;
mod loopback;
mod native;
mod payments;
mod resume;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use turntree_agents::{Agent, AgentOptions};
use turntree_core::ids::RandomIds;
use turntree_server::websocket::Handshake;
use turntree_server::{Application as _, CloseFrame, Message, RequestContext, WebSocketUpgrade};
use turntree_uamp::agent::{RustHost, ServedAgent};
use turntree_uamp::service::{AgentService, Site};
use turntree_uamp::wires::uamp::{Uamp, UampLimits};
use turntree_upp::providers::scripted::{Reply, Scripted};

use crate::service::site_of;

/// How long a test waits for a frame.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent with these replies, and its model.
pub(crate) fn agent(name: &str, replies: Vec<Reply>) -> (ServedAgent, Arc<Scripted>) {
    let model = Arc::new(Scripted::new(replies));
    let options =
        AgentOptions { model: Some(model.clone()), name: Some(name.into()), ..AgentOptions::default() };
    (ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost)), model)
}

/// A service of one agent, and its wire.
pub(crate) struct Service {
    pub(crate) service: AgentService,
    pub(crate) wire: Uamp,
}

pub(crate) fn service(site: Site, limits: UampLimits) -> Service {
    let wire = Uamp::new(limits);
    Service { service: AgentService::new(site, vec![Box::new(wire.clone())]), wire }
}

pub(crate) fn service_with(replies: Vec<Reply>) -> Service {
    service(site_of([agent("guide", replies).0]), UampLimits::default())
}

/// A tool that the client runs.
pub(crate) fn locate() -> Value {
    json!({"type": "function", "function": {"name": "locate", "parameters": {"type": "object"}}})
}

/// A reply that calls the client's tool.
pub(crate) fn calls_locate() -> Reply {
    Reply::tool_call("locate", turntree_core::json::RawJson::from_text("{}".to_owned()).unwrap())
}

/// The client's end of a connection.
pub(crate) struct Socket {
    incoming: mpsc::Receiver<Message>,
    outgoing: mpsc::Sender<Message>,
}

impl Socket {
    pub(crate) async fn open(service: &AgentService, path: &str) -> Self {
        let (upgrade, answered) = WebSocketUpgrade::new(Vec::new());
        let request = ::http::Request::get(path).body(()).unwrap();
        let service = service.clone();
        tokio::spawn(async move { service.websocket(request, RequestContext::default(), upgrade).await });
        match answered.await.unwrap() {
            Handshake::Accepted(socket) => {
                let (incoming, outgoing) = socket.split();
                Self { incoming, outgoing }
            }
            Handshake::Rejected(response) => panic!("{}", response.status()),
        }
    }

    pub(crate) async fn send(&self, event: Value) {
        self.outgoing.send(Message::Text(event.to_string())).await.unwrap();
    }

    /// The next message of any kind; `None` at the end.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        tokio::time::timeout(PATIENCE, self.incoming.recv()).await.expect("no message")
    }

    /// The next event.
    pub(crate) async fn event(&mut self) -> Value {
        match self.message().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The events up to the first one of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            let is_last = event["type"] == kind;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// The code with which the connection is closed.
    pub(crate) async fn close_code(&mut self) -> Option<u16> {
        loop {
            match self.message().await {
                Some(Message::Close(Some(CloseFrame { code, .. }))) => return Some(code),
                Some(_) => {}
                None => return None,
            }
        }
    }

    /// Creates a session and returns its id.
    pub(crate) async fn create(&mut self, members: Value) -> String {
        let mut event = json!({"type": "session.create", "uamp_version": "1.0", "session": {}});
        event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        self.send(event).await;
        let events = self.until("capabilities").await;
        events[0]["session_id"].as_str().unwrap().to_owned()
    }

    /// Sends text and asks for a response.
    pub(crate) async fn ask(&self, session: &str, text: &str) {
        self.send(json!({"type": "input.text", "session_id": session, "text": text})).await;
        self.send(json!({"type": "response.create", "session_id": session})).await;
    }
}

/// The text of the deltas among events.
pub(crate) fn text_of(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect()
}

/// The sequence number of the last event that has one.
pub(crate) fn last_seq(events: &[Value]) -> u64 {
    events.iter().rev().find_map(|event| event["seq"].as_u64()).unwrap()
}

/// Waits until a condition holds.
pub(crate) async fn eventually(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the condition never held");
}
