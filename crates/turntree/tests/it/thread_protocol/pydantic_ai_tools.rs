//! Histories come back from documents that other tools have read and written: pretty printers, sorters of members,
//! JavaScript, and databases that store JSON.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::value::RawValue;
use turntree::core::json::canonical::ecmascript;
use turntree::core::json::{RawJson, Reader, Token};
use turntree::core::limits::Limits;
use turntree::thread_protocol::{Action, Thread};

use crate::thread_protocol::pydantic_ai::{back, import, reread};

/// A JSON value as a tool holds it.
#[derive(Debug, Clone, PartialEq)]
enum Json {
    Word(&'static str),
    Number(String),
    String(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Json {
    fn read(text: &str) -> Self {
        serde_json::from_str::<&RawValue>(text).unwrap();
        Self::value(&mut Reader::new(text)).unwrap()
    }

    fn value(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match reader.next()? {
            Token::ObjectStart => {
                let mut members: Vec<(String, Self)> = Vec::new();
                while let Some(Token::Key(key)) = reader.next() {
                    let (key, value) = (key.decode().into_owned(), Self::value(reader)?);
                    match members.iter_mut().find(|(name, _)| *name == key) {
                        Some((_, held)) => *held = value,
                        None => members.push((key, value)),
                    }
                }
                Self::Object(members)
            }
            Token::ArrayStart => {
                let mut elements = Vec::new();
                while let Some(element) = Self::value(reader) {
                    elements.push(element);
                }
                Self::Array(elements)
            }
            Token::ObjectEnd | Token::ArrayEnd | Token::Key(_) => return None,
            Token::String(text) => Self::String(text.decode().into_owned()),
            Token::Number(digits) => Self::Number(digits.to_owned()),
            Token::Bool(value) => Self::Word(if value { "true" } else { "false" }),
            Token::Null => Self::Word("null"),
        })
    }

    fn map_objects(&mut self, change: &impl Fn(&mut Vec<(String, Self)>)) {
        match self {
            Self::Array(elements) => elements.iter_mut().for_each(|element| element.map_objects(change)),
            Self::Object(members) => {
                for (_, value) in members.iter_mut() {
                    value.map_objects(change);
                }
                change(members);
            }
            _ => {}
        }
    }

    fn map_numbers(&mut self, change: &impl Fn(&str) -> String) {
        match self {
            Self::Number(digits) => *digits = change(digits),
            Self::Array(elements) => elements.iter_mut().for_each(|element| element.map_numbers(change)),
            Self::Object(members) => members.iter_mut().for_each(|(_, value)| value.map_numbers(change)),
            _ => {}
        }
    }

    /// `indent` is the text before each level; without one, `spaced` sets the separators.
    fn write(&self, out: &mut String, indent: Option<usize>, spaced: bool, ascii: bool, level: usize) {
        let line = |out: &mut String, level: usize| {
            if let Some(width) = indent {
                out.push_str(if spaced { "\r\n" } else { "\n" });
                out.push_str(&" ".repeat(width * level));
            }
        };
        let list = |out: &mut String, first: bool| {
            if !first {
                out.push_str(if spaced && indent.is_none() { ", " } else { "," });
            }
            line(out, level + 1);
        };
        match self {
            Self::Word(word) => out.push_str(word),
            Self::Number(digits) => out.push_str(digits),
            Self::String(text) => write_string(out, text, ascii),
            Self::Array(elements) => {
                out.push('[');
                for (place, element) in elements.iter().enumerate() {
                    list(out, place == 0);
                    element.write(out, indent, spaced, ascii, level + 1);
                }
                line(out, level);
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (place, (key, value)) in members.iter().enumerate() {
                    list(out, place == 0);
                    write_string(out, key, ascii);
                    out.push_str(if spaced || indent.is_some() { ": " } else { ":" });
                    value.write(out, indent, spaced, ascii, level + 1);
                }
                line(out, level);
                out.push('}');
            }
        }
    }

    fn text(&self, indent: Option<usize>, spaced: bool, ascii: bool) -> String {
        let mut out = String::new();
        self.write(&mut out, indent, spaced, ascii, 0);
        out
    }
}

fn write_string(out: &mut String, text: &str, ascii: bool) {
    let quoted = serde_json::to_string(text).unwrap();
    for character in quoted.chars() {
        if !ascii || character.is_ascii() {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

/// A program that reads a document and writes it again.
#[derive(Debug, Clone, Copy)]
enum Tool {
    /// `json.dumps(ensure_ascii=True)` of Python.
    Python,
    /// Lines and indentation; CRLF if true.
    Indent(bool),
    /// Members by name, numbers with a fraction or exponent as Python writes them.
    SortKeys,
    /// `JSON.parse` and `JSON.stringify`.
    JavaScript,
    /// `jsonb` of `PostgreSQL`.
    Jsonb,
}

const TOOLS: &[Tool] =
    &[Tool::Python, Tool::Indent(false), Tool::Indent(true), Tool::SortKeys, Tool::JavaScript, Tool::Jsonb];

impl Tool {
    const fn keeps_order(self) -> bool {
        matches!(self, Self::Python | Self::Indent(_))
    }

    fn apply(self, document: &str) -> String {
        let mut json = Json::read(document);
        match self {
            Self::Python => json.text(None, true, true),
            Self::Indent(crlf) => json.text(Some(2), crlf, false),
            Self::SortKeys => {
                json.map_objects(&|members| members.sort_by(|one, two| one.0.cmp(&two.0)));
                json.map_numbers(&python);
                json.text(None, false, false)
            }
            Self::JavaScript => {
                json.map_objects(&|members| {
                    members.sort_by_key(|(key, _)| {
                        let number = key.parse::<u32>().ok().filter(|number| number.to_string() == *key);
                        number.map_or(u64::MAX, u64::from)
                    });
                });
                json.map_numbers(&|digits| ecmascript(digits.parse().unwrap()));
                json.text(None, false, false)
            }
            Self::Jsonb => {
                json.map_objects(&|members| {
                    members.sort_by(|one, two| (one.0.len(), &one.0).cmp(&(two.0.len(), &two.0)));
                });
                json.map_numbers(&decimal);
                json.text(None, true, false)
            }
        }
    }
}

/// A number as Python reads and writes it.
fn python(digits: &str) -> String {
    if !digits.contains(['.', 'e', 'E']) {
        return if digits == "-0" { "0".to_owned() } else { digits.to_owned() };
    }
    let value: f64 = digits.parse().unwrap();
    if value == 0.0 || (1e-4..1e16).contains(&value.abs()) {
        format!("{value:?}")
    } else {
        format!("{value:e}")
    }
}

/// A number without an exponent.
fn decimal(digits: &str) -> String {
    let Some((mantissa, exponent)) = digits.split_once(['e', 'E']) else { return digits.to_owned() };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let point = isize::try_from(whole.len()).unwrap() + exponent.parse::<isize>().unwrap();
    let digits = format!("{whole}{fraction}");
    let Ok(point) = usize::try_from(point) else {
        return format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs()));
    };
    let digits = format!("{digits:0<point$}");
    let (whole, fraction) = digits.split_at(point);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A history with a call and its result for each text of arguments.
fn history(arguments: &[String]) -> String {
    let messages = arguments.iter().enumerate().map(|(number, text)| {
        let text = serde_json::to_string(text).unwrap();
        format!(
            r#"{{"parts":[{{"tool_name":"t","args":{text},"tool_call_id":"c{number}","id":null,"part_kind":"tool-call"}}],"usage":{{"input_tokens":1,"output_tokens":2}},"model_name":null,"timestamp":"2026-03-01T10:00:00Z","kind":"response"}},{{"parts":[{{"tool_name":"t","content":{{"text":{text},"b":[1.5,null],"a":"é"}},"tool_call_id":"c{number}","timestamp":"2026-03-01T10:00:01Z","part_kind":"tool-return"}}],"instructions":null,"kind":"request"}}"#
        )
    });
    format!("[{}]", messages.collect::<Vec<_>>().join(","))
}

/// Texts of arguments that models and applications write, and some that they do not.
const ARGUMENTS: &[&str] = &[
    r#"{"city":"Paris"}"#,
    r#"{"city": "Paris"}"#,
    r#"{"city": "Paris", "days": 3, "filters": [{"z": 1, "a": 2}, {}]}"#,
    r#"{"query":"x","limit":10,"b":{"y":[{"d":1,"c":2}],"x":1}}"#,
    r#"{"path": "\u00e9\ud83d\ude00.txt", "content": "a\nb\t\"c\"\\"}"#,
    r#"{"path":"\u00e9"}"#,
    "{\"path\": \"é😀\u{2028}\u{7f}\"}",
    "{\n  \"city\": \"Paris\"\n}",
    "  {\"city\":\"Paris\"}\n",
    r#"{"a":1,"a":2}"#,
    r#"{"-":1,"1":2,"x":3,"0":4,"10":5,"9":6,"4294967295":7}"#,
    r#"{"lat":48.0,"lon":2.35}"#,
    r#"{"n":1e5,"m":-0,"x":1E-7,"y":0.00001,"z":-0.0}"#,
    r#"{"id":12345678901234567890,"other":-9007199254740993,"large":1.5e300,"small":1e-400}"#,
    r#"{"n":1e400}"#,
    r#"{"n":"\u0000"}"#,
    r#"{"n":"\ud800"}"#,
    r#"{"n":"\/\u0041\u000A\u001F"}"#,
    r#"{"__proto__":{"x":1},"":0}"#,
    "{}",
    "{ }",
    "",
    "[1, 2]",
    "null",
    "\"text\"",
    "{\"unfinished\": ",
];

fn any_json() -> impl Strategy<Value = Json> {
    let text = prop_oneof![
        "[a-c0-9é😀\"\\\\\n/ ]{0,4}",
        any::<String>().prop_filter("jsonb", |text| !text.contains('\0'))
    ];
    let number = prop_oneof![
        any::<i32>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        (-1e6..1e6_f64).prop_map(|number| format!("{number:?}")),
        proptest::sample::select(&["0", "-0", "1.0", "0.10", "1e5", "2E-3", "-1.50e+10"][..])
            .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        proptest::sample::select(&["null", "true", "false"][..]).prop_map(Json::Word),
        number.prop_map(Json::Number),
        text.clone().prop_map(Json::String),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            proptest::collection::vec((text.clone(), inner), 0..5).prop_map(Json::Object),
        ]
    })
}

/// A text of arguments in some notation.
fn any_arguments() -> impl Strategy<Value = String> {
    let member = ("[a-c0-9é]{0,3}", any_json());
    let object = proptest::collection::vec(member, 0..5).prop_map(Json::Object);
    let notation = (proptest::option::of(0..3_usize), any::<bool>(), any::<bool>());
    let written =
        (object, notation).prop_map(|(object, (indent, spaced, ascii))| object.text(indent, spaced, ascii));
    prop_oneof![proptest::sample::select(ARGUMENTS).prop_map(str::to_owned), written]
}

fn read(document: &str) -> Thread {
    Thread::from_json(document.as_bytes(), &Limits::default()).unwrap()
}

/// Asserts that a history comes back after the tools.
fn assert_comes_back(source: &str, thread: &Thread, tools: &[Tool]) {
    let document = String::from_utf8(thread.to_json()).unwrap();
    let document = tools.iter().fold(document, |document, tool| tool.apply(&document));
    let thread = read(&document);

    let written = String::from_utf8(thread.to_json()).unwrap();
    assert_eq!(written, RawJson::from_text(written.clone()).unwrap().get(), "the document is not compact");
    let again = back(&thread);
    if tools.iter().all(|tool| tool.keeps_order()) {
        assert_eq!(again, source, "{tools:?}");
    }
    let [one, other] = [&*again, source].map(|json| RawJson::from_text(json.to_owned()).unwrap());
    assert_eq!(one, other, "{tools:?}");
}

fn assert_comes_back_after_all_tools(source: &str) {
    let thread = import(source);
    assert_eq!(back(&thread), source);
    for one in TOOLS {
        assert_comes_back(source, &thread, &[*one]);
        for two in TOOLS {
            assert_comes_back(source, &thread, &[*one, *two]);
        }
    }
}

#[test]
fn every_text_of_arguments_comes_back_after_any_tool() {
    for text in ARGUMENTS {
        assert_comes_back_after_all_tools(&history(&[(*text).to_owned()]));
    }
    assert_comes_back_after_all_tools(&history(
        &ARGUMENTS.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(),
    ));
}

proptest! {
    #[test]
    fn histories_come_back_after_any_two_tools(
        arguments in proptest::collection::vec(any_arguments(), 1..5),
        one in proptest::sample::select(TOOLS),
        two in proptest::sample::select(TOOLS),
    ) {
        let source = history(&arguments);
        let thread = import(&source);

        assert_comes_back(&source, &thread, &[one]);
        assert_comes_back(&source, &thread, &[one, two]);
    }
}

#[test]
fn the_notation_of_a_document_does_not_change_its_thread() {
    // Tools drop duplicate keys.
    let arguments =
        ARGUMENTS.iter().filter(|text| **text != r#"{"a":1,"a":2}"#).map(|text| (*text).to_owned());
    let thread = import(&history(&arguments.collect::<Vec<_>>()));
    let document = String::from_utf8(thread.to_json()).unwrap();

    for tool in [Tool::Python, Tool::Indent(false), Tool::Indent(true)] {
        assert_eq!(String::from_utf8(read(&tool.apply(&document)).to_json()).unwrap(), document);
    }
}

#[test]
fn edited_arguments_are_written_in_place_of_a_stored_text() {
    for (source, edited, text) in [
        // A text that does not follow from its value.
        (r#"{"city" : "Paris"}"#, r#"{"city":"Rome"}"#, r#"{"city":"Rome"}"#),
        // Separators and order apply to the new value.
        (r#"{"to": "Paris", "at": 9}"#, r#"{"at":10,"to":"Rome"}"#, r#"{"to": "Rome", "at": 10}"#),
        (r#"{"to": "Paris", "at": 9}"#, r#"{"at":10}"#, r#"{"at": 10}"#),
        (r#"{"n":12345678901234567890}"#, r#"{"n":12345678901234567168}"#, r#"{"n":12345678901234567890}"#),
        (r#"{"n":12345678901234567890}"#, r#"{"n":12345678901234600000}"#, r#"{"n":12345678901234600000}"#),
    ] {
        let mut thread = import(&history(&[source.to_owned()]));
        let mut actions: Vec<Action> = thread.actions.iter().map(|action| (**action).clone()).collect();
        for action in &mut actions {
            if let Action::ToolCall(call) = action {
                call.args = RawJson::from_text(edited.to_owned()).unwrap();
            }
        }
        thread.actions = actions.into_iter().collect();

        let wanted = format!("\"args\":{}", serde_json::to_string(text).unwrap());
        let written = back(&reread(&thread));
        assert!(written.contains(&wanted), "{written} does not contain {wanted}");
    }
}

#[test]
fn a_text_is_stored_only_if_its_notation_does_not_follow_from_the_value() {
    for (text, stored) in [
        (r#"{"city":"Paris"}"#, false),
        (r#"{"city": "Paris", "air": 1}"#, false),
        (r#"{"city": "Montr\u00e9al"}"#, false),
        (r#"{"city":  "Paris"}"#, true),
        (r#"{"lat":48.0}"#, true),
    ] {
        let document = String::from_utf8(import(&history(&[text.to_owned()])).to_json()).unwrap();
        assert_eq!(document.contains("args_text"), stored, "{document}");
    }
}
