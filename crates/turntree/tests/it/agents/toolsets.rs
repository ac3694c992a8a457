//! Toolsets: tools that change between the steps of a run.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use turntree::agents::host::{FunctionHost, HostError, RunContext, Toolset, ToolsetContext};
use turntree::agents::types::partial_turn;
use turntree::agents::{Agent, AgentOptions, PlanOptions, Strategy, Tool};
use turntree::core::ids::CountingIds;
use turntree::core::json::RawJson;
use turntree::message::Turn;
use turntree::upp::{Capabilities, ErrorCode, UppError};

use crate::support::agents::{
    Answer, ScriptModel, TestHost, block_on, is_marked_aborted, raw, tool, yield_times,
};

/// Offers the tools of the step; the last ones from then on. A step without tools fails.
#[derive(Debug)]
struct Steps {
    name: &'static str,
    by_request: Vec<Result<Vec<Tool>, HostError>>,
    asked: AtomicUsize,
    contexts: Mutex<Vec<Arc<ToolsetContext>>>,
}

impl Steps {
    fn new(by_request: Vec<Result<Vec<Tool>, HostError>>) -> Arc<Self> {
        let (asked, contexts) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { name: "steps", by_request, asked, contexts })
    }
}

impl Toolset for Steps {
    fn name(&self) -> &str {
        self.name
    }

    fn tools<'a>(&'a self, context: &'a Arc<ToolsetContext>) -> BoxFuture<'a, Result<Vec<Tool>, HostError>> {
        Box::pin(async move {
            yield_times(1).await;
            self.contexts.lock().unwrap().push(Arc::clone(context));
            let asked = self.asked.fetch_add(1, Ordering::Relaxed);
            self.by_request[asked.min(self.by_request.len() - 1)].clone()
        })
    }
}

/// Never returns. Counts the futures that are dropped.
#[derive(Debug, Default)]
struct Endless(Arc<AtomicUsize>);

impl Toolset for Endless {
    fn name(&self) -> &'static str {
        "endless"
    }

    fn tools<'a>(&'a self, _: &'a Arc<ToolsetContext>) -> BoxFuture<'a, Result<Vec<Tool>, HostError>> {
        struct Dropped(Arc<AtomicUsize>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let dropped = Dropped(Arc::clone(&self.0));
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(dropped);
            Ok(Vec::new())
        })
    }
}

fn options(model: &Arc<ScriptModel>, toolsets: Vec<Arc<dyn Toolset>>) -> AgentOptions {
    let model: Arc<ScriptModel> = Arc::clone(model);
    AgentOptions { model: Some(model), tools: vec![tool("own")], toolsets, ..AgentOptions::default() }
}

fn script(answers: impl IntoIterator<Item = Answer>) -> Arc<ScriptModel> {
    Arc::new(ScriptModel::new(answers))
}

fn new_agent(options: AgentOptions) -> Agent {
    Agent::new(options, &CountingIds::default())
}

fn go(agent: &Agent) -> Result<Arc<Turn>, UppError> {
    block_on(agent.run("go", RunContext::new(Arc::new(TestHost::default()))))
}

