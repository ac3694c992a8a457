//! Laws of everything that is JSON: what is written is read back equal and written the same, whatever the order of its
//! members, with or without members nobody knows.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use turntree::core::json::{Extra, RawJson, RawObject, Reader, Token, parse};
use turntree::core::limits::Limits;
use turntree::core::time::Timestamp;
use turntree::message::content::{
    AudioBlock, Base64Source, BinaryBlock, BytesSource, DocumentBlock, ImageBlock, ReasoningBlock, TextBlock,
    TextSource, Unknown, UrlSource, VideoBlock,
};
use turntree::message::event::{
    DataDelta, Empty, TextDelta, ToolCallDelta, ToolExecutionEnd, ToolExecutionStart,
};
use turntree::message::media::Binary;
use turntree::message::{
    Body, ContentBlock, CycleUsage, Delta, DocumentSource, ImageSource, Message, StreamEvent, Thread,
    TokenUsage, ToolCall, ToolDefinition, ToolExecution, ToolResult, Turn,
};

/// The same cases on every run.
fn deterministic(cases: u32) -> Config {
    Config { rng_seed: RngSeed::Fixed(7), failure_persistence: None, cases, ..Config::default() }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z \"\\\\/é😀\u{0}\u{7f}\n]{0,6}", any::<String>()]
}

/// JSON texts, spaced and spelled in every way.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "0",
            "-0",
            "1.0",
            "1e400",
            "-12345678901234567890123",
            "1E-7",
            "\"\"",
            "\"\\u00e9\"",
            "\"\\ud800\"",
            "\"a\\/b\"",
            "{}",
            "[ ]",
        ])
        .prop_map(str::to_owned),
        text().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec(("[a-c]{0,2}", inner), 0..3).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

pub(crate) fn raw() -> impl Strategy<Value = RawJson> {
    any_json().prop_map(|text| RawJson::from_text(text).unwrap())
}

pub(crate) fn object() -> impl Strategy<Value = RawObject> {
    prop::collection::vec((text(), raw()), 0..4).prop_map(|members| members.into_iter().collect())
}

fn arguments() -> impl Strategy<Value = RawJson> {
    object().prop_map(|object| RawJson::from_value(&object).unwrap())
}

/// Members that no type knows.
fn extra() -> impl Strategy<Value = Extra> {
    let members = prop::collection::vec(("x-[a-c é\"]{0,2}", raw()), 0..3);
    prop_oneof![3 => Just(Vec::new()), 2 => members].prop_map(|members| {
        let mut extra = Extra::new();
        for (key, value) in members {
            extra.insert(key, value);
        }
        extra
    })
}

pub(crate) fn binary() -> impl Strategy<Value = Binary> {
    prop::collection::vec(any::<u8>(), 0..9).prop_map(Binary::new)
}

fn number() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO
}

fn optional<T: std::fmt::Debug + Clone>(
    strategy: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    prop::option::of(strategy)
}

fn unknown() -> impl Strategy<Value = Unknown> {
    ("new-[a-z]{0,3}", extra()).prop_map(|(kind, extra)| Unknown {
        kind: kind.into(),
        members: extra.iter().map(|(key, value)| (key, value.clone())).collect(),
    })
}

fn image_source() -> impl Strategy<Value = ImageSource> {
    prop_oneof![
        (text(), extra()).prop_map(|(data, extra)| Base64Source { data, extra }.into()),
        (text(), extra()).prop_map(|(url, extra)| UrlSource { url, extra }.into()),
        (binary(), extra()).prop_map(|(data, extra)| BytesSource { data, extra }.into()),
        unknown().prop_map(ImageSource::Unknown),
    ]
}

fn document_source() -> impl Strategy<Value = DocumentSource> {
    prop_oneof![
        (text(), extra()).prop_map(|(data, extra)| Base64Source { data, extra }.into()),
        (text(), extra()).prop_map(|(url, extra)| UrlSource { url, extra }.into()),
        (text(), extra()).prop_map(|(data, extra)| TextSource { data, extra }.into()),
        unknown().prop_map(DocumentSource::Unknown),
    ]
}

