//! ACP: messages, updates, and connections without a transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use turntree_agents::{Agent, AgentOptions, PlanOptions, Strategy as RunStrategy, Tool};
use turntree_core::ids::RandomIds;
use turntree_core::json::RawJson;
use turntree_core::time::SystemClock;
use turntree_store::engines::memory::MemoryEngine;
use turntree_store::{Engine, JournalStore};
use turntree_uamp::agent::{AgentRegistry, Conversations, RustHost, ServedAgent};
use turntree_uamp::service::Site;
use turntree_uamp::wires::acp::connection::Connection;
use turntree_uamp::wires::acp::json_rpc::{self, Incoming};
use turntree_uamp::wires::acp::outbox::Outbox;
use turntree_upp::providers::scripted::{Reply, Scripted};

use crate::a2a::{Asking, agent_with, tool};
use crate::service::served;

/// A client of a connection.
pub(crate) struct Peer {
    connection: Connection,
    messages: mpsc::Receiver<String>,
    last_id: u64,
}

/// What came before the answer to a request, and the answer.
type Answered = (Vec<Value>, Value);

impl Peer {
    fn on(engine: &Arc<dyn Engine>, agent: ServedAgent) -> Self {
        let store = Arc::new(JournalStore::new(Arc::clone(engine)));
        let conversations = Conversations::new(store, Arc::new(RandomIds), Arc::new(SystemClock));
        let conversations = conversations.with_engine(Arc::clone(engine));
        let site = Arc::new(Site::new(AgentRegistry::new([agent]).unwrap(), conversations));
        let agent = Arc::clone(site.agents.only().unwrap());
        let (outbox, messages) = Outbox::one();
        Self { connection: Connection::new(site, agent, None, outbox), messages, last_id: 0 }
    }

    async fn new(agent: ServedAgent) -> Self {
        let mut peer = Self::on(&memory(), agent);
        peer.initialize().await;
        peer
    }

    async fn initialize(&mut self) -> Value {
        self.request("initialize", json!({ "protocolVersion": 1 })).await.1
    }

    async fn send(&self, message: &Value) {
        self.connection.receive_bytes(message.to_string().as_bytes()).await;
    }

    async fn next(&mut self) -> Value {
        serde_json::from_str(&self.messages.recv().await.unwrap()).unwrap()
    }

