//! Events: which types there are, what is preserved, what is refused.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use turntree_core::json::RawJson;
use turntree_uamp::event::{Envelope as _, InputImage};
use turntree_uamp::types::{ErrorCode, Modality, ResponseFormat, Role};
use turntree_uamp::{ClientEvent, ContentItem, EventLimits, ServerEvent, SystemEvent, UampError};

/// One event of each type, a line each.
pub(crate) const CLIENT: &str = include_str!("client.jsonl");
pub(crate) const SERVER: &str = include_str!("server.jsonl");
pub(crate) const SYSTEM: &str = include_str!("system.jsonl");

fn client(value: &Value) -> Result<ClientEvent, UampError> {
    ClientEvent::parse(&value.to_string(), &EventLimits::default())
}

fn kinds(examples: &str) -> BTreeSet<String> {
    let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned();
    examples.lines().map(kind).collect()
}

fn set(kinds: &[&str]) -> BTreeSet<String> {
    kinds.iter().map(|&kind| kind.to_owned()).collect()
}

#[test]
fn there_are_49_events_of_clients_and_servers_and_6_of_systems() {
    let both: BTreeSet<&str> = ClientEvent::KINDS.iter().chain(ServerEvent::KINDS).copied().collect();
    let of_extensions = both.iter().filter(|kind| **kind == "extension.message").count();

    assert_eq!(both.len() - of_extensions, 49);
    assert_eq!(SystemEvent::KINDS.len(), 6);
    assert_eq!(kinds(CLIENT), set(ClientEvent::KINDS));
    assert_eq!(kinds(SERVER), set(ServerEvent::KINDS));
    assert_eq!(kinds(SYSTEM), set(SystemEvent::KINDS));
}

#[test]
fn every_event_is_written_as_it_was_read_and_is_not_unknown() {
    let limits = EventLimits::default();
    for line in CLIENT.lines() {
        let event = ClientEvent::parse(line, &limits).unwrap();
        assert!(!matches!(event, ClientEvent::Unknown(_)), "{line}");
        same_json(&event.to_json(), line);
    }
    for line in SERVER.lines() {
        let event = ServerEvent::parse(line, &limits).unwrap();
        assert!(!matches!(event, ServerEvent::Unknown(_)), "{line}");
        same_json(&event.to_json(), line);
    }
    for line in SYSTEM.lines() {
        let event = SystemEvent::parse(line, &limits).unwrap();
        assert!(!matches!(event, SystemEvent::Unknown(_)), "{line}");
        same_json(&event.to_json(), line);
    }
}

fn same_json(written: &str, read: &str) {
    let raw = |text: &str| RawJson::from_text(text.to_owned()).unwrap();
    assert_eq!(raw(written), raw(read));
    assert_eq!(written.len(), read.len(), "{written}");
}

#[test]
fn an_unknown_event_is_preserved_and_has_an_envelope() {
    let line = r#"{"type":"hologram.start","event_id":"x","session_id":"s","seq":4,"angle":1.50,"n":12345678901234567890123}"#;
    let mut event = ClientEvent::parse(line, &EventLimits::default()).unwrap();

    assert_eq!(event.to_json(), line);
    assert_eq!(event.kind(), "hologram.start");
    assert_eq!(event.event_id().as_deref(), Some("x"));
    assert_eq!(event.session_id().as_deref(), Some("s"));
    assert_eq!(event.seq(), Some(4));
    event.set_event_id("y".to_owned());
    event.set_session_id("t".to_owned());
    event.set_timestamp(7);
    event.set_seq(5);
    assert_eq!(
        event.to_json(),
        r#"{"type":"hologram.start","event_id":"y","session_id":"t","seq":5,"angle":1.50,"n":12345678901234567890123,"timestamp":7}"#
    );
}

#[test]
fn the_envelope_of_a_known_event_can_be_read_and_set() {
    let mut event = client(&json!({"event_id": "x", "type": "ping"})).unwrap();

    assert_eq!(event.event_id().as_deref(), Some("x"));
    assert_eq!(event.session_id(), None);
    event.set_session_id("s".to_owned());
    event.set_timestamp(1_704_067_200_000);
    assert_eq!(
        event.to_json(),
        r#"{"type":"ping","event_id":"x","timestamp":1704067200000,"session_id":"s"}"#
    );
}

