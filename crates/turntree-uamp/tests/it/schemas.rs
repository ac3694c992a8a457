//! The JSON Schemas.

use serde_json::{Value, json};
use turntree_uamp::{ClientEvent, EventLimits, schema};

use crate::events::{CLIENT, SERVER, SYSTEM};

#[test]
fn the_published_schemas_are_those_of_the_types() {
    for (file, of_types) in [
        (include_str!("../../schema/client-event.schema.json"), schema::client_event()),
        (include_str!("../../schema/server-event.schema.json"), schema::server_event()),
        (include_str!("../../schema/system-event.schema.json"), schema::system_event()),
    ] {
        let published: Value = serde_json::from_str(file).unwrap();
        assert!(published == of_types, "run `cargo run -p turntree-uamp --example schemas`");
    }
}

#[test]
fn every_example_is_valid() {
    for (examples, schema) in
        [(CLIENT, schema::client_event()), (SERVER, schema::server_event()), (SYSTEM, schema::system_event())]
    {
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        for line in examples.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let errors: Vec<String> = validator.iter_errors(&event).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{line}\n{errors:?}");
        }
    }
}

#[test]
fn the_schema_and_the_parser_refuse_the_same_events() {
    let validator = jsonschema::draft202012::new(&schema::client_event()).unwrap();
    for (event, is_valid) in [
        (json!({"type": "input.text"}), false),
        (json!({"type": "input.text", "text": "Hi"}), true),
        (json!({"type": "input.text", "text": "Hi", "new": 1}), true),
        (json!({"type": "input.image", "image": {"link": "x"}}), false),
        (json!({"type": "input.image", "image": {"url": "x"}}), true),
        (json!({"type": "new.event", "text": 5}), true),
        (json!({"text": "Hi"}), false),
        (
            json!({"type": "input.text", "text": "", "messages": [{"role": "user", "content_items": [{"type": "text"}]}]}),
            false,
        ),
        (
            json!({"type": "input.text", "text": "", "messages": [{"role": "user", "content_items": [{"type": "new"}]}]}),
            true,
        ),
    ] {
        assert_eq!(validator.is_valid(&event), is_valid, "{event}");
        assert_eq!(
            ClientEvent::parse(&event.to_string(), &EventLimits::default()).is_ok(),
            is_valid,
            "{event}"
        );
    }
}
