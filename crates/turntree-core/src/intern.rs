//! Interned strings, for texts that occur often: ids of agents, names of tools, times.

use std::borrow::{Borrow, Cow};
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum length in bytes of an interned text. Longer texts rarely repeat.
const SHORT: usize = 64;

/// Number of cached texts per thread; a power of two.
const REMEMBERED: usize = 64;

thread_local! {
    /// Empty until the first text. On the heap: the system has 1.6 KB for the thread-local variables of all libraries that
    /// are loaded at run time, and the extension module cannot be imported if it needs more.
    static RECENT: RefCell<Vec<Option<Arc<str>>>> = const { RefCell::new(Vec::new()) };
}

/// A shared string. Recently created equal strings share their memory.
///
/// The actions of a thread repeat its agents, tools and times. A clone copies no text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InternedStr(Arc<str>);

impl InternedStr {
    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The cache slot of a text. Ids and times differ in their last bytes, names in their length.
#[expect(clippy::cast_possible_truncation, reason = "six bits are left")]
#[inline]
fn slot(text: &str) -> usize {
    let bytes = text.as_bytes();
    let short = || bytes.iter().fold(0, |all, byte| (all << 8) | u64::from(*byte));
    let last = bytes.last_chunk().map_or_else(short, |chunk| u64::from_le_bytes(*chunk));
    // Fibonacci hashing moves the differences to the upper bits.
    let mixed = (last ^ bytes.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (64 - REMEMBERED.ilog2())) as usize
}

impl From<&str> for InternedStr {
    #[inline]
    fn from(text: &str) -> Self {
        if text.len() > SHORT {
            return Self(Arc::from(text));
        }
        let remembered = RECENT.try_with(|recent| {
            let mut recent = recent.try_borrow_mut().ok()?;
            if recent.is_empty() {
                recent.resize(REMEMBERED, None);
            }
            let slot = recent.get_mut(slot(text))?;
            match slot {
                Some(known) if **known == *text => Some(Arc::clone(known)),
                _ => Some(Arc::clone(slot.insert(Arc::from(text)))),
            }
        });
        // A thread that is ending has no cache.
        Self(remembered.ok().flatten().unwrap_or_else(|| Arc::from(text)))
    }
}

impl From<String> for InternedStr {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for InternedStr {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Cow<'_, str>> for InternedStr {
    fn from(text: Cow<'_, str>) -> Self {
        text.as_ref().into()
    }
}

impl From<InternedStr> for String {
    fn from(text: InternedStr) -> Self {
        text.as_str().to_owned()
    }
}

/// Empty.
impl Default for InternedStr {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl Deref for InternedStr {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for InternedStr {
    #[inline]
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for InternedStr {
    #[inline]
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for InternedStr {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for InternedStr {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<String> for InternedStr {
    #[inline]
    fn eq(&self, other: &String) -> bool {
        *self.0 == **other
    }
}

impl fmt::Debug for InternedStr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, formatter)
    }
}

impl fmt::Display for InternedStr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for InternedStr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for InternedStr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = InternedStr;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<InternedStr, E> {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{InternedStr, REMEMBERED, SHORT};

    #[test]
    fn equal_texts_share_one_allocation() {
        let first = InternedStr::from("2026-11-22T09:00:00Z");
        let second: InternedStr = serde_json::from_str("\"2026-11-22T09:00:00Z\"").unwrap();

        assert_eq!(first.as_ptr(), second.as_ptr());
    }

    #[test]
    fn texts_with_colliding_hashes_stay_distinct() {
        let texts: Vec<String> = (0..REMEMBERED * 20).map(|number| format!("agent-{number}")).collect();
        let shared: Vec<InternedStr> = texts.iter().chain(&texts).map(InternedStr::from).collect();

        assert!(shared.iter().zip(texts.iter().chain(&texts)).all(|(shared, text)| shared == text));
    }

    #[test]
    fn long_and_empty_texts_are_supported() {
        let long = "x".repeat(SHORT + 1);

        assert_eq!(InternedStr::from(&long), long);
        assert_eq!(InternedStr::from(""), InternedStr::default());
    }
}
