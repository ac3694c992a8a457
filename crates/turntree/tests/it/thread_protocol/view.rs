//! Views of a thread for one agent. ThreadProtocol 1.0.0, "ThreadProtocol → `ModelMessages`"; decisions 4, 11, 12.

use turntree::core::limits::Limits;
use turntree::thread_protocol::Thread;
use turntree::thread_protocol::convert::pydantic_ai::{Others, OthersRole, ToolVisibility, ViewOptions};

const EXAMPLE: &str = include_str!("../../../../../tests/data/thread_protocol/example.json");
const WEATHER: &str = "agent_001";
const TRAVEL: &str = "agent_002";

fn read(text: &str) -> Thread {
    Thread::from_json(text.as_bytes(), &Limits::default()).unwrap()
}

/// The kind and the parts of each message, as `part_kind:content`.
fn outline(thread: &Thread, options: &ViewOptions) -> Vec<(String, Vec<String>)> {
    let json = thread.to_pydantic_ai_json(options).unwrap();
    let messages: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let line = |part: &serde_json::Value| {
        let content = ["content", "args"].iter().find_map(|key| part.get(key)).unwrap();
        let content = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        let id = part.get("tool_call_id").and_then(serde_json::Value::as_str).unwrap_or_default();
        format!(
            "{}:{content}{}{id}",
            part["part_kind"].as_str().unwrap(),
            if id.is_empty() { "" } else { " #" }
        )
    };
    messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let parts = message["parts"].as_array().unwrap().iter().map(line).collect();
            (message["kind"].as_str().unwrap().to_owned(), parts)
        })
        .collect()
}

fn message(kind: &str, parts: &[&str]) -> (String, Vec<String>) {
    (kind.to_owned(), parts.iter().map(|part| (*part).to_owned()).collect())
}

const RESULT: &str = r#"{"temperature":18,"conditions":"partly cloudy","humidity":65}"#;

#[test]
fn the_own_messages_and_calls_of_an_agent_are_unchanged() {
    assert_eq!(
        outline(&read(EXAMPLE), &ViewOptions::of(WEATHER)),
        [
            message("request", &["user-prompt:What's the weather like in Tokyo?"]),
            message(
                "response",
                &[
                    "text:Let me check the current weather in Tokyo for you.",
                    r#"tool-call:{"city":"Tokyo","units":"celsius"} #call_001"#
                ]
            ),
            message("request", &[&format!("tool-return:{RESULT} #call_001")]),
            message(
                "response",
                &["text:The weather in Tokyo is currently 18°C and partly cloudy with 65% humidity."]
            ),
            message(
                "request",
                &[
                    "user-prompt:{agent:Travel Planner}: Great weather for sightseeing! Would you like recommendations for outdoor activities in Tokyo?"
                ]
            ),
        ]
    );
}

#[test]
fn tools_of_other_agents_are_hidden_summarised_or_shown_as_pairs() {
    let view = |tool_visibility| ViewOptions { tool_visibility, ..ViewOptions::of(TRAVEL) };
    let parts = |tool_visibility| -> Vec<String> {
        outline(&read(EXAMPLE), &view(tool_visibility)).into_iter().flat_map(|(_, parts)| parts).collect()
    };
    let about_tools = |tool_visibility| -> Vec<String> {
        parts(tool_visibility)
            .into_iter()
            .filter(|part| part.contains("call_001") || part.contains("[tool"))
            .collect()
    };

    assert_eq!(about_tools(ToolVisibility::Hide), [""; 0]);
    assert_eq!(
        about_tools(ToolVisibility::Summarize),
        [format!(
            r#"user-prompt:{{agent:Weather Assistant}}: [tool get_weather({{"city":"Tokyo","units":"celsius"}}) → success: {RESULT}]"#
        )]
    );
    assert_eq!(
        about_tools(ToolVisibility::Show),
        [
            r#"tool-call:{"city":"Tokyo","units":"celsius"} #agent_001:call_001"#.to_owned(),
            format!("tool-return:{RESULT} #agent_001:call_001")
        ]
    );
}

#[test]
fn messages_of_other_agents_become_assistant_messages_or_are_hidden() {
    let assistant = ViewOptions { others_role: OthersRole::Assistant, ..ViewOptions::of(WEATHER) };
    let hidden = ViewOptions { others: Others::Hide, ..ViewOptions::of(WEATHER) };
    let plain = ViewOptions { attribution: "<NAME> ".to_owned(), ..ViewOptions::of(WEATHER) };

    let last = |options: &ViewOptions| outline(&read(EXAMPLE), options).pop().unwrap();

    let (kind, parts) = last(&assistant);
    assert!(kind == "response" && parts[0].starts_with("text:{agent:Travel Planner}: Great"), "{parts:?}");
    assert!(last(&hidden).1[0].starts_with("text:The weather in Tokyo"));
    assert!(last(&plain).1[0].starts_with("user-prompt:<Travel Planner> Great"));
}

