//! Chat completions.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;
use turntree_agents::Tool;
use turntree_core::json::RawJson;
use turntree_core::message::ContentBlock;
use turntree_core::message::message::Body as MessageBody;
use turntree_server::TestClient;
use turntree_upp::providers::scripted::{Reply, Scripted};

use super::{Renamed, agent_with, arguments, client, definition, frames, hello, scripted, with};
use crate::service::service_of;

const PATH: &str = "/v1/chat/completions";

fn tools() -> Value {
    json!([{ "type": "function", "function": { "name": "locate", "parameters": { "type": "object" } } }])
}

#[tokio::test]
async fn a_completion_in_one_piece_has_text_reason_and_usage() {
    let client = client(vec![Reply::from("hello you")]);
    let response = client.post(PATH, &hello()).await.unwrap();
    let body = response.json();

    assert_eq!(response.status.as_u16(), 200, "{body}");
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!((&body["object"], &body["model"]), (&"chat.completion".into(), &"weather".into()));
    let choice = &body["choices"][0];
    assert_eq!(choice["message"], json!({ "role": "assistant", "content": "hello you", "refusal": null }));
    assert_eq!(choice["finish_reason"], "stop");
    let (input, output) = (&body["usage"]["prompt_tokens"], &body["usage"]["completion_tokens"]);
    assert_eq!((input, output), (&1.into(), &2.into()));
    assert!(response.header("x-request-id").is_some());
}

#[tokio::test]
async fn a_streamed_completion_begins_with_the_role_and_ends_with_usage_and_done() {
    let client = client(vec![Reply::from("one two three")]);
    let request = with(hello(), json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let frames = frames(&client, PATH, &request).await;

    let (done, chunks) = frames.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    let chunks: Vec<Value> = chunks.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    let text: String = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "one two three");
    let [.., last, usage] = chunks.as_slice() else { panic!("too few chunks") };
    assert_eq!((&last["choices"][0]["finish_reason"], &last["usage"]), (&"stop".into(), &Value::Null));
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &4.into()));
}

