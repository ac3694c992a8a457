//! Spans of model calls, with the attributes of OpenTelemetry's semantic conventions for generative AI.
//!
//! The attribute names are those of the conventions for spans, agent spans and metrics, version 1.42. Attributes that the
//! conventions do not define start with `turntree.`.

pub mod content;

use std::borrow::Cow;

use crate::embedding::EmbeddingResult;
use crate::image::ImageResult;
use crate::retries;
use crate::routing::answered::Answer;
use crate::{Model, ModelRequest, ModelResponse, StopReason, UppError};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::TokenUsage;
use turntree_core::telemetry::{AttributeValue, Attributes, Operation, Outcome, SpanFailure, SpanKind};

/// Parameters by attribute name, with the spellings of the vendors. The first one present is used.
const PARAMETERS: [(&str, &[&str]); 8] = [
    ("gen_ai.request.temperature", &["temperature"]),
    ("gen_ai.request.top_p", &["top_p", "topP"]),
    ("gen_ai.request.top_k", &["top_k", "topK"]),
    (
        "gen_ai.request.max_tokens",
        &["max_tokens", "max_output_tokens", "max_completion_tokens", "maxOutputTokens", "num_predict"],
    ),
    ("gen_ai.request.seed", &["seed"]),
    ("gen_ai.request.frequency_penalty", &["frequency_penalty", "frequencyPenalty"]),
    ("gen_ai.request.presence_penalty", &["presence_penalty", "presencePenalty"]),
    ("gen_ai.request.choice.count", &["n", "candidateCount"]),
];

/// How often a request was sent again.
const RESENT: &str = "http.request.resend_count";

/// The parameters that the conventions define as integers.
const WHOLE: [&str; 3] = ["gen_ai.request.max_tokens", "gen_ai.request.seed", "gen_ai.request.choice.count"];

/// One request to a language model, with all its retries.
#[derive(Debug, Clone, Copy)]
pub struct ChatOperation<'a> {
    /// The model.
    pub model: &'a dyn Model,
    /// The request.
    pub request: &'a ModelRequest,
    /// True if the response is streamed.
    pub streaming: bool,
    /// The session that the request belongs to.
    pub conversation_id: Option<&'a str>,
}

impl Operation for ChatOperation<'_> {
    fn name(&self) -> Cow<'_, str> {
        format!("chat {}", self.model.model_id()).into()
    }

    fn kind(&self) -> SpanKind {
        SpanKind::Client
    }

    fn attributes(&self) -> Attributes<'_> {
        let mut all = vec![
            ("gen_ai.operation.name", "chat".into()),
            ("gen_ai.provider.name", provider_name(self.model.provider()).into()),
            ("gen_ai.request.model", self.model.model_id().into()),
        ];
        all.extend(self.conversation_id.map(|id| ("gen_ai.conversation.id", id.into())));
        if self.streaming {
            all.push(("gen_ai.request.stream", true.into()));
        }
        if self.request.structure.is_some() {
            all.push(("gen_ai.output.type", "json".into()));
        }
        parameters(&self.request.params, &mut all);
        all
    }

    fn content(&self) -> Attributes<'_> {
        let request = self.request;
        let mut all = vec![("gen_ai.input.messages", content::input(request.messages.iter()).into())];
        let system = request.system.as_deref().map(content::system);
        all.extend(system.map(|system| ("gen_ai.system_instructions", system.into())));
        if !request.tools.is_empty() {
            all.push(("gen_ai.tool.definitions", content::tools(&request.tools).into()));
        }
        all
    }
}

/// One request to a model for embeddings or images.
#[derive(Debug, Clone, Copy)]
pub struct MediaOperation<'a> {
    /// The operation's name in the conventions: `embeddings` or `generate_content`.
    pub operation: &'static str,
    /// The type of the output, if the conventions name it: `image`.
    pub output: Option<&'static str>,
    /// The model's provider.
    pub provider: &'a str,
    /// The model's id.
    pub model_id: &'a str,
}

impl Operation for MediaOperation<'_> {
    fn name(&self) -> Cow<'_, str> {
        format!("{} {}", self.operation, self.model_id).into()
    }

    fn kind(&self) -> SpanKind {
        SpanKind::Client
    }

    fn attributes(&self) -> Attributes<'_> {
        let mut all = vec![
            ("gen_ai.operation.name", self.operation.into()),
            ("gen_ai.provider.name", provider_name(self.provider).into()),
            ("gen_ai.request.model", self.model_id.into()),
        ];
        all.extend(self.output.map(|output| ("gen_ai.output.type", output.into())));
        all
    }
}

/// A response of a language model.
#[derive(Debug, Clone, Copy)]
pub struct ModelOutcome<'a> {
    /// The response.
    pub response: &'a ModelResponse,
    /// The model's provider: the namespace of the response's metadata.
    pub provider: &'a str,
}

impl Outcome for ModelOutcome<'_> {
    fn attributes(&self) -> Attributes<'_> {
        let Some(answer) = Answer::read(&self.response.message) else {
            return response_attributes(self.response, self.provider);
        };
        let mut all = response_attributes(self.response, &answer.provider);
        // The span was started with the names of the routing model.
        all.push(("gen_ai.provider.name", text(provider_name(&answer.provider).to_owned())));
        if !all.iter().any(|(name, _)| *name == "gen_ai.response.model") {
            all.push(("gen_ai.response.model", text(answer.model)));
        }
        let failed: Vec<Cow<'_, str>> = answer
            .failed
            .iter()
            .map(|failed| format!("{}:{} {}", failed.provider, failed.model, failed.code).into())
            .collect();
        if !failed.is_empty() {
            all.push(("turntree.fallback.failed", AttributeValue::Strings(failed)));
        }
        all
    }

    fn content(&self) -> Attributes<'_> {
        let reason = finish_reason(self.response.stop_reason);
        vec![("gen_ai.output.messages", content::output(&self.response.message, reason).into())]
    }
}

