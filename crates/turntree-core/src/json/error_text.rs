//! Texts of JSON errors in the words of JSON: objects, arrays and members instead of maps, sequences and fields.

use serde_json::error::Category;

/// Maximum number of characters of a value that an error shows.
const SHOWN: usize = 60;

/// The description of a document without content.
const EMPTY: &str = "the text is empty; expected a JSON document";

/// The mark before the line of an error.
const LINE: &str = " at line ";

/// Describes why JSON cannot be read: the rule and the remedy, and the line and column of text that is not JSON. The place
/// in JSON of a wrong shape is the path of the error.
///
/// ```
/// use turntree_core::json::describe_error;
///
/// let error = serde_json::from_str::<Vec<u8>>("{}").unwrap_err();
/// assert_eq!(describe_error(&error), "expected an array, got an object");
/// let error = serde_json::from_str::<Vec<u8>>("[1, 2").unwrap_err();
/// assert_eq!(describe_error(&error), "the JSON ends in an array at line 1 column 5; check that the document is complete");
/// ```
pub fn describe_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = position(error);
    let message = without_position(&text);
    match error.classify() {
        Category::Eof if error.line() <= 1 && error.column() == 0 => EMPTY.to_owned(),
        Category::Eof => {
            let place = ended_in(&message);
            format!("the JSON ends {place}{position}; check that the document is complete")
        }
        Category::Data => {
            let (rule, remedy) = shape(&message);
            format!("{rule}{remedy}")
        }
        Category::Syntax | Category::Io => {
            let (rule, remedy) = syntax(&message);
            format!("invalid JSON{position}: {rule}{remedy}")
        }
    }
}

/// As [`describe_error`], for a text that may consist of white space, or may be the path of a file.
///
/// ```
/// use turntree_core::json::describe_error_of;
///
/// let error = serde_json::from_str::<Vec<u8>>("data/thread.json").unwrap_err();
/// let message = describe_error_of("data/thread.json", &error);
/// assert_eq!(message, "this is the path of a file, not JSON; read the file and pass its content");
/// ```
pub fn describe_error_of(text: &str, error: &serde_json::Error) -> String {
    if text.trim_ascii().is_empty() {
        EMPTY.to_owned()
    } else if error.classify() == Category::Syntax && is_path(text) {
        "this is the path of a file, not JSON; read the file and pass its content".to_owned()
    } else {
        describe_error(error)
    }
}

/// Whether a text that is not JSON looks like the path of a file.
fn is_path(text: &str) -> bool {
    let is_one_word = text.len() <= 1_000 && !text.contains(['\n', '{', '[', '"', '<']);
    let suffix = text.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    is_one_word
        && (matches!(suffix, "json" | "jsonl" | "txt")
            || text.starts_with(['/', '~'])
            || text.starts_with("./"))
}

/// As [`describe_error`], for JSON that is a part of a document: without line and column, which would be those of the part.
pub fn describe_part(error: &serde_json::Error) -> String {
    without_position(&describe_error(error))
}

/// Removes line and column from the description of an error.
pub fn without_position(message: &str) -> String {
    let span = message.rfind(LINE).and_then(|start| {
        let rest = message.get(start + LINE.len()..)?;
        let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).strip_prefix(" column ")?;
        Some((start, rest.trim_start_matches(|digit: char| digit.is_ascii_digit())))
    });
    match span {
        Some((start, rest)) => [message.get(..start).unwrap_or_default(), rest].concat(),
        None => message.to_owned(),
    }
}

/// Line and column, if the parser has them. It has none for the first byte of a value.
fn position(error: &serde_json::Error) -> String {
    match (error.line(), error.column()) {
        (0, _) | (_, 0) => String::new(),
        (line, column) => format!("{LINE}{line} column {column}"),
    }
}

fn ended_in(message: &str) -> &'static str {
    match message {
        "EOF while parsing a string" => "in a string",
        "EOF while parsing an object" => "in an object",
        "EOF while parsing a list" => "in an array",
        _ => "before a value is complete",
    }
}

/// The rule and the remedy of a syntax error.
fn syntax(message: &str) -> (String, &'static str) {
    let (rule, remedy) = match message {
        "expected value" => ("expected a value", "; texts are in double quotes"),
        "expected ident" => ("expected a value such as true, false or null", "; texts are in double quotes"),
        "key must be a string" => ("expected a key in double quotes", ""),
        "trailing comma" => ("a comma before the closing bracket", "; remove it"),
        "trailing characters" => ("text after the end of the document", "; pass one document"),
        "invalid escape" => ("an unknown escape in a string", "; write a backslash as \\\\"),
        "invalid number" => ("a number is not complete", "; JSON numbers look like -1.5e3"),
        "number out of range" => ("a number is too large for a double", "; write it as a string"),
        "expected `:`" => ("a colon is missing after a key", ""),
        "expected `,` or `}`" => ("a comma or } is missing after a member", ""),
        "expected `,` or `]`" => ("a comma or ] is missing after an element", ""),
        "recursion limit exceeded" => ("the nesting is too deep", "; flatten it"),
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            ("half of a surrogate pair", "; write both halves, or U+FFFD")
        }
        _ if message.starts_with("control character") => {
            ("a control character in a string", "; escape it, for example as \\n")
        }
        other => return (other.to_owned(), ""),
    };
    (rule.to_owned(), remedy)
}

