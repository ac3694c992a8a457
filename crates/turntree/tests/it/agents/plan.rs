//! `plan`: plans, their rules, their order, and what happens when a step fails. UAP-1.0 §5.4, decisions A26–A39.

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

/// One run, with what it asked and what it saved.
struct Ran {
    outcome: Result<Arc<Turn>, UppError>,
    model: Arc<ScriptModel>,
    host: Arc<TestHost>,
}

impl Ran {
    fn new(strategy: Strategy, script: impl IntoIterator<Item = Result<Answer, UppError>>) -> Self {
        let (model, host) = (Arc::new(ScriptModel::failing(script)), Arc::new(TestHost::with_hooks()));
        let agent = agent_with(Arc::clone(&model) as _, strategy, None);
        let outcome = block_on(agent.run("Hello", RunContext::new(Arc::clone(&host) as _)));
        Self { outcome, model, host }
    }

    /// What the model was told last before each call.
    fn prompts(&self) -> Vec<String> {
        let requests = self.model.requests.lock().unwrap();
        requests.iter().map(|request| request.messages.last().unwrap().text()).collect()
    }

    /// The plan as it was saved last.
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
fn the_plan_is_a_structured_answer_without_tools_and_its_steps_follow_in_order() {
    let planned = plan(&[step("b", None, &["a"]), step("a", Some("echo"), &[]), step("c", None, &["b"])]);
    let script = [planned, Answer::calls(&["echo"]), Answer::text("a done"), Answer::text("b done")];

    let ran = Ran::new(strategy(), ok(script.into_iter().chain([Answer::text("c done")])));

    let turn = ran.outcome.as_ref().unwrap();
    let requests = ran.model.requests.lock().unwrap();
    assert!(requests[0].tools.is_empty());
    let schema = requests[0].structure.as_ref().unwrap().get().to_owned();
    assert!(schema.contains(r#""maxItems":10"#) && schema.contains(r#""enum":["echo","fail""#), "{schema}");
    assert!(requests[1..].iter().all(|request| request.structure.is_none() && !request.tools.is_empty()));
    drop(requests);
    let prompts = ran.prompts();
    assert!(prompts[0].starts_with("Make a plan") && prompts[0].contains("- echo:"));
    assert!(prompts[1].starts_with("Carry out the step \"a\" of the plan: do a\nUse the tool \"echo\"."));
    assert_eq!(prompts[2], "{}", "a prompt between a tool and what the model makes of it");
    assert!(prompts[3].starts_with("Carry out the step \"b\"") && !prompts[3].contains("last step"));
    assert!(prompts[4].starts_with("Carry out the step \"c\"") && prompts[4].contains("last step"));
    let kinds: Vec<_> = turn.messages.iter().map(|message| message.kind().as_str()).collect();
    assert_eq!(kinds, ["user", "assistant", "tool_result", "assistant", "assistant", "assistant"]);
    assert_valid_history(&turn.messages);
    assert_eq!((turn.cycles, turn.usage.input_tokens), (5, 50));
    assert_eq!(turn.response().text(), "c done");
    assert_eq!(statuses(&ran.plan()), [("a", "completed"), ("b", "completed"), ("c", "completed")]);
}

#[test]
fn a_plan_is_saved_before_its_first_step_and_hooks_see_its_statuses() {
    let ran = Ran::new(strategy(), ok([plan(&[step("a", None, &[])]), Answer::text("done")]));

    assert_eq!(
        ran.host.log(),
        [
            "checkpoint Planned 0",
            "on_step_start 1",
            "on_step_end 1 +2 =2",
            "checkpoint StepEnded 1",
            "stop_condition 1",
            "on_complete 2",
        ]
    );
    let saved = ran.host.saved.lock().unwrap();
    let first = saved[0].1.execution_state().plan.unwrap();
    assert_eq!((saved[0].0, first[0].status), (Boundary::Planned, PlanStatus::Pending));
    assert!(saved[0].1.execution_state().reasoning.is_none());
}

#[test]
fn a_plan_that_breaks_a_rule_is_asked_for_once_more() {
    let cases = [
        (
            plan(&[step("a", None, &["b"]), step("b", None, &["a"])]),
            "/steps: these steps wait for each other",
        ),
        (plan(&[step("a", None, &["z"])]), "/steps/0/dependsOn/0: no step has the id \"z\""),
        (plan(&[step("a", None, &[]), step("a", None, &[])]), "/steps/1/id: \"a\" is the id of another"),
        (plan(&[step("", None, &[])]), "/steps/0/id: a step needs an id"),
        (plan(&[step("a", Some("owl"), &[])]), "/steps/0/tool: there is no tool \"owl\""),
        (Answer::text("x").with_data(r#"{"steps":{}}"#), "/steps: it is no list"),
        (Answer::text("x").with_data(r#"{"steps":[7]}"#), "/steps/0: it is no object"),
        (Answer::text("no plan"), "the answer: it is not JSON"),
    ];
    for (broken, words) in cases {
        let good = plan(&[step("a", None, &[])]);
        let ran = Ran::new(strategy(), ok([broken.clone(), good, Answer::text("done")]));
        let prompts = ran.prompts();
        assert!(prompts[1].contains(words), "{} lacks {words}", prompts[1]);
        assert_eq!(ran.outcome.unwrap().cycles, 3);

        let ran = Ran::new(strategy(), ok([broken.clone(), broken]));
        let error = ran.outcome.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidResponse);
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn a_step_whose_tool_fails_is_kept_and_the_rest_is_planned_anew() {
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

    let ran = Ran::new(strategy(), ok(script));

    let turn = ran.outcome.as_ref().unwrap();
    assert_eq!((turn.cycles, turn.response().text().as_str()), (6, "d done"));
    assert_eq!(statuses(&ran.plan()), [("a", "completed"), ("b", "failed"), ("d", "completed")]);
    let told = &ran.prompts()[4];
    assert!(told.contains("\"a\" (completed)") && told.contains("\"b\" (failed)"));
    assert!(told.contains("What went wrong: it broke") && !told.contains("\"c\""));
    // A plan that builds on what failed, or takes the id of a step that is over, is refused.
    let requests = ran.model.requests.lock().unwrap();
    assert!(requests[4].structure.is_some());
}

#[test]
fn a_new_plan_may_not_reuse_ids_or_build_on_a_failure() {
    for (again, words) in [
        (step("b", None, &[]), "\"b\" is a step that is over"),
        (step("d", None, &["b"]), "\"b\" has failed and cannot be built on"),
    ] {
        let script = [
            plan(&[step("b", Some("fail"), &[])]),
            Answer::calls(&["fail"]),
            Answer::text("no"),
            plan(&[again]),
            plan(&[step("e", None, &[])]),
            Answer::text("e done"),
        ];

        let ran = Ran::new(strategy(), ok(script));

        assert!(ran.prompts()[4].contains(words), "{}", ran.prompts()[4]);
        assert_eq!(statuses(&ran.plan()), [("b", "failed"), ("e", "completed")]);
    }
}

#[test]
fn a_call_that_fails_fails_its_step() {
    let down = || Err(UppError::new(ErrorCode::ProviderError, "scripted", "down"));
    let first = || Ok(plan(&[step("a", None, &[])]));

    let ran = Ran::new(strategy(), [first(), down()]);
    // The script answers by the number of answers: planning anew is down as well, and that ends the run.
    assert_eq!(ran.outcome.unwrap_err().message, "down");
    assert_eq!(ran.model.requests.lock().unwrap().len(), 3);
    assert_eq!(statuses(&Ran { outcome: Err(UppError::cancelled("")), ..ran }.plan()), [("a", "failed")]);

    let options = PlanOptions { allow_replan: false, ..PlanOptions::default() };
    let ran = Ran::new(Strategy::Plan(options), [first(), down()]);
    assert_eq!(ran.outcome.unwrap_err().message, "down");
    assert!(ran.host.log().contains(&"on_error PROVIDER_ERROR".to_owned()));
    assert_eq!(ran.model.requests.lock().unwrap().len(), 2);
}

#[test]
fn without_replanning_what_does_not_depend_on_the_failure_goes_on() {
    let planned = plan(&[step("a", Some("fail"), &[]), step("b", None, &["a"]), step("c", None, &[])]);
    let script = [planned, Answer::calls(&["fail"]), Answer::text("no"), Answer::text("c done")];
    for options in [
        PlanOptions { allow_replan: false, ..PlanOptions::default() },
        PlanOptions { max_replans: 0, ..PlanOptions::default() },
    ] {
        let ran = Ran::new(Strategy::Plan(options), ok(script.clone()));

        assert_eq!(ran.outcome.as_ref().unwrap().response().text(), "c done");
        assert_eq!(statuses(&ran.plan()), [("a", "failed"), ("b", "pending"), ("c", "completed")]);
    }
}

#[test]
fn replans_are_bounded() {
    let again =
        |id: &str| [plan(&[step(id, Some("fail"), &[])]), Answer::calls(&["fail"]), Answer::text("no")];
    let script: Vec<_> = ["a", "b", "c", "d"].iter().flat_map(|id| again(id)).collect();
    let options = PlanOptions { max_replans: 2, ..PlanOptions::default() };

    let ran = Ran::new(Strategy::Plan(options), ok(script));

    assert_eq!(ran.outcome.as_ref().unwrap().cycles, 9);
    assert_eq!(statuses(&ran.plan()), [("a", "failed"), ("b", "failed"), ("c", "failed")]);
}

#[test]
fn an_empty_plan_is_answered_at_once() {
    let ran = Ran::new(strategy(), ok([plan(&[]), Answer::text("Easy.")]));

    let turn = ran.outcome.as_ref().unwrap();
    assert_eq!((turn.messages.len(), turn.cycles, turn.response().text().as_str()), (2, 2, "Easy."));
    assert_eq!(ran.plan(), []);
}

#[test]
fn steps_beyond_the_limit_are_cut_off_after_they_were_put_in_order() {
    let planned = plan(&[step("c", None, &["b"]), step("b", None, &["a"]), step("a", None, &[])]);
    let options = PlanOptions { max_plan_steps: 2, ..PlanOptions::default() };

    let ran = Ran::new(Strategy::Plan(options), ok([planned, Answer::text("1"), Answer::text("2")]));

    assert_eq!(statuses(&ran.plan()), [("a", "completed"), ("b", "completed")]);
    assert_eq!(ran.outcome.unwrap().response().text(), "2");
}

#[test]
fn the_last_step_carries_the_structure() {
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
fn a_structured_answer_is_asked_for_where_the_last_step_never_came() {
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
fn a_model_that_cannot_plan_and_a_schema_of_no_object_are_refused() {
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
    assert!(error.message.starts_with("plan_schema: a plan is an object"), "{error}");
}

#[test]
fn an_own_schema_is_sent_and_held_to_and_its_members_are_kept() {
    let schema = r#"{"type":"object","properties":{"steps":{"type":"array","items":{"required":["cost"]}}}}"#;
    let options = PlanOptions { plan_schema: Some(Arc::new(raw(schema))), ..PlanOptions::default() };
    let good = r#"{"steps":[{"id":"a","description":"do a","cost":7}]}"#;
    let script = [plan(&[step("a", None, &[])]), Answer::text(good).with_data(good), Answer::text("done")];

    let ran = Ran::new(Strategy::Plan(options), ok(script));

    assert!(ran.prompts()[1].contains("cost"));
    assert_eq!(ran.model.requests.lock().unwrap()[0].structure.as_ref().unwrap().get(), schema);
    let saved = ran.host.saved.lock().unwrap();
    let plan = saved.last().unwrap().1.execution_state().plan.unwrap();
    assert_eq!(plan[0].extra.get("cost"), Some(&raw("7")));
}

#[test]
fn events_name_the_step_of_the_plan_and_planning_belongs_to_no_step() {
    let script = [plan(&[step("a", None, &[])]), Answer::text("done")];
    let agent = agent_with(Arc::new(ScriptModel::new(script)), strategy(), None);
    let mut stream = agent.stream("Hello", RunContext::new(Arc::<TestHost>::default())).unwrap();

    let mut told = Vec::new();
    block_on(async {
        while let Some(event) = futures_util::StreamExt::next(&mut stream).await {
            match event.unwrap() {
                AgentStreamEvent::Uap(event) => told.push(event.data),
                AgentStreamEvent::Upp(_) | AgentStreamEvent::SubAgent(_) => {}
            }
        }
    });

    let [UapData::StepStart(start), UapData::StepEnd(end)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((start.plan_step_id.as_deref(), end.plan_step_id.as_deref()), (Some("a"), Some("a")));
    assert_eq!((end.usage.input_tokens, end.usage.output_tokens), (10, 2));
}

#[test]
fn a_saved_state_goes_on_without_asking_again_what_was_answered() {
    let script = || {
        [
            plan(&[step("a", Some("echo"), &[]), step("b", None, &["a"])]),
            Answer::calls(&["echo"]),
            Answer::text("a done"),
            Answer::text("b done"),
        ]
    };
    let ran = Ran::new(strategy(), ok(script()));
    let turn = ran.outcome.as_ref().unwrap();
    let saved = ran.host.saved.lock().unwrap().clone();
    // The plan, the answer with calls, its tool, two steps; and the calls that each leaves to be made.
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
fn a_run_taken_up_by_an_agent_of_another_strategy_goes_on_planning() {
    let script = [
        plan(&[step("a", Some("fail"), &[])]),
        Answer::calls(&["fail"]),
        Answer::text("no"),
        plan(&[]),
        Answer::text("then so"),
    ];
    let ran = Ran::new(strategy(), ok(script.clone()));
    let (_, planned) = ran.host.saved.lock().unwrap()[0].clone();
    let model = Arc::new(ScriptModel::new(script));
    let other = agent_with(Arc::clone(&model) as _, Strategy::default(), None);
    let context = RunContext::new(Arc::<TestHost>::default());

    let (mut machine, driver) = other.resume(History::new(), planned, context).unwrap();
    let turn = block_on(driver.run(&mut machine)).unwrap();

    assert_eq!(turn.response().text(), "then so");
    assert!(model.requests.lock().unwrap()[2].structure.is_some());
}

proptest! {
    /// Any dependencies among up to nine steps that name only earlier ones, shuffled: all are carried out, none before
    /// what it needs, and those that could be next in the order of the plan.
    #[test]
    fn steps_keep_to_their_dependencies(
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

        let ran = Ran::new(strategy(), ok([plan(&steps)].into_iter().chain(answers)));

        let order: Vec<String> = ran.plan().into_iter().map(|(id, _)| id).collect();
        prop_assert_eq!(order.len(), needed.len());
        prop_assert!(ran.plan().iter().all(|(_, status)| *status == PlanStatus::Completed));
        let place = |id: &String| order.iter().position(|other| other == id).unwrap();
        for (number, needed) in needed.iter().enumerate() {
            for other in needed.iter().filter(|other| **other < number) {
                prop_assert!(place(&ids[*other]) < place(&ids[number]));
            }
        }
        prop_assert_eq!(ran.outcome.unwrap().cycles as usize, order.len() + 1);
    }
}
