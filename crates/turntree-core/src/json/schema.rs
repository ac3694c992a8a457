//! JSON Schema (2020-12) of this package's types, generated from the definitions that read and write them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::raw::{RawJson, RawObject};
use crate::intern::InternedStr;
use crate::time::Timestamp;

/// A type with a JSON Schema.
pub trait JsonSchema {
    /// The schema of this type. A named type adds itself to `definitions` and returns a reference.
    fn schema(definitions: &mut Definitions) -> Value;
}

/// The named types of a schema.
#[derive(Debug, Default)]
pub struct Definitions {
    described: BTreeMap<&'static str, Value>,
}

impl Definitions {
    /// A reference to the type `name`. `describe` is called for the first reference.
    pub fn reference(&mut self, name: &'static str, describe: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.described.contains_key(name) {
            // Inserted before it is described, because a type may contain itself.
            self.described.insert(name, Value::Null);
            let description = describe(self);
            self.described.insert(name, description);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    /// A reference to an object type. Used by [`crate::json::json_object!`].
    ///
    /// Takes the members as data, which are smaller than code for each type.
    pub fn object(&mut self, name: &'static str, tag: Option<(&str, &str)>, members: &[Member]) -> Value {
        self.reference(name, |definitions| {
            let mut object = ObjectSchema::new(name);
            if let Some((key, value)) = tag {
                object.tag(key, value);
            }
            for member in members {
                let schema = (member.schema)(definitions);
                object.member(member.key, schema, member.description, member.is_required);
            }
            object.finish()
        })
    }

    /// A reference to a union of known types, one for each value of `tag`, and objects with other values. Used by
    /// [`crate::json::tagged_union!`].
    pub fn union(&mut self, name: &'static str, tag: &str, values: &[&str], known: &[Schema]) -> Value {
        self.reference(name, |definitions| {
            let known: Vec<_> = known.iter().map(|schema| schema(definitions)).collect();
            let other = json!({
                "type": "object",
                "properties": { tag: { "type": "string", "not": { "enum": values } } },
                "required": [tag],
            });
            json!({ "anyOf": [{ "oneOf": known }, other] })
        })
    }
}

/// [`JsonSchema::schema`] of a type.
pub type Schema = fn(&mut Definitions) -> Value;

/// A member of an object type, for [`Definitions::object`].
#[derive(Debug)]
pub struct Member {
    /// The key.
    pub key: &'static str,
    /// The schema of its type.
    pub schema: Schema,
    /// The description; may be empty.
    pub description: &'static str,
    /// False if the member may be missing.
    pub is_required: bool,
}

/// The schema of a type as a document.
pub fn document<T: JsonSchema + ?Sized>() -> Value {
    document_of(T::schema)
}

fn document_of(schema: Schema) -> Value {
    let mut definitions = Definitions::default();
    let root = schema(&mut definitions);
    let mut document = Map::new();
    document.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    let root_name =
        root.get("$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
    if let Some(Value::Object(members)) = root_name.and_then(|name| definitions.described.get(name)) {
        document.extend(members.clone());
    } else if let Value::Object(members) = &root {
        document.extend(members.clone());
    }
    if !definitions.described.is_empty() {
        document.insert("$defs".to_owned(), json!(definitions.described));
    }
    Value::Object(document)
}

/// The name of a type in schemas: without the suffix `Json` of types that describe the written form of another type.
pub fn title(type_name: &'static str) -> &'static str {
    type_name.strip_suffix("Json").unwrap_or(type_name)
}

/// A builder of object schemas. Used by [`crate::json::json_object!`].
#[derive(Debug)]
pub struct ObjectSchema {
    properties: Map<String, Value>,
    required: Vec<Value>,
    title: &'static str,
}

impl ObjectSchema {
    /// An object without members.
    pub fn new(title: &'static str) -> Self {
        Self { properties: Map::new(), required: Vec::new(), title }
    }

    /// A member with a fixed value.
    pub fn tag(&mut self, key: &str, value: &str) {
        self.properties.insert(key.to_owned(), json!({ "const": value, "type": "string" }));
        self.required.push(json!(key));
    }

    /// A member.
    pub fn member(&mut self, key: &str, mut schema: Value, description: &str, required: bool) {
        if let (Value::Object(members), false) = (&mut schema, description.is_empty()) {
            members.insert("description".to_owned(), json!(description.trim()));
        }
        self.properties.insert(key.to_owned(), schema);
        if required {
            self.required.push(json!(key));
        }
    }

    /// The schema. Unknown members are valid.
    pub fn finish(self) -> Value {
        json!({ "title": self.title, "type": "object", "properties": self.properties, "required": self.required })
    }
}

macro_rules! described {
    ($($type:ty => $schema:tt,)*) => {
        $(impl JsonSchema for $type {
            fn schema(_: &mut Definitions) -> Value {
                json!($schema)
            }
        })*
    };
}

described! {
    String => { "type": "string" },
    Box<str> => { "type": "string" },
    Arc<str> => { "type": "string" },
    InternedStr => { "type": "string" },
    bool => { "type": "boolean" },
    u32 => { "type": "integer", "minimum": 0 },
    u64 => { "type": "integer", "minimum": 0 },
    i64 => { "type": "integer" },
    f64 => { "type": "number" },
    Timestamp => { "type": "string", "format": "date-time" },
    RawJson => {},
    RawObject => { "type": "object" },
}

impl<T: JsonSchema> JsonSchema for Option<T> {
    fn schema(definitions: &mut Definitions) -> Value {
        nullable(&T::schema(definitions))
    }
}

fn nullable(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

impl<T: JsonSchema> JsonSchema for Vec<T> {
    fn schema(definitions: &mut Definitions) -> Value {
        list_of(&T::schema(definitions))
    }
}

fn list_of(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

impl<T: JsonSchema> JsonSchema for Box<T> {
    fn schema(definitions: &mut Definitions) -> Value {
        T::schema(definitions)
    }
}

impl<T: JsonSchema> JsonSchema for Arc<T> {
    fn schema(definitions: &mut Definitions) -> Value {
        T::schema(definitions)
    }
}
