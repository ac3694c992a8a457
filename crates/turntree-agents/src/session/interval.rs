//! When a session creates checkpoints, and when it is saved.

use serde::{Deserialize, Serialize};

/// When a session creates checkpoints.
///
/// Spec: UAP-1.0 §6.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointInterval {
    /// After every step.
    #[default]
    Step,
    /// After every successful run.
    Turn,
    /// Never. Such a session cannot be restored to an earlier point.
    Off,
}

/// When a session with persistence is saved during a run. It is always saved at the end of a run.
///
/// With every interval the session is saved before approved or denied calls are executed, and again after each approved
/// call: neither a decision nor its effect is lost. With every interval the event of a checkpoint is sent when the store has
/// the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveInterval {
    /// Only at the end of the run. After a crash, the whole run is repeated, with its tools.
    #[default]
    Turn,
    /// At the start of the run and after every step. After a crash, the step that was running is repeated, with its tools.
    Step,
    /// At the start of the run, after every model response with tool calls, after every tool and after every step. After a
    /// crash, no tool that has returned is called again.
    Tool,
}
