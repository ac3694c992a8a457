//! Reads the arguments of calls. The attributes of [`crate::prelude`] call it for every parameter that is a value, so that
//! errors name the call, the argument, what it must be and what it is: `Thread(): title must be a str, not int`.

use std::fmt;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::types::{PyBool, PyBytes, PyDict, PySequence, PyString, PyTuple};
use pyo3::{PyClass, intern};

use crate::convert::text::refused_text;
use crate::error::build;
use crate::prelude::*;

/// An argument of a function, as errors describe it.
pub(crate) struct Argument {
    /// The class that has the function.
    pub(crate) class: Option<&'static str>,
    pub(crate) call: Call,
    pub(crate) name: &'static str,
    pub(crate) expected: Expected,
}

/// What is called.
pub(crate) enum Call {
    /// The class: its constructor or one of its operators.
    Class,
    /// An attribute that is assigned.
    Attribute,
    /// The function with this name.
    Function(&'static str),
}

/// What a value must be, in words of Python.
pub(crate) enum Expected {
    Text,
    Flag,
    Integer { least: i128, most: i128 },
    Number,
    Bytes,
    Path,
    Optional(&'static Self),
    List(&'static Self),
    Tuple(&'static [Self]),
    Dict(&'static Self, &'static Self),
}

/// The name of a class in Python.
pub(crate) const fn class_name<T: PyClass>() -> &'static str {
    <T as PyClass>::NAME
}

/// Reads an argument.
///
/// # Errors
/// `TypeError` for a value of another type, `OverflowError` for an int that is too small or too large, and
/// `turntree.ValidationError` for lone surrogates. They name the argument. Other exceptions are those of the value.
#[inline]
pub(crate) fn read<'a, 'py, T: FromPyObject<'a, 'py>>(
    value: &'a Bound<'py, PyAny>,
    argument: &'static Argument,
) -> PyResult<T> {
    value.extract::<T>().map_err(|error| argument.refused(value, error.into()))
}

impl Argument {
    /// The exception for a value that was not read.
    #[cold]
    fn refused(&self, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
        let py = value.py();
        if error.is_instance_of::<PyUnicodeEncodeError>(py) {
            return Self::without_note(py, refused_text(py, error, &[], self.name));
        }
        let is_about_the_value = error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyOverflowError>(py);
        let mismatch = if is_about_the_value { Mismatch::find(value, &self.expected) } else { None };
        let Some(Mismatch { place, rule }) = mismatch else { return error };
        let message = format!("{self}{place} {rule}");
        let refused = match rule {
            Rule::Kind { .. } => PyTypeError::new_err(message),
            Rule::Range { .. } => PyOverflowError::new_err(message),
        };
        Self::without_note(py, refused)
    }

    /// PyO3 adds a note with the name of the argument, which the message has.
    fn without_note(py: Python<'_>, error: PyErr) -> PyErr {
        let module = py.import(intern!(py, "turntree._argument_errors"));
        build(
            module.and_then(|module| {
                module.getattr(intern!(py, "without_note"))?.call1((error.into_value(py),))
            }),
        )
    }
}

/// "`Session.fork(): node_id`".
impl fmt::Display for Argument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `SessionCore` is what the class `Session` calls.
        let class = self.class.map(|class| match class.strip_suffix("Core") {
            Some("") | None => class,
            Some(public) => public,
        });
        let class = class.unwrap_or_default();
        match self.call {
            Call::Class => write!(formatter, "{class}(): {}", self.name),
            Call::Attribute => write!(formatter, "{class}: {}", self.name),
            Call::Function(name) if class.is_empty() => write!(formatter, "{name}(): {}", self.name),
            Call::Function(name) => write!(formatter, "{class}.{name}(): {}", self.name),
        }
    }
}

/// The first value that is not what it must be.
struct Mismatch {
    /// Its place below the argument: `[2]` for the third item.
    place: String,
    rule: Rule,
}

enum Rule {
    /// The type is wrong.
    Kind { expected: String, found: String },
    /// The number is out of range.
    Range { bound: &'static str, limit: i128, found: String },
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind { expected, found } => write!(formatter, "must be {expected}, not {found}"),
            Self::Range { bound, limit, found } => {
                write!(formatter, "must be at {bound} {limit}, not {found}")
            }
        }
    }
}

