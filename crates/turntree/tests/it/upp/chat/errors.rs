//! Malformed responses, vendor errors and their codes.

use proptest::prelude::*;
use turntree::message::Message;
use turntree::upp::ErrorCode;
use turntree::upp::dialects::common::{VendorError, code_of_status};

use super::openai;
use crate::support::dialect::{decoded, frames, hello, message_json, streamed};

#[test]
fn malformed_responses_have_an_error_code() {
    let code = |body: &str| decoded(&openai(), body, &hello()).unwrap_err().code;

    for body in ["", "  ", "<html>", "{", "[]", "{}", r#"{"choices":[]}"#, r#"{"choices":[{}]}"#, "7", "null"]
    {
        assert_eq!(code(body), ErrorCode::InvalidResponse, "{body}");
    }
    assert_eq!(code(r#"{"error":{"code":429,"message":"slow"}}"#), ErrorCode::RateLimited);
    assert_eq!(code(r#"{"error":"boom","choices":[]}"#), ErrorCode::ProviderError);
}

#[test]
fn a_stream_without_a_finish_reason_is_an_error() {
    let text: Vec<&str> = frames(fixture!("text.sse")).take(4).collect();

    let (events, end) = streamed(&openai(), text, &hello());

    assert_eq!(events.len(), 4);
    assert_eq!(end.unwrap_err().code, ErrorCode::InvalidResponse);
    assert_eq!(streamed(&openai(), [], &hello()).1.unwrap_err().code, ErrorCode::InvalidResponse);
}

#[test]
fn truncated_frames_are_errors_and_noise_is_ignored() {
    let noise = ["ping", "", r#"{"id":"1","choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#];
    let cut = [r#"{"id":"1","choices":[{"del"#];

    assert_eq!(streamed(&openai(), noise, &hello()).1.unwrap().message.text(), "x");
    assert_eq!(streamed(&openai(), cut, &hello()).1.unwrap_err().code, ErrorCode::InvalidResponse);
}

#[test]
fn errors_in_a_stream_map_to_error_codes() {
    for (error, code) in [
        (r#"{"message":"m","type":"rate_limit_error"}"#, ErrorCode::RateLimited),
        (
            r#"{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}"#,
            ErrorCode::ContextLengthExceeded,
        ),
        (
            r#"{"message":"This model's maximum context length is 5 tokens","type":"invalid_request_error"}"#,
            ErrorCode::ContextLengthExceeded,
        ),
        (r#"{"message":"m","code":"insufficient_quota"}"#, ErrorCode::QuotaExceeded),
        (r#"{"message":"m","code":401}"#, ErrorCode::AuthenticationFailed),
        (r#"{"message":"m","type":"server_error"}"#, ErrorCode::ProviderError),
        (r#"{"message":"m","type":"unknown_error"}"#, ErrorCode::ProviderError),
        (r#""m""#, ErrorCode::ProviderError),
    ] {
        let frame = format!(r#"{{"error":{error}}}"#);
        let failure = streamed(&openai(), [frame.as_str()], &hello()).1.unwrap_err();
        assert_eq!(failure.code, code, "{error}");
        assert!(!failure.message.contains('{'), "{failure}");
    }
}

#[test]
fn messages_are_read_from_every_shape_of_error_body() {
    for (body, message) in [
        (r#"{"error":{"message":"a","type":"x"}}"#, "a"),
        (r#"{"message":"b"}"#, "b"),
        (r#"{"error":{"error":{"message":"c"}}}"#, "c"),
        (r#"{"detail":"d"}"#, "d"),
        (r#"{"detail":[{"loc":["body"],"msg":"e1"},{"msg":"e2"}]}"#, "e1; e2"),
        (r#"{"error":"f"}"#, "f"),
        (r#"[{"error":{"code":400,"message":"g","status":"INVALID_ARGUMENT"}}]"#, "g"),
        ("plain words", "plain words"),
        ("<html><body>Bad gateway</body></html>", "HTTP 400: Bad Request"),
        ("", "HTTP 400: Bad Request"),
        (&"x".repeat(200), "HTTP 400: Bad Request"),
        (&r#"{"error":"#.repeat(50_000), "HTTP 400: Bad Request"),
    ] {
        assert_eq!(VendorError::of_status(400, body), (ErrorCode::InvalidRequest, message.to_owned()));
    }
}

#[test]
fn every_status_maps_to_an_error_code() {
    use ErrorCode::*;
    for (status, code) in [
        (400, InvalidRequest),
        (401, AuthenticationFailed),
        (402, QuotaExceeded),
        (403, AuthenticationFailed),
        (404, ModelNotFound),
        (408, Timeout),
        (409, InvalidRequest),
        (413, ContextLengthExceeded),
        (418, ProviderError),
        (422, InvalidRequest),
        (429, RateLimited),
        (451, ContentFiltered),
        (500, ProviderError),
        (502, ProviderError),
        (503, ProviderError),
        (504, ProviderError),
        (529, ProviderError),
    ] {
        assert_eq!(code_of_status(status), code);
        assert_eq!(VendorError::of_status(status, "{}").0, code);
    }
    for (status, body, code) in [
        (400, r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#, ContextLengthExceeded),
        (400, r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#, ContextLengthExceeded),
        (400, r#"{"error":{"code":"content_filter","message":"m"}}"#, ContentFiltered),
        (403, r#"{"error":{"message":"You exceeded your current quota"}}"#, QuotaExceeded),
        (429, r#"{"error":{"type":"insufficient_quota","message":"m"}}"#, QuotaExceeded),
        (429, r#"{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"m"}}"#, RateLimited),
        (500, r#"{"error":{"type":"rate_limit_error","message":"m"}}"#, ProviderError),
        (404, r#"{"error":{"type":"invalid_request_error","message":"m"}}"#, ModelNotFound),
    ] {
        assert_eq!(VendorError::of_status(status, body).0, code, "{body}");
    }
}

#[test]
fn deeply_nested_responses_are_refused_without_recursion() {
    let deep = "[".repeat(100_000);
    for body in [
        format!(r#"{{"choices":[{{"message":{{"content":{deep}"#),
        format!(r#"{{"choices":[{{"message":{{"content":[{{"thinking":{deep}"#),
        format!(
            r#"{{"choices":[{{"message":{{"content":"x","tool_calls":[{{"function":{{"name":"f","arguments":{deep}"#
        ),
        format!(r#"{{"usage":{deep}"#),
    ] {
        assert_eq!(decoded(&openai(), &body, &hello()).unwrap_err().code, ErrorCode::InvalidResponse);
    }
    let closed = format!(
        r#"{{"choices":[{{"message":{{"content":[{{"thinking":{deep}{}}}]}}}}]}}"#,
        "]".repeat(100_000)
    );
    let _ = decoded(&openai(), &closed, &hello());
}

proptest! {
    #[test]
    fn damaged_frames_are_errors_or_messages_that_round_trip(
        start in 0..700_usize,
        length in 0..60_usize,
        noise in "[\\[\\]{}\":,a0\\\\-]{0,12}",
    ) {
        for body in [fixture!("parallel_tools.json"), fixture!("reasoning.json"), fixture!("text.json")] {
            let characters: Vec<char> = body.chars().collect();
            let start = start.min(characters.len());
            let end = (start + length).min(characters.len());
            let broken: String = characters[..start].iter().collect::<String>() + &noise + &characters[end..].iter().collect::<String>();
            let complete = decoded(&openai(), &broken, &hello());
            let (_, streamed) = streamed(&openai(), [broken.as_str(), noise.as_str()], &hello());
            for response in [complete, streamed].into_iter().flatten() {
                let message = serde_json::from_str::<Message>(&message_json(&response)).unwrap();
                prop_assert_eq!(&message, &*response.message);
            }
        }
    }
}