#[tokio::test]
async fn reasoning_is_reasoning_content() {
    let reply =
        || Reply::message(vec![ContentBlock::reasoning("because"), ContentBlock::text("so")], Vec::new());
    let client = client(vec![reply(), reply()]);
    let body = client.post(PATH, &hello()).await.unwrap().json();
    let message = &body["choices"][0]["message"];
    assert_eq!((&message["reasoning_content"], &message["content"]), (&"because".into(), &"so".into()));

    let frames = frames(&client, PATH, &with(hello(), json!({ "stream": true }))).await;
    assert!(frames.iter().any(|frame| frame.contains(r#""delta":{"reasoning_content":"#)), "{frames:?}");
}

#[tokio::test]
async fn calls_of_client_tools_are_handed_back_and_their_results_continue_the_conversation() {
    let (model, agent) =
        scripted(vec![Reply::tool_call("locate", arguments()), Reply::from("in Rome")], Vec::new());
    let client = TestClient::new(service_of([agent]));
    let body = client.post(PATH, &with(hello(), json!({ "tools": tools() }))).await.unwrap().json();

    let choice = &body["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&"tool_calls".into(), &Value::Null)
    );
    let call = &choice["message"]["tool_calls"][0];
    let function = json!({ "name": "locate", "arguments": "{\"x\":1}" });
    assert_eq!((&call["type"], &call["function"]), (&"function".into(), &function));
    assert!(body["usage"]["total_tokens"].as_u64().unwrap() > 0, "{body}");

    let request = json!({ "model": "weather", "tools": tools(), "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": call["id"], "content": "Rome" },
    ] });
    let body = client.post(PATH, &request).await.unwrap().json();
    assert_eq!(body["choices"][0]["message"]["content"], "in Rome", "{body}");
    let requests = model.requests();
    let messages: Vec<_> = requests[1].messages.iter().collect();
    assert_eq!(messages.len(), 3);
    let MessageBody::ToolResult { results } = &messages[2].body else { panic!("{messages:?}") };
    assert_eq!(results[0].result.as_string().as_deref(), Some("Rome"));
}

#[tokio::test]
async fn streamed_calls_have_their_index_and_end_with_tool_calls() {
    let client = client(vec![Reply::tool_call("locate", arguments())]);
    let request = with(hello(), json!({ "tools": tools(), "stream": true }));
    let frames = frames(&client, PATH, &request).await;
    let call = frames.iter().find(|frame| frame.contains("tool_calls")).unwrap();
    let call: Value = serde_json::from_str(call).unwrap();
    let delta = &call["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!((&delta["index"], &delta["function"]["arguments"]), (&0.into(), &"{\"x\":1}".into()));
    assert!(frames[frames.len() - 2].contains(r#""finish_reason":"tool_calls""#), "{frames:?}");
}

#[tokio::test]
async fn tools_of_the_server_run_unseen() {
    let tool = Tool::new(definition("add")).with_function(|_| async { Ok(RawJson::from_str_value("7")) });
    let (_, agent) = scripted(vec![Reply::tool_call("add", arguments()), Reply::from("seven")], vec![tool]);
    let client = TestClient::new(service_of([agent]));
    let frames = frames(&client, PATH, &with(hello(), json!({ "stream": true }))).await;
    assert!(!frames.concat().contains("tool_calls"), "{frames:?}");
    let chunks = frames.iter().filter_map(|frame| serde_json::from_str::<Value>(frame).ok());
    let texts = chunks.filter_map(|chunk| Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned()));
    assert_eq!(texts.collect::<String>(), "seven");
}

#[tokio::test]
async fn parameters_are_sent_in_the_words_of_the_model() {
    let request = with(
        hello(),
        json!({ "temperature": 0.5, "max_completion_tokens": 9, "stop": "END", "seed": 1, "top_p": null,
            "tools": tools(), "tool_choice": { "type": "function", "function": { "name": "locate" } } }),
    );
    let named = |form: &str| match form {
        "chat" => json!({ "type": "function", "function": { "name": "locate" } }),
        "responses" => json!({ "type": "function", "name": "locate" }),
        _ => json!({ "type": "tool", "name": "locate" }),
    };
    let expected = [
        (
            "mistral",
            json!({ "temperature": 0.5, "max_tokens": 9, "stop": ["END"], "seed": 1,
            "tool_choice": named("chat") }),
        ),
        ("openai", json!({ "temperature": 0.5, "max_output_tokens": 9, "tool_choice": named("responses") })),
        (
            "anthropic",
            json!({ "temperature": 0.5, "max_tokens": 9, "stop_sequences": ["END"],
            "tool_choice": named("messages") }),
        ),
        (
            "google",
            json!({ "temperature": 0.5, "maxOutputTokens": 9, "stopSequences": ["END"], "seed": 1,
            "toolConfig": { "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": ["locate"] } } }),
        ),
        ("ollama", json!({ "temperature": 0.5, "num_predict": 9, "stop": ["END"], "seed": 1 })),
    ];
    for (provider, params) in expected {
        let model = Scripted::new([Reply::from("x")]);
        let agent = agent_with(Arc::new(Renamed(model.clone(), provider)), Vec::new());
        let response = TestClient::new(service_of([agent])).post(PATH, &request).await.unwrap();
        assert_eq!(response.status.as_u16(), 200, "{}", response.text());
        let sent = serde_json::to_value(&*model.requests()[0].params).unwrap();
        assert_eq!(sent, params, "{provider}");
    }
}

#[tokio::test]
async fn a_schema_is_the_structure_of_the_run_and_system_messages_are_instructions() {
    let (model, agent) = scripted(vec![Reply::from("{}"), Reply::from("{}")], Vec::new());
    let client = TestClient::new(service_of([agent]));
    let schema = json!({ "type": "object", "properties": {} });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": schema, "strict": true } });
    let messages = json!([{ "role": "developer", "content": "be brief" }, { "role": "user", "content": [
        { "type": "text", "text": "what is this?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } },
    ] }]);
    let request = json!({ "messages": messages, "response_format": format });
    let response = client.post(PATH, &request).await.unwrap();
    assert_eq!(response.status.as_u16(), 200, "{}", response.text());
    let request = json!({ "messages": messages, "response_format": { "type": "json_object" } });
    assert_eq!(client.post(PATH, &request).await.unwrap().status.as_u16(), 200);

    let requests = model.requests();
    assert_eq!(requests[0].structure.as_ref().unwrap().to::<Value>().unwrap(), schema);
    assert!(format!("{:?}", requests[0].system).contains("be brief"));
    assert!(matches!(requests[0].messages.iter().next().unwrap().content()[1], ContentBlock::Image(_)));
    assert!(format!("{:?}", requests[1].system).contains("one JSON object"));
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_the_run() {
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let tool = {
        let (started, dropped) = (Arc::clone(&started), Arc::clone(&dropped));
        Tool::new(definition("hang")).with_function(move |_| {
            let (started, guard) = (Arc::clone(&started), NotifyOnDrop(Arc::clone(&dropped)));
            async move {
                started.notify_one();
                std::future::pending::<()>().await;
                drop(guard);
                Ok(RawJson::from_str_value(""))
            }
        })
    };
    let (_, agent) = scripted(vec![Reply::tool_call("hang", arguments())], vec![tool]);
    let client = TestClient::new(service_of([agent]));
    let body = turntree_server::Body::json(&with(hello(), json!({ "stream": true })));
    let answer =
        tokio::spawn(async move { client.stream(client.request(http::Method::POST, PATH, body)).await });
    started.notified().await;
    answer.abort();
    dropped.notified().await;
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn agents_are_models() {
    let client = client(Vec::new());
    let body = client.get("/v1/models").await.unwrap().json();
    assert_eq!((&body["object"], &body["data"][0]["id"]), (&"list".into(), &"weather".into()));
    let body = client.get("/models/weather").await.unwrap().json();
    assert_eq!((&body["object"], &body["owned_by"]), (&"model".into(), &"turntree".into()));
    let response = client.get("/models/other").await.unwrap();
    assert_eq!(
        (response.status.as_u16(), &response.json()["error"]["code"]),
        (404, &"model_not_found".into())
    );
}
