//! References to models: a provider, a model id and a configuration.
//!
//! Spec: UPP-1.2 §9.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::config::{config_from, text, warn_of_plain_http};
use super::custom::CustomModel;
use super::custom_media::{CustomEmbeddings, CustomImages};
use super::prices::rows_from;
use super::replay::Ambient;
use super::request::ModelRequest;
use super::scripted::script_from;
use crate::bridge::callbacks::Callbacks;
use crate::bridge::gc::garbage_collected;
use turntree_core::http::EnvironmentKey;
use turntree_upp::dialect::Dialect;
use turntree_upp::embedding::{EmbeddingModel, HttpEmbeddingModel};
use turntree_upp::http_model::HttpModel;
use turntree_upp::image::{HttpImageModel, ImageModel};
use turntree_upp::pricing::{Price, Prices};
use turntree_upp::providers;
use turntree_upp::providers::scripted::Scripted;
use turntree_upp::{Capabilities, Modality, Model, ProviderConfig, UppError};

/// Creates a provider's dialect. Some dialects depend on the configuration (API version, beta header).
type MakeDialect = Box<dyn Fn(&ProviderConfig) -> Arc<dyn Dialect> + Send + Sync>;

/// Implementation of a model.
pub(crate) enum Source {
    /// A vendor's API over HTTP, and the constructor of the dialect for a changed configuration.
    Http { dialect: Arc<dyn Dialect>, make: MakeDialect },
    /// A scripted model.
    Scripted(Scripted),
    /// A provider that is written in Python.
    Custom(CustomModel),
}

/// A reference to a model: provider, model id and configuration.
///
/// Returned by a provider's factory such as ``anthropic("claude-sonnet-4-5")``, or by `scripted`. Compared by
/// identity.
///
/// Spec: UPP-1.2 §9.
#[pyclass(frozen, module = "turntree.upp")]
pub(crate) struct ModelReference {
    source: Source,
    model_id: Arc<str>,
    config: ProviderConfig,
    /// Price rows that have precedence over the rows of the process.
    prices: Vec<Price>,
    held: Callbacks,
}

impl ModelReference {
    /// Creates a reference to a model without configuration.
    fn with_source(source: Source, callbacks: Callbacks) -> Self {
        let model_id = match &source {
            Source::Http { .. } => "",
            Source::Scripted(script) => script.model_id(),
            Source::Custom(model) => model.model_id(),
        };
        Self {
            model_id: model_id.into(),
            source,
            config: ProviderConfig::default(),
            prices: Vec::new(),
            held: callbacks,
        }
    }

    /// The model, with the reference's configuration overridden by an agent's.
    pub(crate) fn bind(&self, config: &ProviderConfig) -> Arc<dyn Model> {
        match &self.source {
            Source::Http { make, .. } => {
                let config = config.over(&self.config);
                let model = HttpModel::new(make(&config), Arc::clone(&self.model_id), config);
                if self.prices.is_empty() {
                    return Arc::new(Ambient(model));
                }
                Arc::new(Ambient(model.with_prices(Arc::new(Prices::current().with(self.prices.clone())))))
            }
            Source::Scripted(script) => Arc::new(script.clone()),
            Source::Custom(model) => Arc::new(model.clone()),
        }
    }

    /// The embedding model.
    ///
    /// # Errors
    /// `INVALID_REQUEST` if the provider does not support embeddings.
    pub(crate) fn bind_embedding(
        &self,
        config: &ProviderConfig,
    ) -> Result<Arc<dyn EmbeddingModel>, UppError> {
        match (&self.source, providers::embedding_dialect(self.provider_name())) {
            (Source::Custom(model), _) if model.media().embed.is_some() => {
                Ok(Arc::new(CustomEmbeddings(model.clone())))
            }
            (Source::Http { make, .. }, Some(wire)) => {
                let config = config.over(&self.config);
                let vendor = make(&config);
                let model = HttpEmbeddingModel::new(vendor, wire, Arc::clone(&self.model_id), config);
                Ok(Arc::new(Ambient(model)))
            }
            _ => Err(self.without(Modality::Embedding)),
        }
    }

    /// The image model.
    ///
    /// # Errors
    /// `INVALID_REQUEST` if the provider does not support images.
    pub(crate) fn bind_image(&self, config: &ProviderConfig) -> Result<Arc<dyn ImageModel>, UppError> {
        match (&self.source, providers::image_dialect(self.provider_name())) {
            (Source::Custom(model), _)
                if model.media().generate_image.is_some() || model.media().edit.is_some() =>
            {
                Ok(Arc::new(CustomImages(model.clone())))
            }
            (Source::Http { make, .. }, Some(wire)) => {
                let config = config.over(&self.config);
                let vendor = make(&config);
                let model = HttpImageModel::new(vendor, wire, Arc::clone(&self.model_id), config);
                Ok(Arc::new(Ambient(model)))
            }
            _ => Err(self.without(Modality::Image)),
        }
    }

