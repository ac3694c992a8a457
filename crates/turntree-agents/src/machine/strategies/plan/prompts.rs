//! The prompts of the strategy `plan`.

use std::fmt::Write as _;

use imbl::Vector;

use crate::types::plan_step::{PlanStatus, PlanStep};
use crate::types::structure::Violation;
use turntree_core::message::ToolDefinition;

/// Maximum length of a tool's description in a prompt, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 200;

pub(super) fn plan(room: usize, tools: &[ToolDefinition]) -> String {
    let mut message = format!(
        "Make a plan before you act on the request above: at most {room} steps, each with a short id of its own, what it does, \
         the tool to do it with where one helps, and the ids of the steps that must be done before. Where you can answer \
         right away, plan no steps."
    );
    if !tools.is_empty() {
        message.push_str("\n\nThe tools:");
    }
    for tool in tools {
        let description: String = tool
            .description
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(MAX_DESCRIPTION_LENGTH)
            .collect();
        let _ = write!(message, "\n- {}: {description}", tool.name);
    }
    message
}

pub(super) fn replan(steps: &Vector<PlanStep>, failure: &str, room: usize) -> String {
    let mut message = String::from("A step of the plan has failed.\n");
    for step in steps.iter().filter(|step| step.status != PlanStatus::Pending) {
        let _ = write!(message, "\n- \"{}\" ({}): {}", step.id, step.status.as_str(), step.description);
    }
    let _ = write!(
        message,
        "\n\nWhat went wrong: {failure}\n\nPlan what is still to be done, at most {room} steps. Steps that are completed stay as \
         they are, and others may depend on them; do not plan them again. Give each step an id that is not in the list \
         above. Where nothing is left to be done, plan no steps."
    );
    message
}

pub(super) fn correct(violations: &[Violation]) -> String {
    let found = Violation::list(violations, "\n- ");
    format!("This plan cannot be used:\n- {found}\n\nGive all of it again, corrected.")
}

pub(super) fn work(step: &PlanStep, last: bool) -> String {
    let mut message = format!("Carry out the step \"{}\" of the plan: {}", step.id, step.description);
    if let Some(tool) = &step.tool {
        let _ = write!(message, "\nUse the tool \"{tool}\".");
    }
    if last {
        message.push_str("\nIt is the last step: end with the complete answer to the request.");
    }
    message
}

pub(super) fn answer() -> String {
    "Nothing is left to carry out. Give the complete answer to the request.".to_owned()
}