#[test]
fn thinking_of_other_agents_open_calls_and_orphaned_returns_are_omitted() {
    let action = |sequence: u8, rest: &str| {
        format!(r#"{{"timestamp":"2025-01-15T10:00:00Z","sequence":{sequence},{rest}}}"#)
    };
    let head = EXAMPLE.split(r#""actions":["#).next().unwrap();
    let actions = [
        action(
            1,
            r#""action_type":"thinking","agent_id":"agent_001","content":"secret","provider_name":"p""#,
        ),
        action(
            2,
            r#""action_type":"tool_call","agent_id":"agent_001","tool_name":"t","tool_call_id":"open","args":{}"#,
        ),
        action(
            3,
            r#""action_type":"tool_return","tool_name":"t","tool_call_id":"orphan","status":"success","content":1"#,
        ),
        action(4, r#""action_type":"thinking","agent_id":"agent_002","content":"own","provider_name":"p""#),
        action(
            5,
            r#""action_type":"assistant_message","agent_id":"agent_001","content":[{"type":"image","image_url":"u"},{"type":"text","text":"see"},{"type":"text","text":"more"}]"#,
        ),
    ];
    let thread = read(&format!(r#"{head}"actions":[{}]}}"#, actions.join(",")));
    let show = ViewOptions { tool_visibility: ToolVisibility::Show, ..ViewOptions::of(TRAVEL) };
    let summarize = ViewOptions { tool_visibility: ToolVisibility::Summarize, ..ViewOptions::of(TRAVEL) };

    let seen = outline(&thread, &show);

    assert_eq!(seen[0], message("response", &["thinking:own"]));
    assert_eq!(seen.len(), 2);
    let text = &seen[1].1[0];
    assert!(text.contains(r#""{agent:Weather Assistant}: see","more""#), "{text}");
    assert_eq!(
        outline(&thread, &summarize)[0].1,
        ["user-prompt:{agent:Weather Assistant}: [tool t({}) → no result]"]
    );
}

#[test]
fn a_thread_without_round_trip_metadata_is_exported_by_the_mapping_rules() {
    let all = outline(&read(EXAMPLE), &ViewOptions::default());

    let kinds: Vec<&str> = all.iter().map(|(kind, _)| kind.as_str()).collect();

    assert_eq!(kinds, ["request", "response", "request", "response", "response"]);
    let json = read(EXAMPLE).to_pydantic_ai_json(&ViewOptions::default()).unwrap();
    let json = String::from_utf8(json).unwrap();
    assert!(json.contains(r#""finish_reason":"tool_call""#));
    assert!(json.contains(r#""outcome":"success","retry":null,"part_kind":"tool-return""#));
}

#[test]
fn an_unknown_agent_is_an_error_that_names_the_known_ones() {
    let error = read(EXAMPLE).to_pydantic_ai_json(&ViewOptions::of("fred")).unwrap_err();

    assert_eq!(
        error.to_string(),
        r#"no agent "fred" in this thread; its agents are "agent_001", "agent_002""#
    );
}

#[test]
fn a_call_without_a_return_is_omitted_unless_it_is_last() {
    let call = |sequence: u64| {
        format!(
            r#"{{"action_type":"tool_call","timestamp":"2025-01-15T10:00:00Z","sequence":{sequence},"agent_id":"a","tool_name":"t","tool_call_id":"c{sequence}","args":{{}}}}"#
        )
    };
    let user = |sequence: u64| {
        format!(
            r#"{{"action_type":"user_message","timestamp":"2025-01-15T10:00:00Z","sequence":{sequence},"content":"x"}}"#
        )
    };
    let text = format!(
        r#"{{"version":"1.0.0","thread_id":"t","created_at":"2025-01-15T10:00:00Z","updated_at":"2025-01-15T10:00:00Z","title":"","agents":{{"a":{{"agent_id":"a","agent_identifier":"a","agent_name":"A","created_at":"2025-01-15T10:00:00Z"}}}},"actions":[{},{},{}]}}"#,
        call(1),
        user(2),
        call(3)
    );
    let thread = Thread::from_json(text.as_bytes(), &Limits::default()).unwrap();

    let view = String::from_utf8(thread.to_pydantic_ai_json(&ViewOptions::of("a")).unwrap()).unwrap();

    assert!(!view.contains("c1") && view.contains("c3"), "{view}");
}
