//! Reads output of a schema in which every member is required: null stands for a member that was left out.

use super::close::types_of;
use super::fold::{definition_name, definitions_of};
use turntree_core::json::{RawJson, RawObject};

/// Output nested deeper is unchanged.
const DEEPEST: u8 = 64;

/// The output without the members that are null where the schema has an optional member that cannot be null; `None` if
/// nothing changes. The type of the output then fills in its defaults.
///
/// ```
/// use turntree_core::json::RawJson;
/// use turntree_upp::structured_output::without_placeholders;
///
/// let raw = |text: &str| RawJson::from_text(text.to_owned());
/// let schema = raw(r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":["string","null"]}}}"#)?;
/// let read = without_placeholders(&schema, &raw(r#"{"a":null,"b":null}"#)?).unwrap();
/// assert_eq!(read.get(), r#"{"b":null}"#);
/// # Ok::<_, serde_json::Error>(())
/// ```
pub fn without_placeholders(schema: &RawJson, output: &RawJson) -> Option<RawJson> {
    if !output.get().contains("null") {
        return None;
    }
    let root = RawObject::from_raw(schema)?;
    Reader { definitions: definitions_of(&root) }.value(&root, output, DEEPEST)
}

struct Reader {
    definitions: RawObject,
}

impl Reader {
    /// The changed value; `None` if it stays as it is.
    fn value(&self, schema: &RawObject, value: &RawJson, depth: u8) -> Option<RawJson> {
        let depth = depth.checked_sub(1)?;
        if !value.get().contains("null") || !(value.is_object() || value.is_array()) {
            return None;
        }
        let schema = self.resolved(schema);
        for name in ["allOf", "anyOf", "oneOf"] {
            let kinds: Vec<RawJson> = schema.get(name).and_then(|kinds| kinds.to().ok()).unwrap_or_default();
            let kinds = kinds.iter().filter_map(RawObject::from_raw).map(|kind| self.resolved(&kind));
            for kind in kinds {
                let is_nested = ["allOf", "anyOf", "oneOf"].iter().any(|name| kind.get(name).is_some());
                if !is_nested && !self.fits(&kind, value) {
                    continue;
                }
                let changed = self.value(&kind, value, depth);
                if changed.is_some() {
                    return changed;
                }
            }
        }
        if value.is_array() { self.list(&schema, value, depth) } else { self.object(&schema, value, depth) }
    }

    fn list(&self, schema: &RawObject, value: &RawJson, depth: u8) -> Option<RawJson> {
        let mut items: Vec<RawJson> = value.to().ok()?;
        let every = schema.get("items").and_then(RawObject::from_raw);
        let first: Vec<RawJson> =
            schema.get("prefixItems").and_then(|parts| parts.to().ok()).unwrap_or_default();
        let mut is_changed = false;
        for (place, item) in items.iter_mut().enumerate() {
            let own = first.get(place).and_then(RawObject::from_raw);
            let Some(schema) = own.as_ref().or(every.as_ref()) else { continue };
            if let Some(changed) = self.value(schema, item, depth) {
                *item = changed;
                is_changed = true;
            }
        }
        is_changed.then(|| RawJson::from_value(&items).ok()).flatten()
    }

    fn object(&self, schema: &RawObject, value: &RawJson, depth: u8) -> Option<RawJson> {
        let members = schema.get("properties").and_then(RawObject::from_raw)?;
        let required: Vec<String> =
            schema.get("required").and_then(|names| names.to().ok()).unwrap_or_default();
        let given = RawObject::from_raw(value)?;
        let (mut read, mut is_changed) = (RawObject::new(), false);
        for (name, member) in given.iter() {
            let schema = members.get(name).and_then(RawObject::from_raw);
            let is_optional = schema.is_some() && !required.iter().any(|known| known == name);
            if member.is_null() && is_optional && !self.allows_null(schema.as_ref(), depth) {
                is_changed = true;
                continue;
            }
            let changed = schema.and_then(|schema| self.value(&schema, member, depth));
            is_changed |= changed.is_some();
            read.insert(name, changed.unwrap_or_else(|| member.clone()));
        }
        is_changed.then(|| RawJson::from_value(&read).ok()).flatten()
    }

    fn resolved(&self, schema: &RawObject) -> RawObject {
        let reference = schema.get("$ref").and_then(RawJson::as_string);
        let name = reference.as_deref().and_then(definition_name);
        name.and_then(|name| RawObject::from_raw(self.definitions.get(&name)?))
            .unwrap_or_else(|| schema.clone())
    }

    /// True if a value can be of this type of a union: all of its members are known, and constants are equal.
    fn fits(&self, schema: &RawObject, value: &RawJson) -> bool {
        let types = types_of(schema);
        let has = |kind: &str| types.iter().any(|name| name == kind);
        if value.is_array() {
            return has("array");
        }
        let members = schema.get("properties").and_then(RawObject::from_raw);
        let (Some(members), Some(given)) = (members, RawObject::from_raw(value)) else {
            return has("object");
        };
        given.iter().all(|(name, value)| {
            let Some(schema) = members.get(name).and_then(RawObject::from_raw) else { return false };
            let schema = self.resolved(&schema);
            let is_constant = schema.get("const").is_none_or(|constant| constant == value);
            let listed: Option<Vec<RawJson>> = schema.get("enum").and_then(|values| values.to().ok());
            is_constant && listed.is_none_or(|listed| value.is_null() || listed.contains(value))
        })
    }

    fn allows_null(&self, schema: Option<&RawObject>, depth: u8) -> bool {
        let (Some(schema), Some(depth)) = (schema, depth.checked_sub(1)) else { return true };
        let schema = self.resolved(schema);
        if let Some(constant) = schema.get("const") {
            return constant.is_null();
        }
        if let Some(listed) = schema.get("enum").and_then(|values| values.to::<Vec<RawJson>>().ok()) {
            return listed.iter().any(RawJson::is_null);
        }
        let mut is_limited = false;
        for name in ["anyOf", "oneOf", "allOf"] {
            let Some(kinds) = schema.get(name).and_then(|kinds| kinds.to::<Vec<RawJson>>().ok()) else {
                continue;
            };
            is_limited = true;
            if kinds.iter().any(|kind| self.allows_null(RawObject::from_raw(kind).as_ref(), depth)) {
                return true;
            }
        }
        let types = types_of(&schema);
        types.iter().any(|kind| kind == "null")
            || (types.is_empty() && !is_limited && schema.get("properties").is_none())
    }
}
