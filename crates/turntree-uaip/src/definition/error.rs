//! What can be wrong with the definition of a workflow.

/// Why a workflow cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// A workflow without stages.
    #[error("workflow \"{workflow}\": it has no stages; add one with a task")]
    NoStages {
        /// The workflow.
        workflow: String,
    },
    /// A name that clients could not use.
    #[error("{place}: invalid name \"{name}\"; {rule}")]
    Name {
        /// Where.
        place: String,
        /// The name.
        name: String,
        /// What a name must be.
        rule: &'static str,
    },
    /// Two things of the same kind have one name.
    #[error("{place}: two {kind} are named \"{name}\"; rename one of them")]
    Duplicate {
        /// Where.
        place: String,
        /// The kind, in plural.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A task has a name that the protocol uses.
    #[error(
        "{place}: the task name \"{name}\" is reserved, clients use it for an action of the protocol; rename the task"
    )]
    ReservedName {
        /// Where.
        place: String,
        /// The name.
        name: String,
    },
    /// A transition names a stage that does not exist.
    #[error(
        "workflow \"{workflow}\": the transition from \"{from}\" to \"{to}\" names the unknown stage \"{unknown}\"; \
         the stages are {known}"
    )]
    UnknownStage {
        /// The workflow.
        workflow: String,
        /// The stage that is left.
        from: String,
        /// The stage that is entered.
        to: String,
        /// The one that does not exist.
        unknown: String,
        /// The stages that exist.
        known: String,
    },
    /// More than one stage is initial.
    #[error(
        "workflow \"{workflow}\": \"{first}\" and \"{second}\" are both initial; keep `initial` on one of them"
    )]
    TwoInitialStages {
        /// The workflow.
        workflow: String,
        /// A stage.
        first: String,
        /// Another stage.
        second: String,
    },
    /// No path of transitions leads to a stage.
    #[error(
        "workflow \"{workflow}\": the stages {stages} cannot be reached from the initial stage \"{initial}\"; add a \
         transition to each of them, or remove them"
    )]
    UnreachableStages {
        /// The workflow.
        workflow: String,
        /// The stages.
        stages: String,
        /// The initial stage.
        initial: String,
    },
    /// The initial stage has prerequisites, but a new session has no state.
    #[error(
        "stage \"{stage}\" of workflow \"{workflow}\": the initial stage cannot have prerequisites, because a new \
         session has no state; remove them, or start in another stage"
    )]
    InitialPrerequisites {
        /// The workflow.
        workflow: String,
        /// The stage.
        stage: String,
    },
    /// A prerequisite that nothing can write.
    #[error(
        "stage \"{stage}\" of workflow \"{workflow}\": the prerequisite \"{key}\" can never be met: the key is private, \
         so agents cannot write it, and no task of an earlier stage declares that it writes it; add \"{key}\" to \
         `writes` of a task, or remove it from `private`"
    )]
    UnsatisfiablePrerequisite {
        /// The workflow.
        workflow: String,
        /// The stage.
        stage: String,
        /// The key.
        key: String,
    },
    /// A key is both private and writable by agents.
    #[error(
        "workflow \"{workflow}\": the key \"{key}\" is in `agent_writable`, but `private` contains \"{private}\"; remove one of them"
    )]
    PrivateAndWritable {
        /// The workflow.
        workflow: String,
        /// The key.
        key: String,
        /// The private key.
        private: String,
    },
    /// Sessions can never end.
    #[error(
        "workflow \"{workflow}\": `require_terminal` is set, but every stage has outgoing transitions, so no session could end; \
         add a stage without transitions, or remove `require_terminal`"
    )]
    NoTerminalStage {
        /// The workflow.
        workflow: String,
    },
    /// A rule of `state_management` belongs to no transition.
    #[error(
        "workflow \"{workflow}\": `state_management` has a rule from \"{from}\" to \"{to}\", but there is no such transition; \
         add the transition, or remove the rule"
    )]
    PropagationWithoutTransition {
        /// The workflow.
        workflow: String,
        /// The stage that is left.
        from: String,
        /// The stage that is entered.
        to: String,
    },
    /// A JSON Schema is not valid, or is not what is needed here.
    #[error("{place}: {reason}")]
    Schema {
        /// Where.
        place: String,
        /// The rule and the remedy.
        reason: String,
    },
    /// A number is out of range.
    #[error("{place}: {reason}")]
    Limit {
        /// Where.
        place: String,
        /// The rule and the remedy.
        reason: String,
    },
}
