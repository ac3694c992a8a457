//! Structured output as vendors enforce it: closed schemas, the caller's choice, and how the output is read.

use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use turntree::upp::dialect::Dialect;
use turntree::upp::http_model::HttpModel;
use turntree::upp::providers::anthropic::anthropic;
use turntree::upp::providers::cerebras::cerebras;
use turntree::upp::providers::openai::openai;
use turntree::upp::providers::openai_chat::openai_chat;
use turntree::upp::structured_output::{SchemaRules, closed, without_placeholders};
use turntree::upp::{ErrorCode, Model, ModelResponse, ProviderConfig, UppError};

use crate::support::dialect::{hello, raw, with_params, with_structure};
use crate::support::server::{Server, json};

const TRIP: &str = r##"{"type":"object","title":"Trip","properties":{
    "city":{"$ref":"#/$defs/City","description":"Where to."},
    "stops":{"type":"array","items":{"$ref":"#/$defs/City"},"default":[]},
    "pay":{"oneOf":[{"$ref":"#/$defs/Card"},{"$ref":"#/$defs/Cash"}],"discriminator":{"propertyName":"kind"}},
    "days":{"type":"integer","minimum":1,"default":3},
    "note":{"anyOf":[{"type":"string","minLength":2},{"type":"null"}],"default":null}},
    "required":["city","pay"],
    "$defs":{
        "City":{"type":"object","properties":{"name":{"type":"string","maxLength":9},"zip":{"type":"string","default":""}},"required":["name"]},
        "Card":{"type":"object","properties":{"kind":{"const":"card"},"number":{"type":"string","format":"credit"}},"required":["kind","number"]},
        "Cash":{"type":"object","properties":{"kind":{"const":"cash"},"tip":{"type":"integer","default":0}},"required":["kind"]}}}"##;

fn closed_by(schema: &str, rules: &SchemaRules) -> String {
    match closed(&raw(schema), rules) {
        Ok(schema) => schema.to_string(),
        Err(open) => open.to_string(),
    }
}

fn output(schema: &str, output: &str) -> String {
    let read = without_placeholders(&raw(schema), &raw(output));
    read.unwrap_or_else(|| raw(output)).to_string()
}

