//! A2A: both versions and bindings, tasks, approvals, webhooks, cards.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{HeaderName, Method};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use turntree_agents::host::{
    Approval, FunctionHost, Host, HostError, HostFuture, RunContext, ToolInvocation,
};
use turntree_agents::{Agent, AgentOptions, Tool};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::ToolDefinition;
use turntree_core::secret::Secret;
use turntree_core::time::{Clock, SystemClock};
use turntree_server::{BearerTokens, Body, Principal, Service, TestClient};
use turntree_store::engines::memory::MemoryEngine;
use turntree_store::{Engine, JournalStore};
use turntree_uamp::agent::{
    AgentHost, AgentRegistry, AgentWork, Conversations, HostUnavailable, RustHost, ServedAgent,
};
use turntree_uamp::service::{AgentService, Site};
use turntree_uamp::wires::a2a::A2a;
use turntree_upp::providers::scripted::{Reply, Scripted};

use crate::ag_ui::events_of;
use crate::service::{served, service_of};

const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

fn message(text: &str) -> Value {
    json!({ "message": { "messageId": "m1", "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

async fn rpc(client: &TestClient, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let response = client.post("/a2a", &body).await.unwrap();
    assert_eq!(response.status.as_u16(), 200);
    let body = response.json();
    assert_eq!((&body["jsonrpc"], &body["id"]), (&"2.0".into(), &7.into()), "{body}");
    body
}

async fn stream(client: &TestClient, method: &str, params: Value) -> Vec<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let response = client.post("/", &body).await.unwrap();
    assert_eq!(response.header("content-type"), Some("text/event-stream"), "{}", response.text());
    events_of(&response.text()).into_iter().map(|mut event| event["result"].take()).collect()
}

pub(crate) fn tool(name: &str) -> Tool {
    Tool::new(ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawJson::from_text(r#"{"type":"object"}"#.to_owned()).unwrap(),
        metadata: None,
        extra: Extra::new(),
    })
}

pub(crate) fn agent_with(replies: Vec<Reply>, tools: Vec<Tool>, host: Arc<dyn AgentHost>) -> ServedAgent {
    let options = AgentOptions {
        model: Some(Arc::new(Scripted::new(replies))),
        tools,
        name: Some("a".into()),
        ..AgentOptions::default()
    };
    ServedAgent::new(Agent::new(options, &RandomIds), host)
}

/// An agent whose tool never returns.
fn hanging() -> ServedAgent {
    let hang = tool("hang").with_function(|_| std::future::pending::<Result<RawJson, HostError>>());
    agent_with(vec![Reply::tool_call("hang", RawJson::empty_object())], vec![hang], Arc::new(RustHost))
}

fn service_on(engine: &Arc<dyn Engine>, agent: ServedAgent, wire: A2a) -> AgentService {
    let store = Arc::new(JournalStore::new(Arc::clone(engine)));
    let conversations =
        Conversations::new(store, Arc::new(RandomIds), Arc::new(SystemClock)).with_engine(Arc::clone(engine));
    AgentService::new(Site::new(AgentRegistry::new([agent]).unwrap(), conversations), vec![Box::new(wire)])
}

#[tokio::test]
async fn a_message_becomes_a_task_with_the_answer_as_artifact_and_as_message() {
    let client = TestClient::new(service_of([served("a", &["hello you"])]));
    let sent = rpc(&client, "SendMessage", message("hi")).await;
    let task = &sent["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{sent}");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello you");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "hello you");
    assert_eq!(task["history"][0]["parts"][0]["text"], "hi");

    let got = rpc(&client, "GetTask", json!({ "id": task["id"], "historyLength": 0 })).await;
    assert_eq!((&got["result"]["id"], &got["result"]["history"]), (&task["id"], &Value::Null));
    let list = rpc(&client, "ListTasks", json!({ "contextId": task["contextId"] })).await;
    assert_eq!((&list["result"]["totalSize"], &list["result"]["tasks"][0]["id"]), (&1.into(), &task["id"]));
    let other = rpc(&client, "ListTasks", json!({ "contextId": "other" })).await;
    assert_eq!(other["result"]["totalSize"], 0);
}

#[tokio::test]
async fn version_0_3_is_answered_in_its_own_form_on_the_same_url() {
    let client = TestClient::new(service_of([served("a", &["one", "two"])]));
    let old = json!({
        "message": { "kind": "message", "messageId": "m1", "role": "user", "parts": [{ "kind": "text", "text": "hi" }] },
    });
    let sent = rpc(&client, "message/send", old.clone()).await;
    let task = &sent["result"];
    assert_eq!((&task["kind"], &task["status"]["state"]), (&"task".into(), &"completed".into()), "{sent}");
    assert_eq!(task["artifacts"][0]["parts"][0], json!({ "kind": "text", "text": "one" }));
    let got = rpc(&client, "tasks/get", json!({ "id": task["id"] })).await;
    assert_eq!(got["result"]["history"][0]["role"], "user");

    let events = stream(&client, "message/stream", old).await;
    assert_eq!(events[0]["kind"], "task");
    let last = events.last().unwrap();
    assert_eq!((&last["kind"], &last["final"]), (&"status-update".into(), &true.into()));
    assert!(events.iter().any(|event| event["kind"] == "artifact-update"));
}

#[tokio::test]
async fn a_stream_is_the_task_its_artifact_and_a_last_state_that_repeats_the_text() {
    let client = TestClient::new(service_of([served("a", &["hello you"])]));
    let events = stream(&client, "SendStreamingMessage", message("hi")).await;
    assert_eq!(events[0]["task"]["status"]["state"], "TASK_STATE_SUBMITTED");
    assert_eq!(events[1]["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING");
    let pieces: Vec<&Value> =
        events.iter().map(|event| &event["artifactUpdate"]).filter(|update| !update.is_null()).collect();
    let text: String =
        pieces.iter().filter_map(|piece| piece["artifact"]["parts"][0]["text"].as_str()).collect();
    assert_eq!(text, "hello you");
    assert_eq!(pieces[0]["append"], false);
    assert!(pieces[1..].iter().all(|piece| piece["append"] == true));
    let last = &events.last().unwrap()["statusUpdate"]["status"];
    assert_eq!(
        (&last["state"], &last["message"]["parts"][0]["text"]),
        (&"TASK_STATE_COMPLETED".into(), &"hello you".into())
    );
}

#[tokio::test]
async fn rest_has_the_same_operations_below_both_paths() {
    let client = TestClient::new(service_of([served("a", &["one", "two"])]));
    let sent = client.post("/message:send", &message("hi")).await.unwrap().json();
    let id = sent["task"]["id"].as_str().unwrap().to_owned();
    let got = client.get(&format!("/a2a/tasks/{id}?historyLength=1")).await.unwrap().json();
    assert_eq!((got["id"].as_str(), got["history"].as_array().map(Vec::len)), (Some(id.as_str()), Some(1)));
    let list = client.get("/tasks?pageSize=1").await.unwrap().json();
    assert_eq!(list["tasks"][0]["id"].as_str(), Some(id.as_str()));
    let events = client.post("/a2a/message:stream", &message("hi")).await.unwrap();
    let events = events_of(&events.text());
    assert_eq!(events.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");

    let refused = client.post(&format!("/tasks/{id}:cancel"), &json!({})).await.unwrap();
    assert_eq!(refused.status.as_u16(), 400);
    assert_eq!(refused.json()["error"]["details"][0]["reason"], "TASK_NOT_CANCELABLE");
    let missing = client.get("/tasks/nothing").await.unwrap();
    assert_eq!((missing.status.as_u16(), &missing.json()["error"]["status"]), (404, &"NOT_FOUND".into()));
}

#[tokio::test]
async fn a_client_that_does_not_wait_can_cancel_and_subscribers_see_the_end() {
    let client = TestClient::new(service_of([hanging()]));
    let mut params = message("hi");
    params["configuration"] = json!({ "returnImmediately": true });
    let task = rpc(&client, "SendMessage", params).await["result"]["task"].take();
    assert!(matches!(task["status"]["state"].as_str(), Some("TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING")));

    let body =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "SubscribeToTask", "params": { "id": task["id"] } });
    let subscribed = client.stream(client.request(Method::POST, "/", Body::json(&body))).await;
    let cancelled = rpc(&client, "CancelTask", json!({ "id": task["id"] })).await;
    assert_eq!(cancelled["result"]["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    let body = subscribed.into_body().bytes().await.unwrap();
    let events = events_of(&String::from_utf8_lossy(&body));
    assert_eq!(events[0]["result"]["task"]["id"], task["id"]);
    assert_eq!(events.last().unwrap()["result"]["statusUpdate"]["status"]["state"], "TASK_STATE_CANCELED");
    let again = rpc(&client, "CancelTask", json!({ "id": task["id"] })).await;
    assert_eq!(again["error"]["code"], -32002);
}

#[tokio::test]
async fn a_subscriber_that_was_away_receives_what_it_has_missed() {
    let client = TestClient::new(service_of([served("a", &["hello you"])]));
    let all = stream(&client, "SendStreamingMessage", message("hi")).await;
    let id = &all[0]["task"]["id"];
    let client = client.with_header(HeaderName::from_static("last-event-id"), "1");
    let rest = stream(&client, "SubscribeToTask", json!({ "id": id })).await;
    assert_eq!(rest, all[2..]);
}

#[tokio::test]
async fn a_task_that_another_server_works_on_can_be_followed() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let first = TestClient::new(service_on(&engine, hanging(), A2a::default()));
    let second = TestClient::new(service_on(&engine, hanging(), A2a::default()));
    let mut params = message("hi");
    params["configuration"] = json!({ "returnImmediately": true });
    let id = rpc(&first, "SendMessage", params).await["result"]["task"]["id"].clone();

    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "SubscribeToTask", "params": { "id": id } });
    let subscribed = second.stream(second.request(Method::POST, "/", Body::json(&body))).await;
    assert_eq!(
        rpc(&first, "CancelTask", json!({ "id": id })).await["result"]["status"]["state"],
        "TASK_STATE_CANCELED"
    );

    let body = subscribed.into_body().bytes().await.unwrap();
    let events = events_of(&String::from_utf8_lossy(&body));
    assert_eq!(events[0]["result"]["task"]["id"], id);
    let last = &events.last().unwrap()["result"]["statusUpdate"]["status"];
    assert_eq!(last["state"], "TASK_STATE_CANCELED");
    let error = rpc(&second, "SubscribeToTask", json!({ "id": id })).await;
    assert_eq!(error["error"]["code"], -32004);
}

#[tokio::test]
async fn tasks_belong_to_their_principal_and_survive_a_restart() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let client = |replies: &[&str], token: &str| {
        let tokens = BearerTokens::new(["ann", "bob"].map(|id| (Secret::from(id), Principal::new(id))));
        let service = service_on(&engine, served("a", replies), A2a::default());
        TestClient::for_service(Service::new(service).with_authenticator(tokens)).with_token(token)
    };
    let mut params = message("hi");
    params["message"]["contextId"] = "chat".into();
    let task = rpc(&client(&["one"], "ann"), "SendMessage", params.clone()).await["result"]["task"].take();
    assert_eq!(task["contextId"], "chat");

    let got = rpc(&client(&[], "ann"), "GetTask", json!({ "id": task["id"] })).await;
    assert_eq!(got["result"], task);
    let foreign = rpc(&client(&[], "bob"), "GetTask", json!({ "id": task["id"] })).await;
    assert_eq!(foreign["error"]["code"], -32001);
    assert_eq!(rpc(&client(&[], "bob"), "ListTasks", json!({})).await["result"]["totalSize"], 0);
    rpc(&client(&["two"], "ann"), "SendMessage", params).await;
    let list = rpc(&client(&[], "ann"), "ListTasks", json!({})).await;
    assert_eq!(list["result"]["totalSize"], 2);
    let loaded = JournalStore::new(Arc::clone(&engine));
    let session = turntree_agents::session::store::SessionStore::load(&loaded, "ann/chat").await.unwrap();
    assert!(session.is_some(), "the context is a session of the store");
}

#[tokio::test]
async fn every_error_has_its_code_and_its_error_info() {
    let client = TestClient::new(service_of([served("a", &[])]));
    let user = |parts: Value| json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": parts } });
    let cases = [
        ("Nothing", json!({}), -32601),
        ("GetTask", json!({}), -32602),
        ("GetTask", json!({ "id": "x" }), -32001),
        ("CancelTask", json!({ "id": "00000000-0000-0000-0000-000000000000" }), -32001),
        ("SendMessage", json!({}), -32602),
        ("SendMessage", user(json!([])), -32602),
        ("SendMessage", user(json!([{ "text": "a", "url": "b" }])), -32602),
        ("SendMessage", user(json!([{ "url": "file:///x", "mediaType": "image/png" }])), -32005),
        (
            "SendMessage",
            json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "a" }] } }),
            -32602,
        ),
        (
            "message/send",
            json!({ "message": { "role": "user", "messageId": "m", "parts": [{ "kind": "?" }] } }),
            -32602,
        ),
        ("ListTasks", json!({ "pageSize": 1000 }), -32602),
        ("ListTasks", json!({ "status": "late" }), -32602),
        ("GetExtendedAgentCard", json!({}), -32007),
    ];
    for (method, params, code) in cases {
        let body = rpc(&client, method, params.clone()).await;
        assert_eq!(body["error"]["code"], code, "{method} {params}: {body}");
        assert_eq!(body["error"]["data"][0]["@type"], ERROR_INFO);
    }
    let request = client.request(Method::POST, "/", Body::full("{"));
    assert_eq!(client.send(request).await.unwrap().json()["error"]["code"], -32700);
    let batch = client.post("/", &json!([{ "jsonrpc": "2.0" }])).await.unwrap();
    assert_eq!(batch.json()["error"]["code"], -32600);
    let future = client.clone().with_header(HeaderName::from_static("a2a-version"), "9.1");
    assert_eq!(rpc(&future, "GetTask", json!({ "id": "x" })).await["error"]["code"], -32009);
    let named = client.with_header(HeaderName::from_static("a2a-version"), "1.0");
    assert_eq!(rpc(&named, "tasks/get", json!({ "id": "x" })).await["error"]["code"], -32001);
}

