//! `metadata.pydantic_ai`: how the facts that no core action has are written and read. Decision 2.
//!
//! ```text
//! thread  {"profile":"2.68","templates":{class:{key:default}},"instructions":address,"args":"text","texts":{},"configs":{}}
//! action  {"message":{"index","kind","keys"?,"fields"?,"usage_keys"?,"usage"?,"instructions"?,"layout"?,"raw"?}, …}  first of a message
//!         {"m":index, …}                                                                                      later ones
//!         …: "kind"? (part_kind, where the action's type does not say it), "keys"?, "part"? (members), "args"?, "items"?
//! layout  one entry a part: place of its action, or {"action","item"?,"gap"?,"length",…} for a piece of a joined text,
//!         {"action","item","kind":"file","file"?,…} for a file beside texts, {"text":address,…} for a system prompt, {"raw":part} for a part without an action
//! items   one entry a content item: null, {"kind"?,"keys"?,"part"?,"alphabet"?}, or {"raw":item}
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::field_layout::{MOST_MEMBERS, ObjectDiff};
use super::write::{Sink, write_value};
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

/// What an action says about its Pydantic AI part, and the first of a message about the message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ActionMetadata<'a> {
    /// The message that begins here.
    #[serde(borrow)]
    pub message: Option<MessageMetadata<'a>>,
    /// The index of the message that goes on here.
    pub m: Option<u64>,
    /// Its `part_kind`, where the action does not say it.
    #[serde(borrow)]
    pub kind: Option<CowStr<'a>>,
    /// Its keys, where the template's do not fit.
    #[serde(borrow)]
    pub keys: Option<Keys<'a>>,
    /// Its members that follow from nothing else.
    #[serde(borrow, default)]
    pub part: Members<'a>,
    /// Whether its arguments are `text` (a string of JSON) or `json`.
    #[serde(borrow)]
    pub args: Option<CowStr<'a>>,
    /// What content parts do not say about the items they were.
    #[serde(borrow)]
    pub items: Option<Vec<Option<ItemMetadata<'a>>>>,
}

/// What no action says about a message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MessageMetadata<'a> {
    /// Its place in the history.
    #[serde(default)]
    pub index: u64,
    /// `request` or `response`.
    #[serde(borrow)]
    pub kind: Option<CowStr<'a>>,
    /// Its keys, where the template's do not fit.
    #[serde(borrow)]
    pub keys: Option<Keys<'a>>,
    /// Its members that follow from nothing else.
    #[serde(borrow, default)]
    pub fields: Members<'a>,
    /// The keys of its usage, where the template's do not fit.
    #[serde(borrow)]
    pub usage_keys: Option<Keys<'a>>,
    /// The members of its usage that follow from nothing else.
    #[serde(borrow, default)]
    pub usage: Members<'a>,
    /// The address of its instructions.
    #[serde(borrow)]
    pub instructions: Option<CowStr<'a>>,
    /// Its parts, where they are not its actions in order.
    #[serde(borrow)]
    pub layout: Option<Vec<LayoutEntry<'a>>>,
    /// The whole message, where nothing else gives its bytes.
    #[serde(borrow)]
    pub raw: Option<&'a RawValue>,
}

/// What a content part does not say about its item.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ItemMetadata<'a> {
    /// Its `kind`, where the content part does not say it.
    #[serde(borrow)]
    pub kind: Option<CowStr<'a>>,
    /// Its keys, where the template's do not fit.
    #[serde(borrow)]
    pub keys: Option<Keys<'a>>,
    /// Its members that follow from nothing else.
    #[serde(borrow, default)]
    pub part: Members<'a>,
    /// `standard` where its base64 is not in the URL-safe alphabet.
    #[serde(borrow)]
    pub alphabet: Option<CowStr<'a>>,
    /// The whole item: it has no content part.
    #[serde(borrow)]
    pub raw: Option<&'a RawValue>,
}

/// Where a part is.
#[derive(Debug)]
pub(super) enum LayoutEntry<'a> {
    /// It is the action at this place of the message.
    Action(usize),
    /// It is a piece of an action, or has none.
    Other(Box<PieceMetadata<'a>>),
}

/// A part that is not an action of its own.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PieceMetadata<'a> {
    /// The place of the action it is a piece of.
    pub action: Option<usize>,
    /// The place of the content part it is a piece of, where the action has a list of them.
    pub item: Option<usize>,
    /// Its `part_kind`, where it is no text.
    #[serde(borrow)]
    pub kind: Option<CowStr<'a>>,
    /// What the content part of a file does not say.
    #[serde(borrow)]
    pub file: Option<ItemMetadata<'a>>,
    /// Characters between the piece before and this one.
    #[serde(default)]
    pub gap: usize,
    /// Characters of the piece.
    #[serde(default)]
    pub length: usize,
    /// The address of its text.
    #[serde(borrow)]
    pub text: Option<CowStr<'a>>,
    /// Its keys, where the template's do not fit.
    #[serde(borrow)]
    pub keys: Option<Keys<'a>>,
    /// Its members that follow from nothing else.
    #[serde(borrow, default)]
    pub part: Members<'a>,
    /// The whole part.
    #[serde(borrow)]
    pub raw: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for LayoutEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartLocation;
        impl<'de> Visitor<'de> for PartLocation {
            type Value = LayoutEntry<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the place of an action or an object")
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

/// Room for a few members at once.
const MEMBERS: usize = 128;

/// Writes an object member by member.
#[derive(Debug, Default)]
pub(super) struct ObjectWriter {
    out: Vec<u8>,
}

impl ObjectWriter {
    /// With room for so many bytes and a few more.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { out: Vec::with_capacity(bytes + MEMBERS) }
    }

    /// Goes on with a value that was begun.
    pub(super) fn raw(&mut self, json: &str) {
        self.out.raw(json);
    }

    /// Begins a member; its value must follow.
    pub(super) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if self.out.is_empty() {
            self.out.reserve(MEMBERS);
        }
        self.out.push(if self.out.is_empty() { b'{' } else { b',' });
        self.out.string(key);
        self.out.raw(":");
        &mut self.out
    }

    /// A string.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.key(key).string(text);
    }

    /// JSON.
    pub(super) fn json(&mut self, key: &str, json: &str) {
        self.key(key).raw(json);
    }

    /// The members that `fragment` holds; see [`Self::into_fragment`].
    pub(super) fn append(&mut self, fragment: &str) {
        if !fragment.is_empty() {
            self.out.push(if self.out.is_empty() { b'{' } else { b',' });
            self.out.raw(fragment);
        }
    }

    /// The keys and members of a residue, each where there are some.
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

    /// The object.
    pub(super) fn finish(mut self) -> String {
        self.out.raw(if self.out.is_empty() { "{}" } else { "}" });
        String::from_utf8(self.out).unwrap_or_default()
    }

    /// The members without their braces; empty when there are none.
    pub(super) fn into_fragment(mut self) -> String {
        if !self.out.is_empty() {
            self.out.remove(0);
        }
        String::from_utf8(self.out).unwrap_or_default()
    }

    /// Whether nothing was written.
    pub(super) const fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
}
