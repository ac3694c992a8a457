//! Helpers of the agent tests: a scripted model, a recording host, an executor of ten lines.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use turntree::agents::host::{
    Approval, BeforeCall, HookSet, Host, HostError, HostFuture, RunContext, StepResult, ToolInvocation,
};
use turntree::agents::machine::RunState;
use turntree::agents::types::{Boundary, ExecutionState};
use turntree::agents::{Agent, AgentOptions, Strategy, Tool};
use turntree::core::ids::{CountingIds, IdSource};
use turntree::core::json::{Extra, RawJson, RawObject};
use turntree::core::telemetry::Tracer;
use turntree::core::time::{Clock, FixedClock, Timestamp};
use turntree::message::{
    Body, ContentBlock, Message, MessageKind, StreamEvent, TokenUsage, ToolCall, ToolDefinition, ToolResult,
    Turn,
};
use turntree::upp::{
    Capabilities, Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, StopReason, UppError,
};

pub(crate) fn raw(text: &str) -> RawJson {
    RawJson::from_text(text.to_owned()).unwrap()
}

pub(crate) fn clock() -> FixedClock {
    FixedClock(Timestamp::from_microseconds(1_700_000_000_000_000))
}

/// Polls a future on this thread, with no runtime anywhere.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Returns `Pending` `times` times, each time after waking its task.
pub(crate) async fn yield_times(times: usize) {
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// One response of a scripted model.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) calls: Vec<(String, String)>,
    pub(crate) data: Option<RawJson>,
}

impl Answer {
    pub(crate) fn text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// A response that calls these tools, each with the arguments `{}`.
    pub(crate) fn calls(names: &[&str]) -> Self {
        Self {
            calls: names.iter().map(|name| ((*name).to_owned(), "{}".to_owned())).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn with_data(self, data: &str) -> Self {
        Self { data: Some(raw(data)), ..self }
    }

    /// This answer as the `number`th response of a run.
    pub(crate) fn response(&self, number: usize) -> ModelResponse {
        let calls: Vec<ToolCall> = self
            .calls
            .iter()
            .enumerate()
            .map(|(place, (name, arguments))| ToolCall {
                tool_call_id: format!("call-{number}-{place}"),
                tool_name: name.clone(),
                arguments: raw(arguments),
                extra: Extra::new(),
            })
            .collect();
        let content = if self.text.is_empty() { Vec::new() } else { vec![ContentBlock::text(&*self.text)] };
        let tool_calls = (!calls.is_empty()).then_some(calls);
        let message = Message {
            id: format!("answer-{number}"),
            timestamp: clock().now(),
            metadata: None,
            body: Body::Assistant { content, tool_calls },
            extra: Extra::new(),
        };
        ModelResponse {
            message: Arc::new(message),
            usage: TokenUsage::of_call(10, number as u64),
            stop_reason: StopReason::EndTurn,
            data: self.data.clone(),
        }
    }

    fn events(&self, response: &ModelResponse) -> Vec<StreamEvent> {
        let mut events = vec![StreamEvent::message_start()];
        for piece in self.text.split_inclusive(' ') {
            events.push(StreamEvent::text(0, piece));
        }
        for (place, call) in (1..).zip(response.message.tool_calls()) {
            let (id, name) = (call.tool_call_id.as_str().into(), call.tool_name.as_str().into());
            events.push(StreamEvent::tool_call(place, id, name, call.arguments.get()));
        }
        events.push(StreamEvent::message_stop());
        events
    }
}

/// A model that answers by a script: a request with `n` assistant messages gets answer `n`. Yields once before each event.
#[derive(Debug)]
pub(crate) struct ScriptModel {
    pub(crate) script: Vec<Result<Answer, UppError>>,
    pub(crate) requests: Mutex<Vec<ModelRequest>>,
    pub(crate) capabilities: Capabilities,
    /// The number of calls that were dropped before their end.
    pub(crate) dropped: Arc<AtomicUsize>,
}

impl ScriptModel {
    pub(crate) fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::failing(script.into_iter().map(Ok))
    }

    pub(crate) fn failing(script: impl IntoIterator<Item = Result<Answer, UppError>>) -> Self {
        Self {
            script: script.into_iter().collect(),
            requests: Mutex::default(),
            capabilities: Capabilities::ALL,
            dropped: Arc::default(),
        }
    }

    fn take(&self, request: ModelRequest) -> Result<(Answer, ModelResponse), UppError> {
        let answered =
            request.messages.iter().filter(|message| message.kind() == MessageKind::Assistant).count();
        self.requests.lock().unwrap().push(request);
        let answer = self.script.get(answered).expect("the script has ended").clone()?;
        let response = answer.response(answered + 1);
        Ok((answer, response))
    }
}

/// Increments the counter if it is dropped before `finish(true)`.
pub(crate) struct UnfinishedGuard(Arc<AtomicUsize>, bool);

impl UnfinishedGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        Self(Arc::clone(count), false)
    }

    fn finish(&mut self, finished: bool) {
        self.1 = finished;
    }
}