#[tokio::test]
async fn a_failed_run_is_a_failed_task() {
    let client = TestClient::new(service_of([served("a", &[])]));
    let sent = rpc(&client, "SendMessage", message("hi")).await;
    assert_eq!(sent["result"]["task"]["status"]["state"], "TASK_STATE_FAILED");
}

/// Asks for approval of every call.
#[derive(Debug)]
pub(crate) struct Asking;

impl AgentHost for Asking {
    fn run(
        &self,
        agent: Agent,
        metadata: Arc<RawObject>,
        work: AgentWork,
    ) -> BoxFuture<'static, Result<(), HostUnavailable>> {
        let host = AskingHost(FunctionHost::new(Arc::clone(agent.tools())));
        work(RunContext { metadata, ..RunContext::new(Arc::new(host)) }).map(|()| Ok(())).boxed()
    }
}

#[derive(Debug)]
struct AskingHost(FunctionHost);

impl Host for AskingHost {
    fn clock(&self) -> &dyn Clock {
        self.0.clock()
    }

    fn ids(&self) -> &dyn IdSource {
        self.0.ids()
    }

    fn call_tool(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, RawJson> {
        self.0.call_tool(invocation)
    }

    fn approve(&self, _invocation: Arc<ToolInvocation>) -> HostFuture<'_, Approval> {
        std::future::ready(Ok(Approval::Ask)).boxed()
    }
}

