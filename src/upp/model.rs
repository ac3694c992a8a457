//! References to models: a provider, a model id and a configuration.
//!
//! Spec: UPP-1.2 §9.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::{PyDict, PyTuple};

use super::config::{config_from, text, warn_of_plain_http};
use super::custom::CustomModels;
use super::prices::rows_from;
use super::recorded::RecordedModel;
use super::replay::ActiveRecording;
use super::request::ModelRequest;
use super::routing::Routing;
use super::scripted::script_from;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::garbage_collected;
use crate::convert::text::{quoted, text_of};
use crate::error::value_error;
use turntree_core::http::EnvironmentKey;
use turntree_core::secret::Secret;
use turntree_upp::dialect::Dialect;
use turntree_upp::embedding::{EmbeddingModel, HttpEmbeddingModel};
use turntree_upp::http_model::HttpModel;
use turntree_upp::image::{HttpImageModel, ImageModel};
use turntree_upp::pricing::{Price, Prices};
use turntree_upp::providers::factory::{DialectFactory, FactoryOptions, dialect_factory};
use turntree_upp::providers::{self, scripted::Scripted};
use turntree_upp::{AwsCredentials, Capabilities, Modality, Model, ProviderConfig, UppError};

/// Implementation of a model.
pub(crate) enum Source {
    /// A vendor's API over HTTP, and the constructor of the dialect for a changed configuration.
    Http { dialect: Arc<dyn Dialect>, make: DialectFactory },
    /// A scripted model.
    Scripted(Scripted),
    /// A provider that is written in Python.
    Custom(CustomModels),
    /// A model whose responses a function of the application records.
    Recorded { model: Py<ModelReference>, record: Arc<PyCallback> },
    /// A model made of other models.
    Routed(Routing),
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
    /// The function and its arguments that create the reference in another process.
    recipe: Option<Py<PyAny>>,
}

impl ModelReference {
    /// Creates a reference to a model without configuration.
    pub(super) fn with_source(source: Source, callbacks: Callbacks) -> Self {
        let model_id: Arc<str> = match &source {
            Source::Http { .. } => "".into(),
            Source::Scripted(script) => script.model_id().into(),
            Source::Custom(models) => models.llm.model_id().into(),
            Source::Recorded { model, .. } => Arc::clone(&model.get().model_id),
            Source::Routed(models) => models.model_id().into(),
        };
        Self {
            model_id,
            source,
            config: ProviderConfig::default(),
            prices: Vec::new(),
            held: callbacks,
            recipe: None,
        }
    }

    /// The reference with the function and its arguments that create it in another process.
    pub(super) fn with_recipe(self, recipe: Option<Py<PyAny>>) -> Self {
        Self { recipe, ..self }
    }

    /// The configuration of an HTTP model: the reference's, overridden by that of an agent or a bound model.
    fn http_config(&self, config: &ProviderConfig) -> ProviderConfig {
        let mut config = config.over(&self.config);
        config.transport.get_or_insert_with(|| Arc::new(ActiveRecording));
        config
    }

    /// The model of a vendor's HTTP API; `None` for other models.
    pub(super) fn http_model(&self, config: &ProviderConfig) -> Option<HttpModel> {
        match &self.source {
            Source::Http { make, .. } => Some(self.http_model_of(make, config)),
            _ => None,
        }
    }

    fn http_model_of(&self, make: &DialectFactory, config: &ProviderConfig) -> HttpModel {
        let config = self.http_config(config);
        let model = HttpModel::new(make(&config), Arc::clone(&self.model_id), config);
        if self.prices.is_empty() {
            return model;
        }
        model.with_prices(Arc::new(Prices::current().with(self.prices.clone())))
    }

