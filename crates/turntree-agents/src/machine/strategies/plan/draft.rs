//! Reads a plan that a model wrote: JSON Schema, validation and order of the steps.
//!
//! Spec: UAP-1.0 §5.4; decisions A27, A31, A33–A35

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use serde_json::json;

use crate::types::plan_step::{PlanStatus, PlanStep};
use crate::types::structure::{Structure, Violation};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::ToolDefinition;

/// The default JSON Schema of a plan.
///
/// All members are required and no others are allowed, because the strict modes of vendors require this.
pub(super) fn default_schema(tools: &[ToolDefinition], max_plan_steps: u32) -> RawJson {
    let mut members = json!({
        "id": { "type": "string", "description": "Unique in the plan, as \"read-files\"." },
        "description": { "type": "string", "description": "What the step does." },
        "dependsOn": {
            "type": "array",
            "items": { "type": "string" },
            "description": "The ids of the steps that must be done before.",
        },
    });
    let mut required = vec!["id", "description", "dependsOn"];
    if !tools.is_empty() {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let named = json!([{ "type": "string", "enum": names }, { "type": "null" }]);
        let tool = json!({ "anyOf": named, "description": "The tool to do it with, or null." });
        if let Some(members) = members.as_object_mut() {
            members.insert("tool".to_owned(), tool);
        }
        required.push("tool");
    }
    let step = json!({
        "type": "object",
        "properties": members,
        "required": required,
        "additionalProperties": false,
    });
    let schema = json!({
        "type": "object",
        "properties": { "steps": { "type": "array", "maxItems": max_plan_steps, "items": step } },
        "required": ["steps"],
        "additionalProperties": false,
    });
    RawJson::from_value(&schema).unwrap_or_default()
}

/// The rules for validating a plan.
pub(super) struct PlanRules<'a> {
    /// The application's own schema. The default schema is not checked, because the other rules imply it.
    pub(super) schema: Option<&'a Structure>,
    pub(super) tools: &'a [ToolDefinition],
    /// Completed and failed steps of earlier plans.
    pub(super) over: &'a [&'a PlanStep],
    /// Maximum number of steps. After ordering, further steps are dropped.
    pub(super) room: usize,
}

#[derive(Deserialize)]
struct Draft {
    steps: Vec<RawJson>,
}

/// Reads a plan and orders its steps by their dependencies. Otherwise the plan's own order is preserved.
///
/// # Errors
/// All violations, with their paths.
pub(super) fn read(data: Option<&RawJson>, rules: &PlanRules<'_>) -> Result<Vec<PlanStep>, Vec<Violation>> {
    let Some(data) = data else { return Err(vec![Violation::no_json()]) };
    let broken = rules.schema.map(|schema| schema.violations(data)).unwrap_or_default();
    if !broken.is_empty() {
        return Err(broken);
    }
    let draft: Draft = data.to().map_err(|_| {
        vec![Violation::new("/steps", "type", "expected a list of steps; a plan is {\"steps\": […]}")]
    })?;
    let mut violations = Vec::new();
    let read = draft.steps.iter().enumerate();
    let steps: Vec<PlanStep> =
        read.filter_map(|(place, step)| read_step(step, place, &mut violations)).collect();
    if !violations.is_empty() {
        return Err(violations);
    }
    check(&steps, rules, &mut violations);
    if !violations.is_empty() {
        return Err(violations);
    }
    let mut ordered = in_order(steps)?;
    ordered.truncate(rules.room);
    Ok(ordered)
}

fn read_step(raw: &RawJson, place: usize, violations: &mut Vec<Violation>) -> Option<PlanStep> {
    let mut wrong = |member: &str, words: &str| {
        violations.push(Violation::new(format!("/steps/{place}{member}"), "type", words));
    };
    let Some(mut step) = RawObject::from_raw(raw) else {
        wrong("", "expected an object");
        return None;
    };
    let text = |value: Option<RawJson>| value.as_ref().and_then(RawJson::as_string);
    let id = text(step.remove("id")).filter(|id| !id.is_empty());
    if id.is_none() {
        wrong("/id", "a step needs an id: a string that is not empty");
    }
    let description = text(step.remove("description"));
    if description.is_none() {
        wrong("/description", "a step needs a description: a string");
    }
    let tool = step.remove("tool").filter(|tool| !tool.is_null());
    let named = tool.as_ref().and_then(RawJson::as_string);
    if tool.is_some() && named.is_none() {
        wrong("/tool", "expected the name of a tool, or null");
    }
    let depends_on = match step.remove("dependsOn").filter(|ids| !ids.is_null()) {
        None => Some(Vec::new()),
        Some(ids) => ids.to().ok(),
    };
    if depends_on.is_none() {
        wrong("/dependsOn", "expected a list of ids");
    }
    // The model does not set the status of a step.
    step.remove("status");
    let mut extra = Extra::new();
    for (key, value) in step.iter() {
        extra.insert(key, value.clone());
    }
    let tool = named.filter(|name| !name.is_empty());
    let (id, description, depends_on) = (id?, description?, depends_on?);
    Some(PlanStep { id, description, tool, depends_on, status: PlanStatus::Pending, extra })
}

