//! Properties of the Pydantic AI conversion with generated histories: lossless round trips, no panics.

use proptest::prelude::*;
use turntree::core::json::RawJson;
use turntree::core::json::canonical::normalize;
use turntree::core::limits::Limits;
use turntree::thread_protocol::Thread;
use turntree::thread_protocol::convert::pydantic_ai::{
    CombineText, ImportOptions, ModelMessage, ProfileKind, ViewOptions, from_messages, from_pydantic_ai_json,
};

use crate::thread_protocol::pydantic_ai::{FIXTURES, back, import, reread};

fn json_string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Text with characters that need escapes.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-c\"\\\\\n\u{1}\u{2028}é😀 ]{0,12}",
        Just(String::new()),
        Just("{\"x\": 1}".to_owned()),
        Just("{\"x\":\n1}".to_owned()),
    ]
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        any_text().prop_map(|text| json_string(&text)),
        Just("null".to_owned()),
        Just("1.50".to_owned()),
        Just("-1E+400".to_owned()),
        Just(r#"{"b":[1,{"a":null}],"a":""}"#.to_owned()),
        Just("[]".to_owned()),
        Just("false".to_owned()),
    ]
}

fn any_members(keys: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    let member = (proptest::sample::select(keys), any_value())
        .prop_map(|(key, value)| format!("{}:{value}", json_string(key)));
    proptest::collection::vec(member, 0..9)
}

fn any_part() -> impl Strategy<Value = String> {
    let kinds = &[
        "text",
        "thinking",
        "tool-call",
        "user-prompt",
        "system-prompt",
        "tool-return",
        "retry-prompt",
        "retry-feedback",
        "builtin-tool-call",
        "smell",
        "file",
    ];
    let keys = &[
        "content",
        "tool_name",
        "tool_call_id",
        "args",
        "timestamp",
        "id",
        "signature",
        "provider_name",
        "outcome",
        "retry",
        "new",
        "metadata",
        "x y",
        "content_file_digests",
    ];
    (proptest::sample::select(kinds), any_members(keys), any::<proptest::sample::Index>()).prop_map(
        |(kind, mut members, place)| {
            members.insert(place.index(members.len() + 1), format!("\"part_kind\":\"{kind}\""));
            format!("{{{}}}", members.join(","))
        },
    )
}

fn any_message() -> impl Strategy<Value = String> {
    let keys = &[
        "timestamp",
        "instructions",
        "run_id",
        "conversation_id",
        "metadata",
        "state",
        "usage",
        "finish_reason",
        "provider_name",
        "model_name",
        "new",
    ];
    let kinds = &["request", "response", "response", "request", "later"];
    (
        proptest::sample::select(kinds),
        any_members(keys),
        proptest::collection::vec(any_part(), 0..5),
        any::<proptest::sample::Index>(),
        any::<proptest::sample::Index>(),
    )
        .prop_map(|(kind, mut members, parts, one, two)| {
            members.insert(one.index(members.len() + 1), format!("\"parts\":[{}]", parts.join(",")));
            members.insert(two.index(members.len() + 1), format!("\"kind\":\"{kind}\""));
            format!("{{{}}}", members.join(","))
        })
}

fn any_history() -> impl Strategy<Value = String> {
    proptest::collection::vec(any_message(), 0..6).prop_map(|messages| format!("[{}]", messages.join(",")))
}

