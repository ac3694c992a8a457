//! Errors of ThreadProtocol documents and conversions.
//!
//! ```text
//! ThreadError
//! ├── Parse              not JSON, over a limit, or of another shape; has the JSON pointer
//! ├── Invalid            the document breaks rules of the protocol; has every issue
//! ├── RoundtripMetadata  stored round-trip metadata is damaged
//! ├── UiStream           a UI message stream is invalid for a real client
//! └── UnknownAgent       the agent of a view is not in the registry
//! ```

use super::issue::Issue;
use turntree_core::json::ParseError;

/// An error of a ThreadProtocol document or a conversion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// The input is not JSON, is over a limit, or has the wrong shape.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The document breaks rules of the protocol.
    #[error("{}", summary(issues))]
    Invalid {
        /// All errors, in document order.
        issues: Vec<Issue>,
    },
    /// Metadata that the conversion needs for a round trip is damaged.
    #[error("{pointer}: {message}")]
    RoundtripMetadata {
        /// The JSON pointer.
        pointer: String,
        /// The problem.
        message: String,
    },
    /// A UI message stream cannot be read further.
    #[error("chunk {chunk} of the stream: {message}")]
    UiStream {
        /// The index of the chunk, from 0.
        chunk: u64,
        /// The problem and the remedy.
        message: String,
    },
    /// The agent of a view is not in the registry.
    #[error("no agent \"{agent_id}\" in this thread; {}", agents(known))]
    UnknownAgent {
        /// The id that was passed.
        agent_id: String,
        /// The ids of the registry.
        known: Vec<String>,
    },
}

fn agents(known: &[String]) -> String {
    if known.is_empty() { "it has none".to_owned() } else { format!("its agents are {}", known.join(", ")) }
}

fn summary(issues: &[Issue]) -> String {
    let Some(first) = issues.first() else { return "no issue".to_owned() };
    match issues.len() - 1 {
        0 => first.to_string(),
        more => format!("{first} (and {more} more)"),
    }
}

impl ThreadError {
    /// The JSON pointer; empty for the whole document.
    pub fn pointer(&self) -> String {
        match self {
            Self::Parse(error) => error.pointer(),
            Self::Invalid { issues } => issues.first().map(|issue| issue.pointer.clone()).unwrap_or_default(),
            Self::RoundtripMetadata { pointer, .. } => pointer.clone(),
            Self::UiStream { chunk, .. } => format!("/{chunk}"),
            Self::UnknownAgent { .. } => "/agents".to_owned(),
        }
    }

    /// The name of the broken rule.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Parse(error) => error.kind.name(),
            Self::Invalid { issues } => issues.first().map_or("invalid", |issue| issue.rule.name()),
            Self::RoundtripMetadata { .. } => "residue",
            Self::UiStream { .. } => "ui_stream",
            Self::UnknownAgent { .. } => "agent_id",
        }
    }

    /// The remedy.
    pub fn hint(&self) -> &'static str {
        use turntree_core::json::ParseErrorKind as Kind;
        match self {
            Self::Parse(error) => match error.kind {
                Kind::Encoding => "encode the text as UTF-8",
                Kind::Syntax | Kind::Truncated => "pass the whole JSON text as it was written",
                Kind::Limit => "split the document, or raise the limit if you trust its source",
                Kind::Shape => "pass a ThreadProtocol document, or a list of messages as dump_json writes it",
            },
            Self::Invalid { .. } => "validate() lists every issue with its remedy",
            Self::RoundtripMetadata { .. } => {
                "remove metadata.pydantic_ai from the thread and its actions to rebuild messages from the actions alone"
            }
            Self::UiStream { .. } => {
                "a real client rejects the stream here too; read with errors=\"stop\" to keep the previous chunks"
            }
            Self::UnknownAgent { .. } => "pass a key of thread.agents",
        }
    }
}
