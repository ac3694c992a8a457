//! Laws of reading and writing over random events.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use turntree_uamp::{ClientEvent, EventLimits, ServerEvent};

use crate::events::{CLIENT, SERVER};

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| json!(number)),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z_]{1,5}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// An example with members that are removed, replaced, or added.
fn event(examples: &'static str) -> impl Strategy<Value = Value> {
    let lines: Vec<&'static str> = examples.lines().collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(json_value())), 0..3);
    let added = prop::collection::hash_map("x_[a-z]{1,4}", json_value(), 0..3);
    (prop::sample::select(lines), changes, added).prop_map(|(line, changes, added)| {
        let mut members: Map<String, Value> = serde_json::from_str(line).unwrap();
        for (index, change) in changes {
            let key = index.get(&members.keys().cloned().collect::<Vec<_>>()).clone();
            match change {
                _ if key == "type" => None,
                None => members.remove(&key),
                Some(value) => members.insert(key, value),
            };
        }
        members.extend(added);
        Value::Object(members)
    })
}

/// Without members that are null: an optional member that is null is read as missing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        other => other,
    }
}

macro_rules! law {
    ($test:ident, $type:ident, $examples:ident) => {
        proptest! {
            #[test]
            fn $test(value in event($examples)) {
                let limits = EventLimits::default();
                if let Ok(event) = $type::parse(&value.to_string(), &limits) {
                    let written = event.to_json();
                    let again = $type::parse(&written, &limits).unwrap();
                    prop_assert_eq!(&again, &event);
                    prop_assert_eq!(again.to_json(), written.clone());
                    // Nothing is lost: every member is written with its value.
                    let written = without_nulls(serde_json::from_str(&written).unwrap());
                    let read = without_nulls(value);
                    for (key, value) in read.as_object().unwrap() {
                        if key != "capabilities" && key != "session" {
                            prop_assert_eq!(&written[key], value);
                        }
                    }
                }
            }
        }
    };
}

law!(an_event_of_a_client_that_is_read_can_be_written_and_read_again, ClientEvent, CLIENT);
law!(an_event_of_a_server_that_is_read_can_be_written_and_read_again, ServerEvent, SERVER);
