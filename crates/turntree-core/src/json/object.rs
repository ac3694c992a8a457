//! Typed objects that preserve unknown members.
//!
//! [`json_object!`](crate::json_object) generates `Serialize` and `Deserialize`: known members are read into fields,
//! unknown members into [`Extra`]. serde's `flatten` does not fit: it buffers each object as a tree, loses digits of
//! numbers and rejects raw values.

use std::fmt;

use serde::ser::SerializeMap;

use super::raw::{RawJson, RawObject};
use crate::intern::InternedStr;

/// The unknown members of an object, in the order in which they were read. Has the size of a pointer.
#[derive(Clone, Default, PartialEq)]
pub struct Extra(Option<Box<RawObject>>);

impl Extra {
    /// No unknown members.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Sets the value of a member.
    pub fn insert(&mut self, key: impl Into<InternedStr>, value: RawJson) {
        self.0.get_or_insert_default().insert(key, value);
    }

    /// Adds a member without a check for duplicates; call [`Self::settle`] after the last one.
    #[doc(hidden)]
    pub fn push(&mut self, key: &str, value: RawJson) {
        self.0.get_or_insert_default().push(key, value);
    }

    /// Merges duplicate members: the last value counts.
    #[doc(hidden)]
    pub fn settle(&mut self) {
        if let Some(members) = &mut self.0 {
            members.settle();
        }
    }

    /// The value of a member.
    pub fn get(&self, key: &str) -> Option<&RawJson> {
        self.0.as_ref()?.get(key)
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.iter().flat_map(|object| object.iter())
    }

    /// True if there are no unknown members.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|object| object.is_empty())
    }

    /// Writes the members into the object that `map` serializes.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

/// The type of a field of a [`json_object!`](crate::json_object).
///
/// An `Option` is optional: a missing member and `null` are read as `None`, and `None` is not written. Other types are
/// required. With the keyword `default` a missing member is read as the default value; the member is always written.
pub trait Field: Sized {
    /// False if [`Self::missing`] returns a value.
    const IS_REQUIRED: bool = true;

    /// The value for a missing member; `None` if the member is required.
    fn missing() -> Option<Self> {
        None
    }

    /// True if the member is written.
    fn is_written(&self) -> bool {
        true
    }
}

impl<T> Field for Option<T> {
    const IS_REQUIRED: bool = false;

    fn missing() -> Option<Self> {
        Some(None)
    }

    fn is_written(&self) -> bool {
        self.is_some()
    }
}

macro_rules! required {
    ($($type:ty),* $(,)?) => { $(impl Field for $type {})* };
}

required!(
    String,
    Box<str>,
    std::sync::Arc<str>,
    crate::intern::InternedStr,
    bool,
    u32,
    u64,
    i64,
    f64,
    RawJson,
    RawObject,
    crate::time::Timestamp
);

impl<T> Field for Vec<T> {}
impl<T> Field for std::sync::Arc<T> {}

/// Defines a struct for a JSON object. The members are written in the order of the fields, the unknown members last.
///
/// Each field declares the key of its member; the keyword `default` may follow. The macro adds the field `extra: Extra`
/// and implements `Serialize`, `Deserialize` and [`JsonSchema`](crate::json::schema::JsonSchema). A line
/// `tag "type" = "text"` before the fields writes that member first and ignores it when reading.
///
/// ```
/// turntree_core::json::json_object! {
///     /// A tool call.
///     #[derive(Debug, Clone, PartialEq)]
///     pub struct Call {
///         /// The id.
///         pub id: String = "callId",
///         /// The number of attempts.
///         pub tries: u32 = "tries", default,
///         /// A note.
///         pub note: Option<String> = "note",
///     }
/// }
/// let call: Call = serde_json::from_str(r#"{"callId":"1","new":[1.0]}"#).unwrap();
/// assert_eq!(serde_json::to_string(&call).unwrap(), r#"{"callId":"1","tries":0,"new":[1.0]}"#);
/// ```
#[macro_export]
macro_rules! json_object {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $(tag $tag_key:literal = $tag_value:literal,)?
            $( $(#[doc = $field_doc:literal])* pub $field:ident : $type:ty = $key:literal $(, $default:ident)? ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $visibility struct $name {
            $( $(#[doc = $field_doc])* pub $field: $type, )*
            /// Unknown members, written back as they were read.
            pub extra: $crate::json::Extra,
        }

        impl $name {
            /// Reads the members of an object. The tag may be missing.
            ///
            /// # Errors
            /// Errors of the deserializer, a missing member, and a member of the wrong type.
            $visibility fn from_members<'de, A: serde::de::MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
                $( let mut $field: Option<$type> = None; )*
                let mut extra = $crate::json::Extra::new();
                while let Some(key) = map.next_key::<$crate::json::tagged::CowStr<'de>>()? {
                    match key.as_str() {
                        $( $key => $field = Some(map.next_value()?), )*
                        $( $tag_key => { map.next_value::<serde::de::IgnoredAny>()?; } )?
                        _ => { let value = map.next_value()?; extra.push(key.as_str(), value); }
                    }
                }
                extra.settle();
                Ok(Self {
                    $( $field: match $field {
                        Some(value) => value,
                        None => $crate::json_object!(@missing $type, $key $(, $default)?),
                    }, )*
                    extra,
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $( map.serialize_entry($tag_key, $tag_value)?; )?
                $( $crate::json_object!(@write map, self.$field, $key $(, $default)?); )*
                self.extra.serialize_into(&mut map)?;
                map.end()
            }
        }

        impl $crate::json::schema::JsonSchema for $name {
            fn schema(definitions: &mut $crate::json::schema::Definitions) -> serde_json::Value {
                #[allow(unused_mut, unused_assignments, clippy::allow_attributes, reason = "an object may have no tag")]
                let mut tag = None;
                $( tag = Some(($tag_key, $tag_value)); )?
                definitions.object($crate::json::schema::title(stringify!($name)), tag, &[
                    $( $crate::json::schema::Member {
                        key: $key,
                        schema: <$type as $crate::json::schema::JsonSchema>::schema,
                        description: concat!($($field_doc),*),
                        is_required: $crate::json_object!(@required $type $(, $default)?),
                    }, )*
                ])
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Members;
                impl<'de> serde::de::Visitor<'de> for Members {
                    type Value = $name;
                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str("an object")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        $name::from_members(map)
                    }
                }
                deserializer.deserialize_map(Members)
            }
        }
    };
    (@missing $type:ty, $key:literal) => {
        match <$type as $crate::json::object::Field>::missing() {
            Some(value) => value,
            None => return Err(<A::Error as serde::de::Error>::missing_field($key)),
        }
    };
    (@missing $type:ty, $key:literal, default) => { <$type as Default>::default() };
    (@required $type:ty) => { <$type as $crate::json::object::Field>::IS_REQUIRED };
    (@required $type:ty, default) => { false };
    (@write $map:ident, $value:expr, $key:literal) => {
        if $crate::json::object::Field::is_written(&$value) {
            $map.serialize_entry($key, &$value)?;
        }
    };
    (@write $map:ident, $value:expr, $key:literal, default) => { $map.serialize_entry($key, &$value)? };
}
