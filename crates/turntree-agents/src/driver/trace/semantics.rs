//! Work and outcomes in the words of OpenTelemetry's semantic conventions for generative AI (spans, agent spans and
//! metrics, as of 1.42), which every backend that shows them reads. What they have no word for is under `turntree.`.

use std::borrow::Cow;

use crate::driver::trace::{Outcome, Work, content};
use crate::types::action::ToolOutcome;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{TokenUsage, Turn};
use turntree_upp::{ModelResponse, StopReason};

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Texts.
    Texts(Vec<Cow<'a, str>>),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<u64> for Value<'_> {
    fn from(count: u64) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// Attributes by name.
pub type Attributes<'a> = Vec<(&'static str, Value<'a>)>;

/// Why a span counts as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<'a> {
    /// `error.type`: one of few.
    pub kind: &'a str,
    /// For people.
    pub message: &'a str,
}

/// Parameters of vendors by the convention's name; the first that is there counts.
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

/// Those that the conventions count in whole numbers.
const WHOLE: [&str; 3] = ["gen_ai.request.max_tokens", "gen_ai.request.seed", "gen_ai.request.choice.count"];

impl<'a> Work<'a> {
    /// The span's name.
    pub fn name(&self) -> String {
        match self {
            Self::Agent { name: Some(name), .. } => format!("invoke_agent {name}"),
            Self::Agent { name: None, .. } => "invoke_agent".to_owned(),
            Self::Rounds { model } => format!("generate {}", model.model_id()),
            Self::Step { number, .. } => format!("step {number}"),
            Self::Chat { model, .. } => format!("chat {}", model.model_id()),
            Self::Tool { call, .. } => format!("execute_tool {}", call.tool_name),
            Self::Media { operation, model_id, .. } => format!("{operation} {model_id}"),
        }
    }

    /// Whether another process does it: the span is of kind CLIENT, else INTERNAL.
    pub const fn is_remote(&self) -> bool {
        matches!(self, Self::Chat { .. } | Self::Media { .. })
    }

    /// What is known at the beginning, without anything that was said.
    pub fn attributes(&self) -> Attributes<'a> {
        match *self {
            Self::Agent { name, identity, model, .. } => {
                let mut all = vec![
                    ("gen_ai.operation.name", "invoke_agent".into()),
                    ("gen_ai.provider.name", provider_name(model.provider()).into()),
                    ("gen_ai.request.model", model.model_id().into()),
                    ("gen_ai.agent.id", (&*identity.agent_id).into()),
                    ("turntree.turn.id", (&*identity.turn_id).into()),
                ];
                all.extend(name.map(|name| ("gen_ai.agent.name", name.into())));
                all.extend(identity.session_id.as_deref().map(|id| ("gen_ai.conversation.id", id.into())));
                if let Some(parent) = &identity.parent {
                    all.push(("turntree.parent.agent.id", (&*parent.agent_id).into()));
                    all.push(("turntree.parent.turn.id", (&*parent.turn_id).into()));
                }
                all
            }
            Self::Rounds { model } => vec![
                ("gen_ai.provider.name", provider_name(model.provider()).into()),
                ("gen_ai.request.model", model.model_id().into()),
            ],
            Self::Step { number, id } => {
                vec![("turntree.step.number", u64::from(number).into()), ("turntree.step.id", id.into())]
            }
            Self::Chat { model, request, streaming, identity } => {
                let mut all = vec![
                    ("gen_ai.operation.name", "chat".into()),
                    ("gen_ai.provider.name", provider_name(model.provider()).into()),
                    ("gen_ai.request.model", model.model_id().into()),
                ];
                all.extend(identity.session_id.as_deref().map(|id| ("gen_ai.conversation.id", id.into())));
                if streaming {
                    all.push(("gen_ai.request.stream", Value::Flag(true)));
                }
                if request.structure.is_some() {
                    all.push(("gen_ai.output.type", "json".into()));
                }
                parameters(&request.params, &mut all);
                all
            }
            Self::Tool { call, definition } => {
                let mut all = vec![
                    ("gen_ai.operation.name", "execute_tool".into()),
                    ("gen_ai.tool.name", call.tool_name.as_str().into()),
                    ("gen_ai.tool.call.id", call.tool_call_id.as_str().into()),
                    ("gen_ai.tool.type", "function".into()),
                ];
                let described =
                    definition.map(|tool| tool.description.as_str()).filter(|text| !text.is_empty());
                all.extend(described.map(|text| ("gen_ai.tool.description", text.into())));
                all
            }
            Self::Media { operation, output, provider, model_id } => {
                let mut all = vec![
                    ("gen_ai.operation.name", operation.into()),
                    ("gen_ai.provider.name", provider_name(provider).into()),
                    ("gen_ai.request.model", model_id.into()),
                ];
                all.extend(output.map(|output| ("gen_ai.output.type", output.into())));
                all
            }
        }
    }

    /// What is said: only for those who have asked for it.
    pub fn content(&self) -> Attributes<'a> {
        match *self {
            Self::Agent { input, .. } => vec![("gen_ai.input.messages", text(content::input(input.iter())))],
            Self::Chat { request, .. } => {
                let mut all = vec![("gen_ai.input.messages", text(content::input(request.messages.iter())))];
                let system = request.system.as_deref().map(content::system);
                all.extend(system.map(|system| ("gen_ai.system_instructions", text(system))));
                if !request.tools.is_empty() {
                    all.push(("gen_ai.tool.definitions", text(content::tools(&request.tools))));
                }
                all
            }
            Self::Tool { call, .. } => vec![("gen_ai.tool.call.arguments", call.arguments.get().into())],
            Self::Rounds { .. } | Self::Step { .. } | Self::Media { .. } => Vec::new(),
        }
    }
}

