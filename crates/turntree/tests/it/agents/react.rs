//! The strategy `react`: reasoning, actions, observations. UAP-1.0 §5.3 and §11.4, decisions A11, A17–A25.

use std::sync::Arc;

use turntree::agents::host::{HookSet, RunContext};
use turntree::agents::types::{AgentStreamEvent, Boundary};
use turntree::agents::{ObservationFormat, ReactOptions, Strategy};
use turntree::message::message::History;
use turntree::message::{Message, Turn};
use turntree::upp::UppError;

use crate::support::agents::{
    Answer, ScriptModel, TestHost, agent_with, assert_valid_history, block_on, is_marked_aborted, raw,
};

fn react(max_steps: u32) -> Strategy {
    Strategy::React(ReactOptions { max_steps, ..ReactOptions::default() })
}

fn two_steps() -> [Answer; 4] {
    [
        Answer::text("I need the echo."),
        Answer::calls(&["echo", "fail"]),
        Answer::text("I know enough."),
        Answer::text("It said so."),
    ]
}

fn run(
    strategy: Strategy,
    script: &[Answer],
    host: &Arc<TestHost>,
) -> (Result<Arc<Turn>, UppError>, Arc<ScriptModel>) {
    let model = Arc::new(ScriptModel::new(script.to_vec()));
    let agent = agent_with(Arc::clone(&model) as _, strategy, None);
    (block_on(agent.run("Hello", RunContext::new(Arc::clone(host) as _))), model)
}

fn texts<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<String> {
    messages.into_iter().map(|message| message.text()).collect()
}

#[test]
fn the_turn_has_actions_and_results_without_prompts_and_thoughts() {
    let (turn, model) = run(react(10), &two_steps(), &Arc::default());
    let turn = turn.unwrap();

    let kinds: Vec<_> = turn.messages.iter().map(|message| message.kind().as_str()).collect();
    assert_eq!(kinds, ["user", "assistant", "tool_result", "assistant"]);
    assert_valid_history(&turn.messages);
    assert_eq!((turn.messages[0].text(), turn.response().text()), ("Hello".into(), "It said so.".into()));
    assert_eq!((turn.cycles, turn.usage.input_tokens, turn.usage.output_tokens), (4, 40, 1 + 2 + 3 + 4));
    assert_eq!(turn.tool_executions.len(), 2);
    assert_eq!(model.requests.lock().unwrap().len(), 4);
}

#[test]
fn requests_contain_prompts_and_thoughts_in_order() {
    let (_, model) = run(react(10), &two_steps(), &Arc::default());

    let requests = model.requests.lock().unwrap();
    let last = texts(&requests[3].messages);
    assert_eq!(last[0], "Hello");
    assert!(last[1].starts_with("Think step by step"));
    assert_eq!(last[2], "I need the echo.");
    assert!(last[3].starts_with("Now act on your reasoning"));
    assert_eq!(requests[3].messages[4].tool_calls().len(), 2);
    assert_eq!(requests[3].messages[5].results().len(), 2);
    assert!(
        last[6].starts_with("## Observations\n\n### echo\n\n{}\n\n### fail (failed)\n\nit broke\n\nThink")
    );
    assert_eq!(last[7], "I know enough.");
    assert!(last[8].starts_with("Now act"));
    // Each request extends the one before.
    for pair in requests.windows(2) {
        let before = texts(&pair[0].messages);
        assert_eq!(texts(&pair[1].messages)[..before.len()], before);
    }
}

#[test]
fn tools_are_declared_while_reasoning_and_their_calls_are_dropped() {
    let host = Arc::new(TestHost::default());
    let thought = Answer { text: "Hm.".into(), ..Answer::calls(&["echo"]) };

    let (turn, model) = run(react(10), &[thought, Answer::text("Done.")], &host);

    let requests = model.requests.lock().unwrap();
    assert!(requests.iter().all(|request| !request.tools.is_empty()));
    assert!(requests[1].messages.iter().all(|message| !message.has_tool_calls()));
    assert_eq!(requests[1].messages[2].text(), "Hm.");
    assert!(host.log().is_empty(), "a tool ran");
    assert_eq!(turn.unwrap().cycles, 2);
}

