//! Requests with damaged bytes: they are answered, or refused in OpenAI's form.

use std::future::ready;
use std::sync::Arc;

use http::Method;
use serde_json::json;
use turntree_server::{Body, TestClient};
use turntree_upp::providers::scripted::{Reply, Scripted};

use super::{agent_with, with};
use crate::mutations::damage;
use crate::service::service_of;

const ROUNDS: usize = 150;

async fn check(client: &TestClient, random: &mut fastrand::Rng, path: &str, seed: &[u8]) {
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        let bytes = damage(random, seed);
        let request = client.request(Method::POST, path, Body::full(bytes.clone()));
        let response = client.send(request).await.unwrap();
        match response.status.as_u16() {
            200 => answered += 1,
            400 | 404 => {
                assert!(response.json()["error"]["message"].is_string(), "{}", response.text());
                refused += 1;
            }
            status => panic!("{status} for {}: {}", String::from_utf8_lossy(&bytes), response.text()),
        }
    }
    assert!(refused > 10, "{answered} answered, {refused} refused");
}

#[tokio::test]
async fn damaged_requests_are_answered_or_refused() {
    let model = Scripted::function(Arc::new(|_| Box::pin(ready(Ok(Reply::from("fine"))))));
    let client = TestClient::new(service_of([agent_with(Arc::new(model), Vec::new())]));
    let mut random = fastrand::Rng::with_seed(15);
    let chat = with(
        json!({ "messages": [
            { "role": "system", "content": "a" },
            { "role": "user", "content": [{ "type": "text", "text": "b" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } }] },
            { "role": "assistant", "tool_calls": [{ "id": "c", "type": "function",
                "function": { "name": "f", "arguments": "{}" } }] },
            { "role": "tool", "tool_call_id": "c", "content": "1" }] }),
        json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": {} } }],
            "tool_choice": "auto", "temperature": 1, "stop": ["x"], "response_format": { "type": "text" } }),
    );
    check(&client, &mut random, "/v1/chat/completions", chat.to_string().as_bytes()).await;
    let responses = json!({ "input": [
            { "role": "user", "content": [{ "type": "input_text", "text": "b" }] },
            { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c", "output": "1" },
            { "type": "reasoning", "summary": [] }],
        "tools": [{ "type": "function", "name": "f", "parameters": {} }], "store": false,
        "text": { "format": { "type": "json_object" } }, "metadata": { "a": "b" } });
    check(&client, &mut random, "/v1/responses", responses.to_string().as_bytes()).await;
}
