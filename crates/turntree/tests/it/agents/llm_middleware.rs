//! Middleware around calls of `Llm`: hooks that change nothing, hooks that change the request or the outcome.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use proptest::prelude::*;
use turntree::agents::host::{FunctionHost, HostError, RunContext};
use turntree::agents::types::partial_turn;
use turntree::agents::{Llm, LlmOptions, LlmStream, Tool};
use turntree::core::ids::{CountingIds, RandomIds};
use turntree::core::json::{Extra, RawJson};
use turntree::message::message::History;
use turntree::message::{Message, StreamEvent, ToolDefinition, Turn};
use turntree::upp::middleware::hooks::HookFuture;
use turntree::upp::middleware::{
    CallContext, Emitted, Hooks, Middleware, MiddlewareStack, ParsedObject, Request,
};
use turntree::upp::providers::scripted::{Reply, Scripted};
use turntree::upp::{Capabilities, ErrorCode, Input, ModelRequest, UppError};

use crate::support::agents::{block_on, clock, raw};
use crate::support::with_cases;

/// Middleware with these hooks, all of them the defaults.
#[derive(Debug)]
struct Noop(Hooks);

impl Middleware for Noop {
    fn hooks(&self) -> Hooks {
        self.0
    }
}

fn doubling() -> Tool {
    let definition = ToolDefinition {
        name: "double".to_owned(),
        description: "Doubles.".to_owned(),
        parameters: raw(r#"{"type": "object"}"#),
        metadata: None,
        extra: Extra::new(),
    };
    Tool::new(definition).with_function(|_| async { Ok::<RawJson, HostError>(raw("8")) })
}

fn script(replies: &[bool]) -> Scripted {
    let reply = |calls: &bool| match calls {
        true => Reply::tool_call("double", raw(r#"{"x": 4}"#)),
        false => Reply::from("Eight, of course."),
    };
    let replies: Vec<Reply> = replies.iter().chain([&false]).map(reply).collect();
    Scripted::new(replies).with_sources(Arc::new(CountingIds::default()), Arc::new(clock()))
}

fn llm_with(model: Scripted, middleware: MiddlewareStack) -> (Llm, RunContext) {
    let options = LlmOptions { tools: vec![doubling()], middleware, ..LlmOptions::new(Arc::new(model)) };
    let llm = Llm::new(options, &RandomIds).unwrap();
    let host = FunctionHost::new(Arc::clone(llm.tools()))
        .with_sources(Arc::new(clock()), Arc::new(CountingIds::default()));
    (llm, RunContext::new(Arc::new(host)))
}

fn generate(model: Scripted, middleware: MiddlewareStack) -> Result<Arc<Turn>, UppError> {
    let (llm, context) = llm_with(model, middleware);
    block_on(llm.generate(History::new(), [Input::from("Double 4")], context))
}

fn stream(model: Scripted, middleware: MiddlewareStack) -> LlmStream {
    let (llm, context) = llm_with(model, middleware);
    llm.stream(History::new(), [Input::from("Double 4")], context).unwrap()
}

async fn read_all(mut stream: LlmStream) -> (Vec<StreamEvent>, Arc<Turn>) {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event.unwrap());
    }
    (events, stream.turn().await.unwrap())
}

fn any_hooks() -> impl Strategy<Value = Hooks> {
    let all = [
        Hooks::START,
        Hooks::REQUEST,
        Hooks::RESPONSE,
        Hooks::TURN,
        Hooks::END,
        Hooks::STREAM_EVENT,
        Hooks::STREAM_END,
        Hooks::TOOL_CALL,
        Hooks::TOOL_RESULT,
    ];
    proptest::sample::subsequence(all.to_vec(), 0..=all.len())
        .prop_map(|hooks| hooks.into_iter().fold(Hooks::empty(), |all, hook| all | hook))
}

proptest! {
    #![proptest_config(with_cases(48))]

    #[test]
    fn middleware_without_changes_does_not_change_events_or_turn(
        hooks in proptest::collection::vec(any_hooks(), 0..4),
        replies in proptest::collection::vec(any::<bool>(), 0..4),
    ) {
        let replies: Vec<bool> = replies.into_iter().take_while(|calls| *calls).collect();
        let chain = || hooks.iter().map(|hooks| Arc::new(Noop(*hooks)) as Arc<dyn Middleware>).collect();

        let with = generate(script(&replies), chain()).unwrap();
        let without = generate(script(&replies), MiddlewareStack::default()).unwrap();
        prop_assert_eq!(with, without);
        let with = block_on(read_all(stream(script(&replies), chain())));
        let without = block_on(read_all(stream(script(&replies), MiddlewareStack::default())));
        prop_assert_eq!(with, without);
    }
}

/// Records which of the three final hooks runs.
#[derive(Debug, Default)]
struct Outcomes(Mutex<Vec<&'static str>>);

impl Outcomes {
    fn note(&self, what: &'static str) -> HookFuture<'static> {
        self.0.lock().unwrap().push(what);
        Box::pin(std::future::ready(Ok(())))
    }

    fn chain(self: &Arc<Self>) -> MiddlewareStack {
        [Arc::clone(self) as Arc<dyn Middleware>].into_iter().collect()
    }
}

impl Middleware for Outcomes {
    fn on_end<'a>(&'a self, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("end")
    }
    fn on_error<'a>(&'a self, _: &'a UppError, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("error")
    }
    fn on_abort<'a>(&'a self, _: &'a UppError, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("abort")
    }
}

