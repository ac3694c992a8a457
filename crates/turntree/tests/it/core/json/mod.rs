//! JSON round trips of every type: the value read back is equal and has the same JSON, with members in any order and
//! with unknown members.

pub(crate) mod generators;
mod shuffle;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use turntree::core::json::canonical::normalize;
use turntree::core::json::{RawJson, RawObject, indented, parse};
use turntree::core::limits::Limits;
use turntree::core::time::Timestamp;
use turntree::message::{ContentBlock, Message, StreamEvent, Thread};

use self::generators::{any_json, block, definition, event, message, small_json, thread, tool_result, turn};
use self::shuffle::{Tree, shuffled};

/// The same cases on every run.
fn deterministic(cases: u32) -> Config {
    Config { rng_seed: RngSeed::Fixed(7), failure_persistence: None, cases, ..Config::default() }
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    parse(text, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Checks that a value is read back equal, written the same, and independent of the order of members.
fn assert_round_trip<T>(value: &T, seed: u64) -> Result<(), TestCaseError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let written = serde_json::to_string(value).unwrap();
    let again: T = read(&written);
    prop_assert_eq!(&again, value, "{}", &written);
    prop_assert_eq!(serde_json::to_string(&again).unwrap(), written.clone());
    let other = shuffled(&written, seed);
    prop_assert_eq!(&read::<T>(&other), value, "{}", &other);
    Ok(())
}

/// Checks that a text is refused with a message, or read as a value that round-trips.
fn assert_refused_or_round_trip<T>(text: &str) -> Result<(), TestCaseError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    match parse::<T>(text, &Limits::default()) {
        Ok(value) => assert_round_trip(&value, 7),
        Err(error) => {
            prop_assert!(!error.message.is_empty());
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(deterministic(128))]

    #[test]
    fn messages_round_trip_in_any_member_order(message in message(), seed in any::<u64>()) {
        assert_round_trip(&message, seed)?;
    }

    #[test]
    fn threads_round_trip_in_any_member_order(thread in thread(), seed in any::<u64>()) {
        assert_round_trip(&thread, seed)?;
    }

    #[test]
    fn turns_round_trip_in_any_member_order(turn in turn(), seed in any::<u64>()) {
        assert_round_trip(&turn, seed)?;
    }

    #[test]
    fn events_round_trip_in_any_member_order(event in event(), seed in any::<u64>()) {
        assert_round_trip(&event, seed)?;
    }

    #[test]
    fn blocks_round_trip_in_any_member_order(block in block(), seed in any::<u64>()) {
        assert_round_trip(&block, seed)?;
    }

    #[test]
    fn tools_round_trip_in_any_member_order(definition in definition(), result in tool_result(), seed in any::<u64>()) {
        assert_round_trip(&definition, seed)?;
        assert_round_trip(&result, seed)?;
    }

    #[test]
    fn the_position_of_the_tag_is_irrelevant(block in block()) {
        let Tree::Object(members) = Tree::read(&serde_json::to_string(&block).unwrap()) else { unreachable!() };
        let texts = members.iter().map(|(key, value)| {
            let mut text = format!("{key}:");
            value.write(&mut fastrand::Rng::with_seed(1), &mut text);
            text
        });
        let mut members: Vec<String> = texts.collect();
        for place in 1..members.len() {
            members.swap(place - 1, place);
            prop_assert_eq!(&read::<ContentBlock>(&format!("{{{}}}", members.join(","))), &block);
        }
    }

    #[test]
    fn every_timestamp_round_trips(microseconds in any::<i64>()) {
        let timestamp = Timestamp::from_microseconds(microseconds);
        prop_assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
    }

    #[test]
    fn timestamps_match_the_jiff_crate(microseconds in -62_167_219_200_000_000_i64..253_402_207_200_000_000) {
        let theirs = jiff::Timestamp::from_microsecond(microseconds).unwrap();
        let ours = Timestamp::from_microseconds(microseconds);
        let digits = if microseconds.rem_euclid(1_000) == 0 { 3 } else { 6 };
        prop_assert_eq!(ours.to_string(), format!("{theirs:.digits$}"));
        prop_assert_eq!(theirs.to_string().parse(), Ok(ours));
        prop_assert_eq!(ours.to_string().replace('Z', "+00:00").parse(), Ok(ours));
    }

    #[test]
    fn parsers_refuse_any_text_or_read_a_value_that_round_trips(text in "\\PC{0,80}") {
        assert_refused_or_round_trip::<Message>(&text)?;
        assert_refused_or_round_trip::<Thread>(&text)?;
        assert_refused_or_round_trip::<StreamEvent>(&text)?;
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            prop_assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
        }
    }
}

proptest! {
    #![proptest_config(deterministic(1024))]

    #[test]
    fn raw_values_are_equal_if_and_only_if_their_trees_are(one in small_json(), two in small_json()) {
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let raw = |text: &str| RawJson::from_text(text.to_owned()).unwrap();

        prop_assert_eq!(raw(&one) == raw(&two), value(&one) == value(&two), "{} and {}", one, two);
        prop_assert_eq!(raw(&one) == raw(&two), raw(&two) == raw(&one));
    }

    #[test]
    fn equality_of_raw_values_ignores_member_order_and_whitespace(json in any_json(), seed in any::<u64>()) {
        let other = shuffled(&json, seed);
        prop_assert_eq!(RawJson::from_text(json).unwrap(), RawJson::from_text(other).unwrap());
    }
}

