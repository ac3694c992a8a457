//! Runs of agents: order of hooks, concurrent tools, errors, dropped runs, resumed runs. UAP-1.0 §4, §5.2, §11.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use futures_util::FutureExt as _;
use turntree::agents::driver::AgentStream;
use turntree::agents::host::{
    Approval, BeforeCall, FunctionHost, HookSet, HostError, HostErrorKind, RunContext,
};
use turntree::agents::types::InheritedModel;
use turntree::agents::types::{Boundary, partial_turn};
use turntree::agents::{Agent, AgentOptions, ToolUseStrategy};
use turntree::core::ids::CountingIds;
use turntree::message::message::History;
use turntree::message::{ContentBlock, Message};
use turntree::upp::{Capabilities, ErrorCode, UppError};

use crate::support::agents::{
    Answer, ScriptModel, TestHost, agent, assert_valid_history, block_on, clock, one_round, raw, records,
    run, tool, tool_results,
};

#[test]
fn hooks_run_in_the_documented_order() {
    let host = Arc::new(TestHost { after: Some(raw("7")), ..TestHost::with_hooks() });

    let turn = run(&one_round("guarded"), &host).unwrap();

    assert_eq!(
        host.log(),
        [
            "on_step_start 1",
            "checkpoint Answered 1",
            "on_tool_call call-1-0",
            "on_before_call call-1-0",
            "approve call-1-0 {}",
            "run call-1-0",
            "on_after_call call-1-0 {}",
            "checkpoint ToolFinished 1",
            "on_step_end 1 +3 =3",
            "checkpoint StepEnded 1",
            "stop_condition 1",
            "on_step_start 2",
            "on_step_end 2 +1 =4",
            "checkpoint StepEnded 2",
            "stop_condition 2",
            "on_complete 4",
        ]
    );
    assert_eq!(records(&turn), [("call-1-0", "7", false, Some(true))]);
    assert_eq!(tool_results(&turn), ["7"]);
}

#[test]
fn hooks_outside_the_hook_set_are_not_called() {
    let host = Arc::new(TestHost::default());

    let turn = run(&one_round("echo"), &host).unwrap();

    assert_eq!(host.log(), ["run call-1-0"]);
    assert_eq!(records(&turn), [("call-1-0", "{}", false, None)]);
}

