//! Opaque parts are sent only to the model that made them. UPP-1.2 §4, §14.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use turntree::core::ids::CountingIds;
use turntree::upp::dialect::Dialect;
use turntree::upp::http_model::HttpModel;
use turntree::upp::omissions::{Omission, OmissionObserver, set_omission_observer};
use turntree::upp::provenance::same_model;
use turntree::upp::providers::anthropic::anthropic;
use turntree::upp::providers::google::google;
use turntree::upp::providers::openai::openai;
use turntree::upp::providers::openrouter::openrouter;
use turntree::upp::{Model, ModelRequest, ProviderConfig};

use crate::support::dialect::{clock, hello, request};
use crate::support::server::{Server, json as reply};

fn sent_to(dialect: &dyn Dialect, model_id: &str, request: &ModelRequest) -> Value {
    serde_json::from_slice(&dialect.encode(model_id, request, false).unwrap()).unwrap()
}

/// A history with an assistant message that has this metadata of a provider.
fn history(provider: &str, content: &Value, calls: &Value, metadata: &Value) -> ModelRequest {
    request(json!([
        {"type": "user", "content": "Hello"},
        {"type": "assistant", "content": content, "toolCalls": calls, "metadata": {provider: metadata}},
        {"type": "user", "content": "Go on"},
    ]))
}

#[test]
fn spellings_of_the_same_model_are_recognized() {
    let same = [
        ("gpt-5", "gpt-5-2025-08-07"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet-20250219"),
        ("gemini-2.0-flash", "gemini-2.0-flash-001"),
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("gemini-2.5-pro-preview-06-05", "gemini-2.5-pro-preview"),
        ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash-preview"),
        ("openai/gpt-5:free", "gpt-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5-20250929"),
        ("grok-4", "grok-4-0709"),
        ("GPT-4o", "gpt-4o"),
        ("ft:gpt-4o:us::x1", "ft:gpt-4o:us::x1"),
    ];
    for (one, other) in same {
        assert!(same_model(one, other) && same_model(other, one), "{one} {other}");
    }
    let different = [
        ("gpt-5", "gpt-5-mini"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
        ("kimi-k2-0711", "kimi-k2-0905"),
        ("claude-sonnet-4-5", "claude-opus-4-5"),
        ("claude-sonnet-4", "claude-sonnet-4-5"),
        ("gpt-5", "gpt-5.1"),
        ("gemini-2.5-pro", "gemini-2.5-pro-preview"),
        ("ft:gpt-4o:us::x1", "gpt-4o"),
        ("", "gpt-5"),
    ];
    for (one, other) in different {
        assert!(!same_model(one, other) && !same_model(other, one), "{one} {other}");
    }
}

#[test]
fn thinking_is_sent_only_to_its_model() {
    let dialect = anthropic::<&str>(&[], &ProviderConfig::default());
    let redacted = json!({"type": "redacted_thinking", "data": "seal"});
    let search = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    let metadata = json!({
        "model": "claude-sonnet-4-5-20250929", "thinkingSignatures": ["sig"], "thinkingSignature": "sig",
        "blocks": ["thinking", redacted, search, "text"],
    });
    let content = json!([{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "Yes."}]);
    let history = history("anthropic", &content, &Value::Null, &metadata);

    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "sig"});
    let text = json!({"type": "text", "text": "Yes."});
    for own in ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929"] {
        let body = sent_to(&dialect, own, &history);
        assert_eq!(body["messages"][1]["content"], json!([thinking, redacted, search, text]), "{own}");
    }
    // Results of provider tools are not opaque: they are sent at their position.
    let body = sent_to(&dialect, "claude-opus-4-5", &history);
    assert_eq!(body["messages"][1]["content"], json!([search, text]));
}

#[test]
fn the_requested_model_name_counts_as_the_model() {
    let dialect = openrouter();
    let details = json!([{"type": "reasoning.encrypted", "data": "seal"}]);
    let metadata = json!({
        "model": "anthropic/claude-4.5-sonnet-20250929", "requested_model": "anthropic/claude-sonnet-4.5",
        "reasoning_details": details,
    });
    let history = history("openrouter", &json!([{"type": "text", "text": "Yes."}]), &Value::Null, &metadata);

    let own = sent_to(&dialect, "anthropic/claude-sonnet-4.5", &history);
    assert_eq!(own["messages"][1]["reasoning_details"], details);
    let other = sent_to(&dialect, "openai/gpt-5", &history);
    assert_eq!(other["messages"][1]["reasoning_details"], Value::Null);
    assert_eq!(other["messages"][1]["content"], "Yes.");
}

#[test]
fn metadata_without_a_model_is_sent_to_every_model() {
    let dialect = openrouter();
    let metadata = json!({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]});
    let history = history("openrouter", &json!([{"type": "text", "text": "Yes."}]), &Value::Null, &metadata);
    let body = sent_to(&dialect, "openai/gpt-5", &history);
    assert_eq!(body["messages"][1]["reasoning_details"], metadata["reasoning_details"]);
}