/// The rule and the remedy of an error of shape. What precedes serde's words, for example a member's name, is unchanged.
fn shape(message: &str) -> (String, String) {
    type Describe = fn(&str) -> Option<(String, String)>;
    const KINDS: [(&str, Describe); 6] = [
        ("invalid type: ", wrong_type),
        ("invalid value: ", wrong_value),
        ("invalid length ", wrong_length),
        ("missing field `", missing),
        ("unknown variant `", unknown),
        ("duplicate field `", duplicate),
    ];
    KINDS
        .iter()
        .find_map(|(mark, describe)| {
            let (before, rest) = message.split_once(mark)?;
            let (rule, remedy) = describe(rest)?;
            // The words inside of a value are not serde's.
            let is_prefix = before.is_empty() || before.ends_with(": ");
            is_prefix.then(|| (format!("{before}{rule}"), remedy))
        })
        .unwrap_or_else(|| (message.to_owned(), String::new()))
}

/// The rest of "invalid type".
fn wrong_type(rest: &str) -> Option<(String, String)> {
    let (found, expected) = rest.rsplit_once(", expected ")?;
    Some((format!("expected {}, got {}", plain_type(expected), kind(found)), String::new()))
}

/// The rest of "invalid value".
fn wrong_value(rest: &str) -> Option<(String, String)> {
    let (found, expected) = rest.rsplit_once(", expected ")?;
    Some((format!("expected {}, got {}", plain_type(expected), value(found)), String::new()))
}

/// The rest of "invalid length": serde reads structures from arrays too.
fn wrong_length(rest: &str) -> Option<(String, String)> {
    let (length, expected) = rest.split_once(", expected ")?;
    let found = if expected.starts_with("struct ") { "an array".to_owned() } else { length.to_owned() };
    Some((format!("expected {}, got {found}", plain_type(expected)), String::new()))
}

fn missing(rest: &str) -> Option<(String, String)> {
    let name = rest.strip_suffix('`')?;
    Some((format!("\"{name}\" is missing"), "; add it".to_owned()))
}

fn duplicate(rest: &str) -> Option<(String, String)> {
    let name = rest.strip_suffix('`')?;
    Some((format!("\"{name}\" is there twice"), "; remove one".to_owned()))
}

/// The rest of "unknown variant", for example: x, expected one of a, b.
fn unknown(rest: &str) -> Option<(String, String)> {
    let (found, expected) = rest.rsplit_once("`, expected ")?;
    let names = expected.strip_prefix("one of ").unwrap_or(expected).replace('`', "\"");
    Some((format!("unknown value {}", shortened(&format!("\"{found}\""))), format!("; use one of {names}")))
}

/// A type that serde expects.
fn plain_type(expected: &str) -> &str {
    match expected {
        "a map" => "an object",
        "a sequence" => "an array",
        "a boolean" => "true or false",
        "unit" => "null",
        "a borrowed string" | "a str" | "variant identifier" | "field identifier" => "a string",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0 to 18446744073709551615",
        "u128" => "a whole number that is not negative",
        "f32" | "f64" => "a number",
        _ if expected.starts_with("struct ") => "an object",
        _ if expected.starts_with("a tuple") || expected.starts_with("tuple") => "an array",
        _ => expected,
    }
}

/// The kind of a value that serde found. The contents of strings are omitted.
fn kind(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "an array".to_owned(),
        "null" | "unit value" | "Option value" => "null".to_owned(),
        _ if found.starts_with("string ") || found.starts_with("character ") => "a string".to_owned(),
        _ => value(found),
    }
}

/// A value that serde found.
fn value(found: &str) -> String {
    let quoted =
        |prefix: &str| found.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('`')?.strip_suffix('`'));
    if let Some(value) = quoted("boolean ") {
        return value.to_owned();
    }
    let number = quoted("integer ").or_else(|| quoted("floating point ")).or_else(|| quoted("number "));
    match number {
        Some(number) => format!("the number {}", shortened(number)),
        None => shortened(found.strip_prefix("string ").unwrap_or(found)),
    }
}

/// The beginning of a text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