/// Calls a model once, and returns the body of its request.
async fn asked(
    dialect: impl Dialect,
    model_id: &str,
    strict: Option<bool>,
    reply: &str,
) -> (serde_json::Value, Result<ModelResponse, UppError>) {
    let server = Server::start([json(reply)]).await;
    let config = ProviderConfig::default()
        .with_base_url(server.url("/v1"))
        .with_key("sk-very-secret-0123456789")
        .with_timeout(Duration::from_secs(60));
    let config = ProviderConfig { strict_schemas: strict, ..config };
    let model = HttpModel::new(Arc::new(dialect), model_id, config);
    let request = with_params(with_structure(hello(), TRIP), r#"{"output_config":{"effort":"low"}}"#);
    let response = model.complete(request).await;
    let requests = server.requests();
    let body = requests.first().map(|request| serde_json::from_slice(&request.body).unwrap());
    (body.unwrap_or_default(), response)
}

fn completion(text: &str) -> String {
    let text = serde_json::Value::from(text);
    format!(
        r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":{text}}},"finish_reason":"stop"}}]}}"#
    )
}

#[test]
fn every_object_is_closed_and_every_member_required() {
    assert_snapshot!(closed_by(TRIP, &SchemaRules::OPENAI), @r##"{"title":"Trip","type":"object","properties":{"city":{"description":"Where to.","type":"object","properties":{"name":{"description":"maxLength: 9","type":"string"},"zip":{"description":"null: the default, \"\"","anyOf":[{"type":"string"},{"type":"null"}]}},"required":["name","zip"],"additionalProperties":false},"stops":{"description":"null: the default, []","anyOf":[{"type":"array","items":{"$ref":"#/$defs/City"}},{"type":"null"}]},"pay":{"anyOf":[{"$ref":"#/$defs/Card"},{"$ref":"#/$defs/Cash"}]},"days":{"description":"null: the default, 3","anyOf":[{"minimum":1,"type":"integer"},{"type":"null"}]},"note":{"anyOf":[{"description":"minLength: 2","type":"string"},{"type":"null"}]}},"required":["city","stops","pay","days","note"],"additionalProperties":false,"$defs":{"City":{"type":"object","properties":{"name":{"description":"maxLength: 9","type":"string"},"zip":{"description":"null: the default, \"\"","anyOf":[{"type":"string"},{"type":"null"}]}},"required":["name","zip"],"additionalProperties":false},"Card":{"type":"object","properties":{"kind":{"type":"string","const":"card"},"number":{"description":"format: \"credit\"","type":"string"}},"required":["kind","number"],"additionalProperties":false},"Cash":{"type":"object","properties":{"kind":{"type":"string","const":"cash"},"tip":{"description":"null: the default, 0","anyOf":[{"type":"integer"},{"type":"null"}]}},"required":["kind","tip"],"additionalProperties":false}}}"##);
}

#[test]
fn anthropic_keeps_optional_members_and_describes_other_constraints() {
    assert_snapshot!(closed_by(TRIP, &SchemaRules::ANTHROPIC), @r##"{"title":"Trip","type":"object","properties":{"city":{"description":"Where to.","type":"object","properties":{"name":{"description":"maxLength: 9","type":"string"},"zip":{"type":"string"}},"required":["name"],"additionalProperties":false},"stops":{"type":"array","items":{"$ref":"#/$defs/City"}},"pay":{"anyOf":[{"$ref":"#/$defs/Card"},{"$ref":"#/$defs/Cash"}]},"days":{"description":"minimum: 1","type":"integer"},"note":{"anyOf":[{"description":"minLength: 2","type":"string"},{"type":"null"}]}},"required":["city","pay"],"additionalProperties":false,"$defs":{"City":{"type":"object","properties":{"name":{"description":"maxLength: 9","type":"string"},"zip":{"type":"string"}},"required":["name"],"additionalProperties":false},"Card":{"type":"object","properties":{"kind":{"type":"string","const":"card"},"number":{"description":"format: \"credit\"","type":"string"}},"required":["kind","number"],"additionalProperties":false},"Cash":{"type":"object","properties":{"kind":{"type":"string","const":"cash"},"tip":{"type":"integer"}},"required":["kind"],"additionalProperties":false}}}"##);
}

#[test]
fn a_type_that_allows_unnamed_members_or_any_value_names_the_place() {
    let open = |member: &str| {
        closed_by(
            &format!(r#"{{"type":"object","properties":{{"a":{member}}},"required":["a"]}}"#),
            &SchemaRules::OPENAI,
        )
    };
    assert_eq!(
        open(r#"{"type":"object","additionalProperties":{"type":"integer"}}"#),
        "/properties/a allows members without a name"
    );
    assert_eq!(open(r#"{"type":"object"}"#), "/properties/a allows members without a name");
    assert_eq!(open("{}"), "/properties/a allows any value");
    assert_eq!(open(r#"{"type":"array"}"#), "/properties/a is a list of any values");
    assert_eq!(open(r#"{"type":"array","items":{"title":"Any"}}"#), "/properties/a/items allows any value");
    assert_eq!(open(r##"{"$ref":"#/$defs/Missing"}"##), "/properties/a refers to another document");
}

#[test]
fn a_type_that_contains_itself_is_enforced_where_the_vendor_can() {
    let tree = r##"{"type":"object","properties":{"root":{"$ref":"#/$defs/Node"}},"required":["root"],"$defs":{"Node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/Node"}},"parent":{"$ref":"#/$defs/Node","description":"Up."}},"required":["children","parent"]}}}"##;

    assert_eq!(closed_by(tree, &SchemaRules::ANTHROPIC), "the schema contains itself");
    assert_snapshot!(closed_by(tree, &SchemaRules::OPENAI), @r##"{"type":"object","properties":{"root":{"$ref":"#/$defs/Node"}},"required":["root"],"additionalProperties":false,"$defs":{"Node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/Node"}},"parent":{"description":"Up.","type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/Node"}},"parent":{"description":"Up.","anyOf":[{"$ref":"#/$defs/Node"}]}},"required":["children","parent"],"additionalProperties":false}},"required":["children","parent"],"additionalProperties":false}}}"##);
}

#[test]
fn parts_of_all_of_tuples_and_constants_become_forms_that_vendors_know() {
    let schema = r##"{"type":"object","properties":{
        "both":{"allOf":[{"$ref":"#/$defs/A"},{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}]},
        "one":{"allOf":[{"$ref":"#/$defs/A"}],"description":"Alone.","default":null},
        "pair":{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":2,"maxItems":2},
        "kind":{"enum":["x",1]},
        "money":{"type":"string","pattern":"^(?!x)"}},
        "required":["both","one","pair","kind","money"],
        "$defs":{"A":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}}"##;

    assert_snapshot!(closed_by(schema, &SchemaRules::OPENAI), @r#"{"type":"object","properties":{"both":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false},"one":{"description":"Alone.","type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false},"pair":{"minItems":2,"maxItems":2,"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"string"}]}},"kind":{"type":["string","integer"],"enum":["x",1]},"money":{"description":"pattern: \"^(?!x)\"","type":"string"}},"required":["both","one","pair","kind","money"],"additionalProperties":false,"$defs":{"A":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}}}"#);
}

#[test]
fn nulls_for_members_that_were_left_out_are_removed() {
    let given = r#"{"city":{"name":"Oslo","zip":null},"stops":[{"name":"Bergen","zip":null},{"name":"Voss","zip":"57"}],"pay":{"kind":"cash","tip":null},"days":null,"note":null}"#;

    assert_eq!(
        output(TRIP, given),
        r#"{"city":{"name":"Oslo"},"stops":[{"name":"Bergen"},{"name":"Voss","zip":"57"}],"pay":{"kind":"cash"},"note":null}"#
    );
    assert_eq!(output(TRIP, r#"{"text":null}"#), r#"{"text":null}"#);
    // Required members stay, so that the validation reports them.
    assert_eq!(output(TRIP, r#"{"city":null}"#), r#"{"city":null}"#);
}

#[tokio::test]
async fn a_request_has_the_closed_schema_and_the_output_the_callers() {
    let text = r#"{"city":{"name":"Oslo","zip":null},"stops":null,"pay":{"kind":"cash","tip":null},"days":null,"note":null}"#;

    let (body, response) = asked(openai_chat(), "gpt-5", None, &completion(text)).await;

    let form = &body["response_format"]["json_schema"];
    assert_eq!(form["strict"], true);
    assert_eq!(form["schema"]["$defs"]["City"]["additionalProperties"], false);
    assert_eq!(form["schema"]["required"].as_array().unwrap().len(), 5);
    let response = response.unwrap();
    assert_eq!(response.data.unwrap().get(), r#"{"city":{"name":"Oslo"},"pay":{"kind":"cash"},"note":null}"#);
    assert_eq!(response.message.text(), text);
}

#[tokio::test]
async fn the_caller_can_send_the_schema_unchanged() {
    let (body, _) = asked(openai_chat(), "gpt-5", Some(false), &completion("{}")).await;

    let form = &body["response_format"]["json_schema"];
    assert_eq!(form["strict"], false);
    assert_eq!(form["schema"], serde_json::from_str::<serde_json::Value>(TRIP).unwrap());
    let (body, _) = asked(openai(), "gpt-5", Some(false), "{}").await;
    assert_eq!(body["text"]["format"]["strict"], false);
}

#[tokio::test]
async fn the_caller_can_refuse_a_schema_that_cannot_be_enforced() {
    let dialect: Arc<dyn Dialect> = Arc::new(openai_chat());
    let config =
        ProviderConfig { strict_schemas: Some(true), ..ProviderConfig::default().with_key("sk-key") };
    let model = HttpModel::new(dialect, "gpt-5", config);

    let open = r#"{"type":"object","properties":{"tags":{"type":"object","additionalProperties":{"type":"string"}}}}"#;
    let error = model.complete(with_structure(hello(), open)).await.unwrap_err();

    assert_eq!(error.code, ErrorCode::InvalidRequest);
    assert_snapshot!(error.message, @"structure: openai cannot enforce this schema: /properties/tags allows members without a name; use a type with named members, or leave strict_schemas out to send the schema without enforcement");
}

#[tokio::test]
async fn anthropic_models_that_enforce_schemas_get_them_as_output_config() {
    let reply = r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"{\"city\":{\"name\":\"Oslo\"},\"pay\":{\"kind\":\"cash\"}}"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    let no_betas: &[&str] = &[];
    for native in [
        "claude-sonnet-4-5-20250929",
        "claude-opus-4-5",
        "claude-haiku-4-5",
        "claude-opus-5",
        "claude-sonnet-4.6",
    ] {
        let dialect = anthropic(no_betas, &ProviderConfig::default());
        let (body, response) = asked(dialect, native, None, reply).await;
        assert_eq!(body["output_config"]["format"]["type"], "json_schema", "{native}");
        assert_eq!(body["output_config"]["effort"], "low");
        assert_eq!(body.get("tools"), None);
        assert_eq!(
            response.unwrap().data.unwrap().get(),
            r#"{"city":{"name":"Oslo"},"pay":{"kind":"cash"}}"#
        );
    }
    for older in ["claude-sonnet-4-20250514", "claude-opus-4-1", "claude-3-7-sonnet-latest", "another"] {
        let dialect = anthropic(no_betas, &ProviderConfig::default());
        let (body, _) = asked(dialect, older, None, reply).await;
        assert_eq!(body["tools"][0]["name"], "json_response", "{older}");
        assert_eq!(body["output_config"], serde_json::json!({"effort": "low"}));
    }
}

#[tokio::test]
async fn cerebras_gets_no_constraints_of_texts_and_lists() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","format":"date"},"minItems":1}},"required":["a"]}"#;

    assert_snapshot!(closed_by(schema, &SchemaRules::CEREBRAS), @r#"{"type":"object","properties":{"a":{"description":"minItems: 1","type":"array","items":{"description":"format: \"date\"","type":"string"}}},"required":["a"],"additionalProperties":false}"#);
    let (body, _) = asked(cerebras(), "gpt-oss-120b", None, &completion("{}")).await;
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
}