#[test]
fn numbers_are_equal_if_their_values_are_equal() {
    let raw = |text: &str| RawJson::from_text(text.to_owned()).unwrap();
    for same in [
        ["1", "1.0", "1e0", "10E-1", "0.01e+2"].as_slice(),
        &["0", "-0", "0.000", "0e99999999999999999999"],
        &["1e400", "10e399", "0.1e401"],
        &["-12345678901234567890123", "-1234567890123456789012.3e1"],
    ] {
        for (one, two) in same.iter().flat_map(|one| same.iter().map(move |two| (one, two))) {
            assert_eq!(raw(one), raw(two));
            assert_eq!(
                raw(&format!("{{\"a\":[{one}],\"b\":0}}")),
                raw(&format!("{{\"b\":0,\"a\":[{two}]}}"))
            );
        }
    }
    for (one, two) in [
        ("1", "-1"),
        ("1", "10"),
        ("1", "\"1\""),
        ("12345678901234567890123", "12345678901234567890124"),
        ("1e400", "1e401"),
        ("0.1", "0.10000000000000000001"),
        ("1e99999999999999999999", "1e99999999999999999998"),
    ] {
        assert_ne!(raw(one), raw(two));
    }
}

/// Members before the tag are read after it, without a tracked path, so that the message names the member.
#[test]
fn errors_name_the_member_at_any_position_of_the_tag() {
    let cases = [
        (r#"{"type":"text","text":5}"#, "/content/0/text", "expected a string, got the number 5"),
        (r#"{"text":5,"type":"text"}"#, "/content/0", "text: expected a string, got the number 5"),
    ];
    for (block, pointer, words) in cases {
        let text =
            format!(r#"{{"id":"m","type":"user","timestamp":"2024-01-15T10:30:00Z","content":[{block}]}}"#);
        let error = parse::<Message>(&text, &Limits::default()).unwrap_err();
        assert_eq!(error.pointer(), pointer, "{error}");
        assert!(error.message.starts_with(words), "{error}");
    }
}

#[test]
fn indented_text_has_a_line_for_each_member_and_element() {
    let text = r#"{"a":[1.50,{}],"b":[],"\u0063":null}"#;

    assert_eq!(
        indented(text, 2),
        "{\n  \"a\": [\n    1.50,\n    {}\n  ],\n  \"b\": [],\n  \"\\u0063\": null\n}"
    );
    assert_eq!(indented("[1,2]", 0), "[\n1,\n2\n]");
    assert_eq!(indented(" 1 ", 2), "1");
}

proptest! {
    #![proptest_config(deterministic(128))]

    #[test]
    fn indented_text_differs_in_spaces_only(value in any_json(), indent in 0..5_usize) {
        prop_assert_eq!(normalize(&indented(&value, indent)), normalize(&value));
    }
}

#[test]
fn objects_of_any_size_are_searched_changed_and_reduced_by_key() {
    for count in [0_usize, 1, 15, 16, 17, 18, 40] {
        let value = |number: usize| RawJson::from_value(&number).unwrap();
        let mut object = RawObject::new();
        for number in 0..count {
            object.insert(number.to_string(), value(number));
        }
        let read: RawObject = serde_json::from_str(&serde_json::to_string(&object).unwrap()).unwrap();
        assert_eq!((object.len(), &read), (count, &object));

        for number in 0..count {
            assert_eq!(read.get(&number.to_string()), Some(&value(number)));
            object.insert(number.to_string(), value(number + 1));
        }
        assert_eq!((object.len(), object.get("x"), read.get("x")), (count, None, None));
        assert!(
            object
                .iter()
                .enumerate()
                .all(|(number, (key, member))| { key == number.to_string() && *member == value(number + 1) })
        );

        let removed = object.remove("0");
        assert_eq!(removed, (count > 0).then(|| value(1)));
        object.retain(|key| key.ends_with('1'));
        let left: Vec<&str> = object.iter().map(|(key, _)| key).collect();
        assert_eq!(
            left,
            ["1", "11", "21", "31"]
                .into_iter()
                .filter(|key| key.parse::<usize>().unwrap() < count)
                .collect::<Vec<_>>()
        );
        assert!(left.iter().all(|key| object.get(key).is_some()));
    }
}

#[test]
fn the_last_value_of_a_duplicate_key_counts_in_objects_of_any_size() {
    for count in [2_usize, 20] {
        let members: Vec<String> = (0..count).chain(0..count).map(|n| format!(r#""{n}":{n}"#)).collect();
        let text = format!("{{{},\"1\":\"last\"}}", members.join(","));

        let object: RawObject = serde_json::from_str(&text).unwrap();

        assert_eq!(object.len(), count);
        assert_eq!(object.get("1").and_then(RawJson::as_string).as_deref(), Some("last"));
        assert_eq!(object.iter().nth(1).map(|(key, _)| key), Some("1"));
    }
}
