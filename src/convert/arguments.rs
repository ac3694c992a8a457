//! Reads the arguments of calls. The attributes of [`crate::prelude`] call it for every parameter that is a value, so that
//! errors name the call, the argument, what it must be and what it is: `Thread(): title must be a str, not int`.

use std::fmt;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::types::{PyBool, PyBytes, PyDict, PySequence, PyString, PyTuple};
use pyo3::{PyClass, PyTypeCheck, intern};

use crate::bridge::gil;
use crate::convert::text::refused_text;
use crate::error::{Given, build};
use crate::prelude::*;

pub(crate) use pyo3::FromPyObject;

/// An argument of a function, as errors describe it.
pub(crate) struct Argument {
    pub(crate) call: Call,
    pub(crate) name: &'static str,
    pub(crate) expected: Expected,
}

/// A call, as errors describe it.
pub(crate) struct Call {
    /// The class that has the function.
    pub(crate) class: Option<&'static str>,
    pub(crate) called: Called,
}

/// What is called.
pub(crate) enum Called {
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
    Integer {
        least: i128,
        most: i128,
    },
    Number,
    Bytes,
    Path,
    Optional(&'static Self),
    List(&'static Self),
    Tuple(&'static [Self]),
    Dict(&'static Self, &'static Self),
    /// An object of a class of Python.
    Builtin {
        name: &'static str,
        fits: fn(&Bound<'_, PyAny>) -> bool,
    },
    /// An object of a class of the package.
    Instance {
        name: fn() -> &'static str,
        fits: fn(&Bound<'_, PyAny>) -> bool,
    },
    /// What only the reader of the value knows.
    Any,
}

/// The name of a class in Python.
pub(crate) const fn class_name<T: PyClass>() -> &'static str {
    <T as PyClass>::NAME
}

/// True for an object of the class.
pub(crate) fn is_instance<T: PyTypeCheck>(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<T>().is_ok()
}

/// A parameter that is an object of one class.
pub(crate) trait FromObject<'a, 'py>: Sized {
    /// The object, if it is one of the class.
    fn from_object(value: &'a Bound<'py, PyAny>) -> PyResult<Self>;
}

impl<'a, 'py, T: PyTypeCheck> FromObject<'a, 'py> for &'a Bound<'py, T> {
    fn from_object(value: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(value.cast::<T>()?)
    }
}

impl<'a, 'py, T: PyTypeCheck> FromObject<'a, 'py> for Option<&'a Bound<'py, T>> {
    fn from_object(value: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if value.is_none() { Ok(None) } else { Ok(Some(value.cast::<T>()?)) }
    }
}

impl<'a, 'py, T: PyTypeCheck> FromObject<'a, 'py> for Given<Bound<'py, T>> {
    fn from_object(value: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(value.cast::<T>()?.clone())))
    }
}

/// Reads an argument that is an object of one class.
///
/// # Errors
/// `TypeError` for another object, which names the argument.
#[inline]
pub(crate) fn read_object<'a, 'py, T: FromObject<'a, 'py>>(
    value: &'a Bound<'py, PyAny>,
    argument: &'static Argument,
) -> PyResult<T> {
    T::from_object(value).map_err(|error| argument.refused(value, error))
}

/// Adds the call to an error about one of the arguments that a function reads itself. Exceptions of Python code are
/// unchanged.
#[cold]
pub(crate) fn with_call(error: PyErr, call: &Call, names: &[&str]) -> PyErr {
    let named = gil::attach(|py| {
        if !error.get_type(py).is(py.get_type::<PyTypeError>()) || error.traceback(py).is_some() {
            return None;
        }
        let text = error.value(py).to_string();
        let is_about = |name: &&str| {
            text.strip_prefix(*name)
                .is_some_and(|rest| [" must be", ":", "[", "/"].iter().any(|next| rest.starts_with(*next)))
        };
        names.iter().any(is_about).then(|| {
            let named = PyTypeError::new_err(format!("{call}: {text}"));
            named.set_cause(py, error.cause(py));
            named
        })
    });
    named.flatten().unwrap_or(error)
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
        write!(formatter, "{}: {}", self.call, self.name)
    }
}

/// "`Session.fork()`".
impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.class.map(public_name).unwrap_or_default();
        match self.called {
            Called::Class => write!(formatter, "{class}()"),
            Called::Attribute => formatter.write_str(class),
            Called::Function(name) if class.is_empty() => write!(formatter, "{name}()"),
            Called::Function(name) => write!(formatter, "{class}.{name}()"),
        }
    }
}

/// The name of the public class: `SessionCore` is what the class `Session` calls.
fn public_name(class: &str) -> &str {
    match class.strip_suffix("Core") {
        Some("") | None => class,
        Some(public) => public,
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
        let wrong_kind = || {
            let found = match expected {
                // Two classes of the same name.
                Expected::Instance { name, .. } if kind_of(value) == public_name(name()) => {
                    value.get_type().fully_qualified_name().ok()?.to_string()
                }
                _ => kind_of(value),
            };
            Some(Self::here(Rule::Kind { expected: expected.to_string(), found }))
        };
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
            Expected::Builtin { fits, .. } | Expected::Instance { fits, .. } if !fits(value) => wrong_kind(),
            Expected::Text
            | Expected::Flag
            | Expected::Bytes
            | Expected::Number
            | Expected::Path
            | Expected::Builtin { .. }
            | Expected::Instance { .. }
            | Expected::Any => None,
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
            Self::Any => "another value",
            Self::Builtin { name, .. } => return write!(formatter, "a {name}"),
            Self::Instance { name, .. } => {
                let name = public_name(name());
                let article =
                    if name.starts_with(['A', 'E', 'I', 'O', 'a', 'e', 'i', 'o']) { "an" } else { "a" };
                return write!(formatter, "{article} {name}");
            }
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
