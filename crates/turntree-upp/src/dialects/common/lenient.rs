//! Types that accept values which deviate from the vendor's documentation: a text that is `null` or a list, a count
//! that is a fraction. Such deviations must not fail the whole response.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A token count. Anything that is not a number counts as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count(pub u64);

impl Count {
    /// The count, for usage that not every vendor reports; `None` if it is 0.
    pub fn if_any(self) -> Option<u64> {
        Some(self.0).filter(|count| *count > 0)
    }

    /// The cost in US dollars, if this is xAI's count of ten-billionths of a dollar.
    pub fn dollars_of_ticks(self) -> Option<f64> {
        const TICKS: f64 = 1e10;
        #[expect(clippy::cast_precision_loss, reason = "no call costs 2^53 ticks, which are 900 000 dollars")]
        self.if_any().map(|ticks| ticks as f64 / TICKS)
    }
}

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
                turntree_core::json::tagged::skip(map).map(|()| Count(0))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

/// A value beside the answer, which a response of another shape does not fail: it is `None` then.
///
/// # Errors
/// The input is not JSON.
pub fn if_readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let raw = Option::<&'de RawValue>::deserialize(deserializer)?;
    Ok(raw.and_then(|raw| serde_json::from_str(raw.get()).ok()))
}

/// The cost of a call as the vendor reports it. Anything that is not a number is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Cost {
    /// The amount.
    Reported(f64),
    /// The amounts of Perplexity.
    Itemized {
        /// Their sum.
        total_cost: f64,
    },
    /// Any other value.
    Other(IgnoredAny),
}

impl Cost {
    /// The amount in US dollars, if reported.
    pub fn dollars(self) -> Option<f64> {
        match self {
            Self::Reported(sum) | Self::Itemized { total_cost: sum } if sum.is_finite() && sum >= 0.0 => {
                Some(sum)
            }
            _ => None,
        }
    }
}

/// Maximum choices and calls of a response. In memory each takes a hundred times the size of the `{}` that may
/// represent it, and each piece of a stream searches its call among them.
pub const MOST_ITEMS: usize = 1024;

/// A list of at most [`MOST_ITEMS`].
#[derive(Debug)]
pub struct BoundedVec<T>(Vec<T>);

impl<T> BoundedVec<T> {
    /// The items in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T> Default for BoundedVec<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, T> IntoIterator for &'a BoundedVec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> IntoIterator for BoundedVec<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BoundedVec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = BoundedVec<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a list of at most {MOST_ITEMS}")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<BoundedVec<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    match items.len() {
                        // A piece of a stream usually has one item, so no capacity is reserved.
                        0 => items.reserve_exact(1),
                        MOST_ITEMS => return Err(A::Error::invalid_length(MOST_ITEMS + 1, &self)),
                        _ => {}
                    }
                    items.push(item);
                }
                Ok(BoundedVec(items))
            }
        }
        deserializer.deserialize_seq(Items(std::marker::PhantomData))
    }
}

/// A text, borrowed if it has no escapes. A list of parts becomes its texts and, separately, its reasoning (Mistral's
/// format). Any other value counts as an empty text.
///
/// It has the size of two words, since a piece of a stream contains a dozen of them, most of them empty.
#[derive(Debug)]
pub struct LenientText<'a>(Form<'a>);

#[derive(Debug)]
enum Form<'a> {
    Borrowed(&'a str),
    Owned(Box<OwnedText>),
}

/// An owned text, because it had escapes or came in parts.
#[derive(Debug, Default)]
struct OwnedText {
    text: String,
    thinking: String,
}

impl Default for LenientText<'_> {
    fn default() -> Self {
        Self(Form::Borrowed(""))
    }
}

impl<'a> LenientText<'a> {
    /// The text; may be empty.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Borrowed(text) => text,
            Form::Owned(text) => &text.text,
        }
    }

    /// True if the text is empty.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    /// The reasoning among the parts.
    pub fn thinking(&self) -> &str {
        match &self.0 {
            Form::Borrowed(_) => "",
            Form::Owned(text) => &text.thinking,
        }
    }

    /// The text; borrowed if possible.
    pub fn into_text(self) -> Cow<'a, str> {
        match self.0 {
            Form::Borrowed(text) => Cow::Borrowed(text),
            Form::Owned(text) => Cow::Owned(text.text),
        }
    }

    fn made(text: impl Into<String>, thinking: String) -> Self {
        Self(Form::Owned(Box::new(OwnedText { text: text.into(), thinking })))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LenientText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = LenientText<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<LenientText<'de>, E> {
                Ok(LenientText(Form::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<LenientText<'de>, E> {
                Ok(LenientText::made(text, String::new()))
            }
            fn visit_unit<E: Error>(self) -> Result<LenientText<'de>, E> {
                Ok(LenientText::default())
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<LenientText<'de>, E> {
                Ok(LenientText::default())
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<LenientText<'de>, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<LenientText<'de>, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<LenientText<'de>, E> {
                Ok(LenientText::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LenientText<'de>, A::Error> {
                turntree_core::json::tagged::skip(map).map(|()| LenientText::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<LenientText<'de>, A::Error> {
                let (mut text, mut thinking) = (String::new(), String::new());
                while let Some(part) = parts.next_element::<&'de RawValue>()? {
                    // Parts that are not objects are ignored.
                    if let Ok(part) = serde_json::from_str::<Part<'de>>(part.get()) {
                        text.push_str(&part.text.0);
                        thinking.push_str(&part.thoughts());
                    }
                }
                Ok(LenientText::made(text, thinking))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// One part: `{"type": "text", "text": …}` or `{"type": "thinking", "thinking": [parts]}`.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Leaf<'a>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

impl Part<'_> {
    /// Only one level of nesting is read, so deep nesting cannot overflow the stack.
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
        let text: LenientText<'de> = serde_json::from_str(raw).map_err(D::Error::custom)?;
        Ok(Self(text.into_text()))
    }
}
