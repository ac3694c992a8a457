//! Writes a JSON Schema in the form that a vendor enforces.
//!
//! The output describes the same values, with two exceptions: a member that the vendor requires and the schema does not
//! may be null, and constraints that the vendor does not know are part of the description.

use std::fmt;

use super::fold::{definition_name, definitions_of, folded};
use super::rules::SchemaRules;
use turntree_core::json::{RawJson, RawObject};

/// Schemas nested deeper are not enforced. Vendors allow about ten levels.
const DEEPEST: usize = 64;

/// Members that say nothing about the value.
const NOTES: [&str; 9] = [
    "$schema",
    "$id",
    "$comment",
    "$anchor",
    "default",
    "discriminator",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// Members whose presence makes any member of an object possible.
const OPENING: [&str; 2] = ["patternProperties", "propertyNames"];

/// Why a schema cannot be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSchema {
    /// JSON Pointer to the part of the schema.
    pub pointer: String,
    /// The reason.
    pub reason: &'static str,
}

impl fmt::Display for OpenSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the schema" } else { &self.pointer };
        write!(formatter, "{place} {}", self.reason)
    }
}

type Closed<T> = Result<T, OpenSchema>;

/// The schema in the form that the vendor enforces.
///
/// ```
/// use turntree_core::json::RawJson;
/// use turntree_upp::structured_output::{SchemaRules, closed};
///
/// let text = r#"{"type":"object","properties":{"name":{"type":"string"},"note":{"type":"string","default":""}},"required":["name"]}"#;
/// let schema = closed(&RawJson::from_text(text.to_owned())?, &SchemaRules::OPENAI).unwrap();
/// assert!(schema.get().contains(r#""required":["name","note"],"additionalProperties":false"#));
/// # Ok::<_, serde_json::Error>(())
/// ```
///
/// # Errors
/// [`OpenSchema`] for a schema that allows members without a name, such as the schema of a `dict`, or any value.
pub fn closed(schema: &RawJson, rules: &SchemaRules) -> Result<RawJson, OpenSchema> {
    let Some(root) = RawObject::from_raw(schema) else {
        return Err(OpenSchema { pointer: String::new(), reason: "is not an object" });
    };
    let mut closer = Closer {
        rules,
        definitions: definitions_of(&root),
        inlined: Vec::new(),
        path: Vec::new(),
        uses: Vec::new(),
    };
    if !is_object(&root) {
        return Err(closer.open("does not describe an object"));
    }
    let mut closed = closer.object_form(&root)?;
    let names: Vec<String> = closer.definitions.iter().map(|(name, _)| name.to_owned()).collect();
    let (mut definitions, mut edges) = (RawObject::new(), Vec::new());
    for name in names {
        let Some(definition) = closer.definitions.get(&name).cloned() else { continue };
        closer.uses.clear();
        let schema = closer.at(&["$defs", &name], |closer| closer.value(&definition))?;
        definitions.insert(name.as_str(), schema);
        edges.push((name, std::mem::take(&mut closer.uses)));
    }
    if !rules.recursive && (has_cycle(edges) || schema.get().contains("\"$ref\":\"#\"")) {
        return Err(closer.open("contains itself"));
    }
    if !definitions.is_empty() {
        closed.insert("$defs", json(&definitions));
    }
    Ok(json(&closed))
}

/// True if definitions use each other in a circle.
fn has_cycle(mut edges: Vec<(String, Vec<String>)>) -> bool {
    loop {
        let known: Vec<String> = edges.iter().map(|(name, _)| name.clone()).collect();
        let before = edges.len();
        edges.retain(|(_, uses)| uses.iter().any(|used| known.contains(used)));
        if edges.is_empty() {
            return false;
        }
        if edges.len() == before {
            return true;
        }
    }
}

struct Closer<'a> {
    rules: &'a SchemaRules,
    definitions: RawObject,
    /// The definitions around the current place that were written in place of a reference.
    inlined: Vec<String>,
    path: Vec<String>,
    /// The definitions that the current one refers to.
    uses: Vec<String>,
}