    /// Sends a request without waiting for its answer. Returns its id.
    async fn start(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    async fn answer(&mut self, id: u64) -> Answered {
        let mut before = Vec::new();
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return (before, message);
            }
            before.push(message);
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Answered {
        // A load sends more than the queue has room for.
        let (connection, id) = (self.connection.clone(), self.last_id + 1);
        self.last_id = id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let sent = tokio::spawn(async move {
            connection.receive_bytes(message.to_string().as_bytes()).await;
        });
        let answered = self.answer(id).await;
        sent.await.unwrap();
        answered
    }

    async fn session(&mut self) -> String {
        let params = json!({ "cwd": "/work", "mcpServers": [] });
        let (_, answer) = self.request("session/new", params).await;
        answer["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    async fn prompt(&mut self, session: &str, text: &str) -> Answered {
        self.request("session/prompt", prompt(session, text)).await
    }
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

/// The updates of one kind among messages.
fn updates<'a>(messages: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    updates.filter(|update| update["sessionUpdate"] == kind).collect()
}

fn text_of(messages: &[Value], kind: &str) -> String {
    updates(messages, kind).iter().filter_map(|update| update["content"]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_client_learns_what_the_agent_can_do_and_its_prompt_is_answered() {
    let mut peer = Peer::on(&memory(), served("helper", &["hello you"]));

    let answer = peer.initialize().await;
    let capabilities = &answer["result"]["agentCapabilities"];
    assert_eq!((&answer["result"]["protocolVersion"], &answer["jsonrpc"]), (&json!(1), &json!("2.0")));
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(capabilities["sessionCapabilities"], json!({ "list": {}, "resume": {}, "close": {} }));
    assert_eq!(answer["result"]["agentInfo"]["name"], "helper");

    let session = peer.session().await;
    let (before, answer) = peer.prompt(&session, "hi").await;
    assert_eq!(text_of(&before, "agent_message_chunk"), "hello you");
    assert!(before.iter().all(|message| message["params"]["sessionId"] == *session));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(answer["result"]["usage"]["outputTokens"].as_u64().unwrap() > 0, "{answer}");
}

#[tokio::test]
async fn the_capabilities_of_uamp_are_an_extra_method_with_two_names() {
    let mut peer = Peer::on(&memory(), served("helper", &[]));
    for name in ["capabilities", "_capabilities"] {
        let (_, answer) = peer.request(name, Value::Null).await;
        assert_eq!(
            (&answer["result"]["id"], &answer["result"]["provider"]),
            (&json!("helper"), &json!("turntree"))
        );
    }
}

#[tokio::test]
async fn malformed_messages_are_answered_with_the_codes_of_json_rpc_and_the_connection_goes_on() {
    let mut peer = Peer::new(served("helper", &["still here"])).await;
    let cases: [(&[u8], i64, Value); 11] = [
        (b"{not json", -32_700, Value::Null),
        (b"\xff\xfe", -32_700, Value::Null),
        (b"[]", -32_600, Value::Null),
        (b"3", -32_600, Value::Null),
        (br#"{"id":7,"method":"initialize"}"#, -32_600, json!(7)),
        (br#"{"jsonrpc":"2.0","id":{},"method":"initialize"}"#, -32_600, Value::Null),
        (br#"{"jsonrpc":"2.0","id":"a","method":1}"#, -32_600, json!("a")),
        (br#"{"jsonrpc":"2.0","id":8,"method":"initialize","params":"no"}"#, -32_600, json!(8)),
        (br#"{"jsonrpc":"2.0","id":9,"method":"session/fly","params":{}}"#, -32_601, json!(9)),
        (br#"{"jsonrpc":"2.0","id":10,"method":"session/new","params":{"cwd":3}}"#, -32_602, json!(10)),
        (
            br#"{"jsonrpc":"2.0","id":11,"method":"session/new","params":{"cwd":"relative"}}"#,
            -32_602,
            json!(11),
        ),
    ];
    for (bytes, code, id) in cases {
        peer.connection.receive_bytes(bytes).await;
        let answer = peer.next().await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{answer}");
        assert!(answer.get("result").is_none());
    }

    // Neither notifications nor responses that nobody waits for are answered.
    for message in [
        json!({ "jsonrpc": "2.0", "method": "session/fly" }),
        json!({ "jsonrpc": "2.0", "method": "session/prompt", "params": {} }),
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "other" } }),
        json!({ "jsonrpc": "2.0", "id": 99, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32_600, "message": "?" } }),
    ] {
        peer.send(&message).await;
    }
    let session = peer.session().await;
    let (before, _) = peer.prompt(&session, "hi").await;
    assert_eq!(text_of(&before, "agent_message_chunk"), "still here");
}

#[tokio::test]
async fn requests_that_are_not_possible_now_are_refused() {
    let mut peer = Peer::on(&memory(), served("helper", &[]));
    let open = json!({ "cwd": "/", "mcpServers": [] });
    let (_, early) = peer.request("session/new", open.clone()).await;
    assert_eq!(early["error"]["code"], -32_600);
    peer.initialize().await;

    let (_, unknown) = peer.prompt("other", "hi").await;
    assert_eq!(unknown["error"]["code"], -32_002);
    let (_, unknown) =
        peer.request("session/load", json!({ "sessionId": "x", "cwd": "/", "mcpServers": [] })).await;
    assert_eq!(unknown["error"]["code"], -32_002);
    let session = peer.session().await;
    for blocks in [
        json!([]),
        json!([{ "type": "video" }]),
        json!([{ "type": "resource", "resource": { "uri": "a:b" } }]),
    ] {
        let (_, refused) =
            peer.request("session/prompt", json!({ "sessionId": session, "prompt": blocks })).await;
        assert_eq!(refused["error"]["code"], -32_602, "{refused}");
    }
    // The scripted model has no reply.
    let (_, failed) = peer.prompt(&session, "hi").await;
    assert_eq!(failed["error"]["code"], -32_603, "{failed}");
}

#[tokio::test]
async fn mcp_servers_of_the_client_are_accepted_and_the_answer_says_that_they_are_not_used() {
    let mut peer = Peer::new(served("helper", &[])).await;
    let server = json!({ "name": "files", "command": "/bin/files", "args": [], "env": [] });
    let (_, answer) = peer.request("session/new", json!({ "cwd": "C:\\work", "mcpServers": [server] })).await;
    assert_eq!(answer["result"]["_meta"]["turntree"]["unusedMcpServers"], json!(["files"]));
}

#[tokio::test]
async fn a_tool_call_is_shown_from_its_beginning_to_its_result() {
    let add = tool("add").with_function(|_| async { Ok(RawJson::from_str_value("7")) });
    let arguments = RawJson::from_text(r#"{"x":1}"#.to_owned()).unwrap();
    let agent = agent_with(
        vec![Reply::tool_call("add", arguments), Reply::from("seven")],
        vec![add],
        Arc::new(RustHost),
    );
    let mut peer = Peer::new(agent).await;
    let session = peer.session().await;

    let (before, answer) = peer.prompt(&session, "3+4").await;

    let begun = updates(&before, "tool_call");
    assert_eq!((begun.len(), &begun[0]["title"], &begun[0]["status"]), (1, &json!("add"), &json!("pending")));
    let changed = updates(&before, "tool_call_update");
    assert_eq!(changed[0]["status"], "in_progress");
    assert_eq!(changed[0]["rawInput"], json!({ "x": 1 }));
    let last = changed.last().unwrap();
    assert_eq!((&last["status"], &last["rawOutput"]), (&json!("completed"), &json!("7")));
    assert_eq!(last["content"][0]["content"]["text"], "7");
    assert!(changed.iter().all(|update| update["toolCallId"] == begun[0]["toolCallId"]));
    assert_eq!(answer["result"]["stopReason"], "end_turn");
}

fn paying(replies: usize) -> ServedAgent {
    let mut pay = tool("pay").with_function(|_| async { Ok(RawJson::from_str_value("paid")) });
    pay.requires_approval = true;
    let turn = [Reply::tool_call("pay", RawJson::empty_object()), Reply::from("done")];
    let replies = (0..replies).flat_map(|_| turn.clone()).collect();
    agent_with(replies, vec![pay], Arc::new(Asking))
}

/// Answers the requests for permission of a prompt with an option. Returns how many there were, and the rest.
async fn decide(peer: &mut Peer, id: u64, option: &str) -> (usize, Vec<Value>, Value) {
    let (mut asked, mut before) = (0, Vec::new());
    loop {
        let message = peer.next().await;
        if message["method"] == "session/request_permission" {
            asked += 1;
            let call = &message["params"]["toolCall"];
            assert_eq!((&call["title"], &call["status"]), (&json!("pay"), &json!("pending")));
            let kinds: Vec<&str> = message["params"]["options"]
                .as_array()
                .unwrap()
                .iter()
                .map(|option| option["kind"].as_str().unwrap())
                .collect();
            assert_eq!(kinds, ["allow_once", "allow_always", "reject_once", "reject_always"]);
            let outcome = json!({ "outcome": "selected", "optionId": option });
            peer.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "outcome": outcome } }))
                .await;
        } else if message["id"] == id {
            return (asked, before, message);
        } else {
            before.push(message);
        }
    }
}

#[tokio::test]
async fn the_user_allows_or_rejects_a_call_once_or_for_the_session() {
    for (option, asked_again, status) in [
        ("allow_once", 1, "completed"),
        ("allow_always", 0, "completed"),
        ("reject_once", 1, "failed"),
        ("reject_always", 0, "failed"),
    ] {
        let mut peer = Peer::new(paying(2)).await;
        let session = peer.session().await;
        for expected in [1, asked_again] {
            let id = peer.start("session/prompt", prompt(&session, "buy")).await;
            let (asked, before, answer) = decide(&mut peer, id, option).await;
            assert_eq!(asked, expected, "{option}");
            assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
            assert_eq!(updates(&before, "tool_call_update").last().unwrap()["status"], status, "{before:?}");
            assert_eq!(updates(&before, "tool_call").len(), 1);
            assert_eq!(text_of(&before, "agent_message_chunk"), "done");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_waits_for_permission_can_be_cancelled_and_the_next_one_is_answered() {
    for by_client in [true, false] {
        let mut peer = Peer::new(paying(3)).await;
        let session = peer.session().await;
        let id = peer.start("session/prompt", prompt(&session, "buy")).await;
        let request = loop {
            let message = peer.next().await;
            if message["method"] == "session/request_permission" {
                break message;
            }
        };
        if by_client {
            let params = json!({ "sessionId": session });
            peer.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params })).await;
        }
        let outcome = json!({ "outcome": { "outcome": "cancelled" } });
        peer.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": outcome })).await;
        let (_, answer) = peer.answer(id).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");

        let id = peer.start("session/prompt", prompt(&session, "buy")).await;
        let (_, _, answer) = decide(&mut peer, id, "allow_once").await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        // The cancelled prompt is a part of the conversation.
        let params = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] });
        let (before, _) = peer.request("session/load", params).await;
        assert_eq!(updates(&before, "user_message_chunk").len(), 2, "{before:?}");
    }
}