fn block() -> impl Strategy<Value = ContentBlock> {
    let size = || optional(any::<u32>());
    prop_oneof![
        (text(), extra()).prop_map(|(text, extra)| TextBlock { text, extra }.into()),
        (text(), extra()).prop_map(|(text, extra)| ReasoningBlock { text, extra }.into()),
        (image_source(), text(), size(), size(), extra()).prop_map(
            |(source, mime_type, width, height, extra)| {
                ImageBlock { source, mime_type, width, height, extra }.into()
            }
        ),
        (document_source(), text(), optional(text()), extra()).prop_map(
            |(source, mime_type, title, extra)| DocumentBlock { source, mime_type, title, extra }.into()
        ),
        (binary(), text(), optional(number()), extra()).prop_map(|(data, mime_type, duration, extra)| {
            AudioBlock { data, mime_type, duration, extra }.into()
        }),
        (binary(), text(), optional(number()), size(), size(), extra()).prop_map(
            |(data, mime_type, duration, width, height, extra)| {
                VideoBlock { data, mime_type, duration, width, height, extra }.into()
            }
        ),
        (binary(), text(), optional(object()), extra()).prop_map(|(data, mime_type, metadata, extra)| {
            BinaryBlock { data, mime_type, metadata, extra }.into()
        }),
        unknown().prop_map(ContentBlock::Unknown),
    ]
}

pub(crate) fn tool_call() -> impl Strategy<Value = ToolCall> {
    (text(), text(), arguments(), extra()).prop_map(|(tool_call_id, tool_name, arguments, extra)| ToolCall {
        tool_call_id,
        tool_name,
        arguments,
        extra,
    })
}

fn tool_result() -> impl Strategy<Value = ToolResult> {
    (text(), raw(), optional(any::<bool>()), extra()).prop_map(|(tool_call_id, result, is_error, extra)| {
        ToolResult { tool_call_id, result, is_error, extra }
    })
}