    fn without(&self, modality: Modality) -> UppError {
        let (provider, name) = (self.provider_name(), modality.as_str());
        UppError::invalid_request(provider, format!("Provider '{provider}' does not support {name} modality"))
            .with_modality(modality)
    }

    fn provider_name(&self) -> &str {
        match &self.source {
            Source::Http { dialect, .. } => dialect.provider(),
            Source::Scripted(script) => script.provider(),
            Source::Custom(model) => model.provider(),
        }
    }

    fn capabilities_(&self) -> Capabilities {
        match &self.source {
            Source::Http { dialect, .. } => dialect.capabilities(),
            Source::Scripted(script) => script.capabilities(),
            Source::Custom(model) => model.capabilities(),
        }
    }
}

/// The constructor of a provider's dialect, by the name of its factory.
fn maker(provider: &str, options: &Bound<'_, PyDict>) -> PyResult<MakeDialect> {
    let text = |name: &str| options.get_item(name)?.map(|value| text(&value, name)).transpose();
    let api = text("api")?;
    Ok(match (provider, api.as_deref()) {
        ("anthropic", None) => {
            let betas = options.get_item("betas")?.map(|betas| betas.extract::<Vec<String>>()).transpose()?;
            let betas = betas.unwrap_or_default();
            Box::new(move |config| Arc::new(providers::anthropic::anthropic(&betas, config)))
        }
        ("openai", Some("responses")) => Box::new(|_| Arc::new(providers::openai::openai())),
        ("openai", Some("completions")) => Box::new(|_| Arc::new(providers::openai_chat::openai_chat())),
        ("google", None) => Box::new(|config| Arc::new(providers::google::google(config))),
        ("ollama", None) => Box::new(|_| Arc::new(providers::ollama::ollama())),
        ("openai_compatible", None) => {
            let url =
                text("base_url")?.ok_or_else(|| PyTypeError::new_err("openai_compatible needs base_url"))?;
            Box::new(move |_| Arc::new(providers::openai_compatible::openai_compatible(url.as_str())))
        }
        ("groq", None) => Box::new(|_| Arc::new(providers::groq::groq())),
        ("cerebras", None) => Box::new(|_| Arc::new(providers::cerebras::cerebras())),
        ("moonshot", None) => Box::new(|_| Arc::new(providers::moonshot::moonshot())),
        ("mistral", None) => Box::new(|_| Arc::new(providers::mistral::mistral())),
        ("deepseek", Some("completions")) => Box::new(|_| Arc::new(providers::deepseek::deepseek())),
        ("deepseek", Some("responses")) => Box::new(|_| Arc::new(providers::deepseek::deepseek_responses())),
        ("openrouter", Some("completions")) => Box::new(|_| Arc::new(providers::openrouter::openrouter())),
        ("openrouter", Some("responses")) => {
            Box::new(|_| Arc::new(providers::openrouter::openrouter_responses()))
        }
        ("xai", Some("completions")) => Box::new(|_| Arc::new(providers::xai::xai())),
        ("xai", Some("responses")) => Box::new(|_| Arc::new(providers::xai::xai_responses())),
        ("xai", Some("messages")) => Box::new(|config| Arc::new(providers::xai::xai_messages(config))),
        ("responses", None) => {
            let host = text("host")?.ok_or_else(|| PyTypeError::new_err("responses needs host"))?;
            let dialect = Arc::new(
                providers::responses::responses(host)
                    .map_err(|error| PyValueError::new_err(error.message))?,
            );
            Box::new(move |_| Arc::clone(&dialect) as Arc<dyn Dialect>)
        }
        (provider, Some(api)) => {
            let known = match provider {
                "xai" => "\"completions\", \"responses\" or \"messages\"",
                _ => "\"responses\" or \"completions\"",
            };
            return Err(PyValueError::new_err(format!("api must be {known} for {provider}, not \"{api}\"")));
        }
        (other, None) => return Err(PyValueError::new_err(format!("unknown provider \"{other}\""))),
    })
}