#[tokio::test]
async fn a_call_that_was_not_decided_is_never_executed() {
    let engine = memory();
    let (paid, started) = (Arc::new(AtomicUsize::new(0)), "session/request_permission");
    let paying = |replies: Vec<Reply>| {
        let paid = Arc::clone(&paid);
        let mut pay = tool("pay").with_function(move |_| {
            paid.fetch_add(1, Ordering::SeqCst);
            async { Ok(RawJson::from_str_value("paid")) }
        });
        pay.requires_approval = true;
        agent_with(replies, vec![pay], Arc::new(Asking))
    };
    let mut first = Peer::on(&engine, paying(vec![Reply::tool_call("pay", RawJson::empty_object())]));
    first.initialize().await;
    let session = first.session().await;
    first.start("session/prompt", prompt(&session, "buy")).await;
    while first.next().await["method"] != started {}
    // The client has gone without an answer.
    first.connection.close();
    first.connection.idle().await;

    let mut second = Peer::on(&engine, paying(vec![Reply::from("hello")]));
    second.initialize().await;
    let open = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] });
    second.request("session/load", open).await;
    let (before, answer) = second.prompt(&session, "hi").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(text_of(&before, "agent_message_chunk"), "hello");
    assert_eq!(paid.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_cancelled_prompt_is_answered_after_its_tools_have_ended() {
    let (started, ended) = (Arc::new(Notify::new()), Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let hang = {
        let (started, ended) = (Arc::clone(&started), Arc::clone(&ended));
        tool("hang").with_function(move |_| {
            let (started, guard) = (Arc::clone(&started), EndOnDrop(Arc::clone(&ended)));
            async move {
                started.notify_one();
                std::future::pending::<()>().await;
                drop(guard);
                Ok(RawJson::from_str_value(""))
            }
        })
    };
    let agent =
        agent_with(vec![Reply::tool_call("hang", RawJson::empty_object())], vec![hang], Arc::new(RustHost));
    let mut peer = Peer::new(agent).await;
    let session = peer.session().await;
    let id = peer.start("session/prompt", prompt(&session, "wait")).await;
    started.notified().await;
    let second = peer.start("session/prompt", prompt(&session, "me too")).await;
    let (_, refused) = peer.answer(second).await;
    assert_eq!(refused["error"]["code"], -32_600);

    let params = json!({ "sessionId": session });
    peer.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params })).await;
    let (_, answer) = peer.answer(id).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert!(ended.load(std::sync::atomic::Ordering::SeqCst));
}