/// A history in the layout of a Pydantic AI version, with unusual values.
fn any_plausible_history() -> impl Strategy<Value = String> {
    let text = || any_text().prop_map(|text| json_string(&text));
    let time = || {
        prop_oneof![
            Just("null".to_owned()),
            (0..60_u8).prop_map(|second| format!("\"2026-03-01T10:00:{second:02}Z\""))
        ]
    };
    let request = (proptest::collection::vec((0..4_u8, text(), time(), any_value()), 0..4), time(), text()).prop_map(
        |(parts, time, instructions)| {
            let part = |(kind, text, time, value): (u8, String, String, String)| match kind {
                0 => format!(r#"{{"content":{text},"timestamp":{time},"part_kind":"user-prompt"}}"#),
                1 => format!(r#"{{"content":[{text},{{"url":{text},"force_download":false,"vendor_metadata":{value},"kind":"image-url","media_type":"image/png","identifier":"x"}},{value}],"timestamp":{time},"part_kind":"user-prompt"}}"#),
                2 => format!(r#"{{"content":{text},"timestamp":{time},"dynamic_ref":null,"part_kind":"system-prompt"}}"#),
                _ => format!(r#"{{"tool_name":"t","content":{value},"tool_call_id":{text},"tool_kind":null,"metadata":{value},"timestamp":{time},"outcome":"success","retry":null,"part_kind":"tool-return"}}"#),
            };
            let parts: Vec<String> = parts.into_iter().map(part).collect();
            format!(r#"{{"parts":[{}],"timestamp":{time},"instructions":{instructions},"kind":"request","run_id":null,"conversation_id":null,"metadata":null,"state":"complete"}}"#, parts.join(","))
        },
    );
    let response = (proptest::collection::vec((0..3_u8, text(), any_value()), 0..5), time(), any::<u16>()).prop_map(
        |(parts, time, tokens)| {
            let part = |(kind, text, value): (u8, String, String)| match kind {
                0 => format!(r#"{{"content":{text},"id":null,"provider_name":null,"provider_details":{value},"part_kind":"text"}}"#),
                1 => format!(r#"{{"content":{text},"id":null,"signature":{text},"provider_name":null,"provider_details":null,"part_kind":"thinking"}}"#),
                _ => format!(r#"{{"tool_name":"t","args":{value},"tool_call_id":{text},"tool_kind":null,"id":null,"provider_name":null,"provider_details":null,"part_kind":"tool-call"}}"#),
            };
            let parts: Vec<String> = parts.into_iter().map(part).collect();
            format!(r#"{{"parts":[{}],"usage":{{"input_tokens":{tokens},"output_tokens":0,"details":{{}}}},"model_name":null,"timestamp":{time},"kind":"response","finish_reason":null}}"#, parts.join(","))
        },
    );
    proptest::collection::vec(prop_oneof![request, response], 0..6)
        .prop_map(|messages| format!("[{}]", messages.join(",")))
}

/// Bytes that change the meaning of JSON.
const DAMAGE: &[u8] = b"\"\\{}[],: \n\tnulltrue-+.eE0179u/\x01\x7f\xff";

/// The thread of a history. A history that no version accepts is refused as JSON and imported as messages.
fn thread_of(history: &str, options: &ImportOptions) -> Thread {
    from_pydantic_ai_json(history.as_bytes(), options).unwrap_or_else(|error| {
        assert_eq!(error.rule(), "invalid", "{error}");
        from_messages(&serde_json::from_str::<Vec<ModelMessage<'_>>>(history).unwrap(), options)
    })
}

fn assert_round_trips(history: &str, options: &ImportOptions) -> Result<(), TestCaseError> {
    let thread = thread_of(history, options);
    prop_assert_eq!(back(&thread), history);
    prop_assert_eq!(back(&reread(&thread)), history);
    Ok(())
}

/// The layout of such a message has no `usage`: the message is preserved verbatim, also without a text.
#[test]
fn usage_outside_the_layout_of_its_message_round_trips() {
    for history in [
        r#"[{"kind":"request","parts":[],"state":null,"usage":{"b":[1,{"a":null}],"a":""}}]"#,
        r#"[{"kind":"request","parts":[{"part_kind":"retry-feedback"}],"usage":{"b":1,"a":""}}]"#,
        r#"[{"kind":"request","parts":[],"usage":{"input_tokens":1}}]"#,
    ] {
        assert_round_trips(history, &ImportOptions::default()).unwrap();
        let messages = serde_json::from_str::<Vec<ModelMessage<'_>>>(history).unwrap();
        assert_eq!(back(&from_messages(&messages, &ImportOptions::default())), history);
    }
}

proptest! {
    #[test]
    fn any_list_of_messages_round_trips_byte_for_byte(history in any_history()) {
        assert_round_trips(&normalize(&history), &ImportOptions::default())?;
    }

    #[test]
    fn plausible_histories_round_trip_byte_for_byte(
        history in any_plausible_history(),
        response in any::<bool>(),
        strict in any::<bool>(),
    ) {
        let combine_text = if response { CombineText::Response } else { CombineText::Adjacent };
        assert_round_trips(&history, &ImportOptions { combine_text, strict, ..ImportOptions::default() })?;
    }

    #[test]
    fn any_history_has_a_portable_form_and_agent_views(history in any_plausible_history()) {
        let portable = ImportOptions { profile: ProfileKind::Portable, ..ImportOptions::default() };
        for options in [portable, ImportOptions::default()] {
            let thread = thread_of(&history, &options);
            let (id, _) = thread.agents.iter().next().unwrap();
            for view in [ViewOptions::default(), ViewOptions::of(id)] {
                let json = String::from_utf8(thread.to_pydantic_ai_json(&view).unwrap()).unwrap();
                prop_assert!(RawJson::from_text(json).is_ok());
            }
        }
    }

    #[test]
    fn the_importer_refuses_any_bytes_that_are_not_json(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();

        prop_assert!(is_json || from_pydantic_ai_json(&bytes, &ImportOptions::default()).is_err());
    }

    #[test]
    fn damaged_json_is_refused_or_round_trips(
        places in proptest::collection::vec((any::<proptest::sample::Index>(), proptest::sample::select(DAMAGE), any::<bool>()), 1..3),
        fixture in 0..FIXTURES.len(),
    ) {
        let mut history = FIXTURES[fixture].1.trim_end().as_bytes().to_vec();
        for (place, with, replace) in places {
            let place = place.index(history.len());
            history.splice(place..place + usize::from(replace), [with]);
        }
        let read = from_pydantic_ai_json(&history, &ImportOptions::default());
        let text = String::from_utf8_lossy(&history);
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&history).is_ok();
        // `NaN` and `Infinity` are accepted as in Pydantic.
        let has_special_numbers = text.contains("NaN") || text.contains("Infinity");
        prop_assert!(read.is_err() || is_json || has_special_numbers, "read {}", text);
        if let Ok(thread) = read && is_json {
            let same = back(&thread);
            prop_assert!(same == text || same == normalize(&text), "{} is not {}", same, text);
        }
    }

    #[test]
    fn exports_of_damaged_documents_are_json_or_errors(place in any::<proptest::sample::Index>(), with in any::<u8>(), fixture in 0..FIXTURES.len()) {
        let mut document = import(FIXTURES[fixture].1).to_json();
        let place = place.index(document.len());
        document[place] = with;
        if let Ok(thread) = Thread::from_json(&document, &Limits::default()) {
            let _ = thread.validate();
            let _ = thread.usage();
            let of_agent = thread.agents.iter().next().map(|(id, _)| ViewOptions::of(id));
            for view in [ViewOptions::default()].into_iter().chain(of_agent) {
                match thread.to_pydantic_ai_json(&view) {
                    Ok(json) => prop_assert!(RawJson::from_text(String::from_utf8(json).unwrap()).is_ok()),
                    Err(error) => prop_assert!(!error.rule().is_empty()),
                }
            }
        }
    }
}
