//! Combines schemas that apply to one value: `allOf`, and `$ref` with members beside it.

use turntree_core::json::{RawJson, RawObject};

/// The name of the definition that a reference names: `#/$defs/City` or `#/definitions/City`.
pub(super) fn definition_name(reference: &str) -> Option<String> {
    let name = reference.strip_prefix("#/$defs/").or_else(|| reference.strip_prefix("#/definitions/"))?;
    (!name.contains('/')).then(|| name.replace("~1", "/").replace("~0", "~"))
}

/// The definitions of a schema, under either of their names.
pub(super) fn definitions_of(schema: &RawObject) -> RawObject {
    let mut all = RawObject::new();
    for name in ["definitions", "$defs"] {
        for (name, definition) in schema.get(name).and_then(RawObject::from_raw).unwrap_or_default().iter() {
            all.insert(name, definition.clone());
        }
    }
    all
}

/// One schema for both: members of objects are joined, of other members those of `added` win.
pub(super) fn folded(base: &RawObject, added: &RawObject) -> RawObject {
    let mut both = base.clone();
    for (name, value) in added.iter() {
        let joined = match (name, both.get(name)) {
            ("properties", Some(known)) => joined_members(known, value),
            ("required", Some(known)) => joined_names(known, value),
            _ => None,
        };
        both.insert(name, joined.unwrap_or_else(|| value.clone()));
    }
    both
}

fn joined_members(first: &RawJson, second: &RawJson) -> Option<RawJson> {
    let (mut members, added) = (RawObject::from_raw(first)?, RawObject::from_raw(second)?);
    for (name, value) in added.iter() {
        members.insert(name, value.clone());
    }
    RawJson::from_value(&members).ok()
}

fn joined_names(first: &RawJson, second: &RawJson) -> Option<RawJson> {
    let mut names: Vec<String> = first.to().ok()?;
    names.extend(second.to::<Vec<String>>().ok()?);
    names.dedup();
    RawJson::from_value(&names).ok()
}