#[test]
fn an_event_id_may_be_missing_and_unknown_members_are_preserved() {
    let event = client(&json!({"type": "ping", "trace": {"id": "1"}})).unwrap();

    assert_eq!(event.event_id(), None);
    assert_eq!(event.to_json(), r#"{"type":"ping","trace":{"id":"1"}}"#);
}

#[test]
fn internal_events_of_a_client_are_recognised() {
    for kind in SystemEvent::KINDS {
        assert!(client(&json!({"type": kind})).unwrap().is_internal(), "{kind}");
    }
    assert!(!client(&json!({"type": "system.other"})).unwrap().is_internal());
    assert!(!client(&json!({"type": "ping"})).unwrap().is_internal());
}

#[test]
fn agent_and_token_are_read_in_both_places() {
    let ClientEvent::SessionCreate(inside) =
        client(&json!({"type": "session.create", "session": {"agent": "a", "token": "t"}})).unwrap()
    else {
        panic!("expected session.create")
    };
    assert_eq!((inside.agent_name(), inside.session_token()), (Some("a"), Some("t")));
    assert_eq!(inside.session.as_ref().unwrap().modalities_or_text(), [Modality::Text]);

    let ClientEvent::SessionCreate(both) = client(
        &json!({"type": "session.create", "agent": "b", "token": "u", "session": {"agent": "a", "token": "t"}}),
    )
    .unwrap() else {
        panic!("expected session.create")
    };
    assert_eq!((both.agent_name(), both.session_token()), (Some("b"), Some("u")));
}

#[test]
fn values_of_vendors_are_preserved() {
    let ClientEvent::SessionCreate(event) =
        ClientEvent::parse(CLIENT.lines().next().unwrap(), &EventLimits::default()).unwrap()
    else {
        panic!("expected session.create")
    };
    let config = event.session.unwrap();

    assert_eq!(config.modalities.as_deref().unwrap()[1], Modality::Other("hologram".into()));
    assert!(matches!(config.response_format, Some(ResponseFormat::JsonSchema(_))));
    let settings = config.uamp_extension().unwrap();
    assert_eq!(settings.auto_response, Some(true));
    assert_eq!(settings.resume.unwrap().after_seq, 7);
}

#[test]
fn a_media_input_becomes_a_content_item_with_the_same_id() {
    let input = InputImage {
        image: turntree_uamp::types::Media::from_url("/i"),
        content_id: Some("c".to_owned()),
        ..InputImage::default()
    };
    let mut item = ContentItem::from(input);

    item.assign_content_id(|| panic!("has an id"));
    assert_eq!(item.content_id(), Some("c"));
    assert_eq!(
        serde_json::to_value(&item).unwrap(),
        json!({"type": "image", "image": {"url": "/i"}, "content_id": "c"})
    );
}

#[test]
fn a_wrong_event_is_refused_with_its_place() {
    let refused = |value: Value| match client(&value) {
        Err(UampError::InvalidEvent { pointer, reason }) => (pointer, reason),
        other => panic!("{other:?}"),
    };

    assert_eq!(refused(json!({"type": "input.text", "text": 5})).0, "/text");
    assert_eq!(refused(json!({"type": "tool.result", "call_id": "k", "result": {"a": 1}})).0, "/result");
    assert!(refused(json!({"type": "tool.result", "call_id": "k"})).1.contains("result"));
    assert!(refused(json!({"event_id": "x"})).1.contains("type"));
    assert!(refused(json!({"type": 4})).0 == "/type");
    assert_eq!(refused(json!([])).0, "");
    assert_eq!(
        refused(json!({"type": "input.text", "text": "", "messages": [{"role": "user"}, {"content": "x"}]}))
            .0,
        "/messages/1"
    );
    assert_eq!(refused(json!({"type": "input.image", "image": 5})).0, "/image");
    assert_eq!(client(&json!({"type": "input.image"})).unwrap_err().code(), ErrorCode::InvalidEvent);
}

#[test]
fn text_that_is_not_json_and_text_over_a_limit_are_refused() {
    let limits = EventLimits { bytes: 200, depth: 4, values: 10 };
    let parse = |text: &str| ClientEvent::parse(text, &limits).unwrap_err();

    assert_eq!(parse("{").code(), ErrorCode::InvalidJson);
    assert_eq!(parse(r#"{"type":"ping"} x"#).code(), ErrorCode::InvalidJson);
    assert_eq!(parse(r#"{"type":"ping","a":[[[[1]]]]}"#).code(), ErrorCode::InvalidJson);
    assert_eq!(parse(r#"{"type":"ping","a":[1,2,3,4,5,6,7,8,9,10,11,12]}"#).code(), ErrorCode::InvalidJson);
    let large = format!(r#"{{"type":"ping","a":"{}"}}"#, "x".repeat(300));
    assert!(matches!(parse(&large), UampError::EventTooLarge { limit: 200, .. }));
    assert_eq!(
        ClientEvent::parse_bytes(b"{\"type\":\"\xff\"}", &limits).unwrap_err().code(),
        ErrorCode::InvalidJson
    );
}

#[test]
fn nesting_in_tool_results_is_limited_and_does_not_overflow_the_stack() {
    let mut item = json!({"type": "text", "text": ""});
    for _ in 0..100 {
        item = json!({"type": "tool_result", "tool_result": {"call_id": "k", "result": "", "content_items": [item]}});
    }
    let event =
        json!({"type": "input.text", "text": "", "messages": [{"role": "tool", "content_items": [item]}]});

    assert_eq!(client(&event).unwrap_err().code(), ErrorCode::InvalidJson);
}

#[test]
fn a_role_of_a_message_may_be_new() {
    let event =
        client(&json!({"type": "input.text", "text": "", "messages": [{"role": "developer"}]})).unwrap();
    let ClientEvent::InputText(event) = event else { panic!("expected input.text") };

    assert_eq!(event.messages.unwrap()[0].role, Role::Other("developer".into()));
}
