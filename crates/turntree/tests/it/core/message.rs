//! Messages, turns and threads and their JSON. UPP-1.2 §3–8.

use std::sync::Arc;

use proptest::prelude::*;
use turntree::core::ids::CountingIds;
use turntree::core::json::{ParseErrorKind, parse};
use turntree::core::limits::Limits;
use turntree::core::time::{FixedClock, Timestamp};
use turntree::message::{ContentBlock, Message, StreamEvent, Thread, TokenUsage, Turn};

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    parse(text, &Limits::default()).unwrap()
}

fn clock() -> FixedClock {
    FixedClock("2024-01-15T10:30:00Z".parse::<Timestamp>().unwrap())
}

#[test]
fn messages_have_the_exact_json_of_the_specification() {
    for text in [
        r#"{"id":"m1","type":"user","content":[{"type":"text","text":"hi"}],"metadata":{"openai":{"x":1.50}},"timestamp":"2024-01-15T10:30:00.000Z"}"#,
        r#"{"id":"m2","type":"assistant","content":[],"timestamp":"2024-01-15T10:30:00.000Z","toolCalls":[{"toolCallId":"c0","toolName":"echo","arguments":{}}]}"#,
        r#"{"id":"m2","type":"assistant","content":[],"timestamp":"2024-01-15T10:30:00.000Z","toolCalls":[]}"#,
        r#"{"id":"m3","type":"tool_result","content":[],"timestamp":"2024-01-15T10:30:00.000Z","results":[{"toolCallId":"c0","result":{"x":1},"isError":false}]}"#,
        r#"{"id":"m4","type":"user","content":[{"type":"image","source":{"type":"bytes","data":"aGk="},"mimeType":"image/png"},{"type":"hologram","beam":[1e400]}],"timestamp":"2024-01-15T10:30:00.000Z","tomorrow":{"k":[1,2]}}"#,
    ] {
        assert_eq!(serde_json::to_string(&read::<Message>(text)).unwrap(), text);
    }
}

#[test]
fn members_may_come_in_any_order() {
    let message: Message = read(
        r#"{"timestamp":"2024-01-15T10:30:00Z","content":[{"source":{"data":{"0":104,"1":105},"type":"bytes"},"mimeType":"image/png","new":1,"type":"image"}],"type":"user","id":"m"}"#,
    );

    let written = serde_json::to_string(&message).unwrap();

    assert!(written.contains(
        r#"{"type":"image","source":{"type":"bytes","data":"aGk="},"mimeType":"image/png","new":1}"#
    ));
}

