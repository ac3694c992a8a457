//! Costs of calls, and calls with unknown costs.

use std::sync::Arc;

use serde_json::{Value, json};
use turntree::message::TokenUsage;
use turntree::upp::dialect::Dialect;
use turntree::upp::http_model::HttpModel;
use turntree::upp::pricing::{Price, Prices};
use turntree::upp::providers::anthropic::anthropic;
use turntree::upp::providers::openai::openai;
use turntree::upp::providers::openrouter::{openrouter, openrouter_responses};
use turntree::upp::{Model, ModelRequest, ProviderConfig};

use crate::support::dialect::{decoded, hello, with_params};
use crate::support::server::{Server, json as reply};

fn usage(usage: Value) -> TokenUsage {
    serde_json::from_value(usage).unwrap()
}

fn price(row: Value) -> Price {
    serde_json::from_value(row).unwrap()
}

#[test]
fn every_row_has_a_date_and_a_source_and_no_model_has_two() {
    let prices = Prices::built_in();
    assert!(prices.rows().len() > 20, "the table was not read");
    let mut seen = std::collections::BTreeSet::new();
    for row in prices.rows() {
        let date = row.date.as_deref().unwrap();
        assert!(date.len() == 10 && date.starts_with("20"), "{row:?}");
        assert!(row.source.as_deref().unwrap().starts_with("https://"), "{row:?}");
        assert_eq!(row.currency, "USD");
        assert!(row.input > 0.0 && row.output >= row.input, "{row:?}");
        assert!(row.cache_read.is_none_or(|read| read < row.input), "{row:?}");
        for model in &row.models {
            assert!(seen.insert((row.provider.clone(), model.clone())), "{model} has two rows");
        }
    }
}

#[test]
fn each_kind_of_token_has_its_price() {
    let row = price(json!({"provider": "p", "models": ["m*"], "input": 3, "output": 15, "cache_read": 0.3,
        "cache_write": 3.75, "cache_write_1h": 6, "up_to_input_tokens": 1000}));
    let tokens =
        usage(json!({"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 50, "cacheWriteTokens": 30,
        "cacheWrite1hTokens": 20}));

    // Cache tokens counted separately: 100 × 3 + 50 × 0.3 + 10 × 3.75 + 20 × 6 + 10 × 15; counted as input: 20 × 3 instead of 100 × 3.
    assert_eq!(row.cost(&tokens, true), Some(0.000_622_5));
    assert_eq!(row.cost(&tokens, false), Some(0.000_382_5));
    let long = usage(json!({"inputTokens": 900, "outputTokens": 1, "cacheReadTokens": 101}));
    assert_eq!(row.cost(&long, true), None, "the price is for shorter prompts");
    assert!(row.cost(&long, false).is_some());
    assert_eq!(row.cost(&usage(json!({})), false), None, "the vendor reported no tokens");
}

#[test]
fn a_missing_price_is_not_guessed() {
    let row = price(json!({"provider": "p", "models": ["m"], "input": 1, "output": 1}));
    assert!(row.cost(&usage(json!({"inputTokens": 1, "outputTokens": 1})), false).is_some());
    assert_eq!(row.cost(&usage(json!({"inputTokens": 2, "cacheReadTokens": 1})), false), None);
    let prices = Prices::new(vec![row]);
    assert!(prices.find("p", "m").is_some());
    assert!(prices.find("p", "m-mini").is_none() && prices.find("q", "m").is_none());
}

#[test]
fn the_total_cost_is_known_if_the_cost_of_every_call_is() {
    let of = |cost: Option<f64>| TokenUsage { cost, ..TokenUsage::of_call(1, 1) };
    let known = TokenUsage::aggregate(&[of(Some(0.5)), of(Some(0.25))]);
    assert_eq!(known.cost, Some(0.75));
    assert_eq!(known.cycles.as_ref().unwrap()[1].cost, Some(0.25));
    assert_eq!(TokenUsage::aggregate(&[of(Some(0.5)), of(None)]).cost, None);
    assert_eq!(TokenUsage::aggregate(&[]).cost, None);
    // Without costs the JSON has the members of the specification only.
    let json = serde_json::to_string(&TokenUsage::aggregate(&[of(None)])).unwrap();
    assert!(!json.contains("cost") && !json.contains("1h"), "{json}");
}

