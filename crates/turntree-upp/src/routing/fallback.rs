//! A list of models: the next one is called if one fails.

use std::fmt;
use std::sync::Arc;

use futures_util::TryFutureExt as _;
use futures_util::future::BoxFuture;

use super::answered::{Answer, FailedModel};
use super::{Opened, can_answer, open, reopened};
use crate::error::{ErrorCode, UppError};
use crate::provider::{Capabilities, Model, ModelStream};
use crate::request::{ModelRequest, ModelResponse};

/// Says whether another model is called after this error.
pub type FallbackRule = Arc<dyn Fn(UppError) -> BoxFuture<'static, Result<bool, UppError>> + Send + Sync>;

/// True for failures of the vendor or the connection that another model may not have: rate limits, overload,
/// timeouts, lost connections and statuses from 500.
pub fn is_transient(error: &UppError) -> bool {
    match error.code {
        ErrorCode::RateLimited | ErrorCode::Timeout | ErrorCode::NetworkError => true,
        ErrorCode::ProviderError => error.status_code.is_none_or(|status| !(400..500).contains(&status)),
        _ => error.status_code.is_some_and(|status| status >= 500),
    }
}

/// Models in order of preference. A request goes to the first one, and to the next one if it fails.
///
/// Models that lack a capability for a request, such as image input, are passed over. A stream goes to the next model
/// only if it fails before its first event. The error of the last model is returned.
///
/// ```
/// use std::sync::Arc;
/// use turntree_upp::providers::scripted::Scripted;
/// use turntree_upp::routing::Fallback;
/// use turntree_upp::Model;
///
/// let named = |id: &str| -> Arc<dyn Model> { Arc::new(Scripted::new(["Good morning."]).named(id)) };
/// let model = Fallback::new([named("large"), named("small")]);
/// assert_eq!(model.model_id(), "large|small");
/// ```
#[derive(Clone)]
pub struct Fallback {
    models: Arc<[Arc<dyn Model>]>,
    model_id: Arc<str>,
    rule: Option<FallbackRule>,
}

impl Fallback {
    /// The provider's name.
    pub const PROVIDER: &str = "fallback";

    /// A list of models. The rule is [`is_transient`].
    pub fn new(models: impl IntoIterator<Item = Arc<dyn Model>>) -> Self {
        let models: Arc<[Arc<dyn Model>]> = models.into_iter().collect();
        let ids: Vec<&str> = models.iter().map(|model| model.model_id()).collect();
        Self { model_id: ids.join("|").into(), models, rule: None }
    }

    /// Sets the rule that chooses the errors.
    #[must_use]
    pub fn with_rule(self, rule: FallbackRule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    async fn goes_on(&self, error: &UppError) -> Result<bool, UppError> {
        match &self.rule {
            _ if error.code == ErrorCode::Cancelled => Ok(false),
            Some(rule) => rule(error.clone()).await,
            None => Ok(is_transient(error)),
        }
    }

    /// Calls the models until one succeeds.
    async fn first<T>(
        self,
        request: ModelRequest,
        call: impl Fn(&dyn Model, ModelRequest) -> BoxFuture<'static, Result<T, UppError>>,
    ) -> Result<(T, Answer), UppError> {
        let (mut failed, mut last) = (Vec::new(), None);
        let models = self.models.iter().filter(|model| can_answer(model.capabilities(), &request));
        for model in models {
            match call(&**model, request.clone()).await {
                Ok(value) => return Ok((value, Answer::of(&**model, failed))),
                Err(error) if self.goes_on(&error).await? => {
                    let (provider, model_id) = (model.provider(), model.model_id());
                    log::warn!(target: "turntree", "{provider}:{model_id} failed with {}; the next model is called", error.code);
                    failed.push(FailedModel::new(&**model, &error));
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            let message =
                "none of the models supports the media, tools and structured output of this request";
            UppError::invalid_request(Self::PROVIDER, message)
        }))
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Fallback").field(&self.models).finish()
    }
}

impl Model for Fallback {
    fn model_id(&self) -> &str {
        &self.model_id
    }

    fn provider(&self) -> &str {
        Self::PROVIDER
    }

    /// What at least one of the models supports.
    fn capabilities(&self) -> Capabilities {
        Capabilities::any_of(self.models.iter().map(|model| model.capabilities()))
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let model = self.clone();
        Box::pin(async move {
            let (mut response, answer) =
                model.first(request, |model, request| model.complete(request)).await?;
            answer.record(&mut response);
            Ok(response)
        })
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let opened = self.clone().first::<Opened>(request, open);
        Box::pin(opened.map_ok(|(opened, answer)| reopened(opened, answer)).try_flatten_stream())
    }
}
