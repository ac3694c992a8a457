//! JSON Schemas with their validators.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use turntree_agents::types::{Structure, Violation};
use turntree_core::json::RawJson;

use super::error::DefinitionError;

/// A JSON Schema (draft 2020-12) with its validator. Nothing is fetched for a `$ref`, and the work is limited.
#[derive(Clone)]
pub struct Schema {
    value: Arc<Value>,
    validator: Arc<Structure>,
}

impl Schema {
    /// Compiles a schema. `place` is named in errors.
    ///
    /// # Errors
    /// [`DefinitionError::Schema`] if it is not valid, or too large.
    pub fn new(place: &str, value: Value) -> Result<Self, DefinitionError> {
        let failed = |reason: String| DefinitionError::Schema { place: place.to_owned(), reason };
        let text = RawJson::from_value(&value).map_err(|error| failed(error.to_string()))?;
        let validator = Structure::without_wrapper(Arc::new(text));
        validator.check_schema("uaip").map_err(|error| {
            failed(error.message.strip_prefix("structure: ").unwrap_or(&error.message).to_owned())
        })?;
        Ok(Self { value: Arc::new(value), validator: Arc::new(validator) })
    }

    /// The schema of arguments: an object that allows only the parameters it names.
    pub(super) fn of_arguments(place: &str, value: Option<Value>) -> Result<Self, DefinitionError> {
        let mut object = match value {
            None => Map::new(),
            Some(value) => object_schema(place, value)?,
        };
        object.entry("type").or_insert_with(|| json!("object"));
        object.entry("properties").or_insert_with(|| json!({}));
        object.entry("additionalProperties").or_insert(Value::Bool(false));
        Self::new(place, Value::Object(object))
    }

    /// The schema of the values of some keys, without the rule that all of them must be there.
    pub(super) fn of_state(place: &str, value: Value) -> Result<Self, DefinitionError> {
        let mut object = object_schema(place, value)?;
        object.remove("required");
        Self::new(place, Value::Object(object))
    }

    /// The schema as JSON.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The schemas of the properties.
    pub fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.value.get("properties").and_then(Value::as_object).into_iter().flatten()
    }

    /// The names of the required properties.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        self.value.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The rules that a value violates; empty for a valid value.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        match RawJson::from_value(value) {
            Ok(text) => self.validator.violations(&text),
            Err(error) => vec![Violation::new("", "json", &error.to_string())],
        }
    }
}

/// The members of a schema that describes objects.
fn object_schema(place: &str, value: Value) -> Result<Map<String, Value>, DefinitionError> {
    let reason = match value {
        Value::Object(object) if object.get("type").is_none_or(|kind| kind == "object") => {
            return Ok(object);
        }
        Value::Object(_) => "expected the schema of an object; set \"type\" to \"object\"",
        _ => "expected a JSON Schema as an object",
    };
    Err(DefinitionError::Schema { place: place.to_owned(), reason: reason.to_owned() })
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Schema").field(&self.value).finish()
    }
}
