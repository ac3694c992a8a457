//! Deep merge of message metadata with the semantics of the client.

use std::collections::HashMap;

use turntree_core::intern::InternedStr;
use turntree_core::json::{RawJson, RawObject};

/// Metadata that later chunks are merged into. A merge costs the size of the chunk, not of the metadata.
#[derive(Debug, Clone, Default)]
pub(super) struct MergedMetadata {
    root: Option<Member>,
    /// The objects that a chunk was merged into.
    objects: Vec<Members>,
}

#[derive(Debug, Clone)]
enum Member {
    Value(RawJson),
    /// The index of an object.
    Object(usize),
}

/// The members of an object in order, with the position of each key.
#[derive(Debug, Clone, Default)]
struct Members {
    list: Vec<(InternedStr, Member)>,
    positions: HashMap<InternedStr, usize>,
}

impl Members {
    fn of(object: &RawObject) -> Self {
        let list: Vec<(InternedStr, Member)> =
            object.iter().map(|(key, value)| (key.into(), Member::Value(value.clone()))).collect();
        let positions = list.iter().enumerate().map(|(position, (key, _))| (key.clone(), position)).collect();
        Self { list, positions }
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Member> {
        let position = *self.positions.get(key)?;
        self.list.get_mut(position).map(|(_, member)| member)
    }

    fn add(&mut self, key: &str, value: RawJson) {
        let key = InternedStr::from(key);
        self.positions.insert(key.clone(), self.list.len());
        self.list.push((key, Member::Value(value)));
    }
}

impl MergedMetadata {
    pub(super) fn new(value: Option<RawJson>) -> Self {
        Self { root: value.map(Member::Value), objects: Vec::new() }
    }

    /// Merges metadata as JavaScript spreads it. Objects are merged deeply. The elements of lists and strings are their
    /// members. Names that change an object's prototype are left out.
    pub(super) fn merge(&mut self, new: &RawJson) -> Result<(), String> {
        let root = match &self.root {
            None => return self.set(new),
            Some(Member::Value(old)) if old.is_null() => return self.set(new),
            Some(Member::Value(old)) => {
                let is_scalar = !old.is_object() && !old.is_array();
                if is_scalar && let Some((key, _)) = members_of(new).iter().find(|(key, _)| is_merged(key)) {
                    return Err(format!(
                        "the metadata is not an object, so member \"{key}\" cannot be merged into it; send objects only"
                    ));
                }
                let root = self.objects.len();
                self.objects.push(Members::of(&members_of(old)));
                self.root = Some(Member::Object(root));
                root
            }
            Some(Member::Object(root)) => *root,
        };
        let mut waiting = vec![(root, members_of(new))];
        while let Some((target, added)) = waiting.pop() {
            for (key, value) in added.iter().filter(|(key, _)| is_merged(key)) {
                if let Some(inner) = self.merge_member(target, key, value) {
                    waiting.push((inner, members_of(value)));
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the result of a merge")]
    fn set(&mut self, value: &RawJson) -> Result<(), String> {
        self.root = Some(Member::Value(value.clone()));
        Ok(())
    }

    /// Sets a member of an object. If both the old and the new value are objects, returns the index of the old one
    /// instead, which the new one must be merged into.
    fn merge_member(&mut self, target: usize, key: &str, value: &RawJson) -> Option<usize> {
        let next = self.objects.len();
        let members = self.objects.get_mut(target)?;
        let Some(member) = members.get_mut(key) else {
            members.add(key, value.clone());
            return None;
        };
        match member {
            Member::Object(inner) if value.is_object() => return Some(*inner),
            Member::Value(old) if old.is_object() && value.is_object() => {
                let inner = Members::of(&members_of(old));
                *member = Member::Object(next);
                self.objects.push(inner);
                return Some(next);
            }
            Member::Object(_) | Member::Value(_) => *member = Member::Value(value.clone()),
        }
        None
    }

    /// The merged value; `None` without metadata.
    pub(super) fn value(&self) -> Option<RawJson> {
        let root = match self.root.as_ref()? {
            Member::Value(value) => return Some(value.clone()),
            Member::Object(root) => *root,
        };
        let mut text = String::from("{");
        // The open objects, each with the position of its next member.
        let mut open = vec![(root, 0_usize)];
        while let Some((object, next)) = open.last_mut() {
            let Some((key, member)) = self.objects.get(*object).and_then(|members| members.list.get(*next))
            else {
                text.push('}');
                open.pop();
                continue;
            };
            if *next > 0 {
                text.push(',');
            }
            *next += 1;
            text.push_str(RawJson::from_str_value(key).get());
            text.push(':');
            match member {
                Member::Value(value) => text.push_str(value.get()),
                Member::Object(inner) => {
                    text.push('{');
                    open.push((*inner, 0));
                }
            }
        }
        RawJson::from_text(text).ok()
    }
}

fn is_merged(key: &str) -> bool {
    !matches!(key, "__proto__" | "constructor" | "prototype")
}

/// The members of a value in JavaScript.
fn members_of(value: &RawJson) -> RawObject {
    if let Some(object) = RawObject::from_raw(value) {
        return object;
    }
    let elements: Vec<RawJson> = match value.as_string() {
        Some(text) => {
            // JavaScript splits surrogate pairs into halves, which Rust strings cannot hold.
            let unit = |unit| char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
            let units = text.encode_utf16().map(unit);
            units.map(|unit| RawJson::from_str_value(unit.encode_utf8(&mut [0; 4]))).collect()
        }
        None => value.to().unwrap_or_default(),
    };
    elements.into_iter().enumerate().map(|(index, element)| (index.to_string(), element)).collect()
}
