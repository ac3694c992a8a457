//! Middleware around runs of agents: order of hooks, outcomes, replaced values; logging, guardrails and budgets.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, StreamExt as _};
use turntree::agents::host::RunContext;
use turntree::agents::middleware::{
    AgentMiddlewareStack, Budget, BudgetError, GuardrailError, Guardrails, HookFuture, Hooks, LogRecord,
    Logging, Middleware, MiddlewareContext, Resource, Rule, RuleOutcome,
};
use turntree::agents::types::{AgentStreamEvent, partial_turn};
use turntree::agents::{Agent, AgentOptions, Session, SessionOptions};
use turntree::core::ids::CountingIds;
use turntree::message::message::History;
use turntree::message::{Body, ContentBlock, Delta, Message, TokenUsage, Turn};
use turntree::upp::middleware::Level;
use turntree::upp::{ErrorCode, UppError};

use crate::support::agents::{
    Answer, ScriptModel, TestHost, agent, assert_valid_history, block_on, clock, is_marked_aborted,
    one_round, raw, yield_times,
};

/// Records its hooks; fails in the hook `fails_in`, recovers with the turn `recovers`.
struct Recorder {
    name: &'static str,
    log: Arc<Mutex<Vec<String>>>,
    fails_in: Option<&'static str>,
    recovers: Option<Arc<Turn>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Recorder {
    fn record<T: Send + 'static>(&self, hook: &'static str, value: T) -> HookFuture<'_, T> {
        Box::pin(async move {
            self.log.lock().unwrap().push(format!("{}:{hook}", self.name));
            yield_times(1).await;
            match self.fails_in {
                Some(failing) if failing == hook => {
                    Err(UppError::invalid_request("", format!("{hook} fails")))
                }
                _ => Ok(value),
            }
        })
    }
}

impl Middleware for Recorder {
    fn name(&self) -> &'static str {
        self.name
    }

    fn hooks(&self) -> Hooks {
        Hooks::BEFORE | Hooks::AFTER | Hooks::ERROR
    }

    fn before<'a>(&'a self, _: &'a Arc<MiddlewareContext>) -> HookFuture<'a, ()> {
        self.record("before", ())
    }

    fn after<'a>(&'a self, _: &'a Arc<MiddlewareContext>, turn: Arc<Turn>) -> HookFuture<'a, Arc<Turn>> {
        self.record("after", turn)
    }

    fn on_error<'a>(
        &'a self,
        _: &'a Arc<MiddlewareContext>,
        _: &'a UppError,
    ) -> HookFuture<'a, Option<Arc<Turn>>> {
        self.record("on_error", self.recovers.clone())
    }
}

/// Its `before` never returns.
#[derive(Debug)]
struct PendingBefore;
impl Middleware for PendingBefore {
    fn name(&self) -> &'static str {
        "pending_before"
    }

    fn hooks(&self) -> Hooks {
        Hooks::BEFORE
    }

    fn before<'a>(&'a self, _: &'a Arc<MiddlewareContext>) -> HookFuture<'a, ()> {
        Box::pin(std::future::pending())
    }
}

/// Replaces the turn in `after`.
#[derive(Debug)]
struct ReplaceTurn(Arc<Turn>);

impl Middleware for ReplaceTurn {
    fn name(&self) -> &'static str {
        "replace_turn"
    }

    fn hooks(&self) -> Hooks {
        Hooks::AFTER
    }

    fn after<'a>(&'a self, _: &'a Arc<MiddlewareContext>, _: Arc<Turn>) -> HookFuture<'a, Arc<Turn>> {
        Box::pin(std::future::ready(Ok(Arc::clone(&self.0))))
    }
}

type Log = Arc<Mutex<Vec<String>>>;

fn recorder(log: &Log, name: &'static str) -> Recorder {
    Recorder { name, log: Arc::clone(log), fails_in: None, recovers: None }
}

pub(super) fn agent_with_middleware(
    model: ScriptModel,
    middleware: Vec<Arc<dyn Middleware>>,
) -> (Agent, Arc<ScriptModel>) {
    let model = Arc::new(model);
    let base = agent(Arc::clone(&model) as _, 10);
    let options = AgentOptions {
        middleware: middleware.into_iter().collect::<AgentMiddlewareStack>(),
        ..base.options().clone()
    };
    (Agent::new(options, &CountingIds::default()), model)
}