#[pymethods]
impl ModelReference {
    #[new]
    fn new(
        provider: &str,
        model_id: String,
        options: &Bound<'_, PyDict>,
        config: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        if model_id.is_empty() {
            return Err(PyValueError::new_err("model_id must not be empty"));
        }
        let (mut config, held) = config_from(config)?;
        let make = maker(provider, options)?;
        for name in ["base_url", "host"] {
            if let Some(url) = options.get_item(name)? {
                warn_of_plain_http(url.py(), &text(&url, name)?)?;
            }
        }
        if let (Some(variable), None) = (options.get_item("api_key_env")?, &config.api_key) {
            config = config.with_key_strategy(EnvironmentKey::new([text(&variable, "api_key_env")?]));
        }
        let prices =
            options.get_item("prices")?.map(|rows| rows_from(&rows)).transpose()?.unwrap_or_default();
        let source = Source::Http { dialect: make(&config), make };
        Ok(Self { source, model_id: model_id.into(), config, prices, held })
    }

    /// The vendor's name of the model.
    #[getter]
    fn model_id(&self) -> &str {
        &self.model_id
    }

    /// Name of the provider, such as ``openai``.
    #[getter]
    fn provider(&self) -> &str {
        self.provider_name()
    }

    /// The modalities of the provider: some of ``llm``, ``embedding`` and ``image``.
    #[getter]
    fn modalities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let provider = self.provider_name();
        let [llm, embedding, image] = match &self.source {
            Source::Http { .. } => [
                true,
                providers::embedding_dialect(provider).is_some(),
                providers::image_dialect(provider).is_some(),
            ],
            Source::Scripted(_) => [true, false, false],
            Source::Custom(model) => {
                let media = model.media();
                [
                    model.is_llm(),
                    media.embed.is_some(),
                    media.generate_image.is_some() || media.edit.is_some(),
                ]
            }
        };
        let served = [(Modality::Llm, llm), (Modality::Embedding, embedding), (Modality::Image, image)];
        let names = served.iter().filter(|(_, is_served)| *is_served).map(|(modality, _)| modality.as_str());
        PyTuple::new(py, names.collect::<Vec<_>>())
    }

    /// Capabilities of the model.
    ///
    /// Keys: ``streaming``, ``tools``, ``structured_output``, ``image_input``, ``document_input``,
    /// ``video_input`` and ``audio_input``.
    #[getter]
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let capabilities = self.capabilities_();
        let dict = PyDict::new(py);
        for (name, value) in [
            ("streaming", capabilities.streaming),
            ("tools", capabilities.tools),
            ("structured_output", capabilities.structured_output),
            ("image_input", capabilities.image_input),
            ("document_input", capabilities.document_input),
            ("video_input", capabilities.video_input),
            ("audio_input", capabilities.audio_input),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// The requests that a scripted model has received, in order. Empty for other models.
    #[getter]
    fn requests(&self) -> Vec<ModelRequest> {
        match &self.source {
            Source::Scripted(script) => script.requests().into_iter().map(ModelRequest).collect(),
            Source::Http { .. } | Source::Custom(_) => Vec::new(),
        }
    }

    fn __repr__(&self) -> String {
        format!("ModelReference(provider=\"{}\", model_id=\"{}\")", self.provider_name(), self.model_id)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| std::ptr::eq(self, other.get()))
    }

    fn __hash__(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

garbage_collected!(ModelReference: held);

/// Return a model that replies from a script, without network access.
///
/// A reply is a text, a block, a `ToolCall` (or its dict; its id may be missing), a list of them, an
/// exception, or a list of `StreamEvent`. `Reply` adds timing. ``requests`` records the requests.
#[pyfunction]
#[pyo3(signature = (replies, *, model_id = "scripted".to_owned()))]
pub(crate) fn scripted(replies: &Bound<'_, PyAny>, model_id: String) -> PyResult<ModelReference> {
    let (script, callbacks) = script_from(replies)?;
    Ok(ModelReference::with_source(Source::Scripted(script.named(model_id)), callbacks))
}

/// Return a reference to a model of a provider that is written in Python. Used by `create_provider`.
#[pyfunction]
pub(crate) fn custom_model(
    provider: &str,
    model_id: &str,
    capabilities: &Bound<'_, PyDict>,
    generate: Option<&Bound<'_, PyAny>>,
    stream: Option<&Bound<'_, PyAny>>,
    media: &Bound<'_, PyDict>,
) -> PyResult<ModelReference> {
    let (model, callbacks) =
        CustomModel::from_python(provider, model_id, capabilities, generate, stream, media)?;
    Ok(ModelReference::with_source(Source::Custom(model), callbacks))
}