#[test]
fn on_end_runs_once_when_a_stream_is_read_and_its_turn_awaited() {
    let outcomes = Arc::new(Outcomes::default());

    block_on(read_all(stream(script(&[true]), outcomes.chain())));

    assert_eq!(*outcomes.0.lock().unwrap(), ["end"]);
}

#[test]
fn a_stream_aborted_before_its_last_event_is_read_calls_on_abort() {
    let outcomes = Arc::new(Outcomes::default());
    let mut stream = stream(script(&[]), outcomes.chain());

    let outcome = block_on(async {
        stream.next().await.unwrap().unwrap();
        stream.abort();
        stream.turn().await
    });

    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(*outcomes.0.lock().unwrap(), ["abort"]);
}

#[test]
fn a_dropped_stream_calls_on_abort_once() {
    let outcomes = Arc::new(Outcomes::default());
    let mut stream = stream(script(&[]), outcomes.chain());

    block_on(stream.next()).unwrap().unwrap();
    drop(stream);

    assert_eq!(*outcomes.0.lock().unwrap(), ["abort"]);
}

#[test]
fn a_failed_stream_calls_on_error_once() {
    let outcomes = Arc::new(Outcomes::default());
    let broken = Scripted::new([UppError::new(ErrorCode::RateLimited, "scripted", "slow down")]);
    let mut stream = stream(broken, outcomes.chain());

    assert_eq!(block_on(stream.turn()).unwrap_err().code, ErrorCode::RateLimited);
    assert_eq!(*outcomes.0.lock().unwrap(), ["error"]);
}

/// Changes the request in `on_request`.
struct EditRequest<F>(F);

impl<F> std::fmt::Debug for EditRequest<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("EditRequest")
    }
}

impl<F: Fn(&mut ModelRequest) + Send + Sync> Middleware for EditRequest<F> {
    fn hooks(&self) -> Hooks {
        Hooks::REQUEST
    }
    fn on_request<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        let mut request = context.llm_request().unwrap();
        (self.0)(&mut request);
        context.set_request(Request::Llm(request));
        Box::pin(std::future::ready(Ok(())))
    }
}

fn edit_request(edit: impl Fn(&mut ModelRequest) + Send + Sync + 'static) -> MiddlewareStack {
    [Arc::new(EditRequest(edit)) as Arc<dyn Middleware>].into_iter().collect()
}

