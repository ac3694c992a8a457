//! Tool calls that may have been executed before their process ended. Decisions A112, A113.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use turntree::agents::host::{
    Approval, FunctionHost, HookSet, HostError, RunContext, Toolset, ToolsetContext,
};
use turntree::agents::session::{CheckpointInterval, SaveInterval};
use turntree::agents::types::{Resolution, Verdict, approval_required, partial_turn};
use turntree::agents::{Agent, AgentOptions, Session, SessionError, SessionOptions, ToToolOptions, Tool};
use turntree::core::ids::CountingIds;
use turntree::core::json::RawJson;

use super::runs::{MemoryStore, key_value};
use super::{Fixture, options, poll_at_most, texts};
use crate::support::agents::{Answer, ScriptModel, TestHost, block_on, raw, tool};

/// A session that saves after every tool, its store, and the tools that were executed.
struct Killed {
    fixture: Fixture,
    store: Arc<MemoryStore>,
}

fn agent_of(script: &[Answer], tools: Vec<Tool>) -> Agent {
    let options = AgentOptions {
        model: Some(Arc::new(ScriptModel::new(script.to_vec()))),
        tools,
        ..AgentOptions::default()
    };
    Agent::new(options, &CountingIds::default())
}

/// The host of an agent: the fixture's, or one that calls Rust functions if the agent has such tools.
fn context(fixture: &Fixture, agent: &Agent) -> RunContext {
    let has_functions = agent.tools().iter().any(|tool| tool.function.is_some() || tool.agent.is_some());
    if has_functions {
        return RunContext::new(Arc::new(FunctionHost::new(Arc::clone(agent.tools()))));
    }
    fixture.context()
}

type Log = Arc<Mutex<Vec<String>>>;

/// The tools `echo` and `never` as Rust functions that log the ids of their calls.
fn functions(log: &Log) -> Vec<Tool> {
    let logged = |name: &'static str| {
        let log = Arc::clone(log);
        tool(name).with_function(move |invocation| {
            log.lock().unwrap().push(invocation.call.tool_call_id.clone());
            async move {
                if name == "never" {
                    std::future::pending::<()>().await;
                }
                Ok(RawJson::default())
            }
        })
    };
    vec![logged("echo"), logged("never")]
}

fn tools() -> Vec<Tool> {
    let guarded = tool("guarded").with_approval();
    let look = tool("look").with_idempotence();
    ["echo", "fail", "never"].map(tool).into_iter().chain([guarded, look]).collect()
}

impl Killed {
    /// Runs the script until it waits for `never`, and kills the process there.
    fn new(script: &[Answer], tools: Vec<Tool>, approval: Approval) -> Self {
        let store = Arc::new(MemoryStore::default());
        let fixture = Fixture::new(CheckpointInterval::Step);
        let agent = agent_of(script, tools);
        let options = SessionOptions {
            persistence: Some(key_value(&store)),
            save_interval: SaveInterval::Tool,
            ..options(&fixture.ids, CheckpointInterval::Step)
        };
        let session = Session::new(agent.clone(), options).unwrap();
        let host = Arc::new(TestHost { approval, ..TestHost::default() });
        let fixture = Fixture { host, agent, session, ..fixture };
        let killed = Self { fixture, store };
        let mut run = Box::pin(killed.fixture.session.run("go", killed.context()));
        assert!(poll_at_most(run.as_mut(), 100).is_none());
        // A process that is killed drops nothing.
        std::mem::forget(run);
        killed
    }

    fn of(script: &[Answer]) -> Self {
        Self::new(script, tools(), Approval::Granted)
    }

    fn context(&self) -> RunContext {
        context(&self.fixture, &self.fixture.agent)
    }

    /// The session as a process loads it that starts after the kill.
    fn loaded(&self) -> Session {
        self.fixture.load(self.store.texts().last().unwrap())
    }

    /// As [`Self::loaded`], with other tools.
    fn loaded_with(&self, script: &[Answer], tools: Vec<Tool>) -> Session {
        let agent = agent_of(script, tools);
        let fixture = Fixture { agent, ..Fixture::new(CheckpointInterval::Step) };
        fixture.load(self.store.texts().last().unwrap())
    }
}

fn in_doubt(session: &Session) -> Vec<String> {
    session.in_doubt().iter().map(|call| call.tool_call_id.clone()).collect()
}

