//! Keeps what is sent to a model within a window. UAP-1.0 §10.4.
//!
//! Only what is sent changes: tree, session and turn keep all that was said. Cuts are made between turns: [`window`] tells
//! where, [`estimate`] how much everything counts, [`summary`] what stands in the place of what was cut.

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

pub use estimate::Counter;
use estimate::{Counted, count_apart, text_within};
pub use summary::Summarizer;
use summary::{Known, Summaries, Summary, transcript};
use window::{Limit, Window, cut};

/// What becomes of a last turn that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overflow {
    /// The run ends with [`ErrorCode::ContextLengthExceeded`].
    #[default]
    Error,
    /// It is sent all the same, without anything before it.
    Send,
}

/// Cuts what is older than the window, between turns, and may say in short what it was.
pub struct Memory {
    /// Its name.
    pub name: String,
    /// Most tokens that are sent: system prompt, tools, structure and messages.
    pub max_tokens: Option<u64>,
    /// Most turns that are sent, the one that runs included.
    pub max_turns: Option<usize>,
    /// What becomes of a last turn that does not fit.
    pub overflow: Overflow,
    /// Most tokens of a summary; 500 by default.
    pub summary_tokens: u64,
    /// Most tokens that are given to the summarizer at a time; 8000 by default.
    pub summary_input_tokens: u64,
    counter: Option<Arc<dyn Counter>>,
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

/// Where a window begins, and what stands before it.
type Begun = (usize, Option<Arc<Message>>);

/// What a run remembers between its calls of the model.
#[derive(Default)]
struct OfRun {
    counted: Mutex<Counted>,
    last: Mutex<Option<Begun>>,
}

impl Memory {
    /// With a way to count texts; an estimate when not given ([`estimate::tokens_of`]).
    #[must_use]
    pub fn with_counter(self, counter: Arc<dyn Counter>) -> Self {
        Self { counter: Some(counter), ..self }
    }

    /// With somebody who says in short what is cut.
    #[must_use]
    pub fn with_summarizer(self, summarizer: Arc<dyn Summarizer>) -> Self {
        Self { summarizer: Some(summarizer), ..self }
    }

    async fn fit(
        &self,
        request: ModelRequest,
        context: &MiddlewareContext,
    ) -> Result<ModelRequest, UppError> {
        let of_run: Arc<OfRun> = context.state.of(self);
        let messages = request.messages.clone();
        let begins = begin_of_run(&messages, context);
        let counter = self.counter.as_deref();
        let apart = if self.max_tokens.is_some() { count_apart(&request, counter)? } else { 0 };
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
        // What was said in short before stands as long as it fits: the start of what is sent stays the same.
        let reserved = if room.is_some() { self.summary_tokens } else { 0 };
        let reach = window(reserved, 1.0)?;
        if reach.overflows {
            return Ok(ModelRequest { messages: messages.skip(whole.start), ..request });
        }
        let last = of_run.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (start, said) = if let Some(last) = last.filter(|(start, _)| *start >= reach.start) {
            last
        } else {
            let known = self.known(&messages, context).filter(|known| known.count <= begins);
            let start = match &known {
                Some(known) if known.count >= reach.start => known.count,
                // Further than need be, so that the next turns fit too.
                _ => window(reserved, TARGET)?.start.max(reach.start),
            };
            let summary = self.summary(&messages, start, known, &**summarizer).await?;
            self.keep(&messages, start, &summary, context);
            let said = (!summary.is_empty()).then(|| self.message_of(&summary, context)).transpose()?;
            (start, said)
        };
        *of_run.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((start, said.clone()));
        let mut sent: History = said.into_iter().collect();
        sent.extend(messages.skip(start));
        Ok(ModelRequest { messages: sent, ..request })
    }

    fn overflown(&self, window: &Window, apart: u64, context: &MiddlewareContext) -> UppError {
        let (name, most) = (&self.name, self.max_tokens.unwrap_or_default());
        let words = format!(
            "{name}: the last turn has {} tokens and system prompt, tools and structure {apart}; the limit is {most}. \
             Raise max_tokens, shorten what tools answer, or set overflow=\"send\"",
            window.tokens
        );
        UppError::new(ErrorCode::ContextLengthExceeded, &*context.provider, words)
    }

    fn state_key(&self) -> String {
        format!("summary:{}", self.name)
    }

    /// The latest summary of what these messages begin with.
    fn known(&self, messages: &History, context: &MiddlewareContext) -> Option<Known> {
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

    /// Says in short what stands before `start`, from what is known of it.
    async fn summary(
        &self,
        messages: &History,
        start: usize,
        known: Option<Known>,
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
        let said = summarizer.summarize(text).await?;
        text_within(said.trim(), self.summary_tokens, self.counter.as_deref())
    }

    fn message_of(&self, summary: &str, context: &MiddlewareContext) -> Result<Arc<Message>, UppError> {
        let head = "Summary of the earlier conversation:\n";
        let text = text_within(&format!("{head}{summary}"), self.summary_tokens, self.counter.as_deref())?;
        let mark = RawJson::from_value(&true).unwrap_or_default();
        let facts: RawObject = [("summary", mark)].into_iter().collect();
        let facts = RawJson::from_value(&facts).unwrap_or_default();
        let id = context.host().map_or_else(|| RandomIds.string(), |host| host.ids().string());
        Ok(Arc::new(Message {
            id,
            timestamp: context.now(),
            metadata: Some([("turntree", facts)].into_iter().collect()),
            body: Body::User { content: vec![ContentBlock::text(text)] },
            extra: Extra::new(),
        }))
    }
}

/// Where the run begins. Other middlewares may have put messages before it, or taken some away.
fn begin_of_run(messages: &History, context: &MiddlewareContext) -> usize {
    let input = context.input();
    let place = input.and_then(|input| messages.iter().rposition(|message| Arc::ptr_eq(message, &input)));
    place.unwrap_or_else(|| context.history().len().min(messages.len()))
}

/// How much of the window is left full after a cut that is summed up: three fifths.
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

/// At least the turn that runs.
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
