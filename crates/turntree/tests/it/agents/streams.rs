//! Streamed runs: events, equality with `run`, aborts. UAP-1.0 §12, decisions A54–A59.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;
use proptest::prelude::{Just, any, prop_assert_eq, prop_oneof, proptest};
use tokio_util::sync::CancellationToken;
use turntree::agents::driver::AgentStream;
use turntree::agents::host::{Approval, HookSet, RunContext};
use turntree::agents::types::UapData;
use turntree::agents::types::{AgentStreamEvent, partial_turn};
use turntree::agents::{PlanOptions, ReactOptions, Strategy};
use turntree::message::{Delta, Turn};
use turntree::upp::{ErrorCode, UppError};

use crate::support::agents::{
    Answer, ScriptModel, TestHost, agent, agent_with, assert_valid_history, block_on, is_marked_aborted,
    one_round, records, tool_results,
};

fn stream(script: &[Answer], host: &Arc<TestHost>) -> AgentStream {
    let model = Arc::new(ScriptModel::new(script.to_vec()));
    agent(model, 10).stream("Hello", RunContext::new(Arc::clone(host) as _)).unwrap()
}

fn describe(event: &AgentStreamEvent) -> String {
    match event {
        AgentStreamEvent::Uap(event) => format!("{} {}", event.data.kind(), event.step),
        AgentStreamEvent::Upp(event) => match &event.delta {
            Delta::Text(delta) => format!("text {:?}", delta.text),
            delta => delta.kind().to_owned(),
        },
        AgentStreamEvent::SubAgent(event) => format!("> {}", describe(&event.event)),
    }
}

fn collect(stream: &mut AgentStream) -> Vec<AgentStreamEvent> {
    block_on(stream.by_ref().map(Result::unwrap).collect())
}

#[test]
fn a_stream_has_the_events_of_agent_and_model_in_order() {
    let host = Arc::new(TestHost { hooks: HookSet::CHECKPOINT_STEPS, ..TestHost::default() });
    let mut stream = stream(&one_round("echo"), &host);

    let events = collect(&mut stream);

    let described: Vec<_> = events.iter().map(describe).collect();
    assert_eq!(
        described,
        [
            "step_start 1",
            "message_start",
            "tool_call_delta",
            "message_stop",
            "action 1",
            "tool_execution_start",
            "tool_execution_end",
            "observation 1",
            "step_end 1",
            "checkpoint 1",
            "step_start 2",
            "message_start",
            "text \"All \"",
            "text \"done \"",
            "text \"now.\"",
            "message_stop",
            "step_end 2",
            "checkpoint 2",
        ]
    );
    assert_eq!(block_on(stream.turn()).unwrap().response().text(), "All done now.");
}

