//! Events and their types as data classes: read, checked, written, with JSON Schemas.
//!
//! Spec: UAMP-1.0 §4–9, §11

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::prelude::*;
use pyo3::exceptions::PyAttributeError;
use pyo3::types::{PyDict, PyFrozenSet, PyString};
use serde_json::Value;

use crate::data::{ClassRegistry, Data, DataClass, extract};
use crate::error::{OrRaise as _, required};
use crate::to_python::{ToPython as _, data_class};
use turntree_core::json::{RawJson, RawObject, parse};
use turntree_core::limits::Limits;
use turntree_uamp::{event, types};

/// Adds the classes to the native module.
pub(crate) fn register(module: &Bound<'_, PyModule>, registry: &mut ClassRegistry) -> PyResult<()> {
    macro_rules! data_classes {
        ($($class:ty),* $(,)?) => {
            $( module.add_class::<$class>()?; registry.add::<$class>(module.py()); )*
        };
    }
    data_classes!(
        ClientEvent,
        ServerEvent,
        SystemEvent,
        ContentItem,
        SessionConfig,
        Capabilities,
        UsageStats,
    );
    // The module has a class with this name already.
    module.add("UampMessage", module.py().get_type::<Message>())?;
    registry.add::<Message>(module.py());
    Ok(())
}

/// The members that the schema of a class names, by the type of the value; those of a class without types under `""`.
type Members = HashMap<String, HashSet<String>>;

/// Reads the members from the schema.
fn members_of(schema: &Value) -> Members {
    let mut found = Members::new();
    let definitions = schema.get("$defs").and_then(Value::as_object);
    let tagged = definitions
        .into_iter()
        .flat_map(serde_json::Map::values)
        .filter_map(|definition| Some((definition.pointer("/properties/type/const")?.as_str()?, definition)));
    for (tag, definition) in tagged.chain([("", schema)]) {
        let properties = definition.get("properties").and_then(Value::as_object);
        let names = properties.into_iter().flat_map(serde_json::Map::keys).cloned();
        found.entry(tag.to_owned()).or_default().extend(names);
    }
    found
}

/// The member of a value; `None` for one that the protocol names and the value does not have.
fn member<'py>(value: &Bound<'py, Data>, members: &Members, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    // Python asks for names of its own, such as `__array__`.
    if !name.starts_with('_') {
        let text = value.get().to_json(py)?;
        let found: RawObject = parse(&text, &Limits::default()).or_raise_in(py, &text)?;
        if let Some(raw) = found.get(name) {
            return raw.to_python(py);
        }
        let tag = found.get("type").and_then(RawJson::as_string).unwrap_or_default();
        if [&*tag, ""].iter().any(|tag| members.get(*tag).is_some_and(|named| named.contains(name))) {
            return Ok(py.None().into_bound(py));
        }
    }
    let class = value.get_type().name()?;
    Err(PyAttributeError::new_err(format!(
        "{class} has no member \"{name}\"; model_dump shows those that it has"
    )))
}

/// The value whose members are keyword arguments.
fn value_with<C: DataClass>(
    py: Python<'_>,
    tag: Option<&str>,
    members: Option<&Bound<'_, PyDict>>,
) -> PyResult<Arc<C::Value>> {
    let all = PyDict::new(py);
    if let Some(members) = members {
        all.update(members.as_mapping())?;
    }
    if let Some(tag) = tag {
        all.set_item("type", tag)?;
    }
    extract::<C>(&all, "members")
}