fn body() -> impl Strategy<Value = Body> {
    let content = || prop::collection::vec(block(), 0..4);
    prop_oneof![
        content().prop_map(|content| Body::User { content }),
        (content(), optional(prop::collection::vec(tool_call(), 0..3)))
            .prop_map(|(content, tool_calls)| Body::Assistant { content, tool_calls }),
        prop::collection::vec(tool_result(), 0..3).prop_map(|results| Body::ToolResult { results }),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    // Half of them as real ones are: a day's milliseconds in our century.
    prop_oneof![any::<i64>(), (0..4_000_000_000_000_i64).prop_map(|milliseconds| milliseconds * 1_000)]
        .prop_map(Timestamp::from_microseconds)
}

fn message() -> impl Strategy<Value = Message> {
    (text(), time(), optional(object()), body(), extra())
        .prop_map(|(id, timestamp, metadata, body, extra)| Message { id, timestamp, metadata, body, extra })
}

fn messages() -> impl Strategy<Value = Vec<Arc<Message>>> {
    prop::collection::vec(message().prop_map(Arc::new), 0..3)
}

fn thread() -> impl Strategy<Value = Thread> {
    (text(), messages(), time(), time(), extra()).prop_map(|(id, messages, created_at, updated_at, extra)| {
        Thread { id, messages: messages.into(), created_at, updated_at, extra }
    })
}

fn cycle() -> impl Strategy<Value = CycleUsage> {
    (any::<[u64; 4]>(), optional(dollars()), extra()).prop_map(
        |([input_tokens, output_tokens, read, write], cost, extra)| CycleUsage {
            input_tokens,
            output_tokens,
            cache_read_tokens: read,
            cache_write_tokens: write,
            cost,
            extra,
        },
    )
}

fn dollars() -> impl Strategy<Value = f64> {
    any::<u32>().prop_map(|parts| f64::from(parts) / 1e6)
}

fn usage() -> impl Strategy<Value = TokenUsage> {
    let known = (optional(any::<u64>()), optional(dollars()));
    (any::<[u64; 5]>(), optional(prop::collection::vec(cycle(), 0..3)), known, extra()).prop_map(
        |([input_tokens, output_tokens, total_tokens, read, write], cycles, (hour, cost), extra)| {
            TokenUsage {
                input_tokens,
                output_tokens,
                total_tokens,
                cache_read_tokens: read,
                cache_write_tokens: write,
                cache_write_1h_tokens: hour,
                cycles,
                cost,
                extra,
            }
        },
    )
}

fn execution() -> impl Strategy<Value = ToolExecution> {
    let names = (text(), text());
    (names, arguments(), raw(), any::<bool>(), any::<u64>(), optional(any::<bool>()), extra()).prop_map(
        |((tool_name, tool_call_id), arguments, result, is_error, duration, approved, extra)| ToolExecution {
            tool_name,
            tool_call_id,
            arguments,
            result,
            is_error,
            duration,
            approved,
            extra,
        },
    )
}

fn turn() -> impl Strategy<Value = Turn> {
    let answer = Just(Message {
        id: "answer".to_owned(),
        timestamp: Timestamp::from_microseconds(0),
        metadata: None,
        body: Body::Assistant { content: Vec::new(), tool_calls: None },
        extra: Extra::new(),
    });
    // No `data` that is null: missing and null are the same.
    let data = optional(raw().prop_filter("null is none", |data| !data.is_null()));
    (messages(), answer, prop::collection::vec(execution(), 0..2), usage(), any::<u32>(), data, extra())
        .prop_map(|(mut messages, answer, executions, usage, cycles, data, extra)| {
            messages.push(Arc::new(answer));
            let mut turn = Turn::new(messages, executions, usage, cycles, data).unwrap();
            turn.extra = extra;
            turn
        })
}

fn definition() -> impl Strategy<Value = ToolDefinition> {
    (text(), text(), raw(), optional(object()), extra()).prop_map(
        |(name, description, parameters, metadata, extra)| ToolDefinition {
            name,
            description,
            parameters,
            metadata,
            extra,
        },
    )
}

fn delta() -> impl Strategy<Value = Delta> {
    let texts = || (text(), extra()).prop_map(|(text, extra)| TextDelta { text, extra });
    let data = || (binary(), extra()).prop_map(|(data, extra)| DataDelta { data, extra });
    let empty = || extra().prop_map(|extra| Empty { extra });
    let start =
        (text(), text(), any::<i64>(), extra()).prop_map(|(tool_call_id, tool_name, timestamp, extra)| {
            ToolExecutionStart { tool_call_id, tool_name, timestamp, extra }
        });
    let end = (text(), text(), raw(), any::<bool>(), any::<i64>(), extra()).prop_map(
        |(tool_call_id, tool_name, result, is_error, timestamp, extra)| ToolExecutionEnd {
            tool_call_id,
            tool_name,
            result,
            is_error,
            timestamp,
            extra,
        },
    );
    let call = (text(), text(), text(), extra()).prop_map(|(id, name, arguments_json, extra)| {
        ToolCallDelta { tool_call_id: id.into(), tool_name: name.into(), arguments_json, extra }
    });
    prop_oneof![
        texts().prop_map(Delta::Text),
        texts().prop_map(Delta::Reasoning),
        texts().prop_map(Delta::Object),
        data().prop_map(Delta::Image),
        data().prop_map(Delta::Audio),
        data().prop_map(Delta::Video),
        call.prop_map(Delta::ToolCall),
        start.prop_map(Delta::ToolExecutionStart),
        end.prop_map(Delta::ToolExecutionEnd),
        empty().prop_map(Delta::MessageStart),
        empty().prop_map(Delta::MessageStop),
        empty().prop_map(Delta::ContentBlockStart),
        empty().prop_map(Delta::ContentBlockStop),
        ("new-[a-z]{0,3}", object()).prop_map(|(kind, delta)| Delta::Unknown { kind: kind.into(), delta }),
    ]
}

fn event() -> impl Strategy<Value = StreamEvent> {
    (any::<u32>(), delta(), extra()).prop_map(|(index, delta, extra)| StreamEvent { index, delta, extra })
}

/// JSON as a tree whose members keep their order and their spelling.
enum Tree {
    Leaf(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Tree {
    fn read(text: &str) -> Self {
        let mut reader = Reader::new(text);
        let first = reader.next().unwrap();
        Self::after(first, &mut reader)
    }

    fn after<'a>(token: Token<'a>, reader: &mut Reader<'a>) -> Self {
        match token {
            Token::ObjectStart => {
                let mut members = Vec::new();
                while let Some(Token::Key(key)) = reader.next() {
                    let value = reader.next().unwrap();
                    members.push((key.quoted(), Self::after(value, reader)));
                }
                Self::Object(members)
            }
            Token::ArrayStart => {
                let mut items = Vec::new();
                while let Some(token) = reader.next().filter(|token| *token != Token::ArrayEnd) {
                    items.push(Self::after(token, reader));
                }
                Self::Array(items)
            }
            Token::String(text) => Self::Leaf(text.quoted()),
            Token::Number(digits) => Self::Leaf(digits.to_owned()),
            Token::Bool(value) => Self::Leaf(value.to_string()),
            _ => Self::Leaf("null".to_owned()),
        }
    }

    /// Members in any order on every level. Of those that come twice the last one keeps being the last.
    fn shuffle(&mut self, random: &mut fastrand::Rng) {
        match self {
            Self::Leaf(_) => {}
            Self::Array(items) => items.iter_mut().for_each(|item| item.shuffle(random)),
            Self::Object(members) => {
                for (_, value) in members.iter_mut() {
                    value.shuffle(random);
                }
                let mut places: Vec<usize> = (0..members.len()).collect();
                random.shuffle(&mut places);
                let last = |key: &str| members.iter().rposition(|(name, _)| name == key);
                places.sort_by_key(|place| {
                    last(&members[*place].0) == Some(*place) && is_twice(members, *place)
                });
                let mut taken: Vec<Option<(String, Self)>> = members.drain(..).map(Some).collect();
                members.extend(places.into_iter().filter_map(|place| taken[place].take()));
            }
        }
    }

    fn write(&self, random: &mut fastrand::Rng, out: &mut String) {
        let space = |random: &mut fastrand::Rng| ["", "", "", " ", "\n", "\t\r "][random.usize(0..6)];
        out.push_str(space(random));
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    out.push(if place == 0 { '[' } else { ',' });
                    item.write(random, out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Self::Object(members) => {
                for (place, (key, value)) in members.iter().enumerate() {
                    out.push(if place == 0 { '{' } else { ',' });
                    out.push_str(space(random));
                    out.push_str(key);
                    out.push_str(space(random));
                    out.push(':');
                    value.write(random, out);
                }
                out.push_str(if members.is_empty() { "{}" } else { "}" });
            }
        }
        out.push_str(space(random));
    }
}

fn is_twice(members: &[(String, Tree)], place: usize) -> bool {
    members.iter().filter(|(key, _)| *key == members[place].0).count() > 1
}

fn shuffled(text: &str, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tree = Tree::read(text);
    tree.shuffle(&mut random);
    let mut out = String::new();
    tree.write(&mut random, &mut out);
    out
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The law of every document type.
fn holds<T>(value: &T, seed: u64) -> Result<(), TestCaseError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let written = serde_json::to_string(value).unwrap();
    let again: T = read(&written);
    prop_assert_eq!(&again, value, "{}", &written);
    prop_assert_eq!(serde_json::to_string(&again).unwrap(), written.clone());
    let other = shuffled(&written, seed);
    prop_assert_eq!(&read::<T>(&other), value, "{}", &other);
    Ok(())
}

proptest! {
    #![proptest_config(deterministic(128))]

    #[test]
    fn messages_are_read_as_written_in_any_order(message in message(), seed in any::<u64>()) {
        holds(&message, seed)?;
    }

    #[test]
    fn threads_are_read_as_written_in_any_order(thread in thread(), seed in any::<u64>()) {
        holds(&thread, seed)?;
    }

    #[test]
    fn turns_are_read_as_written_in_any_order(turn in turn(), seed in any::<u64>()) {
        holds(&turn, seed)?;
    }

    #[test]
    fn events_are_read_as_written_in_any_order(event in event(), seed in any::<u64>()) {
        holds(&event, seed)?;
    }

    #[test]
    fn blocks_are_read_as_written_in_any_order(block in block(), seed in any::<u64>()) {
        holds(&block, seed)?;
    }

    #[test]
    fn tools_are_read_as_written_in_any_order(definition in definition(), result in tool_result(), seed in any::<u64>()) {
        holds(&definition, seed)?;
        holds(&result, seed)?;
    }

    #[test]
    fn a_tag_anywhere_is_a_tag_first(block in block()) {
        let Tree::Object(members) = Tree::read(&serde_json::to_string(&block).unwrap()) else { unreachable!() };
        let texts = members.iter().map(|(key, value)| {
            let mut text = format!("{key}:");
            value.write(&mut fastrand::Rng::with_seed(1), &mut text);
            text
        });
        let mut members: Vec<String> = texts.collect();
        for place in 1..members.len() {
            members.swap(place - 1, place);
            prop_assert_eq!(&read::<ContentBlock>(&format!("{{{}}}", members.join(","))), &block);
        }
    }

    #[test]
    fn every_point_in_time_is_written_and_read_back(microseconds in any::<i64>()) {
        let timestamp = Timestamp::from_microseconds(microseconds);
        prop_assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
    }

    #[test]
    fn times_of_the_calendar_library_are_ours(microseconds in -62_167_219_200_000_000_i64..253_402_207_200_000_000) {
        let theirs = jiff::Timestamp::from_microsecond(microseconds).unwrap();
        let ours = Timestamp::from_microseconds(microseconds);
        let digits = if microseconds.rem_euclid(1_000) == 0 { 3 } else { 6 };
        prop_assert_eq!(ours.to_string(), format!("{theirs:.digits$}"));
        prop_assert_eq!(theirs.to_string().parse(), Ok(ours));
        prop_assert_eq!(ours.to_string().replace('Z', "+00:00").parse(), Ok(ours));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "\\PC{0,80}") {
        let limits = Limits::default();
        let _ = parse::<Message>(&text, &limits);
        let _ = parse::<Thread>(&text, &limits);
        let _ = parse::<StreamEvent>(&text, &limits);
        let _ = text.parse::<Timestamp>();
    }
}

/// JSON of few values, so that two of them are often the same.
fn small_json() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["0", "1", "\"a\"", "\"\\u0061\"", "null", "[]", "{}"])
        .prop_map(str::to_owned);
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec(("[a-c]", inner), 1..4).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(deterministic(1024))]

    #[test]
    fn raw_values_are_equal_exactly_if_their_trees_are(one in small_json(), two in small_json()) {
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let raw = |text: &str| RawJson::from_text(text.to_owned()).unwrap();

        prop_assert_eq!(raw(&one) == raw(&two), value(&one) == value(&two), "{} and {}", one, two);
        prop_assert_eq!(raw(&one) == raw(&two), raw(&two) == raw(&one));
    }

    #[test]
    fn raw_values_are_equal_in_any_order_and_spacing(json in any_json(), seed in any::<u64>()) {
        let other = shuffled(&json, seed);
        prop_assert_eq!(RawJson::from_text(json).unwrap(), RawJson::from_text(other).unwrap());
    }
}

