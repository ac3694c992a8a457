//! Tagged unions whose tag (`type`, `action_type`, `part_kind`) may be at any position in the object.
//!
//! If the tag is the first member, the variant reads the rest of the object directly. Members before the tag are buffered
//! as raw text. (1.7 × the speed of serde's own tagged enums, and raw values stay raw.)

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A string that borrows from the document if it has no escapes (serde's `Cow` always copies).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CowStr<'de>(Cow<'de, str>);

impl<'de> CowStr<'de> {
    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, still borrowed if it was.
    #[inline]
    pub fn into_cow(self) -> Cow<'de, str> {
        self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for CowStr<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = CowStr<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(CowStr(Cow::Borrowed(name)))
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(CowStr(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A union that is read by [`read`].
pub trait Tagged<'de>: Sized {
    /// The name of the tag.
    const TAG: &'static str;

    /// Reads the variant that `tag` names from the other members.
    ///
    /// # Errors
    /// An unknown tag, and errors of the variant.
    fn variant<A: MapAccess<'de>>(tag: &str, members: A) -> Result<Self, A::Error>;
}

/// Reads a union: finds the tag, then reads the members of the variant.
///
/// # Errors
/// A missing tag, a tag that is not a string, and errors of the variant.
pub fn read<'de, T: Tagged<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Union<T>(std::marker::PhantomData<T>);
    impl<'de, T: Tagged<'de>> Visitor<'de> for Union<T> {
        type Value = T;
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "an object with the member \"{}\"", T::TAG)
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            let mut before = Vec::new();
            while let Some(key) = map.next_key::<CowStr<'de>>()? {
                if key.as_str() == T::TAG {
                    let tag = map.next_value::<CowStr<'de>>()?;
                    before.reverse();
                    // Also if `before` is empty: the code of the variants is compiled once instead of twice.
                    return T::variant(tag.as_str(), Members { before, pending: None, after: map });
                }
                before.push((key, map.next_value::<&'de RawValue>()?));
            }
            Err(A::Error::missing_field(T::TAG))
        }
    }
    deserializer.deserialize_map(Union(std::marker::PhantomData))
}

/// The members before the tag (last one first), then those after it.
struct Members<'de, A> {
    before: Vec<(CowStr<'de>, &'de RawValue)>,
    pending: Option<(Cow<'de, str>, &'de RawValue)>,
    after: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some((key, value)) = self.before.pop() else {
            return self.after.next_key_seed(seed);
        };
        self.pending = Some((key.0.clone(), value));
        match key.0 {
            Cow::Borrowed(name) => seed.deserialize(serde::de::value::BorrowedStrDeserializer::new(name)),
            Cow::Owned(name) => seed.deserialize(serde::de::value::StringDeserializer::new(name)),
        }
        .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.pending.take() {
            None => self.after.next_value_seed(seed),
            Some((name, raw)) => {
                seed.deserialize(&mut serde_json::Deserializer::from_str(raw.get())).map_err(|error| {
                    // Its line and column are relative to the value; the deserializer adds those of the document.
                    let error = error.to_string();
                    let message =
                        error.rsplit_once(" at line ").map_or(error.as_str(), |(message, _)| message);
                    A::Error::custom(format_args!("{name}: {message}"))
                })
            }
        }
    }
}

/// Skips the rest of an object.
///
/// # Errors
/// Errors of the deserializer.
pub fn skip<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}