#[test]
fn events_have_the_json_of_the_specification_and_round_trip() {
    let host = Arc::new(TestHost { hooks: HookSet::CHECKPOINT_STEPS, ..TestHost::default() });
    let events = collect(&mut stream(&one_round("echo"), &host));
    let written: Vec<_> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();

    for (event, text) in events.iter().zip(&written) {
        assert_eq!(&serde_json::from_str::<AgentStreamEvent>(text).unwrap(), event);
    }
    let agent = "00000000-0000-4000-8000-00000000000a";
    assert!(written[0].starts_with(&format!(
        r#"{{"source":"uap","uap":{{"type":"step_start","step":1,"agentId":"{agent}","data":{{"stepNumber":1,"stepId":""#
    )));
    assert_eq!(written[1], r#"{"source":"upp","upp":{"type":"message_start","index":0,"delta":{}}}"#);
    assert!(written[4].contains(r#""data":{"toolCalls":[{"toolCallId":"call-1-0""#));
    assert!(written[7].contains(r#""data":{"results":[{"toolCallId":"call-1-0""#));
    assert!(written[9].contains(r#""data":{"checkpointId":"StepEnded 1"}"#));
    let AgentStreamEvent::Uap(end) = &events[8] else { panic!() };
    let UapData::StepEnd(end) = &end.data else { panic!() };
    assert_eq!((end.usage.input_tokens, end.usage.output_tokens), (10, 1));
}

#[test]
fn a_stream_is_lazy_and_its_turn_can_be_awaited_repeatedly() {
    let host = Arc::new(TestHost::default());
    let mut stream = stream(&one_round("echo"), &host);
    assert!(host.log().is_empty());

    let turn = block_on(stream.turn()).unwrap();

    assert_eq!(block_on(stream.turn()).unwrap(), turn);
    assert!(block_on(stream.next()).is_none());
}

#[test]
fn an_error_is_the_last_item_and_the_result_of_turn() {
    let down = UppError::new(ErrorCode::ProviderError, "scripted", "down");
    let model = Arc::new(ScriptModel::failing([Err(down)]));
    let context = RunContext::new(Arc::new(TestHost::default()));
    let mut stream = agent(model, 10).stream("Hello", context).unwrap();

    let items: Vec<_> = block_on(stream.by_ref().collect());

    assert_eq!(items.len(), 3);
    assert_eq!(items[2].as_ref().unwrap_err().message, "down");
    assert_eq!(block_on(stream.turn()).unwrap_err().message, "down");
}

#[test]
fn back_pressure_limits_the_buffered_events() {
    let words = "word ".repeat(2_000);
    let host = Arc::new(TestHost::default());
    let mut stream = stream(&[Answer::text(&words)], &host);

    let mut most = 0;
    let mut texts = 0;
    while let Some(event) = block_on(stream.next()) {
        texts += usize::from(describe(&event.unwrap()).starts_with("text"));
        let mut waiting = 0;
        while let Some(event) = stream.take_buffered() {
            waiting += 1;
            texts += usize::from(describe(&event).starts_with("text"));
        }
        most = most.max(waiting);
    }

    assert_eq!(texts, 2_000);
    assert!(most <= 256, "{most} events were waiting");
}

#[test]
fn aborting_after_any_number_of_events_gives_a_valid_partial_turn() {
    let script = [Answer::calls(&["echo", "slow"]), Answer::text("All done now.")];
    let total = collect(&mut stream(&script, &Arc::default())).len();
    for taken in 0..=total {
        let host = Arc::new(TestHost { hooks: HookSet::COMPLETE, ..TestHost::default() });
        let mut stream = stream(&script, &host);
        let mut text = String::new();
        for _ in 0..taken {
            let event = block_on(stream.next()).unwrap().unwrap();
            if let Some(Delta::Text(delta)) = event.as_upp().map(|event| &event.delta) {
                text.push_str(&delta.text);
            }
        }

        stream.abort();

        assert!(block_on(stream.next()).is_none(), "after {taken} events");
        let turn = block_on(stream.turn()).unwrap();
        assert_valid_history(&turn.messages);
        assert!(turn.messages[0].text() == "Hello" && turn.response().text().starts_with(&text));
        if host.log().last().is_some_and(|line| line.starts_with("on_complete")) {
            continue;
        }
        assert!(is_marked_aborted(&turn), "after {taken} events");
    }
}

#[test]
fn aborting_before_the_start_returns_the_input_and_an_empty_response() {
    let model = Arc::new(ScriptModel::new([Answer::text("never asked")]));
    let context = RunContext::new(Arc::new(TestHost::default()));
    let mut stream = agent(Arc::clone(&model) as _, 10).stream("Hello", context).unwrap();

    stream.abort();
    let turn = block_on(stream.turn()).unwrap();

    assert_eq!((turn.messages.len(), turn.cycles, turn.response().content().len()), (2, 0, 0));
    assert!(is_marked_aborted(&turn));
    assert!(model.requests.lock().unwrap().is_empty());
}

#[test]
fn aborting_while_tools_run_drops_them_and_adds_aborted_results() {
    let host = Arc::new(TestHost::default());
    let mut stream = stream(&[Answer::calls(&["echo", "never"])], &host);
    let ended = |event: &AgentStreamEvent| describe(event) == "tool_execution_end";
    while !ended(&block_on(stream.next()).unwrap().unwrap()) {}

    stream.abort();
    let turn = block_on(stream.turn()).unwrap();

    assert_eq!(tool_results(&turn), ["{}", r#""Tool execution was aborted""#]);
    assert_eq!(records(&turn).len(), 1);
    assert_eq!(host.dropped_tools.load(Ordering::Relaxed), 1);
    assert_valid_history(&turn.messages);
}

#[test]
fn an_abort_wakes_a_waiting_stream() {
    let host = Arc::new(TestHost::default());
    let mut stream = stream(&[Answer::calls(&["never"])], &host);
    let abort = stream.abort_token().clone();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        abort.cancel();
    });

    collect(&mut stream);

    assert!(is_marked_aborted(&block_on(stream.turn()).unwrap()));
}

#[test]
fn a_cancellation_token_aborts_the_run_and_an_abort_leaves_the_token_unset() {
    let token = CancellationToken::new();
    let context =
        RunContext { cancellation: Some(token.clone()), ..RunContext::new(Arc::new(TestHost::default())) };
    let model = Arc::new(ScriptModel::new([Answer::text("Hi.")]));
    let agent = agent(model, 10);
    let stream = agent.stream("Hello", context.clone()).unwrap();
    stream.abort();
    assert!(!token.is_cancelled());

    token.cancel();
    let turn = block_on(agent.run("Hello", context)).unwrap();
    assert!(is_marked_aborted(&turn));
}

fn any_answer() -> impl proptest::strategy::Strategy<Value = Answer> {
    use proptest::strategy::Strategy as _;
    let name =
        prop_oneof![Just("echo"), Just("fail"), Just("slow"), Just("guarded"), Just("picky"), Just("owl")];
    ("[a-z ]{0,20}", proptest::collection::vec(name, 0..4)).prop_map(|(text, names)| {
        let calls = names.into_iter().map(|name| (name.to_owned(), "{}".to_owned()));
        Answer { text, calls: calls.collect(), data: None }
    })
}

/// A response with a plan of two steps; the first may fail.
fn any_plan() -> impl proptest::strategy::Strategy<Value = Answer> {
    use proptest::strategy::Strategy as _;
    let tool = prop_oneof![Just("null"), Just("\"fail\""), Just("\"echo\"")];
    (0..9_u8, tool).prop_map(|(id, tool)| {
        let step = |id: u8, tool: &str, needed: &str| {
            format!(r#"{{"id":"s{id}","description":"do it","tool":{tool},"dependsOn":[{needed}]}}"#)
        };
        let steps = [step(id, tool, ""), step(id + 9, "null", &format!("\"s{id}\""))];
        let text = format!(r#"{{"steps":[{}]}}"#, steps.join(","));
        Answer::text(&text).with_data(&text)
    })
}

fn any_strategy() -> impl proptest::strategy::Strategy<Value = Strategy> {
    use proptest::strategy::Strategy as _;
    let react = (1..4_u32)
        .prop_map(|max_steps| Strategy::React(ReactOptions { max_steps, ..ReactOptions::default() }));
    let plan = (any::<bool>(), 0..3_u32).prop_map(|(allow_replan, max_replans)| {
        let options = PlanOptions { allow_replan, max_replans, ..PlanOptions::default() };
        Strategy::Plan(PlanOptions { max_iterations: 2, ..options })
    });
    prop_oneof![(0..4_u32).prop_map(Strategy::loop_), react, plan]
}

proptest! {
    #[test]
    fn streaming_and_running_give_the_same_turn_and_hooks(
        script in proptest::collection::vec(prop_oneof![3 => any_answer(), 2 => any_plan()], 0..7),
        strategy in any_strategy(),
        denied in any::<bool>(),
    ) {
        let approval = if denied { Approval::Denied } else { Approval::Granted };
        let host = || Arc::new(TestHost { approval: approval.clone(), hooks: HookSet::all(), ..TestHost::default() });
        let down = UppError::new(ErrorCode::ProviderError, "scripted", "down");
        let model = || {
            let script = script.iter().cloned().map(Ok).chain([Err(down.clone())]);
            Arc::new(ScriptModel::failing(script))
        };
        let (one, other) = (host(), host());
        let ran = block_on(agent_with(model(), strategy.clone(), None).run("Hello", RunContext::new(Arc::clone(&one) as _)));
        let agent = agent_with(model(), strategy, None);
        let mut stream = agent.stream("Hello", RunContext::new(Arc::clone(&other) as _)).unwrap();
        let streamed = block_on(stream.turn());

        let summarize = |outcome: &Result<Arc<Turn>, UppError>| match outcome {
            Ok(turn) => (None, serde_json::to_string(turn).unwrap()),
            Err(error) => {
                let partial = partial_turn(error).map(|partial| Arc::clone(&partial.turn));
                (Some(error.to_string()), serde_json::to_string(&partial).unwrap())
            }
        };
        prop_assert_eq!(summarize(&ran), summarize(&streamed));
        prop_assert_eq!(one.log(), other.log());
    }
}
