//! Scripted models.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use insta::assert_snapshot;
use turntree::core::ids::CountingIds;
use turntree::message::{ContentBlock, StreamEvent};
use turntree::upp::providers::scripted::{Reply, Scripted};
use turntree::upp::{ErrorCode, Model, ModelEvent, ModelRequest, ModelResponse, StopReason, UppError};

use crate::support::dialect::{clock, hello, raw, shown, with_structure};

fn scripted<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Scripted {
    Scripted::new(replies).with_sources(Arc::new(CountingIds::default()), Arc::new(clock()))
}

async fn streamed(
    model: &Scripted,
    request: ModelRequest,
) -> (Vec<StreamEvent>, Result<ModelResponse, UppError>) {
    let mut events = Vec::new();
    let mut stream = model.stream(request);
    while let Some(item) = stream.next().await {
        match item {
            Ok(ModelEvent::Event(event)) => events.push(event),
            Ok(ModelEvent::Done(response)) => {
                assert!(stream.next().await.is_none());
                return (events, Ok(response));
            }
            Err(error) => {
                assert!(stream.next().await.is_none());
                return (events, Err(error));
            }
        }
    }
    panic!("the stream ended without a response");
}

#[tokio::test]
async fn replies_are_returned_in_order_and_requests_are_recorded() {
    let model = scripted(["one", "two"]);

    let one = model.complete(hello()).await.unwrap();
    let (_, two) = streamed(&model, hello()).await;
    let end = model.complete(hello()).await.unwrap_err();

    assert_eq!((one.message.text(), two.unwrap().message.text()), ("one".into(), "two".into()));
    assert_eq!(end.code, ErrorCode::InvalidRequest);
    assert!(end.message.contains("2 replies"), "{end}");
    assert_eq!(model.requests().len(), 3);
    assert_eq!(model.requests()[0].messages[0].text(), "Hello");
}

#[tokio::test]
async fn texts_stream_in_several_deltas() {
    let model = scripted(["Rain in Reykjavíkurborg today.", "Hi"]);

    let (long, _) = streamed(&model, hello()).await;
    let (short, _) = streamed(&model, hello()).await;

    assert_snapshot!(shown(&long), @r#"
    message_start 0 {}
    text_delta 0 {"text":"Rain"}
    text_delta 0 {"text":" in"}
    text_delta 0 {"text":" Reykjav"}
    text_delta 0 {"text":"íkurborg"}
    text_delta 0 {"text":" today."}
    message_stop 0 {}
    "#);
    assert_eq!(short.len(), 4);
}

#[tokio::test]
async fn messages_stream_block_by_block_and_calls_get_ids() {
    let content = vec![ContentBlock::text("Let me look."), ContentBlock::reasoning("hm")];
    let mut reply = Reply::tool_call("weather", raw(r#"{"city":"Oslo"}"#));
    if let turntree::upp::providers::scripted::Says::Message { content: blocks, .. } = &mut reply.says {
        *blocks = content;
    }
    let model = scripted([reply.clone(), reply]);

    let whole = model.complete(hello()).await.unwrap();
    let (events, end) = streamed(&model, hello()).await;

    assert_eq!(whole.message.content()[0], ContentBlock::reasoning("hm"));
    assert_eq!(
        (whole.message.tool_calls()[0].tool_call_id.as_str(), whole.stop_reason),
        ("call_1_1", StopReason::ToolUse)
    );
    assert_eq!((whole.usage.input_tokens, whole.usage.output_tokens), (1, 6));
    assert_eq!(end.unwrap().message.tool_calls()[0].tool_call_id, "call_2_1");
    assert_snapshot!(shown(&events), @r#"
    message_start 0 {}
    reasoning_delta 0 {"text":"h"}
    reasoning_delta 0 {"text":"m"}
    text_delta 1 {"text":"Let"}
    text_delta 1 {"text":" me"}
    text_delta 1 {"text":" look."}
    tool_call_delta 2 {"toolCallId":"call_2_1","toolName":"weather","argumentsJson":"{\"city\":"}
    tool_call_delta 2 {"toolCallId":"call_2_1","toolName":"weather","argumentsJson":"\"Oslo\"}"}
    message_stop 0 {}
    "#);
}

#[tokio::test]
async fn structured_requests_get_objects_and_data() {
    let model = scripted([r#"{"a":1}"#]);

    let (events, end) = streamed(&model, with_structure(hello(), "{}")).await;

    assert!(shown(&events).contains("object_delta 0"));
    assert_eq!(end.unwrap().data.unwrap().get(), r#"{"a":1}"#);
}

#[tokio::test]
async fn scripted_events_are_replayed_and_can_end_with_an_error() {
    let events = vec![StreamEvent::text(3, "half")];
    let failure = UppError::new(ErrorCode::NetworkError, "scripted", "gone");
    let model =
        scripted([Reply::events(events.clone()), Reply::broken(events, failure.clone()), failure.into()]);

    let (played, whole) = streamed(&model, hello()).await;
    let (before, broken) = streamed(&model, hello()).await;
    let (nothing, failed) = streamed(&model, hello()).await;

    assert_eq!((played.len(), whole.unwrap().message.text()), (3, "half".into()));
    assert_eq!((before.len(), broken.unwrap_err().code), (2, ErrorCode::NetworkError));
    assert_eq!((nothing.len(), failed.unwrap_err().code), (0, ErrorCode::NetworkError));
}

#[tokio::test]
async fn a_reply_function_receives_the_request() {
    let model = Scripted::function(Arc::new(|request| {
        let reply = Reply::from(format!("{} messages", request.messages.len()));
        Box::pin(async move { Ok(reply) })
    }));

    assert_eq!(model.complete(hello()).await.unwrap().message.text(), "1 messages");
}

#[tokio::test(start_paused = true)]
async fn delays_are_applied_and_streams_are_lazy() {
    let model = scripted([Reply::from("Hi").after(Duration::from_secs(3)).paced(Duration::from_secs(1))]);
    let started = tokio::time::Instant::now();

    drop(model.stream(hello()));
    let (events, _) = streamed(&model, hello()).await;

    assert_eq!(model.requests().len(), 1);
    assert_eq!(started.elapsed().as_secs(), 3 + events.len() as u64);
}

#[tokio::test]
async fn the_same_script_gives_the_same_responses() {
    let (one, two) = (scripted(["a b c", "d"]), scripted(["a b c", "d"]));
    for _ in 0..2 {
        let (events, end) = streamed(&one, hello()).await;
        let (same_events, same_end) = streamed(&two, hello()).await;
        assert_eq!((events, end.unwrap()), (same_events, same_end.unwrap()));
    }
}
