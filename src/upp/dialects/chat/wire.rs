//! What comes in, borrowed from the text it is read from. Lenient: hosts of this wire leave members out, give `null`,
//! or another type than OpenAI does.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::message::TokenUsage;

/// A whole answer, or one chunk of a stream.
#[derive(Deserialize)]
pub(super) struct Completion<'a> {
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
    #[serde(borrow, default)]
    pub(super) system_fingerprint: Text<'a>,
    #[serde(borrow, default)]
    pub(super) service_tier: Text<'a>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<Usage>,
    /// Where Groq puts the usage of a stream.
    #[serde(default)]
    pub(super) x_groq: Option<Groq>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Groq {
    #[serde(default)]
    pub(super) usage: Option<Usage>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(borrow, default)]
    pub(super) message: Option<Said<'a>>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Said<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
}

impl Choice<'_> {
    /// Whether it is the answer that counts; a caller may have asked for several.
    pub(super) fn is_first(&self) -> bool {
        self.index.unwrap_or(0) == 0
    }
}

/// A message, or a piece of one.
#[derive(Deserialize, Default)]
pub(super) struct Said<'a> {
    #[serde(borrow, default)]
    pub(super) content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
}

impl Said<'_> {
    /// The thinking, under whichever name the host gives it.
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
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Deserialize, Default)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    /// A text that holds JSON; some hosts give the object itself.
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl<'a> Function<'a> {
    /// The JSON of the arguments, or a piece of it.
    pub(super) fn arguments(&self) -> Result<Cow<'a, str>, serde_json::Error> {
        match self.arguments.map(RawValue::get) {
            None | Some("null") => Ok(Cow::Borrowed("")),
            Some(text) if text.starts_with('"') => {
                serde_json::from_str::<Text<'a>>(text).map(|text| text.text.unwrap_or_default())
            }
            Some(object) => Ok(Cow::Borrowed(object)),
        }
    }
}

#[derive(Deserialize, Default)]
pub(super) struct Usage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    /// Moonshot's place for it.
    #[serde(default)]
    cached_tokens: Count,
    /// `DeepSeek`'s place for it.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
}

#[derive(Deserialize, Default)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
}

impl Usage {
    /// In our words; the total as the vendor counts, or the sum of both.
    pub(super) fn into_usage(self) -> TokenUsage {
        let details = self.prompt_tokens_details.unwrap_or_default();
        let cached = [details.cached_tokens, self.cached_tokens, self.prompt_cache_hit_tokens];
        let mut usage = TokenUsage::of_call(self.prompt_tokens.0, self.completion_tokens.0);
        usage.cache_read_tokens = cached.iter().map(|count| count.0).find(|count| *count > 0).unwrap_or(0);
        if self.total_tokens.0 > 0 {
            usage.total_tokens = self.total_tokens.0;
        }
        usage
    }
}

/// A number of tokens; whatever is none counts as 0, since an answer must not be lost for its statistics.
#[derive(Clone, Copy, Default)]
pub(super) struct Count(pub(super) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl<'de> Visitor<'de> for Number {
            type Value = Count;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number of tokens")
            }
            fn visit_u64<E: Error>(self, count: u64) -> Result<Count, E> {
                Ok(Count(count))
            }
            fn visit_i64<E: Error>(self, _below_zero: i64) -> Result<Count, E> {
                Ok(Count(0))
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            fn visit_f64<E: Error>(self, count: f64) -> Result<Count, E> {
                Ok(Count(count as u64))
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<Count, E> {
                Ok(Count(0))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
                Ok(Count(text.parse().unwrap_or(0)))
            }
            fn visit_unit<E: Error>(self) -> Result<Count, E> {
                Ok(Count(0))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count(0))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Count, A::Error> {
                crate::core::json::tagged::skip(map).map(|()| Count(0))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// A text, borrowed where it has no escapes. A list of parts gives the texts in it, and apart from them the thinking
/// (Mistral's form); anything else counts as no text.
#[derive(Debug, Default)]
pub(super) struct Text<'a> {
    text: Option<Cow<'a, str>>,
    thinking: Option<String>,
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    fn thinking(&self) -> &str {
        self.thinking.as_deref().unwrap_or_default()
    }

    fn borrowed(text: &str) -> Text<'_> {
        Text { text: Some(Cow::Borrowed(text)), thinking: None }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Text<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text::borrowed(text))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text { text: Some(Cow::Owned(text.to_owned())), thinking: None })
            }
            fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Text<'de>, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Text<'de>, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text<'de>, A::Error> {
                crate::core::json::tagged::skip(map).map(|()| Text::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Text<'de>, A::Error> {
                let (mut text, mut thinking) = (String::new(), String::new());
                while let Some(part) = parts.next_element::<&'de RawValue>()? {
                    // A part that is no object says nothing we know.
                    if let Ok(part) = serde_json::from_str::<Part<'de>>(part.get()) {
                        text.push_str(&part.text.0);
                        thinking.push_str(&part.thoughts());
                    }
                }
                Ok(Text { text: Some(text.into()), thinking: Some(thinking) })
            }
        }
        deserializer.deserialize_any(Words)
    }
}

/// A part of a list of parts: `{"type": "text", "text": …}` or `{"type": "thinking", "thinking": [such parts]}`.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Leaf<'a>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

impl Part<'_> {
    /// One level deep and no further: nobody may nest us out of the stack.
    fn thoughts(&self) -> String {
        let raw = self.thinking.map(RawValue::get).unwrap_or_default();
        if raw.starts_with('[') {
            let thoughts = serde_json::from_str::<Vec<Part<'_>>>(raw).unwrap_or_default();
            return thoughts.iter().map(|thought| &*thought.text.0).collect();
        }
        serde_json::from_str::<Leaf<'_>>(raw).unwrap_or_default().0.into_owned()
    }
}

/// A text, or nothing.
#[derive(Default)]
struct Leaf<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Leaf<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        if !raw.starts_with('"') {
            return Ok(Self::default());
        }
        let text: Text<'de> = serde_json::from_str(raw).map_err(D::Error::custom)?;
        Ok(Self(text.text.unwrap_or_default()))
    }
}
