//! Custom strategies, which the application implements. UAP-1.0 §5.5.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use turntree::agents::host::CustomStrategy;
use turntree::agents::host::StrategyScope;
use turntree::agents::host::{HookSet, HostError, RunContext};
use turntree::agents::machine::RunState;
use turntree::agents::types::StrategyOutcome;
use turntree::agents::types::{AgentStreamEvent, Boundary};
use turntree::agents::{ReactOptions, Strategy};
use turntree::message::message::History;
use turntree::message::{StreamEvent, Turn};
use turntree::upp::ErrorCode;

use crate::support::agents::{Answer, ScriptModel, TestHost, agent_with, block_on, is_marked_aborted};

/// Runs one step of `react`, then `loop` on its messages. `Fails` returns an error, `Waits` never returns.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Twice {
    Works,
    Fails,
    Waits,
}

impl CustomStrategy for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }

    fn execute(
        &self,
        context: Arc<dyn StrategyScope>,
    ) -> BoxFuture<'static, Result<StrategyOutcome, HostError>> {
        let this = *self;
        Box::pin(async move {
            if let Some(events) = context.events() {
                for number in 0..300 {
                    events.push(AgentStreamEvent::Upp(StreamEvent::text(0, number.to_string()))).await;
                }
            }
            match this {
                Self::Fails => return Err(HostError::raised("ValueError", "not today")),
                Self::Waits => std::future::pending().await,
                Self::Works => {}
            }
            let raised = |error: turntree::upp::UppError| HostError::raised("UppError", error.message);
            let react = Strategy::React(ReactOptions { max_steps: 1, ..ReactOptions::default() });
            let input = context.state().messages.clone();
            let first = context.run(&react, History::new(), input.clone()).await.map_err(raised)?;
            let first_messages: History = first.messages.iter().cloned().collect();
            let second = context.run(&Strategy::loop_(3), first_messages, input).await.map_err(raised)?;
            Ok(StrategyOutcome {
                step: 2,
                reasoning: Some(vec!["thought".into()]),
                ..StrategyOutcome::from(second)
            })
        })
    }
}

fn script() -> [Answer; 4] {
    [Answer::text("thought"), Answer::calls(&["echo"]), Answer::text("so"), Answer::text("more")]
}

fn prepare(strategy: Twice, host: &Arc<TestHost>) -> (turntree::agents::Agent, RunContext) {
    let model = Arc::new(ScriptModel::new(script()));
    (agent_with(model, Strategy::custom(Arc::new(strategy)), None), RunContext::new(Arc::clone(host) as _))
}

fn texts(turn: &Turn) -> Vec<String> {
    turn.messages.iter().map(|message| message.text()).collect()
}

#[test]
fn a_custom_strategy_returns_the_turn_and_its_inner_runs_call_step_hooks_only() {
    let host = Arc::new(TestHost::with_hooks());
    let (agent, context) = prepare(Twice::Works, &host);

    let turn = block_on(agent.run("Hello", context)).unwrap();

    assert_eq!(texts(&turn), ["Hello", "", "{}", "so"]);
    let log = host.log();
    assert!(
        log.contains(&"on_reason 1 thought".to_owned()) && log.contains(&"on_step_end 1 +3 =3".to_owned())
    );
    let around: Vec<_> =
        log.iter().filter(|line| line.contains("checkpoint") || line.contains("complete")).collect();
    assert_eq!(around, ["checkpoint StepEnded 2", "on_complete 4"]);
    let saved = host.saved.lock().unwrap();
    let state = saved[0].1.execution_state();
    assert_eq!((saved[0].0, state.step, state.messages.len()), (Boundary::StepEnded, 2, 4));
    assert_eq!(state.reasoning.unwrap().len(), 1);
}

#[test]
fn a_stream_has_the_events_of_the_strategy_and_of_its_inner_runs_in_order() {
    let host = Arc::new(TestHost::default());
    let (agent, context) = prepare(Twice::Works, &host);
    let mut stream = agent.stream("Hello", context).unwrap();

    let events: Vec<_> = block_on(async { stream.by_ref().map(Result::unwrap).collect().await });

    let own: Vec<AgentStreamEvent> =
        (0..300).map(|number| AgentStreamEvent::Upp(StreamEvent::text(0, number.to_string()))).collect();
    assert_eq!(events[..300], own);
    let kinds: Vec<&str> =
        events[300..].iter().filter_map(|event| Some(event.as_uap()?.data.kind())).collect();
    assert_eq!(
        kinds,
        [
            ["step_start", "reasoning", "action", "observation", "step_end"].as_slice(),
            &["step_start", "action", "observation", "step_end", "step_start", "step_end"]
        ]
        .concat()
    );
    assert_eq!(texts(&block_on(stream.turn()).unwrap()), ["Hello", "", "{}", "so"]);
}

#[test]
fn a_failing_strategy_calls_on_error_and_the_error_names_it() {
    let host = Arc::new(TestHost { hooks: HookSet::ERROR, ..TestHost::default() });
    let (agent, context) = prepare(Twice::Fails, &host);

    let error = block_on(agent.run("Hello", context)).unwrap_err();

    assert_eq!(error.message, "twice raised ValueError: not today");
    assert_eq!(host.log(), ["on_error INVALID_REQUEST"]);
}

#[test]
fn an_abort_drops_the_strategy_and_returns_the_input() {
    let host = Arc::new(TestHost::default());
    let (agent, context) = prepare(Twice::Waits, &host);
    let mut stream = agent.stream("Hello", context).unwrap();

    let turn = block_on(async {
        stream.next().await.unwrap().unwrap();
        stream.abort();
        stream.turn().await
    })
    .unwrap();

    assert!(is_marked_aborted(&turn));
    assert_eq!(texts(&turn), ["Hello", ""]);
}

#[test]
fn a_saved_run_resumes_only_with_the_strategy_that_started_it() {
    let host = Arc::new(TestHost::default());
    let (agent, context) = prepare(Twice::Works, &host);
    let (machine, _) = agent.prepare(History::new(), "Hello".into(), context.clone()).unwrap();
    let state: RunState = serde_json::from_str(&serde_json::to_string(&machine).unwrap()).unwrap();

    let (mut again, driver) = agent.resume(History::new(), state.clone(), context.clone()).unwrap();
    assert_eq!(texts(&block_on(driver.run(&mut again)).unwrap()), ["Hello", "", "{}", "so"]);

    let other = agent_with(Arc::new(ScriptModel::new([])), Strategy::default(), None);
    let (mut lost, driver) = other.resume(History::new(), state, context).unwrap();
    let error = block_on(driver.run(&mut lost)).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert!(error.message.contains("give the agent that strategy"), "{error}");
}
