//! Limits the messages sent to a model to a window of the conversation.
//!
//! Only the request changes: tree, session and turn keep all messages. Messages are cut between turns. [`window`] finds the
//! cut, [`estimate`] counts tokens, and [`summary`] summarizes the messages before the cut.
//!
//! Spec: UAP-1.0 §10.4

pub mod estimate;
pub mod summary;
pub mod window;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::middleware::context::MiddlewareContext;
use crate::middleware::hooks::{HookFuture, Hooks, Middleware};
use turntree_core::ids::{IdSource as _, RandomIds};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Body, ContentBlock, Message};
use turntree_upp::{ErrorCode, ModelRequest, UppError};

pub use estimate::TokenCounter;
use estimate::{TokenCountCache, count_without_messages, text_within};
pub use summary::Summarizer;
use summary::{KnownSummary, Summaries, Summary, transcript};
use window::{Limit, Window, cut};

/// How a last turn that exceeds the token limit is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overflow {
    /// The run ends with [`ErrorCode::ContextLengthExceeded`].
    #[default]
    Error,
    /// The turn is sent anyway, without the messages before it.
    Send,
}

/// Middleware that removes messages older than the window from requests, and optionally summarizes them.
pub struct Memory {
    /// Name of the middleware.
    pub name: String,
    /// Maximum number of tokens in a request: system prompt, tools, structure and messages.
    pub max_tokens: Option<u64>,
    /// Maximum number of turns in a request, including the current one.
    pub max_turns: Option<usize>,
    /// How a last turn that exceeds the token limit is treated.
    pub overflow: Overflow,
    /// Maximum number of tokens of a summary; 500 by default.
    pub summary_tokens: u64,
    /// Maximum number of tokens that the summarizer receives at a time; 8000 by default.
    pub summary_input_tokens: u64,
    counter: Option<Arc<dyn TokenCounter>>,
    summarizer: Option<Arc<dyn Summarizer>>,
    summaries: Mutex<Summaries>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            name: "memory".to_owned(),
            max_tokens: None,
            max_turns: None,
            overflow: Overflow::Error,
            summary_tokens: 500,
            summary_input_tokens: 8000,
            counter: None,
            summarizer: None,
            summaries: Mutex::default(),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Memory")
            .field("max_tokens", &self.max_tokens)
            .field("max_turns", &self.max_turns)
            .finish_non_exhaustive()
    }
}

/// The first message of a window, and the summary sent before it.
type SummarizedWindow = (usize, Option<Arc<Message>>);

/// State of one run, shared by its model calls.
#[derive(Default)]
struct RunCache {
    counted: Mutex<TokenCountCache>,
    last: Mutex<Option<SummarizedWindow>>,
}

