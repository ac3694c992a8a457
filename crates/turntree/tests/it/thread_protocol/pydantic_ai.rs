//! Import of Pydantic AI histories and lossless export.

use turntree::core::json::eq_tokens;
use turntree::core::limits::Limits;
use turntree::thread_protocol::convert::pydantic_ai::{
    AgentSource, CombineText, ImportOptions, ProfileKind, ViewOptions, from_messages, from_pydantic_ai_json,
    read_history,
};
use turntree::thread_protocol::{Action, AgentConfig, ContentPart, MessageContent, Rule, Thread};

macro_rules! fixtures {
    ($($name:ident),* $(,)?) => {
        pub(crate) const FIXTURES: &[(&str, &str)] = &[
            $((stringify!($name), include_str!(concat!("../../../../../tests/data/thread_protocol/pydantic_ai/", stringify!($name), ".json"))),)*
        ];
    };
}

fixtures!(
    call_ids_repeat,
    empty,
    multimodal,
    no_nulls,
    retries_new,
    retries_old,
    system_prompts,
    text,
    texts_split,
    thinking,
    times,
    tools,
    unknown
);

fn fixture(name: &str) -> &'static str {
    FIXTURES.iter().find(|(fixture, _)| *fixture == name).unwrap().1
}

pub(crate) fn import(history: &str) -> Thread {
    from_pydantic_ai_json(history.as_bytes(), &ImportOptions::default()).unwrap()
}

pub(crate) fn back(thread: &Thread) -> String {
    String::from_utf8(thread.to_pydantic_ai_json(&ViewOptions::default()).unwrap()).unwrap()
}

pub(crate) fn reread(thread: &Thread) -> Thread {
    Thread::from_json(&thread.to_json(), &Limits::default()).unwrap()
}

fn text_of(thread: &Thread) -> String {
    String::from_utf8(thread.to_json()).unwrap()
}

/// The actions as `type:content`.
fn summarize(thread: &Thread) -> Vec<String> {
    let line = |action: &Action| match action {
        Action::UserMessage(action) => format!("user:{}", action.content.text()),
        Action::AssistantMessage(action) => format!("assistant:{}", action.content.text()),
        Action::Thinking(action) => format!("thinking:{}", action.content.as_deref().unwrap_or("-")),
        Action::ToolCall(action) => format!("call:{}({})", action.tool_name, action.args),
        Action::ToolReturn(action) => format!("{}:{}={}", action.status, action.tool_name, action.content),
        Action::System(action) => action.action_type.to_string(),
        Action::Other(action) => format!("other:{}", action.action_type),
    };
    thread.actions.iter().map(|action| line(action)).collect()
}

#[test]
fn every_fixture_round_trips_byte_for_byte_with_all_options() {
    let options = [
        ImportOptions::default(),
        ImportOptions { combine_text: CombineText::Response, ..ImportOptions::default() },
        ImportOptions { validation_status: true, strict: true, ..ImportOptions::default() },
    ];
    for (name, history) in FIXTURES {
        for options in &options {
            let thread = from_pydantic_ai_json(history.as_bytes(), options).unwrap();
            assert_eq!(back(&thread), *history, "{name}");
            assert_eq!(back(&reread(&thread)), *history, "{name}");
            assert!(!text_of(&thread).contains('\n'), "{name} fits on a line");
            if options.strict {
                assert!(thread.actions.iter().all(|action| action.metadata().is_none()), "{name}");
            }
        }
    }
}

#[test]
fn importing_json_or_messages_gives_the_same_thread() {
    for (name, history) in FIXTURES {
        let messages = read_history(history, &Limits::default()).unwrap();
        let thread = from_messages(&messages, &ImportOptions::default());
        assert_eq!(text_of(&thread), text_of(&import(history)), "{name}");
    }
}

#[test]
fn imported_threads_are_valid_in_every_profile() {
    for (name, history) in FIXTURES {
        for profile in [ProfileKind::Full, ProfileKind::Portable] {
            let options = ImportOptions { profile, ..ImportOptions::default() };
            let thread = from_pydantic_ai_json(history.as_bytes(), &options).unwrap();
            assert_eq!(thread.check(), Ok(()), "{name}");
            // This history has a return without a call.
            let has = thread.validate().iter().any(|issue| issue.rule == Rule::ToolCallId);
            assert_eq!(has, *name == "tools", "{name}");
            assert_eq!(thread.check_strictly().is_err() && has, has, "{name}");
        }
    }
}