impl Drop for UnfinishedGuard {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Model for ScriptModel {
    fn model_id(&self) -> &'static str {
        "script"
    }

    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let taken = self.take(request);
        let mut guard = UnfinishedGuard::new(&self.dropped);
        Box::pin(async move {
            yield_times(1).await;
            guard.finish(true);
            taken.map(|(_, response)| response)
        })
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let items: Vec<Result<ModelEvent, UppError>> = match self.take(request) {
            Ok((answer, response)) => {
                let events = answer.events(&response).into_iter().map(ModelEvent::Event);
                events.chain([ModelEvent::Done(response)]).map(Ok).collect()
            }
            Err(error) => vec![Ok(ModelEvent::Event(StreamEvent::message_start())), Err(error)],
        };
        let guard = UnfinishedGuard::new(&self.dropped);
        let state = (items.into_iter(), guard);
        Box::pin(futures_util::stream::unfold(state, |(mut items, mut guard)| async move {
            yield_times(1).await;
            let item = items.next();
            guard.finish(item.is_none() || matches!(item, Some(Ok(ModelEvent::Done(_)) | Err(_))));
            item.map(|item| (item, (items, guard)))
        }))
    }
}

/// A host that records the hooks and tools it runs.
pub(crate) struct TestHost {
    pub(crate) hooks: HookSet,
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) ids: CountingIds,
    pub(crate) clock: FixedClock,
    /// The errors of hooks, by the name of the hook.
    pub(crate) failures: Vec<(&'static str, HostError)>,
    pub(crate) before: BeforeCall,
    pub(crate) after: Option<RawJson>,
    pub(crate) approval: Approval,
    /// The step after which the stop condition ends the run.
    pub(crate) stop_after: Option<u32>,
    pub(crate) recovery: Option<Arc<Turn>>,
    pub(crate) metadata: Mutex<Option<Arc<RawObject>>>,
    pub(crate) saved: Mutex<Vec<(Boundary, RunState)>>,
    /// The number of tools that run now.
    pub(crate) running: AtomicUsize,
    /// The largest value of `running`.
    pub(crate) most_running: AtomicUsize,
    pub(crate) dropped_tools: Arc<AtomicUsize>,
    pub(crate) tracer: Option<Arc<dyn Tracer>>,
}

impl Default for TestHost {
    fn default() -> Self {
        Self {
            hooks: HookSet::empty(),
            log: Mutex::default(),
            ids: CountingIds::default(),
            clock: clock(),
            failures: Vec::new(),
            before: BeforeCall::Proceed,
            after: None,
            approval: Approval::Granted,
            stop_after: None,
            recovery: None,
            metadata: Mutex::default(),
            saved: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            dropped_tools: Arc::default(),
            tracer: None,
        }
    }
}