fn offered(model: &ScriptModel) -> Vec<Vec<String>> {
    let requests = model.requests.lock().unwrap();
    let names = |request: &turntree::upp::ModelRequest| {
        request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    requests.iter().map(names).collect()
}

fn executed(turn: &Turn) -> Vec<(String, bool)> {
    turn.tool_executions.iter().map(|call| (call.tool_name.clone(), call.is_error)).collect()
}

#[test]
fn each_request_has_the_tools_of_its_step() {
    let model = script([Answer::calls(&["a", "own"]), Answer::calls(&["a", "b"]), Answer::text("done")]);
    let steps = Steps::new(vec![Ok(vec![tool("a")]), Ok(vec![tool("b")])]);

    let turn = go(&new_agent(options(&model, vec![Arc::clone(&steps) as _]))).unwrap();

    assert_eq!(offered(&model), [["own", "a"], ["own", "b"], ["own", "b"]]);
    let executed = executed(&turn);
    let expected = [("a", false), ("own", false), ("a", true), ("b", false)];
    assert_eq!(executed.len(), expected.len());
    assert!(expected.iter().all(|(name, failed)| executed.contains(&((*name).to_owned(), *failed))));
    let contexts = steps.contexts.lock().unwrap();
    let seen: Vec<_> = contexts.iter().map(|context| (context.step, context.messages.len())).collect();
    assert_eq!(seen, [(1, 1), (2, 3), (3, 5)]);
}

#[test]
fn agents_without_toolsets_share_their_definitions_with_every_request() {
    let model = script([Answer::calls(&["own"]), Answer::text("done")]);
    let agent = new_agent(options(&model, Vec::new()));

    go(&agent).unwrap();

    let requests = model.requests.lock().unwrap();
    assert!(requests.iter().all(|request| Arc::ptr_eq(&request.tools, agent.spec().definitions())));
}

#[test]
fn functions_of_toolset_tools_are_called() {
    let shout = tool("shout").with_function(|call| std::future::ready(Ok(call.call.arguments.clone())));
    let quiet = tool("own").with_function(|_| std::future::ready(Ok(raw("1"))));
    let model = script([Answer::calls(&["shout", "own"]), Answer::text("done")]);
    let options = options(&model, vec![Steps::new(vec![Ok(vec![shout])])]);
    let agent = new_agent(AgentOptions { tools: vec![quiet], ..options });
    let host = FunctionHost::new(Arc::clone(agent.tools()));

    let turn = block_on(agent.run("go", RunContext::new(Arc::new(host)))).unwrap();

    let mut results: Vec<_> = turn.tool_executions.iter().map(|call| call.result.get()).collect();
    results.sort_unstable();
    assert_eq!(results, ["1", "{}"]);
}

#[test]
fn agents_of_a_toolset_run_as_sub_agents() {
    let inner = new_agent(options(&script([Answer::text("helped")]), Vec::new()));
    let helper = Tool::from(&inner);
    let call = Answer {
        calls: vec![(helper.definition.name.clone(), r#"{"task":"t"}"#.into())],
        ..Answer::default()
    };
    let model = script([call, Answer::text("done")]);
    let agent = new_agent(options(&model, vec![Steps::new(vec![Ok(vec![helper])])]));

    let turn = go(&agent).unwrap();

    assert_eq!(turn.tool_executions[0].result.get(), r#""helped""#);
}

#[test]
fn streams_contain_the_calls_of_toolset_tools() {
    let model = script([Answer::calls(&["a"]), Answer::calls(&["b"]), Answer::text("done")]);
    let agent = new_agent(options(&model, vec![Steps::new(vec![Ok(vec![tool("a")]), Ok(vec![tool("b")])])]));

    let turn = block_on(async {
        let mut stream = agent.stream("go", RunContext::new(Arc::new(TestHost::default()))).unwrap();
        while let Some(event) = stream.next().await {
            event.unwrap();
        }
        stream.turn().await.unwrap()
    });

    assert_eq!(executed(&turn), [("a".to_owned(), false), ("b".to_owned(), false)]);
}

#[test]
fn a_failing_toolset_fails_the_run_and_calls_on_error() {
    let model = script([Answer::calls(&["a"]), Answer::text("done")]);
    let failure = HostError::raised("LookupError", "no prices");
    let steps = Steps::new(vec![Ok(vec![tool("a")]), Err(failure)]);
    let host = Arc::new(TestHost::with_hooks());

    let agent = new_agent(options(&model, vec![steps]));
    let error = block_on(agent.run("go", RunContext::new(Arc::clone(&host) as _))).unwrap_err();

    assert_eq!(error.message, "toolset 'steps' raised LookupError: no prices");
    assert_eq!(host.log().iter().filter(|entry| entry.starts_with("on_error")).count(), 1);
    assert_eq!(partial_turn(&error).unwrap().turn.messages.len(), 3);
    assert_eq!(model.requests.lock().unwrap().len(), 1);
}

#[test]
fn two_tools_with_one_name_are_an_error_that_names_both_sources() {
    let twice = |tools: Vec<Vec<Tool>>| {
        let toolsets = tools.into_iter().map(|tools| Steps::new(vec![Ok(tools)]) as _).collect();
        go(&new_agent(options(&script([Answer::text("done")]), toolsets))).unwrap_err()
    };

    let with_own = twice(vec![vec![tool("own")]]);
    let with_other = twice(vec![vec![tool("a")], vec![tool("a")]]);

    assert_eq!(with_own.code, ErrorCode::InvalidRequest);
    assert!(with_own.message.contains("'own': one of the agent's own tools and one of toolset 'steps'"));
    assert!(with_other.message.contains("'a': one of toolset 'steps' and one of toolset 'steps'"));
}

#[test]
fn aborting_a_run_drops_the_futures_of_its_toolsets() {
    let model = script([Answer::text("done")]);
    let endless = Endless::default();
    let dropped = Arc::clone(&endless.0);
    let agent = new_agent(options(&model, vec![Arc::new(endless)]));
    let token = CancellationToken::new();
    let context =
        RunContext { cancellation: Some(token.clone()), ..RunContext::new(Arc::new(TestHost::default())) };
    let mut run = pin!(agent.run("go", context));
    let mut polling = Context::from_waker(Waker::noop());
    assert!(run.as_mut().poll(&mut polling).is_pending());

    token.cancel();
    let Poll::Ready(Ok(turn)) = run.as_mut().poll(&mut polling) else { panic!("the run goes on") };

    assert!(is_marked_aborted(&turn));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    assert!(model.requests.lock().unwrap().is_empty());
}

#[test]
fn plans_are_made_from_the_tools_of_the_step() {
    let plan = r#"{"steps":[{"id":"1","description":"x","tool":"a","dependsOn":[]}]}"#;
    let model = script([Answer::text(plan).with_data(plan), Answer::calls(&["a"]), Answer::text("done")]);
    let options = options(&model, vec![Steps::new(vec![Ok(vec![tool("a")])])]);
    let agent = new_agent(AgentOptions { strategy: Some(Strategy::Plan(PlanOptions::default())), ..options });

    let turn = go(&agent).unwrap();

    assert_eq!(executed(&turn), [("a".to_owned(), false)]);
    let requests = model.requests.lock().unwrap();
    let schema = requests[0].structure.as_deref().map(RawJson::get).unwrap();
    assert!(schema.contains(r#""own""#) && schema.contains(r#""a""#), "{schema}");
}

#[test]
fn a_model_without_tools_is_rejected_before_the_toolsets_are_asked() {
    let model = ScriptModel {
        capabilities: Capabilities { tools: false, ..Capabilities::ALL },
        ..ScriptModel::new([])
    };
    let steps = Steps::new(vec![Ok(Vec::new())]);
    let options =
        AgentOptions { tools: Vec::new(), ..options(&Arc::new(model), vec![Arc::clone(&steps) as _]) };

    let error = go(&new_agent(options)).unwrap_err();

    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert_eq!(steps.asked.load(Ordering::Relaxed), 0);
}
