//! The checks of a definition: names first, then the graph of the stages.

use std::collections::HashSet;

use super::error::DefinitionError;
use super::types::{StageDefinition, WorkflowDefinition};
use super::workflow::{Workflow, contains_path};
use crate::state::MAX_KEY;

/// Names of tasks that clients use for actions of the protocol.
pub(crate) const RESERVED_TASKS: [&str; 4] =
    ["transition_stage", "provide_state", "terminate_session", "handshake"];

/// Maximum number of stages, and of tasks in a stage.
const MAX_COUNT: usize = 256;

/// Maximum length of the name of a workflow or a stage, in characters.
const MAX_NAME: usize = 100;

/// Maximum length of the name of a task, in characters. Vendors of models have the same limit for tools.
const MAX_TASK_NAME: usize = 64;

/// Checks everything that needs no compiled schema.
pub(super) fn check_names(definition: &WorkflowDefinition) -> Result<(), DefinitionError> {
    let workflow = &definition.name;
    check_name("workflow", workflow)?;
    let place = format!("workflow \"{workflow}\"");
    if definition.stages.is_empty() {
        return Err(DefinitionError::NoStages { workflow: workflow.clone() });
    }
    check_count(&place, "stages", definition.stages.len())?;
    let names = definition.stages.iter().map(|stage| stage.name.as_str());
    check_unique(&place, "stages", names)?;
    for stage in &definition.stages {
        check_stage(workflow, stage)?;
    }
    let mut initial = definition.stages.iter().filter(|stage| stage.initial);
    if let (Some(first), Some(second)) = (initial.next(), initial.next()) {
        let (first, second) = (first.name.clone(), second.name.clone());
        return Err(DefinitionError::TwoInitialStages { workflow: workflow.clone(), first, second });
    }
    for key in definition.private.iter().chain(&definition.agent_writable) {
        check_key(&place, key)?;
    }
    check_transitions(definition)?;
    check_declarations(definition)
}

fn check_stage(workflow: &str, stage: &StageDefinition) -> Result<(), DefinitionError> {
    let place = format!("stage of workflow \"{workflow}\"");
    check_name(&place, &stage.name)?;
    let place = format!("stage \"{}\" of workflow \"{workflow}\"", stage.name);
    check_count(&place, "tasks", stage.tasks.len())?;
    check_unique(&place, "tasks", stage.tasks.iter().map(|task| task.name.as_str()))?;
    for task in &stage.tasks {
        let name = &task.name;
        if RESERVED_TASKS.contains(&name.as_str()) {
            return Err(DefinitionError::ReservedName { place, name: name.clone() });
        }
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        if name.is_empty() || name.len() > MAX_TASK_NAME || !name.chars().all(is_allowed) {
            let rule = "the name of a task has 1 to 64 letters (a to z), digits, \"_\" and \"-\"";
            return Err(DefinitionError::Name { place, name: name.clone(), rule });
        }
    }
    Ok(())
}

fn check_name(place: &str, name: &str) -> Result<(), DefinitionError> {
    let is_printable = |letter: char| !letter.is_control() && letter != '/';
    if !name.trim().is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(is_printable) {
        return Ok(());
    }
    let rule = "a name has 1 to 100 printable characters, without \"/\"";
    Err(DefinitionError::Name { place: place.to_owned(), name: name.to_owned(), rule })
}

fn check_key(place: &str, key: &str) -> Result<(), DefinitionError> {
    if !key.is_empty() && key.len() <= MAX_KEY {
        return Ok(());
    }
    let rule = "a key of the state has 1 to 512 bytes";
    Err(DefinitionError::Name { place: place.to_owned(), name: key.chars().take(MAX_NAME).collect(), rule })
}

fn check_count(place: &str, kind: &str, count: usize) -> Result<(), DefinitionError> {
    if count <= MAX_COUNT {
        return Ok(());
    }
    let reason = format!("it has {count} {kind}, more than the limit of {MAX_COUNT}; split it");
    Err(DefinitionError::Limit { place: place.to_owned(), reason })
}

fn check_unique<'n>(
    place: &str,
    kind: &'static str,
    names: impl Iterator<Item = &'n str>,
) -> Result<(), DefinitionError> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(DefinitionError::Duplicate { place: place.to_owned(), kind, name: name.to_owned() });
        }
    }
    Ok(())
}

