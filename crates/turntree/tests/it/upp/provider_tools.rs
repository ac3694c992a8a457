//! Provider tools beside functions. UPP-1.2 §19.1–19.8.

use serde_json::{Value, json};
use turntree::message::ToolDefinition;
use turntree::upp::dialect::Dialect;
use turntree::upp::providers::anthropic::anthropic;
use turntree::upp::providers::google::google;
use turntree::upp::providers::groq::groq;
use turntree::upp::providers::moonshot::moonshot;
use turntree::upp::providers::openai::openai;
use turntree::upp::providers::openai_chat::openai_chat;
use turntree::upp::providers::openrouter::openrouter;
use turntree::upp::providers::xai::{xai, xai_messages, xai_responses};
use turntree::upp::{ErrorCode, ModelRequest, ProviderConfig, UppError, provider_tools};

use crate::support::dialect::{hello, raw, with_params, with_tools};

const FUNCTION: &str = r#"[{"name":"f","description":"F","parameters":{"type":"object","properties":{}}}]"#;

/// A request with a function and a provider tool.
fn both(provider: &str, definition: &Value) -> ModelRequest {
    let request = with_tools(hello(), FUNCTION);
    let own = provider_tools::tool(provider, "own", raw(&definition.to_string()));
    let tools: Vec<ToolDefinition> = request.tools.iter().cloned().chain([own]).collect();
    ModelRequest { tools: tools.into(), ..request }
}

/// The encoded tools.
fn tools(dialect: &dyn Dialect, request: &ModelRequest) -> Result<Value, UppError> {
    let settled = provider_tools::settle(request, dialect.provider(), dialect.takes_native_tools())?;
    let body: Value = serde_json::from_slice(&dialect.encode("the-model", &settled, false)?).unwrap();
    Ok(body["tools"].clone())
}

#[test]
fn provider_tools_are_sent_to_their_provider_beside_functions() {
    let anthropic = anthropic::<&str>(&[], &ProviderConfig::default());
    let google = google(&ProviderConfig::default());
    let owners: [(&dyn Dialect, Value); 7] = [
        (&anthropic, json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 2})),
        (&openai(), json!({"type": "web_search"})),
        (&google, json!({"urlContext": {}})),
        (&xai_responses(), json!({"type": "x_search"})),
        (&openrouter(), json!({"type": "openrouter:web_search"})),
        (&groq(), json!({"type": "browser_search"})),
        (&moonshot(), json!({"type": "builtin_function", "function": {"name": "$web_search"}})),
    ];
    for (dialect, definition) in owners {
        let sent = tools(dialect, &both(dialect.provider(), &definition)).unwrap();
        let sent = sent.as_array().unwrap();
        let provider = dialect.provider();
        assert_eq!(sent.len(), 2, "{provider}: {sent:?}");
        assert_eq!(sent.iter().filter(|tool| **tool == definition).count(), 1, "{provider}: {sent:?}");
        assert!(!serde_json::to_string(sent).unwrap().contains("native"), "{provider}");
    }
}

#[test]
fn provider_tools_are_joined_with_the_tools_of_the_parameters() {
    let request = with_params(
        both("openai", &json!({"type": "web_search"})),
        r#"{"tools":[{"type":"image_generation"}]}"#,
    );
    let sent = tools(&openai(), &request).unwrap();
    let kinds: Vec<&Value> = sent.as_array().unwrap().iter().map(|tool| &tool["type"]).collect();
    assert_eq!(kinds, ["function", "image_generation", "web_search"]);
}

#[test]
fn provider_tools_are_sent_without_functions() {
    let own = provider_tools::tool("openai", "own", raw(r#"{"type":"web_search"}"#));
    let request = ModelRequest { tools: vec![own].into(), ..hello() };
    assert_eq!(tools(&openai(), &request).unwrap(), json!([{"type": "web_search"}]));
}

#[test]
fn other_providers_refuse_provider_tools() {
    let search = json!({"type": "web_search"});
    let xai_messages = xai_messages(&ProviderConfig::default());
    let others: [(&dyn Dialect, &str); 6] = [
        (&openai(), "anthropic"),
        (&openrouter(), "openai"),
        (&openai_chat(), "openai"),
        (&xai(), "xai"),
        (&xai_messages, "xai"),
        (&moonshot(), "openai"),
    ];
    for (dialect, owner) in others {
        let error = tools(dialect, &both(owner, &search)).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.contains("\"own\"") && error.message.contains(owner), "{}", error.message);
    }
}

#[test]
fn a_tools_parameter_that_is_not_a_list_is_refused() {
    let request = with_params(both("openai", &json!({"type": "web_search"})), r#"{"tools":{}}"#);
    let error = tools(&openai(), &request).unwrap_err();
    assert!(error.message.starts_with("params.tools"), "{}", error.message);
}
