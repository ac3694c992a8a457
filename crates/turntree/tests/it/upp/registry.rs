//! The registry of providers, and a provider from outside the crate.

use std::sync::Arc;

use turntree::upp::providers::scripted::Scripted;
use turntree::upp::registry::{self, ModelFactory};
use turntree::upp::{ErrorCode, Model, ProviderConfig, UppError};

use crate::support::dialect::hello;

fn host() -> ProviderConfig {
    ProviderConfig::default().with_base_url("http://localhost:9/v1").with_key("sk-0123456789")
}

#[test]
fn every_vendor_is_registered() {
    for name in registry::names() {
        let Ok(model) = registry::model(&format!("{name}:some/model:tag"), host()) else {
            panic!("{name} makes no model");
        };
        if !name.starts_with("test") {
            assert_eq!(model.model_id(), "some/model:tag");
            assert!(name.starts_with(model.provider()), "{name}");
        }
    }
    assert!(registry::names().len() >= 20);
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of a factory")]
fn scripted(model_id: &str, _config: ProviderConfig) -> Result<Arc<dyn Model>, UppError> {
    Ok(Arc::new(Scripted::new(["From outside."]).named(model_id)))
}

#[tokio::test]
async fn an_external_provider_is_registered_once_and_resolved_by_name() {
    registry::register("test_external", scripted).unwrap();

    let model = registry::model("test_external:small", ProviderConfig::default()).unwrap();
    let answer = model.complete(hello()).await.unwrap();

    assert_eq!(answer.message.content()[0].as_text(), Some("From outside."));
    for taken in ["test_external", "openai"] {
        let error = registry::register(taken, scripted).unwrap_err();
        assert!(error.message.contains("already"), "{}", error.message);
    }
    for name in ["", "a:b", "a b"] {
        assert_eq!(registry::register(name, scripted).unwrap_err().code, ErrorCode::InvalidRequest);
    }
}

#[test]
fn invalid_model_references_are_refused_with_a_remedy() {
    for (reference, words) in [
        ("gpt-5", "provider:model"),
        ("openai:", "provider:model"),
        ("unknown:m", "expected one of anthropic"),
        ("openai_compatible:m", "base_url"),
        ("responses:m", "base_url"),
    ] {
        let error = registry::model(reference, ProviderConfig::default()).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.contains(words), "{reference}: {}", error.message);
    }
}

#[test]
fn an_unsupported_modality_is_refused() {
    struct Unsupporting;
    impl ModelFactory for Unsupporting {}
    let error = Unsupporting.llm("nothing", "m", ProviderConfig::default()).unwrap_err();
    assert_eq!(error.message, "Provider 'nothing' does not support LLM modality");
}

#[path = "../../../examples/custom_provider.rs"]
mod custom_provider;

#[test]
fn the_provider_example_runs() {
    custom_provider::main().unwrap();
}
