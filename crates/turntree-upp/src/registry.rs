//! Providers by name: `"openai:gpt-5"` names a model.
//!
//! The vendors of this crate are registered from the start. [`register`] adds a custom provider for the whole process;
//! `docs/providers.md` shows one.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::config::ProviderConfig;
use super::error::{Modality, UppError};
use super::http_model::HttpModel;
use super::provider::Model;
use super::providers::factory::{FactoryOptions, dialect_factory};
use super::providers::hosts;

/// Creates the models of one provider, of every modality it supports.
///
/// The default methods report the modality as unsupported.
pub trait ModelFactory: Send + Sync {
    /// Creates a language model.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for an invalid model id or configuration.
    fn llm(
        &self,
        provider: &str,
        model_id: &str,
        config: ProviderConfig,
    ) -> Result<Arc<dyn Model>, UppError> {
        let (_, _) = (model_id, config);
        Err(unsupported(provider, Modality::Llm))
    }
}

/// A function from model id and configuration, for providers of language models only.
impl<F> ModelFactory for F
where
    F: Fn(&str, ProviderConfig) -> Result<Arc<dyn Model>, UppError> + Send + Sync,
{
    fn llm(
        &self,
        _provider: &str,
        model_id: &str,
        config: ProviderConfig,
    ) -> Result<Arc<dyn Model>, UppError> {
        self(model_id, config)
    }
}

type Factories = BTreeMap<String, Arc<dyn ModelFactory>>;

static FACTORIES: LazyLock<RwLock<Factories>> = LazyLock::new(|| RwLock::new(built_in()));

/// Registers a provider under a name, for the rest of the process.
///
/// ```
/// use std::sync::Arc;
/// use turntree_upp::providers::scripted::Scripted;
/// use turntree_upp::{Model, ProviderConfig, UppError, registry};
///
/// let parrot = |model_id: &str, _config: ProviderConfig| -> Result<Arc<dyn Model>, UppError> {
///     Ok(Arc::new(Scripted::new(["Polly wants a cracker."]).named(model_id)))
/// };
/// registry::register("parrot", parrot)?;
/// let model = registry::model("parrot:grey", ProviderConfig::default())?;
/// assert_eq!(model.model_id(), "grey");
/// # Ok::<_, UppError>(())
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for a name that is registered already, is empty, or
/// contains `:` or whitespace.
pub fn register(name: &str, factory: impl ModelFactory + 'static) -> Result<(), UppError> {
    if name.is_empty() || name.contains(':') || name.contains(char::is_whitespace) {
        let message = format!("invalid provider name \"{name}\": expected a word without a colon");
        return Err(UppError::invalid_request(name, message));
    }
    let mut factories = FACTORIES.write().unwrap_or_else(PoisonError::into_inner);
    if factories.contains_key(name) {
        let message = format!("a provider named \"{name}\" already exists; choose another name");
        return Err(UppError::invalid_request(name, message));
    }
    factories.insert(name.to_owned(), Arc::new(factory));
    Ok(())
}

/// The names of all providers, sorted.
pub fn names() -> Vec<String> {
    FACTORIES.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
}

/// Creates the model that a reference such as `openai:gpt-5` names: the provider, a colon, and the vendor's name of
/// the model, which may contain colons.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for an invalid reference or an unknown provider;
/// errors of the factory.
pub fn model(reference: &str, config: ProviderConfig) -> Result<Arc<dyn Model>, UppError> {
    let Some((provider, model_id)) = reference.split_once(':').filter(|(_, model_id)| !model_id.is_empty())
    else {
        let message =
            format!("invalid model name \"{reference}\": expected provider:model, such as \"openai:gpt-5\"");
        return Err(UppError::invalid_request("", message));
    };
    let factory = FACTORIES.read().unwrap_or_else(PoisonError::into_inner).get(provider).cloned();
    let Some(factory) = factory else {
        let known = names().join(", ");
        let message = format!("unknown provider \"{provider}\"; expected one of {known}");
        return Err(UppError::invalid_request(provider, message));
    };
    factory.llm(provider, model_id, config)
}

fn unsupported(provider: &str, modality: Modality) -> UppError {
    let kind = match modality {
        Modality::Llm => "LLM",
        other => other.as_str(),
    };
    let error = UppError::invalid_request(
        provider,
        format!("Provider '{provider}' does not support {kind} modality"),
    );
    UppError { modality, ..error }
}

/// The vendors of this crate. A vendor with several APIs has one name for each.
fn built_in() -> Factories {
    let vendors: [(&str, &'static str, Option<&'static str>); 20] = [
        ("anthropic", "anthropic", None),
        ("cerebras", "cerebras", None),
        ("deepseek", "deepseek", Some("completions")),
        ("deepseek_responses", "deepseek", Some("responses")),
        ("google", "google", None),
        ("groq", "groq", None),
        ("mistral", "mistral", None),
        ("moonshot", "moonshot", None),
        ("ollama", "ollama", None),
        ("openai", "openai", Some("responses")),
        ("openai_chat", "openai", Some("completions")),
        ("openai_responses", "openai", Some("responses")),
        ("openai_compatible", "openai_compatible", None),
        ("openrouter", "openrouter", Some("completions")),
        ("openrouter_responses", "openrouter", Some("responses")),
        ("responses", "responses", None),
        ("xai", "xai", Some("completions")),
        ("xai_chat", "xai", Some("completions")),
        ("xai_messages", "xai", Some("messages")),
        ("xai_responses", "xai", Some("responses")),
    ];
    let factory = |provider: &'static str, api: Option<&'static str>| -> Arc<dyn ModelFactory> {
        Arc::new(move |model_id: &str, config: ProviderConfig| -> Result<Arc<dyn Model>, UppError> {
            let options =
                FactoryOptions { api, base_url: config.base_url.as_deref(), ..FactoryOptions::default() };
            let dialect = dialect_factory(provider, options)?(&config);
            Ok(Arc::new(HttpModel::new(dialect, model_id, config)))
        })
    };
    let entry = |(name, provider, api): (&str, _, _)| (name.to_owned(), factory(provider, api));
    let hosts = hosts::names().map(|name| entry((name, name, None)));
    vendors.into_iter().map(entry).chain(hosts).collect()
}
