//! JSON Schemas from untrusted sources: the work of a validation is limited, whatever the schema and the value.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use turntree::agents::types::Structure;
use turntree::core::json::RawJson;

/// Time limit of a debug build; without a budget these validations take from seconds to years.
const TIME_LIMIT: Duration = Duration::from_secs(20);

fn structure(schema: &Value) -> Structure {
    Structure::new(&Arc::new(RawJson::from_value(schema).unwrap()))
}

/// The structure of an object with the member `x`.
fn of_x(schema: &Value, definitions: &Value) -> Structure {
    structure(&json!({ "type": "object", "properties": { "x": schema }, "$defs": definitions }))
}

fn refusal(structure: &Structure) -> String {
    structure.check_schema("host").unwrap_err().message
}

fn rules(structure: &Structure, value: &Value) -> Vec<String> {
    let violations = structure.violations(&RawJson::from_value(value).unwrap());
    violations.into_iter().map(|violation| violation.rule).collect()
}

/// Definitions `a0`, `a1`, …: each applies the next one twice.
fn doubling(keyword: &str, levels: usize) -> Value {
    let mut definitions = json!({});
    for level in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
        definitions[format!("a{level}")] = json!({ keyword: [next, next] });
    }
    definitions[format!("a{levels}")] = json!({ "type": "string" });
    definitions
}

fn nested(levels: usize, innermost: Value, around: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(innermost, |value, _| around(value))
}

#[test]
fn schemas_that_are_too_expensive_for_every_value_are_refused_with_the_place() {
    let started = Instant::now();
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let message = refusal(&of_x(&json!({ "$ref": "#/$defs/a0" }), &doubling(keyword, 40)));
        assert!(message.contains("/$defs/a0: validation takes more than"), "{message}");
    }
    let unevaluated = nested(
        24,
        json!({ "properties": { "a": true } }),
        |schema| json!({ "anyOf": [schema], "unevaluatedProperties": false }),
    );
    let message = refusal(&of_x(&unevaluated, &json!({})));
    assert!(message.contains("/properties/x: validation takes more than"), "{message}");
    assert!(started.elapsed() < TIME_LIMIT, "{:?}", started.elapsed());
}

#[test]
fn schemas_that_are_too_expensive_to_compile_are_refused() {
    let started = Instant::now();
    let many = |count: usize, schema: &dyn Fn(usize) -> Value| {
        (0..count).map(|index| (format!("d{index}"), schema(index))).collect::<serde_json::Map<_, _>>()
    };
    let scopes = many(10, &|index| {
        let all = (0..10).map(|other| json!({ "$ref": format!("s{other}") }));
        json!({ "$id": format!("http://host/s{index}"), "properties": { "y": { "anyOf": all.collect::<Vec<_>>() } } })
    });
    let patterns = many(200, &|index| json!({ "pattern": format!("^\\p{{L}}{{1,{}}}$", index + 1) }));
    let chain = many(2_000, &|index| json!({ "$ref": format!("#/$defs/d{}", index + 1) }));
    let subschemas = many(20_000, &|_| json!({ "properties": {} }));
    for (definitions, reason) in [
        (scopes, "subschemas with an $id"),
        (patterns, "different patterns"),
        (chain, "subschemas apply to one value"),
        (subschemas, "more than 10000 subschemas"),
    ] {
        let all: serde_json::Map<_, _> = definitions
            .keys()
            .map(|name| (name.clone(), json!({ "$ref": format!("#/$defs/{name}") })))
            .collect();
        let message = refusal(&of_x(&json!({ "properties": all }), &Value::Object(definitions)));
        assert!(message.contains(reason), "{message}");
    }
    let large = refusal(&of_x(&json!({ "pattern": "^(a{1000}){1000}$" }), &json!({})));
    assert!(large.contains("(a{1000}){1000}"), "{large}");
    assert!(started.elapsed() < TIME_LIMIT, "{:?}", started.elapsed());
}

