//! What the author of a workflow writes. All types can be read from JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A workflow: stages, and the transitions between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowDefinition {
    /// The name, by which clients open sessions.
    pub name: String,
    /// What the workflow is for.
    #[serde(default)]
    pub description: Option<String>,
    /// The stages, in the order in which clients see them.
    pub stages: Vec<StageDefinition>,
    /// The transitions, in the order in which clients see them.
    #[serde(default)]
    pub transitions: Vec<TransitionDefinition>,
    /// The JSON Schema of the state: an object with the keys as properties.
    #[serde(default)]
    pub state_schema: Option<Value>,
    /// Keys of the state that agents neither see nor write.
    #[serde(default)]
    pub private: Vec<String>,
    /// Keys of the state that agents may write, besides the prerequisites of stages.
    #[serde(default)]
    pub agent_writable: Vec<String>,
    /// True if a session ends only in a stage without outgoing transitions.
    #[serde(default)]
    pub require_terminal: bool,
    /// Gives each stage a store of its own; says what a transition copies. Transitions without a rule copy everything.
    #[serde(default)]
    pub state_management: Option<Vec<PropagationDefinition>>,
}

/// A stage: the tasks that can be called in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageDefinition {
    /// The name.
    pub name: String,
    /// What the stage is for.
    #[serde(default)]
    pub description: Option<String>,
    /// The tasks, in the order in which clients see them.
    #[serde(default)]
    pub tasks: Vec<TaskDefinition>,
    /// What the state must contain before the stage is entered.
    #[serde(default)]
    pub prerequisites: Vec<PrerequisiteDefinition>,
    /// True for the stage in which sessions start. By default it is the first one.
    #[serde(default)]
    pub initial: bool,
    /// True if the application is called when the stage is entered.
    #[serde(default)]
    pub on_enter: bool,
    /// True if the application is called when the stage is left.
    #[serde(default)]
    pub on_exit: bool,
    /// True if a session is completed as soon as it enters the stage.
    #[serde(default)]
    pub complete_on_enter: bool,
}

/// A task: a function of the application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskDefinition {
    /// The name: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What the task does, for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of the arguments, an object. Without one the task takes no arguments.
    #[serde(default)]
    pub parameters: Option<Value>,
    /// The JSON Schema of the result.
    #[serde(default)]
    pub returns: Option<Value>,
    /// All keys of the state that the task may write; `None` if that is not known.
    #[serde(default)]
    pub writes: Option<Vec<String>>,
    /// How long the task may run, in seconds. By default the limit of the server.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// True if a call may need the approval of a person. The service then stores the calls that wait, and the decisions.
    #[serde(default)]
    pub approval: bool,
}

/// What the state must contain before a stage is entered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PrerequisiteDefinition {
    /// A key.
    Key(String),
    /// The fields of a model, which are also validated (decision UAIP-A7).
    Model {
        /// The name of the model, for messages.
        model: String,
        /// Its JSON Schema: an object whose properties are keys of the state.
        schema: Value,
        /// True if the application validates the values too, by rules that the schema cannot express.
        #[serde(default)]
        validated: bool,
    },
}

/// A transition between two stages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransitionDefinition {
    /// The stage that is left.
    pub from: String,
    /// The stage that is entered.
    pub to: String,
    /// True if the application decides each time whether the transition is allowed.
    #[serde(default)]
    pub guarded: bool,
}

/// What a transition copies from the store of the stage that is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PropagationDefinition {
    /// The stage that is left.
    pub from: String,
    /// The stage that is entered.
    pub to: String,
    /// What is copied.
    pub copies: Propagated,
}

/// Which keys a transition copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Propagated {
    /// All keys.
    All,
    /// No keys.
    None,
    /// These keys.
    Keys(Vec<String>),
}
