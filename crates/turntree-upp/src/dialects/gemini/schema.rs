//! JSON Schema as the vendor takes it.
//!
//! Its fields for JSON Schema (`parametersJsonSchema`, `responseJsonSchema`) know `$defs`, `$ref`, `anyOf` and the like;
//! what they refuse is said in other words or left out, everything else stays as it was written.

use std::borrow::Cow;

use turntree_core::json::{RawJson, RawObject};

/// Schemas nested deeper are passed on as they are.
const DEEPEST: u8 = 64;

/// What a schema must hold to need any change.
const REFUSED: [&str; 6] =
    ["\"$schema\"", "\"const\"", "\"discriminator\"", "\"examples\"", "\"exclusiveM", "\"format\""];

/// The formats of texts that the vendor knows.
const TEXT_FORMATS: [&str; 4] = ["date-time", "date", "time", "enum"];

/// The schema as the vendor takes it; itself where nothing is to be changed.
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
            // The closest it knows: an open bound said as a closed one, and in words.
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
        let told = schema.get("description").and_then(RawJson::as_string).filter(|told| !told.is_empty());
        let description: Vec<String> = told.into_iter().chain(notes).collect();
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