impl Closer<'_> {
    fn open(&self, reason: &'static str) -> OpenSchema {
        let pointer = self.path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1")));
        OpenSchema { pointer: pointer.collect(), reason }
    }

    /// Runs a step with names added to the path.
    fn at<T>(&mut self, names: &[&str], step: impl FnOnce(&mut Self) -> Closed<T>) -> Closed<T> {
        let depth = self.path.len();
        if depth > DEEPEST {
            return Err(self.open("is nested too deeply"));
        }
        self.path.extend(names.iter().map(|name| (*name).to_owned()));
        let result = step(self)?;
        self.path.truncate(depth);
        Ok(result)
    }

    /// Closes the schema of any value.
    fn value(&mut self, raw: &RawJson) -> Closed<RawJson> {
        let Some(schema) = RawObject::from_raw(raw) else { return Err(self.open("allows any value")) };
        self.value_form(&schema).map(|closed| json(&closed))
    }

    fn value_form(&mut self, schema: &RawObject) -> Closed<RawObject> {
        if schema.get("$ref").is_some() {
            return self.reference(schema);
        }
        if let Some(parts) = schema.get("allOf") {
            let parts: Vec<RawJson> = parts.to().unwrap_or_default();
            let whole = self.combined(schema, &parts)?;
            return self.at(&["allOf"], |closer| closer.value_form(&whole));
        }
        if is_object(schema) {
            return self.object_form(schema);
        }
        let types = types_of(schema);
        if types.iter().any(|kind| kind == "object") {
            return Err(self.open("allows members without a name"));
        }
        if let Some(name) = ["anyOf", "oneOf"].into_iter().find(|name| schema.get(name).is_some()) {
            return self.union(schema, name);
        }
        let has_values = schema.get("enum").is_some() || schema.get("const").is_some();
        if types.is_empty() && !has_values {
            return Err(self.open("allows any value"));
        }
        let mut closed = self.constraints(schema, &["type", "enum", "const", "items", "prefixItems"]);
        if types.is_empty() {
            closed.insert("type", value_types(schema));
        } else if let Some(kind) = schema.get("type") {
            closed.insert("type", kind.clone());
        }
        for name in ["enum", "const"] {
            if let Some(values) = schema.get(name) {
                closed.insert(name, values.clone());
            }
        }
        if types.iter().any(|kind| kind == "array") && !has_values {
            closed.insert("items", self.items(schema)?);
        }
        Ok(closed)
    }

    /// The schema of the items of a list. Items with schemas of their own become a union.
    fn items(&mut self, schema: &RawObject) -> Closed<RawJson> {
        let single = schema.get("items").filter(|items| items.is_object());
        let Some(parts) = schema.get("prefixItems").and_then(|parts| parts.to::<Vec<RawJson>>().ok()) else {
            let Some(single) = single else { return Err(self.open("is a list of any values")) };
            return self.at(&["items"], |closer| closer.value(single));
        };
        let mut kinds: Vec<RawJson> = Vec::new();
        for (place, part) in parts.iter().chain(single).enumerate() {
            let kind = self.at(&["prefixItems", &place.to_string()], |closer| closer.value(part))?;
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        match (kinds.len(), kinds.pop()) {
            (_, None) => Err(self.open("is a list of any values")),
            (1, Some(only)) => Ok(only),
            (_, Some(last)) => {
                kinds.push(last);
                Ok(json(&RawObject::from_iter([("anyOf", json(&kinds))])))
            }
        }
    }

    fn union(&mut self, schema: &RawObject, name: &'static str) -> Closed<RawObject> {
        let kinds: Vec<RawJson> = schema.get(name).and_then(|kinds| kinds.to().ok()).unwrap_or_default();
        let mut closed = self.constraints(schema, &["anyOf", "oneOf", "type"]);
        let mut accepted = Vec::with_capacity(kinds.len());
        for (place, kind) in kinds.iter().enumerate() {
            accepted.push(self.at(&[name, &place.to_string()], |closer| closer.value(kind))?);
        }
        closed.insert("anyOf", json(&accepted));
        Ok(closed)
    }

    /// A reference. With members beside it, the definition is written in its place, since vendors refuse both together.
    fn reference(&mut self, schema: &RawObject) -> Closed<RawObject> {
        let reference = schema.get("$ref").and_then(RawJson::as_string).unwrap_or_default();
        let mut beside = schema.clone();
        beside.remove("$ref");
        beside.retain(|name| name != "title" && !NOTES.contains(&name));
        if reference == "#" && self.rules.recursive {
            return Ok(pointing(&reference));
        }
        let named = definition_name(&reference)
            .and_then(|name| Some((RawObject::from_raw(self.definitions.get(&name)?)?, name)));
        let Some((definition, name)) = named else { return Err(self.open("refers to another document")) };
        let target = format!("#/$defs/{}", name.replace('~', "~0").replace('/', "~1"));
        if beside.is_empty() {
            self.uses.push(name);
            return Ok(pointing(&target));
        }
        if self.inlined.contains(&name) || self.path.len() > DEEPEST {
            self.uses.push(name);
            let mut closed = self.constraints(&beside, &[]);
            closed.insert("anyOf", json(&[pointing(&target)]));
            return Ok(closed);
        }
        self.inlined.push(name);
        let closed = self.value_form(&folded(&definition, &beside));
        self.inlined.pop();
        closed
    }

    /// One schema for the parts of an `allOf` and the members beside it.
    fn combined(&self, schema: &RawObject, parts: &[RawJson]) -> Closed<RawObject> {
        let mut beside = schema.clone();
        beside.remove("allOf");
        let mut whole = RawObject::new();
        for part in parts {
            let Some(part) = RawObject::from_raw(part) else { return Err(self.open("allows any value")) };
            let named = part.get("$ref").and_then(RawJson::as_string).and_then(|name| definition_name(&name));
            let part = match named.and_then(|name| self.definitions.get(&name)) {
                Some(definition) if parts.len() > 1 => RawObject::from_raw(definition),
                _ => Some(part),
            };
            let Some(part) = part else { return Err(self.open("allows any value")) };
            if parts.len() > 1 && !is_object(&part) {
                return Err(self.open("combines types that are not objects"));
            }
            whole = folded(&whole, &part);
        }
        Ok(folded(&whole, &beside))
    }

    fn object_form(&mut self, schema: &RawObject) -> Closed<RawObject> {
        let is_open = |extra: &RawJson| extra.get() != "false";
        let opens = |name: &&str| schema.get(name).is_some();
        if schema.get("additionalProperties").is_some_and(is_open)
            || schema.get("unevaluatedProperties").is_some_and(is_open)
            || OPENING.iter().any(opens)
            || (schema.get("properties").is_none() && schema.get("additionalProperties").is_none())
        {
            return Err(self.open("allows members without a name"));
        }
        let members = schema.get("properties").and_then(RawObject::from_raw).unwrap_or_default();
        let required: Vec<String> =
            schema.get("required").and_then(|names| names.to().ok()).unwrap_or_default();
        let mut properties = RawObject::new();
        for (name, member) in members.iter() {
            let is_optional = self.rules.requires_all && !required.iter().any(|known| known == name);
            let closed = self.at(&["properties", name], |closer| {
                let Some(schema) = RawObject::from_raw(member) else {
                    return Err(closer.open("allows any value"));
                };
                let closed = closer.value_form(&schema)?;
                Ok(if is_optional { or_null(closed, schema.get("default")) } else { closed })
            })?;
            properties.insert(name, json(&closed));
        }
        let names: Vec<&str> = if self.rules.requires_all {
            members.iter().map(|(name, _)| name).collect()
        } else {
            required.iter().map(String::as_str).collect()
        };
        let owned = ["type", "properties", "required", "additionalProperties", "unevaluatedProperties"];
        let mut closed = self.constraints(schema, &owned);
        let is_nullable = types_of(schema).iter().any(|kind| kind == "null");
        let kind = if is_nullable { json(&["object", "null"]) } else { RawJson::from_str_value("object") };
        closed.insert("type", kind);
        closed.insert("properties", json(&properties));
        closed.insert("required", json(&names));
        closed.insert("additionalProperties", json(&false));
        Ok(closed)
    }

    /// The members of a schema that are sent as they are. Constraints that the vendor does not know are added to the
    /// description.
    fn constraints(&self, schema: &RawObject, owned: &[&str]) -> RawObject {
        let mut kept = RawObject::new();
        let mut notes: Vec<String> = Vec::new();
        for (name, value) in schema.iter() {
            match name {
                "title" => kept.insert(name, value.clone()),
                "description" | "$defs" | "definitions" => {}
                _ if owned.contains(&name) || NOTES.contains(&name) => {}
                _ if self.enforces(name, value) => kept.insert(name, value.clone()),
                _ => notes.push(format!("{name}: {value}")),
            }
        }
        let description = schema.get("description").and_then(RawJson::as_string).unwrap_or_default();
        let notes = notes.join(", ");
        let text = match (description.is_empty(), notes.is_empty()) {
            (true, true) => return kept,
            (false, true) => description,
            (true, false) => notes,
            (false, false) => format!("{description} ({notes})"),
        };
        kept.insert("description", RawJson::from_str_value(&text));
        kept
    }

    fn enforces(&self, name: &str, value: &RawJson) -> bool {
        if !self.rules.constraints.contains(&name) {
            return false;
        }
        match name {
            "format" => value.as_string().is_some_and(|format| self.rules.formats.contains(&format.as_str())),
            // Lookaround is refused, for example that of decimal numbers.
            "pattern" => !value.get().contains("(?"),
            "minItems" => {
                let largest = self.rules.max_min_items.unwrap_or(u64::MAX);
                value.to::<u64>().is_ok_and(|count| count <= largest)
            }
            _ => true,
        }
    }
}