    /// The model, with the reference's configuration overridden by an agent's.
    pub(crate) fn bind(&self, config: &ProviderConfig) -> Arc<dyn Model> {
        match &self.source {
            Source::Http { make, .. } => Arc::new(self.http_model_of(make, config)),
            Source::Scripted(script) => Arc::new(script.clone()),
            Source::Custom(models) => Arc::new(models.llm.clone()),
            Source::Recorded { model, record } => {
                Arc::new(RecordedModel::new(model.get().bind(config), Arc::clone(record)))
            }
            Source::Routed(models) => models.bind(config),
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
        let (provider, config) = (self.provider_name(), self.http_config(config));
        match (&self.source, providers::embedding_dialect(provider)) {
            (Source::Custom(CustomModels { embedding: Some(model), .. }), _) => Ok(Arc::new(model.clone())),
            (Source::Http { make, .. }, Some(dialect)) => {
                let model_id = Arc::clone(&self.model_id);
                Ok(Arc::new(HttpEmbeddingModel::new(make(&config), dialect, model_id, config)))
            }
            _ => Err(UppError::unsupported(provider, Modality::Embedding)),
        }
    }

    /// The image model.
    ///
    /// # Errors
    /// `INVALID_REQUEST` if the provider does not support images.
    pub(crate) fn bind_image(&self, config: &ProviderConfig) -> Result<Arc<dyn ImageModel>, UppError> {
        let (provider, config) = (self.provider_name(), self.http_config(config));
        match (&self.source, providers::image_dialect(provider)) {
            (Source::Custom(CustomModels { image: Some(model), .. }), _) => Ok(Arc::new(model.clone())),
            (Source::Http { make, .. }, Some(dialect)) => {
                let model_id = Arc::clone(&self.model_id);
                Ok(Arc::new(HttpImageModel::new(make(&config), dialect, model_id, config)))
            }
            _ => Err(UppError::unsupported(provider, Modality::Image)),
        }
    }

    fn provider_name(&self) -> &str {
        match &self.source {
            Source::Http { dialect, .. } => dialect.provider(),
            Source::Scripted(script) => script.provider(),
            Source::Custom(models) => models.llm.provider(),
            Source::Recorded { model, .. } => model.get().provider_name(),
            Source::Routed(models) => models.provider(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.model_id
    }

    pub(super) fn capabilities_(&self) -> Capabilities {
        match &self.source {
            Source::Http { dialect, .. } => dialect.capabilities(),
            Source::Scripted(script) => script.capabilities(),
            Source::Custom(models) => models.llm.capabilities(),
            Source::Recorded { model, .. } => {
                Capabilities { streaming: false, ..model.get().capabilities_() }
            }
            Source::Routed(models) => models.capabilities(),
        }
    }
}

/// The factory of a provider's dialect. Warns about a URL without encryption.
fn factory_from(provider: &str, options: &Bound<'_, PyDict>) -> PyResult<DialectFactory> {
    let py = options.py();
    let option = |name: &str| options.get_item(name)?.map(|value| text(&value, name)).transpose();
    let (api, base_url) = (option("api")?, option("base_url")?.or(option("host")?));
    let betas: Option<Vec<String>> =
        options.get_item("betas")?.map(|betas| text_of(&betas, "betas")).transpose()?;
    let betas = &betas.unwrap_or_default();
    let region = option("region")?;
    let keys = match (option("access_key_id")?, option("secret_access_key")?) {
        (Some(id), Some(secret)) => Some((id, secret.into(), option("session_token")?.map(Secret::from))),
        _ => None,
    };
    let aws = AwsCredentials { profile: option("profile")?, role: option("role")?, keys };
    let options = FactoryOptions {
        api: api.as_deref(),
        betas,
        base_url: base_url.as_deref(),
        region: region.as_deref(),
        aws: Some(&aws),
    };
    let factory = dialect_factory(provider, options).map_err(value_error)?;
    if let Some(url) = &base_url {
        warn_of_plain_http(py, url)?;
    }
    Ok(factory)
}

#[pymethods]
impl ModelReference {
    #[new]
    #[pyo3(signature = (provider, model_id, options, config, recipe = None))]
    fn new(
        provider: &str,
        model_id: String,
        options: &Bound<'_, PyDict>,
        config: &Bound<'_, PyAny>,
        recipe: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        if model_id.is_empty() {
            return Err(PyValueError::new_err("model_id must not be empty"));
        }
        let (mut config, held) = config_from(config)?;
        let make = factory_from(provider, options)?;
        if let (Some(variable), None) = (options.get_item("api_key_env")?, &config.api_key) {
            config = config.with_key_strategy(EnvironmentKey::new([text(&variable, "api_key_env")?]));
        }
        let prices =
            options.get_item("prices")?.map(|rows| rows_from(&rows)).transpose()?.unwrap_or_default();
        let source = Source::Http { dialect: make(&config), make };
        Ok(Self { source, model_id: model_id.into(), config, prices, held, recipe })
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
            Source::Scripted(_) | Source::Recorded { .. } | Source::Routed(_) => [true, false, false],
            Source::Custom(models) => {
                [models.llm.is_llm(), models.embedding.is_some(), models.image.is_some()]
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
        let dict = PyDict::new(py);
        for (name, value) in self.capabilities_().flags() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// The requests that a scripted model has received, in order. Empty for other models.
    #[getter]
    fn requests(&self) -> Vec<ModelRequest> {
        match &self.source {
            Source::Scripted(script) => script.requests().into_iter().map(ModelRequest).collect(),
            Source::Recorded { model, .. } => model.get().requests(),
            Source::Http { .. } | Source::Custom(_) | Source::Routed(_) => Vec::new(),
        }
    }

    /// Pickle the reference by the arguments of its factory, without the key.
    fn __reduce__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(recipe) = &self.recipe {
            return Ok(recipe.clone_ref(py));
        }
        let (name, reason) = match &self.source {
            Source::Http { .. } => (
                "this",
                "its settings may hold a secret or an object of this process (config=, transport=, headers)",
            ),
            Source::Scripted(_) => {
                ("a scripted", "its replies and requests are in the memory of this process")
            }
            Source::Custom(_) => ("a custom", "its functions belong to this process"),
            Source::Recorded { .. } => ("a recorded", "its recording belongs to this process"),
            Source::Routed(_) => ("a fallback or router", "its functions belong to this process"),
        };
        Err(PyTypeError::new_err(format!(
            "{name} model cannot be pickled: {reason}. Create the model in the process that uses it"
        )))
    }

    fn __repr__(&self) -> String {
        let (provider, model_id) = (quoted(self.provider_name()), quoted(&self.model_id));
        format!("ModelReference(provider={provider}, model_id={model_id})")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| std::ptr::eq(self, other.get()))
    }

    fn __hash__(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

garbage_collected!(ModelReference: held, recipe);

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
        CustomModels::from_python(provider, model_id, capabilities, generate, stream, media)?;
    Ok(ModelReference::with_source(Source::Custom(model), callbacks))
}

/// Return a model that calls another one through a function, which can record the response or return a recorded one.
#[pyfunction]
pub(crate) fn recorded_model(
    model: &Bound<'_, ModelReference>,
    record: &Bound<'_, PyAny>,
) -> PyResult<ModelReference> {
    let record = PyCallback::patient(record)?;
    let objects = vec![model.clone().into_any().unbind()];
    let held = Callbacks { functions: vec![Arc::clone(&record)], objects, ..Callbacks::default() };
    Ok(ModelReference::with_source(Source::Recorded { model: model.clone().unbind(), record }, held))
}
