//! Parsing of incomplete JSON. UPP-1.2 §17.

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Map, Value};
use turntree::core::json::canonical::normalize;
use turntree::core::json::{PartialJson, partial};
use turntree::core::limits::Limits;

fn read(text: &str) -> Option<String> {
    partial(text).map(|partial| partial.value.get().to_owned())
}

#[test]
fn open_values_are_closed_and_incomplete_ones_dropped() {
    for (text, expected) in [
        (r#"{"a": "b"#, r#"{"a":"b"}"#),
        (r#"[1, [2, {"a": "#, "[1,[2,{}]]"),
        (r#"{"a": 1,"#, r#"{"a":1}"#),
        (r#"{"a": 1, "b"#, r#"{"a":1}"#),
        (r#"{"a": 1, "b""#, r#"{"a":1}"#),
        (r#"{"a": 1, "b": "#, r#"{"a":1}"#),
        (r#"{"a": -"#, "{}"),
        ("[1, -", "[1]"),
        ("[tr", "[true]"),
        ("[f", "[false]"),
        ("nu", "null"),
        ("[12.", "[12]"),
        ("[12.5e", "[12.5]"),
        ("[12.5e-", "[12.5]"),
        ("[1e5", "[1e5]"),
        (r#"["a\"#, r#"["a"]"#),
        (r#"["a\u00"#, r#"["a"]"#),
        (r#"["a\ud83d"#, r#"["a"]"#),
        (r#"["a\ud83d\ude0"#, r#"["a"]"#),
        (r#"["a\ud83d\ude00"#, r#"["a😀"]"#),
        ("  {", "{}"),
    ] {
        assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        assert!(!partial(text).unwrap().is_complete, "{text}");
    }
}

#[test]
fn text_before_the_first_value_gives_no_value() {
    for text in ["", "  ", "-", "Here is the answer:", "}", "\u{feff}{}"] {
        assert_eq!(partial(text), None, "{text}");
    }
}

#[test]
fn a_document_is_complete_unless_text_follows_it() {
    for text in ["{}", " [1, 2] ", "12", "-0.5e+3", "\"a\"", "null"] {
        let read = partial(text).unwrap();
        assert!(read.is_complete, "{text}");
        assert_eq!(read.value.get(), normalize(text));
    }
    for (text, expected) in [("{} {}", "{}"), ("[1] and more", "[1]"), ("[1, x", "[1]"), ("[01]", "[0]")] {
        assert_eq!(read(text).as_deref(), Some(expected));
        assert!(!partial(text).unwrap().is_complete);
    }
}

#[test]
fn an_invalid_string_is_dropped() {
    assert_eq!(read("[\"a\", \"b\nc"), Some("[\"a\"]".to_owned()));
    assert_eq!(read(r#"["a", "\x"#), Some("[\"a\"]".to_owned()));
    assert_eq!(read(r#"["a", "\ude00"#), Some("[\"a\"]".to_owned()));
}

#[test]
fn nesting_past_the_limit_is_dropped() {
    let deep = "[".repeat(Limits::PAYLOAD.depth + 10);

    let read = partial(&deep).unwrap();

    assert_eq!(read.value.get().len(), 2 * Limits::PAYLOAD.depth);
    assert!(!read.is_complete);
}

/// True if a document that was read as `early` can become `whole`.
fn can_become(early: &Value, whole: &Value, is_open: bool) -> bool {
    match (early, whole) {
        (Value::String(early), Value::String(whole)) => {
            early == whole || (is_open && whole.starts_with(&**early))
        }
        (Value::Array(early), Value::Array(whole)) => {
            let last = early.len().saturating_sub(1);
            (early.len() == whole.len() || (is_open && early.len() < whole.len()))
                && early
                    .iter()
                    .zip(whole)
                    .enumerate()
                    .all(|(place, (early, whole))| can_become(early, whole, is_open && place == last))
        }
        (Value::Object(early), Value::Object(whole)) => {
            let last = early.len().saturating_sub(1);
            (early.len() == whole.len() || (is_open && early.len() < whole.len()))
                && early.iter().enumerate().all(|(place, (key, early))| {
                    whole.get(key).is_some_and(|whole| can_become(early, whole, is_open && place == last))
                })
        }
        (Value::Number(_), Value::Number(_)) if is_open => true,
        (early, whole) => early == whole,
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        proptest::collection::vec(any::<char>(), 0..6).prop_map(|text| text.into_iter().collect()),
        Just("\"\\/\u{8}\u{c}\n\r\t\u{0}😀é".to_owned())
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 5, move |inner| {
        let members = proptest::collection::vec((text.clone(), inner.clone()), 0..5);
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// JSON as `serde_json` writes it, or with escapes and white space at every position.
fn written(value: &Value, is_loose: bool) -> String {
    if !is_loose {
        return value.to_string();
    }
    let mut text = serde_json::to_string_pretty(value).unwrap();
    text = text
        .chars()
        .map(|character| match character {
            '\u{80}'.. => {
                let mut units = [0; 2];
                let units = character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
                units.collect::<Vec<_>>().concat()
            }
            other => other.to_string(),
        })
        .collect();
    format!("\r\n{text}\t")
}

proptest! {
    #[test]
    fn every_prefix_is_read_as_a_prefix_of_the_document(value in any_json(), is_loose in any::<bool>()) {
        let text = written(&value, is_loose);
        for (end, _) in text.char_indices() {
            if let Some(read) = partial(&text[..end]) {
                let early: Value = serde_json::from_str(read.value.get()).unwrap();
                prop_assert!(can_become(&early, &value, true), "{} of {}", early, text);
            }
        }
        let read = partial(&text).unwrap();
        prop_assert!(read.is_complete);
        prop_assert_eq!(serde_json::from_str::<Value>(read.value.get()).unwrap(), value);
    }

    #[test]
    fn reading_is_independent_of_chunking_and_values_only_grow(value in any_json(), sizes in proptest::collection::vec(1..9_usize, 1..6)) {
        let text = written(&value, true);
        let characters: Vec<char> = text.chars().collect();
        let (mut json, mut rest, mut sizes) = (PartialJson::default(), &characters[..], sizes.into_iter().cycle());
        let mut last: Option<Value> = None;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(sizes.next().unwrap().min(rest.len()));
            json.push(&piece.iter().collect::<String>());
            rest = after;
            let read: Option<Value> = json.read().map(|read| serde_json::from_str(read.value.get()).unwrap());
            if let (Some(last), Some(read)) = (&last, &read) {
                prop_assert!(can_become(last, read, true), "{} then {}", last, read);
            }
            last = read;
        }
        prop_assert_eq!(json.read(), partial(&text));
    }
}
