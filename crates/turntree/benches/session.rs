//! Cost of a checkpoint after 10 to 10 000 messages, in time and memory; cost of restoring and saving.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may panic, and prints its results"
)]

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use futures_util::future::{BoxFuture, ready};
use turntree::agents::host::{FunctionHost, RunContext};
use turntree::agents::session::{CheckpointInterval, SessionSnapshot};
use turntree::agents::{Agent, AgentOptions, Session, SessionOptions, Strategy, Tool};
use turntree::core::ids::RandomIds;
use turntree::core::json::{Extra, RawJson};
use turntree::core::limits::Limits;
use turntree::core::time::SystemClock;
use turntree::message::{Body, Message, MessageKind, TokenUsage, ToolCall, ToolDefinition};
use turntree::upp::{Capabilities, Model, ModelRequest, ModelResponse, ModelStream, StopReason, UppError};

const STEPS: u32 = 50;

/// Calls a tool [`STEPS`] − 1 times, then returns a text; every future is ready at once.
#[derive(Debug)]
struct ToolLoopModel;

impl Model for ToolLoopModel {
    fn model_id(&self) -> &'static str {
        "tool_loop"
    }

    fn provider(&self) -> &'static str {
        "bench"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let mut newest = request.messages.iter().rev();
        let done = newest.position(|message| message.kind() == MessageKind::User).unwrap() / 2;
        let calls = (done + 1 < STEPS as usize).then(|| {
            let arguments = RawJson::empty_object();
            vec![ToolCall {
                tool_call_id: "call".into(),
                tool_name: "noop".into(),
                arguments,
                extra: Extra::new(),
            }]
        });
        let body = Body::Assistant { content: Vec::new(), tool_calls: calls };
        let message = Arc::new(Message::new(body, &RandomIds, &SystemClock));
        let usage = TokenUsage::of_call(1, 1);
        let response = ModelResponse { message, usage, stop_reason: StopReason::EndTurn, data: None };
        Box::pin(ready(Ok(response)))
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        Box::pin(futures_util::stream::empty())
    }
}

fn agent_and_context() -> (Agent, RunContext) {
    let definition = ToolDefinition {
        name: "noop".into(),
        description: String::new(),
        parameters: RawJson::empty_object(),
        metadata: None,
        extra: Extra::new(),
    };
    let noop = Tool::new(definition).with_function(|_| ready(Ok(RawJson::default())));
    let options = AgentOptions {
        model: Some(Arc::new(ToolLoopModel)),
        tools: vec![noop],
        strategy: Some(Strategy::loop_(STEPS)),
        ..AgentOptions::default()
    };
    let agent = Agent::new(options, &RandomIds);
    let host = FunctionHost::new(Arc::clone(agent.tools()));
    (agent, RunContext::new(Arc::new(host)))
}

fn history(messages: usize) -> Vec<Arc<Message>> {
    let text = "Rain until noon, then clouds.";
    (0..messages).map(|_| Arc::new(Message::user(text, &RandomIds, &SystemClock))).collect()
}

fn session(agent: &Agent, interval: CheckpointInterval, history: &[Arc<Message>]) -> Session {
    let options = SessionOptions { interval, ..SessionOptions::default() };
    let session = Session::new(agent.clone(), options).unwrap();
    session.tree().lock().push(history.iter().cloned(), &SystemClock);
    session
}

/// Polls until ready; every future is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

/// Resident memory of this process in bytes; Linux only.
fn resident() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    pages.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

fn memory(messages: usize) {
    let (agent, context) = agent_and_context();
    let history = history(messages);
    let memory_growth = |interval| {
        let session = session(&agent, interval, &history);
        let before = resident()?;
        for _ in 0..200 {
            now(session.run("go", context.clone())).unwrap();
        }
        let memory_growth = resident()?.saturating_sub(before);
        drop(session);
        Some(memory_growth)
    };
    // The first run warms up the allocator; the other two measure with and without checkpoints.
    memory_growth(CheckpointInterval::Off);
    let both = memory_growth(CheckpointInterval::Off).zip(memory_growth(CheckpointInterval::Step));
    if let Some((without, with)) = both {
        let each = with.saturating_sub(without) / (200 * STEPS as usize);
        println!(
            "memory of a checkpoint after {messages} messages: {each} bytes ({with} with, {without} without)"
        );
    }
}

fn checkpoints(criterion: &mut Criterion) {
    let (agent, context) = agent_and_context();
    let mut group = criterion.benchmark_group("session/run_of_50_steps");
    for messages in [10, 100, 1_000, 10_000] {
        let history = history(messages);
        for (name, interval) in [("without", CheckpointInterval::Off), ("with", CheckpointInterval::Step)] {
            group.bench_function(format!("{name}_checkpoints_after_{messages}"), |bencher| {
                bencher.iter_batched_ref(
                    || session(&agent, interval, &history),
                    |session| now(session.run("go", context.clone())).unwrap(),
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

fn restores(criterion: &mut Criterion) {
    let (agent, context) = agent_and_context();
    let mut group = criterion.benchmark_group("session");
    for messages in [10, 10_000] {
        let session = session(&agent, CheckpointInterval::Step, &history(messages));
        for _ in 0..20 {
            now(session.run("go", context.clone())).unwrap();
        }
        let checkpoint_list = session.checkpoints();
        let (first, last) =
            (checkpoint_list.first().unwrap().id.clone(), checkpoint_list.last().unwrap().id.clone());
        group.bench_function(format!("restore_there_and_back_after_{messages}"), |bencher| {
            bencher.iter(|| {
                now(session.restore(&first)).unwrap();
                now(session.restore(&last)).unwrap();
            });
        });
        let text = session.to_json().unwrap();
        group.bench_function(format!("to_json_of_{}_kb", text.len() / 1024), |bencher| {
            bencher.iter(|| session.to_json().unwrap());
        });
        group.bench_function(format!("from_json_of_{}_kb", text.len() / 1024), |bencher| {
            bencher.iter(|| SessionSnapshot::from_json(black_box(&text), &Limits::default()).unwrap());
        });
    }
    group.finish();
}

/// Runs before the other benchmarks, because later allocations reuse freed memory.
fn memory_of_checkpoints(_: &mut Criterion) {
    memory(10);
    memory(10_000);
}

criterion_group!(benches, memory_of_checkpoints, checkpoints, restores);
criterion_main!(benches);