fn check_transitions(definition: &WorkflowDefinition) -> Result<(), DefinitionError> {
    let workflow = &definition.name;
    let stages: HashSet<&str> = definition.stages.iter().map(|stage| stage.name.as_str()).collect();
    let mut seen = HashSet::new();
    for transition in &definition.transitions {
        let (from, to) = (&transition.from, &transition.to);
        if let Some(unknown) = [from, to].into_iter().find(|name| !stages.contains(name.as_str())) {
            let names: Vec<&str> = definition.stages.iter().map(|stage| stage.name.as_str()).collect();
            return Err(DefinitionError::UnknownStage {
                workflow: workflow.clone(),
                from: from.clone(),
                to: to.clone(),
                unknown: unknown.clone(),
                known: names.join(", "),
            });
        }
        if !seen.insert((from.as_str(), to.as_str())) {
            let place = format!("workflow \"{workflow}\"");
            let name = format!("{from} to {to}");
            return Err(DefinitionError::Duplicate { place, kind: "transitions", name });
        }
    }
    for rule in definition.state_management.iter().flatten() {
        if !seen.contains(&(rule.from.as_str(), rule.to.as_str())) {
            return Err(DefinitionError::PropagationWithoutTransition {
                workflow: workflow.clone(),
                from: rule.from.clone(),
                to: rule.to.clone(),
            });
        }
    }
    Ok(())
}

fn check_declarations(definition: &WorkflowDefinition) -> Result<(), DefinitionError> {
    for key in &definition.agent_writable {
        let private = definition.private.iter();
        let mut private = private.filter(|name| contains_path(name, key) || contains_path(key, name));
        if let Some(private) = private.next() {
            return Err(DefinitionError::PrivateAndWritable {
                workflow: definition.name.clone(),
                key: key.clone(),
                private: private.clone(),
            });
        }
    }
    Ok(())
}

/// Checks that every stage can be reached, and that its prerequisites can be met.
pub(super) fn check_graph(workflow: &Workflow) -> Result<(), DefinitionError> {
    let name = || workflow.name().to_owned();
    let reachable = reachable_without(workflow, None);
    let unreachable: Vec<String> = workflow
        .stages()
        .iter()
        .filter(|stage| !reachable.contains(stage.name.as_str()))
        .map(|stage| format!("\"{}\"", stage.name))
        .collect();
    if !unreachable.is_empty() {
        let (stages, initial) = (unreachable.join(", "), workflow.initial_stage().to_owned());
        return Err(DefinitionError::UnreachableStages { workflow: name(), stages, initial });
    }
    let initial = workflow.stage(workflow.initial_stage());
    if let Some(stage) = initial.filter(|stage| !stage.prerequisites.is_empty()) {
        return Err(DefinitionError::InitialPrerequisites { workflow: name(), stage: stage.name.clone() });
    }
    if workflow.require_terminal() && !workflow.stages().iter().any(super::Stage::is_terminal) {
        return Err(DefinitionError::NoTerminalStage { workflow: name() });
    }
    check_prerequisites(workflow)
}

/// A private key can be a prerequisite only if something may write it before the stage is entered.
fn check_prerequisites(workflow: &Workflow) -> Result<(), DefinitionError> {
    let all_tasks = || workflow.stages().iter().flat_map(|stage| &stage.tasks);
    // What hooks write is not declared either.
    let has_hooks = workflow.stages().iter().any(|stage| stage.on_enter || stage.on_exit);
    if has_hooks || all_tasks().any(|task| task.writes.is_none()) {
        return Ok(());
    }
    for stage in workflow.stages() {
        let keys = stage.prerequisites.iter().flat_map(super::Prerequisite::required_keys);
        let keys: Vec<&str> = keys.filter(|key| !workflow.is_agent_writable(key)).collect();
        if keys.is_empty() {
            continue;
        }
        let earlier = reachable_without(workflow, Some(&stage.name));
        let tasks = workflow.stages().iter().filter(|stage| earlier.contains(stage.name.as_str()));
        let written: Vec<&String> =
            tasks.flat_map(|stage| &stage.tasks).filter_map(|task| task.writes.as_ref()).flatten().collect();
        if let Some(key) = keys.iter().find(|key| !written.iter().any(|name| contains_path(name, key))) {
            return Err(DefinitionError::UnsatisfiablePrerequisite {
                workflow: workflow.name().to_owned(),
                stage: stage.name.clone(),
                key: (*key).to_owned(),
            });
        }
    }
    Ok(())
}

/// The stages that a session can be in before it enters `excluded` for the first time.
fn reachable_without<'w>(workflow: &'w Workflow, excluded: Option<&str>) -> HashSet<&'w str> {
    let mut found = HashSet::new();
    let mut waiting = vec![workflow.initial_stage()];
    while let Some(name) = waiting.pop() {
        if Some(name) == excluded || !found.insert(name) {
            continue;
        }
        if let Some(stage) = workflow.stage(name) {
            waiting.extend(stage.exits());
        }
    }
    found
}
