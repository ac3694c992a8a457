//! What a run tells of its work while it works: spans that begin and end, each with its parent named. UAP-1.0 §8.4.
//!
//! ```text
//!   invoke_agent ─┬─ step 1 ─┬─ chat gpt-5
//!                 │          └─ execute_tool weather ── (whatever the tool starts)
//!                 └─ step 2 ─── chat gpt-5
//! ```
//!
//! A [`Tracer`] comes from the host ([`super::Host::tracer`]); without one a run asks once and does nothing more. No
//! span is ever "current": who runs inside what is said when it begins, so nothing has to be undone when a future is
//! polled elsewhere or dropped. [`semantics`] gives work and outcomes the names of OpenTelemetry's conventions for
//! generative AI.

mod content;
pub(crate) mod open;
pub mod semantics;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

pub use open::Open;

use crate::host::error::HostError;
use crate::types::action::ToolOutcome;
use crate::types::identity::RunIdentity;
use turntree_core::message::message::History;
use turntree_core::message::{ToolCall, ToolDefinition, Turn};
use turntree_upp::{Model, ModelRequest, ModelResponse, UppError};

/// Watches the work of one run.
///
/// Called where the run is polled. Never waits and never fails: what goes wrong while watching stays with the tracer.
pub trait Tracer: Send + Sync {
    /// A piece of work begins, as a part of `parent`; without one, where the run was started.
    fn begin(&self, work: &Work<'_>, parent: Option<&Arc<dyn Span>>) -> Arc<dyn Span>;
}

/// A piece of work under way.
pub trait Span: Any + Debug + Send + Sync {
    /// The first event of a streamed answer has come.
    fn first_chunk(&self) {}

    /// The application's own code failed in it; [`Self::end`] follows.
    fn failed(&self, _error: &HostError) {}

    /// It is over. Called exactly once; also when its future is dropped.
    fn end(&self, outcome: &Outcome<'_>);
}

/// What begins.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Work<'a> {
    /// A run of an agent.
    Agent {
        /// The agent's name, for people.
        name: Option<&'a str>,
        /// Who runs.
        identity: &'a RunIdentity,
        /// Its model.
        model: &'a dyn Model,
        /// What it is asked: the new messages.
        input: &'a History,
    },
    /// A call of a bare model with tools: all its rounds.
    Rounds {
        /// The model.
        model: &'a dyn Model,
    },
    /// A step of a run.
    Step {
        /// From 1.
        number: u32,
        /// Its id.
        id: &'a str,
    },
    /// One request to a model, with all its retries.
    Chat {
        /// The model.
        model: &'a dyn Model,
        /// What it is sent.
        request: &'a ModelRequest,
        /// Whether the answer comes piece by piece.
        streaming: bool,
        /// Who asks.
        identity: &'a RunIdentity,
    },
    /// One call of a tool, with its hooks and its approval.
    Tool {
        /// The model's wish.
        call: &'a ToolCall,
        /// The tool, where there is one of this name.
        definition: Option<&'a ToolDefinition>,
    },
    /// A request to a model that makes something else than text.
    Media {
        /// As the conventions call it: `embeddings` or `generate_content`.
        operation: &'static str,
        /// What is asked for, where the conventions have a word for it: `image`.
        output: Option<&'static str>,
        /// Whose model.
        provider: &'a str,
        /// Which one.
        model_id: &'a str,
    },
}

/// How it ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// As it should.
    Done,
    /// With the turn of a run; an aborted run says so in it.
    Turn(&'a Turn),
    /// With a model's answer.
    Answer {
        /// The answer.
        response: &'a ModelResponse,
        /// Whose model: the namespace of the vendor's facts.
        provider: &'a str,
    },
    /// With so many tokens of something else than an answer.
    Tokens(u64),
    /// With what a tool gave, or what the model is told of its failure.
    Tool(&'a ToolOutcome),
    /// With an error.
    Failed(&'a UppError),
    /// The run was aborted meanwhile: nobody failed.
    Aborted,
    /// Whoever waited for it has gone.
    Dropped,
}
