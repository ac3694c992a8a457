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

use crate::support::agents::{Answer, ScriptModel, block_on, clock, give_way, raw, tool};

fn script(answers: impl IntoIterator<Item = Answer>) -> Arc<ScriptModel> {
    Arc::new(ScriptModel::new(answers))
}

fn calling(name: &str, then: &str) -> Arc<ScriptModel> {
    let call = Answer { calls: vec![(name.to_owned(), r#"{"task":"t"}"#.to_owned())], ..Answer::default() };
    script([call, Answer::text(then)])
}

fn made(id: u32, model: Option<Arc<dyn Model>>, tools: Vec<Tool>) -> Agent {
    let id = format!("00000000-0000-4000-8000-{id:012}");
    let options = AgentOptions { model, tools, id: Some(id.into()), ..AgentOptions::default() };
    Agent::new(options, &CountingIds::default())
}

fn named(agent: &Agent, name: &str) -> Tool {
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

/// Each agent is a tool, `down`, of the next; the last runs all.
fn chain(length: u32, limit: Option<u32>) -> Agent {
    above(made(0, Some(script([Answer::text("bottom")])), Vec::new()), length, limit)
}

fn above(bottom: Agent, length: u32, limit: Option<u32>) -> Agent {
    let mut agent = bottom;
    for id in 1..length {
        let options = AgentOptions {
            model: Some(calling("down", "up") as _),
            tools: vec![named(&agent, "down")],
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
fn an_agent_answers_as_a_tool_with_the_text_of_its_response() {
    let helper = made(1, Some(script([Answer::text("seven")])), Vec::new());
    let lead = made(2, Some(calling("helper", "done")), vec![named(&helper, "helper")]);

    let turn = block_on(lead.run("go", context(&lead))).unwrap();

    assert_eq!(result(&turn), r#""seven""#);
    assert_eq!(turn.cycles, 2);
    assert_eq!(turn.tool_executions.len(), 1);
}

#[test]
fn an_agent_becomes_a_tool_named_by_its_id() {
    let tool = Tool::from(&made(7, None, Vec::new()));

    assert_eq!(tool.definition.name, "agent_00000000-0000-4000-8000-000000000007");
    assert!(tool.agent.is_some());
}

#[test]
fn a_model_is_lent_with_its_params_when_the_call_is_made() {
    let helper = made(1, None, Vec::new());
    for tone in ["dry", "warm"] {
        let model = script([
            Answer { calls: vec![("helper".into(), r#"{"task":"t"}"#.into())], ..Answer::default() },
            Answer::text("done"),
        ]);
        let lead = made(2, Some(Arc::clone(&model) as _), vec![named(&helper, "helper")]);
        let mut params = RawObject::new();
        params.insert("tone", RawJson::from_str_value(tone));
        let lead = lead.with(&CountingIds::default(), |options| options.params = Arc::new(params.clone()));

        block_on(lead.run("go", context(&lead))).unwrap();

        let requests = model.requests.lock().unwrap();
        // Two are the lead's own.
        assert!(requests.len() > 2);
        assert!(requests.iter().all(|request| *request.params == params));
    }
}

#[test]
fn an_agent_without_a_model_fails_as_a_tool_of_nobody() {
    let helper = made(1, None, Vec::new());

    let error = block_on(helper.run("go", context(&helper))).unwrap_err();

    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert!(error.message.contains("000000000001"));
}

#[test]
fn runs_started_by_a_tool_function_are_inside_of_the_run() {
    let seen = Arc::new(Mutex::new(None));
    let inner = Arc::clone(&seen);
    let note = tool("note").with_function(move |invocation| {
        let inner = Arc::clone(&inner);
        async move {
            *inner.lock().unwrap() = Some(invocation.identity.tracking());
            Ok(RawJson::from_str_value("noted"))
        }
    });
    let helper = made(1, Some(calling("note", "helped")), vec![note]);
    let delegate = tool("delegate").with_function(move |invocation| {
        let helper = helper.clone();
        async move {
            let enclosing = invocation.parent_run.as_ref().unwrap();
            let turn = helper.run("t", RunContext::inside(host(&helper), enclosing)).await;
            turn.map(|turn| RawJson::from_str_value(&turn.response().text()))
                .map_err(|error| HostError::raised("UPPError", error.message))
        }
    });
    let lead = made(2, Some(calling("delegate", "done")), vec![delegate]);

    let turn = block_on(lead.run("go", context(&lead))).unwrap();

    assert_eq!(result(&turn), r#""helped""#);
    let facts = seen.lock().unwrap().take().unwrap();
    let id = |key: &str| facts.get(key).and_then(RawJson::as_string);
    assert_eq!(id("agentId").unwrap(), "00000000-0000-4000-8000-000000000001");
    assert_eq!(id("parentAgentId").unwrap(), "00000000-0000-4000-8000-000000000002");
    assert!(id("turnId").is_some() && id("parentTurnId").is_some());
}

#[test]
fn the_depth_is_limited() {
    let depth = |length, limit| {
        let agent = chain(length, limit);
        let turn = block_on(agent.run("go", context(&agent))).unwrap();
        turn.tool_executions[0].is_error || result(&turn) != r#""up""#
    };

    assert!(!depth(DEFAULT_DEPTH, None));
    assert!(!depth(GREATEST_DEPTH, Some(GREATEST_DEPTH)));
    // What is asked for beyond the most counts as the most.
    assert!(!depth(GREATEST_DEPTH, Some(u32::MAX)));
    let shallow = chain(3, Some(0));
    let turn = block_on(shallow.run("go", context(&shallow))).unwrap();
    assert!(turn.tool_executions[0].is_error);
    assert!(result(&turn).contains("1 agents deep, and 0 is the most"));
}

/// Agents that are tools are polled inside one another: the deepest allowed must fit on the stack of a thread, 2 MB.
#[test]
fn a_level_of_depth_takes_little_of_the_stack() {
    let place = |length| {
        let (tell, told) = std::sync::mpsc::channel();
        let tell = Mutex::new(tell);
        let note = tool("note").with_function(move |_| {
            let local = 0_u8;
            tell.lock().unwrap().send(std::ptr::from_ref(&local).addr()).unwrap();
            std::future::ready(Ok(RawJson::default()))
        });
        let agent = above(made(0, Some(calling("note", "bottom")), vec![note]), length, None);
        block_on(agent.run("go", context(&agent))).unwrap();
        told.recv().unwrap()
    };

    let level = place(2).abs_diff(place(6)) / 4;

    println!("{level} bytes a level");
    assert!(level < 100_000, "{level}");
}

#[test]
fn dropping_a_run_drops_what_is_inside_of_it() {
    let model = script([Answer::text("never said")]);
    let dropped = Arc::clone(&model.dropped);
    let helper = made(1, Some(model), Vec::new());
    let lead = made(2, Some(calling("helper", "done")), vec![named(&helper, "helper")]);
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

fn events(agent: &Agent, wanted: bool) -> Vec<AgentStreamEvent> {
    let context = RunContext { sub_agent_events: wanted, ..context(agent) };
    let stream = agent.stream("go", context).unwrap();
    block_on(stream.map(Result::unwrap).collect())
}

#[test]
fn events_of_sub_agents_are_told_where_they_are_wanted() {
    let agent = chain(3, None);

    assert!(events(&agent, false).iter().all(|event| event.sub_agent().is_none()));
    let told = events(&agent, true);
    let depths: Vec<u32> = told.iter().map(|event| event.sub_agent().map_or(0, |run| run.depth)).collect();
    assert!(depths.contains(&1) && depths.contains(&2));
    // As they happen: down to the bottom, and up again.
    let deepest = depths.iter().position(|depth| *depth == 2).unwrap();
    assert!(depths[..deepest].is_sorted());
    let last = depths.iter().rposition(|depth| *depth == 2).unwrap();
    assert!(depths[last..].iter().is_sorted_by(|one, other| one >= other));
}

#[test]
fn an_event_of_a_sub_agent_survives_json() {
    for event in events(&chain(3, None), true) {
        let text = RawJson::from_value(&event).unwrap();
        assert_eq!(text.to::<AgentStreamEvent>().unwrap(), event);
        assert_eq!(text.get().contains("subAgent"), event.sub_agent().is_some());
    }
}

#[test]
fn a_sub_agent_whose_model_cannot_stream_is_asked_without() {
    let mut mute = ScriptModel::new([Answer::text("still")]);
    mute.capabilities = Capabilities { streaming: false, ..Capabilities::ALL };
    let helper = made(1, Some(Arc::new(mute)), Vec::new());
    let lead = made(2, Some(calling("helper", "done")), vec![named(&helper, "helper")]);

    let told = events(&lead, true);

    assert!(told.iter().any(|event| event.sub_agent().is_some() && event.as_uap().is_some()));
}

/// A lead, an agent in the middle and one at the bottom; the tools write down that they have run to their end.
struct Family {
    lead: Agent,
    done: Arc<Mutex<Vec<String>>>,
    asked: Vec<Arc<ScriptModel>>,
}

impl Family {
    fn new() -> Self {
        let done = Arc::new(Mutex::new(Vec::new()));
        let work = |name: &'static str, takes: usize| {
            let done = Arc::clone(&done);
            tool(name).with_function(move |_| {
                let done = Arc::clone(&done);
                async move {
                    give_way(takes).await;
                    done.lock().unwrap().push(name.to_owned());
                    Ok(RawJson::from_str_value(name))
                }
            })
        };
        let bottom_model =
            script([Answer::calls(&["one", "two"]), Answer::calls(&["three"]), Answer::text("bottom")]);
        let bottom = made(
            1,
            Some(Arc::clone(&bottom_model) as _),
            vec![work("one", 1), work("two", 4), work("three", 2)],
        );
        let middle_model = script([
            Answer {
                calls: vec![("bottom".into(), r#"{"task":"t"}"#.into()), ("four".into(), "{}".into())],
                ..Answer::default()
            },
            Answer::text("middle"),
        ]);
        let middle =
            made(2, Some(Arc::clone(&middle_model) as _), vec![named(&bottom, "bottom"), work("four", 3)]);
        let lead_model = calling("middle", "lead");
        let lead = made(3, Some(Arc::clone(&lead_model) as _), vec![named(&middle, "middle")]);
        Self { lead, done, asked: vec![lead_model, middle_model, bottom_model] }
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

/// Polls a future so many times, and drops it unless it is ready.
fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
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
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// However often a run of three agents is stopped, and wherever, it comes to the same end by way of JSON, and no tool
    /// that has ended runs again, nor does a model whose answer has arrived answer again.
    #[test]
    fn a_family_that_is_stopped_anywhere_comes_to_the_same_end(stops in prop::collection::vec(0_usize..14, 1..5)) {
        let family = Family::new();
        let mut session = family.session();
        let mut turn = None;
        for (number, stop) in stops.into_iter().enumerate() {
            let context = context(&family.lead);
            let outcome = match (number, session.is_resumable()) {
                (0, _) | (_, false) => polled(session.run("go", context), stop),
                (_, true) => polled(session.resume(context), stop),
            };
            let text = session.to_json().unwrap();
            session = family.load(&text);
            prop_assert_eq!(session.to_json().unwrap(), text);
            if let Some(ended) = outcome {
                turn = Some(ended.unwrap());
                break;
            }
        }
        let turn = turn.unwrap_or_else(|| {
            let context = context(&family.lead);
            if session.is_resumable() {
                block_on(session.resume(context)).unwrap()
            } else {
                block_on(session.run("go", context)).unwrap()
            }
        });

        prop_assert_eq!(turn.response().text(), "lead");
        prop_assert_eq!(result(&turn), r#""middle""#);
        prop_assert_eq!(family.done(), ["four", "one", "three", "two"]);
        let states = session.checkpoints().last().unwrap().sub_agent_states.clone();
        prop_assert_eq!(states.len(), 1);
    }
}

#[test]
fn a_session_that_is_written_while_a_family_runs_holds_all_of_it() {
    let family = Family::new();
    let session = family.session();
    let mut run = pin!(session.run("go", context(&family.lead)));
    let mut polling = Context::from_waker(Waker::noop());
    let mut most = 0;
    while run.as_mut().poll(&mut polling).is_pending() {
        let text = session.to_json().unwrap();
        let depth = text.match_indices("subAgentStates\":{\"").count();
        most = most.max(depth);
        assert_eq!(family.load(&text).to_json().unwrap(), text);
    }

    assert!(most >= 2);
    assert!(family.asked.iter().all(|model| !model.requests.lock().unwrap().is_empty()));
}

#[test]
fn progress_is_told_between_start_and_end_and_wakes_the_listener() {
    let (report, reported) = std::sync::mpsc::channel();
    let report = Mutex::new(report);
    let slow = tool("slow").with_function(move |invocation| {
        report.lock().unwrap().send(Arc::clone(&invocation)).unwrap();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        std::thread::spawn(move || {
            invocation.report(raw(r#"{"done":1}"#), Timestamp::from_microseconds(5_000));
            // Long enough for a listener that is not woken to be seen waiting.
            std::thread::sleep(std::time::Duration::from_millis(5));
            drop(sender);
        });
        async move {
            let _closed = receiver.await;
            Ok(RawJson::from_str_value("done"))
        }
    });
    let lead = made(1, Some(calling("slow", "end")), vec![slow]);

    let told = events(&lead, false);

    let kinds: Vec<&str> = told.iter().filter_map(|event| Some(event.as_upp()?.delta.kind())).collect();
    let place = |kind: &str| kinds.iter().position(|found| *found == kind).unwrap();
    assert!(place("tool_execution_start") < place("tool_execution_progress"));
    assert!(place("tool_execution_progress") < place("tool_execution_end"));
    let progress = told.iter().find_map(|event| match &event.as_upp()?.delta {
        Delta::Unknown { delta, .. } => Some(delta.clone()),
        _ => None,
    });
    let progress = progress.unwrap();
    assert_eq!(progress.get("progress").unwrap().get(), r#"{"done":1}"#);
    assert_eq!(progress.get("timestamp").unwrap().get(), "5");
    assert_eq!(progress.get("toolName").unwrap().get(), r#""slow""#);
    // The call is over: nobody hears it, and nothing breaks.
    reported.recv().unwrap().report(raw("2"), Timestamp::from_microseconds(0));
}