/// A result of an embedding or image model: its token usage, as far as the vendor reports it.
#[derive(Debug, Clone, Copy)]
pub struct ResultOutcome<'a, R>(pub &'a R);

impl Outcome for ResultOutcome<'_, EmbeddingResult> {
    fn attributes(&self) -> Attributes<'_> {
        // 0 if the vendor does not report them.
        let tokens = Some(self.0.usage.total_tokens).filter(|tokens| *tokens > 0);
        tokens.map(|tokens| ("gen_ai.usage.input_tokens", tokens.into())).into_iter().collect()
    }
}

impl Outcome for ResultOutcome<'_, ImageResult> {
    fn attributes(&self) -> Attributes<'_> {
        let Some(usage) = &self.0.usage else { return Attributes::new() };
        let counts = [
            ("gen_ai.usage.input_tokens", usage.input_tokens),
            ("gen_ai.usage.output_tokens", usage.output_tokens),
        ];
        counts.into_iter().filter_map(|(name, count)| Some((name, count?.into()))).collect()
    }
}

/// An error.
#[derive(Debug, Clone, Copy)]
pub struct ErrorOutcome<'a>(pub &'a UppError);

impl Outcome for ErrorOutcome<'_> {
    fn attributes(&self) -> Attributes<'_> {
        let retries = self.0.retries as u64;
        if retries > 0 { vec![(RESENT, retries.into())] } else { Attributes::new() }
    }

    fn failure(&self) -> Option<SpanFailure<'_>> {
        let Self(error) = self;
        Some(SpanFailure {
            kind: error.code.as_str(),
            message: &error.message,
            exception: error.host.as_deref(),
        })
    }
}

fn text<'a>(text: String) -> AttributeValue<'a> {
    text.into()
}

fn response_attributes<'a>(response: &ModelResponse, provider: &str) -> Attributes<'a> {
    let reason = finish_reason(response.stop_reason);
    let mut all = vec![("gen_ai.response.finish_reasons", AttributeValue::Strings(vec![reason.into()]))];
    let metadata = response.message.namespace(provider);
    let entry = |names: &[&str]| {
        let metadata = metadata.as_ref()?;
        names.iter().find_map(|name| metadata.get(name)?.to::<String>().ok())
    };
    all.extend(entry(&["model"]).map(|model| ("gen_ai.response.model", text(model))));
    let id = entry(&["id", "response_id", "responseId"]);
    all.push(("gen_ai.response.id", text(id.unwrap_or_else(|| response.message.id.clone()))));
    // Anthropic reports cached tokens apart from the input tokens; the conventions include them.
    usage_attributes(&response.usage, provider == "anthropic", &mut all);
    let resent = retries::count(&response.message);
    all.extend((resent > 0).then(|| (RESENT, resent.into())));
    all
}

/// Adds token counts and cost. `caches_apart`: the provider does not include cached tokens in the input tokens, if the usage
/// does not say so itself.
pub fn usage_attributes(usage: &TokenUsage, caches_apart: bool, all: &mut Attributes<'_>) {
    let caches = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    let input = match usage.total_input_tokens {
        None if caches_apart => usage.input_tokens.saturating_add(caches),
        _ => usage.total_input(),
    };
    all.push(("gen_ai.usage.input_tokens", input.into()));
    all.push(("gen_ai.usage.output_tokens", usage.output_tokens.into()));
    let cached = [
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
    ];
    all.extend(
        cached.into_iter().filter(|(_, tokens)| *tokens > 0).map(|(name, tokens)| (name, tokens.into())),
    );
    all.extend(usage.cost.map(|cost| ("turntree.usage.cost", AttributeValue::Float(cost))));
}

fn parameters(params: &RawObject, all: &mut Attributes<'_>) {
    for (name, spellings) in PARAMETERS {
        let given = spellings.iter().find_map(|spelling| params.get(spelling)?.to::<f64>().ok());
        let Some(given) = given else { continue };
        let whole = WHOLE.contains(&name).then(|| whole(given)).flatten();
        all.push((name, whole.map_or(AttributeValue::Float(given), AttributeValue::Int)));
    }
    let stop = ["stop", "stop_sequences", "stopSequences"].iter().find_map(|name| params.get(name));
    if let Some(stops) = stop.and_then(stops) {
        all.push((
            "gen_ai.request.stop_sequences",
            AttributeValue::Strings(stops.into_iter().map(Cow::Owned).collect()),
        ));
    }
}

fn stops(raw: &RawJson) -> Option<Vec<String>> {
    raw.to::<Vec<String>>().ok().or_else(|| Some(vec![raw.to::<String>().ok()?]))
}

fn whole(number: f64) -> Option<i64> {
    let is_whole = number.fract() == 0.0 && number.abs() < 9.0e15;
    #[expect(clippy::cast_possible_truncation, reason = "the number is integral and below 2^53")]
    is_whole.then_some(number as i64)
}

/// The name of a provider in the conventions.
pub fn provider_name(provider: &str) -> &str {
    match provider {
        "bedrock" => "aws.bedrock",
        "google" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "azure" => "azure.ai.openai",
        "xai" => "x_ai",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        other => other,
    }
}

const fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::MaxTokens => "length",
        StopReason::ToolUse => "tool_call",
        StopReason::PauseTurn => "pause_turn",
        StopReason::ContentFilter => "content_filter",
        StopReason::Error => "error",
    }
}
