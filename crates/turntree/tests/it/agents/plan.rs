//! The strategy `plan`: validation of plans, order of steps, failed steps, new plans. UAP-1.0 §5.4, decisions A26–A39.

use std::sync::Arc;

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use turntree::agents::host::RunContext;
use turntree::agents::machine::RunState;
use turntree::agents::types::UapData;
use turntree::agents::types::{AgentStreamEvent, Boundary, PlanStatus};
use turntree::agents::{PlanOptions, Strategy};
use turntree::message::Turn;
use turntree::message::message::History;
use turntree::upp::{Capabilities, ErrorCode, UppError};

use crate::support::agents::{
    Answer, ScriptModel, TestHost, agent_with, assert_valid_history, block_on, raw,
};

fn strategy() -> Strategy {
    Strategy::Plan(PlanOptions::default())
}

fn step(id: &str, tool: Option<&str>, depends_on: &[&str]) -> String {
    let tool = tool.map_or_else(|| "null".to_owned(), |tool| format!("\"{tool}\""));
    let needed: Vec<String> = depends_on.iter().map(|id| format!("\"{id}\"")).collect();
    format!(r#"{{"id":"{id}","description":"do {id}","tool":{tool},"dependsOn":[{}]}}"#, needed.join(","))
}

fn plan(steps: &[String]) -> Answer {
    let text = format!(r#"{{"steps":[{}]}}"#, steps.join(","));
    Answer::text(&text).with_data(&text)
}

/// A finished run with its model, which recorded the requests, and its host, which recorded the checkpoints.
struct PlanRun {
    outcome: Result<Arc<Turn>, UppError>,
    model: Arc<ScriptModel>,
    host: Arc<TestHost>,
}

impl PlanRun {
    fn new(strategy: Strategy, script: impl IntoIterator<Item = Result<Answer, UppError>>) -> Self {
        let (model, host) = (Arc::new(ScriptModel::failing(script)), Arc::new(TestHost::with_hooks()));
        let agent = agent_with(Arc::clone(&model) as _, strategy, None);
        let outcome = block_on(agent.run("Hello", RunContext::new(Arc::clone(&host) as _)));
        Self { outcome, model, host }
    }

    /// The text of the last message of each request.
    fn prompts(&self) -> Vec<String> {
        let requests = self.model.requests.lock().unwrap();
        requests.iter().map(|request| request.messages.last().unwrap().text()).collect()
    }

    /// The plan of the last checkpoint.
    fn plan(&self) -> Vec<(String, PlanStatus)> {
        let saved = self.host.saved.lock().unwrap();
        let plan = saved.last().unwrap().1.execution_state().plan.unwrap();
        plan.iter().map(|step| (step.id.clone(), step.status)).collect()
    }
}

fn ok(answers: impl IntoIterator<Item = Answer>) -> Vec<Result<Answer, UppError>> {
    answers.into_iter().map(Ok).collect()
}

fn statuses(plan: &[(String, PlanStatus)]) -> Vec<(&str, &str)> {
    plan.iter().map(|(id, status)| (id.as_str(), status.as_str())).collect()
}

#[test]
fn the_plan_is_structured_output_without_tools_and_its_steps_run_in_order() {
    let planned = plan(&[step("b", None, &["a"]), step("a", Some("echo"), &[]), step("c", None, &["b"])]);
    let script = [planned, Answer::calls(&["echo"]), Answer::text("a done"), Answer::text("b done")];

    let run = PlanRun::new(strategy(), ok(script.into_iter().chain([Answer::text("c done")])));

    let turn = run.outcome.as_ref().unwrap();
    let requests = run.model.requests.lock().unwrap();
    assert!(requests[0].tools.is_empty());
    let schema = requests[0].structure.as_ref().unwrap().get().to_owned();
    assert!(schema.contains(r#""maxItems":10"#) && schema.contains(r#""enum":["echo","fail""#), "{schema}");
    assert!(requests[1..].iter().all(|request| request.structure.is_none() && !request.tools.is_empty()));
    drop(requests);
    let prompts = run.prompts();
    assert!(prompts[0].starts_with("Make a plan") && prompts[0].contains("- echo:"));
    assert!(prompts[1].starts_with("Carry out the step \"a\" of the plan: do a\nUse the tool \"echo\"."));
    assert_eq!(prompts[2], "{}", "a prompt between tool results and the next response");
    assert!(prompts[3].starts_with("Carry out the step \"b\"") && !prompts[3].contains("last step"));
    assert!(prompts[4].starts_with("Carry out the step \"c\"") && prompts[4].contains("last step"));
    let kinds: Vec<_> = turn.messages.iter().map(|message| message.kind().as_str()).collect();
    assert_eq!(kinds, ["user", "assistant", "tool_result", "assistant", "assistant", "assistant"]);
    assert_valid_history(&turn.messages);
    assert_eq!((turn.cycles, turn.usage.input_tokens), (5, 50));
    assert_eq!(turn.response().text(), "c done");
    assert_eq!(statuses(&run.plan()), [("a", "completed"), ("b", "completed"), ("c", "completed")]);
}

#[test]
fn a_plan_is_saved_before_its_first_step() {
    let run = PlanRun::new(strategy(), ok([plan(&[step("a", None, &[])]), Answer::text("done")]));

    assert_eq!(
        run.host.log(),
        [
            "checkpoint Planned 0",
            "on_step_start 1",
            "on_step_end 1 +2 =2",
            "checkpoint StepEnded 1",
            "stop_condition 1",
            "on_complete 2",
        ]
    );
    let saved = run.host.saved.lock().unwrap();
    let first = saved[0].1.execution_state().plan.unwrap();
    assert_eq!((saved[0].0, first[0].status), (Boundary::Planned, PlanStatus::Pending));
    assert!(saved[0].1.execution_state().reasoning.is_none());
}

#[test]
fn an_invalid_plan_is_requested_once_more_with_the_violations() {
    let cases = [
        (
            plan(&[step("a", None, &["b"]), step("b", None, &["a"])]),
            "/steps: these steps depend on each other",
        ),
        (plan(&[step("a", None, &["z"])]), "/steps/0/dependsOn/0: no step has the id \"z\""),
        (plan(&[step("a", None, &[]), step("a", None, &[])]), "/steps/1/id: \"a\" is also the id of another"),
        (plan(&[step("", None, &[])]), "/steps/0/id: a step needs an id"),
        (plan(&[step("a", Some("owl"), &[])]), "/steps/0/tool: no tool has the name \"owl\""),
        (Answer::text("x").with_data(r#"{"steps":{}}"#), "/steps: expected a list of steps"),
        (Answer::text("x").with_data(r#"{"steps":[7]}"#), "/steps/0: expected an object"),
        (Answer::text("no plan"), "the answer: it is not JSON"),
    ];
    for (broken, words) in cases {
        let good = plan(&[step("a", None, &[])]);
        let run = PlanRun::new(strategy(), ok([broken.clone(), good, Answer::text("done")]));
        let prompts = run.prompts();
        assert!(prompts[1].contains(words), "{} lacks {words}", prompts[1]);
        assert_eq!(run.outcome.unwrap().cycles, 3);

        let run = PlanRun::new(strategy(), ok([broken.clone(), broken]));
        let error = run.outcome.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidResponse);
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn a_failed_step_stays_in_the_plan_and_the_rest_is_replanned() {
    let first = plan(&[step("a", None, &[]), step("b", Some("fail"), &["a"]), step("c", None, &["b"])]);
    let second = plan(&[step("d", None, &["a"])]);
    let script = [
        first,
        Answer::text("a done"),
        Answer::calls(&["fail"]),
        Answer::text("b did not work"),
        second,
        Answer::text("d done"),
    ];

    let run = PlanRun::new(strategy(), ok(script));

    let turn = run.outcome.as_ref().unwrap();
    assert_eq!((turn.cycles, turn.response().text().as_str()), (6, "d done"));
    assert_eq!(statuses(&run.plan()), [("a", "completed"), ("b", "failed"), ("d", "completed")]);
    let prompt = &run.prompts()[4];
    assert!(prompt.contains("\"a\" (completed)") && prompt.contains("\"b\" (failed)"));
    assert!(prompt.contains("What went wrong: it broke") && !prompt.contains("\"c\""));
    // The new plan is requested as structured output.
    let requests = run.model.requests.lock().unwrap();
    assert!(requests[4].structure.is_some());
}

#[test]
fn a_new_plan_that_reuses_an_id_or_depends_on_a_failed_step_is_refused() {
    for (again, words) in [
        (step("b", None, &[]), "\"b\" is the id of a step that has ended"),
        (step("d", None, &["b"]), "\"b\" has failed; no step can depend on it"),
    ] {
        let script = [
            plan(&[step("b", Some("fail"), &[])]),
            Answer::calls(&["fail"]),
            Answer::text("no"),
            plan(&[again]),
            plan(&[step("e", None, &[])]),
            Answer::text("e done"),
        ];

        let run = PlanRun::new(strategy(), ok(script));

        assert!(run.prompts()[4].contains(words), "{}", run.prompts()[4]);
        assert_eq!(statuses(&run.plan()), [("b", "failed"), ("e", "completed")]);
    }
}

#[test]
fn a_failed_model_call_fails_its_step() {
    let down = || Err(UppError::new(ErrorCode::ProviderError, "scripted", "down"));
    let first = || Ok(plan(&[step("a", None, &[])]));

    let run = PlanRun::new(strategy(), [first(), down()]);
    // The script counts answers, so that the call for a new plan fails too and ends the run.
    assert_eq!(run.outcome.unwrap_err().message, "down");
    assert_eq!(run.model.requests.lock().unwrap().len(), 3);
    assert_eq!(statuses(&PlanRun { outcome: Err(UppError::cancelled("")), ..run }.plan()), [("a", "failed")]);

    let options = PlanOptions { allow_replan: false, ..PlanOptions::default() };
    let run = PlanRun::new(Strategy::Plan(options), [first(), down()]);
    assert_eq!(run.outcome.unwrap_err().message, "down");
    assert!(run.host.log().contains(&"on_error PROVIDER_ERROR".to_owned()));
    assert_eq!(run.model.requests.lock().unwrap().len(), 2);
}

#[test]
fn without_replanning_steps_that_do_not_depend_on_the_failure_still_run() {
    let planned = plan(&[step("a", Some("fail"), &[]), step("b", None, &["a"]), step("c", None, &[])]);
    let script = [planned, Answer::calls(&["fail"]), Answer::text("no"), Answer::text("c done")];
    for options in [
        PlanOptions { allow_replan: false, ..PlanOptions::default() },
        PlanOptions { max_replans: 0, ..PlanOptions::default() },
    ] {
        let run = PlanRun::new(Strategy::Plan(options), ok(script.clone()));

        assert_eq!(run.outcome.as_ref().unwrap().response().text(), "c done");
        assert_eq!(statuses(&run.plan()), [("a", "failed"), ("b", "pending"), ("c", "completed")]);
    }
}

#[test]
fn the_number_of_replans_is_limited() {
    let again =
        |id: &str| [plan(&[step(id, Some("fail"), &[])]), Answer::calls(&["fail"]), Answer::text("no")];
    let script: Vec<_> = ["a", "b", "c", "d"].iter().flat_map(|id| again(id)).collect();
    let options = PlanOptions { max_replans: 2, ..PlanOptions::default() };

    let run = PlanRun::new(Strategy::Plan(options), ok(script));

    assert_eq!(run.outcome.as_ref().unwrap().cycles, 9);
    assert_eq!(statuses(&run.plan()), [("a", "failed"), ("b", "failed"), ("c", "failed")]);
}

#[test]
fn an_empty_plan_is_followed_by_the_response() {
    let run = PlanRun::new(strategy(), ok([plan(&[]), Answer::text("Easy.")]));

    let turn = run.outcome.as_ref().unwrap();
    assert_eq!((turn.messages.len(), turn.cycles, turn.response().text().as_str()), (2, 2, "Easy."));
    assert_eq!(run.plan(), []);
}

#[test]
fn steps_beyond_the_limit_are_dropped_after_sorting() {
    let planned = plan(&[step("c", None, &["b"]), step("b", None, &["a"]), step("a", None, &[])]);
    let options = PlanOptions { max_plan_steps: 2, ..PlanOptions::default() };

    let run = PlanRun::new(Strategy::Plan(options), ok([planned, Answer::text("1"), Answer::text("2")]));

    assert_eq!(statuses(&run.plan()), [("a", "completed"), ("b", "completed")]);
    assert_eq!(run.outcome.unwrap().response().text(), "2");
}

#[test]
fn only_the_last_step_requests_structured_output() {
    let planned = plan(&[step("a", None, &[]), step("b", None, &[])]);
    let answer = Answer::text("{}").with_data(r#"{"done":true}"#);
    let model = Arc::new(ScriptModel::new([planned, Answer::text("a"), answer]));
    let agent =
        agent_with(Arc::clone(&model) as _, strategy(), Some(r#"{"type":"object","required":["done"]}"#));

    let turn = block_on(agent.run("Hello", RunContext::new(Arc::<TestHost>::default()))).unwrap();

    assert_eq!(turn.data, Some(raw(r#"{"done":true}"#)));
    let requests = model.requests.lock().unwrap();
    let asked: Vec<bool> = requests
        .iter()
        .map(|request| {
            request.structure.as_ref().is_some_and(|schema| schema.get().contains(r#""required":["done"]"#))
        })
        .collect();
    assert_eq!(asked, [false, false, true]);
}

#[test]
fn structured_output_is_requested_after_the_plan_if_the_last_step_does_not_run() {
    let planned = plan(&[step("a", Some("fail"), &[]), step("b", None, &["a"])]);
    let answer = Answer::text("{}").with_data("{}");
    let script = [planned, Answer::calls(&["fail"]), Answer::text("no"), answer];
    let options = PlanOptions { allow_replan: false, ..PlanOptions::default() };
    let model = Arc::new(ScriptModel::new(script));
    let agent = agent_with(model, Strategy::Plan(options), Some(r#"{"type":"object"}"#));

    let turn = block_on(agent.run("Hello", RunContext::new(Arc::<TestHost>::default()))).unwrap();

    assert_eq!(turn.data, Some(raw("{}")));
}

#[test]
fn a_model_without_structured_output_and_a_plan_schema_that_is_not_an_object_are_refused() {
    let mut model = ScriptModel::new([]);
    model.capabilities = Capabilities { structured_output: false, ..Capabilities::ALL };
    let agent = agent_with(Arc::new(model), strategy(), None);
    let error = block_on(agent.run("Hello", RunContext::new(Arc::<TestHost>::default()))).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert!(error.message.contains("structured output"), "{error}");

    let list = Arc::new(raw(r#"{"type":"array"}"#));
    let options = PlanOptions { plan_schema: Some(list), ..PlanOptions::default() };
    let agent = agent_with(Arc::new(ScriptModel::new([])), Strategy::Plan(options), None);
    let error = block_on(agent.run("Hello", RunContext::new(Arc::<TestHost>::default()))).unwrap_err();
    assert!(error.message.starts_with("plan_schema: expected the JSON Schema of an object"), "{error}");
}

#[test]
fn a_custom_plan_schema_is_sent_and_validated_and_its_members_are_preserved() {
    let schema = r#"{"type":"object","properties":{"steps":{"type":"array","items":{"required":["cost"]}}}}"#;
    let options = PlanOptions { plan_schema: Some(Arc::new(raw(schema))), ..PlanOptions::default() };
    let good = r#"{"steps":[{"id":"a","description":"do a","cost":7}]}"#;
    let script = [plan(&[step("a", None, &[])]), Answer::text(good).with_data(good), Answer::text("done")];

    let run = PlanRun::new(Strategy::Plan(options), ok(script));

    assert!(run.prompts()[1].contains("cost"));
    assert_eq!(run.model.requests.lock().unwrap()[0].structure.as_ref().unwrap().get(), schema);
    let saved = run.host.saved.lock().unwrap();
    let plan = saved.last().unwrap().1.execution_state().plan.unwrap();
    assert_eq!(plan[0].extra.get("cost"), Some(&raw("7")));
}

#[test]
fn step_events_carry_the_plan_step_id_and_planning_has_no_step_events() {
    let script = [plan(&[step("a", None, &[])]), Answer::text("done")];
    let agent = agent_with(Arc::new(ScriptModel::new(script)), strategy(), None);
    let mut stream = agent.stream("Hello", RunContext::new(Arc::<TestHost>::default())).unwrap();

    let mut events = Vec::new();
    block_on(async {
        while let Some(event) = futures_util::StreamExt::next(&mut stream).await {
            match event.unwrap() {
                AgentStreamEvent::Uap(event) => events.push(event.data),
                AgentStreamEvent::Upp(_) | AgentStreamEvent::SubAgent(_) => {}
            }
        }
    });

    let [UapData::StepStart(start), UapData::StepEnd(end)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((start.plan_step_id.as_deref(), end.plan_step_id.as_deref()), (Some("a"), Some("a")));
    assert_eq!((end.usage.input_tokens, end.usage.output_tokens), (10, 2));
}

#[test]
fn a_resumed_plan_does_not_repeat_model_calls() {
    let script = || {
        [
            plan(&[step("a", Some("echo"), &[]), step("b", None, &["a"])]),
            Answer::calls(&["echo"]),
            Answer::text("a done"),
            Answer::text("b done"),
        ]
    };
    let run = PlanRun::new(strategy(), ok(script()));
    let turn = run.outcome.as_ref().unwrap();
    let saved = run.host.saved.lock().unwrap().clone();
    // Checkpoints after the plan, the response with calls, its tool and the two steps; `left` counts the calls after each.
    let left: Vec<usize> = saved
        .iter()
        .map(|(_, state)| {
            let text = serde_json::to_string(state).unwrap();
            let state = serde_json::from_str::<RunState>(&text).unwrap();
            let model = Arc::new(ScriptModel::new(script()));
            let agent = agent_with(Arc::clone(&model) as _, strategy(), None);
            let context = RunContext::new(Arc::<TestHost>::default());
            let (mut machine, driver) = agent.resume(History::new(), state, context).unwrap();

            let again = block_on(driver.run(&mut machine)).unwrap();

            assert_eq!(again.response().text(), "b done");
            assert_eq!((again.cycles, &again.usage), (turn.cycles, &turn.usage));
            model.requests.lock().unwrap().len()
        })
        .collect();
    assert_eq!(left, [3, 2, 2, 1, 0]);
}

#[test]
fn a_plan_resumed_by_an_agent_with_another_strategy_continues_as_a_plan() {
    let script = [
        plan(&[step("a", Some("fail"), &[])]),
        Answer::calls(&["fail"]),
        Answer::text("no"),
        plan(&[]),
        Answer::text("then so"),
    ];
    let run = PlanRun::new(strategy(), ok(script.clone()));
    let (_, planned) = run.host.saved.lock().unwrap()[0].clone();
    let model = Arc::new(ScriptModel::new(script));
    let other = agent_with(Arc::clone(&model) as _, Strategy::default(), None);
    let context = RunContext::new(Arc::<TestHost>::default());

    let (mut machine, driver) = other.resume(History::new(), planned, context).unwrap();
    let turn = block_on(driver.run(&mut machine)).unwrap();

    assert_eq!(turn.response().text(), "then so");
    assert!(model.requests.lock().unwrap()[2].structure.is_some());
}

proptest! {
    /// Shuffled plans of up to nine steps: every step runs after the steps that it depends on.
    #[test]
    fn steps_run_after_the_steps_that_they_depend_on(
        needed in proptest::collection::vec(proptest::collection::vec(0..9_usize, 0..3), 1..10),
        seed in proptest::collection::vec(0..9_usize, 9),
    ) {
        let ids: Vec<String> = (0..needed.len()).map(|number| format!("s{number}")).collect();
        let mut steps: Vec<String> = needed
            .iter()
            .enumerate()
            .map(|(place, needed)| {
                let needed: Vec<&str> =
                    needed.iter().filter(|other| **other < place).map(|other| ids[*other].as_str()).collect();
                step(&ids[place], None, &needed)
            })
            .collect();
        for (place, other) in seed.iter().enumerate().filter(|(place, _)| *place < needed.len()) {
            steps.swap(place, other % needed.len());
        }
        let answers = (0..needed.len()).map(|number| Answer::text(&format!("did {number}")));

        let run = PlanRun::new(strategy(), ok([plan(&steps)].into_iter().chain(answers)));

        let order: Vec<String> = run.plan().into_iter().map(|(id, _)| id).collect();
        prop_assert_eq!(order.len(), needed.len());
        prop_assert!(run.plan().iter().all(|(_, status)| *status == PlanStatus::Completed));
        let place = |id: &String| order.iter().position(|other| other == id).unwrap();
        for (number, needed) in needed.iter().enumerate() {
            for other in needed.iter().filter(|other| **other < number) {
                prop_assert!(place(&ids[*other]) < place(&ids[number]));
            }
        }
        prop_assert_eq!(run.outcome.unwrap().cycles as usize, order.len() + 1);
    }
}