/// A schema that also allows null, for a member that may be left out.
fn or_null(mut schema: RawObject, default: Option<&RawJson>) -> RawObject {
    let null: RawObject = [("type", RawJson::from_str_value("null"))].into_iter().collect();
    if allows_null(&schema) {
        return schema;
    }
    let description = schema.remove("description").and_then(|text| text.as_string());
    let default = default.map(|default| format!("null: the default, {default}"));
    let mut nullable = RawObject::new();
    match (description, default) {
        (None, None) => {}
        (Some(text), None) | (None, Some(text)) => {
            nullable.insert("description", RawJson::from_str_value(&text));
        }
        (Some(text), Some(default)) => {
            nullable.insert("description", RawJson::from_str_value(&format!("{text} ({default})")));
        }
    }
    nullable.insert("anyOf", json(&[json(&schema), json(&null)]));
    nullable
}

/// True if a closed schema allows null by itself.
fn allows_null(schema: &RawObject) -> bool {
    let is_null = |kind: &RawJson| {
        RawObject::from_raw(kind).is_some_and(|kind| types_of(&kind).iter().any(|name| name == "null"))
    };
    let kinds: Vec<RawJson> = schema.get("anyOf").and_then(|kinds| kinds.to().ok()).unwrap_or_default();
    types_of(schema).iter().any(|name| name == "null") || kinds.iter().any(is_null)
}

