//! Runs of agents.

use std::sync::Arc;

use turntree_agents::{Agent, AgentOptions, Session, Tool};
use turntree_core::ids::RandomIds;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::message::History;
use turntree_core::message::{Message, ToolDefinition};
use turntree_core::time::SystemClock;
use turntree_store::JournalStore;
use turntree_store::engines::memory::MemoryEngine;
use turntree_uamp::agent::{
    AgentRegistry, AgentRun, Conversations, RegistryError, RunInput, RunOptions, RunRequest, RustHost,
    ServedAgent,
};
use turntree_uamp::session::{AgentOutput, ToolOutcome};
use turntree_upp::providers::scripted::{Reply, Scripted};

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawJson::from_text(r#"{"type":"object"}"#.to_owned()).unwrap(),
        metadata: None,
        extra: Extra::new(),
    }
}

fn served(replies: Vec<Reply>, tools: Vec<Tool>) -> Arc<ServedAgent> {
    let options =
        AgentOptions { model: Some(Arc::new(Scripted::new(replies))), tools, ..AgentOptions::default() };
    Arc::new(ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost)))
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text, &RandomIds, &SystemClock))
}

fn messages(text: &str) -> RunInput {
    RunInput::Messages { history: History::new(), input: vec![user(text)] }
}

async fn collect(mut run: AgentRun) -> Vec<AgentOutput> {
    let mut outputs = Vec::new();
    while let Some(output) = run.next().await {
        outputs.push(output);
    }
    outputs
}

