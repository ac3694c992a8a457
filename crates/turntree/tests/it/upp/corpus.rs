//! Recorded Chat Completions of many hosts, each read by its dialect and by a naive reader.
//!
//! Needs `TURNTREE_CORPUS`; prints the number of exchanges for each folder.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use turntree::core::json::RawJson;
use turntree::message::fold::Fold;
use turntree::message::{ContentBlock, Delta};
use turntree::upp::dialect::Dialect;
use turntree::upp::providers::cerebras::cerebras;
use turntree::upp::providers::groq::groq;
use turntree::upp::providers::mistral::mistral;
use turntree::upp::providers::openai_chat::openai_chat;
use turntree::upp::providers::openai_compatible::openai_compatible;
use turntree::upp::providers::openrouter::openrouter;
use turntree::upp::{ModelRequest, ModelResponse, UppError};

use crate::support::fixtures::{data_lines, exchanges, stream, with_sources};

fn dialect_of(folder: &str) -> Box<dyn Dialect> {
    match folder.split('.').next() {
        Some("groq") => Box::new(groq()),
        Some("cerebras") => Box::new(cerebras()),
        Some("mistral") => Box::new(mistral()),
        Some("openrouter") => Box::new(openrouter()),
        Some("openai") => Box::new(openai_chat()),
        _ => Box::new(openai_compatible("http://localhost/v1")),
    }
}

const FOLDERS: [&str; 10] = [
    "groq.chat_completions",
    "cerebras.chat_completions",
    "mistral.chat",
    "openrouter.chat_completions",
    "huggingface.chat_completions",
    "local.chat_completions",
    "zai.chat_completions",
    "crusoe.chat_completions",
    "ollama.chat_completions",
    "openai.chat_completions",
];

/// The content of an exchange, complete or streamed.
#[derive(Debug, Default, PartialEq)]
struct Content {
    id: String,
    text: String,
    thinking: String,
    calls: Vec<(String, String, Value)>,
    /// Input, output, total and cached tokens.
    usage: [u64; 4],
    finish_reason: String,
}

/// The text of a content, and the thinking in its parts.
fn words(content: &Value) -> (String, String) {
    let parts = content.as_array().into_iter().flatten();
    let mut read = (content.as_str().unwrap_or_default().to_owned(), String::new());
    for part in parts {
        read.0 += part["text"].as_str().unwrap_or_default();
        let thoughts = part["thinking"].as_array().into_iter().flatten();
        thoughts.for_each(|thought| read.1 += thought["text"].as_str().unwrap_or_default());
    }
    read
}

/// Adds a message or a delta.
fn add_message(read: &mut Content, calls: &mut BTreeMap<u64, (String, String, String)>, message: &Value) {
    let (text, mut thinking) = words(&message["content"]);
    read.text += &text;
    for name in ["reasoning_content", "reasoning"] {
        let thoughts = message[name].as_str().unwrap_or_default();
        if thinking.is_empty() {
            thoughts.clone_into(&mut thinking);
        }
    }
    if thinking.is_empty() {
        let details = message["reasoning_details"].as_array().into_iter().flatten();
        let texts = details.filter_map(|detail| detail["text"].as_str().or(detail["summary"].as_str()));
        thinking = texts.collect();
    }
    read.thinking += &thinking;
    for (place, call) in (0..).zip(message["tool_calls"].as_array().into_iter().flatten()) {
        let slot = calls.entry(call["index"].as_u64().unwrap_or(place)).or_default();
        slot.0 += call["id"].as_str().unwrap_or_default();
        slot.1 += call["function"]["name"].as_str().unwrap_or_default();
        slot.2 += call["function"]["arguments"].as_str().unwrap_or_default();
    }
}

fn naive(trees: &[Value], is_stream: bool) -> Content {
    let (mut read, mut calls) = (Content::default(), BTreeMap::new());
    for tree in trees {
        if read.id.is_empty() {
            read.id += tree["id"].as_str().unwrap_or_default();
        }
        let choice = &tree["choices"][0];
        add_message(&mut read, &mut calls, if is_stream { &choice["delta"] } else { &choice["message"] });
        if let Some(reason) = choice["finish_reason"].as_str() {
            reason.clone_into(&mut read.finish_reason);
        }
        let usage = [&tree["usage"], &tree["x_groq"]["usage"]].into_iter().find(|usage| usage.is_object());
        if let Some(usage) = usage {
            let count = |name: &str| usage[name].as_u64().unwrap_or_default();
            let (input, output) = (count("prompt_tokens"), count("completion_tokens"));
            let total = if is_stream { input + output } else { count("total_tokens") };
            let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().filter(|count| *count > 0);
            let elsewhere = count("cached_tokens").max(count("num_cached_tokens"));
            read.usage = [input, output, total, cached.unwrap_or(elsewhere)];
        }
    }
    let calls = calls.into_values().filter(|(_, name, _)| !name.is_empty());
    read.calls = calls
        .map(|(id, name, arguments)| {
            let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
            (id, name, if arguments.is_object() { arguments } else { json!({}) })
        })
        .collect();
    read
}

