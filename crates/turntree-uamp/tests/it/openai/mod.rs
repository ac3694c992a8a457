//! The HTTP API of OpenAI.

mod chat;
mod chat_errors;
mod damaged;
mod responses;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use turntree_agents::{Agent, AgentOptions, Tool};
use turntree_core::ids::RandomIds;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::ToolDefinition;
use turntree_server::{Body, TestClient};
use turntree_uamp::agent::{RustHost, ServedAgent};
use turntree_upp::providers::scripted::{Reply, Scripted};
use turntree_upp::{Capabilities, Model, ModelRequest, ModelResponse, ModelStream, UppError};

use crate::service::service_of;

/// An agent with its scripted model.
pub(crate) fn scripted(replies: Vec<Reply>, tools: Vec<Tool>) -> (Scripted, ServedAgent) {
    let model = Scripted::new(replies);
    let served = agent_with(Arc::new(model.clone()), tools);
    (model, served)
}

pub(crate) fn agent_with(model: Arc<dyn Model>, tools: Vec<Tool>) -> ServedAgent {
    let options =
        AgentOptions { model: Some(model), name: Some("weather".into()), tools, ..AgentOptions::default() };
    ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost))
}

pub(crate) fn client(replies: Vec<Reply>) -> TestClient {
    TestClient::new(service_of([scripted(replies, Vec::new()).1]))
}

pub(crate) fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawJson::from_text(r#"{"type":"object"}"#.to_owned()).unwrap(),
        metadata: None,
        extra: Extra::new(),
    }
}

pub(crate) fn arguments() -> RawJson {
    RawJson::from_text(r#"{"x":1}"#.to_owned()).unwrap()
}

/// The data of the frames of an event stream.
pub(crate) async fn frames(client: &TestClient, path: &str, body: &Value) -> Vec<String> {
    let request = client.request(Method::POST, path, Body::json(body));
    let response = client.send(request).await.unwrap();
    assert_eq!(response.header("content-type"), Some("text/event-stream"), "{}", response.text());
    let text = response.text();
    text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// A model under the name of another provider.
#[derive(Debug)]
pub(crate) struct Renamed(pub(crate) Scripted, pub(crate) &'static str);

impl Model for Renamed {
    fn model_id(&self) -> &str {
        self.0.model_id()
    }

    fn provider(&self) -> &str {
        self.1
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        self.0.complete(request)
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.0.stream(request)
    }
}

fn hello() -> Value {
    json!({ "model": "weather", "messages": [{ "role": "user", "content": "hi" }] })
}

/// A request with more members.
fn with(mut request: Value, members: Value) -> Value {
    let Value::Object(members) = members else { return request };
    request.as_object_mut().unwrap().extend(members);
    request
}
