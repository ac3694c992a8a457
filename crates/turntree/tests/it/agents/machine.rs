//! The state machine of a run, fed with scripted results and without I/O. UAP-1.0 §5.2, UPP-1.2 §10.2–10.4.

use std::sync::Arc;

use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Strategy_;
use turntree::agents::machine::{Machine, RunState, Setup, StateError};
use turntree::agents::types::{
    Abort, Action, ActionResult, Notification, PartialTurn, Stamp, ToolOutcome, ToolRound, partial_turn,
};
use turntree::agents::{ObservationFormat, PlanOptions, ReactOptions, Strategy, Violation};
use turntree::core::ids::CountingIds;
use turntree::core::json::{Extra, RawJson};
use turntree::core::time::Clock as _;
use turntree::message::fold::Folded;
use turntree::message::{ContentBlock, Message, MessageKind, ToolExecution, Turn};
use turntree::upp::{ErrorCode, UppError};

use crate::support::agents::{Answer, assert_valid_history, clock, is_marked_aborted, raw, tool};
use crate::support::with_cases;

/// The scripted environment of a machine: model responses, tool results, approvals.
#[derive(Debug, Clone)]
struct Scenario {
    strategy: Strategy,
    structured: bool,
    repair: bool,
    answers: Vec<Answer>,
    /// The indexes of the waiting calls in the order in which they finish.
    order: Vec<usize>,
    stop_after: Option<u32>,
    failing_approval: bool,
}

impl Scenario {
    fn new(limit: u32, answers: &[Answer]) -> Self {
        let answers = answers.to_vec();
        let (structured, repair, failing_approval) = (false, false, false);
        Self {
            strategy: Strategy::loop_(limit),
            structured,
            repair,
            answers,
            order: vec![0],
            stop_after: None,
            failing_approval,
        }
    }

    fn setup(&self) -> Setup {
        let tools = [tool("echo"), tool("fail"), tool("guarded")];
        Setup {
            history: [Arc::new(Message::user("before", &CountingIds::default(), &clock()))]
                .into_iter()
                .collect(),
            tools: tools.into_iter().map(|tool| tool.definition).collect(),
            structure: self.structured.then(|| Arc::new(raw("{}"))),
            structure_repair: self.repair,
            plan_schema: Some(Arc::new(raw("{}"))),
            provider: "scripted".into(),
            ..Setup::default()
        }
    }

    fn machine(&self) -> Machine {
        let input = Arc::new(Message::user("Hello", &CountingIds::default(), &clock()));
        Machine::new(self.setup(), RunState::new(&self.strategy, input, Arc::default())).unwrap()
    }

    /// The result of the `number`th action, or `None` if the run has ended.
    fn reply(&self, number: usize, action: &Action, machine: &Machine) -> Option<ActionResult> {
        Some(match action {
            Action::Stamp => ActionResult::Stamp(stamp(number)),
            Action::CallModel(request) => {
                let answers =
                    request.messages.iter().filter(|message| message.kind() == MessageKind::Assistant);
                let number = answers.count() + 1;
                match self.answers.get(number - 1) {
                    Some(answer) => ActionResult::Answer(Ok(answer.response(number))),
                    None => {
                        ActionResult::Answer(Err(UppError::new(ErrorCode::ProviderError, "scripted", "down")))
                    }
                }
            }
            Action::RunTools(round) => self.finish_one(number, round),
            Action::EvaluateStopCondition => {
                ActionResult::Stop(self.stop_after == Some(machine.state().step()))
            }
            // This scenario accepts every JSON object.
            Action::CheckAnswer(answer) if answer.is_object() => ActionResult::Checked(Vec::new()),
            Action::CheckAnswer(_) => {
                ActionResult::Checked(vec![Violation::new("", "type", "it is no object")])
            }
            Action::RequestRecovery(_) => ActionResult::Recovery(None),
            Action::Done(_) | Action::Failed(_) => return None,
            _ => ActionResult::Continue,
        })
    }