#[tokio::test]
async fn a_call_that_needs_approval_makes_the_task_wait_for_the_clients_decision() {
    let mut pay = tool("pay").with_function(|_| async { Ok(RawJson::from_str_value("paid")) });
    pay.requires_approval = true;
    for (answer, decision) in [
        (json!({ "text": "Approve" }), "paid"),
        (json!({ "text": "too much" }), "too much"),
        (json!({ "data": { "approvals": [] } }), ""),
    ] {
        let replies = vec![Reply::tool_call("pay", RawJson::empty_object()), Reply::from("done")];
        let agent = agent_with(replies, vec![pay.clone()], Arc::new(Asking));
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let client = TestClient::new(service_on(&engine, agent, A2a::default()));
        let task = rpc(&client, "SendMessage", message("buy")).await["result"]["task"].take();
        assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
        let question = &task["status"]["message"]["parts"][1]["data"]["approvals"][0];
        assert_eq!(question["tool"], "pay");

        let mut params = message("");
        params["message"]["taskId"] = task["id"].clone();
        params["message"]["parts"] = json!([answer]);
        let body = rpc(&client, "SendMessage", params).await;
        if decision.is_empty() {
            assert_eq!(body["error"]["code"], -32602, "{body}");
            continue;
        }
        let task = &body["result"]["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{body}");
        assert_eq!(task["status"]["message"]["parts"][0]["text"], "done");
    }
}

