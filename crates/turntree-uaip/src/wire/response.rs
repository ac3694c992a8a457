//! Outcomes of actions as responses, in both profiles.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use turntree_agents::types::Violation;

use super::error::WireError;
use super::error_text;
use super::profile::Profile;
use super::python_text::python_text;
use super::tools::{provide_state, tools};
use super::view::stage_names;
use crate::definition::{Stage, Workflow};
use crate::engine::{Failure, Outcome, Refusal, Reply, Session};

/// Maximum size of an error body, in bytes.
const MAX_ERROR_BODY: usize = 20_000;

/// A response before it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct WireResponse {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// A header that the status requires.
    pub header: Option<(&'static str, &'static str)>,
}

impl WireResponse {
    /// A response with status 200.
    pub const fn ok(body: Value) -> Self {
        Self { status: 200, body, header: None }
    }

    /// The body of `POST /initialize`.
    pub fn initialized(workflow: &Workflow, session_id: &str) -> Self {
        Self::ok(json!({
            "session_id": session_id,
            "workflow": workflow.name(),
            "initial_stage": workflow.initial_stage(),
            "stages": stage_names(workflow),
        }))
    }

    /// The response to an action.
    pub fn of_outcome(profile: Profile, workflow: &Workflow, session_id: &str, outcome: &Outcome) -> Self {
        let view = View { workflow, session_id, session: &outcome.session };
        match profile {
            Profile::Strict => view.strict(&outcome.reply),
            Profile::Reference => Self::ok(view.reference(&outcome.reply)),
        }
    }

    /// Adds the id under which the log has what the client does not see: a result or a state that a schema forbids.
    #[must_use]
    pub fn with_correlation_id(mut self, outcome: &Outcome, correlation_id: &str) -> Self {
        let is_logged = matches!(
            outcome.reply,
            Reply::Failed(Failure::InvalidResult { .. } | Failure::InvalidState { .. })
        );
        if let (true, Value::Object(body)) = (is_logged, &mut self.body)
            && body.contains_key("is_error")
        {
            body.insert("correlation_id".to_owned(), json!(correlation_id));
        }
        self
    }

    /// The response to a request that is not executed. `current` is the session, as far as it is known.
    pub fn of_error(profile: Profile, error: &WireError, current: Option<(&Workflow, &Session)>) -> Self {
        let mut body = error.body();
        let stage = current.and_then(|(workflow, session)| workflow.stage(&session.stage));
        if let (Some(stage), 422 | 504) = (stage, error.status()) {
            if profile == Profile::Reference {
                let content = format!("Error: {error}");
                return Self::ok(json!({"content": content, "tools": tools(stage)}));
            }
            body.insert("current_stage".to_owned(), json!(stage.name));
            body.insert("tools".to_owned(), json!(tools(stage)));
        }
        Self { status: error.status(), body: limited(body), header: error.header() }
    }

    /// The response to a request of the reference profile whose action has the wrong shape. Version 0.4 answers 200 to it.
    pub fn of_malformed_action(error: &WireError, workflow: &Workflow, session: &Session) -> Self {
        let tools = workflow.stage(&session.stage).map(tools).unwrap_or_default();
        Self::ok(match error {
            WireError::InvalidBody { reason } if reason.starts_with("'state_updates'") => {
                json!({ "error": reason })
            }
            WireError::MissingField { field: "state_updates" } => json!({ "error": error.to_string() }),
            _ => json!({"content": format!("Error: {error}"), "tools": tools}),
        })
    }
}

/// Removes lists that make an error body too large.
fn limited(mut body: Map<String, Value>) -> Value {
    for member in ["tools", "allowed", "missing", "errors"] {
        if crate::state::json_length(&Value::Object(body.clone())) <= MAX_ERROR_BODY {
            break;
        }
        body.remove(member);
    }
    Value::Object(body)
}

/// The session after an action.
#[derive(Clone, Copy)]
struct View<'a> {
    workflow: &'a Workflow,
    session_id: &'a str,
    session: &'a Session,
}