    fn finish_one(&self, number: usize, round: &ToolRound) -> ActionResult {
        let chosen = self.order[number % self.order.len()] % round.waiting.len();
        let position = round.waiting[chosen];
        let call = round.call(position).unwrap();
        let (result, is_error) = match (round.tools[position], call.tool_name.as_str()) {
            (None, name) => (RawJson::from_str_value(&format!("Tool '{name}' not found")), true),
            (_, "fail") => (RawJson::from_str_value("it broke"), true),
            (_, "guarded") if self.failing_approval => {
                let error = UppError::invalid_request("scripted", "no approver");
                return ActionResult::Tool { position, outcome: Err(error) };
            }
            _ => (call.arguments.clone(), false),
        };
        let execution = ToolExecution {
            tool_name: call.tool_name.clone(),
            tool_call_id: call.tool_call_id.clone(),
            arguments: call.arguments.clone(),
            result,
            is_error,
            duration: number as u64,
            approved: None,
            extra: Extra::new(),
        };
        ActionResult::Tool {
            position,
            outcome: Ok(ToolOutcome { execution, model_result: None, retries: None }),
        }
    }
}

fn stamp(number: usize) -> Stamp {
    Stamp { id: format!("stamp-{number}"), at: clock().now() }
}

/// A recorded run: at each boundary the state as JSON, the action and its result.
struct Recording {
    boundaries: Vec<(String, String, Option<ActionResult>)>,
    end: Result<Arc<Turn>, UppError>,
}

fn record(scenario: &Scenario) -> Recording {
    let mut machine = scenario.machine();
    let mut boundaries = Vec::new();
    loop {
        let action = machine.next();
        let state = serde_json::to_string(&machine).unwrap();
        let reply = scenario.reply(boundaries.len(), &action, &machine);
        boundaries.push((state, format!("{action:?}"), reply.clone()));
        match (reply, action) {
            (Some(reply), _) => machine.feed(reply).unwrap(),
            (None, Action::Done(turn)) => return Recording { boundaries, end: Ok(turn) },
            (None, Action::Failed(error)) => return Recording { boundaries, end: Err(error) },
            (None, other) => panic!("no reply to {other:?}"),
        }
    }
}

fn restore(scenario: &Scenario, state: &str) -> Machine {
    Machine::new(scenario.setup(), serde_json::from_str::<RunState>(state).unwrap()).unwrap()
}

fn outcome_of(machine: &Machine) -> Result<Arc<Turn>, UppError> {
    match machine.next() {
        Action::Done(turn) => Ok(turn),
        Action::Failed(error) => Err(error),
        other => panic!("not at its end: {other:?}"),
    }
}

fn partial(end: &Result<Arc<Turn>, UppError>) -> Option<&Turn> {
    let error = end.as_ref().err()?;
    partial_turn(error).map(|PartialTurn { turn, .. }| &**turn)
}

#[test]
fn a_response_without_tool_calls_ends_the_run_after_one_cycle() {
    let turn = record(&Scenario::new(10, &[Answer::text("Hi.")])).end.unwrap();

    assert_eq!((turn.messages.len(), turn.cycles, turn.response().text().as_str()), (2, 1, "Hi."));
    assert_eq!(turn.messages[0].text(), "Hello");
}

