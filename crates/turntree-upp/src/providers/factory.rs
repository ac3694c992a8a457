//! The dialects of vendors by the names of their factories.

use std::sync::Arc;

use super::{
    anthropic, bedrock, cerebras, deepseek, google, groq, hosts, mistral, moonshot, ollama, openai,
    openai_chat, openai_compatible, openrouter, responses, xai,
};
use crate::aws::AwsCredentials;
use crate::config::ProviderConfig;
use crate::dialect::Dialect;
use crate::error::UppError;

/// Creates a vendor's dialect for a configuration. Some dialects depend on it, for example on the API version.
pub type DialectFactory = Box<dyn Fn(&ProviderConfig) -> Arc<dyn Dialect> + Send + Sync>;

/// The options of a factory.
#[derive(Debug, Clone, Copy, Default)]
pub struct FactoryOptions<'a> {
    /// The API of a vendor with several: `completions`, `responses` or `messages`. Required for those.
    pub api: Option<&'a str>,
    /// Beta features, for Anthropic.
    pub betas: &'a [String],
    /// The prefix of all paths, for providers without a host of their own.
    pub base_url: Option<&'a str>,
    /// The region, for Amazon Bedrock. Required there.
    pub region: Option<&'a str>,
    /// The credentials, for Amazon Bedrock. Default: those of the environment.
    pub aws: Option<&'a AwsCredentials>,
}

/// The factory of a vendor's dialect.
///
/// ```
/// use turntree_upp::ProviderConfig;
/// use turntree_upp::providers::factory::{FactoryOptions, dialect_factory};
///
/// let options = FactoryOptions { api: Some("responses"), ..FactoryOptions::default() };
/// let dialect = dialect_factory("deepseek", options)?(&ProviderConfig::default());
/// assert_eq!(dialect.provider(), "deepseek");
/// # Ok::<_, turntree_upp::UppError>(())
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for an unknown provider, an API that the provider
/// does not have, and a missing URL.
pub fn dialect_factory(provider: &str, options: FactoryOptions<'_>) -> Result<DialectFactory, UppError> {
    let FactoryOptions { api, betas, base_url, region, aws } = options;
    let base_url = || base_url.map(str::to_owned).ok_or_else(|| missing_url(provider));
    Ok(match (provider, api) {
        ("anthropic", None) => {
            let betas = betas.to_vec();
            Box::new(move |config| Arc::new(anthropic::anthropic(&betas, config)))
        }
        ("anthropic", Some("vertex")) => {
            let (url, betas) = (base_url()?, betas.to_vec());
            Box::new(move |config| {
                let dialect = anthropic::anthropic::<&str>(&[], config).at_vertex(url.clone());
                Arc::new(dialect.with_betas(&betas))
            })
        }
        ("bedrock", None) => of_region(provider, region, aws)?,
        ("cerebras", None) => Box::new(|_| Arc::new(cerebras::cerebras())),
        ("deepseek", Some("completions")) => Box::new(|_| Arc::new(deepseek::deepseek())),
        ("deepseek", Some("responses")) => Box::new(|_| Arc::new(deepseek::deepseek_responses())),
        ("azure", Some(sign_in @ ("key" | "token"))) => {
            let (url, has_token) = (base_url()?, sign_in == "token");
            Box::new(move |_| Arc::new(hosts::azure(url.clone(), has_token)))
        }
        ("vertex", None) => {
            let url = base_url()?;
            Box::new(move |_| Arc::new(google::vertex(url.clone())))
        }
        ("google", None) => Box::new(|config| Arc::new(google::google(config))),
        ("groq", None) => Box::new(|_| Arc::new(groq::groq())),
        ("mistral", None) => Box::new(|_| Arc::new(mistral::mistral())),
        ("moonshot", None) => Box::new(|_| Arc::new(moonshot::moonshot())),
        ("ollama", None) => Box::new(|_| Arc::new(ollama::ollama())),
        ("openai", Some("completions")) => Box::new(|_| Arc::new(openai_chat::openai_chat())),
        ("openai", Some("responses")) => Box::new(|_| Arc::new(openai::openai())),
        (openai_compatible::PROVIDER, None) => {
            let url = base_url()?;
            Box::new(move |_| Arc::new(openai_compatible::openai_compatible(url.as_str())))
        }
        ("openrouter", Some("completions")) => Box::new(|_| Arc::new(openrouter::openrouter())),
        ("openrouter", Some("responses")) => Box::new(|_| Arc::new(openrouter::openrouter_responses())),
        (responses::PROVIDER, None) => {
            let dialect: Arc<dyn Dialect> = Arc::new(responses::responses(base_url()?)?);
            Box::new(move |_| Arc::clone(&dialect))
        }
        ("xai", Some("completions")) => Box::new(|_| Arc::new(xai::xai())),
        ("xai", Some("messages")) => Box::new(|config| Arc::new(xai::xai_messages(config))),
        ("xai", Some("responses")) => Box::new(|_| Arc::new(xai::xai_responses())),
        (name, None) if hosts::names().any(|host| host == name) => {
            let dialect: Arc<dyn Dialect> = Arc::new(hosts::host(name).ok_or_else(|| missing_url(name))?);
            Box::new(move |_| Arc::clone(&dialect))
        }
        (_, None) => {
            return Err(UppError::invalid_request(provider, format!("unknown provider \"{provider}\"")));
        }
        (_, Some(api)) => return Err(unknown_api(provider, api)),
    })
}

/// The factory of Bedrock.
fn of_region(
    provider: &str,
    region: Option<&str>,
    aws: Option<&AwsCredentials>,
) -> Result<DialectFactory, UppError> {
    let Some(region) = region.filter(|region| is_region(region)) else {
        let message = "region must be the name of a region of AWS, such as \"eu-central-1\"";
        return Err(UppError::invalid_request(provider, message));
    };
    // One signer for all bindings of the model: it keeps the credentials until they expire.
    let dialect: Arc<dyn Dialect> = Arc::new(bedrock::bedrock(region, &aws.cloned().unwrap_or_default()));
    Ok(Box::new(move |_| Arc::clone(&dialect)))
}

/// The name becomes a part of the host's name.
fn is_region(name: &str) -> bool {
    let is_taken =
        |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-';
    !name.is_empty() && name.len() <= 32 && name.chars().all(is_taken)
}

fn unknown_api(provider: &str, api: &str) -> UppError {
    let known = match provider {
        "xai" => "\"completions\", \"responses\" or \"messages\"",
        _ => "\"responses\" or \"completions\"",
    };
    UppError::invalid_request(provider, format!("api must be {known} for {provider}, not \"{api}\""))
}

fn missing_url(provider: &str) -> UppError {
    let message = format!("{provider} has no default URL; set base_url in the configuration");
    UppError::invalid_request(provider, message)
}
