//! The dicts of `model_dump`: with Python's types, with Python's names, without `None`.

use crate::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use serde_json::{Map, Value};

use turntree_core::json::snake_case;
use turntree_core::message::media::Binary;

/// Options of `model_dump`. Only members that the schema names are renamed or converted, so tool arguments and metadata
/// are unchanged.
pub(crate) struct Dump<'a> {
    /// The schema document of the class.
    pub(crate) schema: &'a Value,
    /// Whether times and bytes become Python objects.
    pub(crate) python: bool,
    /// Whether keys are the specification's names.
    pub(crate) by_alias: bool,
    /// Whether to omit members that are `None`.
    pub(crate) exclude_none: bool,
    /// The inverse: renames keys from Python's names to the specification's.
    pub(crate) from_names: bool,
}

impl<'a> Dump<'a> {
    /// Converts plain JSON data.
    pub(crate) fn apply<'py>(&self, plain: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.value(plain, self.schema)
    }

    fn value<'py>(&self, plain: &Bound<'py, PyAny>, schema: &'a Value) -> PyResult<Bound<'py, PyAny>> {
        let Some(schema) = self.fitting(plain, schema) else { return Ok(plain.clone()) };
        if let Ok(dict) = plain.cast::<PyDict>() {
            return self.object(dict, schema);
        }
        if let (Ok(list), Some(items)) = (plain.cast::<PyList>(), schema.get("items")) {
            let converted = PyList::empty(plain.py());
            for item in list.iter() {
                converted.append(self.value(&item, items)?)?;
            }
            return Ok(converted.into_any());
        }
        if let (Ok(text), true) = (plain.cast::<PyString>(), self.python) {
            return python_string(text, schema);
        }
        Ok(plain.clone())
    }

    fn object<'py>(&self, dict: &Bound<'py, PyDict>, schema: &'a Value) -> PyResult<Bound<'py, PyAny>> {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Ok(dict.clone().into_any());
        };
        let converted = PyDict::new(dict.py());
        for (key, value) in dict.iter() {
            let name = self.alias(key.extract()?, properties);
            let Some(property) = properties.get(&name) else {
                converted.set_item(key, value)?;
                continue;
            };
            if self.exclude_none && value.is_none() {
                continue;
            }
            let name = if self.by_alias { name } else { snake_case(&name) };
            converted.set_item(name, self.value(&value, property)?)?;
        }
        Ok(converted.into_any())
    }

    /// The specification's name of a member.
    fn alias(&self, name: String, properties: &Map<String, Value>) -> String {
        if !self.from_names || properties.contains_key(&name) {
            return name;
        }
        properties.keys().find(|alias| snake_case(alias) == name).cloned().unwrap_or(name)
    }

    /// Follows references and picks the alternative that describes the value.
    fn fitting(&self, plain: &Bound<'_, PyAny>, schema: &'a Value) -> Option<&'a Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.fitting(plain, self.schema.pointer(reference.strip_prefix('#')?)?);
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(alternatives) = schema.get(choice).and_then(Value::as_array) {
                return alternatives.iter().find_map(|alternative| self.fitting(plain, alternative));
            }
        }
        fits(plain, schema).then_some(schema)
    }
}

/// Whether a value has the type and the tags of a schema without alternatives.
fn fits(plain: &Bound<'_, PyAny>, schema: &Value) -> bool {
    let kind = schema.get("type").and_then(Value::as_str);
    if let Ok(dict) = plain.cast::<PyDict>() {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return kind.is_none_or(|kind| kind == "object");
        };
        return properties.iter().all(|(key, property)| {
            match property.get("const").and_then(Value::as_str) {
                Some(tag) => dict
                    .get_item(key)
                    .ok()
                    .flatten()
                    .is_some_and(|value| value.extract::<String>().is_ok_and(|value| value == tag)),
                None => true,
            }
        });
    }
    match kind {
        Some("string") => plain.is_instance_of::<PyString>(),
        Some("array") => plain.is_instance_of::<PyList>(),
        Some("object") => false,
        Some("null") => plain.is_none(),
        _ => !plain.is_none(),
    }
}

fn python_string<'py>(text: &Bound<'py, PyString>, schema: &Value) -> PyResult<Bound<'py, PyAny>> {
    let py = text.py();
    if schema.get("format").and_then(Value::as_str) == Some("date-time") {
        let parsed = text.to_str()?.parse::<turntree_core::time::Timestamp>();
        return parsed
            .map_or_else(|_| Ok(text.clone().into_any()), |time| crate::time::to_datetime(py, time));
    }
    if schema.get("contentEncoding").and_then(Value::as_str) == Some("base64") {
        let decoded = Binary::from_base64(text.to_str()?).unwrap_or_default();
        return Ok(pyo3::types::PyBytes::new(py, decoded.as_slice()).into_any());
    }
    Ok(text.clone().into_any())
}
