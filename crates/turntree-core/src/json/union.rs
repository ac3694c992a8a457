//! Tagged unions of [`json_object!`](crate::json_object) types that preserve unknown variants.

use serde::de::MapAccess;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serializer};

use super::raw::RawObject;

/// A value with an unknown tag, preserved as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    /// The tag.
    pub kind: Box<str>,
    /// The members without the tag.
    pub members: RawObject,
}

impl Unknown {
    /// Writes the tag, then the members.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn write<S: Serializer>(&self, tag: &str, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(tag, &self.kind)?;
        for (key, value) in self.members.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Reads the members of an unknown variant, without a duplicate tag.
///
/// # Errors
/// Errors of the deserializer.
pub fn members<'de, A: MapAccess<'de>>(tag: &str, members: A) -> Result<RawObject, A::Error> {
    let mut members = RawObject::deserialize(serde::de::value::MapAccessDeserializer::new(members))?;
    members.remove(tag);
    Ok(members)
}

/// Defines a tagged union of [`json_object!`](crate::json_object) types that preserves unknown variants.
///
/// `boxed` beside a type puts the values of a large and rare variant behind a pointer, so that the others stay small.
#[macro_export]
macro_rules! tagged_union {
    ($(#[$meta:meta])* pub enum $name:ident by $tag:literal { $( $(#[$variant_meta:meta])* $variant:ident($type:ty $(, $boxed:ident)?) = $value:literal, )* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant($crate::tagged_union!(@held $type $(, $boxed)?)), )*
            /// An unknown variant.
            Unknown(Box<$crate::json::union::Unknown>),
        }

        impl $name {
            /// The tag.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $value, )*
                    Self::Unknown(unknown) => &unknown.kind,
                }
            }
        }

        $( impl From<$type> for $name {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        } )*

        impl<'de> $crate::json::tagged::Tagged<'de> for $name {
            const TAG: &'static str = $tag;
            fn variant<A: serde::de::MapAccess<'de>>(tag: &str, members: A) -> Result<Self, A::Error> {
                Ok(match tag {
                    $( $value => Self::$variant(<$type>::from_members(members)?.into()), )*
                    _ => {
                        let members = $crate::json::union::members($tag, members)?;
                        Self::Unknown(Box::new($crate::json::union::Unknown { kind: tag.into(), members }))
                    }
                })
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::json::tagged::read(deserializer)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$variant(value) => serde::Serialize::serialize(value, serializer), )*
                    Self::Unknown(unknown) => unknown.write($tag, serializer),
                }
            }
        }

        impl $crate::json::object::Field for $name {}

        impl $crate::json::schema::JsonSchema for $name {
            fn schema(definitions: &mut $crate::json::schema::Definitions) -> serde_json::Value {
                definitions.union(
                    stringify!($name),
                    $tag,
                    &[$($value),*],
                    &[$( <$type as $crate::json::schema::JsonSchema>::schema ),*],
                )
            }
        }
    };
    (@held $type:ty) => { $type };
    (@held $type:ty, boxed) => { Box<$type> };
}
pub use crate::tagged_union;