#[test]
fn errors_have_a_json_pointer_and_the_rule() {
    let limits = Limits::default();
    let cases = [
        (
            r#"{"id":"m","type":"user","timestamp":"2024-01-15T10:30:00Z","content":[{"type":"text"}]}"#,
            "/content/0",
            "\"text\" is missing",
        ),
        (
            r#"{"id":"m","type":"owl","timestamp":"2024-01-15T10:30:00Z","content":[]}"#,
            "/type",
            "Unknown message type: owl",
        ),
        (r#"{"id":"m","type":"user","timestamp":"noon","content":[]}"#, "/timestamp", "ISO 8601"),
        (r#"{"id":"m","type":"user","content":[]}"#, "", "\"timestamp\" is missing"),
    ];
    for (text, pointer, words) in cases {
        let error = parse::<Message>(text, &limits).unwrap_err();
        assert_eq!((error.kind, error.pointer().as_str()), (ParseErrorKind::Shape, pointer), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    assert_eq!(parse::<Message>("{\"id\":", &limits).unwrap_err().kind, ParseErrorKind::Truncated);
    assert_eq!(parse::<Message>("{id}", &limits).unwrap_err().kind, ParseErrorKind::Syntax);
    assert_eq!(parse::<Message>(&"[".repeat(1000), &limits).unwrap_err().kind, ParseErrorKind::Limit);
}

#[test]
fn text_joins_text_blocks_and_encodes_results() {
    let message: Message = read(
        r#"{"id":"m","type":"assistant","timestamp":"2024-01-15T10:30:00Z","content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
    );
    let results: Message = read(
        r#"{"id":"m","type":"tool_result","timestamp":"2024-01-15T10:30:00Z","results":[{"toolCallId":"1","result":"plain"},{"toolCallId":"2","result":null}]}"#,
    );

    assert_eq!(message.text(), "a\n\nb");
    assert_eq!(results.text(), "plain\n\nnull");
}

#[test]
fn threads_slice_like_python_lists() {
    let (ids, clock) = (CountingIds::default(), clock());
    let messages = (0..5).map(|place| Arc::new(Message::user(place.to_string(), &ids, &clock)));
    let thread = Thread::new(messages.collect(), &ids, &clock);
    let texts = |thread: &Thread| thread.messages.iter().map(|message| message.text()).collect::<String>();

    assert_eq!(texts(&thread.slice(Some(1), Some(-1), &ids, &clock)), "123");
    assert_eq!(texts(&thread.slice(Some(-2), None, &ids, &clock)), "34");
    assert_eq!(texts(&thread.slice(Some(4), Some(2), &ids, &clock)), "");
    assert_eq!(thread.tail(0).len(), 0);
    assert_eq!(thread.tail(99).len(), 5);
    assert_ne!(thread.slice(None, None, &ids, &clock).id, thread.id);
}

#[test]
fn usage_sums_calls_and_ignores_vendor_totals() {
    let call = TokenUsage { input_tokens: 10, output_tokens: 5, total_tokens: 99, ..TokenUsage::default() };

    let sum = TokenUsage::aggregate([&call, &call]);

    assert_eq!((sum.input_tokens, sum.output_tokens, sum.total_tokens), (20, 10, 30));
    assert_eq!(sum.cycles.map(|cycles| cycles.len()), Some(2));
}

#[test]
fn a_turn_without_a_response_is_refused() {
    let user = Arc::new(Message::user("hi", &CountingIds::default(), &clock()));

    let turn = Turn::new(vec![user], Vec::new(), TokenUsage::empty(), 1, None);

    assert!(turn.is_err());
}

#[test]
fn every_event_type_round_trips() {
    for kind in turntree::message::Delta::KINDS {
        let delta = match *kind {
            "text_delta" | "reasoning_delta" | "object_delta" => r#"{"text":"x"}"#,
            "image_delta" | "audio_delta" | "video_delta" => r#"{"data":"aGk="}"#,
            "tool_call_delta" => r#"{"toolCallId":"c","toolName":"t","argumentsJson":"{"}"#,
            "tool_execution_start" => r#"{"toolCallId":"c","toolName":"t","timestamp":1}"#,
            "tool_execution_end" => {
                r#"{"toolCallId":"c","toolName":"t","result":{"a":1},"isError":false,"timestamp":2}"#
            }
            _ => "{}",
        };
        let text = format!(r#"{{"type":"{kind}","index":3,"delta":{delta}}}"#);
        assert_eq!(serde_json::to_string(&read::<StreamEvent>(&text)).unwrap(), text);
    }
    let unknown = r#"{"type":"smell_delta","index":0,"delta":{"rose":1}}"#;
    assert_eq!(serde_json::to_string(&read::<StreamEvent>(unknown)).unwrap(), unknown);
}

fn any_message() -> impl Strategy<Value = Message> {
    (
        any::<String>(),
        proptest::collection::vec(any::<String>(), 0..4),
        -2_000_000_000_000_i64..4_000_000_000_000_i64,
    )
        .prop_map(|(id, texts, milliseconds)| {
            let mut message = Message::user("", &CountingIds::default(), &clock());
            message.id = id;
            message.timestamp = Timestamp::from_microseconds(milliseconds * 1_000);
            message.body = turntree::message::Body::User {
                content: texts.into_iter().map(ContentBlock::text).collect(),
            };
            message
        })
}

proptest! {
    #[test]
    fn messages_round_trip_through_json(message in any_message()) {
        let text = serde_json::to_string(&message).unwrap();
        prop_assert_eq!(read::<Message>(&text), message);
    }

    #[test]
    fn the_parser_refuses_any_text_that_is_not_json(text in "\\PC{0,80}") {
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();

        prop_assert!(is_json || parse::<Message>(&text, &Limits::default()).is_err());
        prop_assert!(is_json || parse::<Thread>(&text, &Limits::default()).is_err());
    }
}

/// A long session has two blocks or more in each turn, most of them texts.
#[test]
fn a_content_block_is_not_larger_than_a_text_needs() {
    assert!(size_of::<ContentBlock>() <= 40, "{} bytes", size_of::<ContentBlock>());
}