fn answer(model: &str, usage: &Value) -> String {
    json!({"id": "resp_1", "model": model, "status": "completed", "usage": usage, "output": [
        {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi."}]}]})
    .to_string()
}

async fn cost_of(answer: String, request: ModelRequest, prices: Option<Prices>) -> Option<f64> {
    let server = Server::start([reply(&answer)]).await;
    let config = ProviderConfig::default().with_base_url(server.url("/v1")).with_key("sk-0123456789");
    let model = HttpModel::new(Arc::new(openai()), "gpt-5", config);
    let model = match prices {
        Some(prices) => model.with_prices(Arc::new(prices)),
        None => model,
    };
    model.complete(request).await.unwrap().usage.cost
}

#[tokio::test]
async fn a_call_is_priced_by_the_model_that_answered() {
    let usage =
        json!({"input_tokens": 1000, "output_tokens": 100, "input_tokens_details": {"cached_tokens": 400}});
    // 600 × 1.25 + 400 × 0.125 + 100 × 10.
    let known = Some(0.0018);
    assert_eq!(cost_of(answer("gpt-5-2025-08-07", &usage), hello(), None).await, known);
    assert_eq!(cost_of(answer("gpt-99", &usage), hello(), None).await, None);
    let own = Prices::built_in().with(vec![price(
        json!({"provider": "openai", "models": ["gpt-99"], "input": 1, "output": 1, "cache_read": 1}),
    )]);
    assert_eq!(cost_of(answer("gpt-99", &usage), hello(), Some(own)).await, Some(0.0011));
    for params in [
        r#"{"service_tier":"flex"}"#,
        r#"{"service_tier":"priority"}"#,
        r#"{"tools":[{"type":"web_search"}]}"#,
    ] {
        let request = with_params(hello(), params);
        assert_eq!(cost_of(answer("gpt-5", &usage), request, None).await, None, "{params}");
    }
    let request = with_params(hello(), r#"{"service_tier":"default","tools":[]}"#);
    assert_eq!(cost_of(answer("gpt-5", &usage), request, None).await, known);
    let flexible = answer("gpt-5", &usage).replacen('{', r#"{"service_tier":"flex","#, 1);
    assert_eq!(cost_of(flexible, hello(), None).await, None);
}

#[test]
fn cache_writes_for_one_hour_are_counted_separately() {
    let body = json!({"type": "message", "id": "msg_1", "model": "claude-haiku-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Hi."}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 300,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200}}});
    let dialect = anthropic::<&str>(&[], &ProviderConfig::default());
    let usage = decoded(&dialect, &body.to_string(), &hello()).unwrap().usage;
    assert_eq!((usage.cache_write_tokens, usage.cache_write_1h_tokens), (300, Some(200)));
    let prices = Prices::built_in();
    let row = prices.find("anthropic", "claude-haiku-4-5").unwrap();
    // 10 × 1 + 100 × 1.25 + 200 × 2 + 5 × 5.
    assert_eq!(row.cost(&usage, dialect.counts_cache_apart()), Some(0.000_56));
}

#[test]
fn a_cost_reported_by_the_vendor_is_used_and_invalid_values_are_ignored() {
    let chat = |cost: Value| {
        let body = json!({"id": "g", "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": cost},
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Hi."}}]});
        decoded(&openrouter(), &body.to_string(), &hello()).unwrap().usage.cost
    };
    assert_eq!(chat(json!(0.0125)), Some(0.0125));
    assert_eq!(chat(json!(0)), Some(0.0));
    for noise in [json!(null), json!("cheap"), json!({"total": 1}), json!(-1)] {
        assert_eq!(chat(noise.clone()), None, "{noise}");
    }
    let body = answer("m", &json!({"input_tokens": 1, "output_tokens": 1, "cost": 0.5}));
    assert_eq!(decoded(&openrouter_responses(), &body, &hello()).unwrap().usage.cost, Some(0.5));
    assert_eq!(decoded(&openai(), &body, &hello()).unwrap().usage.cost, None);
}
