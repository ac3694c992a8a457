//! Spans of model calls, with the names of OpenTelemetry's semantic conventions for generative AI.
//!
//! Embeddings and images have their spans here. The spans of language models belong to runs, in `turntree-agents`.

use std::borrow::Cow;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::embedding::EmbeddingResult;
use super::error::{Modality, UppError};
use super::image::ImageResult;
use turntree_core::telemetry::{Attributes, Operation, Outcome, SpanFailure, SpanGuard, SpanKind, Tracer};

/// The name that the conventions give a provider, as `gcp.gemini` for `google`.
pub fn provider_name(provider: &str) -> &str {
    match provider {
        "google" => "gcp.gemini",
        "xai" => "x_ai",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        other => other,
    }
}

/// The span of one call of an embedding or image model.
pub(crate) struct CallSpan {
    pub(crate) tracer: Option<Arc<dyn Tracer>>,
    pub(crate) modality: Modality,
    pub(crate) provider: Arc<str>,
    pub(crate) model_id: Arc<str>,
}

impl CallSpan {
    /// Starts the span. A guard that is dropped after `abort` was cancelled marks it as aborted.
    pub(crate) fn start(&self, abort: Option<CancellationToken>) -> SpanGuard {
        self.tracer
            .as_ref()
            .map_or_else(SpanGuard::default, |tracer| SpanGuard::new(tracer.start(self, None), abort))
    }

    const fn operation(&self) -> &'static str {
        match self.modality {
            Modality::Llm => "chat",
            Modality::Embedding => "embeddings",
            Modality::Image | Modality::Audio | Modality::Video => "generate_content",
        }
    }
}

impl Operation for CallSpan {
    fn name(&self) -> Cow<'_, str> {
        format!("{} {}", self.operation(), self.model_id).into()
    }

    fn kind(&self) -> SpanKind {
        SpanKind::Client
    }

    fn attributes(&self) -> Attributes<'_> {
        let mut attributes = vec![
            ("gen_ai.operation.name", self.operation().into()),
            ("gen_ai.provider.name", provider_name(&self.provider).into()),
            ("gen_ai.request.model", (&*self.model_id).into()),
        ];
        if self.modality == Modality::Image {
            attributes.push(("gen_ai.output.type", "image".into()));
        }
        attributes
    }
}

/// A result that reports its token usage as span attributes.
pub(crate) trait UsageAttributes {
    /// `gen_ai.usage.input_tokens` and `gen_ai.usage.output_tokens`, as far as the vendor reports them.
    fn usage_attributes(&self) -> Attributes<'static>;
}

impl UsageAttributes for EmbeddingResult {
    fn usage_attributes(&self) -> Attributes<'static> {
        vec![("gen_ai.usage.input_tokens", self.usage.total_tokens.into())]
    }
}

impl UsageAttributes for ImageResult {
    fn usage_attributes(&self) -> Attributes<'static> {
        let Some(usage) = &self.usage else { return Attributes::new() };
        let counts = [
            ("gen_ai.usage.input_tokens", usage.input_tokens),
            ("gen_ai.usage.output_tokens", usage.output_tokens),
        ];
        counts.into_iter().filter_map(|(name, count)| Some((name, count?.into()))).collect()
    }
}

/// The end of a call: its result or its error.
pub(crate) struct ResultOutcome<'a, R>(pub(crate) Result<&'a R, &'a UppError>);

impl<R: UsageAttributes> Outcome for ResultOutcome<'_, R> {
    fn attributes(&self) -> Attributes<'_> {
        self.0.map_or_else(|_| Attributes::new(), UsageAttributes::usage_attributes)
    }

    fn failure(&self) -> Option<SpanFailure<'_>> {
        let error = self.0.err()?;
        Some(SpanFailure {
            kind: error.code.as_str(),
            message: &error.message,
            exception: error.host.as_deref().map(|host| host as _),
        })
    }
}