impl TestHost {
    pub(crate) fn with_hooks() -> Self {
        Self { hooks: HookSet::all(), ..Self::default() }
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn hook<T: Send + 'static>(&self, name: &'static str, about: &str, value: T) -> HostFuture<'_, T> {
        self.log.lock().unwrap().push(format!("{name} {about}").trim_end().to_owned());
        let failure = self.failures.iter().find(|(failing, _)| *failing == name);
        let outcome = failure.map_or(Ok(value), |(_, error)| Err(error.clone()));
        Box::pin(async move {
            yield_times(1).await;
            outcome
        })
    }
}

impl Host for TestHost {
    fn hooks(&self) -> HookSet {
        self.hooks
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn ids(&self) -> &dyn IdSource {
        &self.ids
    }

    fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        self.tracer.clone()
    }

    /// `echo` returns its arguments, `fail` fails, `slow` yields 20 times, `never` does not end.
    fn call_tool(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, RawJson> {
        Box::pin(async move {
            let call = &invocation.call;
            self.log.lock().unwrap().push(format!("run {}", call.tool_call_id));
            let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_running.fetch_max(running, Ordering::Relaxed);
            let mut guard = UnfinishedGuard::new(&self.dropped_tools);
            match call.tool_name.as_str() {
                "slow" => yield_times(20).await,
                "never" => std::future::pending().await,
                _ => yield_times(1).await,
            }
            guard.finish(true);
            self.running.fetch_sub(1, Ordering::Relaxed);
            match call.tool_name.as_str() {
                "fail" => Err(HostError::raised("ValueError", "it broke")),
                "picky" => Err(HostError::invalid_arguments("days: expected an integer")),
                _ => Ok(call.arguments.clone()),
            }
        })
    }

    fn approve(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, Approval> {
        let about = format!("{} {}", invocation.call.tool_call_id, invocation.call.arguments);
        self.hook("approve", &about, self.approval.clone())
    }

    fn on_tool_call(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, ()> {
        self.hook("on_tool_call", &invocation.call.tool_call_id, ())
    }

    fn on_before_call(&self, invocation: Arc<ToolInvocation>) -> HostFuture<'_, BeforeCall> {
        self.hook("on_before_call", &invocation.call.tool_call_id, self.before.clone())
    }

    fn on_after_call(&self, call: Arc<ToolInvocation>, result: RawJson) -> HostFuture<'_, Option<RawJson>> {
        self.hook("on_after_call", &format!("{} {result}", call.call.tool_call_id), self.after.clone())
    }

    fn on_tool_error(&self, invocation: Arc<ToolInvocation>, error: HostError) -> HostFuture<'_, ()> {
        self.hook("on_tool_error", &format!("{} {error}", invocation.call.tool_call_id), ())
    }

    fn on_max_iterations(&self, limit: u32) -> HostFuture<'_, ()> {
        self.hook("on_max_iterations", &limit.to_string(), ())
    }

    fn on_step_start(&self, step: u32, _: ExecutionState) -> HostFuture<'_, ()> {
        self.hook("on_step_start", &step.to_string(), ())
    }

    fn on_reason(&self, step: u32, reasoning: String) -> HostFuture<'_, ()> {
        self.hook("on_reason", &format!("{step} {reasoning}"), ())
    }

    fn on_act(&self, step: u32, _: Vec<ToolCall>) -> HostFuture<'_, ()> {
        self.hook("on_act", &step.to_string(), ())
    }

    fn on_observe(&self, step: u32, results: Vec<ToolResult>) -> HostFuture<'_, ()> {
        self.hook("on_observe", &format!("{step} {}", results.len()), ())
    }

    fn on_step_end(&self, step: u32, result: StepResult) -> HostFuture<'_, ()> {
        let about = format!("{step} +{} ={}", result.turn.messages.len(), result.state.messages.len());
        self.hook("on_step_end", &about, ())
    }

    fn stop_condition(&self, state: ExecutionState) -> HostFuture<'_, bool> {
        let stops = self.stop_after == Some(state.step);
        self.hook("stop_condition", &state.step.to_string(), stops)
    }

    fn on_complete(&self, turn: Arc<Turn>) -> HostFuture<'_, ()> {
        self.hook("on_complete", &turn.messages.len().to_string(), ())
    }

    fn on_error(&self, error: UppError, _: ExecutionState) -> HostFuture<'_, Option<Arc<Turn>>> {
        self.hook("on_error", error.code.as_str(), self.recovery.clone())
    }

    fn checkpoint(&self, boundary: Boundary, state: RunState) -> HostFuture<'_, Option<String>> {
        let about = format!("{boundary:?} {}", state.step());
        self.saved.lock().unwrap().push((boundary, state));
        self.hook("checkpoint", &about, Some(about.clone()))
    }

    fn changed_metadata(&self) -> Option<Arc<RawObject>> {
        self.metadata.lock().unwrap().take()
    }
}