#[test]
fn a_tool_round_orders_results_by_call_and_records_by_completion() {
    let mut scenario = Scenario::new(10, &[Answer::calls(&["echo", "fail", "owl"]), Answer::text("Done.")]);
    scenario.order = vec![1];

    let turn = record(&scenario).end.unwrap();

    let kinds: Vec<_> = turn.messages.iter().map(|message| message.kind().as_str()).collect();
    assert_eq!(kinds, ["user", "assistant", "tool_result", "assistant"]);
    let answered: Vec<_> = turn.messages[2].results().iter().map(|result| &*result.tool_call_id).collect();
    assert_eq!(answered, ["call-1-0", "call-1-1", "call-1-2"]);
    let finished: Vec<_> = turn.tool_executions.iter().map(|record| &*record.tool_name).collect();
    assert_eq!(finished, ["fail", "owl", "echo"]);
    assert_eq!(turn.tool_executions[1].result.get(), r#""Tool 'owl' not found""#);
    assert_eq!((turn.usage.input_tokens, turn.usage.output_tokens, turn.usage.total_tokens), (20, 3, 23));
    assert_eq!(turn.usage.cycles.as_ref().map(Vec::len), Some(2));
}

#[test]
fn iteration_limits_match_the_table_of_the_specification() {
    // M, model calls, tool rounds, whether it ends with an error. UPP-1.2 §10.3.
    let greedy = vec![Answer::calls(&["echo"]); 5];
    for (limit, calls, rounds, fails) in [(0, 1, 0, false), (1, 2, 1, true), (2, 3, 2, true)] {
        let recording = record(&Scenario::new(limit, &greedy));

        let of_kind = |start: &str| {
            let actions = recording.boundaries.iter().map(|(_, action, _)| action);
            actions.filter(|action| action.starts_with(start)).count()
        };
        assert_eq!((of_kind("CallModel"), of_kind("RunTools")), (calls, rounds), "M = {limit}");
        assert_eq!(of_kind("Notify(MaxIterations"), usize::from(fails));
        match &recording.end {
            Ok(turn) => assert!(!fails && turn.response().has_tool_calls()),
            Err(error) => {
                assert_eq!(error.code, ErrorCode::InvalidRequest);
                let words = format!("Tool execution exceeded maximum iterations ({limit})");
                assert_eq!(error.message, words);
                let turn = partial(&recording.end).unwrap();
                assert_eq!((turn.cycles as usize, turn.tool_executions.len()), (calls, rounds));
            }
        }
    }
}

#[test]
fn tool_calls_without_tools_end_the_run() {
    let scenario = Scenario::new(10, &[Answer::calls(&["echo"])]);
    let setup = Setup { tools: Arc::default(), ..scenario.setup() };
    let mut machine = Machine::new(setup, scenario.machine().state().clone()).unwrap();

    for number in 0.. {
        let Some(reply) = scenario.reply(number, &machine.next(), &machine) else { break };
        machine.feed(reply).unwrap();
    }

    assert!(outcome_of(&machine).unwrap().response().has_tool_calls());
}

#[test]
fn data_requires_a_structure_and_the_last_response_sets_it() {
    let answers = [Answer::calls(&["echo"]).with_data("1"), Answer::text("x").with_data(r#"{"a":2}"#)];
    let mut scenario = Scenario::new(10, &answers);

    assert_eq!(record(&scenario).end.unwrap().data, None);
    scenario.structured = true;
    assert_eq!(record(&scenario).end.unwrap().data, Some(raw(r#"{"a":2}"#)));
}

#[test]
fn a_stop_condition_after_tools_returns_the_tool_calls_and_results() {
    let mut scenario = Scenario::new(10, &[Answer::calls(&["echo"]), Answer::text("never asked")]);
    scenario.stop_after = Some(1);

    let turn = record(&scenario).end.unwrap();

    assert!(turn.response().has_tool_calls());
    assert_eq!(turn.messages.len(), 3);
    assert_valid_history(&turn.messages);
}

#[test]
fn a_failing_call_ends_the_run_after_the_other_calls_finish() {
    let mut scenario = Scenario::new(10, &[Answer::calls(&["guarded", "echo", "fail"])]);
    scenario.failing_approval = true;

    let end = record(&scenario).end;

    assert_eq!(end.as_ref().unwrap_err().message, "no approver");
    assert_eq!(partial(&end).unwrap().tool_executions.len(), 2);
}

#[test]
fn a_recovery_turn_completes_the_run_and_a_second_failure_ends_it() {
    let scenario = Scenario::new(10, &[]);
    let mut machine = scenario.machine();
    while !matches!(machine.next(), Action::RequestRecovery(_)) {
        let reply = scenario.reply(0, &machine.next(), &machine).unwrap();
        machine.feed(reply).unwrap();
    }
    let saved = record(&Scenario::new(1, &[Answer::text("Saved.")])).end.unwrap();
    machine.feed(ActionResult::Recovery(Some(Arc::clone(&saved)))).unwrap();

    let mut completing = machine.clone();
    assert!(matches!(completing.next(), Action::Notify(Notification::Complete)));
    completing.feed(ActionResult::Continue).unwrap();
    assert_eq!(outcome_of(&completing).unwrap(), saved);

    machine.feed(ActionResult::Failed(UppError::invalid_request("scripted", "again"))).unwrap();
    assert_eq!(outcome_of(&machine).unwrap_err().message, "again");
}

#[test]
fn an_unexpected_result_is_refused_and_leaves_the_state_unchanged() {
    let mut machine = Scenario::new(10, &[]).machine();
    let before = serde_json::to_string(&machine).unwrap();

    assert!(machine.feed(ActionResult::Continue).is_err());
    assert!(machine.feed(ActionResult::Stop(true)).is_err());

    assert_eq!(serde_json::to_string(&machine).unwrap(), before);
}

#[test]
fn inconsistent_states_are_refused() {
    let scenario = Scenario::new(10, &[Answer::calls(&["echo", "echo"])]);
    let recording = record(&scenario);
    let (tools, ..) =
        recording.boundaries.iter().find(|(_, action, _)| action.starts_with("RunTools")).unwrap();
    let cases = [
        (tools.replace(r#""version":1"#, r#""version":2"#), StateError::Version { found: 2 }),
        (
            tools.replace(r#"["waiting","waiting"]"#, r#"["waiting"]"#),
            StateError::Contradiction("its tool round does not match its last answer"),
        ),
        (
            tools.replace(r#""mark":{"messages":0"#, r#""mark":{"messages":9"#),
            StateError::Contradiction("its step begins after its end"),
        ),
    ];
    for (text, expected) in cases {
        assert_ne!(&text, tools);
        let state: RunState = serde_json::from_str(&text).unwrap();
        assert_eq!(Machine::new(scenario.setup(), state).unwrap_err(), expected);
    }
}

#[test]
fn metadata_is_part_of_the_saved_state() {
    let mut machine = Scenario::new(10, &[]).machine();
    let metadata = [("taskComplete", raw("true"))].into_iter().collect();

    machine.feed(ActionResult::Metadata(Arc::new(metadata))).unwrap();

    let state: RunState = serde_json::from_str(&serde_json::to_string(&machine).unwrap()).unwrap();
    assert_eq!(state.execution_state().metadata.get("taskComplete"), Some(&raw("true")));
    let written = serde_json::to_string(&state.execution_state()).unwrap();
    assert!(
        written.starts_with(r#"{"step":0,"messages":[{"#)
            && written.contains(r#""metadata":{"taskComplete":true}"#)
    );
}

#[test]
fn output_that_violates_the_schema_fails_with_the_violation_and_the_turn() {
    for (answer, rule) in [
        (Answer::text("I do not know."), "the answer: it is not JSON (json)"),
        (Answer::text("[1]").with_data("[1]"), "the answer: it is no object (type)"),
    ] {
        let mut scenario = Scenario::new(10, &[answer.clone(), Answer::text("{}").with_data("{}")]);
        scenario.structured = true;

        let end = record(&scenario).end;

        let error = end.as_ref().unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidResponse);
        assert!(error.message.contains(rule) && error.message.contains("allow a repair"), "{error}");
        assert_eq!(partial(&end).unwrap().response().text(), answer.text);
    }
}

#[test]
fn a_repair_sends_the_violations_and_counts_both_model_calls() {
    let answers = [Answer::text("[1]").with_data("[1]"), Answer::text("{}").with_data("{}")];
    let mut scenario = Scenario::new(10, &answers);
    (scenario.structured, scenario.repair) = (true, true);

    let turn = record(&scenario).end.unwrap();

    assert_eq!((turn.data.as_ref(), turn.cycles, turn.usage.output_tokens), (Some(&raw("{}")), 2, 3));
    let asked = &turn.messages[2];
    assert!(asked.text().contains("it is no object (type)"));
    let mark = asked.metadata.as_ref().and_then(|metadata| metadata.get("turntree"));
    assert_eq!(mark, Some(&raw(r#"{"structureRepair":true}"#)));
    assert_valid_history(&turn.messages);
}

#[test]
fn a_second_schema_violation_ends_the_run() {
    let mut scenario = Scenario::new(10, &[Answer::text("one"), Answer::text("two"), Answer::text("{}")]);
    (scenario.structured, scenario.repair) = (true, true);

    let end = record(&scenario).end;

    assert_eq!(end.as_ref().unwrap_err().code, ErrorCode::InvalidResponse);
    assert_eq!(partial(&end).unwrap().cycles, 2);
}

#[test]
fn a_structured_run_that_ends_in_tool_calls_returns_its_turn() {
    // Tool calls returned to the caller, and a stop after tools: neither response is the structured answer.
    let calling = Answer::calls(&["echo"]).with_data("[1]");
    let mut disabled = Scenario::new(0, std::slice::from_ref(&calling));
    let mut stopped = Scenario::new(10, &[calling]);
    (disabled.structured, stopped.structured, stopped.stop_after) = (true, true, Some(1));

    for scenario in [disabled, stopped] {
        let turn = record(&scenario).end.unwrap();
        assert!(turn.response().has_tool_calls());
        assert_eq!(turn.data, None);
    }
}

fn any_answer() -> impl Strategy_<Value = Answer> {
    let names = prop_oneof![Just("echo"), Just("fail"), Just("guarded"), Just("owl")];
    let call = (names, prop_oneof![Just("{}"), Just(r#"{"city":"Tōkyō","days":1.50}"#)]);
    let data = prop_oneof![
        Just(None),
        Just(Some(raw("null"))),
        Just(Some(raw("[1]"))),
        Just(Some(raw("{}"))),
        any_plan()
    ];
    ("[a-z ]{0,12}", proptest::collection::vec(call, 0..4), data).prop_map(|(text, calls, data)| {
        let calls = calls.into_iter().map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
        Answer { text, calls: calls.collect(), data }
    })
}

/// Plans, most of them valid.
fn any_plan() -> impl Strategy_<Value = Option<RawJson>> {
    let step = (
        0..6_u8,
        proptest::option::weighted(0.3, 0..6_u8),
        prop_oneof![Just("null"), Just("\"fail\""), Just("\"echo\"")],
    );
    proptest::collection::vec(step, 0..4).prop_map(|steps| {
        let steps: Vec<String> = steps
            .iter()
            .map(|(id, needed, tool)| {
                let needed: Vec<String> = needed.iter().map(|id| format!("\"{id}\"")).collect();
                let needed = needed.join(",");
                format!(r#"{{"id":"{id}","description":"do it","tool":{tool},"dependsOn":[{needed}]}}"#)
            })
            .collect();
        Some(raw(&format!(r#"{{"steps":[{}]}}"#, steps.join(","))))
    })
}

fn any_strategy() -> impl Strategy_<Value = Strategy> {
    let format = prop_oneof![
        Just(ObservationFormat::Markdown),
        Just(ObservationFormat::Json),
        Just(ObservationFormat::Text)
    ];
    let react = (1..4_u32, format).prop_map(|(max_steps, observation_format)| {
        Strategy::React(ReactOptions { max_steps, observation_format, reasoning_prompt: None })
    });
    let plan = (1..4_u32, any::<bool>(), 0..3_u32).prop_map(|(max_plan_steps, allow_replan, max_replans)| {
        let options = PlanOptions { max_plan_steps, allow_replan, max_replans, ..PlanOptions::default() };
        Strategy::Plan(PlanOptions { max_iterations: 2, ..options })
    });
    prop_oneof![(0..5_u32).prop_map(Strategy::loop_), react, plan]
}

fn any_scenario() -> impl Strategy_<Value = Scenario> {
    let answers = proptest::collection::vec(any_answer(), 0..9);
    let order = proptest::collection::vec(0..4_usize, 1..8);
    let stop = prop_oneof![3 => Just(None), 1 => (1..4_u32).prop_map(Some)];
    (any_strategy(), any::<(bool, bool)>(), answers, order, stop, proptest::bool::weighted(0.2)).prop_map(
        |(strategy, (structured, repair), answers, order, stop_after, failing_approval)| Scenario {
            strategy,
            structured,
            repair,
            answers,
            order,
            stop_after,
            failing_approval,
        },
    )
}

proptest! {
    // Each case replays a run from each of its boundaries: 64 runs are some 2 000 replays.
    #![proptest_config(with_cases(64))]

    #[test]
    fn a_run_replayed_from_any_boundary_ends_the_same(scenario in any_scenario()) {
        let recording = record(&scenario);
        for start in 0..recording.boundaries.len() {
            let mut machine = restore(&scenario, &recording.boundaries[start].0);
            for (state, action, reply) in &recording.boundaries[start..] {
                prop_assert_eq!(&format!("{:?}", machine.next()), action);
                prop_assert_eq!(&serde_json::to_string(&machine).unwrap(), state);
                if let Some(reply) = reply {
                    machine.feed(reply.clone()).unwrap();
                }
            }
            let end = outcome_of(&machine);
            prop_assert_eq!(partial(&end), partial(&recording.end));
            match (&end, &recording.end) {
                (Ok(turn), Ok(expected)) => prop_assert_eq!(turn, expected),
                (Err(error), Err(expected)) => prop_assert_eq!(&error.message, &expected.message),
                (one, other) => prop_assert!(false, "{one:?} is not {other:?}"),
            }
        }
    }

    #[test]
    fn an_abort_at_any_boundary_leaves_a_valid_history(scenario in any_scenario(), arrived in "[a-z]{0,5}") {
        let recording = record(&scenario);
        for (state, action, _) in &recording.boundaries {
            let mut machine = restore(&scenario, state);
            let content = if arrived.is_empty() { Vec::new() } else { vec![ContentBlock::text(&*arrived)] };
            let partial = Folded { content, tool_calls: Vec::new() };
            let abort = Abort { partial, results: stamp(1000), response: stamp(1001) };

            let fed = machine.feed(ActionResult::Aborted(Box::new(abort)));

            if action.starts_with("Done") || action.starts_with("Failed") {
                prop_assert!(fed.is_err());
                continue;
            }
            let turn = outcome_of(&machine).unwrap();
            prop_assert_eq!(turn.messages[0].text(), "Hello");
            if action.starts_with("Notify(Complete") {
                continue;
            }
            assert_valid_history(&turn.messages);
            prop_assert!(is_marked_aborted(&turn) && !turn.response().has_tool_calls());
            prop_assert_eq!(turn.messages.last(), Some(turn.response()));
            // The partial text of a thought is not part of the answer.
            let is_answer = !action.starts_with("CallModel") || scenario.strategy.name() == "loop";
            prop_assert!(!is_answer || arrived.is_empty() || turn.response().text() == arrived);
        }
    }

    #[test]
    fn a_turn_begins_with_the_input_has_unique_messages_and_counts_every_model_call(scenario in any_scenario()) {
        let recording = record(&scenario);
        let of_kind = |start: &str| {
            recording.boundaries.iter().filter(|(_, action, _)| action.starts_with(start)).count()
        };
        let Ok(turn) = &recording.end else { return Ok(()) };

        prop_assert_eq!(turn.cycles as usize, of_kind("CallModel"));
        prop_assert_eq!(turn.usage.cycles.as_ref().map(Vec::len), Some(of_kind("CallModel")));
        prop_assert_eq!(turn.messages[0].text(), "Hello");
        let mut ids: Vec<_> = turn.messages.iter().map(|message| &message.id).collect();
        ids.sort();
        ids.dedup();
        prop_assert_eq!(ids.len(), turn.messages.len());
        let users = turn.messages.iter().filter(|message| message.kind() == MessageKind::User);
        prop_assert!(users.count() <= 1 + usize::from(scenario.repair));
    }
}
