//! The format of `metadata.pydantic_ai`: fields of a history that no core action holds. Decision 2.
//!
//! ```text
//! thread  {"profile":"2.68","templates":{class:{key:default}},"instructions":address,"args":form,"texts":{},"configs":{}}
//! action  {"message":{"index","kind","keys"?,"fields"?,"usage_keys"?,"usage"?,"instructions"?,"layout"?,"exact"?,"raw"?}, …}  first of a message
//!         {"m":index, …}                                                                                      later ones
//!         …: "kind"? (part_kind, unless the action's type implies it), "keys"?, "part"? (fields), "args"?, "args_order"?, "args_text"?, "items"?
//! args    "json", or the style of a JSON text: "text" (compact), "spaced", "ascii", "spaced_ascii"
//! layout  one entry per part: index of its action, or {"action","item"?,"gap"?,"length",…} for a part of a merged text,
//!         {"action","item","kind":"file","file"?,…} for a file beside texts, {"text":address,…} for a system prompt, {"raw":part} for a part without an action
//! items   one entry per content item: null, {"kind"?,"keys"?,"part"?,"alphabet"?}, or {"raw":item}
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::field_layout::{MOST_MEMBERS, ObjectDiff};
use super::write::{Sink, write_value};
use turntree_core::json::RawJson;
use turntree_core::json::tagged::CowStr;

/// Members by name, in order.
#[derive(Debug, Default)]
pub(super) struct Members<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<CowStr<'de>>()? {
                    members.push((key.into_cow(), map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

/// Keys, in order.
#[derive(Debug)]
pub(super) struct Keys<'a>(pub Vec<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Keys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys = Vec::<CowStr<'de>>::deserialize(deserializer)?;
        if keys.len() > MOST_MEMBERS {
            return Err(serde::de::Error::custom(format_args!("more than {MOST_MEMBERS} keys")));
        }
        Ok(Self(keys.into_iter().map(CowStr::into_cow).collect()))
    }
}

/// The metadata of an action: its part, and the message in the first action of a message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ActionMetadata<'a> {
    /// The message, in its first action.
    #[serde(borrow)]
    pub message: Option<MessageMetadata<'a>>,
    /// The index of the message, in later actions.
    pub m: Option<u64>,
    /// The `part_kind`, unless the action's type implies it.
    #[serde(borrow)]
    pub kind: Option<CowStr<'a>>,
    /// The keys, if they differ from the layout.
    #[serde(borrow)]
    pub keys: Option<Keys<'a>>,
    /// The fields that follow neither from the action nor from the layout.
    #[serde(borrow, default)]
    pub part: Members<'a>,
    /// The form of the arguments, unless it is that of the thread: `json` for a JSON value, otherwise the style of a
    /// JSON text.
    #[serde(borrow)]
    pub args: Option<CowStr<'a>>,
    /// The order of the members in a text of arguments, if tools may change it.
    pub args_order: Option<Vec<usize>>,
    /// The text of the arguments, if it does not follow from their value.
    #[serde(borrow)]
    pub args_text: Option<CowStr<'a>>,
    /// The metadata of the content items.
    #[serde(borrow)]
    pub items: Option<Vec<Option<ItemMetadata<'a>>>>,
}

/// The fields of a message that no action holds.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MessageMetadata<'a> {
    /// The index in the history.
    #[serde(default)]
    pub index: u64,
    /// `request` or `response`.
    #[serde(borrow)]
    pub kind: Option<CowStr<'a>>,
    /// The keys, if they differ from the layout.
    #[serde(borrow)]
    pub keys: Option<Keys<'a>>,
    /// The fields that follow neither from the actions nor from the layout.
    #[serde(borrow, default)]
    pub fields: Members<'a>,
    /// The keys of the usage, if they differ from the layout.
    #[serde(borrow)]
    pub usage_keys: Option<Keys<'a>>,
    /// The fields of the usage that follow neither from the actions nor from the layout.
    #[serde(borrow, default)]
    pub usage: Members<'a>,
    /// The address of the instructions.
    #[serde(borrow)]
    pub instructions: Option<CowStr<'a>>,
    /// The locations of the parts, unless the parts are the actions in order.
    #[serde(borrow)]
    pub layout: Option<Vec<LayoutEntry<'a>>>,
    /// The JSON of the message as text, if it has numbers that tools change.
    #[serde(borrow)]
    pub exact: Option<CowStr<'a>>,
    /// The message verbatim, if it cannot be restored otherwise.
    #[serde(borrow)]
    pub raw: Option<&'a RawValue>,
}

/// The fields of an item that its content part does not hold.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ItemMetadata<'a> {
    /// The `kind`, unless the content part implies it.
    #[serde(borrow)]
    pub kind: Option<CowStr<'a>>,
    /// The keys, if they differ from the layout.
    #[serde(borrow)]
    pub keys: Option<Keys<'a>>,
    /// The fields that follow neither from the content part nor from the layout.
    #[serde(borrow, default)]
    pub part: Members<'a>,
    /// `standard` if the base64 is not in the URL-safe alphabet.
    #[serde(borrow)]
    pub alphabet: Option<CowStr<'a>>,
    /// The item verbatim, if it has no content part.
    #[serde(borrow)]
    pub raw: Option<&'a RawValue>,
}

