//! Files, speech, compactions and provider tools: their actions and the export. Mapping of ThreadProtocol 1.0.0 from and to
//! Pydantic AI.

use turntree::core::limits::Limits;
use turntree::thread_protocol::convert::pydantic_ai::{
    ImportOptions, ProfileKind, ViewOptions, class_members, from_pydantic_ai_json, isoformat_of, write_time,
};
use turntree::thread_protocol::{Action, ContentPart, MessageContent, Thread};

const PICTURE: &str = r#"{"data":"_-8AAQ==","media_type":"image/png","vendor_metadata":null,"kind":"binary","identifier":"a1b2c3"}"#;

fn answer(parts: &str) -> String {
    format!(
        r#"[{{"parts":[{parts}],"usage":{{}},"timestamp":"2026-03-01T10:00:01Z","kind":"response","run_id":null}}]"#
    )
}

fn request(parts: &str) -> String {
    format!(
        r#"[{{"parts":[{parts}],"timestamp":"2026-03-01T10:00:01Z","instructions":null,"kind":"request"}}]"#
    )
}

fn text(content: &str) -> String {
    format!(r#"{{"content":"{content}","id":"m1","provider_name":"openai","part_kind":"text"}}"#)
}

fn file() -> String {
    format!(
        r#"{{"content":{PICTURE},"id":"f1","provider_name":"openai","provider_details":{{"n":1.50}},"part_kind":"file"}}"#
    )
}

/// Imports a history and checks that it round-trips.
fn import(history: &str) -> Thread {
    for strict in [false, true] {
        let options = ImportOptions { strict, ..ImportOptions::default() };
        let thread = from_pydantic_ai_json(history.as_bytes(), &options).unwrap();
        let read = Thread::from_json(&thread.to_json(), &Limits::default()).unwrap();
        let back = read.to_pydantic_ai_json(&ViewOptions::default()).unwrap();
        assert_eq!(String::from_utf8(back).unwrap(), history);
        assert!(
            !String::from_utf8(thread.to_json()).unwrap().contains("\"raw\":"),
            "preserved verbatim: {history}"
        );
    }
    from_pydantic_ai_json(history.as_bytes(), &ImportOptions::default()).unwrap()
}

fn portable(history: &str) -> Thread {
    let options = ImportOptions { profile: ProfileKind::Portable, ..ImportOptions::default() };
    from_pydantic_ai_json(history.as_bytes(), &options).unwrap()
}

fn json_of(messages: &[u8]) -> serde_json::Value {
    serde_json::from_slice(messages).unwrap()
}

#[test]
fn provider_tools_become_calls_and_returns_of_the_agent() {
    let call = r#"{"tool_name":"web_search","args":"{\"q\": \"x\"}","tool_call_id":"n1","provider_name":"openai","part_kind":"builtin-tool-call"}"#;
    let returned = r#"{"tool_name":"web_search","content":{"hits":[1.0]},"tool_call_id":"n1","metadata":null,"timestamp":"2026-03-01T10:00:02Z","outcome":"failed","provider_name":"openai","part_kind":"builtin-tool-return"}"#;
    let history = answer(&[call, returned, &text("Done.")].join(","));

    let thread = import(&history);
    let Action::ToolCall(called) = &*thread.actions[0] else { unreachable!() };
    let Action::ToolReturn(answered) = &*thread.actions[1] else { unreachable!() };

    assert_eq!((called.tool_name.as_str(), called.args.get()), ("web_search", r#"{"q":"x"}"#));
    assert_eq!((answered.tool_call_id.as_str(), answered.status.as_str()), ("n1", "error"));
    assert_eq!(thread.check(), Ok(()));

    let agent_id = called.agent_id.clone();
    let view = json_of(&thread.to_pydantic_ai_json(&ViewOptions::of(agent_id)).unwrap());
    assert_eq!(view.as_array().map(Vec::len), Some(1), "the return stays in its response: {view}");
    assert_eq!(view[0]["parts"][1]["part_kind"], "builtin-tool-return");
}

#[test]
fn files_and_adjacent_texts_become_one_message() {
    let history = answer(&[text("Look:"), file(), text("a"), text("b")].join(","));

    let thread = import(&history);
    let Action::AssistantMessage(message) = &*thread.actions[0] else { unreachable!() };
    let MessageContent::Parts(parts) = &message.content else { unreachable!() };

    assert_eq!(thread.actions.len(), 1);
    assert_eq!(parts.iter().map(ContentPart::kind).collect::<Vec<_>>(), ["text", "image", "text"]);
    assert_eq!(parts[2].as_text(), Some("ab"));
    let ContentPart::Image(picture) = &parts[1] else { unreachable!() };
    assert_eq!(picture.base64.as_deref(), Some("/+8AAQ=="));

    let plain = json_of(&portable(&history).to_pydantic_ai_json(&ViewOptions::default()).unwrap());
    let kinds: Vec<_> = plain[0]["parts"].as_array().unwrap().iter().map(|part| &part["part_kind"]).collect();
    assert_eq!(kinds, ["text", "file", "text"]);
    assert_eq!(plain[0]["parts"][1]["content"]["data"], "_-8AAQ==");
}

#[test]
fn files_and_empty_texts_round_trip_in_every_order() {
    let pieces = [text("x"), text(""), file(), text("")];
    for order in 0..24_usize {
        let mut left: Vec<&String> = pieces.iter().collect();
        let mut number = order;
        let mut parts = Vec::new();
        while !left.is_empty() {
            let place = number % left.len();
            number /= left.len().max(1);
            parts.push(left.remove(place).clone());
        }
        let history = answer(&parts.join(","));
        let options = ImportOptions::default();
        let thread = from_pydantic_ai_json(history.as_bytes(), &options).unwrap();
        let back = thread.to_pydantic_ai_json(&ViewOptions::default()).unwrap();
        assert_eq!(String::from_utf8(back).unwrap(), history);
    }
}

#[test]
fn speech_becomes_text_with_audio() {
    let sound = PICTURE.replace("image/png", "audio/wav");
    let spoken = |speaker: &str, transcript: &str, audio: &str| {
        format!(
            r#"{{"speaker":"{speaker}","transcript":{transcript},"audio":{audio},"interrupted_at_ms":120,"timestamps":[{{"text":"Hi","start_ms":0,"duration_ms":5}}],"id":"s1","provider_name":"openai","provider_details":null,"part_kind":"speech"}}"#
        )
    };

    let from_user = import(&request(&spoken("user", "\"Hi\"", &sound)));
    let Action::UserMessage(user) = &*from_user.actions[0] else { unreachable!() };
    assert_eq!(user.content.text(), "Hi");
    let MessageContent::Parts(parts) = &user.content else { unreachable!() };
    assert_eq!(parts.iter().map(ContentPart::kind).collect::<Vec<_>>(), ["text", "audio"]);

    let from_assistant = import(&answer(&spoken("assistant", "\"Hello\"", "null")));
    let Action::AssistantMessage(message) = &*from_assistant.actions[0] else { unreachable!() };
    assert_eq!(message.content, MessageContent::Text("Hello".to_owned()));

    import(&answer(&spoken("assistant", "null", &sound)));
    let silent = import(&answer(&spoken("assistant", "null", "null")));
    assert_eq!(silent.actions[0].action_type(), "system.pydantic_ai.part");
}

#[test]
fn compactions_and_deltas_become_system_actions() {
    let parts = [
        (
            r#"{"content":"So far","id":null,"provider_name":null,"provider_details":null,"metadata":{"k":1.0},"part_kind":"compaction"}"#,
            "system.compaction",
            r#"{"content":"So far","metadata":{"k":1.0}}"#,
        ),
        (
            r#"{"tools_added":["a"],"tool_call_id":null,"part_kind":"tool-availability-delta"}"#,
            "system.tool-availability-delta",
            r#"{"added":["a"]}"#,
        ),
        (
            r#"{"added":["a"],"tool_call_id":"c","part_kind":"tool-availability-delta"}"#,
            "system.tool-availability-delta",
            r#"{"added":["a"],"tool_call_id":"c"}"#,
        ),
        (
            r#"{"loaded":["x"],"tool_call_id":"c","part_kind":"capability-load-delta"}"#,
            "system.capability-load-delta",
            r#"{"loaded":["x"],"tool_call_id":"c"}"#,
        ),
        (
            r#"{"settings":{"thinking":"low"},"top_level":true,"part_kind":"model-settings-delta"}"#,
            "system.model-settings-delta",
            r#"{"settings":{"thinking":"low"},"top_level":true}"#,
        ),
    ];
    for (part, name, data) in parts {
        let thread = import(&request(part));
        let Action::System(system) = &*thread.actions[0] else { unreachable!() };
        assert_eq!((system.action_type.as_str(), system.data.get()), (name, data));
        let plain = portable(&request(part));
        assert_eq!(plain.actions[0].action_type(), name);
    }
}

#[test]
fn the_provider_of_an_uploaded_file_is_preserved_without_metadata() {
    let prompt = r#"{"content":["See",{"file_id":"file-1","provider_name":"anthropic","vendor_metadata":null,"kind":"uploaded-file","media_type":"application/pdf","identifier":"f1"}],"timestamp":"2026-03-01T10:00:01Z","part_kind":"user-prompt"}"#;

    let plain = portable(&request(prompt)).to_pydantic_ai_json(&ViewOptions::default()).unwrap();

    let item = &json_of(&plain)[0]["parts"][0]["content"][1];
    assert_eq!((&item["file_id"], &item["provider_name"]), (&"file-1".into(), &"anthropic".into()));
}

#[test]
fn the_members_of_a_class_are_in_the_order_of_dump_json() {
    assert_eq!(class_members("user-prompt"), ["content", "timestamp", "part_kind"]);
    assert_eq!(class_members("tool-return").last(), Some(&"content_file_digests"));
    let usage = class_members("usage");
    let rare = usage.iter().position(|member| *member == "unmeasured_requests");
    assert_eq!(rare, usage.iter().position(|member| *member == "output_tokens").map(|index| index + 1));
    assert_eq!(class_members("cache-point"), ["kind", "ttl"]);
    assert!(class_members("of a later version").is_empty());
}

#[test]
fn times_are_converted_between_pydantic_and_isoformat() {
    let pairs = [
        ("2026-03-01T10:00:01Z", "2026-03-01T10:00:01+00:00"),
        ("2026-03-01T10:00:01.000250Z", "2026-03-01T10:00:01.000250+00:00"),
        ("2026-03-01T10:00:01+05:30", "2026-03-01T10:00:01+05:30"),
        ("2026-03-01T10:00:01", "2026-03-01T10:00:01"),
    ];
    for (time, isoformat) in pairs {
        let mut written = Vec::new();
        write_time(&mut written, isoformat).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), time);
        assert_eq!(isoformat_of(time).as_deref(), Some(isoformat));
    }
    assert_eq!(write_time(&mut Vec::new(), "2026-03-01T10:00:01+05:30:15"), None);
    for time in ["2026-03-01", "2026-03-01 10:00:01Z", "2026-03-01T10:00:01.5Z", "2026-03-01T10:00:01z"] {
        assert_eq!(isoformat_of(time), None, "{time}");
    }
}