#[test]
fn numbers_are_equal_when_they_are_the_same_number() {
    let raw = |text: &str| RawJson::from_text(text.to_owned()).unwrap();
    for same in [
        ["1", "1.0", "1e0", "10E-1", "0.01e+2"].as_slice(),
        &["0", "-0", "0.000", "0e99999999999999999999"],
        &["1e400", "10e399", "0.1e401"],
        &["-12345678901234567890123", "-1234567890123456789012.3e1"],
    ] {
        for (one, two) in same.iter().flat_map(|one| same.iter().map(move |two| (one, two))) {
            assert_eq!(raw(one), raw(two));
            assert_eq!(
                raw(&format!("{{\"a\":[{one}],\"b\":0}}")),
                raw(&format!("{{\"b\":0,\"a\":[{two}]}}"))
            );
        }
    }
    for (one, two) in [
        ("1", "-1"),
        ("1", "10"),
        ("1", "\"1\""),
        ("12345678901234567890123", "12345678901234567890124"),
        ("1e400", "1e401"),
        ("0.1", "0.10000000000000000001"),
        ("1e99999999999999999999", "1e99999999999999999998"),
    ] {
        assert_ne!(raw(one), raw(two));
    }
}

/// A member before the tag is read after the tag, past where paths are followed: there the words name it.
#[test]
fn errors_name_the_member_wherever_the_tag_stands() {
    let cases = [
        (
            r#"{"type":"text","text":5}"#,
            "/content/0/text",
            "invalid type: integer `5`, expected a string at line 1",
        ),
        (
            r#"{"text":5,"type":"text"}"#,
            "/content/0",
            "text: invalid type: integer `5`, expected a string at line 1",
        ),
    ];
    for (block, pointer, words) in cases {
        let text =
            format!(r#"{{"id":"m","type":"user","timestamp":"2024-01-15T10:30:00Z","content":[{block}]}}"#);
        let error = parse::<Message>(&text, &Limits::default()).unwrap_err();
        assert_eq!(error.pointer(), pointer, "{error}");
        assert!(error.message.starts_with(words), "{error}");
    }
}
