//! Checks that the parts of a document that applications read on their own are not nested too deeply.
//!
//! A document may have 256 levels. A message that is taken from it must leave room for the levels around messages, so that
//! it can be stored in another document.
//!
//! Spec: decision A116.

use serde::Serialize;

use crate::tree::thread_tree::ThreadTree;
use turntree_core::json::{self, ParseError, ParseErrorKind, PathSegment};
use turntree_core::limits::{LimitError, Limits, OUTER_LEVELS_OF_MESSAGES};
use turntree_core::message::Message;

/// True if no part of a document can be too deep, because the whole document is not.
pub(crate) fn is_shallow(text: &str, limits: &Limits) -> bool {
    Limits { depth: limits.depth.min(Limits::PAYLOAD.depth), ..*limits }.check(text).is_ok()
}

/// Checks the messages of a tree.
///
/// # Errors
/// The path of the first message that is too deep.
pub(crate) fn check_tree(tree: &ThreadTree) -> Result<(), ParseError> {
    tree.nodes().enumerate().try_for_each(|(index, node)| {
        let key = |name: &str| PathSegment::Key(name.to_owned());
        let path = [key("nodes"), PathSegment::Index(index), key("thread"), key("messages")];
        check_messages(node.thread.messages.iter().map(AsRef::as_ref), &path)
    })
}

/// Checks messages at a path.
///
/// # Errors
/// The path of the first message that is too deep.
pub(crate) fn check_messages<'m>(
    messages: impl Iterator<Item = &'m Message>,
    path: &[PathSegment],
) -> Result<(), ParseError> {
    let depth = Limits::of_part(OUTER_LEVELS_OF_MESSAGES).depth;
    messages.enumerate().try_for_each(|(index, message)| {
        check(message, depth, || path.iter().cloned().chain([PathSegment::Index(index)]).collect())
    })
}

/// Checks a value that may have `depth` levels.
///
/// # Errors
/// The path of the value if it is too deep.
pub(crate) fn check(
    part: &impl Serialize,
    depth: usize,
    path: impl FnOnce() -> Vec<PathSegment>,
) -> Result<(), ParseError> {
    // What was read from JSON can be written as JSON.
    let text = json::write(part).unwrap_or_default();
    let limits = Limits { bytes: usize::MAX, depth, values: usize::MAX };
    match limits.check(&text) {
        Err(LimitError::Depth { .. }) => Err(ParseError {
            kind: ParseErrorKind::Limit,
            path: path(),
            message: format!("the value is nested deeper than {depth} levels; flatten it"),
        }),
        _ => Ok(()),
    }
}