/// Whether a request has come to the end of its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    request.len() == head.len() + 4 + length.parse::<usize>().unwrap()
}

#[tokio::test]
async fn a_webhook_is_called_with_its_token_when_the_state_changes() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let wire = A2a::default().allowing_private_webhooks();
    let client = TestClient::new(service_on(&engine, served("a", &["hello"]), wire));
    let received = tokio::spawn(async move {
        let mut requests = Vec::new();
        while requests.len() < 2 {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !is_whole(&request) {
                let read = socket.read_buf(&mut request).await.unwrap();
                assert!(read > 0, "{}", String::from_utf8_lossy(&request));
            }
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            socket.write_all(response).await.unwrap();
            requests.push(String::from_utf8(request).unwrap());
        }
        requests
    });
    let mut params = message("hi");
    params["configuration"] = json!({ "taskPushNotificationConfig": { "url": url, "token": "secret" } });
    let sent = rpc(&client, "SendMessage", params).await;
    assert_eq!(sent["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{sent}");
    let requests = received.await.unwrap();
    assert!(
        requests.iter().all(|request| request.to_lowercase().contains("x-a2a-notification-token: secret"))
    );
    assert!(requests[0].contains("TASK_STATE_WORKING"), "{requests:?}");
    assert!(requests[1].contains("TASK_STATE_COMPLETED"), "{requests:?}");
}

