//! Hostile documents: deep nesting, long texts, many members, duplicates, huge numbers, truncated text. Every reader of
//! external text respects its limits, takes linear time and reports an error.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use turntree::core::ids::CountingIds;
use turntree::core::json::{ParseErrorKind, RawJson, RawObject, parse, parse_bytes};
use turntree::core::limits::Limits;
use turntree::message::fold::arguments_of;
use turntree::message::{ContentBlock, Message, StreamEvent, Thread, Turn};
use turntree::upp::UppError;
use turntree::upp::dialect::{Dialect, Sources};
use turntree::upp::dialects::chat::{ChatDialect, ChatOptions};
use turntree::upp::dialects::common::{Count, LenientText, MOST_ITEMS, VendorError};
use turntree::upp::providers::ollama::ollama;

use crate::support::dialect::{clock, hello};

/// Enough levels to overflow the stack of a recursive reader.
const DEEP_LEVELS: usize = 100_000;

/// Time limit of a debug build; a quadratic algorithm takes hours.
const TIME_LIMIT: Duration = Duration::from_secs(20);

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

/// Documents of every type with `value` at every position that accepts any JSON value.
fn documents_with(value: &str) -> Vec<(&'static str, String)> {
    let message = format!(
        r#"{{"id":"m","type":"assistant","timestamp":"2024-01-15T10:30:00Z","content":[{{"new":{value},"type":"text","text":"t","later":{value}}},{{"type":"hologram","beam":{value}}}],"metadata":{{"host":{value}}},"toolCalls":[{{"toolCallId":"c","toolName":"t","arguments":{value}}}],"x":{value}}}"#
    );
    vec![
        ("thread", format!(r#"{{"id":"t","messages":[{message}],"x":{value}}}"#)),
        ("turn", format!(r#"{{"messages":[{message}],"data":{value}}}"#)),
        ("event", format!(r#"{{"delta":{{"x":{value}}},"x":{value},"index":1,"type":"smell_delta"}}"#)),
        ("message", message),
    ]
}

/// Reads a document as its type; returns the kind of the error.
fn read(kind: &str, text: &str, limits: &Limits) -> Result<(), ParseErrorKind> {
    fn of<T: DeserializeOwned>(text: &str, limits: &Limits) -> Result<(), ParseErrorKind> {
        parse::<T>(text, limits).map(drop).map_err(|error| error.kind)
    }
    match kind {
        "thread" => of::<Thread>(text, limits),
        "turn" => of::<Turn>(text, limits),
        "event" => of::<StreamEvent>(text, limits),
        _ => of::<Message>(text, limits),
    }
}

fn raw(text: &str) -> RawJson {
    RawJson::from_text(text.to_owned()).unwrap()
}

fn chat() -> ChatDialect {
    ChatDialect::new(ChatOptions::new("host", "http://localhost"))
}

/// The results of decoding a text as body and as frame, in two dialects.
fn decode_everywhere(text: &str) -> Vec<Result<(), UppError>> {
    let (ids, clock) = (CountingIds::default(), clock());
    let sources = Sources { ids: &ids, clock: &clock };
    let dialects: [Box<dyn Dialect>; 2] = [Box::new(chat()), Box::new(ollama())];
    let mut results = Vec::new();
    for dialect in dialects {
        results.push(dialect.decode(text, &hello(), sources).map(drop));
        results.push(dialect.stream_decoder(&hello()).frame(None, text, &mut Vec::new()));
        assert!(dialect.error_of_body(400, text).is_some());
    }
    results
}

#[test]
fn documents_nested_deeper_than_the_limit_are_refused() {
    let limits = Limits::default();
    for (kind, text) in documents_with(&nested(240)) {
        assert_eq!(read(kind, &text, &limits), Ok(()), "{kind}");
    }
    for levels in [256, DEEP_LEVELS] {
        for (kind, text) in documents_with(&nested(levels)) {
            assert_eq!(read(kind, &text, &limits), Err(ParseErrorKind::Limit), "{kind} with {levels} levels");
        }
    }
}

#[test]
fn reading_without_a_depth_limit_does_not_recurse() {
    let limits = Limits { depth: usize::MAX, ..Limits::default() };
    let deep = "{\"a\":[".repeat(DEEP_LEVELS) + &"]}".repeat(DEEP_LEVELS);

    for (kind, text) in documents_with(&deep) {
        assert_eq!(read(kind, &text, &limits), Ok(()), "{kind}");
    }
    for half in [&deep[..deep.len() / 2], &nested(DEEP_LEVELS)[1..]] {
        assert!(read("event", &format!(r#"{{"type":"new","x":{half}}}"#), &limits).is_err());
    }
    let one = raw(&deep);
    assert_eq!(one.reader().count(), 5 * DEEP_LEVELS);
    assert_eq!(one, raw(&deep.replace(':', " : ")));
    assert_ne!(one, raw(&deep.replacen('a', "b", 1)));
    assert!(one.to::<serde_json::Value>().is_err(), "a tree of it would overflow the stack");
}

#[test]
fn responses_of_vendors_nested_too_deep_are_refused() {
    for deep in [
        nested(DEEP_LEVELS),
        "{\"choices\":".repeat(DEEP_LEVELS),
        "{\"error\":".repeat(DEEP_LEVELS) + "1" + &"}".repeat(DEEP_LEVELS),
    ] {
        for result in decode_everywhere(&deep) {
            let words = result.unwrap_err().to_string();
            assert!(words.contains("nested deeper than 160 levels"), "{words}");
        }
    }
    let body = |value: &str| {
        format!(
            r#"{{"choices":[{{"message":{{"content":[{value},{{"type":"text","text":"t"}}]}},"finish_reason":{value}}}],"message":{{"content":"t","new":{value}}},"logprobs":[{value}],"new":{value}}}"#
        )
    };
    assert!(decode_everywhere(&body(&nested(150))).iter().all(Result::is_ok));
    assert!(decode_everywhere(&body(&nested(160))).iter().all(Result::is_err));
}

#[test]
fn responses_with_too_many_choices_or_calls_are_refused() {
    let choices = |count: usize| format!(r#"{{"choices":[{}]}}"#, vec![r#"{"message":{}}"#; count].join(","));
    let (ids, clock) = (CountingIds::default(), clock());
    let decode = |text: &str| chat().decode(text, &hello(), Sources { ids: &ids, clock: &clock });

    assert!(decode(&choices(MOST_ITEMS)).is_ok());
    assert!(decode(&choices(MOST_ITEMS + 1)).unwrap_err().to_string().contains("at most 1024"));

    let mut decoder = chat().stream_decoder(&hello());
    let mut frame = |place: usize| {
        let call = format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{place},"function":{{"name":"t","arguments":"{{}}"}}}}]}}}}]}}"#
        );
        decoder.frame(None, &call, &mut Vec::new())
    };
    let refused = (0..2 * MOST_ITEMS).find_map(|place| frame(place).err());
    assert!(refused.unwrap().to_string().contains("more than 1024 tool calls"));
}