/// The location of a part.
#[derive(Debug)]
pub(super) enum LayoutEntry<'a> {
    /// The action at this index of the message.
    Action(usize),
    /// A part of an action, or a part without an action.
    Other(Box<PieceMetadata<'a>>),
}

/// A part that is not an action of its own.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PieceMetadata<'a> {
    /// The index of its action.
    pub action: Option<usize>,
    /// The index of its content part, if the action has a list of them.
    pub item: Option<usize>,
    /// The `part_kind`, unless it is `text`.
    #[serde(borrow)]
    pub kind: Option<CowStr<'a>>,
    /// The metadata of a file.
    #[serde(borrow)]
    pub file: Option<ItemMetadata<'a>>,
    /// The number of characters between the previous part and this one.
    #[serde(default)]
    pub gap: usize,
    /// The number of characters.
    #[serde(default)]
    pub length: usize,
    /// The address of the text.
    #[serde(borrow)]
    pub text: Option<CowStr<'a>>,
    /// The keys, if they differ from the layout.
    #[serde(borrow)]
    pub keys: Option<Keys<'a>>,
    /// The fields that follow neither from the action nor from the layout.
    #[serde(borrow, default)]
    pub part: Members<'a>,
    /// The part verbatim.
    #[serde(borrow)]
    pub raw: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for LayoutEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartLocation;
        impl<'de> Visitor<'de> for PartLocation {
            type Value = LayoutEntry<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the index of an action, or an object")
            }

            fn visit_u64<E: serde::de::Error>(self, position: u64) -> Result<LayoutEntry<'de>, E> {
                usize::try_from(position).map(LayoutEntry::Action).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LayoutEntry<'de>, A::Error> {
                let map = serde::de::value::MapAccessDeserializer::new(map);
                PieceMetadata::deserialize(map).map(Box::new).map(LayoutEntry::Other)
            }
        }
        deserializer.deserialize_any(PartLocation)
    }
}

/// The initial capacity.
const MEMBERS: usize = 128;

/// Writes a JSON object member by member.
#[derive(Debug, Default)]
pub(super) struct ObjectWriter {
    out: Vec<u8>,
}

impl ObjectWriter {
    /// Creates a writer with capacity for this number of bytes and a few more.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { out: Vec::with_capacity(bytes + MEMBERS) }
    }

    /// Continues a value.
    pub(super) fn raw(&mut self, json: &str) {
        self.out.raw(json);
    }

    /// Starts a member; its value must follow.
    pub(super) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if self.out.is_empty() {
            self.out.reserve(MEMBERS);
        }
        self.out.push(if self.out.is_empty() { b'{' } else { b',' });
        self.out.string(key);
        self.out.raw(":");
        &mut self.out
    }

    /// Writes a string member.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.key(key).string(text);
    }

    /// Writes a JSON member.
    pub(super) fn json(&mut self, key: &str, json: &str) {
        self.key(key).raw(json);
    }

    /// Writes the members of a fragment; see [`Self::into_fragment`].
    pub(super) fn append(&mut self, fragment: &str) {
        if !fragment.is_empty() {
            self.out.push(if self.out.is_empty() { b'{' } else { b',' });
            self.out.raw(fragment);
        }
    }

    /// Writes the keys and members of a diff, unless they are empty.
    pub(super) fn write_diff(&mut self, diff: &ObjectDiff<'_, '_>, keys_name: &str, members_name: &str) {
        if let Some(keys) = &diff.keys {
            let out = self.key(keys_name);
            for (position, key) in keys.iter().enumerate() {
                out.raw(if position == 0 { "[" } else { "," });
                out.string(key);
            }
            out.raw(if keys.is_empty() { "[]" } else { "]" });
        }
        if diff.members.is_empty() {
            return;
        }
        let out = self.key(members_name);
        for (position, (key, value)) in diff.members.iter().enumerate() {
            out.raw(if position == 0 { "{" } else { "," });
            out.string(key);
            out.raw(":");
            write_value(out, value);
        }
        out.raw("}");
    }

    /// Returns the object.
    pub(super) fn finish(mut self) -> String {
        self.out.raw(if self.out.is_empty() { "{}" } else { "}" });
        String::from_utf8(self.out).unwrap_or_default()
    }

    /// Returns the object and starts a new one in the same memory.
    ///
    /// # Errors
    /// The text of a member is not valid JSON.
    pub(super) fn take(&mut self) -> Result<RawJson, serde_json::Error> {
        self.out.raw(if self.out.is_empty() { "{}" } else { "}" });
        // A copy has the exact size, which a value needs.
        let text = std::str::from_utf8(&self.out).unwrap_or_default().to_owned();
        self.out.clear();
        RawJson::from_text(text)
    }

    /// Returns the members without braces; empty if there are none.
    pub(super) fn into_fragment(mut self) -> String {
        if !self.out.is_empty() {
            self.out.remove(0);
        }
        String::from_utf8(self.out).unwrap_or_default()
    }

    /// True if no member was written.
    pub(super) const fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
}
