//! A workflow that could not work is refused when it is defined, with a message that says what to change.

use serde_json::{Value, json};

use crate::support::{compile, shop, workflow};

fn refused(definition: Value, text: &str) {
    let message = match compile(definition) {
        Ok(_) => panic!("expected an error with \"{text}\""),
        Err(error) => error.to_string(),
    };
    assert!(message.contains(text), "{message}");
}

/// A definition with one change.
fn shop_with(pointer: &str, value: Value) -> Value {
    let mut definition = shop();
    *definition.pointer_mut(pointer).unwrap() = value;
    definition
}

#[test]
fn d9_a_transition_to_a_stage_that_does_not_exist_is_refused() {
    refused(
        shop_with("/transitions/0/to", json!("basket")),
        "names the unknown stage \"basket\"; the stages are browse, cart",
    );
    refused(shop_with("/transitions/0/from", json!("start")), "names the unknown stage \"start\"");
}

#[test]
fn a7_the_initial_stage_has_no_prerequisites() {
    refused(
        json!({"name": "w", "stages": [{"name": "a", "prerequisites": ["email"]}]}),
        "the initial stage cannot have prerequisites",
    );
}

#[test]
fn a14_the_initial_stage_is_the_marked_one_or_the_first() {
    assert_eq!(workflow(shop()).initial_stage(), "browse");

    let mut definition = json!({"name": "w", "stages": [{"name": "a"}, {"name": "b", "initial": true}],
        "transitions": [{"from": "b", "to": "a"}]});
    assert_eq!(workflow(definition.clone()).initial_stage(), "b");
    definition["stages"][0]["initial"] = json!(true);
    refused(definition, "\"a\" and \"b\" are both initial");
}

#[test]
fn a15_tasks_have_no_names_of_the_protocol() {
    for name in ["transition_stage", "provide_state", "terminate_session", "handshake"] {
        refused(json!({"name": "w", "stages": [{"name": "a", "tasks": [{"name": name}]}]}), "is reserved");
    }
}

#[test]
fn names_that_no_client_could_use_are_refused() {
    let task = |name: &str| json!({"name": "w", "stages": [{"name": "a", "tasks": [{"name": name}]}]});
    refused(task(""), "1 to 64 letters");
    refused(task("add to cart"), "1 to 64 letters");
    refused(task(&"x".repeat(65)), "1 to 64 letters");
    refused(json!({"name": "a/b", "stages": [{"name": "a"}]}), "without \"/\"");
    refused(json!({"name": "", "stages": [{"name": "a"}]}), "invalid name");
    refused(json!({"name": "w", "stages": []}), "it has no stages");
    refused(json!({"name": "w", "stages": [{"name": "a"}, {"name": "a"}]}), "two stages are named \"a\"");
    let twice = json!({"name": "w", "stages": [{"name": "a", "tasks": [{"name": "t"}, {"name": "t"}]}]});
    refused(twice, "two tasks are named \"t\"");
}

#[test]
fn a_stage_that_cannot_be_reached_is_refused() {
    let definition = json!({"name": "w", "stages": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
        "transitions": [{"from": "b", "to": "c"}]});
    refused(definition, "the stages \"b\", \"c\" cannot be reached from the initial stage \"a\"");
}

#[test]
fn a27_a_private_prerequisite_needs_a_task_of_an_earlier_stage_that_writes_it() {
    let definition = |writes: Value, late: Value| {
        json!({"name": "w", "private": ["total"],
            "stages": [
                {"name": "a", "tasks": [{"name": "price", "writes": writes}]},
                {"name": "b", "prerequisites": ["total"], "tasks": [{"name": "late", "writes": late}]}],
            "transitions": [{"from": "a", "to": "b"}]})
    };
    workflow(definition(json!(["total"]), json!([])));
    workflow(definition(Value::Null, json!([])));
    refused(definition(json!(["other"]), json!([])), "the prerequisite \"total\" can never be met");
    refused(definition(json!([]), json!(["total"])), "add \"total\" to `writes` of a task");
}

#[test]
fn contradictions_are_refused() {
    refused(
        json!({"name": "w", "private": ["total"], "agent_writable": ["total"], "stages": [{"name": "a"}]}),
        "is in `agent_writable`, but `private` contains \"total\"",
    );
    refused(
        json!({"name": "w", "require_terminal": true, "stages": [{"name": "a"}],
            "transitions": [{"from": "a", "to": "a"}]}),
        "no session could end",
    );
    refused(
        json!({"name": "w", "stages": [{"name": "a"}],
            "state_management": [{"from": "a", "to": "b", "copies": "all"}]}),
        "there is no such transition",
    );
}

#[test]
fn schemas_are_checked() {
    let task = |parameters: Value| json!({"name": "w", "stages": [{"name": "a", "tasks": [{"name": "t", "parameters": parameters}]}]});
    refused(task(json!({"type": "array"})), "expected the schema of an object");
    refused(task(json!(7)), "expected a JSON Schema as an object");
    refused(task(json!({"properties": {"a": {"type": "text"}}})), "arguments of task \"t\" of stage \"a\"");
}

#[test]
fn arguments_without_a_rule_for_other_names_allow_none() {
    let workflow = workflow(json!({"name": "w", "stages": [{"name": "a", "tasks": [{"name": "t"}]}]}));
    let schema = &workflow.stages()[0].tasks[0].parameters;

    assert_eq!(*schema.value(), json!({"type": "object", "properties": {}, "additionalProperties": false}));
}