#[test]
fn references_that_never_reach_a_part_of_the_value_are_refused() {
    let one = json!({ "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [{ "$ref": "#/$defs/a" }] } });
    let message = refusal(&of_x(&json!({ "$ref": "#/$defs/a" }), &one));
    assert!(message.contains("refers to itself for the same value"), "{message}");
}

#[test]
fn recursive_values_are_validated_within_the_budget() {
    let started = Instant::now();
    let branch = |required: &str| json!({ "type": "object", "properties": { "c": { "$ref": "#/$defs/n" } }, "required": [required] });
    let tree =
        of_x(&json!({ "$ref": "#/$defs/n" }), &json!({ "n": { "anyOf": [branch("y"), branch("z")] } }));
    tree.check_schema("host").unwrap();

    let valid = nested(60, json!({ "y": 1 }), |value| json!({ "c": value, "z": 1 }));
    let invalid = nested(60, json!({}), |value| json!({ "c": value, "z": 1 }));
    let shallow = nested(3, json!({}), |value| json!({ "c": value, "z": 1 }));

    assert_eq!(rules(&tree, &json!({ "x": valid })), [""; 0]);
    assert_eq!(rules(&tree, &json!({ "x": invalid })), ["budget"]);
    assert_eq!(rules(&tree, &json!({ "x": shallow })), ["anyOf"]);
    assert!(started.elapsed() < TIME_LIMIT, "{:?}", started.elapsed());
}

#[test]
fn usual_keywords_are_linear_and_within_the_budget() {
    let started = Instant::now();
    let options: Vec<Value> = (0..2_000).map(|index| json!({ "a": index })).collect();
    let numbers: Vec<Value> = (0..20_000).map(|index| json!({ "b": index })).collect();
    let names: Vec<String> = (0..500).map(|index| format!("r{index}")).collect();
    let long = "a".repeat(100_000);
    for (schema, value, expected) in [
        (json!({ "items": { "enum": options } }), json!(numbers[..500]), "enum"),
        (json!({ "uniqueItems": true, "maxItems": 1 }), json!(numbers[..5_000]), "maxItems"),
        (json!({ "pattern": "^(a+)+$" }), json!(format!("{long}b")), "pattern"),
        (json!({ "type": "object", "required": names }), json!({ "y": long }), "required"),
    ] {
        let found = rules(&of_x(&schema, &json!({})), &json!({ "x": value }));
        assert!(found.iter().all(|rule| rule == expected) && !found.is_empty(), "{expected}: {found:?}");
    }
    let colliding: Vec<Value> = (0..20_000).map(|_| json!([[], []])).collect();
    assert_eq!(
        rules(&of_x(&json!({ "uniqueItems": true }), &json!({})), &json!({ "x": colliding })),
        ["budget"]
    );
    let backtracking = of_x(&json!({ "pattern": "^(?=(a+)+$)x" }), &json!({}));
    assert_eq!(rules(&backtracking, &json!({ "x": format!("{}b", "a".repeat(50_000)) })).len(), 1);
    assert!(started.elapsed() < TIME_LIMIT, "{:?}", started.elapsed());
}

#[test]
fn deep_schemas_and_values_fit_the_stack_of_every_thread() {
    let work = || {
        let schema =
            nested(25, json!({ "type": "string" }), |schema| json!({ "items": { "anyOf": [schema] } }));
        let value = nested(120, json!(1), |value| json!([value]));
        let chain: serde_json::Map<_, _> = (0..900)
            .map(|index| (format!("d{index}"), json!({ "$ref": format!("#/$defs/d{}", index + 1) })))
            .chain([("d900".to_owned(), json!({ "type": "string" }))])
            .collect();
        let chained = of_x(&json!({ "$ref": "#/$defs/d0" }), &Value::Object(chain));
        (rules(&of_x(&schema, &json!({})), &json!({ "x": value })), rules(&chained, &json!({ "x": 1 })))
    };
    let found = thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
    assert_eq!(found, (vec!["anyOf".to_owned()], vec!["type".to_owned()]));
}
