//! ThreadProtocol documents: JSON, validation rules, canonical form. ThreadProtocol 1.0.0.

use proptest::prelude::*;
use turntree::core::json::canonical::{self, CanonicalForm};
use turntree::core::json::{ParseErrorKind, RawJson};
use turntree::core::limits::Limits;
use turntree::thread_protocol::{
    Action, AgentConfig, AssistantMessageAction, ContentPart, MessageContent, Rule, Severity, SystemAction,
    ThinkingAction, Thread, ThreadError, ToolCallAction, ToolReturnAction, Usage, UserMessageAction,
};

const EXAMPLE: &str = include_str!("../../../../../tests/data/thread_protocol/example.json");

fn read(text: &str) -> Thread {
    Thread::from_json(text.as_bytes(), &Limits::default()).unwrap()
}

fn text_of(thread: &Thread) -> String {
    String::from_utf8(thread.to_json()).unwrap()
}

#[test]
fn the_example_of_the_specification_is_valid_and_round_trips_byte_for_byte() {
    let thread = read(EXAMPLE);

    assert_eq!(thread.validate(), []);
    assert_eq!(text_of(&thread), EXAMPLE);
}

#[test]
fn unknown_members_types_and_contents_round_trip() {
    let text = r#"{"version":"1.0.0","thread_id":"t","created_at":"2025-01-15T10:00:00+02:00","updated_at":"2025-01-15T10:00:00","title":"","metadata":{"app":{"n":1.50}},"agents":{"a":{"agent_id":"a","agent_identifier":"a_v1","agent_name":"A","created_at":"2025-01-15T10:00:00Z","mood":"good"}},"actions":[{"action_type":"user_message","action_id":"x","timestamp":"2025-01-15T10:00:00Z","sequence":1,"content":[{"type":"text","text":"a"},{"type":"audio","audio_base64":"AAEC","media_type":"audio/wav"},{"type":"file","file_id":"f"},{"type":"video","video_url":"u"},{"type":"hologram","beam":[1e400]}],"attachments":[{"name":"n","media_type":"text/plain","size_bytes":3}],"metadata":{"app":1},"later":{"b":1,"a":2}},{"action_type":"system.x-y","timestamp":"2025-01-15T10:00:00Z","sequence":2,"data":[12345678901234567890]},{"action_type":"Dance","timestamp":"2025-01-15T10:00:00Z","sequence":3,"steps":3}],"new":null}"#;

    let thread = read(text);

    assert_eq!(text_of(&thread), text);
    assert_eq!(thread.validate().iter().map(|issue| issue.rule).collect::<Vec<_>>(), [Rule::ActionType]);
}

#[test]
fn members_may_come_in_any_order() {
    let thread = read(
        r#"{"actions":[{"sequence":1,"data":{},"timestamp":"2025-01-15T10:00:00Z","action_type":"system.a"}],"agents":{},"title":"T","updated_at":"2025-01-15T10:00:00Z","created_at":"2025-01-15T10:00:00Z","thread_id":"t","version":"1.0.0"}"#,
    );

    assert_eq!(
        text_of(&thread),
        r#"{"version":"1.0.0","thread_id":"t","created_at":"2025-01-15T10:00:00Z","updated_at":"2025-01-15T10:00:00Z","title":"T","agents":{},"actions":[{"action_type":"system.a","timestamp":"2025-01-15T10:00:00Z","sequence":1,"data":{}}]}"#
    );
}

/// A thread with these actions and the agent `a`.
fn with_actions(actions: &str) -> Thread {
    read(&format!(
        r#"{{"version":"1.0.0","thread_id":"t","created_at":"2025-01-15T10:00:00Z","updated_at":"2025-01-15T10:00:00Z","title":"","agents":{{"a":{{"agent_id":"a","agent_identifier":"a","agent_name":"A","created_at":"2025-01-15T10:00:00Z"}}}},"actions":[{actions}]}}"#
    ))
}

fn issues(thread: &Thread) -> Vec<(Rule, String)> {
    thread.validate().into_iter().map(|issue| (issue.rule, issue.pointer)).collect()
}

fn action(kind: &str, sequence: u64, second: u64, rest: &str) -> String {
    format!(
        r#"{{"action_type":"{kind}","timestamp":"2025-01-15T10:00:{second:02}Z","sequence":{sequence}{rest}}}"#
    )
}

