//! A function chooses the model of each request.

use std::fmt;
use std::sync::Arc;

use futures_util::TryFutureExt as _;
use futures_util::future::BoxFuture;

use super::answered::Answer;
use super::{open, reopened};
use crate::error::UppError;
use crate::llm::capability_check::{check_features, check_media};
use crate::provider::{Capabilities, Model, ModelStream};
use crate::request::{ModelRequest, ModelResponse};

/// Chooses the model of a request. Called where the model's future is polled.
pub type ChooseFunction =
    Arc<dyn Fn(ModelRequest) -> BoxFuture<'static, Result<Arc<dyn Model>, UppError>> + Send + Sync>;

/// A model whose requests go to the model that a function chooses.
#[derive(Clone)]
pub struct Router {
    choose: ChooseFunction,
}

impl Router {
    /// The provider's name and the model's id.
    pub const PROVIDER: &str = "router";

    /// A model with this function.
    pub fn new(choose: ChooseFunction) -> Self {
        Self { choose }
    }

    /// The model of a request, which supports what the request needs.
    async fn chosen(self, request: &ModelRequest) -> Result<Arc<dyn Model>, UppError> {
        let model = (self.choose)(request.clone()).await?;
        check_features(&*model, request.structure.is_some(), !request.tools.is_empty())?;
        check_media(&*model, request.messages.iter().map(|message| &**message))?;
        Ok(model)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Router").finish_non_exhaustive()
    }
}

impl Model for Router {
    fn model_id(&self) -> &str {
        Self::PROVIDER
    }

    fn provider(&self) -> &str {
        Self::PROVIDER
    }

    /// Everything: the capabilities of the chosen model are checked for each request.
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let router = self.clone();
        Box::pin(async move {
            let model = router.chosen(&request).await?;
            let mut response = model.complete(request).await?;
            Answer::of(&*model, Vec::new()).record(&mut response);
            Ok(response)
        })
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let router = self.clone();
        let opened = async move {
            let model = router.chosen(&request).await?;
            Ok(reopened(open(&*model, request).await?, Answer::of(&*model, Vec::new())))
        };
        Box::pin(opened.try_flatten_stream())
    }
}