struct EndOnDrop(Arc<std::sync::atomic::AtomicBool>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_session_is_listed_loaded_and_resumed_by_another_connection() {
    let engine = memory();
    let add = tool("add").with_function(|_| async { Ok(RawJson::from_str_value("7")) });
    let replies = vec![Reply::tool_call("add", RawJson::empty_object()), Reply::from("seven")];
    let mut first = Peer::on(&engine, agent_with(replies, vec![add], Arc::new(RustHost)));
    first.initialize().await;
    let session = first.session().await;
    let empty = first.session().await;
    first.prompt(&session, "3+4\nplease").await;
    drop(first);

    let mut second =
        Peer::on(&engine, agent_with(vec![Reply::from("again")], Vec::new(), Arc::new(RustHost)));
    second.initialize().await;
    let (_, listed) = second.request("session/list", json!({ "cwd": "/work" })).await;
    let sessions = listed["result"]["sessions"].as_array().unwrap();
    let ids: Vec<&str> = sessions.iter().map(|session| session["sessionId"].as_str().unwrap()).collect();
    assert_eq!(ids, [&empty, &session]);
    assert_eq!((&sessions[1]["title"], &sessions[1]["cwd"]), (&json!("3+4"), &json!("/work")));
    let (_, none) = second.request("session/list", json!({ "cwd": "/other" })).await;
    assert_eq!(none["result"]["sessions"], json!([]));

    let open = json!({ "sessionId": session, "cwd": "/work", "mcpServers": [] });
    let (before, answer) = second.request("session/load", open.clone()).await;
    assert_eq!(answer["result"], json!({}));
    assert_eq!(text_of(&before, "user_message_chunk"), "3+4\nplease");
    assert_eq!(updates(&before, "tool_call").len(), 1);
    assert_eq!(updates(&before, "tool_call_update")[0]["status"], "completed");
    assert_eq!(text_of(&before, "agent_message_chunk"), "seven");
    let (before, _) = second.request("session/resume", open).await;
    assert!(before.is_empty(), "a resumed session is not replayed");
    let (before, _) = second.prompt(&session, "go on").await;
    assert_eq!(text_of(&before, "agent_message_chunk"), "again");

    second.request("session/close", json!({ "sessionId": session })).await;
    let (_, closed) = second.prompt(&session, "hi").await;
    assert_eq!(closed["error"]["code"], -32_002);
}

#[tokio::test]
async fn the_list_of_sessions_has_pages() {
    let mut peer = Peer::new(served("helper", &[])).await;
    let mut begun = Vec::new();
    for _ in 0..60 {
        begun.push(peer.session().await);
    }
    let (mut listed, mut params) = (Vec::new(), json!({}));
    loop {
        let (_, answer) = peer.request("session/list", params).await;
        let page = answer["result"]["sessions"].as_array().unwrap().clone();
        listed.extend(page.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()));
        let Some(next) = answer["result"]["nextCursor"].as_str() else { break };
        params = json!({ "cursor": next });
    }
    listed.reverse();
    assert_eq!(listed, begun);
}