#[tokio::test]
async fn webhooks_are_created_read_listed_and_deleted_and_private_addresses_are_refused() {
    let client = TestClient::new(service_of([served("a", &["hello"])]));
    let task = rpc(&client, "SendMessage", message("hi")).await["result"]["task"].take();
    for url in [
        "http://127.0.0.1/x",
        "http://10.1.2.3/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "ftp://8.8.8.8/",
        "x",
    ] {
        let config = json!({ "taskId": task["id"], "url": url });
        let body = rpc(&client, "CreateTaskPushNotificationConfig", config).await;
        assert_eq!(body["error"]["code"], -32602, "{url}: {body}");
    }
    let config = json!({ "taskId": task["id"], "id": "c1", "url": "https://8.8.8.8/hook" });
    let created = rpc(&client, "CreateTaskPushNotificationConfig", config.clone()).await;
    assert_eq!(created["result"], config);
    let name = json!({ "taskId": task["id"], "id": "c1" });
    let got = rpc(&client, "GetTaskPushNotificationConfig", name.clone()).await;
    assert_eq!(got["result"], config);
    let old = json!({ "id": task["id"], "pushNotificationConfigId": "c1" });
    let got = rpc(&client, "tasks/pushNotificationConfig/get", old).await;
    assert_eq!(got["result"]["pushNotificationConfig"]["url"], "https://8.8.8.8/hook");
    rpc(&client, "DeleteTaskPushNotificationConfig", name).await;
    let list = rpc(&client, "ListTaskPushNotificationConfigs", json!({ "taskId": task["id"] })).await;
    assert_eq!(list["result"]["configs"], json!([]));
}

#[tokio::test]
async fn a_webhook_reaches_no_address_of_the_network_of_the_server_in_any_spelling() {
    let client = TestClient::new(service_of([served("a", &["hello"])]));
    let task = rpc(&client, "SendMessage", message("hi")).await["result"]["task"].take();
    for url in [
        "http://localhost/",
        "http://LOCALHOST:80/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0.0.0.0/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.64.0.1/",
        "http://192.168.0.1:8080/",
        "http://172.16.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://8.8.8.8@127.0.0.1/",
        "http://8.8.8.8:80@127.0.0.1:80/",
        "http://8.8.8.8\\@127.0.0.1/",
        "http://127.0.0.1#@8.8.8.8/",
        "http://127.0.0.1?@8.8.8.8/",
        "http://\u{2460}\u{2461}\u{2466}.0.0.1/",
        " http://127.0.0.1/",
        "http:127.0.0.1",
        "http:///127.0.0.1/",
        "file:///etc/passwd",
        "gopher://8.8.8.8/",
        "",
    ] {
        for method in ["CreateTaskPushNotificationConfig", "SendMessage"] {
            let config = json!({ "taskId": task["id"], "url": url });
            let params = match method {
                "SendMessage" => {
                    let mut params = message("hi");
                    params["configuration"] = json!({ "taskPushNotificationConfig": config });
                    params
                }
                _ => config,
            };
            let body = rpc(&client, method, params).await;
            assert_eq!(body["error"]["code"], -32602, "{url}: {body}");
        }
    }
    let listed = rpc(&client, "ListTaskPushNotificationConfigs", json!({ "taskId": task["id"] })).await;
    assert_eq!(listed["result"]["configs"], json!([]));
}

