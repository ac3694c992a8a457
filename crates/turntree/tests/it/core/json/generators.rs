//! Generators of JSON values, messages, turns, threads and stream events for property tests.

use std::sync::Arc;

use proptest::prelude::*;
use turntree::core::json::{Extra, RawJson, RawObject};
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
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z \"\\\\/é😀\u{0}\u{7f}\n]{0,6}", any::<String>()]
}

/// JSON texts with varied white space and escapes.
pub(crate) fn any_json() -> impl Strategy<Value = String> {
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

pub(crate) fn arguments() -> impl Strategy<Value = RawJson> {
    object().prop_map(|object| RawJson::from_value(&object).unwrap())
}

/// Unknown members.
pub(crate) fn extra() -> impl Strategy<Value = Extra> {
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

pub(crate) fn number() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO
}

pub(crate) fn optional<T: std::fmt::Debug + Clone>(
    strategy: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    prop::option::of(strategy)
}

pub(crate) fn unknown() -> impl Strategy<Value = Unknown> {
    ("new-[a-z]{0,3}", extra()).prop_map(|(kind, extra)| Unknown {
        kind: kind.into(),
        members: extra.iter().map(|(key, value)| (key, value.clone())).collect(),
    })
}

pub(crate) fn image_source() -> impl Strategy<Value = ImageSource> {
    prop_oneof![
        (text(), extra()).prop_map(|(data, extra)| Base64Source { data, extra }.into()),
        (text(), extra()).prop_map(|(url, extra)| UrlSource { url, extra }.into()),
        (binary(), extra()).prop_map(|(data, extra)| BytesSource { data, extra }.into()),
        unknown().prop_map(|unknown| ImageSource::Unknown(Box::new(unknown))),
    ]
}

pub(crate) fn document_source() -> impl Strategy<Value = DocumentSource> {
    prop_oneof![
        (text(), extra()).prop_map(|(data, extra)| Base64Source { data, extra }.into()),
        (text(), extra()).prop_map(|(url, extra)| UrlSource { url, extra }.into()),
        (text(), extra()).prop_map(|(data, extra)| TextSource { data, extra }.into()),
        unknown().prop_map(|unknown| DocumentSource::Unknown(Box::new(unknown))),
    ]
}

pub(crate) fn block() -> impl Strategy<Value = ContentBlock> {
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
        unknown().prop_map(|unknown| ContentBlock::Unknown(Box::new(unknown))),
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

pub(crate) fn tool_result() -> impl Strategy<Value = ToolResult> {
    (text(), raw(), optional(any::<bool>()), extra()).prop_map(|(tool_call_id, result, is_error, extra)| {
        ToolResult { tool_call_id, result, is_error, extra }
    })
}

pub(crate) fn body() -> impl Strategy<Value = Body> {
    let content = || prop::collection::vec(block(), 0..4);
    prop_oneof![
        content().prop_map(|content| Body::User { content }),
        (content(), optional(prop::collection::vec(tool_call(), 0..3)))
            .prop_map(|(content, tool_calls)| Body::Assistant { content, tool_calls }),
        prop::collection::vec(tool_result(), 0..3).prop_map(|results| Body::ToolResult { results }),
    ]
}

pub(crate) fn time() -> impl Strategy<Value = Timestamp> {
    // Half of them are milliseconds of this century.
    prop_oneof![any::<i64>(), (0..4_000_000_000_000_i64).prop_map(|milliseconds| milliseconds * 1_000)]
        .prop_map(Timestamp::from_microseconds)
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    (text(), time(), optional(object()), body(), extra())
        .prop_map(|(id, timestamp, metadata, body, extra)| Message { id, timestamp, metadata, body, extra })
}

pub(crate) fn messages() -> impl Strategy<Value = Vec<Arc<Message>>> {
    prop::collection::vec(message().prop_map(Arc::new), 0..3)
}

pub(crate) fn thread() -> impl Strategy<Value = Thread> {
    (text(), messages(), time(), time(), extra()).prop_map(|(id, messages, created_at, updated_at, extra)| {
        Thread { id, messages: messages.into(), created_at, updated_at, extra }
    })
}

pub(crate) fn cycle() -> impl Strategy<Value = CycleUsage> {
    (any::<[u64; 4]>(), details(), optional(dollars()), extra()).prop_map(
        |([input_tokens, output_tokens, read, write], details, cost, extra)| CycleUsage {
            input_tokens,
            output_tokens,
            cache_read_tokens: read,
            cache_write_tokens: write,
            total_input_tokens: details.0,
            reasoning_tokens: details.1,
            audio_tokens: details.2,
            cost,
            extra,
        },
    )
}

/// All input tokens, reasoning tokens and audio tokens.
fn details() -> impl Strategy<Value = (Option<u64>, Option<u64>, Option<u64>)> {
    (optional(any::<u64>()), optional(any::<u64>()), optional(any::<u64>()))
}

pub(crate) fn dollars() -> impl Strategy<Value = f64> {
    any::<u32>().prop_map(|parts| f64::from(parts) / 1e6)
}

pub(crate) fn usage() -> impl Strategy<Value = TokenUsage> {
    let known = (optional(any::<u64>()), details(), optional(dollars()));
    (any::<[u64; 5]>(), optional(prop::collection::vec(cycle(), 0..3)), known, extra()).prop_map(
        |([input_tokens, output_tokens, total_tokens, read, write], cycles, (hour, details, cost), extra)| {
            TokenUsage {
                input_tokens,
                output_tokens,
                total_tokens,
                cache_read_tokens: read,
                cache_write_tokens: write,
                cache_write_1h_tokens: hour,
                total_input_tokens: details.0,
                reasoning_tokens: details.1,
                audio_tokens: details.2,
                cycles,
                cost,
                extra,
            }
        },
    )
}

pub(crate) fn execution() -> impl Strategy<Value = ToolExecution> {
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

pub(crate) fn turn() -> impl Strategy<Value = Turn> {
    let answer = Just(Message {
        id: "answer".to_owned(),
        timestamp: Timestamp::from_microseconds(0),
        metadata: None,
        body: Body::Assistant { content: Vec::new(), tool_calls: None },
        extra: Extra::new(),
    });
    // `data` is never null, because null is read as missing.
    let data = optional(raw().prop_filter("null is none", |data| !data.is_null()));
    (messages(), answer, prop::collection::vec(execution(), 0..2), usage(), any::<u32>(), data, extra())
        .prop_map(|(mut messages, answer, executions, usage, cycles, data, extra)| {
            messages.push(Arc::new(answer));
            let mut turn = Turn::new(messages, executions, usage, cycles, data).unwrap();
            turn.extra = extra;
            turn
        })
}

pub(crate) fn definition() -> impl Strategy<Value = ToolDefinition> {
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

pub(crate) fn delta() -> impl Strategy<Value = Delta> {
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

pub(crate) fn event() -> impl Strategy<Value = StreamEvent> {
    (any::<u32>(), delta(), extra()).prop_map(|(index, delta, extra)| StreamEvent { index, delta, extra })
}

/// JSON of few values, so that two samples are often equal.
pub(crate) fn small_json() -> impl Strategy<Value = String> {
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