#[test]
fn a_thought_without_text_is_not_sent_to_the_model() {
    // Vendors refuse an assistant message without content. The script counts the assistant messages of the request.
    let script = [Answer::calls(&["echo"]), Answer::text("Hm."), Answer::text("Done.")];

    let (turn, model) = run(react(10), &script, &Arc::default());

    let requests = model.requests.lock().unwrap();
    let acting = &requests[1].messages;
    assert_eq!(acting.len(), 3);
    assert!(acting[1].text().starts_with("Think") && acting[2].text().starts_with("Now act"));
    assert_eq!(turn.unwrap().cycles, 4);
}

#[test]
fn hooks_run_in_the_order_of_the_specification() {
    let host = Arc::new(TestHost::with_hooks());

    run(react(10), &two_steps(), &host).0.unwrap();

    let hooks: Vec<_> = host.log().into_iter().filter(|line| !line.contains("call")).collect();
    assert_eq!(
        hooks,
        [
            "on_step_start 1",
            "checkpoint Answered 1",
            "on_reason 1 I need the echo.",
            "checkpoint Answered 1",
            "on_act 1",
            "checkpoint ToolFinished 1",
            "checkpoint ToolFinished 1",
            "on_observe 1 2",
            "on_step_end 1 +3 =3",
            "checkpoint StepEnded 1",
            "stop_condition 1",
            "on_step_start 2",
            "checkpoint Answered 2",
            "on_reason 2 I know enough.",
            "on_step_end 2 +1 =4",
            "checkpoint StepEnded 2",
            "stop_condition 2",
            "on_complete 4",
        ]
    );
}

#[test]
fn the_step_limit_ends_the_run_with_the_turn_so_far() {
    let (turn, model) = run(react(1), &two_steps(), &Arc::default());
    let turn = turn.unwrap();

    assert!(turn.response().has_tool_calls());
    assert_eq!((turn.messages.len(), turn.cycles), (3, 2));
    assert_valid_history(&turn.messages);
    assert_eq!(model.requests.lock().unwrap().len(), 2);
}

#[test]
fn a_stop_condition_ends_the_run_after_a_step() {
    let host = Arc::new(TestHost { stop_after: Some(1), ..TestHost::with_hooks() });

    let turn = run(react(10), &two_steps(), &host).0.unwrap();

    assert_eq!(turn.cycles, 2);
    assert!(host.log().contains(&"on_complete 3".to_owned()));
}

#[test]
fn observations_have_the_chosen_format_and_a_custom_prompt_ends_the_request() {
    let cases = [
        (ObservationFormat::Text, "echo: {}\nfail failed: it broke"),
        (
            ObservationFormat::Json,
            concat!(
                r#"[{"tool":"echo","toolCallId":"call-2-0","isError":false,"result":{}},"#,
                r#"{"tool":"fail","toolCallId":"call-2-1","isError":true,"result":"it broke"}]"#
            ),
        ),
    ];
    for (observation_format, expected) in cases {
        let options =
            ReactOptions { observation_format, reasoning_prompt: Some("What now?".into()), max_steps: 10 };

        let (_, model) = run(Strategy::React(options), &two_steps(), &Arc::default());

        let requests = model.requests.lock().unwrap();
        assert_eq!(requests[0].messages.last().unwrap().text(), "What now?");
        assert_eq!(requests[2].messages.last().unwrap().text(), format!("{expected}\n\nWhat now?"));
    }
}

