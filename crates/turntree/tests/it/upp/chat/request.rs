//! Encoding of requests as Chat Completions bodies.

use insta::assert_snapshot;
use serde_json::json;
use turntree::upp::dialect::Dialect;
use turntree::upp::dialects::chat::{ChatDialect, ChatOptions, Replay};
use turntree::upp::{ErrorCode, System};

use super::{host, openai};
use crate::support::dialect::{
    encoded, hello, member, raw, request, with_params, with_structure, with_system, with_tools,
};

#[test]
fn a_plain_request_contains_model_and_messages() {
    assert_snapshot!(encoded(&openai(), &hello(), false), @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}]}"#);
}

#[test]
fn parameters_are_passed_unchanged_except_reserved_members() {
    let params = r#"{"temperature":0.70,"seed":12345678901234567890,"model":"x","messages":[],"stream":true,"logit_bias":{"5":-1e2}}"#;

    let whole = encoded(&openai(), &with_params(hello(), params), false);
    let streamed = encoded(&openai(), &with_params(hello(), r#"{"stream_options":{"x":1},"top_p":1}"#), true);

    assert_snapshot!(whole, @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}],"temperature":0.70,"seed":12345678901234567890,"logit_bias":{"5":-1e2}}"#);
    assert_snapshot!(streamed, @r#"{"model":"the-model","messages":[{"role":"user","content":"Hello"}],"stream":true,"stream_options":{"x":1,"include_usage":true},"top_p":1}"#);
}

#[test]
fn the_system_prompt_is_the_first_message_with_joined_blocks() {
    let text = with_system(hello(), System::Text("Be brief.".into()));
    let blocks = with_system(
        hello(),
        System::Blocks(raw(r#"[{"type":"text","text":"a","cache_control":{}},{"text":"b"}]"#)),
    );
    let wrong = with_system(hello(), System::Blocks(raw(r#"[{"type":"image"}]"#)));

    assert_snapshot!(member(&openai(), &text, "messages"), @r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]"#);
    assert_snapshot!(member(&openai(), &blocks, "messages"), @r#"[{"role":"system","content":"a\n\nb"},{"role":"user","content":"Hello"}]"#);
    assert_eq!(openai().encode("m", &wrong, false).unwrap_err().code, ErrorCode::InvalidRequest);
}

#[test]
fn user_text_images_and_documents_become_parts() {
    let request = request(json!([{"type": "user", "content": [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "mimeType": "image/png"},
        {"type": "image", "source": {"type": "bytes", "data": "aGk="}, "mimeType": "image/png"},
        {"type": "image", "source": {"type": "base64", "data": "aGk"}, "mimeType": "image/gif"},
        {"type": "document", "source": {"type": "base64", "data": "JVBERg=="}, "mimeType": "application/pdf", "title": "a.pdf"},
        {"type": "document", "source": {"type": "base64", "data": "JVBERg=="}, "mimeType": "application/pdf"}
    ]}]));

    let parts = member(&openai(), &request, "messages").replace("},{", "},\n{");

    assert_snapshot!(parts, @r#"
    [{"role":"user","content":[{"type":"text","text":"Look:"},
    {"type":"image_url","image_url":{"url":"https://x/y.png"}},
    {"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},
    {"type":"image_url","image_url":{"url":"data:image/gif;base64,aGk"}},
    {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERg=="}},
    {"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,JVBERg=="}}]}]
    "#);
}

#[test]
fn compatible_hosts_also_accept_audio_video_and_other_documents() {
    let request = request(json!([{"type": "user", "content": [
        {"type": "audio", "data": "aGk=", "mimeType": "audio/mpeg"},
        {"type": "video", "data": "aGk=", "mimeType": "video/mp4"},
        {"type": "document", "source": {"type": "text", "data": "one\n\"two\""}, "mimeType": "text/plain", "title": "notes"},
        {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}, "mimeType": "application/pdf"}
    ]}]));

    let parts = member(&host(), &request, "messages").replace("},{", "},\n{");

    assert_snapshot!(parts, @r#"
    [{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aGk=","format":"mp3"}},
    {"type":"video_url","video_url":{"url":"data:video/mp4;base64,aGk="}},
    {"type":"text","text":"[Document: notes]\none\n\"two\""},
    {"type":"file","file":{"file_url":"https://x/y.pdf"}}]}]
    "#);
}

#[test]
fn unsupported_content_is_refused_with_its_position() {
    let binary = json!({"type": "binary", "data": "aGk=", "mimeType": "x/y"});
    let text_document =
        json!({"type": "document", "source": {"type": "text", "data": "x"}, "mimeType": "text/plain"});
    let linked = json!({"type": "document", "source": {"type": "url", "url": "https://x"}, "mimeType": "application/pdf"});
    let word = json!({"type": "document", "source": {"type": "base64", "data": "eA=="}, "mimeType": "application/msword"});
    let audio = json!({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"});
    let hologram = json!({"type": "hologram", "beam": 1});

    for block in [binary, text_document, linked, word, audio, hologram] {
        let kind = block["type"].as_str().unwrap().to_owned();
        let request = request(json!([
            {"type": "user", "content": "hi"},
            {"type": "user", "id": "u2", "content": [{"type": "text", "text": "see"}, block]}
        ]));
        let error = openai().encode("m", &request, false).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(
            error.message.contains("messages[1] (id u2), content[1]") && error.message.contains(&kind),
            "{error}"
        );
    }
}

#[test]
fn assistant_messages_contain_text_and_calls_without_reasoning() {
    let request = request(json!([
        {"type": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "One. "}, {"type": "text", "text": "Two."}]},
        {"type": "assistant", "content": [], "toolCalls": [{"toolCallId": "c1", "toolName": "weather", "arguments": {"city": "Oslo"}}]},
        {"type": "tool_result", "results": [{"toolCallId": "c1", "result": "sun \"and\" rain"}, {"toolCallId": "c2", "result": {"t": 1.5}}, {"toolCallId": "c3", "result": null, "isError": true}]},
        {"type": "assistant", "content": [{"type": "reasoning", "text": "hm"}]}
    ]));
    let thinking = ChatDialect::new(ChatOptions {
        reasoning: Replay::Member("reasoning_content"),
        ..ChatOptions::new("thinker", "http://x")
    });

    assert_snapshot!(member(&openai(), &request, "messages").replace("},{\"role", "},\n{\"role"), @r#"
    [{"role":"assistant","content":"One. Two."},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"sun \"and\" rain"},
    {"role":"tool","tool_call_id":"c2","content":"{\"t\":1.5}"},
    {"role":"tool","tool_call_id":"c3","content":"null"},
    {"role":"assistant","content":""}]
    "#);
    assert!(
        member(&thinking, &request, "messages")
            .contains(r#"{"role":"assistant","content":"One. Two.","reasoning_content":"hm"}"#)
    );
}

#[test]
fn tool_schemas_are_passed_unchanged_and_strict_is_read_from_metadata() {
    let tools = r##"[
        {"name":"a","description":"A.","parameters":{"type":"object","properties":{"x":{"$ref":"#/$defs/X"}},"$defs":{"X":{"anyOf":[{"minimum":1.0}]}}}},
        {"name":"b","description":"B.","parameters":{"type":"object"},"metadata":{"openai":{"strict":true},"other":{"strict":false}}}
    ]"##;

    let tools = member(&openai(), &with_params(with_tools(hello(), tools), r#"{"tools":[1]}"#), "tools");

    assert_snapshot!(tools, @r##"[{"type":"function","function":{"name":"a","description":"A.","parameters":{"type":"object","properties":{"x":{"$ref":"#/$defs/X"}},"$defs":{"X":{"anyOf":[{"minimum":1.0}]}}}}},{"type":"function","function":{"name":"b","description":"B.","parameters":{"type":"object"},"strict":true}}]"##);
}

#[test]
fn structured_output_is_requested_with_its_schema() {
    let open = with_structure(
        hello(),
        r#"{"type":"object","description":"A city.","properties":{"name":{"type":"string"}},"additionalProperties":true}"#,
    );
    let closed = with_structure(hello(), r#"{"type":"object"}"#);
    let wrong = with_structure(hello(), "[]");

    assert_snapshot!(member(&openai(), &open, "response_format"), @r#"{"type":"json_schema","json_schema":{"name":"json_response","description":"A city.","schema":{"type":"object","description":"A city.","properties":{"name":{"type":"string"}},"additionalProperties":true},"strict":true}}"#);
    assert_snapshot!(member(&openai(), &closed, "response_format"), @r#"{"type":"json_schema","json_schema":{"name":"json_response","schema":{"type":"object","additionalProperties":false},"strict":true}}"#);
    assert_eq!(openai().encode("m", &wrong, false).unwrap_err().code, ErrorCode::InvalidRequest);
}