#[tokio::test]
async fn tasks_that_have_ended_need_no_room_and_those_that_run_are_limited() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let replies = ["one", "two", "three", "four", "five"];
    let client =
        TestClient::new(service_on(&engine, served("a", &replies), A2a::default().with_max_tasks(2)));
    let mut ids = Vec::new();
    for _ in replies {
        let sent = rpc(&client, "SendMessage", message("hi")).await;
        assert_eq!(sent["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{sent}");
        ids.push(sent["result"]["task"]["id"].clone());
    }
    for id in &ids {
        let read = rpc(&client, "GetTask", json!({ "id": id })).await;
        assert_eq!(read["result"]["status"]["state"], "TASK_STATE_COMPLETED");
    }

    let client = TestClient::new(service_on(&engine, hanging(), A2a::default().with_max_tasks(2)));
    let mut waiting = message("hi");
    waiting["configuration"] = json!({ "returnImmediately": true });
    let first = rpc(&client, "SendMessage", waiting.clone()).await["result"]["task"].take();
    rpc(&client, "SendMessage", waiting.clone()).await;
    let refused = rpc(&client, "SendMessage", waiting.clone()).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("too many tasks"), "{refused}");
    rpc(&client, "CancelTask", json!({ "id": first["id"] })).await;
    let sent = rpc(&client, "SendMessage", waiting).await;
    assert!(sent["result"]["task"]["id"].is_string(), "{sent}");
}

#[tokio::test]
async fn both_cards_are_public_and_name_the_interfaces() {
    let tokens = BearerTokens::new([(Secret::from("t"), Principal::new("p"))]);
    let service = Service::new(service_of([served("a", &[])])).with_authenticator(tokens);
    let client = TestClient::for_service(service).with_header(http::header::HOST, "agents.example");
    let card = client.get("/.well-known/agent-card.json").await.unwrap().json();
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    let listed: Vec<(&str, &str)> = interfaces
        .iter()
        .map(|one| (one["protocolBinding"].as_str().unwrap(), one["protocolVersion"].as_str().unwrap()))
        .collect();
    assert_eq!(listed, [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")]);
    assert_eq!(interfaces[0]["url"], "http://agents.example/a2a");
    let old = client.get("/agents/a/.well-known/agent.json").await.unwrap().json();
    assert_eq!(old["url"], "http://agents.example/agents/a/a2a");
    assert_eq!(old["modelCapabilities"]["id"], "a");
    let refused = client.post("/a2a", &json!({})).await.unwrap();
    assert_eq!(refused.status.as_u16(), 401);
    assert_eq!(refused.json()["error"]["data"][0]["reason"], "UNAUTHENTICATED");
}

#[tokio::test]
async fn no_change_of_a_request_breaks_the_server() {
    let client = TestClient::new(service_of([served("a", &[])]));
    let seed = json!({
        "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": { "message": message("hi")["message"], "configuration": { "historyLength": 1 } },
    })
    .to_string();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let mut bytes = seed.clone().into_bytes();
        for _ in 0..random.usize(1..4) {
            let place = random.usize(..bytes.len());
            bytes[place] = *random.choice(b"{}[]\",:0nulltrue\\\xff".as_slice()).unwrap();
        }
        let path = *random.choice(["/", "/message:send", "/a2a/message:stream"].as_slice()).unwrap();
        let response = client.send(client.request(Method::POST, path, Body::full(bytes))).await.unwrap();
        assert!(response.status.as_u16() < 500, "{}", response.text());
    }
}
