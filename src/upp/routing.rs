//! Models made of other models: `fallback` and `router`.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyConnectionError, PyTimeoutError};

use super::custom::error_of;
use super::error::{is_upp_error, raised_by_host};
use super::model::{ModelReference, Source};
use super::request::ModelRequest;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gil;
use crate::error::{ToException as _, choose, function as function_argument};
use turntree_upp::routing::{ChooseFunction, Fallback, FallbackRule, Router, is_transient};
use turntree_upp::{Capabilities, ErrorCode, Model, ProviderConfig, UppError};

/// The models of a `fallback` or a `router`.
pub(crate) enum Routing {
    /// The models in order, and which errors the next one is called for.
    Fallback { models: Vec<Py<ModelReference>>, when: When },
    /// The function that chooses.
    Router(Arc<PyCallback>),
}

/// Which errors the next model is called for.
pub(crate) enum When {
    /// Failures that another model may not have.
    Default,
    /// Errors with these codes.
    Codes(Arc<[ErrorCode]>),
    /// Those for which the function returns true.
    Function(Arc<PyCallback>),
}

impl When {
    fn rule(&self) -> FallbackRule {
        match self {
            Self::Default => Arc::new(|error| Box::pin(async move { Ok(is_transient_or_own(&error)) })),
            Self::Codes(codes) => {
                let codes = Arc::clone(codes);
                Arc::new(move |error| {
                    let is_listed = codes.contains(&error.code);
                    Box::pin(async move { Ok(is_listed) })
                })
            }
            Self::Function(function) => {
                let function = Arc::clone(function);
                Arc::new(move |error| {
                    let function = Arc::clone(&function);
                    Box::pin(async move {
                        let decided = function
                            .call_and_read(
                                |py| (error.to_exception(py),).into_pyobject(py),
                                |value| value.is_truthy(),
                            )
                            .await;
                        decided.map_err(|raised| error_of(Fallback::PROVIDER, raised))
                    })
                })
            }
        }
    }
}

/// The default rule. An exception of the application's own model is a failure of the model only if it is a `UPPError`, a
/// timeout or a lost connection.
fn is_transient_or_own(error: &UppError) -> bool {
    let Some(raised) = raised_by_host(error) else { return is_transient(error) };
    let decided = gil::if_held(|py| {
        let raised = raised.error(py);
        if is_upp_error(py, &raised) {
            return is_transient(error);
        }
        raised.is_instance_of::<PyTimeoutError>(py) || raised.is_instance_of::<PyConnectionError>(py)
    });
    decided.unwrap_or(false)
}

/// The configuration of an agent as far as it applies to any vendor: no key, URL, version or headers, which must not
/// reach another vendor.
fn of_any_vendor(config: &ProviderConfig) -> ProviderConfig {
    ProviderConfig { api_key: None, base_url: None, api_version: None, headers: Vec::new(), ..config.clone() }
}

impl Routing {
    pub(super) fn bind(&self, config: &ProviderConfig) -> Arc<dyn Model> {
        let config = of_any_vendor(config);
        match self {
            Self::Fallback { models, when } => {
                let models = models.iter().map(|model| model.get().bind(&config));
                Arc::new(Fallback::new(models).with_rule(when.rule()))
            }
            Self::Router(choose) => Arc::new(Router::new(choose_function(Arc::clone(choose), config))),
        }
    }

    pub(super) const fn provider(&self) -> &'static str {
        match self {
            Self::Fallback { .. } => Fallback::PROVIDER,
            Self::Router(_) => Router::PROVIDER,
        }
    }

    pub(super) fn model_id(&self) -> String {
        match self {
            Self::Fallback { models, .. } => {
                models.iter().map(|model| model.get().id()).collect::<Vec<_>>().join("|")
            }
            Self::Router(_) => Router::PROVIDER.to_owned(),
        }
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        match self {
            Self::Fallback { models, .. } => {
                Capabilities::any_of(models.iter().map(|model| model.get().capabilities_()))
            }
            Self::Router(_) => Capabilities::ALL,
        }
    }
}

fn choose_function(choose: Arc<PyCallback>, config: ProviderConfig) -> ChooseFunction {
    Arc::new(move |request| {
        let (choose, config) = (Arc::clone(&choose), config.clone());
        Box::pin(async move {
            let model = choose
                .call_and_read(
                    |py| (ModelRequest(request),).into_pyobject(py),
                    |chosen| Ok(chosen.cast::<ModelReference>()?.get().bind(&config)),
                )
                .await;
            model.map_err(|raised| error_of(Router::PROVIDER, raised))
        })
    })
}

/// Return a model that calls these models in order until one answers. Used by `fallback`.
#[pyfunction]
#[pyo3(signature = (models, codes, function, recipe = None))]
pub(crate) fn fallback_model(
    models: Vec<Py<ModelReference>>,
    codes: Option<Vec<String>>,
    function: Option<&Bound<'_, PyAny>>,
    recipe: Option<Py<PyAny>>,
    py: Python<'_>,
) -> PyResult<ModelReference> {
    let mut held = Callbacks {
        objects: models.iter().map(|model| model.clone_ref(py).into_any()).collect(),
        ..Callbacks::default()
    };
    let when = match (codes, function) {
        (_, Some(function)) => {
            let function = PyCallback::new(function_argument(function, "when")?)?;
            held.functions.push(Arc::clone(&function));
            When::Function(function)
        }
        (Some(codes), None) => {
            let code = |code: &String| choose("when", code, &ErrorCode::ALL, ErrorCode::as_str);
            When::Codes(codes.iter().map(code).collect::<PyResult<_>>()?)
        }
        (None, None) => When::Default,
    };
    let model = ModelReference::with_source(Source::Routed(Routing::Fallback { models, when }), held);
    Ok(model.with_recipe(recipe))
}

/// Return a model that calls the model which a function chooses for each request. Used by `router`.
#[pyfunction]
#[pyo3(signature = (choose, recipe = None))]
pub(crate) fn router_model(choose: &Bound<'_, PyAny>, recipe: Option<Py<PyAny>>) -> PyResult<ModelReference> {
    let choose = PyCallback::new(function_argument(choose, "choose")?)?;
    let held = Callbacks { functions: vec![Arc::clone(&choose)], ..Callbacks::default() };
    Ok(ModelReference::with_source(Source::Routed(Routing::Router(choose)), held).with_recipe(recipe))
}