#[tokio::test]
async fn a_plan_without_steps_is_not_an_answer_and_the_answer_is_shown() {
    let mut peer =
        Peer::new(planning(vec![Reply::from(r#"{"steps":[]}"#), Reply::from("nothing to do")])).await;
    let session = peer.session().await;
    let (before, _) = peer.prompt(&session, "do it").await;
    assert_eq!(text_of(&before, "agent_message_chunk"), "nothing to do");
}

fn planning(replies: Vec<Reply>) -> ServedAgent {
    let options = AgentOptions {
        model: Some(Arc::new(Scripted::new(replies))),
        strategy: Some(RunStrategy::Plan(PlanOptions::default())),
        ..AgentOptions::default()
    };
    ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost))
}

#[tokio::test]
async fn a_plan_is_shown_and_its_entries_are_completed() {
    let steps = r#"{"steps":[{"id":"a","description":"look","tool":null,"dependsOn":[]},{"id":"b","description":"act","tool":null,"dependsOn":["a"]}]}"#;
    let replies = vec![Reply::from(steps), Reply::from("looked"), Reply::from("acted")];
    let mut peer = Peer::new(planning(replies)).await;
    let session = peer.session().await;

    let (before, answer) = peer.prompt(&session, "do it").await;

    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(text_of(&before, "agent_message_chunk"), "lookedacted");
    let plans = updates(&before, "plan");
    let statuses = |plan: &Value| -> Vec<String> {
        let entries = plan["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["status"].as_str().unwrap().to_owned()).collect()
    };
    assert!(plans.len() >= 3, "{plans:?}");
    assert_eq!(plans[0]["entries"][0]["content"], "look");
    assert_eq!(statuses(plans[0])[1], "pending");
    assert_eq!(statuses(plans.last().unwrap()), ["completed", "completed"]);
}

#[tokio::test]
async fn a_run_that_exceeds_its_limits_stops_with_the_reason() {
    let again = || Reply::tool_call("add", RawJson::empty_object());
    let add: Tool = tool("add").with_function(|_| async { Ok(RawJson::from_str_value("7")) });
    let agent = agent_with((0..30).map(|_| again()).collect(), vec![add], Arc::new(RustHost));
    let mut peer = Peer::new(agent).await;
    let session = peer.session().await;
    let (_, answer) = peer.prompt(&session, "loop").await;
    assert_eq!(answer["result"]["stopReason"], "max_turn_requests", "{answer}");
}

#[tokio::test]
async fn a_closed_connection_ends_its_prompts() {
    let started = Arc::new(Notify::new());
    let hang = {
        let started = Arc::clone(&started);
        tool("hang").with_function(move |_| {
            let started = Arc::clone(&started);
            async move {
                started.notify_one();
                std::future::pending().await
            }
        })
    };
    let agent =
        agent_with(vec![Reply::tool_call("hang", RawJson::empty_object())], vec![hang], Arc::new(RustHost));
    let mut peer = Peer::new(agent).await;
    let session = peer.session().await;
    peer.start("session/prompt", prompt(&session, "wait")).await;
    started.notified().await;
    peer.connection.close();
    peer.connection.idle().await;
}

proptest! {
    #[test]
    fn every_message_is_read_or_refused_and_what_is_written_is_read_again(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Err(malformed) = json_rpc::read(&bytes) {
            let answer = malformed.response();
            let is_response = matches!(json_rpc::read(answer.as_bytes()), Ok(Incoming::Response { outcome: Err(_), .. }));
            prop_assert!(is_response);
        }
    }

    #[test]
    fn a_request_is_read_as_it_was_written(id in any::<u64>(), method in ".{0,20}", text in ".{0,20}") {
        let params = json!({ "text": text });
        let read = json_rpc::read(json_rpc::request(id, &method, &params).as_bytes());
        prop_assert_eq!(read, Ok(Incoming::Request { id: json!(id), method, params }));
    }
}