#[test]
fn only_actions_request_structured_output() {
    let script =
        [Answer::text("thinking").with_data(r#"{"no":1}"#), Answer::text("{}").with_data(r#"{"yes":1}"#)];
    let model = Arc::new(ScriptModel::new(script));
    let agent = agent_with(Arc::clone(&model) as _, react(10), Some(r#"{"type":"object"}"#));

    let turn = block_on(agent.run("Hello", RunContext::new(Arc::<TestHost>::default()))).unwrap();

    assert_eq!(turn.data, Some(raw(r#"{"yes":1}"#)));
    let asked: Vec<bool> =
        model.requests.lock().unwrap().iter().map(|request| request.structure.is_some()).collect();
    assert_eq!(asked, [false, true]);
}

#[test]
fn a_stream_has_reasoning_action_and_observation_events() {
    let model = Arc::new(ScriptModel::new(two_steps()));
    let host = Arc::new(TestHost { hooks: HookSet::CHECKPOINT_STEPS, ..TestHost::default() });
    let mut stream = agent_with(model, react(10), None).stream("Hello", RunContext::new(host)).unwrap();

    let events = block_on(async {
        let mut lines = Vec::new();
        while let Some(event) = futures_util::StreamExt::next(&mut stream).await {
            if let AgentStreamEvent::Uap(event) = event.unwrap() {
                lines.push(format!("{} {} {}", event.step, event.data.kind(), event.data.to_raw().unwrap()));
            }
        }
        lines
    });

    let kinds: Vec<_> =
        events.iter().map(|event| event.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        kinds,
        [
            "1 step_start",
            "1 reasoning",
            "1 action",
            "1 observation",
            "1 step_end",
            "1 checkpoint",
            "2 step_start",
            "2 reasoning",
            "2 step_end",
            "2 checkpoint"
        ]
    );
    assert_eq!(events[1], r#"1 reasoning {"text":"I need the echo."}"#);
    // The usage of a step is that of its thought and its action.
    assert!(events[4].contains(r#""inputTokens":20,"outputTokens":3"#), "{}", events[4]);
}

#[test]
fn the_partial_thought_of_an_aborted_run_is_not_its_response() {
    let model = Arc::new(ScriptModel::new(two_steps()));
    let mut stream = agent_with(model, react(10), None)
        .stream("Hello", RunContext::new(Arc::<TestHost>::default()))
        .unwrap();

    let turn = block_on(async {
        while let Some(event) = futures_util::StreamExt::next(&mut stream).await {
            if matches!(event, Ok(AgentStreamEvent::Upp(event)) if event.delta.kind() == "text_delta") {
                break;
            }
        }
        stream.abort();
        stream.turn().await
    })
    .unwrap();

    assert!(is_marked_aborted(&turn));
    assert_eq!((turn.messages.len(), turn.response().text().as_str()), (2, ""));
}

#[test]
fn a_resumed_run_sends_the_same_requests_and_restores_the_thoughts() {
    let host = Arc::new(TestHost { hooks: HookSet::all(), ..TestHost::default() });
    let (turn, model) = run(react(10), &two_steps(), &host);
    let turn = turn.unwrap();
    let asked = model.requests.lock().unwrap().clone();
    let saved = host.saved.lock().unwrap().clone();
    assert_eq!(saved.len(), 2 + 2 + 3);

    for (boundary, state) in saved {
        let text = serde_json::to_string(&state).unwrap();
        let state = serde_json::from_str::<turntree::agents::machine::RunState>(&text).unwrap();
        let thoughts = state.execution_state().reasoning.unwrap();
        assert_eq!(thoughts.len(), state.step() as usize);
        let model = Arc::new(ScriptModel::new(two_steps()));
        let agent = agent_with(Arc::clone(&model) as _, react(10), None);
        let context = RunContext::new(Arc::<TestHost>::default());
        let (mut machine, driver) = agent.resume(History::new(), state, context).unwrap();

        let again = block_on(driver.run(&mut machine)).unwrap();

        let resumed = model.requests.lock().unwrap().clone();
        let rest = &asked[asked.len() - resumed.len()..];
        assert!(boundary != Boundary::Answered || !resumed.is_empty() || again.cycles == 4);
        // The ids of prompts differ between the runs; the texts do not.
        for (one, other) in resumed.iter().zip(rest) {
            assert_eq!(texts(&one.messages), texts(&other.messages));
        }
        assert_eq!(texts(&again.messages), texts(&turn.messages));
        assert_eq!(again.usage, turn.usage);
    }
}
