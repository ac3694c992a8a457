//! Actions of agents, and the calls that the application performs for them.

use std::time::Duration;

use serde_json::{Map, Value};
use turntree_agents::types::Violation;

use crate::state::WorkingState;

/// What an agent does in its session.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Calls a task of the current stage.
    MethodCall {
        /// The name of the task.
        task: String,
        /// The arguments.
        args: Map<String, Value>,
    },
    /// Moves to another stage.
    StageTransition {
        /// The stage.
        stage: String,
    },
    /// Writes values of the state.
    StateInput {
        /// The values by key.
        updates: Map<String, Value>,
    },
    /// Asks for the current tools. Changes nothing.
    Handshake,
    /// Ends the session.
    TerminateSession {
        /// Why.
        reason: Option<String>,
    },
}

impl Action {
    /// The names of all actions in requests.
    pub const NAMES: [&'static str; 5] =
        ["method_call", "stage_transition", "state_input", "handshake", "terminate_session"];

    /// The name in requests.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::MethodCall { .. } => "method_call",
            Self::StageTransition { .. } => "stage_transition",
            Self::StateInput { .. } => "state_input",
            Self::Handshake => "handshake",
            Self::TerminateSession { .. } => "terminate_session",
        }
    }
}

/// A function of the application that must be called before an action goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Which function.
    pub kind: CallKind,
    /// The state that it reads and writes. What it returns as state replaces this one; guards only read.
    pub state: WorkingState,
    /// How long it may run; `None` for the limit of the server.
    pub timeout: Option<Duration>,
}

/// Which function of the application is called.
#[derive(Debug, Clone, PartialEq)]
pub enum CallKind {
    /// A task. The arguments match its schema.
    Task {
        /// The stage.
        stage: String,
        /// The task.
        task: String,
        /// The arguments.
        args: Map<String, Value>,
    },
    /// The guard of a transition. It returns whether the transition is allowed.
    Guard {
        /// The stage that is left.
        from: String,
        /// The stage that is entered.
        to: String,
    },
    /// The values of the models that a stage has as prerequisites, which the application validates too. It reads the
    /// state and returns [`CallResult::Prerequisites`].
    Prerequisites {
        /// The stage that is to be entered.
        stage: String,
    },
    /// The hook of a stage that is left.
    OnExit {
        /// The stage.
        stage: String,
    },
    /// The hook of a stage that is entered.
    OnEnter {
        /// The stage.
        stage: String,
    },
}

/// What a call has returned.
#[derive(Debug, Clone, PartialEq)]
pub enum CallResult {
    /// A task or a hook is done. The value of a hook is ignored.
    Done {
        /// The result.
        value: Value,
        /// The state as the function has left it.
        state: WorkingState,
    },
    /// A guard has decided.
    Guard {
        /// True if the transition is allowed.
        allowed: bool,
    },
    /// The values of prerequisites were validated.
    Prerequisites {
        /// The rules that they violate; empty if they are valid.
        violations: Vec<Violation>,
    },
    /// The function has failed.
    Failed(CallFailure),
}

/// Why a function of the application has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// An error whose message is meant for the agent.
    Task(String),
    /// Any other error. The agent sees the id, and the log has the error.
    Internal {
        /// The id by which the error is found in the log.
        correlation_id: String,
    },
    /// The arguments are not valid for a reason that the schema cannot express.
    InvalidArgs(Vec<Violation>),
    /// The function did not end in time.
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// A person must approve the call first.
    ApprovalRequired {
        /// What is to be approved.
        request: Value,
    },
}
