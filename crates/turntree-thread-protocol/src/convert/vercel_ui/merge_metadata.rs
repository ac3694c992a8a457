//! Deep merge of message metadata with the semantics of the client.

use turntree_core::json::{RawJson, RawObject};

/// Merges metadata as JavaScript spreads it. Objects are merged deeply. The elements of lists and strings are their
/// members. Names that change an object's prototype are left out.
pub(super) fn merge(old: &RawJson, new: &RawJson) -> Result<RawJson, String> {
    let mut merged = members_of(old);
    let added = members_of(new);
    let is_scalar = !old.is_object() && !old.is_array();
    for (key, value) in added.iter() {
        if matches!(key, "__proto__" | "constructor" | "prototype") {
            continue;
        }
        if is_scalar {
            return Err(format!(
                "the metadata is not an object, so member \"{key}\" cannot be merged into it; send objects only"
            ));
        }
        let value = match merged.get(key) {
            Some(before) if before.is_object() && value.is_object() => merge(before, value)?,
            _ => value.clone(),
        };
        merged.insert(key, value);
    }
    Ok(RawJson::from_value(&merged).unwrap_or_default())
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