#[test]
fn tools_become_calls_and_returns_in_call_order() {
    assert_eq!(
        summarize(&import(fixture("tools"))),
        [
            "user:Go",
            "assistant:Let me look.",
            r#"call:a({"city":"Tokyo","n":1e+22})"#,
            r#"call:b({"x":[1,2]})"#,
            r#"call:b({"x":1})"#,
            "call:d(null)",
            r#"call:e("{\"broken\":")"#,
            r#"call:e("")"#,
            r#"success:a="plain""#,
            r#"success:b={"deep":{"k":[null,true,1.0]}}"#,
            "success:b=[]",
            "error:d=null",
            "system.tp.tool_denied",
            r#"error:e="Denied.""#,
            r#"error:e="Interrupted.""#,
            "user:and hurry",
            "assistant:Done.",
            "success:ghost=5",
        ]
    );
}

#[test]
fn retries_become_errors_or_validation_errors() {
    let refined = ImportOptions { validation_status: true, ..ImportOptions::default() };
    for (name, expected) in [
        ("retries_old", ["error:a", "validation_error:a"]),
        ("retries_new", ["error:a", "validation_error:a"]),
    ] {
        let plain = summarize(&import(fixture(name)));
        let detailed = summarize(&from_pydantic_ai_json(fixture(name).as_bytes(), &refined).unwrap());
        assert!(plain.iter().any(|line| line.starts_with(expected[0])), "{plain:?}");
        assert!(detailed.iter().any(|line| line.starts_with(expected[1])), "{detailed:?}");
        assert_eq!(plain.last().unwrap(), "system.tp.retry");
    }
    let retried = summarize(&from_pydantic_ai_json(fixture("retries_new").as_bytes(), &refined).unwrap());
    assert!(retried.contains(&r#"error:b="Try again.""#.to_owned()), "{retried:?}");
}

#[test]
fn multimodal_content_becomes_parts_with_standard_base64() {
    let thread = import(fixture("multimodal"));
    let Action::UserMessage(prompt) = &*thread.actions[0] else { unreachable!() };
    let MessageContent::Parts(parts) = &prompt.content else { unreachable!() };

    let kinds: Vec<&str> = parts.iter().map(ContentPart::kind).collect();

    assert_eq!(
        kinds,
        [
            "text", "image", "image", "image", "audio", "file", "audio", "video", "file", "file", "text",
            "text"
        ]
    );
    let document = text_of(&thread);
    assert!(document.contains(r#"{"type":"image","image_base64":"+/8AAQ==","media_type":"image/png"}"#));
    assert!(!document.contains("_-8AAQ=="));
    assert!(document.contains(
        r#"{"type":"file","file_id":"file-1","provider":"openai","media_type":"application/pdf"}"#
    ));
}

#[test]
fn adjacent_texts_or_all_texts_are_joined() {
    let history = fixture("texts_split");
    let all = ImportOptions { combine_text: CombineText::Response, ..ImportOptions::default() };

    let adjacent = summarize(&import(history));
    let joined = summarize(&from_pydantic_ai_json(history.as_bytes(), &all).unwrap());

    assert_eq!(
        adjacent[1..],
        ["assistant:Grüße, 😀!", "call:a({})", "assistant:\n\nAfter", MESSAGE, MESSAGE].map(str::to_owned)
    );
    assert_eq!(
        joined[1..],
        ["assistant:Grüße, 😀!\n\n\n\nAfter", "call:a({})", MESSAGE, MESSAGE].map(str::to_owned)
    );
}

const MESSAGE: &str = "system.pydantic_ai.message";

#[test]
fn system_prompts_and_instructions_become_the_agent_configuration() {
    let thread = import(fixture("system_prompts"));
    let (_, agent) = thread.agents.iter().next().unwrap();

    let reference = agent.config_ref.as_deref().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&thread.to_json()).unwrap();
    let config = document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
    let texts = document.pointer("/metadata/pydantic_ai/texts").unwrap();
    let text = |address: &serde_json::Value| texts[address.as_str().unwrap()].as_str().unwrap().to_owned();

    assert_eq!(text(&config["system_prompts"][0]), "One.");
    assert_eq!(text(&config["system_prompts"][1]), "Two.");
    assert_eq!(text(&config["instructions"]), "Rules\n\"A\"");
    assert_eq!(
        summarize(&thread),
        [
            "user:Hi",
            "assistant:Yo",
            "user:Again",
            "system.pydantic_ai.system_prompt",
            "user:New",
            "user:None"
        ]
    );
}

#[test]
fn usage_and_finish_reason_are_on_the_text_action_and_usage_is_summed() {
    let thread = import(fixture("text"));
    let Action::AssistantMessage(message) = &*thread.actions[1] else { unreachable!() };

    let usage = message.usage.as_ref().unwrap();

    assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (7, 3, Some(10)));
    assert_eq!(message.finish_reason.as_deref(), Some("stop"));
    let whole = import(fixture("call_ids_repeat")).usage();
    assert_eq!((whole.input_tokens, whole.output_tokens, whole.total_tokens), (20, 10, Some(30)));
    let Action::Thinking(thought) = &*import(fixture("thinking")).actions[1].clone() else { unreachable!() };
    assert_eq!(thought.usage.as_ref().and_then(|usage| usage.thinking_tokens), Some(6));
}

#[test]
fn unknown_parts_and_messages_are_preserved() {
    let thread = import(fixture("unknown"));

    assert_eq!(
        summarize(&thread),
        [
            "user:Hi",
            "system.pydantic_ai.part",
            "call:web_search({\"q\":\"x\"})",
            "assistant:AB",
            MESSAGE,
            "assistant:C"
        ]
    );
}

#[test]
fn titles_ids_and_times_come_from_the_history_or_the_options() {
    let thread = import(fixture("tools"));
    assert_eq!(thread.thread_id, "5b8c7a52-4a1b-4c1e-9f57-0d6c0e5a9b11");
    assert_eq!((thread.title.as_str(), thread.created_at.as_str()), ("Go", "2026-03-01T10:00:00.123456Z"));
    let old = import(fixture("retries_old"));
    assert_eq!(old.thread_id, import(fixture("retries_old")).thread_id);
    assert_ne!(old.thread_id, import(fixture("no_nulls")).thread_id);

    let options = ImportOptions {
        thread_id: Some("mine".to_owned()),
        title: Some("Talk".to_owned()),
        agent: AgentSource::One(agent("agent-1", "Fred")),
        ..ImportOptions::default()
    };
    let thread = from_pydantic_ai_json(fixture("tools").as_bytes(), &options).unwrap();
    assert_eq!((thread.thread_id.as_str(), thread.title.as_str()), ("mine", "Talk"));
    assert_eq!(thread.actions[1].agent_id(), Some("agent-1"));
    assert!(thread.agents.get("agent-1").unwrap().config_ref.is_none());
}

fn agent(id: &str, name: &str) -> AgentConfig {
    AgentConfig {
        agent_id: id.to_owned(),
        agent_identifier: name.to_lowercase(),
        agent_name: name.to_owned(),
        created_at: "2026-03-01T10:00:00Z".to_owned(),
        ..AgentConfig::default()
    }
}

#[test]
fn agents_come_from_runs_or_from_message_metadata() {
    let history = fixture("thinking");
    let by_run = ImportOptions {
        agent: AgentSource::ByRun(vec![("run-1".to_owned(), agent("f", "Fred"))]),
        ..ImportOptions::default()
    };
    let thread = from_pydantic_ai_json(history.as_bytes(), &by_run).unwrap();
    assert_eq!(thread.actions[1].agent_id(), Some("f"));

    let named = history.replacen(
        r#""metadata":null,"workspace_ref""#,
        r#""metadata":{"agent":"scout"},"workspace_ref""#,
        1,
    );
    let thread = import(&named);
    let (_, scout) = thread.agents.iter().next().unwrap();
    assert_eq!((scout.agent_identifier.as_str(), thread.agents.len()), ("scout", 1));
    assert_eq!(back(&thread), named);
}

#[test]
fn the_portable_profile_has_no_metadata_and_monotonic_timestamps() {
    let options =
        ImportOptions { profile: ProfileKind::Portable, usage_actions: true, ..ImportOptions::default() };
    for (name, history) in FIXTURES {
        let portable = from_pydantic_ai_json(history.as_bytes(), &options).unwrap();
        assert!(portable.actions.iter().all(|action| action.metadata().is_none()), "{name}");
        assert!(!portable.validate().iter().any(|issue| issue.rule == Rule::Chronology), "{name}");
        portable.to_pydantic_ai_json(&ViewOptions::default()).unwrap();
    }
    let calls = from_pydantic_ai_json(fixture("call_ids_repeat").as_bytes(), &options).unwrap();
    assert_eq!(summarize(&calls)[2], "system.tp.usage");
    assert_eq!(calls.usage().total_tokens, Some(30));
}

#[test]
fn foreign_json_spelling_round_trips_token_by_token() {
    for (name, history) in FIXTURES {
        let value: serde_json::Value = serde_json::from_str(history).unwrap();
        let mut indented = serde_json::to_string_pretty(&value).unwrap();
        indented = indented.replace('é', "\\u00e9").replace("https://", "https:\\/\\/");

        let thread = import(&indented);

        assert!(eq_tokens(&back(&thread), &indented), "{name}");
        assert!(!text_of(&thread).contains('\n'), "{name}");
        assert!(!text_of(&thread).contains(r#""raw":{"parts""#) || *name == "unknown", "{name}");
    }
}

#[test]
fn a_message_with_duplicate_members_is_preserved_verbatim() {
    let twice = r#"[{"parts":[{"content":"a","content":"b","timestamp":"2026-03-01T10:00:00Z","part_kind":"user-prompt"}],"kind":"request","kind":"request"},{"parts":[],"usage":null,"kind":"response","timestamp":"2026-03-01T10:00:00Z"}]"#;

    let thread = import(twice);

    assert_eq!(back(&thread), twice);
    assert_eq!(summarize(&thread)[0], "user:b");
    assert!(text_of(&thread).contains(r#""raw":{"parts""#));
}

#[test]
fn edited_actions_change_the_exported_messages() {
    let mut thread = import(fixture("thinking"));
    let last = thread.actions.len() - 1;
    let mut edited = Action::clone(&thread.actions[last]);
    if let Action::AssistantMessage(message) = &mut edited {
        message.content = "43".into();
    }
    thread.actions.0.set(last, edited.into());

    assert_eq!(back(&thread), fixture("thinking").replace(r#""content":"42""#, r#""content":"43""#));
}

#[test]
fn invalid_histories_are_refused_with_a_json_pointer() {
    let cases = [
        (r#"{"kind":"request"}"#, "", "a list of messages"),
        ("null", "", "a list of messages"),
        (r#"[{"role":"user","content":"hi"}]"#, "/0", "kind"),
        (r#"[{"kind":"request"}]"#, "/0", "\"parts\" is missing"),
        (r#"[{"kind":"request","parts":[]},7]"#, "/1", "a message"),
        (r#"[{"kind":"request","parts":{}}]"#, "/0/parts", "a list of parts"),
        (r#"[{"kind":"request","parts":[{"content":"x"}]}]"#, "/0/parts/0", "part_kind"),
        (r#"[{"kind":"request","parts":[{"part_kind":5}]}]"#, "/0/parts/0", "part_kind"),
        (r#"[{"kind":"request","parts":["x"]}]"#, "/0/parts/0", "an object"),
        (r#"[{"kind":"request","parts":["#, "", "the JSON ends in an array"),
        (r#"[{"kind":"response","parts":[],"usage":[1]}]"#, "/0/usage", "an object, not [1]"),
        (
            r#"[{"kind":"request","parts":[{"content":["a",{"kind":"binary","data":"%"}],"part_kind":"user-prompt"}]}]"#,
            "/0/parts/0/content/1/data",
            "base64",
        ),
        (
            r#"[{"kind":"request","parts":[{"content":"\ud800","part_kind":"user-prompt"}]}]"#,
            "",
            "at byte 40",
        ),
        ("[}", "", "expected"),
        ("", "", "the text is empty"),
        ("[] []", "", "text after the end of the document"),
    ];
    for (history, pointer, words) in cases {
        let error = from_pydantic_ai_json(history.as_bytes(), &ImportOptions::default()).unwrap_err();
        assert_eq!(error.pointer(), pointer, "{history}: {error}");
        assert!(error.to_string().contains(words), "{history}: {error}");
        assert!(!error.hint().is_empty());
    }
    let bomb = format!(r#"[{{"kind":"request","parts":[{{"part_kind":"x","y":{}"#, "[".repeat(100_000));
    for history in [bomb.as_bytes(), b"[\"\xff\"]"] {
        from_pydantic_ai_json(history, &ImportOptions::default()).unwrap_err();
    }
}

#[test]
fn damaged_round_trip_metadata_is_an_error() {
    let document = text_of(&import(fixture("texts_split")));
    for (from, to) in [
        (r#""action":0"#, r#""action":99"#),
        (r#""length":5"#, r#""length":"x""#),
        (r#""index":0"#, r#""index":-1"#),
        (r#""layout":[{"#, r#""layout":[5,{"#),
    ] {
        let damaged = document.replacen(from, to, 1);
        assert_ne!(damaged, document, "{from}");
        let thread = Thread::from_json(damaged.as_bytes(), &Limits::default()).unwrap();
        let error = thread.to_pydantic_ai_json(&ViewOptions::default()).unwrap_err();
        assert_eq!(error.rule(), "residue", "{error}");
        assert!(error.pointer().starts_with("/actions/"), "{error}");
    }
}

#[test]
fn export_fails_above_its_size_limit() {
    let thread = import(fixture("system_prompts"));
    let options =
        ViewOptions { limits: Limits { bytes: 100, ..Limits::default() }, ..ViewOptions::default() };

    assert_eq!(thread.to_pydantic_ai_json(&options).unwrap_err().rule(), "limit_exceeded");
}
