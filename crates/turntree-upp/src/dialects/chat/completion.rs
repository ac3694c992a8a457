//! The JSON of responses and chunks, borrowed from the input. Lenient: hosts omit members, or send `null` or other
//! types than OpenAI.

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ChatOptions, Member};
use crate::dialects::common::{BoundedVec, Cost, Count, LenientText, if_readable};
use turntree_core::message::TokenUsage;

/// A whole response, or one chunk of a stream.
#[derive(Deserialize)]
pub(super) struct Completion<'a> {
    #[serde(borrow, default)]
    pub(super) id: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) model: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) system_fingerprint: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) service_tier: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) choices: Option<BoundedVec<Choice<'a>>>,
    #[serde(default, deserialize_with = "if_readable")]
    pub(super) usage: Option<Usage>,
    /// Groq's usage of a stream.
    #[serde(borrow, default)]
    pub(super) x_groq: Option<Groq<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    time_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    citations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    inline_citations: Option<&'a RawValue>,
    /// The vendor behind a gateway.
    #[serde(borrow, default)]
    provider: Option<&'a RawValue>,
}

impl<'a> Completion<'a> {
    /// A member of the response that is stored in the metadata.
    pub(super) const fn member(&self, member: Member) -> Option<&'a RawValue> {
        match member {
            Member::TimeInfo => self.time_info,
            Member::Citations => self.citations,
            Member::InlineCitations => self.inline_citations,
            Member::Provider => self.provider,
            Member::ExecutedTools | Member::Annotations | Member::NativeFinishReason => None,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Groq<'a> {
    #[serde(default, deserialize_with = "if_readable")]
    pub(super) usage: Option<Usage>,
    /// Errors inside a stream.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(borrow, default)]
    pub(super) message: Option<ChatMessage<'a>>,
    #[serde(borrow, default)]
    pub(super) delta: Option<ChatMessage<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: LenientText<'a>,
    #[serde(borrow, default)]
    native_finish_reason: Option<&'a RawValue>,
    /// The probabilities of the tokens, if they were requested.
    #[serde(borrow, default)]
    pub(super) logprobs: Option<&'a RawValue>,
    /// Moonshot's usage of a stream.
    #[serde(default, deserialize_with = "if_readable")]
    pub(super) usage: Option<Usage>,
    /// `OpenRouter`'s error of the vendor behind it.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

impl<'a> Choice<'a> {
    /// True for the first choice. Others are ignored; a caller may request several.
    pub(super) fn is_first(&self) -> bool {
        self.index.unwrap_or(0) == 0
    }

    /// A member of the choice that is stored in the metadata.
    pub(super) fn member(&self, member: Member) -> Option<&'a RawValue> {
        let reported = |received: &ChatMessage<'a>| match member {
            Member::ExecutedTools => received.executed_tools,
            Member::Annotations => received.annotations,
            Member::Citations => received.citations,
            Member::InlineCitations => received.inline_citations,
            Member::TimeInfo | Member::Provider | Member::NativeFinishReason => None,
        };
        match member {
            Member::NativeFinishReason => self.native_finish_reason,
            _ => self.delta.as_ref().and_then(reported).or_else(|| self.message.as_ref().and_then(reported)),
        }
    }
}

/// A message, or a delta of one.
#[derive(Deserialize, Default)]
pub(super) struct ChatMessage<'a> {
    #[serde(borrow, default)]
    pub(super) content: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<BoundedVec<Call<'a>>>,
    /// Reasoning in pieces, with signatures and encrypted parts.
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    /// Images that the model generated.
    #[serde(borrow, default)]
    pub(super) images: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) executed_tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    citations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    inline_citations: Option<&'a RawValue>,
}

impl ChatMessage<'_> {
    /// The reasoning, from any of the members that hosts use.
    pub(super) fn thinking(&self) -> &str {
        if !self.reasoning_content.is_empty() {
            self.reasoning_content.as_str()
        } else if self.reasoning.is_empty() {
            self.content.thinking()
        } else {
            self.reasoning.as_str()
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Call<'a> {
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(borrow, default)]
    pub(super) id: LenientText<'a>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Deserialize, Default)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: LenientText<'a>,
    /// JSON in a string; some hosts send the object itself.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl Function<'_> {
    /// Appends the JSON of the arguments, or a piece of it.
    ///
    /// # Errors
    /// A string with half a surrogate pair; `out` is then unchanged.
    pub(super) fn arguments_onto(&self, out: &mut String) -> Result<(), serde_json::Error> {
        match self.arguments.map(RawValue::get) {
            None | Some("null") => {}
            Some(text) if text.starts_with('"') => unescape_onto(text, out)?,
            Some(object) => out.push_str(object),
        }
        Ok(())
    }
}