/// True if a schema describes objects, and perhaps null.
fn is_object(schema: &RawObject) -> bool {
    let types = types_of(schema);
    let is_alone = types.iter().all(|kind| kind == "object" || kind == "null");
    let has_members = schema.get("properties").is_some() || schema.get("additionalProperties").is_some();
    if types.is_empty() {
        return schema.get("properties").is_some() && schema.get("$ref").is_none();
    }
    is_alone && types.iter().any(|kind| kind == "object") && (has_members || types.len() == 1)
}

/// The names in `type`.
pub(super) fn types_of(schema: &RawObject) -> Vec<String> {
    match schema.get("type") {
        Some(kind) if kind.is_array() => kind.to().unwrap_or_default(),
        Some(kind) => kind.as_string().into_iter().collect(),
        None => Vec::new(),
    }
}

/// The types of the values that a schema lists.
fn value_types(schema: &RawObject) -> RawJson {
    let listed: Vec<RawJson> = schema.get("enum").and_then(|values| values.to().ok()).unwrap_or_default();
    let mut types: Vec<&str> = Vec::new();
    for value in listed.iter().chain(schema.get("const")) {
        let kind = match value.get().as_bytes().first() {
            Some(b'"') => "string",
            Some(b't' | b'f') => "boolean",
            Some(b'n') => "null",
            Some(b'{') => "object",
            Some(b'[') => "array",
            _ if value.get().contains(['.', 'e', 'E']) => "number",
            _ => "integer",
        };
        if !types.contains(&kind) {
            types.push(kind);
        }
    }
    match types.as_slice() {
        [only] => RawJson::from_str_value(only),
        many => json(many),
    }
}

fn pointing(reference: &str) -> RawObject {
    [("$ref", RawJson::from_str_value(reference))].into_iter().collect()
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> RawJson {
    RawJson::from_value(value).unwrap_or_default()
}
