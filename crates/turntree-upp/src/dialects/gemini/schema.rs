//! Converts JSON Schemas into the subset that the vendor supports.
//!
//! The vendor's fields (`parametersJsonSchema`, `responseJsonSchema`) support `$defs`, `$ref`, `anyOf` and similar
//! keywords. Unsupported keywords are replaced or removed; everything else is unchanged.

use std::borrow::Cow;

use turntree_core::json::{RawJson, RawObject};

/// Schemas nested deeper are passed through unchanged.
const DEEPEST: u8 = 64;

/// A schema without these substrings needs no change.
const REFUSED: [&str; 6] =
    ["\"$schema\"", "\"const\"", "\"discriminator\"", "\"examples\"", "\"exclusiveM", "\"format\""];

/// The text formats that the vendor supports.
const TEXT_FORMATS: [&str; 4] = ["date-time", "date", "time", "enum"];

/// The schema in the supported subset; borrowed if nothing changes.
pub(super) fn accepted(schema: &RawJson) -> Cow<'_, RawJson> {
    if REFUSED.iter().any(|word| schema.get().contains(word)) {
        Cow::Owned(rewritten(schema, DEEPEST))
    } else {
        Cow::Borrowed(schema)
    }
}

fn rewritten(raw: &RawJson, depth: u8) -> RawJson {
    let (Some(schema), Some(depth)) = (RawObject::from_raw(raw), depth.checked_sub(1)) else {
        return raw.clone();
    };
    let mut accepted = RawObject::new();
    let mut notes = Vec::new();
    for (name, value) in schema.iter() {
        match name {
            "$schema" | "discriminator" | "examples" => {}
            "const" => accepted.insert("enum", list_of(value)),
            // The closest supported form: an exclusive bound as an inclusive one, and in the description.
            "exclusiveMinimum" => {
                notes.push(format!("Must be more than {value}."));
                accepted.insert("minimum", value.clone());
            }
            "exclusiveMaximum" => {
                notes.push(format!("Must be less than {value}."));
                accepted.insert("maximum", value.clone());
            }
            "format" if is_unknown_format(&schema, value) => {
                notes.push(format!("Format: {}.", value.as_string().unwrap_or_default()));
            }
            "properties" | "$defs" | "definitions" => accepted.insert(name, map_of_schemas(value, depth)),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                accepted.insert(name, list_of_schemas(value, depth));
            }
            "items" | "additionalProperties" | "not" => accepted.insert(name, rewritten(value, depth)),
            _ => accepted.insert(name, value.clone()),
        }
    }
    if !notes.is_empty() {
        let reported =
            schema.get("description").and_then(RawJson::as_string).filter(|reported| !reported.is_empty());
        let description: Vec<String> = reported.into_iter().chain(notes).collect();
        accepted.insert("description", RawJson::from_str_value(&description.join(" ")));
    }
    RawJson::from_value(&accepted).unwrap_or_else(|_| raw.clone())
}

fn is_unknown_format(schema: &RawObject, format: &RawJson) -> bool {
    let is_text = schema.get("type").and_then(RawJson::as_string).is_none_or(|kind| kind == "string");
    is_text && format.as_string().is_some_and(|format| !TEXT_FORMATS.contains(&format.as_str()))
}

fn list_of(value: &RawJson) -> RawJson {
    RawJson::from_value(std::slice::from_ref(value)).unwrap_or_default()
}

fn map_of_schemas(raw: &RawJson, depth: u8) -> RawJson {
    let Some(schemas) = RawObject::from_raw(raw) else { return raw.clone() };
    let accepted: RawObject = schemas.iter().map(|(name, schema)| (name, rewritten(schema, depth))).collect();
    RawJson::from_value(&accepted).unwrap_or_else(|_| raw.clone())
}

fn list_of_schemas(raw: &RawJson, depth: u8) -> RawJson {
    let Ok(schemas) = raw.to::<Vec<RawJson>>() else { return raw.clone() };
    let accepted: Vec<RawJson> = schemas.iter().map(|schema| rewritten(schema, depth)).collect();
    RawJson::from_value(&accepted).unwrap_or_else(|_| raw.clone())
}