/// Appends the value of a JSON string. Pieces of arguments are full of `\"` and only a few bytes long: a JSON parser
/// would take longer for each than for the frame around it.
fn unescape_onto(quoted: &str, out: &mut String) -> Result<(), serde_json::Error> {
    let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default();
    let start = out.len();
    out.reserve(inner.len());
    let mut rest = inner;
    while let Some((plain, escaped)) = memchr(b'\\', rest.as_bytes()).and_then(|at| rest.split_at_checked(at))
    {
        out.push_str(plain);
        out.push(match escaped.as_bytes().get(1) {
            Some(mark @ (b'"' | b'\\' | b'/')) => char::from(*mark),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            // A number, perhaps one half of a surrogate pair.
            _ => {
                out.truncate(start);
                out.push_str(&serde_json::from_str::<String>(quoted)?);
                return Ok(());
            }
        });
        rest = escaped.get(2..).unwrap_or_default();
    }
    out.push_str(rest);
    Ok(())
}

#[derive(Deserialize, Default, Clone, Copy)]
pub(super) struct Usage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    #[serde(default)]
    cost: Option<Cost>,
    #[serde(default, deserialize_with = "if_readable")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default, deserialize_with = "if_readable")]
    completion_tokens_details: Option<CompletionDetails>,
    /// Perplexity's count of reasoning tokens.
    #[serde(default)]
    reasoning_tokens: Count,
    /// Moonshot's count of cached tokens.
    #[serde(default)]
    cached_tokens: Count,
    /// `DeepSeek`'s count of cached tokens.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
    /// Mistral's count of cached tokens.
    #[serde(default)]
    num_cached_tokens: Count,
    /// The counts of `LiteLLM` for models of Anthropic; both are part of the prompt's tokens.
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
    /// The cost of xAI.
    #[serde(default)]
    cost_in_usd_ticks: Count,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "the vendor's names")]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
    #[serde(default)]
    audio_tokens: Count,
}

#[derive(Deserialize, Default, Clone, Copy)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Count,
    #[serde(default)]
    audio_tokens: Count,
}

impl Usage {
    /// Converts to token usage. The total is the vendor's, or the sum of both counts. Reasoning that the vendor counts
    /// apart is output, so that both add up to the vendor's total.
    pub(super) fn into_usage(self, options: &ChatOptions) -> TokenUsage {
        let details = self.prompt_tokens_details.unwrap_or_default();
        let cached = [
            details.cached_tokens,
            self.cached_tokens,
            self.prompt_cache_hit_tokens,
            self.num_cached_tokens,
            self.cache_read_input_tokens,
        ];
        let stored = [details.cache_write_tokens, self.cache_creation_input_tokens];
        let written = self.completion_tokens_details.unwrap_or_default();
        let reasoning = written.reasoning_tokens.if_any().or(self.reasoning_tokens.if_any());
        let counted = TokenUsage::of_call(self.prompt_tokens.0, self.completion_tokens.0);
        let with_reasoning = counted.total_tokens.saturating_add(reasoning.unwrap_or_default());
        let mut usage = if options.reasoning_apart && self.total_tokens.0 >= with_reasoning {
            let output = self.completion_tokens.0.saturating_add(reasoning.unwrap_or_default());
            TokenUsage::of_call(self.prompt_tokens.0, output)
        } else {
            counted
        };
        usage.cache_read_tokens = first_reported(&cached);
        usage.cache_write_tokens = first_reported(&stored);
        usage.reasoning_tokens = reasoning;
        usage.audio_tokens = Count(details.audio_tokens.0.saturating_add(written.audio_tokens.0)).if_any();
        usage.cost = options.reports_cost.then(|| self.cost()).flatten();
        if self.total_tokens.0 > 0 {
            usage.total_tokens = self.total_tokens.0;
        }
        usage
    }

    fn cost(&self) -> Option<f64> {
        self.cost.and_then(Cost::dollars).or_else(|| self.cost_in_usd_ticks.dollars_of_ticks())
    }
}

fn first_reported(counts: &[Count]) -> u64 {
    counts.iter().find_map(|count| count.if_any()).unwrap_or_default()
}