fn text_of(outputs: &[AgentOutput]) -> String {
    let texts = outputs.iter().filter_map(|output| match output {
        AgentOutput::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn arguments() -> RawJson {
    RawJson::from_text(r#"{"x":1}"#.to_owned()).unwrap()
}

#[tokio::test]
async fn a_run_streams_its_text_and_its_usage_and_ends_once() {
    let agent = served(vec![Reply::from("hello you")], Vec::new());
    let run = AgentRun::start(RunRequest { agent, input: messages("hi"), options: RunOptions::default() });

    let outputs = collect(run).await;

    assert_eq!(text_of(&outputs), "hello you");
    assert!(outputs.iter().any(|output| matches!(output, AgentOutput::Usage(_))));
    assert_eq!(outputs.iter().filter(|output| matches!(output, AgentOutput::Done)).count(), 1);
    assert!(matches!(outputs.last(), Some(AgentOutput::Done)));
}

#[tokio::test]
async fn a_client_tool_waits_for_its_result_and_the_run_goes_on() {
    let replies = vec![Reply::tool_call("locate", arguments()), Reply::from("done")];
    let agent = served(replies, Vec::new());
    let options = RunOptions { client_tools: vec![definition("locate")], ..RunOptions::default() };
    let mut run = AgentRun::start(RunRequest { agent, input: messages("where"), options });

    let mut outputs = Vec::new();
    while let Some(output) = run.next().await {
        if let AgentOutput::ClientToolCall(call) = &output {
            assert_eq!((call.name.as_str(), call.arguments.as_str()), ("locate", r#"{"x":1}"#));
            let unknown = ToolOutcome { call_id: "other".into(), result: "1".into(), is_error: false };
            assert!(!run.control().resolve(unknown));
        }
        if matches!(output, AgentOutput::AwaitingClient) {
            let call_id = outputs.iter().find_map(|output| match output {
                AgentOutput::ClientToolCall(call) => Some(call.id.clone()),
                _ => None,
            });
            let outcome =
                ToolOutcome { call_id: call_id.unwrap(), result: "\"Rome\"".into(), is_error: false };
            assert!(run.control().resolve(outcome.clone()));
            assert!(!run.control().resolve(outcome), "a result is taken once");
        }
        outputs.push(output);
    }

    assert_eq!(text_of(&outputs), "done");
    let turn = run.turn().unwrap();
    assert_eq!(turn.tool_executions[0].result.as_string().as_deref(), Some("Rome"));
    assert!(!outputs.iter().any(|output| matches!(output, AgentOutput::ServerToolResult(_))));
}

#[tokio::test]
async fn a_structured_answer_is_sent_once() {
    let agent = served(vec![Reply::from(r#"{"city":"Rome"}"#)], Vec::new());
    let structure = RawJson::from_text(r#"{"type":"object"}"#.to_owned()).unwrap();
    let options = RunOptions { structure: Some(Arc::new(structure)), ..RunOptions::default() };
    let run = AgentRun::start(RunRequest { agent, input: messages("where"), options });

    assert_eq!(text_of(&collect(run).await), r#"{"city":"Rome"}"#);
}

#[tokio::test]
async fn a_server_tool_reports_its_result() {
    let tool = Tool::new(definition("add")).with_function(|_| async { Ok(RawJson::from_str_value("7")) });
    let agent = served(vec![Reply::tool_call("add", arguments()), Reply::from("seven")], vec![tool]);
    let run = AgentRun::start(RunRequest { agent, input: messages("3+4"), options: RunOptions::default() });

    let outputs = collect(run).await;

    let result = outputs.iter().find_map(|output| match output {
        AgentOutput::ServerToolResult(outcome) => Some(outcome.result.as_str()),
        _ => None,
    });
    assert_eq!(result, Some("\"7\""));
    assert_eq!(text_of(&outputs), "seven");
}

#[tokio::test]
async fn a_cancelled_run_ends_without_an_end_and_a_session_keeps_its_messages() {
    let agent = served(vec![Reply::tool_call("wait", arguments()), Reply::from("after")], Vec::new());
    let conversations = conversations();
    let session = conversations.open(agent.agent(), None, "c1").await.unwrap();
    let options = RunOptions { client_tools: vec![definition("wait")], ..RunOptions::default() };
    let input = RunInput::Session { session: session.clone(), input: user("hi") };
    let mut run = AgentRun::start(RunRequest { agent: Arc::clone(&agent), input, options });
    while let Some(output) = run.next().await {
        if matches!(output, AgentOutput::AwaitingClient) {
            run.control().cancel();
        }
        assert!(!matches!(output, AgentOutput::Done | AgentOutput::Failed(_)));
    }

    assert!(!history(&session).is_empty());
    let again = conversations.find(agent.agent(), None, "c1").await.unwrap().unwrap();
    assert_eq!(history(&again), history(&session));
}

#[tokio::test]
async fn a_failed_run_tells_its_error() {
    let agent = served(Vec::new(), Vec::new());
    let run = AgentRun::start(RunRequest { agent, input: messages("hi"), options: RunOptions::default() });
    let outputs = collect(run).await;
    assert!(matches!(outputs.last(), Some(AgentOutput::Failed(_))), "{outputs:?}");
}

#[tokio::test]
async fn a_dropped_run_stops_its_tools() {
    let (started, dropped) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let tool = {
        let (started, dropped) = (Arc::clone(&started), Arc::clone(&dropped));
        Tool::new(definition("hang")).with_function(move |_| {
            let (started, guard) = (Arc::clone(&started), NotifyOnDrop(Arc::clone(&dropped)));
            async move {
                started.notify_one();
                std::future::pending::<()>().await;
                drop(guard);
                Ok(RawJson::from_str_value(""))
            }
        })
    };
    let agent = served(vec![Reply::tool_call("hang", arguments())], vec![tool]);
    let run = AgentRun::start(RunRequest { agent, input: messages("hi"), options: RunOptions::default() });
    started.notified().await;
    drop(run);
    dropped.notified().await;
}

struct NotifyOnDrop(Arc<tokio::sync::Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn conversations() -> Conversations {
    let store = Arc::new(JournalStore::new(Arc::new(MemoryEngine::new())));
    Conversations::new(store, Arc::new(RandomIds), Arc::new(SystemClock))
}

fn history(session: &Session) -> Vec<String> {
    session.tree().lock().history().iter().map(|message| message.text()).collect()
}

#[tokio::test]
async fn replaced_messages_begin_a_branch_unless_they_continue_the_history() {
    let agent = served(vec![Reply::from("one")], Vec::new());
    let conversations = conversations();
    let session = conversations.open(agent.agent(), None, "c").await.unwrap();
    let message = |text: &str| Message::user(text, &RandomIds, &SystemClock);

    let input = conversations.append(&session, vec![message("a"), message("b")], false).unwrap();
    assert_eq!((history(&session), input.text()), (vec!["a".to_owned()], "b".to_owned()));
    conversations.append(&session, vec![message("a"), message("b"), message("c")], true).unwrap();
    assert_eq!(history(&session), ["a", "b"]);
    assert_eq!(session.tree().lock().node_count(), 1);
    conversations.append(&session, vec![message("x"), message("y")], true).unwrap();
    assert_eq!(history(&session), ["x"]);
    assert_eq!(session.tree().lock().node_count(), 2);
    assert!(conversations.append(&session, Vec::new(), false).is_err());
}

#[test]
fn names_of_served_agents_are_different_and_are_path_segments() {
    let named = |name: &str| {
        let options = AgentOptions { name: Some(name.into()), ..AgentOptions::default() };
        ServedAgent::new(Agent::new(options, &RandomIds), Arc::new(RustHost))
    };
    assert!(matches!(AgentRegistry::new([]), Err(RegistryError::Empty)));
    assert!(matches!(AgentRegistry::new([named("a"), named("a")]), Err(RegistryError::DuplicateName { .. })));
    assert!(matches!(AgentRegistry::new([named("a/b")]), Err(RegistryError::InvalidName { .. })));
    let both = AgentRegistry::new([named("a"), named("Weather agent")]).unwrap();
    assert!(both.only().is_none() && both.get("Weather agent").is_some() && both.get("c").is_none());
}