/// Creates a tool with this name.
pub(crate) fn tool(name: &str) -> Tool {
    let definition = ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: raw(r#"{"type":"object","properties":{}}"#),
        metadata: None,
        extra: Extra::new(),
    };
    Tool::new(definition)
}

/// Creates an agent with all tools of [`TestHost`].
pub(crate) fn agent(model: Arc<dyn Model>, max_iterations: u32) -> Agent {
    agent_with(model, Strategy::loop_(max_iterations), None)
}

/// As [`agent`], with this strategy and this output schema.
pub(crate) fn agent_with(model: Arc<dyn Model>, strategy: Strategy, structure: Option<&str>) -> Agent {
    let tools = ["echo", "fail", "slow", "never", "picky"].map(tool).into_iter();
    let guarded = tool("guarded").with_approval();
    let options = AgentOptions {
        model: Some(model),
        tools: tools.chain([guarded]).collect(),
        strategy: Some(strategy),
        structure: structure.map(|schema| Arc::new(raw(schema))),
        id: Some("00000000-0000-4000-8000-00000000000a".into()),
        ..AgentOptions::default()
    };
    Agent::new(options, &CountingIds::default())
}

/// Fails unless the message after each message with tool calls has their results, in call order.
pub(crate) fn assert_valid_history(messages: &[Arc<Message>]) {
    let mut messages = messages.iter().peekable();
    while let Some(message) = messages.next() {
        if !message.has_tool_calls() {
            continue;
        }
        let answers = messages.next().expect("a call is not answered");
        let called: Vec<_> = message.tool_calls().iter().map(|call| &call.tool_call_id).collect();
        let answered: Vec<_> = answers.results().iter().map(|result| &result.tool_call_id).collect();
        assert_eq!(called, answered);
    }
}

/// True if the response has the metadata of an aborted run.
pub(crate) fn is_marked_aborted(turn: &Turn) -> bool {
    turn.response()
        .namespace("uap")
        .is_some_and(|uap| uap.get("aborted").is_some_and(|aborted| aborted.get() == "true"))
}

pub(crate) fn run(script: &[Answer], host: &Arc<TestHost>) -> Result<Arc<Turn>, UppError> {
    let model = Arc::new(ScriptModel::new(script.to_vec()));
    block_on(agent(model, 10).run("Hello", RunContext::new(Arc::clone(host) as _)))
}

pub(crate) fn one_round(name: &str) -> [Answer; 2] {
    [Answer::calls(&[name]), Answer::text("All done now.")]
}

pub(crate) fn records(turn: &Turn) -> Vec<(&str, &str, bool, Option<bool>)> {
    let records = turn.tool_executions.iter();
    records
        .map(|record| (&*record.tool_call_id, record.result.get(), record.is_error, record.approved))
        .collect()
}

pub(crate) fn tool_results(turn: &Turn) -> Vec<&str> {
    turn.messages[2].results().iter().map(|result| result.result.get()).collect()
}