#[test]
fn encrypted_reasoning_and_its_ids_are_not_sent_to_another_model() {
    let dialect = openai();
    let reasoning = json!({"id": "rs_1", "summary": [], "encrypted_content": "seal"});
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let metadata = json!({
        "model": "gpt-5-2025-08-07", "status": "completed", "response_id": "resp_1",
        "functionCallItems": [{"id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{ }"}],
        "reasoningEncryptedContent": reasoning.to_string(),
        "outputItems": ["reasoning", search, {"type": "message", "id": "msg_1", "texts": 1}, "function_call"],
    });
    let calls = json!([{"toolCallId": "call_1", "toolName": "f", "arguments": {}}]);
    let history = history("openai", &json!([{"type": "text", "text": "Yes."}]), &calls, &metadata);

    let own = sent_to(&dialect, "gpt-5", &history);
    let kinds: Vec<&Value> = own["input"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "reasoning", "web_search_call", "message", "function_call", "message"]);
    assert_eq!(own["input"][1]["encrypted_content"], "seal");
    assert_eq!(own["input"][3]["id"], "msg_1");
    assert_eq!(own["input"][4]["id"], "fc_1");

    let other = sent_to(&dialect, "gpt-5-mini", &history);
    let kinds: Vec<&Value> = other["input"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "message", "function_call", "message"]);
    assert_eq!(other["input"][1]["id"], Value::Null);
    assert_eq!(other["input"][2]["id"], "fc_call_1");
    assert_eq!(other["input"][2]["arguments"], "{ }");
}

#[test]
fn thought_signatures_are_not_sent_to_another_model_and_newer_models_get_a_placeholder() {
    let dialect = google(&ProviderConfig::default());
    let metadata = json!({
        "model": "gemini-2.5-flash",
        "functionCallParts": [{"name": "f", "args": {}, "thoughtSignature": "c2ln"}],
        "thoughtSignature": "dGV4dA==",
        "parts": [{"type": "text", "signatures": [[4, "dGV4dA=="]]},
                  {"part": {"executableCode": {"code": "1"}, "thoughtSignature": "Y29kZQ=="}}, "functionCall"],
    });
    let calls = json!([{"toolCallId": "c1", "toolName": "f", "arguments": {}}]);
    let history = history("google", &json!([{"type": "text", "text": "Yes."}]), &calls, &metadata);
    let signatures = |model_id: &str| -> Vec<Value> {
        let body = sent_to(&dialect, model_id, &history);
        let parts = body["contents"][1]["parts"].as_array().unwrap().clone();
        assert_eq!(parts.len(), 3, "{model_id}");
        parts.iter().map(|part| part["thoughtSignature"].clone()).collect()
    };

    assert_eq!(signatures("gemini-2.5-flash"), ["dGV4dA==", "Y29kZQ==", "c2ln"]);
    assert_eq!(signatures("gemini-2.5-pro"), [Value::Null, Value::Null, Value::Null]);
    let placeholder = signatures("gemini-3-pro-preview");
    assert_eq!(placeholder[2], "skip_thought_signature_validator");
}

/// Records the omissions of this process.
struct Log(Arc<Mutex<Vec<Omission>>>);

impl OmissionObserver for Log {
    fn omitted(&self, omission: &Omission) {
        self.0.lock().unwrap().push(omission.clone());
    }
}

#[tokio::test]
async fn a_call_records_the_requested_model_and_the_omitted_parts() {
    let log = Arc::default();
    assert!(set_omission_observer(Box::new(Log(Arc::clone(&log)))).is_ok());
    let body = json!({
        "id": "gen-1", "model": "anthropic/claude-4.5-sonnet-20250929",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes.",
            "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "seal"}]}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.25},
    });
    let plain = json!({"id": "gen-2", "model": "openai/gpt-5", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "No."}}]});
    let server = Server::start([reply(&body.to_string()), reply(&plain.to_string())]).await;
    let model = |id: &str| {
        let config = ProviderConfig::default().with_base_url(server.url("/v1")).with_key("sk-0123456789");
        HttpModel::new(Arc::new(openrouter()), id, config)
            .with_sources(Arc::new(CountingIds::default()), Arc::new(clock()))
    };

    let answer = model("anthropic/claude-sonnet-4.5").complete(hello()).await.unwrap();

    let metadata: Value =
        serde_json::from_str(answer.message.metadata.as_ref().unwrap().get("openrouter").unwrap().get())
            .unwrap();
    assert_eq!(metadata["requested_model"], "anthropic/claude-sonnet-4.5");
    assert_eq!(answer.usage.cost, Some(0.25));

    let history = ModelRequest { messages: [Arc::clone(&answer.message)].into_iter().collect(), ..hello() };
    let next = model("openai/gpt-5").complete(history).await.unwrap();

    let sent: Value = serde_json::from_slice(&server.requests()[1].body).unwrap();
    assert_eq!(sent["messages"][0]["reasoning_details"], Value::Null);
    let own: Vec<Omission> =
        log.lock().unwrap().iter().filter(|dropped| dropped.message_id == "gen-1").cloned().collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].made_by_model, "anthropic/claude-sonnet-4.5");
    assert_eq!((own[0].provider.as_str(), own[0].model_id.as_str()), ("openrouter", "openai/gpt-5"));
    // The response has no opaque part, so that the message has no requested model.
    assert!(
        !next.message.metadata.as_ref().unwrap().get("openrouter").unwrap().get().contains("requested_model")
    );
}
