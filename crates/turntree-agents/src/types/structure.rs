//! Structured output: the schema for the model, and validation. UPP-1.2 §10.5
//!
//! The specification leaves answers unchecked; here they are held to their JSON Schema, so that `turn.data` is what was
//! asked for or the run fails. Vendors want an object at the root: a schema of anything else is sent inside one.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use turntree_core::json::{RawJson, RawObject};
use turntree_core::limits::Limits;
use turntree_upp::UppError;

/// The member that holds output whose schema is not an object.
pub const WRAPPED: &str = "value";

/// Violations that an error or a repair names; the rest is counted.
const NAMED: usize = 8;

/// Longest words of one violation, in characters: a validator repeats the value.
const LONGEST: usize = 300;

/// The structure of the output: a JSON Schema and its validator.
pub struct Structure {
    schema: Arc<RawJson>,
    is_wrapped: bool,
    validator: OnceLock<Result<jsonschema::Validator, String>>,
}

/// A rule that an answer breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Where in the answer, RFC 6901; empty for all of it.
    pub pointer: String,
    /// The rule, as JSON Schema or the application names it.
    pub rule: String,
    /// What is wrong with the value.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the answer" } else { &self.pointer };
        write!(formatter, "{place}: {} ({})", self.message, self.rule)
    }
}

impl Violation {
    /// A rule that an answer breaks.
    pub fn new(pointer: impl Into<String>, rule: impl Into<String>, message: &str) -> Self {
        let mut words: String = message.chars().take(LONGEST).collect();
        if words.len() < message.len() {
            words.push('…');
        }
        Self { pointer: pointer.into(), rule: rule.into(), message: words }
    }

    /// The response is not JSON.
    pub fn no_json() -> Self {
        Self::new("", "json", "it is not JSON")
    }

    /// All in one line each.
    pub(crate) fn list(violations: &[Self], separator: &str) -> String {
        let named: Vec<String> = violations.iter().take(NAMED).map(ToString::to_string).collect();
        let rest = violations.len().saturating_sub(NAMED);
        let more = if rest > 0 { format!("{separator}and {rest} more") } else { String::new() };
        named.join(separator) + &more
    }
}

impl Structure {
    /// The structure of a schema, which is compiled when it is first needed.
    pub fn new(schema: &Arc<RawJson>) -> Self {
        let (schema, is_wrapped) = rooted(schema);
        Self { schema, is_wrapped, validator: OnceLock::new() }
    }

    /// A schema that no model receives: used as it is.
    pub(crate) fn as_given(schema: Arc<RawJson>) -> Self {
        Self { schema, is_wrapped: false, validator: OnceLock::new() }
    }

    /// The schema that the model receives: always an object.
    pub const fn schema(&self) -> &Arc<RawJson> {
        &self.schema
    }

    /// True if the output is inside the member [`WRAPPED`] of the model's response.
    pub const fn is_wrapped(&self) -> bool {
        self.is_wrapped
    }

    /// Checks the schema itself.
    ///
    /// # Errors
    /// [`turntree_upp::ErrorCode::InvalidRequest`] for a schema that breaks the rules of JSON Schema, or refers to
    /// another document.
    pub fn check_schema(&self, provider: &str) -> Result<(), UppError> {
        match self.validator() {
            Ok(_) => Ok(()),
            Err(words) => {
                let words = format!("structure: {words}; correct the JSON Schema (draft 2020-12)");
                Err(UppError::invalid_request(provider, words))
            }
        }
    }

    /// The rules that an answer of the model breaks; none when it fits.
    pub fn violations(&self, answer: &RawJson) -> Vec<Violation> {
        let Ok(validator) = self.validator() else { return Vec::new() };
        let Ok(tree) = answer.to::<serde_json::Value>() else {
            return vec![Violation::new("", "depth", "it is nested too deeply")];
        };
        let errors = validator.iter_errors(&tree);
        errors
            .map(|error| {
                Violation::new(error.instance_path().as_str(), error.kind().keyword(), &error.to_string())
            })
            .collect()
    }

    fn validator(&self) -> Result<&jsonschema::Validator, &String> {
        self.validator
            .get_or_init(|| {
                Limits::PAYLOAD.check(self.schema.get()).map_err(|error| error.to_string())?;
                let schema = self.schema.to::<serde_json::Value>().map_err(|error| error.to_string())?;
                // Untrusted schemas must not make us fetch anything.
                jsonschema::options().offline().build(&schema).map_err(|error| error.to_string())
            })
            .as_ref()
    }
}

impl fmt::Debug for Structure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Structure")
            .field("schema", &self.schema)
            .field("is_wrapped", &self.is_wrapped)
            .finish_non_exhaustive()
    }
}

/// The output inside the member [`WRAPPED`] of a response.
pub fn unwrapped(answer: &RawJson) -> Option<RawJson> {
    RawObject::from_raw(answer)?.get(WRAPPED).cloned()
}

/// The schema with an object at its root, and whether it had to be put inside one.
fn rooted(schema: &Arc<RawJson>) -> (Arc<RawJson>, bool) {
    let Some(mut root) = RawObject::from_raw(schema) else { return (Arc::clone(schema), false) };
    let definitions = root.get("$defs").cloned();
    // Types that contain themselves are written as a reference to their own definition.
    if let Some(named) = definition_of_root(&root, definitions.as_ref()) {
        if is_object(&named) {
            let mut inlined = named;
            for (name, value) in root.iter().filter(|(name, _)| *name != "$ref") {
                inlined.insert(name, value.clone());
            }
            return (as_raw(&inlined, schema), false);
        }
    } else if is_object(&root) || !says_otherwise(&root) {
        return (Arc::clone(schema), false);
    }
    root.remove("$defs");
    let mut members = RawObject::new();
    members.insert(WRAPPED, RawJson::from_value(&root).unwrap_or_default());
    let mut wrapper = RawObject::new();
    wrapper.insert("type", RawJson::from_str_value("object"));
    wrapper.insert("properties", RawJson::from_value(&members).unwrap_or_default());
    wrapper.insert("required", RawJson::from_value(&[WRAPPED]).unwrap_or_default());
    wrapper.insert("additionalProperties", RawJson::from_value(&false).unwrap_or_default());
    if let Some(definitions) = definitions {
        wrapper.insert("$defs", definitions);
    }
    (as_raw(&wrapper, schema), true)
}

fn as_raw(object: &RawObject, fallback: &Arc<RawJson>) -> Arc<RawJson> {
    RawJson::from_value(object).map_or_else(|_| Arc::clone(fallback), Arc::new)
}

fn definition_of_root(root: &RawObject, definitions: Option<&RawJson>) -> Option<RawObject> {
    let reference = root.get("$ref")?.as_string()?;
    let name = reference.strip_prefix("#/$defs/")?.replace("~1", "/").replace("~0", "~");
    RawObject::from_raw(RawObject::from_raw(definitions?)?.get(&name)?)
}

fn is_object(schema: &RawObject) -> bool {
    schema.get("type").and_then(RawJson::as_string).as_deref() == Some("object")
        || (schema.get("type").is_none() && schema.get("properties").is_some())
}

/// True if a schema allows values other than objects. A schema without constraints is sent unchanged.
fn says_otherwise(schema: &RawObject) -> bool {
    ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"].iter().any(|word| schema.get(word).is_some())
}