impl<'a> Outcome<'a> {
    /// What is known at the end, without anything that was said.
    pub fn attributes(&self) -> Attributes<'a> {
        match *self {
            Self::Turn(turn) => {
                let mut all = Attributes::new();
                // What the calls inside say adds up to this; it is here for those who keep no other spans.
                usage(&turn.usage, false, &mut all);
                if is_aborted(turn) {
                    all.push(("turntree.aborted", Value::Flag(true)));
                }
                all
            }
            Self::Answer { response, provider } => answer(response, provider),
            Self::Tokens(tokens) => vec![("gen_ai.usage.input_tokens", tokens.into())],
            Self::Tool(ToolOutcome { execution, .. }) => {
                let approved = execution.approved.map(Value::Flag);
                approved.map(|approved| ("turntree.tool.approved", approved)).into_iter().collect()
            }
            Self::Aborted => vec![("turntree.aborted", Value::Flag(true))],
            Self::Done | Self::Failed(_) | Self::Dropped => Vec::new(),
        }
    }

    /// What was said: only for those who have asked for it.
    pub fn content(&self) -> Attributes<'a> {
        match *self {
            Self::Turn(turn) => {
                let reason = if is_aborted(turn) { "error" } else { "stop" };
                vec![("gen_ai.output.messages", text(content::output(turn.response(), reason)))]
            }
            Self::Answer { response, .. } => {
                let reason = finish_reason(response.stop_reason);
                vec![("gen_ai.output.messages", text(content::output(&response.message, reason)))]
            }
            Self::Tool(outcome) => vec![("gen_ai.tool.call.result", outcome.told().get().into())],
            _ => Vec::new(),
        }
    }

    /// Why it counts as failed; an abort does not.
    pub fn failure(&self) -> Option<Failure<'a>> {
        match *self {
            Self::Failed(error) => Some(Failure { kind: error.code.as_str(), message: &error.message }),
            Self::Dropped => Some(Failure { kind: "CANCELLED", message: "nobody waits for it any more" }),
            Self::Tool(ToolOutcome { execution, .. }) if execution.is_error => {
                let denied = execution.approved == Some(false);
                let kind = if denied { "tool_denied" } else { "tool_error" };
                Some(Failure { kind, message: if denied { "denied by the approval handler" } else { "" } })
            }
            _ => None,
        }
    }
}

fn text<'a>(text: String) -> Value<'a> {
    Value::Text(Cow::Owned(text))
}

fn answer<'a>(response: &ModelResponse, provider: &str) -> Attributes<'a> {
    let reason = finish_reason(response.stop_reason);
    let mut all = vec![("gen_ai.response.finish_reasons", Value::Texts(vec![reason.into()]))];
    let facts = response.message.namespace(provider);
    let fact = |names: &[&str]| {
        let facts = facts.as_ref()?;
        names.iter().find_map(|name| facts.get(name)?.to::<String>().ok())
    };
    all.extend(fact(&["model"]).map(|model| ("gen_ai.response.model", text(model))));
    let id = fact(&["id", "response_id", "responseId"]);
    all.push(("gen_ai.response.id", text(id.unwrap_or_else(|| response.message.id.clone()))));
    // Anthropic counts what it reads from a cache, and writes to one, beside the input; the conventions want all of it.
    usage(&response.usage, provider == "anthropic", &mut all);
    all
}

fn usage(usage: &TokenUsage, caches_apart: bool, all: &mut Attributes<'_>) {
    let caches = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
    let input = usage.input_tokens.saturating_add(if caches_apart { caches } else { 0 });
    all.push(("gen_ai.usage.input_tokens", input.into()));
    all.push(("gen_ai.usage.output_tokens", usage.output_tokens.into()));
    let cached = [
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
    ];
    all.extend(
        cached.into_iter().filter(|(_, tokens)| *tokens > 0).map(|(name, tokens)| (name, tokens.into())),
    );
    all.extend(usage.cost.map(|cost| ("turntree.usage.cost", Value::Number(cost))));
}

fn parameters(params: &RawObject, all: &mut Attributes<'_>) {
    for (name, spellings) in PARAMETERS {
        let given = spellings.iter().find_map(|spelling| params.get(spelling)?.to::<f64>().ok());
        let Some(given) = given else { continue };
        let whole = WHOLE.contains(&name).then(|| whole(given)).flatten();
        all.push((name, whole.map_or(Value::Number(given), Value::Integer)));
    }
    let stop = ["stop", "stop_sequences", "stopSequences"].iter().find_map(|name| params.get(name));
    if let Some(stops) = stop.and_then(stops) {
        all.push((
            "gen_ai.request.stop_sequences",
            Value::Texts(stops.into_iter().map(Cow::Owned).collect()),
        ));
    }
}

fn stops(raw: &RawJson) -> Option<Vec<String>> {
    raw.to::<Vec<String>>().ok().or_else(|| Some(vec![raw.to::<String>().ok()?]))
}

fn whole(number: f64) -> Option<i64> {
    let is_whole = number.fract() == 0.0 && number.abs() < 9.0e15;
    #[expect(clippy::cast_possible_truncation, reason = "it was just seen to be whole and small enough")]
    is_whole.then_some(number as i64)
}

fn is_aborted(turn: &Turn) -> bool {
    turn.response().namespace("uap").is_some_and(|marks| marks.get("aborted").is_some())
}

/// Our providers by the names that the conventions give them.
fn provider_name(provider: &str) -> &str {
    match provider {
        "google" => "gcp.gemini",
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
