//! Workflows, stages and tasks.
//!
//! | module | content |
//! |---|---|
//! | [`types`] | what the author of a workflow writes: plain data, readable from JSON |
//! | [`workflow`] | the checked workflow that the engine executes |
//! | `graph` | the checks of the graph |
//! | [`schema`] | JSON Schemas with their validators |
//! | [`error`] | what can be wrong with a definition |

pub mod error;
mod graph;
pub mod schema;
pub mod types;
pub mod workflow;

pub use error::DefinitionError;
pub use schema::Schema;
pub use types::{
    PrerequisiteDefinition, Propagated, PropagationDefinition, StageDefinition, TaskDefinition,
    TransitionDefinition, WorkflowDefinition,
};
pub use workflow::{Prerequisite, Stage, Task, Transition, Workflow};
