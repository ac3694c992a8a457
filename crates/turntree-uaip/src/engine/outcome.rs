//! What an action has led to.

use std::time::Duration;

use serde_json::Value;
use turntree_agents::types::Violation;

use super::session::Session;

/// What an action has led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The session after the action. If `is_changed` is false, it is the one before the action.
    pub session: Session,
    /// True if the session has a new version, which must be stored.
    pub is_changed: bool,
    /// The reply to the agent.
    pub reply: Reply,
}

/// The reply to the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A session was created.
    Initialized,
    /// A task has returned.
    TaskDone {
        /// The task.
        task: String,
        /// Its result.
        result: Value,
    },
    /// The session is in another stage.
    Moved {
        /// The stage that was left.
        from: String,
        /// The stage that was entered.
        to: String,
    },
    /// Values of the state were written.
    Updated {
        /// The keys, as in the request.
        keys: Vec<String>,
    },
    /// Nothing was to be done.
    Handshake,
    /// The session has ended.
    Terminated,
    /// A person must approve the call of a task. Nothing has changed.
    ApprovalRequired {
        /// The task.
        task: String,
        /// What is to be approved.
        request: Value,
    },
    /// A function of the application has failed. Nothing has changed.
    Failed(Failure),
    /// The action is against a rule. Nothing has changed.
    Refused(Refusal),
}

/// Why a function of the application has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It has raised an error whose message is meant for the agent.
    Message(String),
    /// It has raised another error. The log has the error under this id.
    Internal {
        /// The id.
        correlation_id: String,
    },
    /// A task has returned what its schema forbids.
    InvalidResult {
        /// The task.
        task: String,
        /// The rules that the result violates.
        violations: Vec<Violation>,
    },
    /// A task or hook has written what the schema of the state or the limits forbid.
    InvalidState {
        /// The rules that the state violates.
        violations: Vec<Violation>,
    },
    /// It did not end in time.
    Timeout {
        /// The limit.
        limit: Duration,
    },
}

/// Which rule an action is against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The current stage does not have the task.
    TaskNotInStage {
        /// The task.
        task: String,
        /// The tasks of the current stage.
        allowed: Vec<String>,
    },
    /// The arguments do not match the schema of the task.
    InvalidArgs {
        /// The task.
        task: String,
        /// The violated rules.
        violations: Vec<Violation>,
    },
    /// No transition leads from the current stage to that stage.
    InvalidTransition {
        /// The stage that was asked for.
        to: String,
        /// The stages that may follow.
        allowed: Vec<String>,
    },
    /// The state lacks what a stage needs, or a value is not valid.
    MissingPrerequisites {
        /// The stage that was asked for.
        stage: String,
        /// The keys that are missing.
        missing: Vec<String>,
        /// The rules that values violate.
        violations: Vec<Violation>,
    },
    /// The guard of a transition has said no.
    TransitionDenied {
        /// The stage that was asked for.
        to: String,
    },
    /// The agent may not write a key.
    KeyNotWritable {
        /// The keys that it may not write.
        keys: Vec<String>,
        /// The keys that it may write.
        allowed: Vec<String>,
    },
    /// A value does not match the schema of the state, or exceeds a limit.
    InvalidStateValue {
        /// The violated rules.
        violations: Vec<Violation>,
    },
    /// The workflow cannot end in the current stage.
    NotTerminal {
        /// The stages in which it can end.
        terminal: Vec<String>,
    },
}