/// Checks that ids are unique, and that dependencies and tools exist.
fn check(steps: &[PlanStep], rules: &PlanRules<'_>, violations: &mut Vec<Violation>) {
    let over: HashMap<&str, PlanStatus> = rules.over.iter().map(|step| (&*step.id, step.status)).collect();
    let planned: HashSet<&str> = steps.iter().map(|step| &*step.id).collect();
    let tools: HashSet<&str> = rules.tools.iter().map(|tool| &*tool.name).collect();
    let mut seen = HashSet::with_capacity(steps.len());
    for (place, step) in steps.iter().enumerate() {
        let mut wrong = |member: String, rule: &str, words: &str| {
            violations.push(Violation::new(format!("/steps/{place}/{member}"), rule, words));
        };
        let id = step.id.as_str();
        if over.contains_key(id) {
            wrong(
                "id".to_owned(),
                "unique",
                &format!("\"{id}\" is the id of a step that has ended; use another id"),
            );
        } else if !seen.insert(id) {
            wrong("id".to_owned(), "unique", &format!("\"{id}\" is also the id of another step"));
        }
        for (number, needed) in step.depends_on.iter().enumerate() {
            let member = format!("dependsOn/{number}");
            match over.get(needed.as_str()) {
                Some(PlanStatus::Failed) => {
                    wrong(
                        member,
                        "dependency",
                        &format!("\"{needed}\" has failed; no step can depend on it"),
                    );
                }
                None if !planned.contains(needed.as_str()) => {
                    wrong(member, "dependency", &format!("no step has the id \"{needed}\""));
                }
                _ => {}
            }
        }
        if let Some(tool) = step.tool.as_deref().filter(|tool| !tools.contains(tool)) {
            wrong("tool".to_owned(), "tool", &format!("no tool has the name \"{tool}\""));
        }
    }
}

/// Sorts topologically. Among the steps that are ready, the first in the plan comes first.
fn in_order(steps: Vec<PlanStep>) -> Result<Vec<PlanStep>, Vec<Violation>> {
    let places: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(place, step)| (&*step.id, place)).collect();
    let mut waits_for = vec![0_usize; steps.len()];
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (place, (step, open)) in steps.iter().zip(&mut waits_for).enumerate() {
        let needed: BTreeSet<usize> =
            step.depends_on.iter().filter_map(|id| places.get(&**id).copied()).collect();
        *open = needed.len();
        for other in needed {
            if let Some(waiting) = waiting.get_mut(other) {
                waiting.push(place);
            }
        }
    }
    let free = waits_for.iter().enumerate().filter(|(_, open)| **open == 0);
    let mut ready: BTreeSet<usize> = free.map(|(place, _)| place).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(place) = ready.pop_first() {
        order.push(place);
        for next in waiting.get_mut(place).map(std::mem::take).unwrap_or_default() {
            if let Some(open) = waits_for.get_mut(next) {
                *open -= 1;
                if *open == 0 {
                    ready.insert(next);
                }
            }
        }
    }
    drop(places);
    let mut steps: Vec<Option<PlanStep>> = steps.into_iter().map(Some).collect();
    let ordered: Vec<PlanStep> =
        order.into_iter().filter_map(|place| steps.get_mut(place).and_then(Option::take)).collect();
    let stuck: Vec<String> = steps.into_iter().flatten().map(|step| format!("\"{}\"", step.id)).collect();
    if stuck.is_empty() {
        return Ok(ordered);
    }
    let message = format!("these steps depend on each other, directly or indirectly: {}", stuck.join(", "));
    Err(vec![Violation::new("/steps", "acyclic", &message)])
}
