//! Splits the inputs of a call into batches, runs several at a time, and returns the results in order.
//!
//! Spec: UPP-1.2 §15

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};

use super::{
    Embedding, EmbeddingInput, EmbeddingInputType, EmbeddingModel, EmbeddingProgress, EmbeddingRequest,
    EmbeddingResult, EmbeddingUsage,
};
use crate::error::{Modality, UppError};
use crate::middleware::CallContext;
use crate::result_call::{CallLayers, ResultCall, ResultRequest};
use crate::result_stream::{ResultStream, Step, Steps};
use turntree_core::json::{Extra, RawJson, RawObject};

/// A running call: one [`EmbeddingProgress`] for each batch, then all embeddings.
pub type EmbeddingStream = ResultStream<EmbeddingProgress, EmbeddingResult>;

/// How inputs are split into requests, and what surrounds the call.
#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// Maximum inputs of one request. Default and upper bound: the model's limit.
    pub batch_size: Option<NonZeroUsize>,
    /// Maximum concurrent requests. Default: 1.
    pub concurrency: NonZeroUsize,
    /// The purpose of the vectors.
    pub input_type: Option<EmbeddingInputType>,
    /// True if the caller reads the progress. Middleware then sees a streaming call, and an abort calls `on_abort`.
    pub chunked: bool,
    /// Middleware and telemetry. They see one call, however many batches it has.
    pub layers: CallLayers,
}

impl Default for EmbedOptions {
    fn default() -> Self {
        Self {
            batch_size: None,
            concurrency: NonZeroUsize::MIN,
            input_type: None,
            chunked: false,
            layers: CallLayers::default(),
        }
    }
}

/// Embeds each input.
///
/// Inputs beyond the model's limit are split into several requests. The embeddings are returned in the order of the
/// inputs, batch by batch, and the usage is summed. [`ResultStream::result`] returns the result without the progress.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for no inputs, an empty text, and an image that the
/// model does not support. With middleware, which may change the inputs and sees all errors, these come from the
/// stream. From the stream: errors of the model, and [`ErrorCode::InvalidResponse`](crate::ErrorCode::InvalidResponse)
/// if embeddings and inputs do not match.
pub fn embed(
    model: Arc<dyn EmbeddingModel>,
    inputs: Vec<EmbeddingInput>,
    params: Arc<RawObject>,
    options: EmbedOptions,
) -> Result<EmbeddingStream, UppError> {
    let request = EmbeddingRequest { inputs: inputs.into(), params, input_type: options.input_type };
    let call = ResultCall {
        provider: model.provider().into(),
        model_id: model.model_id().into(),
        request,
        layers: options.layers.clone(),
    };
    call.stream(options.chunked, move |request| steps(model, request, &options))
}

impl ResultRequest for EmbeddingRequest {
    const MODALITY: Modality = Modality::Embedding;
    type Event = EmbeddingProgress;
    type Result = EmbeddingResult;
    const OPERATION: (&'static str, Option<&'static str>) = ("embeddings", None);

    fn of_context(context: &CallContext) -> Option<Self> {
        context.embedding_request()
    }
}

/// The requests of a call, and their combined result.
fn steps(
    model: Arc<dyn EmbeddingModel>,
    request: EmbeddingRequest,
    options: &EmbedOptions,
) -> Result<Steps<EmbeddingProgress, EmbeddingResult>, UppError> {
    let EmbeddingRequest { inputs, params, input_type } = request;
    check(&*model, &inputs).map_err(|error| error.with_modality(Modality::Embedding))?;
    let total = inputs.len();
    let most = model.limits().batch_size.unwrap_or(usize::MAX);
    let size = options.batch_size.map_or(most, |size| size.get().min(most)).max(1);
    let calls = stream::iter(batches(inputs, size)).map(move |(start, inputs)| {
        let request = EmbeddingRequest { inputs, params: Arc::clone(&params), input_type };
        let (expected, provider) = (request.inputs.len(), model.provider().to_owned());
        let call = model.embed(request);
        async move { call.await.and_then(|batch| numbered_batch(&provider, batch, start, expected)) }
    });
    let collector = BatchCollector {
        calls: calls.buffered(options.concurrency.get()).boxed(),
        embeddings: Vec::with_capacity(total),
        total_tokens: 0,
        metadata: Vec::new(),
        total,
        is_over: false,
    };
    Ok(stream::unfold(collector, BatchCollector::next).boxed())
}

fn check(model: &dyn EmbeddingModel, inputs: &[EmbeddingInput]) -> Result<(), UppError> {
    let provider = model.provider();
    let wrong = |message: String| Err(UppError::invalid_request(provider, message));
    if inputs.is_empty() {
        return wrong("inputs: the list is empty; pass at least one text".to_owned());
    }
    let takes_images = model.limits().image_input;
    for (place, input) in inputs.iter().enumerate() {
        match input {
            EmbeddingInput::Text(text) if text.is_empty() => {
                return wrong(format!("inputs[{place}] is empty; remove it or pass a text"));
            }
            EmbeddingInput::Image(_) if !takes_images => {
                return wrong(format!("inputs[{place}]: Provider '{provider}' does not support image input"));
            }
            EmbeddingInput::Text(_) | EmbeddingInput::Image(_) => {}
        }
    }
    Ok(())
}