/// The depth limit of a frame does not count brackets inside strings.
#[test]
fn tool_arguments_nested_too_deep_stay_text() {
    let deep = |levels: usize| format!("{{\"a\":{}}}", nested(levels));
    let as_text = |levels: usize| serde_json::json!({ "INVALID_JSON": deep(levels) }).to_string();

    assert_eq!(arguments_of(deep(159)).get(), deep(159));
    assert_eq!(arguments_of(deep(160)).get(), as_text(160));
    assert_eq!(arguments_of(deep(DEEP_LEVELS)).get(), as_text(DEEP_LEVELS));
    let arguments = serde_json::to_string(&deep(DEEP_LEVELS)).unwrap();
    let call = format!(r#"[{{"id":"c","index":0,"function":{{"name":"t","arguments":{arguments}}}}}]"#);
    let body = format!(r#"{{"choices":[{{"message":{{"content":"","tool_calls":{call}}}}}]}}"#);
    let (ids, clock) = (CountingIds::default(), clock());
    let response = chat().decode(&body, &hello(), Sources { ids: &ids, clock: &clock }).unwrap();
    assert_eq!(response.message.tool_calls()[0].arguments.get(), as_text(DEEP_LEVELS));
}

#[test]
fn long_texts_are_read_completely() {
    let text = "x\\n\u{e9}\\u00e9".repeat(1_000_000);
    let document = format!(
        r#"{{"id":"m","type":"user","timestamp":"2024-01-15T10:30:00Z","content":"{text}","x":["{text}"]}}"#
    );

    let message: Message = parse(&document, &Limits::default()).unwrap();

    assert_eq!(message.content()[0].as_text().map(str::len), Some(6_000_000));
    assert_eq!(message.extra.get("x").map(|value| value.get().len()), Some(7_000_004));
    let small = Limits { bytes: document.len() - 1, ..Limits::default() };
    assert_eq!(read("message", &document, &small), Err(ParseErrorKind::Limit));
}

#[test]
fn the_number_of_values_is_checked_before_parsing() {
    let limits = Limits { values: 100_000, ..Limits::default() };
    for commas in [",".repeat(200_000), format!("[{}1]", "1,".repeat(200_000))] {
        for (kind, text) in documents_with(&commas) {
            assert_eq!(read(kind, &text, &limits), Err(ParseErrorKind::Limit), "{kind}");
        }
    }
    let body = format!(r#"{{"choices":[{}{{}}]}}"#, "{},".repeat(4_000_001));
    for result in decode_everywhere(&body) {
        let words = result.unwrap_err().to_string();
        assert!(words.contains("more than 4000000 values"), "{words}");
    }
}

#[test]
fn many_unknown_members_are_read_in_linear_time() {
    const COUNT: usize = 40_000;
    let members = |count: usize, prefix: &str| {
        (0..count).fold(String::new(), |mut text, place| {
            let _ = write!(text, ",\"{prefix}{place}\":{place}");
            text
        })
    };
    let started = Instant::now();
    let text = format!(
        r#"{{"id":"m","type":"user","timestamp":"2024-01-15T10:30:00Z","content":[{{"type":"text","text":""{0}}}],"metadata":{{"a":0{0}}}{0}{1}}}"#,
        members(COUNT, "x"),
        members(COUNT / 2, "x"),
    );

    let message: Message = parse(&text, &Limits::default()).unwrap();
    let written = serde_json::to_string(&message).unwrap();

    assert_eq!(message.extra.iter().count(), COUNT, "the last of duplicate members wins");
    assert_eq!(parse::<Message>(&written, &Limits::default()).unwrap(), message);
    let metadata = message.metadata.unwrap();
    let backwards: Vec<_> = metadata.iter().map(|(key, value)| (key, value.clone())).collect();
    assert_eq!(metadata, backwards.into_iter().rev().collect::<RawObject>());
    assert!(started.elapsed() < TIME_LIMIT, "{:?}", started.elapsed());
}

#[test]
fn the_last_of_duplicate_members_wins() {
    let message: Message = parse(
        r#"{"id":"1","type":"user","x":1,"y":2,"x":3,"id":"2","timestamp":"2024-01-15T10:30:00Z","content":[{"text":"a","type":"text","text":"b"},{"type":"new","type":"newer","k":1,"k":2}],"metadata":{"h":1,"h":2}}"#,
        &Limits::default(),
    )
    .unwrap();

    assert_eq!(message.content()[0], ContentBlock::text("b"));
    assert_eq!(
        serde_json::to_string(&message).unwrap(),
        r#"{"id":"2","type":"user","content":[{"type":"text","text":"b"},{"type":"new","k":2}],"metadata":{"h":2},"timestamp":"2024-01-15T10:30:00.000Z","x":3,"y":2}"#
    );
    assert_eq!(raw(r#"{"a":1,"b":0,"a":2}"#), raw(r#"{"b":0,"a":2}"#));
}

#[test]
fn numbers_of_any_size_are_preserved_and_refused_in_integer_fields() {
    let long = "9".repeat(100_000);
    for number in ["1e400", "-1e-400", "1e99999999999999999999", "18446744073709551616", "-0.0", &long] {
        for (kind, text) in documents_with(number) {
            assert_eq!(read(kind, &text, &Limits::default()), Ok(()), "{kind} with {number}");
        }
        let width = format!(
            r#"{{"type":"image","source":{{"type":"url","url":"u"}},"mimeType":"","width":{number}}}"#
        );
        assert!(parse::<ContentBlock>(&width, &Limits::default()).is_err(), "{number}");
        assert!(decode_everywhere(&format!(r#"{{"usage":{{"prompt_tokens":{number}}}}}"#)).len() == 4);
    }
    assert_eq!(serde_json::from_str::<Count>("1e30").unwrap(), Count(u64::MAX));
    assert!(serde_json::from_str::<Count>("1e400").is_err());
}

#[test]
fn invalid_json_is_refused_with_the_kind_of_error() {
    let document = |text: &str| parse::<Message>(text, &Limits::default()).unwrap_err().kind;
    for text in [
        "\u{feff}{}",
        "\0",
        "{\0}",
        "{} x",
        "{}{}",
        "NaN",
        "[1,]",
        "{\"a\":1,}",
        "'a'",
        "\"\u{1}\"",
        "01",
        "+1",
    ] {
        assert!(matches!(document(text), ParseErrorKind::Syntax | ParseErrorKind::Shape), "{text:?}");
    }
    for text in ["", " ", "{", "{\"id\"", "{\"id\":\"", "{\"x\":[[", "{\"x\":tr"] {
        assert_eq!(document(text), ParseErrorKind::Truncated, "{text:?}");
    }
    let encoding = |bytes: &[u8]| parse_bytes::<Message>(bytes, &Limits::default()).unwrap_err().kind;
    // A bare byte, an overlong slash, half a surrogate pair in UTF-8, past Unicode, UTF-16.
    for bytes in
        [&b"\"\xff\""[..], b"\"\xc0\xaf\"", b"\"\xed\xa0\x80\"", b"\"\xf4\x90\x80\x80\"", b"\xff\xfe{\0}\0"]
    {
        assert_eq!(encoding(bytes), ParseErrorKind::Encoding, "{bytes:?}");
    }
}

#[test]
fn lone_surrogates_and_nul_characters_are_preserved() {
    let halves = r#""a\ud800b\udc00\ud83d\ude00\u0000""#;
    for (kind, text) in documents_with(halves) {
        assert_eq!(read(kind, &text, &Limits::default()), Ok(()), "{kind}");
    }
    let value = raw(halves);
    assert_eq!(value.as_string().as_deref(), Some("a\u{fffd}b\u{fffd}\u{1f600}\0"));
    assert_eq!(value, raw(r#""a\uD800b\uDC00😀\u0000""#));
    assert_ne!(value, raw(r#""a\ud801b\udc00😀\u0000""#));
    assert_ne!(raw(r#"{"\ud800":1,"\ud801":2}"#), raw(r#"{"\ud801":1,"\ud800":2}"#));
    assert_eq!(raw(r#"{"\ud800":1,"\ud801":2}"#), raw(r#"{"\ud801":2,"\ud800":1}"#));
    let text = format!(r#"{{"type":"text","text":{halves}}}"#);
    assert!(parse::<ContentBlock>(&text, &Limits::default()).is_err(), "a text block is Unicode");
    assert!(!serde_json::from_str::<LenientText<'_>>("\"\\u0000\"").unwrap().is_empty());
}

#[test]
fn vendor_errors_are_read_without_recursion() {
    for text in [
        "{\"error\":".repeat(DEEP_LEVELS) + "\"x\"" + &"}".repeat(DEEP_LEVELS),
        nested(DEEP_LEVELS),
        "[".repeat(DEEP_LEVELS),
    ] {
        assert_eq!(VendorError::of_body(&text), VendorError::default());
    }
    let message = VendorError::of_body(r#"{"error":{"error":{"message":"found"}}}"#).message;
    assert_eq!(message.as_deref(), Some("found"));
}