#[test]
fn tool_calls_of_one_response_run_concurrently_and_results_keep_call_order() {
    let host = Arc::new(TestHost::default());
    let script = [Answer::calls(&["slow", "echo", "slow", "owl"]), Answer::text("Done.")];

    let turn = run(&script, &host).unwrap();

    assert_eq!(host.most_running.load(Ordering::Relaxed), 3);
    let finished: Vec<_> = records(&turn).iter().map(|record| record.0).collect();
    assert_eq!(finished, ["call-1-3", "call-1-1", "call-1-0", "call-1-2"]);
    assert_eq!(tool_results(&turn), ["{}", "{}", "{}", r#""Tool 'owl' not found""#]);
}

#[test]
fn tool_failures_become_error_results() {
    let host = Arc::new(TestHost { hooks: HookSet::TOOL_ERROR, ..TestHost::default() });
    let script = [Answer::calls(&["fail", "picky"]), Answer::text("I see.")];

    let turn = run(&script, &host).unwrap();

    assert_eq!(tool_results(&turn), [r#""it broke""#, r#""days: expected an integer""#]);
    assert!(turn.messages[2].results().iter().all(turntree::message::ToolResult::failed));
    assert!(host.log().contains(&"on_tool_error call-1-0 it broke".to_owned()));
}

#[test]
fn on_before_call_replaces_arguments_or_skips_the_call() {
    let replaced = raw(r#"{"city":"Oslo"}"#);
    let hooks = HookSet::BEFORE_CALL;
    let host = TestHost { hooks, before: BeforeCall::ProceedWith(replaced.clone()), ..TestHost::default() };
    let host = Arc::new(host);
    let turn = run(&one_round("guarded"), &host).unwrap();
    assert_eq!(turn.tool_executions[0].arguments, replaced);
    assert_eq!(turn.messages[1].tool_calls()[0].arguments, raw("{}"));
    assert!(host.log().contains(&r#"approve call-1-0 {"city":"Oslo"}"#.to_owned()));

    let host = Arc::new(TestHost { hooks, before: BeforeCall::Skip, ..TestHost::default() });
    let turn = run(&one_round("guarded"), &host).unwrap();
    assert_eq!(records(&turn), [("call-1-0", r#""Tool execution skipped""#, true, None)]);
    assert_eq!(host.log(), ["on_before_call call-1-0"]);
}

#[test]
fn a_denied_call_is_recorded_and_becomes_an_error_result() {
    let host =
        Arc::new(TestHost { hooks: HookSet::TOOL_ERROR, approval: Approval::Denied, ..TestHost::default() });

    let turn = run(&one_round("guarded"), &host).unwrap();

    assert_eq!(records(&turn), [("call-1-0", r#""Tool execution denied""#, true, Some(false))]);
    assert_eq!(tool_results(&turn), [r#""Tool execution denied by approval handler""#]);
    assert_eq!(host.log(), ["approve call-1-0 {}"]);
}

#[test]
fn a_failing_approval_handler_ends_the_run_after_the_other_calls_finish() {
    let payload: Arc<dyn std::any::Any + Send + Sync> = Arc::new("the exception");
    let failure = HostError::raised("RuntimeError", "no approver").with_payload(payload);
    let host = Arc::new(TestHost {
        hooks: HookSet::ERROR,
        failures: vec![("approve", failure)],
        ..TestHost::default()
    });
    let script = [Answer::calls(&["guarded", "slow"]), Answer::text("never asked")];

    let error = run(&script, &host).unwrap_err();

    assert_eq!(error.message, "the approval handler for tool 'guarded' raised RuntimeError: no approver");
    assert_eq!(error.host.as_ref().and_then(|host| host.downcast_ref()), Some(&"the exception"));
    let partial = partial_turn(&error).unwrap();
    assert_eq!(records(&partial.turn), [("call-1-1", "{}", false, None)]);
    assert_eq!(host.log().last().unwrap(), "on_error INVALID_REQUEST");
}

#[test]
fn a_failing_hook_around_a_call_fails_the_call() {
    for (hook, set) in [
        ("on_tool_call", HookSet::TOOL_CALL),
        ("on_before_call", HookSet::BEFORE_CALL),
        ("on_after_call", HookSet::AFTER_CALL),
    ] {
        let host = Arc::new(TestHost {
            hooks: set | HookSet::TOOL_ERROR,
            failures: vec![(hook, HostError::raised("KeyError", "oops"))],
            ..TestHost::default()
        });

        let turn = run(&one_round("echo"), &host).unwrap();

        assert_eq!(tool_results(&turn), [r#""oops""#], "{hook}");
        assert_eq!(host.log().last().unwrap(), "on_tool_error call-1-0 oops");
    }
}

#[test]
fn on_error_is_called_once_and_its_turn_completes_the_run() {
    let recovery_turn = run(&[Answer::text("Sorry.")], &Arc::default()).unwrap();
    for (hook, step) in [("on_step_start", "1"), ("on_step_end", "1"), ("stop_condition", "1")] {
        let failures = vec![(hook, HostError::raised("KeyError", "oops"))];
        let host =
            TestHost { failures, recovery: Some(Arc::clone(&recovery_turn)), ..TestHost::with_hooks() };
        let host = Arc::new(host);

        let turn = run(&[Answer::text("Hi.")], &host).unwrap();

        assert_eq!(turn, recovery_turn, "{hook} {step}");
        assert!(host.log().ends_with(&["on_error INVALID_REQUEST".to_owned(), "on_complete 2".to_owned()]));
    }

    let failures = vec![("on_complete", HostError::raised("KeyError", "oops"))];
    let host = Arc::new(TestHost { failures, recovery: Some(recovery_turn), ..TestHost::with_hooks() });
    let error = run(&[Answer::text("Hi.")], &host).unwrap_err();
    assert_eq!(error.message, "on_complete raised KeyError: oops");
    assert_eq!(host.log().iter().filter(|line| line.starts_with("on_error")).count(), 1);
}

#[test]
fn a_model_error_carries_the_partial_turn() {
    let down = UppError::new(ErrorCode::ProviderError, "scripted", "down").with_status(503);
    let model = ScriptModel::failing([Ok(Answer::calls(&["echo"])), Err(down)]);
    let host = Arc::new(TestHost { hooks: HookSet::ERROR, ..TestHost::default() });

    let context = RunContext::new(Arc::clone(&host) as _);
    let error = block_on(agent(Arc::new(model), 10).run("Hello", context)).unwrap_err();

    assert_eq!((error.code, error.status_code), (ErrorCode::ProviderError, Some(503)));
    assert_eq!(partial_turn(&error).unwrap().turn.messages.len(), 3);
}

#[test]
fn on_max_iterations_runs_before_the_limit_error() {
    let script = vec![Answer::calls(&["echo"]); 3];
    let host = Arc::new(TestHost { hooks: HookSet::MAX_ITERATIONS | HookSet::ERROR, ..TestHost::default() });
    let model = Arc::new(ScriptModel::new(script));

    let context = RunContext::new(Arc::clone(&host) as _);
    let error = block_on(agent(Arc::clone(&model) as _, 1).run("Hello", context)).unwrap_err();

    assert_eq!(error.message, "Tool execution exceeded maximum iterations (1)");
    assert_eq!(host.log()[1..], ["on_max_iterations 1", "on_error INVALID_REQUEST"]);
    assert_eq!(model.requests.lock().unwrap().len(), 2);
}

#[test]
fn a_fatal_error_skips_on_error() {
    let fatal = HostError { kind: HostErrorKind::Fatal, ..HostError::raised("KeyboardInterrupt", "") };
    let host = Arc::new(TestHost { failures: vec![("on_before_call", fatal)], ..TestHost::with_hooks() });
    let script = [Answer::calls(&["echo", "never"]), Answer::text("never asked")];

    let error = run(&script, &host).unwrap_err();

    assert!(error.message.contains("KeyboardInterrupt"));
    assert!(!host.log().iter().any(|line| line.starts_with("on_error")));
}

#[test]
fn history_precedes_the_input_and_is_not_part_of_the_turn() {
    let model = Arc::new(ScriptModel::new([Answer::text("Hi.")]));
    let before = Arc::new(Message::user("before", &CountingIds::default(), &clock()));
    let history: History = [before].into_iter().collect();
    let agent = agent(Arc::clone(&model) as _, 10);

    let context = RunContext::new(Arc::new(TestHost::default()));
    let turn = block_on(agent.run_with_history(history.clone(), "Hello", context)).unwrap();

    assert_eq!((turn.messages.len(), history.len()), (2, 1));
    let requests = model.requests.lock().unwrap();
    let sent: Vec<_> = requests[0].messages.iter().map(|message| message.text()).collect();
    assert_eq!(sent, ["before", "Hello"]);
}

#[test]
fn unsupported_agents_and_inputs_are_refused_before_the_first_request() {
    let limited =
        Capabilities { streaming: false, tools: false, structured_output: false, ..Capabilities::TEXT };
    let model = Arc::new(ScriptModel { capabilities: limited, ..ScriptModel::new([]) });
    let bare = Agent::new(
        AgentOptions { model: Some(Arc::clone(&model) as _), ..AgentOptions::default() },
        &CountingIds::default(),
    );
    let ids = CountingIds::default();
    let context = || RunContext::new(Arc::new(TestHost::default()));
    let image = r#"{"type":"image","source":{"type":"url","url":"x"},"mimeType":"image/png"}"#;
    let image: ContentBlock = serde_json::from_str(image).unwrap();
    let refused = |agent: &Agent, words: &str| {
        let error = block_on(agent.run("Hello", context())).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.contains(words), "{}", error.message);
    };

    refused(&bare.with(&ids, |options| options.tools = vec![tool("a")]), "'scripted' does not support tools");
    refused(
        &bare.with(&ids, |o| o.structure = Some(Arc::new(raw("{}")))),
        "does not support structured output",
    );
    refused(
        &bare.with(&ids, |options| options.tools = vec![tool("a"), tool("a")]),
        "two tools are named 'a'",
    );
    refused(&bare.with(&ids, |options| options.model = None), "has no model");
    let error = bare.stream("Hello", context()).unwrap_err();
    assert!(error.message.contains("does not support streaming"));
    let error = block_on(bare.run(image, context())).unwrap_err();
    assert!(error.message.contains("does not support image input"));
    let error = block_on(bare.run(ContentBlock::reasoning("hm"), context())).unwrap_err();
    assert!(error.message.starts_with("Invalid inference input"));
    assert!(model.requests.lock().unwrap().is_empty());
}

#[test]
fn an_agent_without_a_model_inherits_the_model_of_its_caller() {
    let model = Arc::new(ScriptModel::new([Answer::text("Hi.")]));
    let agent = Agent::new(AgentOptions::default(), &CountingIds::default());
    let params = [("max_tokens", raw("9"))].into_iter().collect();
    let callers_model = Arc::clone(&model);
    let context = RunContext {
        inherited_model: Some(InheritedModel { model, params: Arc::new(params) }),
        ..RunContext::new(Arc::new(FunctionHost::new(Arc::clone(agent.tools()))))
    };

    assert_eq!(block_on(agent.run("Hello", context)).unwrap().response().text(), "Hi.");
    assert_eq!(callers_model.requests.lock().unwrap()[0].params.get("max_tokens"), Some(&raw("9")));
}

#[test]
fn tools_are_rust_functions_and_the_tool_strategy_sets_the_limit() {
    let double = tool("double").with_function(|invocation| async move {
        let number: i64 = invocation.call.arguments.to().unwrap_or_default();
        Ok(raw(&(2 * number).to_string()))
    });
    let call = Answer { calls: vec![("double".to_owned(), "21".to_owned())], ..Answer::default() };
    let options = AgentOptions {
        model: Some(Arc::new(ScriptModel::new([call.clone(), call]))),
        tools: vec![double],
        tool_strategy: ToolUseStrategy { max_iterations: Some(1) },
        ..AgentOptions::default()
    };
    let agent = Agent::new(options, &CountingIds::default());
    let host = FunctionHost::new(Arc::clone(agent.tools()));

    let error = block_on(agent.run("Hello", RunContext::new(Arc::new(host)))).unwrap_err();

    assert_eq!(partial_turn(&error).unwrap().turn.tool_executions[0].result.get(), "42");
}

#[test]
fn metadata_changed_by_a_hook_is_in_the_checkpoint() {
    let host = Arc::new(TestHost::with_hooks());
    *host.metadata.lock().unwrap() = Some(Arc::new([("done", raw("true"))].into_iter().collect()));

    run(&[Answer::text("Hi.")], &host).unwrap();

    let saved = host.saved.lock().unwrap();
    assert_eq!(saved[0].1.execution_state().metadata.get("done"), Some(&raw("true")));
}

#[test]
fn a_resumed_run_does_not_repeat_finished_tools() {
    let script = [Answer::calls(&["slow", "echo"]), Answer::text("Done.")];
    let host = Arc::new(TestHost { hooks: HookSet::CHECKPOINT_WITHIN_STEPS, ..TestHost::default() });
    let whole = run(&script, &host).unwrap();
    let saved = host.saved.lock().unwrap();
    let (_, state) = saved.iter().find(|(boundary, _)| *boundary == Boundary::ToolFinished).unwrap();
    let state = serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap();

    let second = Arc::new(TestHost::default());
    let model = Arc::new(ScriptModel::new(script));
    let context = RunContext::new(Arc::clone(&second) as _);
    let (mut machine, driver) = agent(model, 10).resume(History::new(), state, context).unwrap();
    let turn = block_on(driver.run(&mut machine)).unwrap();

    assert_eq!(second.log(), ["run call-1-0"]);
    assert_eq!(records(&turn), records(&whole));
    assert_eq!(turn.messages[..2], whole.messages[..2]);
}

#[test]
fn dropping_a_run_drops_its_tools() {
    let host = Arc::new(TestHost::default());
    let model = Arc::new(ScriptModel::new([Answer::calls(&["never", "never"])]));
    let agent = agent(model, 10);
    let mut running = Box::pin(agent.run("Hello", RunContext::new(Arc::clone(&host) as _)));
    for _ in 0..5 {
        assert!(running.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(host.running.load(Ordering::Relaxed), 2);

    drop(running);

    assert_eq!(host.dropped_tools.load(Ordering::Relaxed), 2);
}

#[test]
fn dropping_a_run_drops_its_model_call() {
    let model = ScriptModel::new([Answer::text("x")]);
    let dropped = Arc::clone(&model.dropped);
    let agent = agent(Arc::new(model), 10);
    let mut running = Box::pin(agent.run("Hello", RunContext::new(Arc::new(TestHost::default()))));
    assert!(running.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());

    drop(running);

    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn a_run_dropped_at_any_await_resumes_from_its_machine() {
    let script = [Answer::calls(&["echo", "slow"]), Answer::calls(&["guarded"]), Answer::text("Done.")];
    let whole = run(&script, &Arc::new(TestHost::with_hooks())).unwrap();
    for polls in 0.. {
        let host = Arc::new(TestHost::with_hooks());
        let agent = agent(Arc::new(ScriptModel::new(script.clone())), 10);
        let context = RunContext::new(Arc::clone(&host) as _);
        let (mut machine, driver) = agent.prepare(History::new(), "Hello".into(), context).unwrap();
        let mut running = Box::pin(driver.run(&mut machine));
        let ended =
            (0..polls).any(|_| running.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready());
        drop(running);
        if ended {
            break;
        }

        let turn = block_on(driver.run(&mut machine)).unwrap();

        assert_eq!(records(&turn), records(&whole), "dropped after {polls} polls");
        assert_eq!(turn.messages.len(), whole.messages.len());
        assert_valid_history(&turn.messages);
    }
}

#[test]
fn agents_and_streams_are_send() {
    fn assert_send<T: Send>() {}
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send::<AgentStream>();
    assert_send_sync::<Agent>();
    assert_send_sync::<RunContext>();
}

#[path = "../../../examples/agent.rs"]
mod example;

#[test]
fn the_agent_example_runs() {
    example::main().unwrap();
}