impl Memory {
    /// Sets the token counter. Default: an estimate ([`estimate::tokens_of`]).
    #[must_use]
    pub fn with_counter(self, counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter: Some(counter), ..self }
    }

    /// Sets the summarizer for removed messages. Default: they are not summarized.
    #[must_use]
    pub fn with_summarizer(self, summarizer: Arc<dyn Summarizer>) -> Self {
        Self { summarizer: Some(summarizer), ..self }
    }

    async fn fit(
        &self,
        request: ModelRequest,
        context: &MiddlewareContext,
    ) -> Result<ModelRequest, UppError> {
        let of_run: Arc<RunCache> = context.state.of(self);
        let messages = request.messages.clone();
        let begins = begin_of_run(&messages, context);
        let counter = self.counter.as_deref();
        let apart = if self.max_tokens.is_some() { count_without_messages(&request, counter)? } else { 0 };
        let room = self.max_tokens.map(|most| most.saturating_sub(apart));
        let window = |reserved: u64, keep: f64| {
            let limit = Limit {
                tokens: room.map(|room| part(room, keep).saturating_sub(reserved)),
                turns: self.max_turns.map(|most| part_of_turns(most, keep)),
            };
            let mut counted = of_run.counted.lock().unwrap_or_else(PoisonError::into_inner);
            cut(&messages, begins, limit, |message| counted.count(message, counter))
        };
        let whole = window(0, 1.0)?;
        if whole.overflows && self.overflow == Overflow::Error {
            return Err(self.overflown(&whole, apart, context));
        }
        if whole.start == 0 {
            return Ok(request);
        }
        let Some(summarizer) = &self.summarizer else {
            return Ok(ModelRequest { messages: messages.skip(whole.start), ..request });
        };
        // An earlier summary is reused while the window fits, so that the start of the request stays the same.
        let reserved = if room.is_some() { self.summary_tokens } else { 0 };
        let reach = window(reserved, 1.0)?;
        if reach.overflows {
            return Ok(ModelRequest { messages: messages.skip(whole.start), ..request });
        }
        let last = of_run.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (start, message) = if let Some(last) = last.filter(|(start, _)| *start >= reach.start) {
            last
        } else {
            let known = self.known(&messages, context).filter(|known| known.count <= begins);
            let start = match &known {
                Some(known) if known.count >= reach.start => known.count,
                // Cuts more than needed, so that the next turns fit too.
                _ => window(reserved, TARGET)?.start.max(reach.start),
            };
            let summary = self.summary(&messages, start, known, &**summarizer).await?;
            self.keep(&messages, start, &summary, context);
            let message = (!summary.is_empty()).then(|| self.message_of(&summary, context)).transpose()?;
            (start, message)
        };
        *of_run.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((start, message.clone()));
        let mut sent: History = message.into_iter().collect();
        sent.extend(messages.skip(start));
        Ok(ModelRequest { messages: sent, ..request })
    }

    fn overflown(&self, window: &Window, apart: u64, context: &MiddlewareContext) -> UppError {
        let (name, most) = (&self.name, self.max_tokens.unwrap_or_default());
        let message = format!(
            "{name}: the last turn has {} tokens and system prompt, tools and structure {apart}; the limit is {most}. \
             Raise max_tokens, shorten the tool results, or set overflow=\"send\"",
            window.tokens
        );
        UppError::new(ErrorCode::ContextLengthExceeded, &*context.provider, message)
    }

    fn state_key(&self) -> String {
        format!("summary:{}", self.name)
    }

    /// The summary that covers the longest beginning of these messages.
    fn known(&self, messages: &History, context: &MiddlewareContext) -> Option<KnownSummary> {
        let stored = context.middleware_state.as_ref().and_then(|state| state.get(&self.state_key()));
        let stored: Option<Summary> = stored.and_then(|raw| raw.to().ok());
        let kept = self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        kept.find(messages, stored)
    }

    fn keep(&self, messages: &History, start: usize, text: &str, context: &MiddlewareContext) {
        let Some(last) = start.checked_sub(1).and_then(|last| messages.get(last)) else { return };
        let summary = Summary { last_id: last.id.clone(), count: start, text: text.to_owned() };
        if let Some(state) = &context.middleware_state {
            state.set(&self.state_key(), &summary);
        }
        self.summaries.lock().unwrap_or_else(PoisonError::into_inner).add(summary);
    }

    /// Summarizes the messages before `start`, based on the known summary of their beginning.
    async fn summary(
        &self,
        messages: &History,
        start: usize,
        known: Option<KnownSummary>,
        summarizer: &dyn Summarizer,
    ) -> Result<String, UppError> {
        let known = known.filter(|known| known.count <= start);
        if let Some(known) = &known
            && known.count == start
        {
            return Ok(known.text.clone());
        }
        let (from, earlier) = known.map_or((0, String::new()), |known| (known.count, known.text));
        let cut = messages.iter().skip(from).take(start.saturating_sub(from));
        let text = transcript(&earlier, cut, self.summary_input_tokens);
        let summary = summarizer.summarize(text).await?;
        text_within(summary.trim(), self.summary_tokens, self.counter.as_deref())
    }

    fn message_of(&self, summary: &str, context: &MiddlewareContext) -> Result<Arc<Message>, UppError> {
        let head = "Summary of the earlier conversation:\n";
        let text = text_within(&format!("{head}{summary}"), self.summary_tokens, self.counter.as_deref())?;
        let mark = RawJson::from_value(&true).unwrap_or_default();
        let metadata: RawObject = [("summary", mark)].into_iter().collect();
        let metadata = RawJson::from_value(&metadata).unwrap_or_default();
        let id = context.host().map_or_else(|| RandomIds.string(), |host| host.ids().string());
        Ok(Arc::new(Message {
            id,
            timestamp: context.now(),
            metadata: Some([("turntree", metadata)].into_iter().collect()),
            body: Body::User { content: vec![ContentBlock::text(text)] },
            extra: Extra::new(),
        }))
    }
}

/// Index of the first message of the run. Other middleware may have added or removed messages before it.
fn begin_of_run(messages: &History, context: &MiddlewareContext) -> usize {
    let input = context.input();
    let position = input.and_then(|input| messages.iter().rposition(|message| Arc::ptr_eq(message, &input)));
    position.unwrap_or_else(|| context.history().len().min(messages.len()))
}

/// The share of the window that stays filled after a summarized cut: three fifths.
const TARGET: f64 = 0.6;

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a count of tokens"
)]
fn part(room: u64, of: f64) -> u64 {
    if of < 1.0 { (room as f64 * of) as u64 } else { room }
}

/// At least the current turn.
fn part_of_turns(most: usize, of: f64) -> usize {
    if of < 1.0 { (most * 3 / 5).max(1) } else { most }
}

impl Middleware for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn hooks(&self) -> Hooks {
        Hooks::MODEL_REQUEST
    }

    fn on_model_request<'a>(
        &'a self,
        context: &'a Arc<MiddlewareContext>,
        request: ModelRequest,
    ) -> HookFuture<'a, ModelRequest> {
        Box::pin(self.fit(request, context))
    }
}