impl View<'_> {
    fn stage(&self) -> Option<&Stage> {
        self.workflow.stage(&self.session.stage)
    }

    fn tools(&self) -> Vec<Value> {
        self.stage().map(tools).unwrap_or_default()
    }

    fn body(&self, status: &str, content: &str) -> Map<String, Value> {
        let body = [
            ("content", json!(content)),
            ("tools", json!(self.tools())),
            ("status", json!(status)),
            ("current_stage", json!(self.session.stage)),
            ("terminal", json!(self.stage().is_some_and(Stage::is_terminal))),
            ("state_version", json!(self.session.version)),
        ];
        body.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn strict(&self, reply: &Reply) -> WireResponse {
        let mut body = self.body("ok", &text_of(reply, json_text));
        let mut set = |key: &str, value: Value| {
            body.insert(key.to_owned(), value);
        };
        match reply {
            Reply::TaskDone { result, .. } => set("result", result.clone()),
            Reply::Moved { .. } | Reply::Initialized | Reply::Handshake => {}
            Reply::Updated { keys } => set("updated", json!(keys)),
            Reply::Terminated => {
                set("status", json!("terminated"));
                set("session_id", json!(self.session_id));
                set("tools", json!([]));
            }
            Reply::ApprovalRequired { request, .. } => {
                set("status", json!("approval_required"));
                set("approval", request.clone());
            }
            Reply::Failed(Failure::Timeout { limit }) => {
                let current = Some((self.workflow, self.session));
                return WireResponse::of_error(
                    Profile::Strict,
                    &WireError::TaskTimeout { limit: *limit },
                    current,
                );
            }
            Reply::Failed(failure) => {
                set("status", json!("task_error"));
                set("is_error", json!(true));
                if let Failure::Internal { correlation_id } = failure {
                    set("correlation_id", json!(correlation_id));
                }
            }
            Reply::Refused(refusal) => return self.refused(refusal),
        }
        WireResponse::ok(Value::Object(body))
    }

    fn refused(&self, refusal: &Refusal) -> WireResponse {
        let mut body = Map::new();
        let mut set = |key: &str, value: Value| {
            body.insert(key.to_owned(), value);
        };
        set("detail", json!(error_text::refusal(&self.session.stage, refusal)));
        set("code", json!(code_of(refusal)));
        set("current_stage", json!(self.session.stage));
        set("state_version", json!(self.session.version));
        let mut tools = self.tools();
        match refusal {
            Refusal::TaskNotInStage { allowed, .. }
            | Refusal::InvalidTransition { allowed, .. }
            | Refusal::KeyNotWritable { allowed, .. }
            | Refusal::NotTerminal { terminal: allowed } => set("allowed", json!(allowed)),
            Refusal::InvalidArgs { violations, .. } | Refusal::InvalidStateValue { violations } => {
                set("errors", error_text::errors(violations));
            }
            Refusal::MissingPrerequisites { stage, missing, violations } => {
                set("missing", json!(missing));
                if !violations.is_empty() {
                    set("errors", error_text::errors(violations));
                }
                tools.extend(provide_state(self.workflow, &self.needed(stage, missing, violations)));
            }
            Refusal::TransitionDenied { .. } => {}
        }
        set("tools", json!(tools));
        WireResponse { status: 422, body: limited(body), header: None }
    }

    fn reference(&self, reply: &Reply) -> Value {
        match reply {
            Reply::Terminated => json!({"status": "terminated", "session_id": self.session_id}),
            Reply::Refused(Refusal::MissingPrerequisites { stage, missing, violations }) => {
                let tool = provide_state(self.workflow, &self.needed(stage, missing, violations));
                let tools = tool.map_or_else(|| self.tools(), |tool| vec![tool]);
                json!({"content": self.reference_text(reply), "tools": tools, "status": "state_required"})
            }
            _ => json!({"content": self.reference_text(reply), "tools": self.tools()}),
        }
    }

    /// The keys that the agent must provide: those that are missing, and those whose values are not valid. A rule about a
    /// model as a whole can be met by any of its keys.
    fn needed(&self, stage: &str, missing: &[String], violations: &[Violation]) -> Vec<String> {
        let models = self.workflow.stage(stage).into_iter().flat_map(Stage::model_keys);
        let models: Vec<&str> = models.collect();
        let mut keys = missing.to_vec();
        for violation in violations {
            let first = violation.pointer.split('/').nth(1).unwrap_or_default();
            let key = first.replace("~1", "/").replace("~0", "~");
            if first.is_empty() {
                keys.extend(models.iter().map(|key| (*key).to_owned()));
            } else {
                keys.push(key);
            }
        }
        let mut known = HashSet::new();
        keys.retain(|key| known.insert(key.clone()));
        keys
    }

    fn reference_text(&self, reply: &Reply) -> String {
        match reply {
            Reply::TaskDone { task, result } => {
                format!("Task '{task}' executed successfully.\n\nResult:\n{}", python_text(result))
            }
            Reply::Refused(Refusal::InvalidTransition { to, allowed }) => {
                let (stage, to) = (&self.session.stage, error_text::clip(to));
                let options = allowed.join(", ");
                format!("Error: Cannot transition from '{stage}' to '{to}'.\n\nAllowed options: {options}")
            }
            Reply::Refused(refusal @ Refusal::MissingPrerequisites { .. }) => {
                error_text::refusal(&self.session.stage, refusal)
            }
            Reply::Refused(refusal) => {
                format!("Error: {}", error_text::refusal(&self.session.stage, refusal))
            }
            _ => text_of(reply, python_text),
        }
    }
}

fn json_text(value: &Value) -> String {
    value.to_string()
}

/// What the model reads.
fn text_of(reply: &Reply, result_text: fn(&Value) -> String) -> String {
    match reply {
        Reply::Initialized | Reply::Handshake => "Session started successfully.".to_owned(),
        Reply::TaskDone { result, .. } => result_text(result),
        Reply::Moved { from, to } => format!("Successfully transitioned from '{from}' to '{to}'."),
        Reply::Updated { .. } => "State populated successfully.".to_owned(),
        Reply::Terminated => "Session terminated.".to_owned(),
        Reply::ApprovalRequired { task, .. } => format!("Task '{task}' must be approved by a person first."),
        Reply::Failed(failure) => format!("Error: {}", error_text::failure(failure)),
        Reply::Refused(refusal) => format!("Error: {}", error_text::refusal("", refusal)),
    }
}

/// The code of a refusal in a body.
pub const fn code_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::TaskNotInStage { .. } => "task_not_in_stage",
        Refusal::InvalidArgs { .. } => "invalid_args",
        Refusal::InvalidTransition { .. } => "invalid_transition",
        Refusal::MissingPrerequisites { .. } => "missing_prerequisites",
        Refusal::TransitionDenied { .. } => "transition_denied",
        Refusal::KeyNotWritable { .. } => "state_key_not_writable",
        Refusal::InvalidStateValue { .. } => "invalid_state_value",
        Refusal::NotTerminal { .. } => "not_terminal",
    }
}
