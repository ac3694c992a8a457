//! Properties of the UI stream conversion with generated threads and streams.

use proptest::prelude::*;
use turntree::core::json::{RawJson, RawObject};
use turntree::core::limits::Limits;
use turntree::thread_protocol::convert::vercel_ui::{
    Chunk, ExportOptions, Sdk, SidecarLevel, Turns, UiImportOptions, UiMessage, UiStreamReader,
    from_ui_messages,
};
use turntree::thread_protocol::{Action, AgentConfig, Thread};

use crate::support::with_cases;

fn string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c\"\\\\\n\u{1}\u{2028}é😀 ]{0,12}",
        Just(String::new()),
        Just("{\"x\": 1}".to_owned()),
        Just("The tool call was interrupted before a result was produced.".to_owned()),
        Just("The tool call was denied.".to_owned()),
    ]
}

fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        any_text().prop_map(|text| string(&text)),
        Just("null".to_owned()),
        Just("1.50".to_owned()),
        Just("12345678901234567890".to_owned()),
        Just(r#"{"b":[1,{"a":null}],"a":""}"#.to_owned()),
        Just(r#"{"tool_call_id":"c1"}"#.to_owned()),
        Just(r#"{"error_text":"x","reason":"y"}"#.to_owned()),
        Just(r#"{"source_id":"s","url":"u","media_type":"text/plain","title":"t","kind":"a.b"}"#.to_owned()),
        Just(r#"{"tool_call_id":"c1","approval_id":"p","approved":true}"#.to_owned()),
        Just(r#"{"tool_call_id":"c2","approval_id":"p"}"#.to_owned()),
        Just("[]".to_owned()),
    ]
}

fn any_content() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        any_text().prop_map(|text| format!(r#"{{"type":"text","text":{}}}"#, string(&text))),
        Just(r#"{"type":"image","image_base64":"aGk=","media_type":"image/png"}"#.to_owned()),
        Just(r#"{"type":"image","image_url":"https://example.org/x.png"}"#.to_owned()),
        Just(r#"{"type":"file","file_id":"f","media_type":"application/pdf","name":"n"}"#.to_owned()),
        Just(r#"{"type":"image","file_id":"f","provider":"openai","media_type":"image/png"}"#.to_owned()),
        Just(r#"{"type":"smell","smell":1}"#.to_owned()),
    ];
    prop_oneof![
        any_text().prop_map(|text| string(&text)),
        proptest::collection::vec(part, 0..4).prop_map(|parts| format!("[{}]", parts.join(","))),
    ]
}

/// The JSON of the member `attachments` of a user message, or an empty text.
fn any_attachments() -> impl Strategy<Value = String> {
    let attachment = proptest::sample::select(
        &[
            r#"{"name":"a.png","data":"aGk=","media_type":"image/png"}"#,
            r#"{"name":"b.pdf","url":"https://example.org/b.pdf","media_type":"application/pdf","size_bytes":7}"#,
            r#"{"name":"c","url":"https://example.org/c","data":"aGk=","media_type":"text/plain","new":1.0}"#,
            r#"{"name":"","url":"data:image/png;base64,aGk=","media_type":"image/png"}"#,
            r#"{"name":"gone","media_type":""}"#,
        ][..],
    );
    let some = proptest::collection::vec(attachment, 0..4);
    prop_oneof![
        Just(String::new()),
        some.prop_map(|attachments| format!(r#","attachments":[{}]"#, attachments.join(","))),
    ]
}

/// The JSON of the other members of an action, after type, timestamp and sequence number.
fn any_action() -> impl Strategy<Value = String> {
    let system = proptest::sample::select(
        &[
            "x",
            "a-b",
            "tp.error",
            "tp.abort",
            "tp.file",
            "tp.source_url",
            "tp.source_document",
            "tp.custom",
            "tp.approval",
            "tp.tool_denied",
            "tp.retry",
            "tp-x",
            "pydantic_ai.system_prompt",
            "",
        ][..],
    );
    let agent = || proptest::sample::select(&["a1", "a1", "a1", "a2"][..]);
    let call = || proptest::sample::select(&["c1", "c2", "c3"][..]);
    let status = proptest::sample::select(&["success", "success", "error", "validation_error"][..]);
    let extra = || {
        prop_oneof![
            3 => Just(String::new()),
            1 => Just(r#","action_id":"i""#.to_owned()),
            1 => Just(r#","metadata":{"app":{"k":1.0}},"new":[1.0]"#.to_owned()),
        ]
    };
    prop_oneof![
        2 => (any_content(), any_attachments(), extra()).prop_map(|(content, attached, extra)| format!(
            r#""action_type":"user_message","content":{content}{attached}{extra}"#)),
        4 => (any_content(), agent(), extra(), any::<bool>()).prop_map(|(content, agent, extra, stop)| format!(
            r#""action_type":"assistant_message","agent_id":"{agent}","content":{content}{}{extra}"#,
            if stop { r#","finish_reason":"stop","usage":{"input_tokens":1,"output_tokens":2}"# } else { "" })),
        2 => (any_text(), agent(), extra(), any::<bool>()).prop_map(|(text, agent, extra, signed)| format!(
            r#""action_type":"thinking","agent_id":"{agent}","provider_name":"p","content":{}{}{extra}"#,
            string(&text), if signed { r#","signature":"s","thinking_id":"t""# } else { "" })),
        5 => (call(), any_value(), agent(), extra()).prop_map(|(id, args, agent, extra)| format!(
            r#""action_type":"tool_call","agent_id":"{agent}","tool_name":"t","tool_call_id":"{id}","args":{args}{extra}"#)),
        5 => (call(), any_value(), status, extra()).prop_map(|(id, content, status, extra)| format!(
            r#""action_type":"tool_return","tool_name":"t","tool_call_id":"{id}","status":"{status}","content":{content}{extra}"#)),
        3 => (system, any_value(), extra()).prop_map(|(name, data, extra)| format!(r#""action_type":"system.{name}","data":{data}{extra}"#)),
        1 => extra().prop_map(|extra| format!(r#""action_type":"teleport","to":"moon"{extra}"#)),
    ]
}

fn any_thread() -> impl Strategy<Value = Thread> {
    proptest::collection::vec((any_action(), 0..60_u8), 0..12).prop_map(|actions| {
        let mut thread = Thread::new("6b9c4c0e-51a5-4d0c-9d3a-2f8b0f3a7c11", "2026-01-01T00:00:00Z", "T");
        for id in ["a1", "a2"] {
            thread.agents.add(AgentConfig {
                agent_id: id.to_owned(),
                created_at: "2026-01-01T00:00:00Z".to_owned(),
                config_ref: (id == "a1").then(|| "#/metadata/pydantic_ai/configs/0".to_owned()),
                ..AgentConfig::default()
            });
        }
        let mut metadata = RawObject::new();
        metadata.insert("app", RawJson::from_text(r#"{"n":1.0}"#.to_owned()).unwrap());
        thread.metadata = Some(metadata);
        for (action, second) in actions {
            let text = format!(r#"{{{action},"timestamp":"2026-01-01T10:00:{second:02}Z","sequence":1}}"#);
            thread.append(serde_json::from_str::<Action>(&text).unwrap());
        }
        thread
    })
}

fn any_sdk() -> impl Strategy<Value = Sdk> {
    proptest::sample::select(&[Sdk::V5, Sdk::V6, Sdk::V7][..])
}

/// Reads the frames of these chunks in pieces of `size` bytes.
fn read_back(chunks: &[Chunk], size: usize) -> UiStreamReader {
    read_back_with(chunks, size, SidecarLevel::Portable)
}

fn read_back_with(chunks: &[Chunk], size: usize, sidecar: SidecarLevel) -> UiStreamReader {
    let mut bytes = Vec::new();
    for chunk in chunks {
        chunk.write_frame(&mut bytes);
    }
    let mut reader =
        UiStreamReader::new(Vec::new(), UiImportOptions { sidecar, ..UiImportOptions::default() });
    for piece in bytes.chunks(size) {
        reader.push_bytes(piece).unwrap();
    }
    reader
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap()
}

proptest! {
    #![proptest_config(with_cases(400))]

    #[test]
    fn a_stream_round_trips_the_core_of_its_thread(thread in any_thread(), sdk in any_sdk(), size in 1..200_usize) {
        let stream: Vec<Chunk> = thread.to_ui_stream(&ExportOptions { sdk, ..ExportOptions::default() }).collect();
        let back = read_back(&stream, size).thread();
        prop_assert_eq!(String::from_utf8(back.to_json()).unwrap(), String::from_utf8(thread.core().to_json()).unwrap());
    }

    #[test]
    fn a_stream_with_the_full_sidecar_round_trips_the_thread(thread in any_thread(), sdk in any_sdk()) {
        let stream: Vec<Chunk> = thread.to_ui_stream(&ExportOptions { sdk, sidecar: SidecarLevel::Full, ..ExportOptions::default() }).collect();
        let back = read_back_with(&stream, 1000, SidecarLevel::Full).thread();
        prop_assert_eq!(String::from_utf8(back.to_json()).unwrap(), String::from_utf8(thread.to_json()).unwrap());
    }

    #[test]
    fn messages_round_trip_the_core_of_their_thread(thread in any_thread(), sdk in any_sdk()) {
        prop_assume!(!thread.actions.is_empty());
        let core = thread.core();
        prop_assume!(!core.actions.is_empty());
        let messages = thread.to_ui_messages(&ExportOptions { sdk, ..ExportOptions::default() });
        let text = json(&messages);
        let messages: Vec<UiMessage> = serde_json::from_str(&text).unwrap();
        let back = from_ui_messages(&messages, &UiImportOptions::default());
        prop_assert_eq!(String::from_utf8(back.to_json()).unwrap(), String::from_utf8(core.to_json()).unwrap());
    }

    #[test]
    fn messages_with_the_full_sidecar_round_trip_the_thread(thread in any_thread(), sdk in any_sdk()) {
        prop_assume!(!thread.actions.is_empty());
        let options = ExportOptions { sdk, sidecar: SidecarLevel::Full, ..ExportOptions::default() };
        let import = UiImportOptions { sidecar: SidecarLevel::Full, ..UiImportOptions::default() };
        let back = from_ui_messages(&thread.to_ui_messages(&options), &import);
        prop_assert_eq!(String::from_utf8(back.to_json()).unwrap(), String::from_utf8(thread.to_json()).unwrap());
    }

    #[test]
    fn imported_messages_round_trip(thread in any_thread(), sdk in any_sdk()) {
        let options = ExportOptions { sdk, sidecar: SidecarLevel::None, ..ExportOptions::default() };
        let messages = thread.to_ui_messages(&options);
        let recorded = from_ui_messages(&messages, &UiImportOptions::default());
        let reread = Thread::from_json(&recorded.to_json(), &Limits::default()).unwrap();
        prop_assert_eq!(json(&reread.to_ui_messages(&options)), json(&messages));
    }

    #[test]
    fn reading_a_stream_is_independent_of_chunking(thread in any_thread(), sdk in any_sdk(), one in 1..40_usize, two in 1..4000_usize) {
        let stream: Vec<Chunk> = thread.to_ui_stream(&ExportOptions { sdk, ..ExportOptions::default() }).collect();
        let (mut one, mut two) = (read_back(&stream, one), read_back(&stream, two));
        prop_assert_eq!(json(&one.messages()), json(&two.messages()));
        prop_assert_eq!(one.thread(), two.thread());
        prop_assert_eq!(one.count(), two.count());
    }

    #[test]
    fn the_last_turn_has_the_actions_after_the_last_user_message(thread in any_thread(), sdk in any_sdk()) {
        let stream: Vec<Chunk> = thread.to_ui_stream(&ExportOptions { sdk, turns: Turns::Last, ..ExportOptions::default() }).collect();
        let back = read_back(&stream, 500).thread();
        let core = thread.core();
        let after = core.actions.iter().rposition(|action| matches!(**action, Action::UserMessage(_))).map_or(0, |place| place + 1);
        let expected: Vec<String> = core.actions.iter().skip(after).map(|action| json(&**action)).collect();
        let actual: Vec<String> = back.actions.iter().map(|action| json(&**action)).collect();
        prop_assert_eq!(actual, expected);
    }

    #[test]
    fn the_reader_does_not_panic_on_any_chunks(chunks in proptest::collection::vec((proptest::sample::select(&[
        "start", "text-start", "text-delta", "text-end", "reasoning-start", "reasoning-delta", "tool-input-start",
        "tool-input-delta", "tool-input-available", "tool-input-error", "tool-output-available", "tool-output-error",
        "tool-output-denied", "tool-approval-request", "tool-approval-response", "start-step", "finish-step",
        "reset-step", "data-x", "data-tp-action", "data-tp-user_message", "data-tp-tool_denied", "source-url", "file",
        "error", "abort", "finish", "message-metadata", "steering-message", "later",
    ][..]), any_value(), 0..3_u8), 0..20)) {
        let mut reader = UiStreamReader::new(Vec::new(), UiImportOptions::default());
        for (kind, value, id) in chunks {
            let text = string(&value);
            let chunk = format!(
                r#"{{"type":"{kind}","id":"{id}","toolCallId":"c{id}","toolName":"t","approvalId":"{id}","approved":true,"delta":{text},"inputTextDelta":{text},"input":{value},"output":{value},"data":{value},"errorText":{text},"url":{text},"mediaType":"image/png","sourceId":"s","messageMetadata":{value},"parts":[]}}"#
            );
            if reader.push_json(&chunk).is_err() {
                break;
            }
        }
        let thread = reader.thread();
        let back = Thread::from_json(&thread.to_json(), &Limits::default()).unwrap();
        let recorded = reader.messages();
        let again = back.to_ui_messages(&ExportOptions { sidecar: SidecarLevel::None, ..ExportOptions::default() });
        if !recorded.is_empty() {
            prop_assert_eq!(json(&again), json(&recorded));
        }
        for sdk in [Sdk::V5, Sdk::V6, Sdk::V7] {
            let stream: Vec<Chunk> = back.to_ui_stream(&ExportOptions { sdk, ..ExportOptions::default() }).collect();
            read_back(&stream, 100);
        }
    }
}