fn asked(session: &Session, killed: &Killed) -> Vec<String> {
    let Err(SessionError::Run(error)) = block_on(session.resume(context(&killed.fixture, session.agent())))
    else {
        panic!("the run does not ask");
    };
    assert!(error.message.contains("may have been executed") && error.message.contains("`resolve`"));
    assert!(partial_turn(&error).is_some());
    let required = approval_required(&error).unwrap();
    assert!(required.is_in_doubt);
    required.calls.iter().map(|call| call.tool_call_id.clone()).collect()
}

const DONE: fn() -> Answer = || Answer::text("Done.");

#[test]
fn only_calls_without_a_saved_result_are_in_doubt() {
    let killed = Killed::of(&[Answer::calls(&["echo", "never", "look", "fail"]), DONE()]);

    let session = killed.loaded();

    assert_eq!(in_doubt(&session), ["call-1-1"]);
    assert_eq!(asked(&session, &killed), ["call-1-1"]);
    assert_eq!(killed.fixture.tools_run(), ["call-1-0", "call-1-1", "call-1-2", "call-1-3"]);
    let again = killed.fixture.load(&session.to_json().unwrap());
    assert_eq!(asked(&again, &killed), ["call-1-1"]);
    assert!(again.pending().is_empty());
    assert!(in_doubt(&killed.fixture.session).is_empty(), "the run is active");
}

#[test]
fn the_response_is_saved_before_its_first_tool_starts() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let store = Arc::new(MemoryStore::default());
    let note = {
        let (seen, store) = (Arc::clone(&seen), Arc::clone(&store));
        tool("note").with_function(move |_| {
            seen.lock().unwrap().push(store.texts().last().cloned().unwrap_or_default());
            std::future::ready(Ok(RawJson::default()))
        })
    };
    let script = [Answer::calls(&["note"]), Answer::calls(&["note"]), DONE()];
    let fixture = Fixture::new(CheckpointInterval::Step);
    let agent = agent_of(&script, vec![note]);
    let options = SessionOptions {
        persistence: Some(key_value(&store)),
        save_interval: SaveInterval::Tool,
        ..options(&fixture.ids, CheckpointInterval::Step)
    };
    let session = Session::new(agent.clone(), options).unwrap();
    let fixture = Fixture { agent, ..fixture };

    block_on(session.run("go", context(&fixture, session.agent()))).unwrap();

    let seen = seen.lock().unwrap().clone();
    let waiting: Vec<_> = seen.iter().map(|text| in_doubt(&fixture.load(text))).collect();
    assert_eq!(waiting, [["call-1-0"], ["call-2-0"]]);
}