fn value(raw: &RawJson) -> Value {
    raw.to().unwrap_or_default()
}

fn decoded_content(provider: &str, response: &ModelResponse) -> Content {
    let message = &response.message;
    let thinking = message.content().iter().filter_map(|block| match block {
        ContentBlock::Reasoning(block) => Some(block.text.as_str()),
        _ => None,
    });
    let usage = &response.usage;
    let metadata = message.metadata.as_ref().and_then(|metadata| metadata.get(provider));
    let metadata = metadata.map(value).unwrap_or_default();
    Content {
        id: message.id.clone(),
        text: message.text(),
        thinking: thinking.collect(),
        calls: message
            .tool_calls()
            .iter()
            .map(|call| (call.tool_call_id.clone(), call.tool_name.clone(), value(&call.arguments)))
            .collect(),
        usage: [usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cache_read_tokens],
        finish_reason: metadata["finish_reason"].as_str().unwrap_or_default().to_owned(),
    }
}

/// The error code of a status; the recordings have no more specific codes.
fn code_of(status: u64) -> &'static str {
    match status {
        401 | 403 => "AUTHENTICATION_FAILED",
        404 => "MODEL_NOT_FOUND",
        429 => "RATE_LIMITED",
        400 | 422 => "INVALID_REQUEST",
        _ => "PROVIDER_ERROR",
    }
}

/// Checks that the response encodes to the same text and calls.
fn check_round_trip(dialect: &dyn Dialect, read: &Content, response: &ModelResponse) -> Result<(), String> {
    let messages = std::iter::once(Arc::clone(&response.message)).collect();
    let request = ModelRequest { messages, ..ModelRequest::default() };
    let model = crate::support::dialect::answering_model(&response.message);
    let sent = dialect.encode(&model, &request, false).map_err(|error| format!("encoding: {error}"))?;
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    let sent = &sent["messages"][0];
    let calls = sent["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| call["function"]["name"].as_str().unwrap_or_default().to_owned());
    let names: Vec<String> = read.calls.iter().map(|(_, name, _)| name.clone()).collect();
    if words(&sent["content"]).0 != read.text || calls.collect::<Vec<_>>() != names {
        return Err(format!("encoded as {sent}"));
    }
    Ok(())
}

fn check(dialect: &dyn Dialect, exchange: &Value) -> Result<(), String> {
    let recorded = &exchange["response"];
    let status = recorded["status"].as_u64().ok_or("no status")?;
    let body = &recorded["body"];
    let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    if status != 200 {
        let (code, words) = dialect.error_of_body(u16::try_from(status).unwrap(), &text).ok_or("no code")?;
        let expected = body["error"]["message"].as_str().or(body["message"].as_str()).unwrap_or_default();
        let is_right = code.as_str() == code_of(status) && words.starts_with(expected);
        return if is_right { Ok(()) } else { Err(format!("{status} became {code}: {words}")) };
    }
    let request = ModelRequest::default();
    let (read, response): (Option<Content>, Result<ModelResponse, UppError>) = if exchange["format"] == "sse"
    {
        let frames = data_lines(&text);
        let trees: Vec<Value> = frames.iter().filter_map(|frame| serde_json::from_str(frame).ok()).collect();
        let (events, response) = stream(dialect, &request, &frames);
        if let Ok(response) = &response {
            let mut fold = Fold::default();
            for event in &events {
                fold.push(event);
            }
            let folded = fold.finish();
            let has_images = events.iter().any(|event| matches!(event.delta, Delta::Image(_)));
            let is_same = has_images || folded.content == response.message.content();
            if !is_same || folded.tool_calls != response.message.tool_calls() {
                return Err("the events fold to something else".to_owned());
            }
        }
        (Some(naive(&trees, true)), response)
    } else {
        let response = with_sources(|sources| dialect.decode(&text, &request, sources));
        (body["choices"].is_array().then(|| naive(std::slice::from_ref(body), false)), response)
    };
    match (read, response) {
        (Some(read), Ok(response)) => {
            let actual = decoded_content(dialect.provider(), &response);
            if actual != read {
                return Err(format!("decoded {actual:?}, expected {read:?}"));
            }
            check_round_trip(dialect, &read, &response)
        }
        // The body is not a chat completion.
        (None, Err(error)) if error.code.as_str() == "INVALID_RESPONSE" => Ok(()),
        (_, Err(error)) => Err(format!("{error:?}")),
        (None, Ok(_)) => Err("decoded a response from an invalid body".to_owned()),
    }
}

#[test]
fn recorded_chats_match_a_naive_reader() {
    let mut failures = Vec::new();
    for folder in FOLDERS {
        let Some(exchanges) = exchanges(folder) else { return };
        let dialect = dialect_of(folder);
        let results = exchanges.iter().map(|(name, exchange)| (name, check(&*dialect, exchange)));
        let failed: Vec<String> = results
            .filter_map(|(name, result)| result.err().map(|reason| format!("{name}: {reason}")))
            .collect();
        println!("{folder}: {} exchanges, {} failed", exchanges.len(), failed.len());
        failures.extend(failed);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
