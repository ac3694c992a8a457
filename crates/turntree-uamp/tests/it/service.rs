//! The HTTP application.

use std::sync::Arc;

use serde_json::Value;
use turntree_agents::{Agent, AgentOptions};
use turntree_core::ids::RandomIds;
use turntree_core::secret::Secret;
use turntree_core::time::SystemClock;
use turntree_server::{BearerTokens, Principal, Service, TestClient};
use turntree_store::JournalStore;
use turntree_store::engines::memory::MemoryEngine;
use turntree_uamp::agent::{AgentRegistry, Conversations, RustHost, ServedAgent};
use turntree_uamp::service::{AgentService, Site};
use turntree_uamp::wires;
use turntree_upp::providers::scripted::{Reply, Scripted};

/// An agent with a name that answers with these texts.
pub(crate) fn served(name: &str, replies: &[&str]) -> ServedAgent {
    let replies: Vec<Reply> = replies.iter().map(|text| Reply::from(*text)).collect();
    let options = AgentOptions {
        model: Some(Arc::new(Scripted::new(replies))),
        name: Some(name.into()),
        ..AgentOptions::default()
    };
    ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost))
}

/// A site of these agents, with a store in memory.
pub(crate) fn site_of(agents: impl IntoIterator<Item = ServedAgent>) -> Site {
    let store = Arc::new(JournalStore::new(Arc::new(MemoryEngine::new())));
    let conversations = Conversations::new(store, Arc::new(RandomIds), Arc::new(SystemClock));
    Site::new(AgentRegistry::new(agents).unwrap(), conversations)
}

/// A service of these agents on all wires, with a store in memory.
pub(crate) fn service_of(agents: impl IntoIterator<Item = ServedAgent>) -> AgentService {
    AgentService::new(site_of(agents), wires::all())
}

async fn get(client: &TestClient, path: &str) -> (u16, Value) {
    let response = client.get(path).await.unwrap();
    (response.status.as_u16(), response.json())
}

async fn get_status(client: &TestClient, path: &str) -> u16 {
    client.get(path).await.unwrap().status.as_u16()
}

#[tokio::test]
async fn the_only_agent_is_served_at_the_root_and_below_its_name() {
    let client = TestClient::new(service_of([served("Weather agent", &[])]));
    for path in ["/info", "/v1/info", "/agents/Weather%20agent/info", "/agents/Weather%20agent/v1/info/"] {
        let (status, body) = get(&client, path).await;
        assert_eq!((status, &body["name"]), (200, &"Weather agent".into()), "{path}");
    }
    let (status, body) = get(&client, "/agents/other/info").await;
    assert_eq!((status, &body["error"]["code"]), (404, &"agent_not_found".into()));
    assert_eq!(get(&client, "/nothing").await.0, 404);
}

#[tokio::test]
async fn a_path_names_an_agent_exactly_or_none() {
    let client = TestClient::new(service_of([served("a", &[]), served("b", &[])]));
    for path in [
        "/agents/%2e%2e/info",
        "/agents/..%2fa/info",
        "/agents/a%2finfo",
        "/agents/a%00/info",
        "/agents/a%20/info",
        "/agents/A/info",
        "/agents/%ff/info",
        "/agents/%61%/info",
        "/agents//info",
        "/agents/a/../b/info",
        "/agents/a/./info",
        "/agents/a//info",
        "/agents/a;x=1/info",
        "//agents/a/info",
        "/agents/a/agents/b/info",
        "/v1/v1/info",
    ] {
        let (status, body) = get(&client, path).await;
        assert_eq!(status, 404, "{path}: {body}");
        assert!(body["error"]["message"].is_string(), "{path}: {body}");
    }
    let long = "x".repeat(60_000);
    let (status, body) = get(&client, &format!("/agents/{long}/info")).await;
    assert!(status == 404 && body.to_string().len() < 1_000, "{} bytes", body.to_string().len());
    assert_eq!(get(&client, "/agents/%61/info").await.0, 200);
}

#[tokio::test]
async fn no_spelling_of_a_path_avoids_the_token() {
    let tokens = BearerTokens::new([(Secret::from("t"), Principal::new("p"))]);
    let service = Service::new(service_of([served("a", &[])])).with_authenticator(tokens);
    let client = TestClient::for_service(service);
    for path in [
        "/models",
        "/v1/models/",
        "/agents/a/v1/models",
        "/agents/%61/models",
        "/.well-known/../models",
        "/.well-known/agent-card.json/../../models",
        "/.well-known%2fagent-card.json",
        "/healthz/../models",
        "//models",
        "/tasks",
        "/a2a/tasks/x",
        "/acp",
        "/events/stream?session_id=x",
    ] {
        let status = get_status(&client, path).await;
        assert!(status == 401 || status == 404, "{path}: {status}");
    }
    assert_eq!(get_status(&client, "/v1/models").await, 401);
}

#[tokio::test]
async fn several_agents_are_listed_at_the_root() {
    let client = TestClient::new(service_of([served("a", &[]), served("b", &[])]));
    let (_, body) = get(&client, "/info").await;
    assert_eq!(body["agents"][1]["name"], "b");
    let (_, body) = get(&client, "/agents/b/capabilities").await;
    assert_eq!((&body["id"], &body["supports_streaming"]), (&"b".into(), &true.into()));
}
