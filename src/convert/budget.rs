//! How much JSON is written from Python data.
//!
//! A Python object may be in another one many times: 22 dicts, each twice in the next one, are 8 million values of JSON.
//! So the limits of documents are counted while they are written, and the objects in copies of an object have a limit of
//! their own. Values that are not objects do not count for it: many copies of a small object are as large as they look.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::prelude::*;
use turntree_core::json::{ParseError, ParseErrorKind, PathSegment};
use turntree_core::limits::Limits;

/// Maximum number of objects and lists in objects that were written before. They are written in less than a second.
const COPIED: usize = 1_000_000;

/// Objects are remembered when this number of values is written: less cannot take long.
const UNTRACKED_VALUES: usize = 10_000;

/// What may still be written.
pub(crate) struct Budget {
    limits: Limits,
    /// The number of values that follow another one, as [`Limits`] counts them.
    values: usize,
    copied: usize,
    /// The objects that were written, which stay alive so that no other one gets their address.
    seen: HashMap<usize, Py<PyAny>>,
}

/// A limit that the data exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Bytes(usize),
    Values(usize),
    Copies,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, values: 0, copied: 0, seen: HashMap::new() }
    }

    /// Counts an object or a list. `is_copied` says whether it is in one that was written before. Returns whether it, or
    /// one around it, was written before.
    ///
    /// # Errors
    /// [`Exceeded::Copies`].
    pub(crate) fn open(&mut self, object: &Bound<'_, PyAny>, is_copied: bool) -> Result<bool, Exceeded> {
        if is_copied {
            self.copied += 1;
            return if self.copied > COPIED { Err(Exceeded::Copies) } else { Ok(true) };
        }
        if self.values < UNTRACKED_VALUES {
            return Ok(false);
        }
        Ok(match self.seen.entry(object.as_ptr().addr()) {
            Entry::Occupied(_) => true,
            Entry::Vacant(entry) => {
                entry.insert(object.clone().unbind());
                false
            }
        })
    }

    /// Counts an item of an object. `written` is the number of bytes before it.
    ///
    /// # Errors
    /// The limit that the data exceed.
    #[inline]
    pub(crate) fn item(&mut self, index: usize, written: usize) -> Result<(), Exceeded> {
        self.values += usize::from(index > 0);
        if self.values > self.limits.values {
            return Err(Exceeded::Values(self.limits.values));
        }
        self.text(written, 0)
    }

    /// Checks the size with a text of `more` bytes.
    ///
    /// # Errors
    /// [`Exceeded::Bytes`].
    #[inline]
    pub(crate) const fn text(&self, written: usize, more: usize) -> Result<(), Exceeded> {
        if written.saturating_add(more) > self.limits.bytes {
            return Err(Exceeded::Bytes(self.limits.bytes));
        }
        Ok(())
    }
}

impl Exceeded {
    /// The error for data at `path`.
    pub(crate) fn at(self, path: &[PathSegment]) -> ParseError {
        let rule = match self {
            Self::Bytes(limit) => format!("has more than {limit} bytes as JSON; split it"),
            Self::Values(limit) => format!("has more than {limit} values; split it"),
            Self::Copies => format!(
                "an object that is in the data more than once is written each time, and its copies have more than \
                 {COPIED} objects and lists; give each object once, or refer to it by an id"
            ),
        };
        ParseError { kind: ParseErrorKind::Limit, ..ParseError::shape(path.to_vec(), rule) }
    }
}
