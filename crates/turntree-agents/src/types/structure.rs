//! Structured output: the schema for the model, and validation.
//!
//! The specification does not require validation. turntree validates structured output against its JSON Schema: `turn.data`
//! matches the schema, or the run fails. Vendors require an object at the root, so other schemas are wrapped in an object
//! with the member [`WRAPPED`].
//!
//! Spec: UPP-1.2 §10.5

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use turntree_core::json::{RawJson, RawObject};
use turntree_upp::UppError;

use super::structure_validator::StructureValidator;

/// The member that holds output whose schema is not an object.
pub const WRAPPED: &str = "value";

/// Maximum number of violations in a message. The others are only counted.
const MAX_LISTED: usize = 8;

/// Maximum length of the message of a violation, in characters. Validators include the value in the message.
pub(super) const MAX_MESSAGE_LENGTH: usize = 300;

/// The structure of the output: a JSON Schema and its validator.
pub struct Structure {
    schema: Arc<RawJson>,
    is_wrapped: bool,
    validator: OnceLock<Result<StructureValidator, String>>,
}

/// A rule that structured output violates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the value in the output; empty for the whole output.
    pub pointer: String,
    /// The name of the rule: a keyword of JSON Schema, or a name of the application.
    pub rule: String,
    /// The description of the violation.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the answer" } else { &self.pointer };
        write!(formatter, "{place}: {} ({})", self.message, self.rule)
    }
}

impl Violation {
    /// Creates a violation. Shortens long messages.
    pub fn new(pointer: impl Into<String>, rule: impl Into<String>, message: &str) -> Self {
        let mut shortened: String = message.chars().take(MAX_MESSAGE_LENGTH).collect();
        if shortened.len() < message.len() {
            shortened.push('…');
        }
        Self { pointer: pointer.into(), rule: rule.into(), message: shortened }
    }

    /// The response is not JSON.
    pub fn no_json() -> Self {
        Self::new("", "json", "it is not JSON")
    }

    /// Joins the violations with a separator.
    pub(crate) fn list(violations: &[Self], separator: &str) -> String {
        let named: Vec<String> = violations.iter().take(MAX_LISTED).map(ToString::to_string).collect();
        let rest = violations.len().saturating_sub(MAX_LISTED);
        let more = if rest > 0 { format!("{separator}and {rest} more") } else { String::new() };
        named.join(separator) + &more
    }
}

impl Structure {
    /// Creates a structure from a schema. The validator is compiled at its first use.
    pub fn new(schema: &Arc<RawJson>) -> Self {
        let (schema, is_wrapped) = with_object_root(schema);
        Self { schema, is_wrapped, validator: OnceLock::new() }
    }

    /// Creates a structure from a schema that is not sent to a model, so it is not wrapped.
    pub fn without_wrapper(schema: Arc<RawJson>) -> Self {
        Self { schema, is_wrapped: false, validator: OnceLock::new() }
    }

    /// The schema that the model receives. Its root is an object.
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
    /// [`turntree_upp::ErrorCode::InvalidRequest`] if the schema is not a valid JSON Schema, or refers to another document.
    pub fn check_schema(&self, provider: &str) -> Result<(), UppError> {
        match self.validator() {
            Ok(_) => Ok(()),
            Err(reason) => {
                let message = format!("structure: {reason}; correct the JSON Schema (draft 2020-12)");
                Err(UppError::invalid_request(provider, message))
            }
        }
    }

    /// Validates output of the model. Returns the violations; empty for valid output. The number of steps is limited
    /// (decision U29); the violation has the rule `schema` if the schema is not valid, and `budget` for too many steps.
    pub fn violations(&self, answer: &RawJson) -> Vec<Violation> {
        match self.validator() {
            Ok(validator) => validator.violations(answer),
            Err(reason) => vec![Violation::new("", "schema", reason)],
        }
    }

    /// Validates the arguments of a call, if this is the schema of a tool.
    ///
    /// # Errors
    /// The violations in one text, for the model or the client that called.
    pub fn check_arguments(&self, arguments: &RawJson) -> Result<(), String> {
        let violations = self.violations(arguments);
        if violations.is_empty() {
            return Ok(());
        }
        let list = Violation::list(&violations, "; ").replace("the answer: ", "");
        Err(format!("Invalid arguments. {list}"))
    }

    fn validator(&self) -> Result<&StructureValidator, &String> {
        self.validator.get_or_init(|| StructureValidator::of(&self.schema)).as_ref()
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

/// Returns a schema whose root is an object, and true if the schema was wrapped.
fn with_object_root(schema: &Arc<RawJson>) -> (Arc<RawJson>, bool) {
    let Some(mut root) = RawObject::from_raw(schema) else { return (Arc::clone(schema), false) };
    let definitions = root.get("$defs").cloned();
    // The schema of a recursive type is a reference to its own definition.
    if let Some(named) = definition_of_root(&root, definitions.as_ref()) {
        if is_object(&named) {
            let mut inlined = named;
            for (name, value) in root.iter().filter(|(name, _)| *name != "$ref") {
                inlined.insert(name, value.clone());
            }
            return (as_raw(&inlined, schema), false);
        }
    } else if is_object(&root) || !allows_other_types(&root) {
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
fn allows_other_types(schema: &RawObject) -> bool {
    ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"].iter().any(|word| schema.get(word).is_some())
}