/// Defines a class whose members are attributes, under the names of the protocol.
macro_rules! protocol_class {
    ($(#[doc = $doc:literal])* $class:ident as $name:literal over $value:ty { $($methods:tt)* }) => {
        data_class! {
            $(#[doc = $doc])*
            $class as $name in "turntree.uamp" over $value {}

            $($methods)*

            fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
                static MEMBERS: OnceLock<Members> = OnceLock::new();
                let members = MEMBERS.get_or_init(|| members_of(&Self::json_schema()));
                member(slf.as_super(), members, name)
            }
        }
    };
}

/// Defines a class whose values have a type.
macro_rules! tagged_class {
    ($(#[doc = $doc:literal])* $class:ident as $name:literal over $value:ty { $($methods:tt)* }) => {
        protocol_class! {
            $(#[doc = $doc])*
            $class as $name over $value {
                #[new]
                #[pyo3(signature = (r#type, /, **members))]
                fn new(
                    py: Python<'_>,
                    r#type: &str,
                    members: Option<&Bound<'_, PyDict>>,
                ) -> PyResult<PyClassInitializer<Self>> {
                    let value = value_with::<Self>(py, Some(r#type), members)?;
                    Ok(PyClassInitializer::from(Data::new(value)).add_subclass(Self))
                }

                /// The type.
                #[getter(r#type)]
                fn kind<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyString>> {
                    Ok(PyString::new(slf.py(), Self::of(slf)?.kind()))
                }

                $($methods)*
            }
        }
    };
}

/// Defines the class of the events of one side.
macro_rules! event_class {
    ($(#[doc = $doc:literal])* $class:ident as $name:literal over $value:ty) => {
        tagged_class! {
            $(#[doc = $doc])*
            $class as $name over $value {
                /// The types that the protocol knows.
                #[classattr]
                #[pyo3(name = "TYPES")]
                fn types(py: Python<'_>) -> PyResult<Bound<'_, PyFrozenSet>> {
                    PyFrozenSet::new(py, <$value>::KINDS.iter().copied())
                }
            }
        }
    };
}

event_class! {
    /// An event that a client sends, such as ``input.text``.
    ///
    /// Members are attributes under the names of the protocol: those of events, such as ``event_id``, ``session_id``,
    /// ``timestamp`` and ``seq``, and those of the type. A member that is missing is None. Members that the protocol
    /// does not name, and events of types that are not in `TYPES`, are unchanged.
    ///
    /// Spec: UAMP-1.0 §5.
    ClientEvent as "ClientEvent" over event::ClientEvent
}

event_class! {
    /// An event that a server sends, such as ``response.delta``; like `ClientEvent`.
    ///
    /// Spec: UAMP-1.0 §6.
    ServerEvent as "ServerEvent" over event::ServerEvent
}

event_class! {
    /// An event inside an application, such as ``system.stop``; like `ClientEvent`. Clients do not send them.
    ///
    /// Spec: UAMP-1.0 §11.
    SystemEvent as "SystemEvent" over event::SystemEvent
}

tagged_class! {
    /// A part of a message or of an output.
    ///
    /// The types are ``text``, ``image``, ``audio``, ``video``, ``file``, ``tool_call`` and ``tool_result``; other ones
    /// are unchanged.
    ///
    /// Spec: UAMP-1.0 §8.4.2.
    ContentItem as "ContentItem" over types::ContentItem {}
}

/// Requires a member of the arguments of a constructor.
///
/// # Errors
/// `TypeError` with the call to write.
fn require(members: Option<&Bound<'_, PyDict>>, class: &str, name: &str) -> PyResult<()> {
    let has_it = members.map(|members| members.contains(name)).transpose()?;
    required(has_it.filter(|has_it| *has_it).map(|_| ()), class, name, &format!("{class}({name}=…)"))
}

/// Defines a class whose values have no type.
macro_rules! record_class {
    ($(#[doc = $doc:literal])* $class:ident as $name:literal over $value:ty $(, with $required:literal)?) => {
        protocol_class! {
            $(#[doc = $doc])*
            $class as $name over $value {
                #[new]
                #[pyo3(signature = (**members))]
                fn new(
                    py: Python<'_>,
                    members: Option<&Bound<'_, PyDict>>,
                ) -> PyResult<PyClassInitializer<Self>> {
                    $(require(members, $name, $required)?;)?
                    let value = value_with::<Self>(py, None, members)?;
                    Ok(PyClassInitializer::from(Data::new(value)).add_subclass(Self))
                }
            }
        }
    };
}

record_class! {
    /// A message of a conversation: an element of ``messages`` of ``input.text``.
    ///
    /// ``content`` is its text; ``content_items`` has its media as well.
    ///
    /// Spec: UAMP-1.0 §8.5.
    Message as "Message" over types::Message, with "role"
}

record_class! {
    /// The configuration of a session: the member ``session`` of ``session.create``.
    ///
    /// Spec: UAMP-1.0 §8.1.
    SessionConfig as "SessionConfig" over types::SessionConfig
}

record_class! {
    /// What a model, a client or an agent can do. Members that are required and missing are False.
    ///
    /// Spec: UAMP-1.0 §9.
    Capabilities as "Capabilities" over types::Capabilities, with "id"
}

record_class! {
    /// Tokens and costs of a response.
    ///
    /// Spec: UAMP-1.0 §8.7.
    UsageStats as "UsageStats" over types::UsageStats
}
