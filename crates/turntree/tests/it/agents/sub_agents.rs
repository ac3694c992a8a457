//! Agents as tools of other agents. UAP-1.0 §8.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt as _;
use proptest::prelude::*;
use turntree::agents::host::{FunctionHost, HostError, RunContext};
use turntree::agents::session::SessionSnapshot;
use turntree::agents::types::AgentStreamEvent;
use turntree::agents::types::{DEFAULT_DEPTH, GREATEST_DEPTH};
use turntree::agents::{Agent, AgentOptions, Session, SessionOptions, ToToolOptions, Tool};
use turntree::core::ids::CountingIds;
use turntree::core::json::{RawJson, RawObject};
use turntree::core::limits::Limits;
use turntree::core::time::Timestamp;
use turntree::message::{Delta, Turn};
use turntree::upp::{Capabilities, ErrorCode, Model};

use crate::support::agents::{Answer, ScriptModel, block_on, clock, raw, tool, yield_times};
use crate::support::with_cases;

fn script(answers: impl IntoIterator<Item = Answer>) -> Arc<ScriptModel> {
    Arc::new(ScriptModel::new(answers))
}

fn model_that_calls(name: &str, then: &str) -> Arc<ScriptModel> {
    let call = Answer { calls: vec![(name.to_owned(), r#"{"task":"t"}"#.to_owned())], ..Answer::default() };
    script([call, Answer::text(then)])
}

fn new_agent(id: u32, model: Option<Arc<dyn Model>>, tools: Vec<Tool>) -> Agent {
    let id = format!("00000000-0000-4000-8000-{id:012}");
    let options = AgentOptions { model, tools, id: Some(id.into()), ..AgentOptions::default() };
    Agent::new(options, &CountingIds::default())
}

fn as_tool(agent: &Agent, name: &str) -> Tool {
    agent.to_tool(ToToolOptions { name: Some(name.to_owned()), ..ToToolOptions::default() })
}

fn host(agent: &Agent) -> Arc<FunctionHost> {
    let host = FunctionHost::new(Arc::clone(agent.tools()));
    Arc::new(host.with_sources(Arc::new(clock()), Arc::new(CountingIds::default())))
}

fn context(agent: &Agent) -> RunContext {
    RunContext::new(host(agent))
}

fn result(turn: &Turn) -> &str {
    turn.messages[2].results()[0].result.get()
}

/// A chain of agents; each is the tool `down` of the next. Returns the last.
fn chain(length: u32, limit: Option<u32>) -> Agent {
    chain_above(new_agent(0, Some(script([Answer::text("bottom")])), Vec::new()), length, limit)
}

fn chain_above(bottom: Agent, length: u32, limit: Option<u32>) -> Agent {
    let mut agent = bottom;
    for id in 1..length {
        let options = AgentOptions {
            model: Some(model_that_calls("down", "up") as _),
            tools: vec![as_tool(&agent, "down")],
            max_sub_agent_depth: limit,
            ..AgentOptions::default()
        };
        agent = Agent::new(
            AgentOptions { id: Some(format!("a{id}").into()), ..options },
            &CountingIds::default(),
        );
    }
    agent
}

#[test]
fn an_agent_used_as_a_tool_returns_the_text_of_its_response() {
    let helper = new_agent(1, Some(script([Answer::text("seven")])), Vec::new());
    let lead = new_agent(2, Some(model_that_calls("helper", "done")), vec![as_tool(&helper, "helper")]);

    let turn = block_on(lead.run("go", context(&lead))).unwrap();

    assert_eq!(result(&turn), r#""seven""#);
    assert_eq!(turn.cycles, 2);
    assert_eq!(turn.tool_executions.len(), 1);
}

#[test]
fn an_agent_converted_to_a_tool_is_named_by_its_id() {
    let tool = Tool::from(&new_agent(7, None, Vec::new()));

    assert_eq!(tool.definition.name, "agent_00000000-0000-4000-8000-000000000007");
    assert!(tool.agent.is_some());
}

#[test]
fn a_sub_agent_inherits_model_and_params_at_the_time_of_the_call() {
    let helper = new_agent(1, None, Vec::new());
    for tone in ["dry", "warm"] {
        let model = script([
            Answer { calls: vec![("helper".into(), r#"{"task":"t"}"#.into())], ..Answer::default() },
            Answer::text("done"),
        ]);
        let lead = new_agent(2, Some(Arc::clone(&model) as _), vec![as_tool(&helper, "helper")]);
        let mut params = RawObject::new();
        params.insert("tone", RawJson::from_str_value(tone));
        let lead = lead.with(&CountingIds::default(), |options| options.params = Arc::new(params.clone()));

        block_on(lead.run("go", context(&lead))).unwrap();

        let requests = model.requests.lock().unwrap();
        // The lead sent two of them.
        assert!(requests.len() > 2);
        assert!(requests.iter().all(|request| *request.params == params));
    }
}

#[test]
fn an_agent_without_a_model_fails_without_a_parent() {
    let helper = new_agent(1, None, Vec::new());

    let error = block_on(helper.run("go", context(&helper))).unwrap_err();

    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert!(error.message.contains("000000000001"));
}

#[test]
fn runs_started_by_a_tool_function_are_children_of_the_run() {
    let seen = Arc::new(Mutex::new(None));
    let inner = Arc::clone(&seen);
    let note = tool("note").with_function(move |invocation| {
        let inner = Arc::clone(&inner);
        async move {
            *inner.lock().unwrap() = Some(invocation.identity.tracking());
            Ok(RawJson::from_str_value("noted"))
        }
    });
    let helper = new_agent(1, Some(model_that_calls("note", "helped")), vec![note]);
    let delegate = tool("delegate").with_function(move |invocation| {
        let helper = helper.clone();
        async move {
            let parent = invocation.parent_run.as_ref().unwrap();
            let turn = helper.run("t", RunContext::inside(host(&helper), parent)).await;
            turn.map(|turn| RawJson::from_str_value(&turn.response().text()))
                .map_err(|error| HostError::raised("UPPError", error.message))
        }
    });
    let lead = new_agent(2, Some(model_that_calls("delegate", "done")), vec![delegate]);

    let turn = block_on(lead.run("go", context(&lead))).unwrap();

    assert_eq!(result(&turn), r#""helped""#);
    let tracking = seen.lock().unwrap().take().unwrap();
    let id = |key: &str| tracking.get(key).and_then(RawJson::as_string);
    assert_eq!(id("agentId").unwrap(), "00000000-0000-4000-8000-000000000001");
    assert_eq!(id("parentAgentId").unwrap(), "00000000-0000-4000-8000-000000000002");
    assert!(id("turnId").is_some() && id("parentTurnId").is_some());
}

#[test]
fn the_depth_of_sub_agents_is_limited() {
    let depth = |length, limit| {
        let agent = chain(length, limit);
        let turn = block_on(agent.run("go", context(&agent))).unwrap();
        turn.tool_executions[0].is_error || result(&turn) != r#""up""#
    };

    assert!(!depth(DEFAULT_DEPTH, None));
    assert!(!depth(GREATEST_DEPTH, Some(GREATEST_DEPTH)));
    // A limit above the maximum counts as the maximum.
    assert!(!depth(GREATEST_DEPTH, Some(u32::MAX)));
    let shallow = chain(3, Some(0));
    let turn = block_on(shallow.run("go", context(&shallow))).unwrap();
    assert!(turn.tool_executions[0].is_error);
    assert!(result(&turn).contains("1 agents deep, and 0 is the most"));
}

/// A run polls its sub-agents on its own stack: the deepest allowed run must fit into the 2 MB of a thread.
#[test]
fn a_level_of_depth_uses_less_than_100_kb_of_stack() {
    let stack_address = |length| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let sender = Mutex::new(sender);
        let note = tool("note").with_function(move |_| {
            let local = 0_u8;
            sender.lock().unwrap().send(std::ptr::from_ref(&local).addr()).unwrap();
            std::future::ready(Ok(RawJson::default()))
        });
        let agent =
            chain_above(new_agent(0, Some(model_that_calls("note", "bottom")), vec![note]), length, None);
        block_on(agent.run("go", context(&agent))).unwrap();
        receiver.recv().unwrap()
    };

    let level = stack_address(2).abs_diff(stack_address(6)) / 4;

    println!("{level} bytes a level");
    assert!(level < 100_000, "{level}");
}

#[test]
fn dropping_a_run_drops_its_sub_agents() {
    let model = script([Answer::text("not reached")]);
    let dropped = Arc::clone(&model.dropped);
    let helper = new_agent(1, Some(model), Vec::new());
    let lead = new_agent(2, Some(model_that_calls("helper", "done")), vec![as_tool(&helper, "helper")]);
    {
        let mut run = pin!(lead.run("go", context(&lead)));
        let mut polling = Context::from_waker(Waker::noop());
        while dropped.load(Ordering::Relaxed) == 0 {
            assert!(run.as_mut().poll(&mut polling).is_pending());
            if Arc::strong_count(&dropped) > 2 {
                break;
            }
        }
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

fn events(agent: &Agent, include_sub_agents: bool) -> Vec<AgentStreamEvent> {
    let context = RunContext { sub_agent_events: include_sub_agents, ..context(agent) };
    let stream = agent.stream("go", context).unwrap();
    block_on(stream.map(Result::unwrap).collect())
}

#[test]
fn events_of_sub_agents_are_streamed_if_requested() {
    let agent = chain(3, None);

    assert!(events(&agent, false).iter().all(|event| event.sub_agent().is_none()));
    let streamed = events(&agent, true);
    let depths: Vec<u32> =
        streamed.iter().map(|event| event.sub_agent().map_or(0, |run| run.depth)).collect();
    assert!(depths.contains(&1) && depths.contains(&2));
    // The depth rises to the innermost agent and falls again.
    let deepest = depths.iter().position(|depth| *depth == 2).unwrap();
    assert!(depths[..deepest].is_sorted());
    let last = depths.iter().rposition(|depth| *depth == 2).unwrap();
    assert!(depths[last..].iter().is_sorted_by(|one, other| one >= other));
}

#[test]
fn events_of_sub_agents_round_trip_through_json() {
    for event in events(&chain(3, None), true) {
        let text = RawJson::from_value(&event).unwrap();
        assert_eq!(text.to::<AgentStreamEvent>().unwrap(), event);
        assert_eq!(text.get().contains("subAgent"), event.sub_agent().is_some());
    }
}

#[test]
fn a_sub_agent_whose_model_cannot_stream_is_called_without_streaming() {
    let mut mute = ScriptModel::new([Answer::text("still")]);
    mute.capabilities = Capabilities { streaming: false, ..Capabilities::ALL };
    let helper = new_agent(1, Some(Arc::new(mute)), Vec::new());
    let lead = new_agent(2, Some(model_that_calls("helper", "done")), vec![as_tool(&helper, "helper")]);

    let streamed = events(&lead, true);

    assert!(streamed.iter().any(|event| event.sub_agent().is_some() && event.as_uap().is_some()));
}

/// Three agents, each a tool of the one before; their tools record that they ended.
struct Hierarchy {
    lead: Agent,
    done: Arc<Mutex<Vec<String>>>,
    models: Vec<Arc<ScriptModel>>,
}

impl Hierarchy {
    fn new() -> Self {
        let done = Arc::new(Mutex::new(Vec::new()));
        let recording_tool = |name: &'static str, takes: usize| {
            let done = Arc::clone(&done);
            tool(name).with_function(move |_| {
                let done = Arc::clone(&done);
                async move {
                    yield_times(takes).await;
                    done.lock().unwrap().push(name.to_owned());
                    Ok(RawJson::from_str_value(name))
                }
            })
        };
        let bottom_model =
            script([Answer::calls(&["one", "two"]), Answer::calls(&["three"]), Answer::text("bottom")]);
        let bottom = new_agent(
            1,
            Some(Arc::clone(&bottom_model) as _),
            vec![recording_tool("one", 1), recording_tool("two", 4), recording_tool("three", 2)],
        );
        let middle_model = script([
            Answer {
                calls: vec![("bottom".into(), r#"{"task":"t"}"#.into()), ("four".into(), "{}".into())],
                ..Answer::default()
            },
            Answer::text("middle"),
        ]);
        let middle = new_agent(
            2,
            Some(Arc::clone(&middle_model) as _),
            vec![as_tool(&bottom, "bottom"), recording_tool("four", 3)],
        );
        let lead_model = model_that_calls("middle", "lead");
        let lead = new_agent(3, Some(Arc::clone(&lead_model) as _), vec![as_tool(&middle, "middle")]);
        Self { lead, done, models: vec![lead_model, middle_model, bottom_model] }
    }

    fn session(&self) -> Session {
        Session::new(self.lead.clone(), SessionOptions::default()).unwrap()
    }

    fn load(&self, text: &str) -> Session {
        let snapshot = SessionSnapshot::from_json(text, &Limits::default()).unwrap();
        Session::from_snapshot(snapshot, self.lead.clone(), SessionOptions::default())
    }

    fn done(&self) -> Vec<String> {
        let mut done = self.done.lock().unwrap().clone();
        done.sort();
        done
    }
}

/// Polls a future up to `times` times, then drops it.
fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..times {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
    }
    None
}

proptest! {
    #![proptest_config(with_cases(96))]

    /// A run of three agents is stopped several times, serialised and resumed: it ends with the same turn, and neither
    /// finished tools nor answered model calls run again.
    #[test]
    fn a_hierarchy_stopped_and_resumed_anywhere_ends_with_the_same_turn(stops in prop::collection::vec(0_usize..14, 1..5)) {
        let hierarchy = Hierarchy::new();
        let mut session = hierarchy.session();
        let mut turn = None;
        for (number, stop) in stops.into_iter().enumerate() {
            let context = context(&hierarchy.lead);
            let outcome = match (number, session.is_resumable()) {
                (0, _) | (_, false) => poll_times(session.run("go", context), stop),
                (_, true) => poll_times(session.resume(context), stop),
            };
            let text = session.to_json().unwrap();
            session = hierarchy.load(&text);
            prop_assert_eq!(session.to_json().unwrap(), text);
            if let Some(ended) = outcome {
                turn = Some(ended.unwrap());
                break;
            }
        }
        let turn = turn.unwrap_or_else(|| {
            let context = context(&hierarchy.lead);
            if session.is_resumable() {
                block_on(session.resume(context)).unwrap()
            } else {
                block_on(session.run("go", context)).unwrap()
            }
        });

        prop_assert_eq!(turn.response().text(), "lead");
        prop_assert_eq!(result(&turn), r#""middle""#);
        prop_assert_eq!(hierarchy.done(), ["four", "one", "three", "two"]);
        let states = session.checkpoints().last().unwrap().sub_agent_states.clone();
        prop_assert_eq!(states.len(), 1);
    }
}

#[test]
fn a_session_serialised_during_a_run_contains_the_states_of_all_sub_agents() {
    let hierarchy = Hierarchy::new();
    let session = hierarchy.session();
    let mut run = pin!(session.run("go", context(&hierarchy.lead)));
    let mut polling = Context::from_waker(Waker::noop());
    let mut most = 0;
    while run.as_mut().poll(&mut polling).is_pending() {
        let text = session.to_json().unwrap();
        let depth = text.match_indices("subAgentStates\":{\"").count();
        most = most.max(depth);
        assert_eq!(hierarchy.load(&text).to_json().unwrap(), text);
    }

    assert!(most >= 2);
    assert!(hierarchy.models.iter().all(|model| !model.requests.lock().unwrap().is_empty()));
}

#[test]
fn progress_events_come_between_start_and_end_and_wake_the_stream() {
    let (sender, invocations) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let slow = tool("slow").with_function(move |invocation| {
        sender.lock().unwrap().send(Arc::clone(&invocation)).unwrap();
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || {
            invocation.report(raw(r#"{"done":1}"#), Timestamp::from_microseconds(5_000));
            // Long enough for a missing wake-up to show.
            std::thread::sleep(std::time::Duration::from_millis(5));
            drop(finish);
        });
        async move {
            let _closed = finished.await;
            Ok(RawJson::from_str_value("done"))
        }
    });
    let lead = new_agent(1, Some(model_that_calls("slow", "end")), vec![slow]);

    let streamed = events(&lead, false);

    let kinds: Vec<&str> = streamed.iter().filter_map(|event| Some(event.as_upp()?.delta.kind())).collect();
    let position = |kind: &str| kinds.iter().position(|other| *other == kind).unwrap();
    assert!(position("tool_execution_start") < position("tool_execution_progress"));
    assert!(position("tool_execution_progress") < position("tool_execution_end"));
    let progress = streamed.iter().find_map(|event| match &event.as_upp()?.delta {
        Delta::Unknown { delta, .. } => Some(delta.clone()),
        _ => None,
    });
    let progress = progress.unwrap();
    assert_eq!(progress.get("progress").unwrap().get(), r#"{"done":1}"#);
    assert_eq!(progress.get("timestamp").unwrap().get(), "5");
    assert_eq!(progress.get("toolName").unwrap().get(), r#""slow""#);
    // A report after the end of the call is ignored.
    invocations.recv().unwrap().report(raw("2"), Timestamp::from_microseconds(0));
}