#[test]
fn every_part_of_a_request_can_be_changed() {
    let model = script(&[true]);
    let chain = edit_request(|request| {
        request.messages.push_front(Arc::new(Message::user("before", &RandomIds, &clock())));
        request.system = Some(Arc::new(turntree::upp::System::Text("Be brief.".to_owned())));
        Arc::make_mut(&mut request.params).insert("seed", raw("1"));
    });

    let turn = generate(model.clone(), chain).unwrap();

    for request in model.requests() {
        assert_eq!(request.messages.head().unwrap().text(), "before");
        assert_eq!(request.params.get("seed").unwrap().get(), "1");
        assert!(request.system.is_some());
    }
    assert_eq!(turn.cycles, 2);
}

#[test]
fn a_tool_removed_from_the_request_is_not_sent_and_not_called() {
    let model = script(&[true]);

    let turn = generate(model.clone(), edit_request(|request| request.tools = Arc::default())).unwrap();

    assert!(model.requests().iter().all(|request| request.tools.is_empty()));
    assert_eq!(turn.tool_executions[0].result.get(), r#""Tool 'double' not found""#);
}

#[test]
fn media_capabilities_are_checked_after_on_request() {
    let media = |chain| {
        let (llm, context) = llm_with(script(&[]).with_capabilities(Capabilities::TEXT), chain);
        let image =
            raw(r#"{"type": "image", "source": {"type": "url", "url": "x"}, "mimeType": "image/png"}"#);
        block_on(llm.generate(
            History::new(),
            [Input::from("See"), Input::Block(image.to().unwrap())],
            context,
        ))
    };

    let refused = media(edit_request(|_| {})).unwrap_err();
    let stripped = media(edit_request(|request| {
        request.messages = [Arc::new(Message::user("See", &RandomIds, &clock()))].into_iter().collect();
    }));

    assert!(refused.message.contains("image input"), "{refused}");
    assert!(stripped.is_ok());
}

#[test]
fn the_error_of_a_failing_on_turn_hook_carries_the_turn() {
    #[derive(Debug)]
    struct Failing;
    impl Middleware for Failing {
        fn on_turn<'a>(&'a self, _: &'a Arc<Turn>, _: &'a Arc<CallContext>) -> HookFuture<'a> {
            Box::pin(std::future::ready(Err(UppError::invalid_request("", "no"))))
        }
    }
    let chain = [Arc::new(Failing) as Arc<dyn Middleware>].into_iter().collect();

    let error = generate(script(&[]), chain).unwrap_err();

    assert_eq!(partial_turn(&error).unwrap().turn.response().text(), "Eight, of course.");
}

#[test]
fn a_failing_event_hook_ends_the_stream_at_a_tool_event() {
    #[derive(Debug)]
    struct Failing;
    impl Middleware for Failing {
        fn on_stream_event(&self, event: StreamEvent, _: &Arc<CallContext>) -> Result<Emitted, UppError> {
            if event.delta.kind() == "tool_execution_end" {
                return Err(UppError::invalid_request("", "no"));
            }
            Ok(Emitted::One(event))
        }
    }
    let chain = [Arc::new(Failing) as Arc<dyn Middleware>].into_iter().collect();

    let error = block_on(stream(script(&[true]), chain).turn()).unwrap_err();

    assert_eq!(error.message, "no");
}

#[test]
fn tool_arguments_are_parsed_while_they_stream() {
    let chain = [Arc::new(ParsedObject::default()) as Arc<dyn Middleware>].into_iter().collect();

    let (events, _) = block_on(read_all(stream(script(&[true, true]), chain)));

    let parsed = |event: &StreamEvent| match &event.delta {
        turntree::message::Delta::ToolCall(delta) => {
            delta.extra.get("parsed").map(|parsed| parsed.get().to_owned())
        }
        _ => None,
    };
    let parsed: Vec<_> = events.iter().filter_map(parsed).collect();
    assert_eq!(parsed.iter().filter(|parsed| *parsed == r#"{"x":4}"#).count(), 2, "{parsed:?}");
}
