//! Media, numbers, usage and error codes.

use serde_json::json;
use turntree_uamp::types::{
    ContentItem, Cost, ErrorCode, Media, MessageToolCall, Number, SessionConfig, UsageStats,
};

#[test]
fn a_string_is_a_url_or_base64() {
    let url = |text: &str| Media::Text(text.to_owned()).url().is_some();

    assert!(
        url("https://media.test/a")
            && url("HTTP://media.test/a")
            && url("data:image/png;base64,AA==")
            && url("/api/a")
    );
    // How JPEG and MP3 begin in base64.
    assert!(!url("/9j/4AAQ") && !url("//uQxAAA") && !url("iVBORw0K") && !url(""));
    assert_eq!(Media::Text("AAAA".to_owned()).base64(), Some("AAAA"));
    assert_eq!(Media::from_url("AAAA").base64(), None);
}

#[test]
fn the_content_id_is_that_of_the_url_or_a_new_one() {
    let id = |image: serde_json::Value| {
        let mut item: ContentItem = serde_json::from_value(json!({"type": "image", "image": image})).unwrap();
        item.assign_content_id(|| "new".to_owned());
        item.content_id().unwrap().to_owned()
    };

    assert_eq!(
        id(json!({"url": "https://x.test/api/content/3f2504e0-4f89-41d3-9a0c-0305e82c3301?sig=1"})),
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    );
    assert_eq!(id(json!({"url": "/api/content/other"})), "new");
    assert_eq!(id(json!("AAAA")), "new");
}

#[test]
fn text_and_tools_have_no_content_id() {
    let mut item = ContentItem::text("Hi");

    item.assign_content_id(|| "new".to_owned());
    assert_eq!(serde_json::to_value(&item).unwrap(), json!({"type": "text", "text": "Hi"}));
}

#[test]
fn calls_of_both_forms_have_name_and_arguments() {
    let call = |value| serde_json::from_value::<MessageToolCall>(value).unwrap();
    let plain = call(json!({"id": "k", "name": "locate", "arguments": "{\"a\":1}"}));
    let nested = call(
        json!({"id": "k", "type": "function", "function": {"name": "locate", "arguments": "{\"a\":1}"}}),
    );
    let empty = call(json!({"id": "k", "function": {"name": "locate"}}));

    assert_eq!((plain.tool_name(), plain.tool_arguments()), (Some("locate"), "{\"a\":1}"));
    assert_eq!((nested.tool_name(), nested.tool_arguments()), (Some("locate"), "{\"a\":1}"));
    assert_eq!((empty.tool_name(), empty.tool_arguments()), (Some("locate"), "{}"));
}

#[test]
fn times_in_milliseconds_are_recognised() {
    let seconds = |value: f64| Number::from_f64(value).unwrap().unix_seconds();

    assert!((seconds(1_704_067_200.0) - 1_704_067_200.0).abs() < 1e-6);
    assert!((seconds(1_704_067_200_500.0) - 1_704_067_200.5).abs() < 1e-6);
}

#[test]
fn integers_stay_integers() {
    let number: Number = serde_json::from_str("1704067200000").unwrap();

    assert_eq!(serde_json::to_string(&number).unwrap(), "1704067200000");
    assert_eq!(number.as_u64(), Some(1_704_067_200_000));
    assert!(serde_json::from_str::<Number>("\"5\"").is_err());
}

#[test]
fn usage_is_added_and_costs_of_two_currencies_are_not() {
    let cost = |currency: &str| Cost {
        total_cost: Number::from_f64(0.25),
        currency: Some(currency.to_owned()),
        ..Cost::default()
    };
    let call = |tokens, currency| UsageStats {
        input_tokens: Some(tokens),
        cost: Some(cost(currency)),
        ..UsageStats::default()
    };
    let mut usage = call(5, "USD");

    usage.add(&call(6, "USD"));
    assert_eq!(
        serde_json::to_value(&usage).unwrap(),
        json!({"input_tokens": 11, "cost": {"total_cost": 0.5, "currency": "USD"}})
    );
    usage.add(&call(u64::MAX, "EUR"));
    assert_eq!(serde_json::to_value(&usage).unwrap(), json!({"input_tokens": u64::MAX}));
}

#[test]
fn error_codes_have_the_status_of_http() {
    let status = |code: &str| ErrorCode::from(code).http_status();

    assert_eq!((status("unauthorized"), status("payment_required"), status("forbidden")), (401, 402, 403));
    assert_eq!(
        (status("model_not_found"), status("response_in_progress"), status("rate_limited")),
        (404, 409, 429)
    );
    assert_eq!((status("agent_offline"), status("tool_timeout"), status("new_code")), (503, 504, 500));
    assert_eq!(ErrorCode::from("new_code").as_str(), "new_code");
    for code in ErrorCode::VALUES {
        assert_eq!(ErrorCode::from(*code).to_string(), *code);
        assert!(!matches!(ErrorCode::from(*code), ErrorCode::Other(_)));
    }
}

#[test]
fn settings_of_the_server_that_have_another_form_are_an_error() {
    let config: SessionConfig =
        serde_json::from_value(json!({"extensions": {"uamp": {"auto_response": "yes"}}})).unwrap();

    assert!(config.uamp_extension().is_err());
    assert!(SessionConfig::default().uamp_extension().unwrap().resume.is_none());
}