impl Mismatch {
    /// What is wrong with a value that was refused; `None` if that is not its type or range.
    fn find(value: &Bound<'_, PyAny>, expected: &Expected) -> Option<Self> {
        let wrong_kind =
            || Some(Self::here(Rule::Kind { expected: expected.to_string(), found: kind_of(value) }));
        match expected {
            Expected::Optional(_) if value.is_none() => None,
            Expected::Optional(inner) => Self::find(value, inner).map(|found| found.or_none(inner)),
            Expected::Text if !value.is_instance_of::<PyString>() => wrong_kind(),
            Expected::Flag if !value.is_instance_of::<PyBool>() => wrong_kind(),
            Expected::Bytes if !value.is_instance_of::<PyBytes>() => wrong_kind(),
            Expected::Integer { .. } if !has(value, "__index__") => wrong_kind(),
            Expected::Integer { least, most } => Self::of_range(value, *least, *most),
            Expected::Number if !has(value, "__float__") && !has(value, "__index__") => wrong_kind(),
            Expected::Path if !value.is_instance_of::<PyString>() && !has(value, "__fspath__") => {
                wrong_kind()
            }
            Expected::List(item) => match value.cast::<PySequence>() {
                Ok(list) if !value.is_instance_of::<PyString>() => Self::in_list(list, item),
                _ => wrong_kind(),
            },
            Expected::Tuple(items) => match value.cast::<PyTuple>() {
                Ok(tuple) if tuple.len() == items.len() => {
                    let mut pairs = tuple.iter().zip(items.iter()).enumerate();
                    pairs.find_map(|(index, (item, kind))| Some(Self::find(&item, kind)?.below(index)))
                }
                Ok(tuple) => {
                    let found = format!("{} items", tuple.len());
                    Some(Self::here(Rule::Kind { expected: expected.to_string(), found }))
                }
                Err(_) => wrong_kind(),
            },
            Expected::Dict(key_kind, value_kind) => match value.cast::<PyDict>() {
                Ok(dict) => dict.iter().find_map(|(key, value)| {
                    if let Some(Self { rule, .. }) = Self::find(&key, key_kind) {
                        return Some(Self { place: ": each key".to_owned(), rule });
                    }
                    Some(Self::find(&value, value_kind)?.below(key.repr().ok()?))
                }),
                Err(_) => wrong_kind(),
            },
            Expected::Text | Expected::Flag | Expected::Bytes | Expected::Number | Expected::Path => None,
        }
    }

    fn here(rule: Rule) -> Self {
        Self { place: String::new(), rule }
    }

    fn below(self, key: impl fmt::Display) -> Self {
        Self { place: format!("[{key}]{}", self.place), ..self }
    }

    /// Adds that the value may be `None`, if the value itself is wrong.
    fn or_none(self, inner: &Expected) -> Self {
        match self.rule {
            Rule::Kind { found, .. } if self.place.is_empty() => {
                Self::here(Rule::Kind { expected: format!("{inner} or None"), found })
            }
            rule => Self { rule, ..self },
        }
    }

    fn in_list(list: &Bound<'_, PySequence>, kind: &Expected) -> Option<Self> {
        (0..list.len().ok()?)
            .find_map(|index| Some(Self::find(&list.get_item(index).ok()?, kind)?.below(index)))
    }

    fn of_range(value: &Bound<'_, PyAny>, least: i128, most: i128) -> Option<Self> {
        // Python does not write more than 4300 digits.
        let found = value.str().map_or_else(|_| "a larger number".to_owned(), |text| text.to_string());
        let found = if found.len() > 40 { "a larger number".to_owned() } else { found };
        let rule = |bound, limit| Some(Self::here(Rule::Range { bound, limit, found }));
        if value.lt(least).ok()? {
            rule("least", least)
        } else if value.gt(most).ok()? {
            rule("most", most)
        } else {
            None
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Text => "a str",
            Self::Flag => "a bool",
            Self::Integer { .. } => "an int",
            Self::Number => "a number",
            Self::Bytes => "bytes",
            Self::Path => "a path (a str or an os.PathLike)",
            Self::Dict(..) => "a dict",
            Self::Optional(inner) => return write!(formatter, "{inner} or None"),
            Self::Tuple(items) => return write!(formatter, "a tuple of {} items", items.len()),
            Self::List(item) => match item {
                Self::Text => "a list of str",
                Self::Integer { .. } => "a list of int",
                Self::Number => "a list of numbers",
                Self::Path => "a list of paths",
                Self::Tuple(_) => "a list of tuples",
                Self::Dict(..) => "a list of dicts",
                _ => "a list",
            },
        })
    }
}

/// A value in an error: its type.
fn kind_of(value: &Bound<'_, PyAny>) -> String {
    if value.is_none() {
        return "None".to_owned();
    }
    value.get_type().name().map(|name| name.to_string()).unwrap_or_default()
}

fn has(value: &Bound<'_, PyAny>, method: &str) -> bool {
    value.get_type().hasattr(method).unwrap_or(false)
}