#[test]
fn resolved_calls_are_not_repeated() {
    let killed = Killed::of(&[Answer::calls(&["never", "never", "never"]), DONE()]);
    let session = killed.loaded();
    session.resolve("call-1-0", Resolution::Result(raw(r#"{"paid":true}"#))).unwrap();
    session.resolve("call-1-1", Resolution::Error("It was refused.".into())).unwrap();

    let session = killed.fixture.load(&session.to_json().unwrap());
    assert_eq!(asked(&session, &killed), ["call-1-2"]);
    session.resolve("call-1-2", Resolution::Result(raw("null"))).unwrap();
    let turn = block_on(session.resume(context(&killed.fixture, session.agent()))).unwrap();

    assert_eq!(killed.fixture.tools_run().len(), 3);
    let results: Vec<_> =
        turn.tool_executions.iter().map(|call| (call.result.get(), call.is_error)).collect();
    assert_eq!(results, [(r#"{"paid":true}"#, false), (r#""It was refused.""#, true), ("null", false)]);
    assert_eq!(texts(&session).len(), 4);
    assert!(!session.is_resumable());
}

#[test]
fn a_retried_call_runs_again_and_is_in_doubt_again_after_another_kill() {
    let killed = Killed::of(&[Answer::calls(&["never"]), DONE()]);
    let session = killed.loaded().with_persistence(Some(key_value(&killed.store)));
    session.resolve("call-1-0", Resolution::Retry).unwrap();
    assert!(in_doubt(&session).is_empty());
    assert!(in_doubt(&killed.fixture.load(&session.to_json().unwrap())).is_empty());

    let mut run = Box::pin(session.resume(context(&killed.fixture, session.agent())));
    assert!(poll_at_most(run.as_mut(), 100).is_none());
    std::mem::forget(run);

    assert_eq!(killed.fixture.tools_run(), ["call-1-0", "call-1-0"]);
    assert_eq!(in_doubt(&killed.loaded()), ["call-1-0"]);
}

#[test]
fn a_repeated_call_has_the_same_idempotency_key() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let pay = |finishes: bool| {
        let keys = Arc::clone(&keys);
        tool("pay").with_idempotence().with_function(move |invocation| {
            keys.lock().unwrap().push(invocation.idempotency_key());
            async move {
                if !finishes {
                    std::future::pending::<()>().await;
                }
                Ok(RawJson::default())
            }
        })
    };
    let script = [Answer::calls(&["pay", "pay"]), DONE()];
    let killed = Killed::new(&script, vec![pay(false)], Approval::Granted);

    let session = killed.loaded_with(&script, vec![pay(true)]);
    assert!(in_doubt(&session).is_empty());
    block_on(session.resume(context(&killed.fixture, session.agent()))).unwrap();

    let keys = keys.lock().unwrap().clone();
    assert_eq!((keys.len(), keys[0] != keys[1]), (4, true));
    assert_eq!(keys[..2], keys[2..]);
}

#[test]
fn calls_of_tools_that_the_agent_no_longer_has_are_in_doubt() {
    let killed = Killed::of(&[Answer::calls(&["look", "never"]), DONE()]);
    let script = [Answer::calls(&["look", "never"]), DONE()];
    let killed_look = Killed::new(&script, vec![tool("never").with_idempotence()], Approval::Granted);

    assert_eq!(in_doubt(&killed.loaded_with(&script, Vec::new())), ["call-1-1"]);
    let session = killed_look.loaded_with(&script, Vec::new());
    assert_eq!(in_doubt(&session), ["call-1-1"]);
    session.resolve("call-1-1", Resolution::Retry).unwrap();
    let turn = block_on(session.resume(killed_look.fixture.context())).unwrap();
    assert!(turn.tool_executions.iter().all(|call| call.is_error));
}

#[test]
fn calls_that_were_not_approved_are_not_in_doubt() {
    let asks = Killed::new(&[Answer::calls(&["guarded", "never"]), DONE()], tools(), Approval::Ask);
    assert_eq!(in_doubt(&asks.loaded()), ["call-1-1"]);
    assert_eq!(asks.loaded().pending()[0].tool_call_id, "call-1-0");

    let never = tool("never").with_approval();
    let granted = Killed::new(&[Answer::calls(&["never"]), DONE()], vec![never], Approval::Granted);
    assert_eq!(in_doubt(&granted.loaded()), ["call-1-0"]);
    // The save before it: the handler had not answered.
    let texts = granted.store.texts();
    let before = granted.fixture.load(&texts[texts.len() - 2]);
    assert!(in_doubt(&before).is_empty());
    assert!(before.is_resumable());

    let session = asks.loaded();
    session.decide("call-1-0", Verdict::Denied { reason: None }, None).unwrap();
    session.resolve("call-1-1", Resolution::Result(raw("1"))).unwrap();
    let turn = block_on(session.resume(asks.fixture.context())).unwrap();
    let mut approved: Vec<_> = turn.tool_executions.iter().map(|call| call.approved).collect();
    approved.sort();
    assert_eq!(approved, [None, Some(false)]);
}

#[test]
fn a_run_that_ended_in_its_process_has_no_calls_in_doubt() {
    let script = [Answer::calls(&["echo", "never"]), DONE()];
    let killed = Killed::of(&script);
    let fixture = &killed.fixture;
    let cancelled =
        Session::new(fixture.agent.clone(), options(&fixture.ids, CheckpointInterval::Step)).unwrap();
    drop(poll_at_most(Box::pin(cancelled.run("go", fixture.context())).as_mut(), 100));

    let loaded = fixture.load(&cancelled.to_json().unwrap());

    assert!(loaded.is_resumable());
    assert!(in_doubt(&cancelled).is_empty() && in_doubt(&loaded).is_empty());
    let mut run = Box::pin(loaded.resume(fixture.context()));
    assert!(poll_at_most(run.as_mut(), 100).is_none(), "`never` is called again");
}

#[test]
fn a_run_that_failed_is_saved_without_calls_in_doubt() {
    let store = Arc::new(MemoryStore::default());
    let fixture = Fixture::new(CheckpointInterval::Step);
    let host = Arc::new(TestHost {
        hooks: HookSet::all(),
        failures: vec![("on_tool_error", HostError::raised("ValueError", "no"))],
        ..TestHost::default()
    });
    let agent = agent_of(&[Answer::calls(&["fail"]), DONE()], tools());
    let session = Session::new(agent.clone(), options(&fixture.ids, CheckpointInterval::Step)).unwrap();
    let session = session.with_persistence(Some(key_value(&store)));
    let fixture = Fixture { host, agent, ..fixture };

    block_on(session.run("go", fixture.context())).unwrap_err();

    let loaded = fixture.load(store.texts().last().unwrap());
    assert!(loaded.is_resumable() && in_doubt(&loaded).is_empty());
}

#[test]
fn invalid_resolutions_are_refused() {
    let killed = Killed::of(&[Answer::calls(&["echo", "never"]), DONE()]);
    let session = killed.loaded();

    let unknown = session.resolve("call-1-0", Resolution::Retry).unwrap_err();
    let message = "has no call \"call-1-0\" in doubt; these are: never (call-1-1)";
    assert!(unknown.to_string().ends_with(message), "{unknown}");
    session.resolve("call-1-1", Resolution::Retry).unwrap();
    let twice = session.resolve("call-1-1", Resolution::Retry);
    assert!(matches!(twice, Err(SessionError::AlreadyDecided { .. })), "{twice:?}");
    let active = killed.fixture.session.resolve("call-1-1", Resolution::Retry);
    assert!(matches!(active, Err(SessionError::RunActive { .. })), "{active:?}");
    let empty = Fixture::new(CheckpointInterval::Step).session.resolve("x", Resolution::Retry).unwrap_err();
    assert!(empty.to_string().ends_with("has no call \"x\" in doubt; none is"), "{empty}");
}

#[test]
fn a_new_run_does_not_drop_calls_in_doubt_and_discard_does() {
    let killed = Killed::of(&[Answer::calls(&["never"]), DONE()]);
    let session = killed.loaded();

    let refused = block_on(session.run("other", killed.fixture.context())).unwrap_err();
    assert!(refused.to_string().contains("never (call-1-0); `resolve` the calls in doubt"), "{refused}");
    session.resolve("call-1-0", Resolution::Retry).unwrap();
    let refused = block_on(session.run("other", killed.fixture.context()));
    assert!(matches!(refused, Err(SessionError::OpenApprovals { .. })), "{refused:?}");

    assert!(session.discard().unwrap());
    assert!(session.in_doubt().is_empty() && !session.is_resumable());
}

/// An outer agent that calls `helper`, whose tools are given.
fn with_helper(script: &[Answer], log: &Log) -> Vec<Tool> {
    let helper = agent_of(script, functions(log));
    let options = ToToolOptions { name: Some("helper".to_owned()), ..ToToolOptions::default() };
    std::iter::once(helper.to_tool(options)).chain(functions(log)).collect()
}

#[test]
fn calls_of_sub_agents_are_in_doubt_in_their_own_sessions() {
    let inner = [Answer::calls(&["echo", "never"]), DONE()];
    let outer =
        [Answer { calls: vec![("helper".into(), r#"{"task":"x"}"#.into())], ..Answer::default() }, DONE()];
    let log = Log::default();
    let killed = Killed::new(&outer, with_helper(&inner, &log), Approval::Granted);

    let session = killed.loaded();
    assert_eq!(in_doubt(&session), ["call-1-1"]);
    assert_eq!(session.in_doubt()[0].tool_name, "never");
    assert_eq!(asked(&session, &killed), ["call-1-1"]);
    session.resolve("call-1-1", Resolution::Result(raw("7"))).unwrap();
    let session = killed.fixture.load(&session.to_json().unwrap());
    assert!(in_doubt(&session).is_empty());
    let turn = block_on(session.resume(context(&killed.fixture, session.agent()))).unwrap();

    assert_eq!(turn.tool_executions[0].result.get(), r#""Done.""#);
    assert_eq!(*log.lock().unwrap(), ["call-1-0", "call-1-1"]);
    // Without the sub-agent, the call of it is in doubt.
    assert_eq!(in_doubt(&killed.loaded_with(&outer, tools())), ["call-1-0"]);
}

#[test]
fn parallel_sub_agents_save_the_same_session_without_a_deadlock() {
    let inner = [Answer::calls(&["echo", "echo"]), Answer::calls(&["echo"]), DONE()];
    let call = || ("helper".to_owned(), r#"{"task":"x"}"#.to_owned());
    let echo = || ("echo".to_owned(), "{}".to_owned());
    let outer = [Answer { calls: vec![call(), echo(), call(), echo(), call()], ..Answer::default() }, DONE()];
    let store = Arc::new(MemoryStore::slow());
    let fixture = Fixture::new(CheckpointInterval::Step);
    let log = Log::default();
    let agent = agent_of(&outer, with_helper(&inner, &log));
    let options = SessionOptions {
        persistence: Some(key_value(&store)),
        save_interval: SaveInterval::Tool,
        ..options(&fixture.ids, CheckpointInterval::Step)
    };
    let session = Session::new(agent, options).unwrap();

    let mut run = Box::pin(session.run("go", context(&fixture, session.agent())));
    let turn = poll_at_most(run.as_mut(), 10_000).expect("the run does not end").unwrap();

    assert_eq!(turn.tool_executions.len(), 5);
    // Each of the three sub-agents: the start, two responses, three tools, two steps.
    assert!(store.count() > 3 * 8, "{}", store.count());
}

#[test]
fn a_store_that_fails_in_a_sub_agent_stops_the_whole_run() {
    let inner = [Answer::calls(&["echo"]), DONE()];
    let outer =
        [Answer { calls: vec![("helper".into(), r#"{"task":"x"}"#.into())], ..Answer::default() }, DONE()];
    let store = Arc::new(MemoryStore::default());
    let fixture = Fixture::new(CheckpointInterval::Step);
    let log = Log::default();
    let agent = agent_of(&outer, with_helper(&inner, &log));
    let options = SessionOptions {
        persistence: Some(key_value(&store)),
        save_interval: SaveInterval::Tool,
        ..options(&fixture.ids, CheckpointInterval::Step)
    };
    let session = Session::new(agent, options).unwrap();
    // The start and the response of the outer run are saved.
    store.fail_after(2);

    let failure = block_on(session.run("go", context(&fixture, session.agent()))).unwrap_err();

    assert!(failure.to_string().contains("disk full"), "{failure}");
    assert!(log.lock().unwrap().is_empty());
    store.fail(false);
    let turn = block_on(session.resume(context(&fixture, session.agent()))).unwrap();
    assert_eq!(turn.tool_executions[0].result.get(), r#""Done.""#);
    assert_eq!(log.lock().unwrap().len(), 1);
}

/// Offers `look`, which is idempotent, and `never`, which is not.
#[derive(Debug)]
struct LookAndNever;

impl Toolset for LookAndNever {
    fn name(&self) -> &'static str {
        "look and never"
    }

    fn tools<'a>(&'a self, _: &'a Arc<ToolsetContext>) -> BoxFuture<'a, Result<Vec<Tool>, HostError>> {
        Box::pin(std::future::ready(Ok(vec![tool("look").with_idempotence(), tool("never")])))
    }
}

#[test]
fn a_resumed_run_asks_its_toolsets_whether_calls_can_be_repeated() {
    let script = [Answer::calls(&["look", "never"]), DONE()];
    let killed = Killed::new(&script, tools(), Approval::Granted);
    let options = AgentOptions {
        model: Some(Arc::new(ScriptModel::new(script))),
        toolsets: vec![Arc::new(LookAndNever)],
        ..AgentOptions::default()
    };
    let agent = Agent::new(options, &CountingIds::default());
    let fixture = Fixture { agent, ..Fixture::new(CheckpointInterval::Step) };
    // Saved when no call had returned. Without the toolset, both calls are in doubt.
    let texts = killed.store.texts();
    let session = texts.iter().map(|text| fixture.load(text)).find(|session| in_doubt(session).len() == 2);
    let session = session.unwrap();

    assert_eq!(asked(&session, &killed), ["call-1-1"]);
    assert_eq!(in_doubt(&session), ["call-1-1"]);
    session.resolve("call-1-1", Resolution::Result(raw("2"))).unwrap();
    let turn = block_on(session.resume(fixture.context())).unwrap();

    assert_eq!(fixture.tools_run(), ["call-1-0"]);
    assert_eq!(turn.tool_executions.len(), 2);
}