pub(super) fn context() -> RunContext {
    RunContext::new(Arc::new(TestHost::default()))
}

fn turn_of(text: &str) -> Arc<Turn> {
    let (ids, clock) = (CountingIds::default(), clock());
    let messages = vec![
        Arc::new(Message::user("asked", &ids, &clock)),
        Arc::new(Message::assistant(text, &ids, &clock)),
    ];
    Arc::new(Turn::new(messages, Vec::new(), TokenUsage::default(), 1, None).unwrap())
}

fn entries(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[test]
fn before_runs_in_order_and_after_in_reverse_order() {
    let log = Log::default();
    let list: Vec<Arc<dyn Middleware>> = vec![Arc::new(recorder(&log, "a")), Arc::new(recorder(&log, "b"))];
    let (agent, _) = agent_with_middleware(ScriptModel::new([Answer::text("Hi.")]), list);

    let turn = block_on(agent.run("Hello", context())).unwrap();

    assert_eq!(turn.response().text(), "Hi.");
    assert_eq!(entries(&log), ["a:before", "b:before", "b:after", "a:after"]);
}

#[test]
fn on_error_runs_outwards_through_entered_middleware_until_one_recovers() {
    let cases = [
        ("before", None, vec!["a:before", "b:before", "b:on_error", "a:on_error"]),
        (
            "after",
            None,
            vec![
                "a:before",
                "b:before",
                "c:before",
                "c:after",
                "b:after",
                "c:on_error",
                "b:on_error",
                "a:on_error",
            ],
        ),
        (
            "after",
            Some("back"),
            vec!["a:before", "b:before", "c:before", "c:after", "b:after", "c:on_error", "b:on_error"],
        ),
    ];
    for (fails_in, recovers, expected) in cases {
        let log = Log::default();
        let failing =
            Recorder { fails_in: Some(fails_in), recovers: recovers.map(turn_of), ..recorder(&log, "b") };
        let list: Vec<Arc<dyn Middleware>> =
            vec![Arc::new(recorder(&log, "a")), Arc::new(failing), Arc::new(recorder(&log, "c"))];
        let (agent, _) = agent_with_middleware(ScriptModel::new([Answer::text("Hi.")]), list);

        let outcome = block_on(agent.run("Hello", context()));

        assert_eq!(entries(&log), expected);
        assert_eq!(outcome.ok().map(|turn| turn.response().text()), recovers.map(str::to_owned));
    }
}

#[test]
fn an_error_of_after_carries_the_turn() {
    let log = Log::default();
    let failing = Recorder { fails_in: Some("after"), ..recorder(&log, "a") };
    let (agent, _) = agent_with_middleware(ScriptModel::new([Answer::text("Hi.")]), vec![Arc::new(failing)]);

    let error = block_on(agent.run("Hello", context())).unwrap_err();

    assert_eq!(partial_turn(&error).unwrap().turn.response().text(), "Hi.");
}

#[test]
fn a_dropped_run_calls_on_error_exactly_once_if_it_was_started() {
    for polls in 0..40 {
        let log = Log::default();
        let list: Vec<Arc<dyn Middleware>> =
            vec![Arc::new(recorder(&log, "a")), Arc::new(recorder(&log, "b"))];
        let (agent, _) = agent_with_middleware(ScriptModel::new(one_round("echo")), list);
        let mut running = Box::pin(agent.run("Hello", context()));
        let ended =
            (0..polls).any(|_| running.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready());
        drop(running);

        // The hooks of a dropped run continue in the background.
        let begun = polls > 0;
        let deadline = Instant::now() + Duration::from_secs(30);
        let is_over = || log.lock().unwrap().iter().any(|line| line == "a:on_error");
        while begun && !ended && !is_over() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let lines = entries(&log);
        let count = |line: &str| lines.iter().filter(|other| *other == line).count();

        assert_eq!(count("a:on_error"), usize::from(begun && !ended), "{polls} polls: {lines:?}");
        assert!(count("a:after") <= 1);
    }
}

#[test]
fn aborting_in_before_returns_a_turn_without_a_model_call() {
    let log = Log::default();
    let list: Vec<Arc<dyn Middleware>> =
        vec![Arc::new(recorder(&log, "a")), Arc::new(PendingBefore), Arc::new(recorder(&log, "c"))];
    let (agent, model) = agent_with_middleware(ScriptModel::new([Answer::text("never")]), list);
    let mut stream = agent.stream("Hello", context()).unwrap();
    for _ in 0..5 {
        assert!(stream.poll_next_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    stream.abort();

    let turn = block_on(stream.turn()).unwrap();

    assert!(is_marked_aborted(&turn));
    assert!(model.requests.lock().unwrap().is_empty());
    assert_eq!(entries(&log), ["a:before", "a:after"]);
}

/// Replaces the input and the history in `before`.
#[derive(Debug)]
struct ReplaceInput(History);

impl Middleware for ReplaceInput {
    fn name(&self) -> &'static str {
        "replace_input"
    }

    fn hooks(&self) -> Hooks {
        Hooks::BEFORE
    }

    fn before<'a>(&'a self, context: &'a Arc<MiddlewareContext>) -> HookFuture<'a, ()> {
        let text = context.input().unwrap().text() + "!";
        context.set_input(Arc::new(Message::user(text, &CountingIds::default(), &clock())));
        context.set_history(self.0.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

#[test]
fn the_run_starts_with_the_input_and_history_that_before_sets() {
    let history: History =
        [Arc::new(Message::user("old", &CountingIds::default(), &clock()))].into_iter().collect();
    let (agent, model) =
        agent_with_middleware(ScriptModel::new([Answer::text("Hi.")]), vec![Arc::new(ReplaceInput(history))]);

    let turn = block_on(agent.run("Hello", context())).unwrap();

    let sent: Vec<_> =
        model.requests.lock().unwrap()[0].messages.iter().map(|message| message.text()).collect();
    assert_eq!(sent, ["old", "Hello!"]);
    assert_eq!(turn.messages.iter().map(|message| message.text()).collect::<Vec<_>>(), ["Hello!", "Hi."]);
}

// logging

#[test]
fn logging_writes_the_documented_lines() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let mut logging = Logging::new(Arc::new(move |line: &LogRecord<'_>| {
        sink.lock().unwrap().push(format!("{:?} {}", line.level, line.message));
    }));
    logging.level = Level::Debug;
    let (agent, _) = agent_with_middleware(ScriptModel::new(one_round("echo")), vec![Arc::new(logging)]);

    block_on(agent.run("Hello", context())).unwrap();

    let lines: Vec<_> = lines.lock().unwrap().iter().map(|line| line.replace(&**agent.id(), "ID")).collect();
    assert_eq!(
        lines,
        [
            "Info Agent ID starting execution",
            "Debug Input: \"Hello\"",
            "Debug Agent ID step 1 started",
            "Debug Agent ID calls tool echo with {}",
            "Debug Agent ID tool echo answered {}",
            "Debug Agent ID step 1 ended (11 tokens)",
            "Debug Agent ID step 2 started",
            "Debug Agent ID step 2 ended (12 tokens)",
            "Debug Output: \"All done now.\"",
            "Info Agent ID completed in 0ms (23 tokens)",
        ]
    );
}

// guardrails

fn rewriting(word: &'static str) -> Rule {
    Rule::of_text(word, Arc::new(move |text: &str| RuleOutcome::Replace(text.replace(word, "-"))))
}

#[test]
fn a_guardrail_rewrites_streamed_text_and_keeps_the_order_of_events() {
    let guard = Guardrails { output: vec![rewriting("done")], ..Guardrails::default() };
    let (agent, _) = agent_with_middleware(ScriptModel::new(one_round("echo")), vec![Arc::new(guard)]);
    let stream = agent.stream("Hello", context()).unwrap();

    let events: Vec<_> = block_on(stream.collect::<Vec<_>>()).into_iter().map(Result::unwrap).collect();

    let described: Vec<String> = events
        .iter()
        .map(|event| match event {
            AgentStreamEvent::Uap(event) => event.data.kind().to_owned(),
            AgentStreamEvent::Upp(event) => match &event.delta {
                Delta::Text(delta) => format!("text {:?}", delta.text),
                delta => delta.kind().to_owned(),
            },
            AgentStreamEvent::SubAgent(sub_agent) => format!("inside {}", sub_agent.run.agent_id),
        })
        .collect();
    assert_eq!(described[..5], ["step_start", "message_start", "tool_call_delta", "message_stop", "action"]);
    assert_eq!(
        described[9..],
        ["step_start", "message_start", "text \"All - now.\"", "message_stop", "step_end"]
    );
}

#[test]
fn a_data_rule_checks_the_unwrapped_value() {
    let rule = Rule::of_data("small", raw(r#"{"type":"integer","maximum":3}"#)).unwrap();
    let guard = || Guardrails { output: vec![rule.clone()], ..Guardrails::default() };
    let run = |answer: &str| {
        let script = ScriptModel::new([Answer::text(answer).with_data(answer)]);
        let (base, _) = agent_with_middleware(script, vec![Arc::new(guard())]);
        let structure = Some(Arc::new(raw(r#"{"type":"integer"}"#)));
        let agent = Agent::new(AgentOptions { structure, ..base.options().clone() }, &CountingIds::default());
        block_on(agent.run("Hello", context()))
    };

    assert_eq!(run(r#"{"value":3}"#).unwrap().data.as_ref().unwrap().get(), "3");
    let error = run(r#"{"value":4}"#).unwrap_err();
    let rejected = error.cause.unwrap();
    let rejected = rejected.downcast_ref::<GuardrailError>().unwrap();
    assert_eq!((rejected.rule.as_str(), rejected.text.as_str()), ("small", "4"));
    assert_eq!(error.code, ErrorCode::ContentFiltered);
}

#[test]
fn a_guardrail_removes_reasoning_that_it_would_rewrite() {
    let ids = CountingIds::default();
    let content = vec![ContentBlock::reasoning("secret thought"), ContentBlock::text("fine")];
    let thinking = Arc::new(Message::new(Body::Assistant { content, tool_calls: None }, &ids, &clock()));
    let turn = Turn::new(vec![thinking], Vec::new(), TokenUsage::default(), 1, None).unwrap();
    let guard = Guardrails { output: vec![rewriting("secret")], ..Guardrails::default() };
    let replacement = Arc::new(turn);
    let (agent, _) = agent_with_middleware(
        ScriptModel::new([Answer::text("x")]),
        vec![Arc::new(guard), Arc::new(ReplaceTurn(replacement))],
    );

    let turn = block_on(agent.run("Hello", context())).unwrap();

    assert_eq!(turn.response().content(), [ContentBlock::text("fine")]);
}

// budget

#[test]
fn an_exceeded_budget_ends_the_run_with_its_partial_turn() {
    let budget = Budget { steps: Some(1), ..Budget::default() };
    let (agent, model) = agent_with_middleware(ScriptModel::new(one_round("echo")), vec![Arc::new(budget)]);

    let error = block_on(agent.run("Hello", context())).unwrap_err();

    assert_eq!(error.code, ErrorCode::QuotaExceeded);
    let partial = partial_turn(&error).unwrap();
    assert_valid_history(&partial.turn.messages);
    let cause = partial.cause.as_deref().unwrap().downcast_ref::<BudgetError>().unwrap();
    assert_eq!(cause, &BudgetError { resource: Resource::Steps, limit: 1.0, spent: 1.0, by_session: false });
    assert_eq!(model.requests.lock().unwrap().len(), 1);
}

#[test]
fn the_spent_budget_of_a_session_is_in_its_json() {
    let budget = Budget { tokens: Some(1000), by_session: true, ..Budget::default() };
    let (agent, _) = agent_with_middleware(
        ScriptModel::new([Answer::text("1"), Answer::text("2")]),
        vec![Arc::new(budget)],
    );
    let session = Session::new(agent, SessionOptions::default()).unwrap();
    block_on(session.run("one", context())).unwrap();
    block_on(session.run("two", context())).unwrap();

    let json: serde_json::Value = serde_json::from_str(&session.to_json().unwrap()).unwrap();

    let spent = &json["metadata"]["turntree"]["middleware"]["spent"];
    assert_eq!(
        (&spent["tokens"], &spent["steps"], &spent["unpricedCalls"]),
        (&23.into(), &2.into(), &2.into())
    );
}