#[test]
fn rule_1_sequence_counts_from_one_and_a_gap_is_one_issue() {
    let user = |sequence| action("user_message", sequence, 0, r#","content":"x""#);
    let thread = with_actions(&[user(1), user(3), user(4), user(4)].join(","));

    assert_eq!(
        issues(&thread),
        [
            (Rule::Sequence, "/actions/1/sequence".to_owned()),
            (Rule::Sequence, "/actions/3/sequence".to_owned())
        ]
    );
    assert_eq!(issues(&with_actions(&user(0))), [(Rule::Sequence, "/actions/0/sequence".to_owned())]);
}

#[test]
fn rule_2_returns_match_open_calls_in_order() {
    let call = |sequence, name: &str, id: &str| {
        let rest = format!(r#","agent_id":"a","tool_name":"{name}","tool_call_id":"{id}","args":{{}}"#);
        action("tool_call", sequence, 0, &rest)
    };
    let returned = |sequence, name: &str, id: &str| {
        let rest = format!(r#","tool_call_id":"{id}","tool_name":"{name}","status":"success","content":1"#);
        action("tool_return", sequence, 0, &rest)
    };

    let repeated = [
        call(1, "x", "c"),
        call(2, "y", "c"),
        returned(3, "x", "c"),
        returned(4, "y", "c"),
        call(5, "x", "c"),
    ];
    let id = |place: usize| format!("/actions/{place}/tool_call_id");
    assert_eq!(
        issues(&with_actions(&repeated.join(","))),
        [(Rule::DuplicateCall, id(1)), (Rule::OpenCall, id(4))]
    );
    assert_eq!(with_actions(&repeated.join(",")).check(), Ok(()));

    let wrong = [call(1, "x", "c"), returned(2, "y", "c"), returned(3, "x", "c"), returned(4, "x", "d")];
    assert_eq!(
        issues(&with_actions(&wrong.join(","))),
        [
            (Rule::ToolName, "/actions/1/tool_name".to_owned()),
            (Rule::ToolCallId, "/actions/2/tool_call_id".to_owned()),
            (Rule::ToolCallId, "/actions/3/tool_call_id".to_owned()),
        ]
    );
}

#[test]
fn rules_3_to_5_check_agents_types_and_timestamps() {
    let thread = with_actions(
        &[
            action("assistant_message", 1, 5, r#","agent_id":"b","content":"x","finish_reason":"bored""#),
            action("system.", 2, 6, r#","data":1"#),
            action("userMessage", 3, 4, ""),
            r#"{"action_type":"system.a","timestamp":"noon","sequence":4,"data":1}"#.to_owned(),
        ]
        .join(","),
    );

    assert_eq!(
        issues(&thread),
        [
            (Rule::AgentId, "/actions/0/agent_id".to_owned()),
            (Rule::Value, "/actions/0/finish_reason".to_owned()),
            (Rule::ActionType, "/actions/1/action_type".to_owned()),
            (Rule::Chronology, "/actions/2/timestamp".to_owned()),
            (Rule::ActionType, "/actions/2/action_type".to_owned()),
            (Rule::Timestamp, "/actions/3/timestamp".to_owned()),
        ]
    );
    let warnings = thread.validate().into_iter().filter(|issue| issue.severity == Severity::Warning);
    assert_eq!(warnings.map(|issue| issue.rule).collect::<Vec<_>>(), [Rule::Chronology]);
}

#[test]
fn check_returns_errors_and_ignores_warnings() {
    let late = [action("system.a", 1, 5, r#","data":1"#), action("system.a", 2, 4, r#","data":1"#)];
    assert_eq!(with_actions(&late.join(",")).check(), Ok(()));

    let mut thread = with_actions("");
    thread.version = "2.0.0".to_owned();
    thread.agents.insert("k/1", AgentConfig { agent_id: "other".to_owned(), ..AgentConfig::default() });
    let error = thread.check().unwrap_err();

    assert_eq!((error.rule(), error.pointer().as_str()), ("version", "/version"));
    let ThreadError::Invalid { issues } = &error else { unreachable!() };
    assert_eq!(issues.iter().filter(|issue| issue.pointer == "/agents/k~11/agent_id").count(), 1);
    assert!(error.to_string().contains("more)"), "{error}");
}

#[test]
fn parse_errors_have_a_json_pointer() {
    let cases = [
        (
            EXAMPLE.replacen(r#""sequence":4"#, r#""sequence":"4""#, 1),
            "/actions/3/sequence",
            ParseErrorKind::Shape,
        ),
        (EXAMPLE.replacen(r#""args":"#, r#""arg":"#, 1), "/actions/2", ParseErrorKind::Shape),
        (
            EXAMPLE.replacen(r#""agent_name":"Travel Planner""#, r#""agent_name":7"#, 1),
            "/agents/agent_002/agent_name",
            ParseErrorKind::Shape,
        ),
        (EXAMPLE.replacen(r#""action_type":"tool_call","#, "", 1), "/actions/2", ParseErrorKind::Shape),
        (EXAMPLE[..EXAMPLE.len() / 2].to_owned(), "", ParseErrorKind::Truncated),
        ("[]".to_owned(), "", ParseErrorKind::Shape),
        ("nonsense".to_owned(), "", ParseErrorKind::Syntax),
        (String::new(), "", ParseErrorKind::Truncated),
        ("[".repeat(100_000), "", ParseErrorKind::Limit),
    ];
    for (text, pointer, kind) in cases {
        let error = Thread::from_json(text.as_bytes(), &Limits::default()).unwrap_err();
        assert_eq!(error.pointer(), pointer, "{error}");
        assert_eq!(error.rule(), kind.name(), "{error}");
        assert!(!error.hint().is_empty());
    }
    let error = Thread::from_json(b"{\"version\":\"\xff\"}", &Limits::default()).unwrap_err();
    assert_eq!(error.rule(), "invalid_utf8");
}

#[test]
fn append_assigns_sequence_numbers_and_branch_shares_actions() {
    let mut thread = read(EXAMPLE);
    let user = UserMessageAction { timestamp: "2025-01-15T11:00:00Z".into(), ..UserMessageAction::default() };

    thread.append(Action::UserMessage(user.clone()));
    let mut branch = thread.branch("00000000-0000-4000-8000-000000000001", "2025-01-15T12:00:00Z", None);
    branch.append(Action::UserMessage(user));

    assert_eq!((thread.actions.len(), branch.actions.len()), (8, 9));
    assert_eq!(thread.actions.last().map(|action| action.sequence()), Some(8));
    assert_eq!(branch.parent_thread_id.as_deref(), Some(thread.thread_id.as_str()));
    assert!(text_of(&branch).contains(r#""metadata":{"branch":{"parent_sequence":8}}"#));
    assert!(std::sync::Arc::ptr_eq(&thread.actions[3], &branch.actions[3]));
    assert_eq!(branch.check(), Ok(()));
}

#[test]
fn pushing_preserves_a_sequence_and_numbers_an_action_without_one() {
    let mut thread = with_actions("");
    let user = |sequence| {
        let timestamp = "2025-01-15T11:00:00Z".into();
        std::sync::Arc::new(Action::UserMessage(UserMessageAction {
            timestamp,
            sequence,
            ..UserMessageAction::default()
        }))
    };

    thread.push(user(7));
    thread.push(user(0));

    assert_eq!(thread.actions.iter().map(|action| action.sequence()).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(thread.updated_at, "2025-01-15T11:00:00Z");
}

#[test]
fn a_thread_becomes_the_branch_of_a_parent_with_a_common_beginning() {
    let common = action("user_message", 1, 0, r#","content":"x""#);
    let parent = with_actions(&common);
    let mut thread = with_actions(&[common, action("user_message", 2, 1, r#","content":"y""#)].join(","));

    thread.set_parent(&parent);

    assert_eq!(thread.parent_thread_id.as_deref(), Some("t"));
    assert!(text_of(&thread).contains(r#""metadata":{"branch":{"parent_sequence":1}}"#));
}

#[test]
fn an_agent_is_found_by_its_id_and_named_in_the_error() {
    let thread = with_actions("");

    assert_eq!(thread.agent("a").map(|agent| agent.agent_name.as_str()), Ok("A"));
    let error = thread.agent("b").unwrap_err();
    assert_eq!(error.to_string(), "no agent \"b\" in this thread; its agents are \"a\"");
    assert_eq!(AgentConfig::identifier_of("Weather  Assistant!"), "weather_assistant");
}

#[test]
fn the_core_has_no_metadata_and_new_sequence_numbers() {
    let mut thread = with_actions(
        &[
            action("system.pydantic_ai.message", 1, 0, r#","data":{}"#),
            action("user_message", 2, 0, r#","content":"x","metadata":{"app":1}"#),
        ]
        .join(","),
    );
    thread.metadata = Some(turntree::core::json::RawObject::new());

    let core = thread.core();

    assert!(core.metadata.is_none());
    assert_eq!(core.actions.len(), 1);
    assert_eq!(core.actions[0].sequence(), 1);
    assert!(core.actions[0].metadata().is_none());
}

fn any_json() -> impl Strategy<Value = RawJson> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| format!("{value:e}")),
        any::<String>().prop_map(|value| serde_json::to_string(&value).unwrap()),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|values| format!("[{}]", values.join(","))),
            proptest::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|members| {
                let members = members
                    .iter()
                    .map(|(key, value)| format!("{}:{value}", serde_json::to_string(key).unwrap()));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
    .prop_map(|text| RawJson::from_text(text).unwrap())
}

fn any_action() -> impl Strategy<Value = Action> {
    let text = || any::<String>();
    let content = prop_oneof![
        text().prop_map(MessageContent::Text),
        proptest::collection::vec(text().prop_map(ContentPart::text), 0..3).prop_map(MessageContent::Parts),
    ];
    let timestamp = (0_i64..4_000_000_000_000_000)
        .prop_map(|micros| turntree::core::time::Timestamp::from_microseconds(micros).to_string());
    (0..6_u8, text(), content, proptest::option::of(text()), any_json(), timestamp, any::<u32>()).prop_map(
        |(kind, text, content, optional, raw, timestamp, number)| match kind {
            0 => Action::UserMessage(UserMessageAction {
                timestamp: timestamp.into(),
                content,
                action_id: optional.map(Into::into),
                ..UserMessageAction::default()
            }),
            1 => Action::AssistantMessage(AssistantMessageAction {
                timestamp: timestamp.into(),
                content,
                agent_id: text.into(),
                usage: Some(Box::new(Usage { input_tokens: number.into(), ..Usage::default() })),
                ..AssistantMessageAction::default()
            }),
            2 => Action::Thinking(ThinkingAction {
                timestamp: timestamp.into(),
                signature: optional.map(Into::into),
                provider_name: text.into(),
                ..ThinkingAction::default()
            }),
            3 => Action::ToolCall(ToolCallAction {
                timestamp: timestamp.into(),
                tool_call_id: text.into(),
                args: raw,
                ..ToolCallAction::default()
            }),
            4 => Action::ToolReturn(ToolReturnAction {
                timestamp: timestamp.into(),
                tool_call_id: text.into(),
                content: raw,
                ..ToolReturnAction::default()
            }),
            _ => Action::System(SystemAction {
                action_type: format!("system.{text}").into(),
                timestamp: timestamp.into(),
                data: raw,
                ..SystemAction::default()
            }),
        },
    )
}

fn any_thread() -> impl Strategy<Value = Thread> {
    (any::<String>(), proptest::collection::vec(any_action(), 0..8)).prop_map(|(title, actions)| {
        let mut thread = Thread::new("t", "2025-01-15T10:00:00Z", title);
        for action in actions {
            thread.append(action);
        }
        thread
    })
}

proptest! {
    #[test]
    fn threads_round_trip_through_json(thread in any_thread()) {
        let text = text_of(&thread);
        let read = read(&text);
        prop_assert_eq!(&read, &thread);
        prop_assert_eq!(text_of(&read), text);
    }

    #[test]
    fn check_fails_if_and_only_if_validation_reports_an_error(thread in any_thread()) {
        let has_errors = thread.validate().iter().any(|issue| issue.severity == Severity::Error);

        prop_assert_eq!(thread.check().is_err(), has_errors);
    }

    #[test]
    fn canonical_json_is_idempotent(value in any_json()) {
        let once = canonical::canonical(value.get(), CanonicalForm::Exact);
        let twice = canonical::canonical(std::str::from_utf8(&once).unwrap(), CanonicalForm::Exact);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn canonical_json_is_independent_of_member_order(
        members in proptest::collection::btree_map(any::<String>(), any_json(), 0..6)
    ) {
        let object = |members: Vec<(&String, &RawJson)>| {
            let members = members.iter().map(|(key, value)| format!("{}:{value}", serde_json::to_string(key).unwrap()));
            canonical::canonical(&format!("{{{}}}", members.collect::<Vec<_>>().join(" , ")), CanonicalForm::Exact)
        };
        prop_assert_eq!(object(members.iter().collect()), object(members.iter().rev().collect()));
    }

    #[test]
    fn the_parser_refuses_any_bytes_that_are_not_json(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();

        prop_assert!(is_json || Thread::from_json(&bytes, &Limits::default()).is_err());
    }

    #[test]
    fn damaged_documents_are_refused_or_round_trip(end in 0..EXAMPLE.len(), flip in 0..EXAMPLE.len(), with in any::<u8>()) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        bytes[flip] = with;
        bytes.truncate(end);
        if let Ok(thread) = Thread::from_json(&bytes, &Limits::default()) {
            let again = Thread::from_json(&thread.to_json(), &Limits::default()).unwrap();
            prop_assert_eq!(again.validate(), thread.validate());
            prop_assert_eq!(again.canonical_json(CanonicalForm::Exact), thread.canonical_json(CanonicalForm::Exact));
        }
    }
}
