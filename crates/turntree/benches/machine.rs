//! Overhead of a run: an instant model, an instant tool, one tool round.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot start may panic")]

use std::hint::black_box;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt as _, StreamExt as _};
use turntree::agents::host::{FunctionHost, RunContext};
use turntree::agents::machine::{Machine, RunState, Setup};
use turntree::agents::{Agent, AgentOptions, Strategy, Tool};
use turntree::core::ids::RandomIds;
use turntree::core::json::{Extra, RawJson};
use turntree::core::time::SystemClock;
use turntree::message::message::History;
use turntree::message::{Body, Message, StreamEvent, TokenUsage, ToolCall, ToolDefinition};
use turntree::upp::{
    Capabilities, Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, StopReason, UppError,
};

/// Calls its tool once, then returns a text.
#[derive(Debug)]
struct InstantModel {
    tool_call: ModelResponse,
    reply: ModelResponse,
}

impl InstantModel {
    fn new() -> Self {
        let call = ToolCall {
            tool_call_id: "call-1".to_owned(),
            tool_name: "weather".to_owned(),
            arguments: RawJson::from_text(r#"{"city":"Tokyo"}"#.to_owned()).unwrap(),
            extra: Extra::new(),
        };
        let tool_call = Body::Assistant { content: Vec::new(), tool_calls: Some(vec![call]) };
        let response = |message| ModelResponse {
            message: Arc::new(message),
            usage: TokenUsage::of_call(10, 5),
            stop_reason: StopReason::EndTurn,
            data: None,
        };
        Self {
            tool_call: response(Message::new(tool_call, &RandomIds, &SystemClock)),
            reply: response(Message::assistant("Sunny.", &RandomIds, &SystemClock)),
        }
    }

    fn answer(&self, request: &ModelRequest) -> ModelResponse {
        let answered = request.messages.last().is_some_and(|last| !last.results().is_empty());
        if answered { self.reply.clone() } else { self.tool_call.clone() }
    }
}

impl Model for InstantModel {
    fn model_id(&self) -> &'static str {
        "instant"
    }

    fn provider(&self) -> &'static str {
        "bench"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        Box::pin(ready(Ok(self.answer(&request))))
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let response = self.answer(&request);
        let texts = (0..50).map(|_| StreamEvent::text(0, "word "));
        let events = [StreamEvent::message_start()].into_iter().chain(texts).map(ModelEvent::Event);
        Box::pin(futures_util::stream::iter(
            events.chain([ModelEvent::Done(response)]).map(Ok).collect::<Vec<_>>(),
        ))
    }
}

fn agent() -> Agent {
    let definition = ToolDefinition {
        name: "weather".to_owned(),
        description: "Forecast for a city.".to_owned(),
        parameters: RawJson::empty_object(),
        metadata: None,
        extra: Extra::new(),
    };
    let tool = Tool::new(definition).with_function(|_| ready(Ok(RawJson::from_str_value("sunny"))));
    let options = AgentOptions {
        model: Some(Arc::new(InstantModel::new())),
        tools: vec![tool],
        ..AgentOptions::default()
    };
    Agent::new(options, &RandomIds)
}

/// Polls until ready; every future of these runs is ready at once.
fn now<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.poll_unpin(&mut context) {
            return output;
        }
    }
}

fn runs(criterion: &mut Criterion) {
    let agent = agent();
    let context = RunContext::new(Arc::new(FunctionHost::new(Arc::clone(agent.tools()))));
    criterion.bench_function("run/one tool round", |bencher| {
        bencher.iter(|| black_box(now(agent.run("Hello", context.clone())).unwrap()));
    });
    criterion.bench_function("run/one tool round streamed, 100 deltas", |bencher| {
        bencher.iter(|| {
            let mut stream = agent.stream("Hello", context.clone()).unwrap();
            black_box(now(stream.by_ref().count()));
        });
    });
    for length in [10, 10_000] {
        let message = Arc::new(Message::user("before", &RandomIds, &SystemClock));
        let history: History = (0..length).map(|_| Arc::clone(&message)).collect();
        criterion.bench_function(&format!("run/one tool round after {length} messages"), |bencher| {
            bencher.iter(|| {
                black_box(now(agent.run_with_history(history.clone(), "Hello", context.clone())).unwrap())
            });
        });
    }
}

fn states(criterion: &mut Criterion) {
    let input = Arc::new(Message::user("Hello", &RandomIds, &SystemClock));
    let machine =
        Machine::new(Setup::default(), RunState::new(&Strategy::default(), input, Arc::default())).unwrap();
    criterion.bench_function("state/snapshot", |bencher| bencher.iter(|| black_box(machine.state().clone())));
    criterion.bench_function("state/write", |bencher| {
        bencher.iter(|| black_box(serde_json::to_string(&machine).unwrap()));
    });
}

criterion_group!(benches, runs, states);
criterion_main!(benches);
