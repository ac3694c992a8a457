//! JSON that is still arriving. UPP-1.2 §17.

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Map, Value};
use turntree::core::json::{PartialJson, partial};
use turntree::core::limits::Limits;

fn read(text: &str) -> Option<String> {
    partial(text).map(|partial| partial.value.get().to_owned())
}

#[test]
fn what_is_open_is_closed_and_what_dangles_is_left_out() {
    for (text, expected) in [
        (r#"{"a": "b"#, r#"{"a": "b"}"#),
        (r#"[1, [2, {"a": "#, "[1, [2, {}]]"),
        (r#"{"a": 1,"#, r#"{"a": 1}"#),
        (r#"{"a": 1, "b"#, r#"{"a": 1}"#),
        (r#"{"a": 1, "b""#, r#"{"a": 1}"#),
        (r#"{"a": 1, "b": "#, r#"{"a": 1}"#),
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
        (r#"["a\ud83d\ude00"#, r#"["a\ud83d\ude00"]"#),
        ("  {", "{}"),
    ] {
        assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        assert!(!partial(text).unwrap().is_complete, "{text}");
    }
}

#[test]
fn nothing_is_read_of_what_has_not_begun() {
    for text in ["", "  ", "-", "Here is the answer:", "}", "\u{feff}{}"] {
        assert_eq!(partial(text), None, "{text}");
    }
}

#[test]
fn a_whole_document_is_complete_and_text_after_it_makes_it_incomplete() {
    for text in ["{}", " [1, 2] ", "12", "-0.5e+3", "\"a\"", "null"] {
        let read = partial(text).unwrap();
        assert!(read.is_complete, "{text}");
        assert_eq!(read.value.get(), text.trim());
    }
    for (text, expected) in [("{} {}", "{}"), ("[1] and more", "[1]"), ("[1, x", "[1]"), ("[01]", "[0]")] {
        assert_eq!(read(text).as_deref(), Some(expected));
        assert!(!partial(text).unwrap().is_complete);
    }
}

#[test]
fn a_string_that_breaks_off_is_left_out() {
    assert_eq!(read("[\"a\", \"b\nc"), Some("[\"a\"]".to_owned()));
    assert_eq!(read(r#"["a", "\x"#), Some("[\"a\"]".to_owned()));
    assert_eq!(read(r#"["a", "\ude00"#), Some("[\"a\"]".to_owned()));
}

#[test]
fn nesting_past_the_limit_is_not_followed() {
    let deep = "[".repeat(Limits::PAYLOAD.depth + 10);

    let read = partial(&deep).unwrap();

    assert_eq!(read.value.get().len(), 2 * Limits::PAYLOAD.depth);
    assert!(!read.is_complete);
}

/// Whether a document that reads `early` so far can go on to be `whole`.
fn goes_on_to(early: &Value, whole: &Value, is_open: bool) -> bool {
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
                    .all(|(place, (early, whole))| goes_on_to(early, whole, is_open && place == last))
        }
        (Value::Object(early), Value::Object(whole)) => {
            let last = early.len().saturating_sub(1);
            (early.len() == whole.len() || (is_open && early.len() < whole.len()))
                && early.iter().enumerate().all(|(place, (key, early))| {
                    whole.get(key).is_some_and(|whole| goes_on_to(early, whole, is_open && place == last))
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

/// As `serde_json` writes it, or with escapes and spaces wherever they may stand.
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
    fn every_beginning_reads_as_something_the_document_goes_on_from(value in any_json(), is_loose in any::<bool>()) {
        let text = written(&value, is_loose);
        for (end, _) in text.char_indices() {
            if let Some(read) = partial(&text[..end]) {
                let early: Value = serde_json::from_str(read.value.get()).unwrap();
                prop_assert!(goes_on_to(&early, &value, true), "{} of {}", early, text);
            }
        }
        let read = partial(&text).unwrap();
        prop_assert!(read.is_complete);
        prop_assert_eq!(serde_json::from_str::<Value>(read.value.get()).unwrap(), value);
    }

    #[test]
    fn pieces_do_not_matter_and_readings_only_grow(value in any_json(), sizes in proptest::collection::vec(1..9_usize, 1..6)) {
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
                prop_assert!(goes_on_to(last, read, true), "{} then {}", last, read);
            }
            last = read;
        }
        prop_assert_eq!(json.read(), partial(&text));
    }
}