/// Splits inputs into batches; each has the position of its first input.
fn batches(inputs: Arc<[EmbeddingInput]>, size: usize) -> Vec<(usize, Arc<[EmbeddingInput]>)> {
    if inputs.len() <= size {
        return vec![(0, inputs)];
    }
    let chunks = inputs.chunks(size).enumerate();
    chunks.map(|(place, batch)| (place * size, batch.into())).collect()
}

/// Sorts the embeddings of a batch and numbers them over all inputs.
fn numbered_batch(
    provider: &str,
    batch: EmbeddingResult,
    start: usize,
    expected: usize,
) -> Result<EmbeddingResult, UppError> {
    let found = batch.embeddings.len();
    if found != expected {
        let message =
            format!("{provider} sent {found} vectors for {expected} inputs; send the request again");
        return Err(UppError::invalid_response(provider, message));
    }
    let mut embeddings = batch.embeddings;
    embeddings.sort_by_key(|embedding| embedding.index);
    let numbered = embeddings.iter().zip(0_u64..).all(|(embedding, place)| embedding.index == place);
    if !numbered {
        let message =
            format!("the indexes of the vectors from {provider} do not match the {expected} inputs");
        return Err(UppError::invalid_response(provider, message));
    }
    for embedding in embeddings.iter_mut().filter(|_| start > 0) {
        Arc::make_mut(embedding).index += start as u64;
    }
    Ok(EmbeddingResult { embeddings, ..batch })
}

/// Combines the results of the batches.
struct BatchCollector {
    calls: BoxStream<'static, Result<EmbeddingResult, UppError>>,
    embeddings: Vec<Arc<Embedding>>,
    total_tokens: u64,
    metadata: Vec<RawObject>,
    total: usize,
    is_over: bool,
}

type EmbeddingStep = Step<EmbeddingProgress, EmbeddingResult>;

impl BatchCollector {
    async fn next(mut self) -> Option<(Result<EmbeddingStep, UppError>, Self)> {
        if self.is_over {
            return None;
        }
        let step = match self.calls.next().await {
            Some(Ok(batch)) => Ok(Step::Event(self.add(batch))),
            Some(Err(error)) => {
                self.is_over = true;
                Err(error)
            }
            None => {
                self.is_over = true;
                Ok(Step::Done(Arc::new(self.result())))
            }
        };
        Some((step, self))
    }

    fn add(&mut self, batch: EmbeddingResult) -> EmbeddingProgress {
        self.embeddings.extend(batch.embeddings.iter().cloned());
        self.total_tokens = self.total_tokens.saturating_add(batch.usage.total_tokens);
        self.metadata.extend(batch.metadata);
        let (completed, total) = (self.embeddings.len() as u64, self.total as u64);
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 inputs")]
        let percent = 100.0 * completed as f64 / total as f64;
        EmbeddingProgress { embeddings: batch.embeddings, completed, total, percent, extra: Extra::new() }
    }

    fn result(&mut self) -> EmbeddingResult {
        EmbeddingResult {
            embeddings: std::mem::take(&mut self.embeddings),
            usage: EmbeddingUsage { total_tokens: self.total_tokens, extra: Extra::new() },
            metadata: merged(std::mem::take(&mut self.metadata)),
            extra: Extra::new(),
        }
    }
}

/// Merges the metadata of all requests: a value on which all agree as it is, any other as the list of all values.
fn merged(mut calls: Vec<RawObject>) -> Option<RawObject> {
    if calls.len() < 2 {
        return calls.pop();
    }
    let mut names: Vec<(&str, RawObject)> = Vec::new();
    for (namespace, _) in calls.iter().flat_map(RawObject::iter) {
        if names.iter().all(|(known, _)| *known != namespace) {
            names.push((namespace, merged_namespace(&calls, namespace)));
        }
    }
    let namespaces = names.into_iter();
    Some(namespaces.filter_map(|(name, members)| Some((name, RawJson::from_value(&members).ok()?))).collect())
}

fn merged_namespace(calls: &[RawObject], namespace: &str) -> RawObject {
    let calls_of_provider: Vec<RawObject> = calls
        .iter()
        .map(|call| call.get(namespace).and_then(RawObject::from_raw).unwrap_or_default())
        .collect();
    let mut members = RawObject::new();
    for (name, value) in calls_of_provider.iter().flat_map(RawObject::iter) {
        if members.get(name).is_some() {
            continue;
        }
        let all: Vec<RawJson> =
            calls_of_provider.iter().map(|call| call.get(name).cloned().unwrap_or_default()).collect();
        let agreed = all.iter().all(|other| other == value);
        let merged_value = if agreed { value.clone() } else { RawJson::from_value(&all).unwrap_or_default() };
        members.insert(name, merged_value);
    }
    members
}
