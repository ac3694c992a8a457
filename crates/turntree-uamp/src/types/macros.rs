//! Macros that define the types of the protocol.

/// Defines a JSON object that preserves unknown members, see [`turntree_core::json::json_object`].
macro_rules! object {
    ($(#[$meta:meta])* $name:ident { $($members:tt)* }) => {
        turntree_core::json::json_object! {
            $(#[$meta])*
            #[derive(Debug, Clone, PartialEq, Default)]
            pub struct $name { $($members)* }
        }

        impl turntree_core::json::object::Field for $name {}
    };
}

/// Defines a string with known values. Other values are preserved. The first value is the default.
macro_rules! text_enum {
    ($(#[$meta:meta])* $name:ident { $(#[$first_meta:meta])* $first:ident = $first_text:literal, $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
        pub enum $name {
            $(#[$first_meta])* #[default] $first,
            $( $(#[$variant_meta])* $variant, )*
            /// Another value.
            Other(Box<str>),
        }

        impl $name {
            /// The known values.
            pub const VALUES: &'static [&'static str] = &[$first_text, $($text),*];

            /// The text.
            pub fn as_str(&self) -> &str {
                match self {
                    Self::$first => $first_text,
                    $( Self::$variant => $text, )*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $first_text => Self::$first,
                    $( $text => Self::$variant, )*
                    _ => Self::Other(text.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(turntree_core::json::tagged::CowStr::deserialize(deserializer)?.as_str().into())
            }
        }

        impl turntree_core::json::object::Field for $name {}

        impl turntree_core::json::schema::JsonSchema for $name {
            fn schema(_: &mut turntree_core::json::schema::Definitions) -> serde_json::Value {
                serde_json::json!({ "anyOf": [{ "enum": Self::VALUES }, { "type": "string" }] })
            }
        }
    };
}
