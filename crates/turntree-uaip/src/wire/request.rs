//! Bodies of requests.

use serde_json::{Map, Value};
use turntree_core::json;
use turntree_core::limits::Limits;

use super::error::WireError;
use crate::engine::Action;

/// Maximum nesting of a body.
const MAX_DEPTH: usize = 64;

/// Maximum number of values of a body.
const MAX_VALUES: usize = 100_000;

/// The object that a request contains. Its members are read one after the other, in the order of the checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    members: Map<String, Value>,
}

impl Envelope {
    /// Parses a body.
    ///
    /// # Errors
    /// [`WireError::InvalidBody`] if it is not a JSON object, or nested too deeply.
    pub fn parse(body: &[u8]) -> Result<Self, WireError> {
        let limits = Limits { bytes: usize::MAX, depth: MAX_DEPTH, values: MAX_VALUES };
        match json::parse_bytes::<Value>(body, &limits) {
            Ok(Value::Object(members)) => Ok(Self { members }),
            Ok(other) => Err(invalid(format!("expected an object, got {}", kind(&other)))),
            Err(error) => Err(invalid(super::error_text::clip(&error.to_string()))),
        }
    }

    /// The name of the workflow. `only` is the workflow that is meant if the name is missing.
    ///
    /// # Errors
    /// [`WireError::MissingField`], [`WireError::InvalidBody`].
    pub fn workflow_name<'e>(&'e self, only: Option<&'e str>) -> Result<&'e str, WireError> {
        match self.optional_text("workflow_name")? {
            Some(name) => Ok(name),
            None => only.ok_or(WireError::MissingField { field: "workflow_name" }),
        }
    }

    /// The action.
    ///
    /// # Errors
    /// [`WireError::MissingField`], [`WireError::InvalidBody`], [`WireError::UnknownAction`].
    pub fn action(self) -> Result<Action, WireError> {
        let action = self.text("action")?.to_owned();
        match action.as_str() {
            "method_call" => {
                let task = self.text("task")?.to_owned();
                Ok(Action::MethodCall { task, args: self.object("args", Some(Map::new()))? })
            }
            "stage_transition" => Ok(Action::StageTransition { stage: self.text("stage")?.to_owned() }),
            "state_input" => Ok(Action::StateInput { updates: self.object("state_updates", None)? }),
            "handshake" => Ok(Action::Handshake),
            "terminate_session" => {
                let reason = self.optional_text("reason").unwrap_or_default().map(str::to_owned);
                Ok(Action::TerminateSession { reason })
            }
            _ => Err(WireError::UnknownAction { action }),
        }
    }

    fn optional_text(&self, field: &'static str) -> Result<Option<&str>, WireError> {
        match self.members.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(format!("'{field}': expected a string, got {}", kind(other)))),
        }
    }

    fn text(&self, field: &'static str) -> Result<&str, WireError> {
        self.optional_text(field)?.ok_or(WireError::MissingField { field })
    }

    fn object(
        mut self,
        field: &'static str,
        default: Option<Map<String, Value>>,
    ) -> Result<Map<String, Value>, WireError> {
        match self.members.remove(field) {
            None => default.ok_or(WireError::MissingField { field }),
            Some(Value::Object(object)) => Ok(object),
            Some(other) => Err(invalid(format!("'{field}': expected an object, got {}", kind(&other)))),
        }
    }
}

const fn invalid(reason: String) -> WireError {
    WireError::InvalidBody { reason }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
