//! Says what an agent does: when runs begin and end, how long they take, what they cost. UAP-1.0 §10.3, decisions A52, A53.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::ready;

use crate::middleware::context::MiddlewareContext;
use crate::middleware::hooks::{HookFuture, Hooks, Middleware};
use crate::types::UapData;
use crate::types::event::AgentStreamEvent;
use turntree_core::json::RawJson;
use turntree_core::message::{Delta, Message, Turn};
use turntree_core::time::Timestamp;
use turntree_upp::UppError;
use turntree_upp::middleware::Level;

/// Most characters of what is said that are shown where messages are not to be logged.
const PREVIEW: usize = 60;

/// A line of the log.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// How much it matters.
    pub level: Level,
    /// What it says.
    pub message: &'a str,
    /// The error that it tells of.
    pub error: Option<&'a UppError>,
}

/// Where lines go.
pub type Sink = Arc<dyn Fn(&Line<'_>) + Send + Sync>;

/// Logs runs. What is said stands in it as a preview at [`Level::Debug`], and whole only with
/// [`Logging::include_messages`].
#[derive(Clone)]
pub struct Logging {
    /// Its name.
    pub name: String,
    /// Lines of less weight are not written; [`Level::Info`] by default.
    pub level: Level,
    /// Whether messages, arguments and results are written whole; not by default.
    pub include_messages: bool,
    /// Whether lines say how long a run took; by default they do.
    pub include_timing: bool,
    sink: Sink,
}

impl fmt::Debug for Logging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Logging").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Default for Logging {
    /// Lines go to the `log` crate, target `turntree`.
    fn default() -> Self {
        Self::new(Arc::new(to_log))
    }
}

fn to_log(line: &Line<'_>) {
    let level = match line.level {
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warning => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    log::log!(target: "turntree", level, "{}", line.message);
}

/// When the run began.
#[derive(Default)]
struct Began(Mutex<Option<Timestamp>>);

impl Logging {
    /// Logs to `sink`.
    pub fn new(sink: Sink) -> Self {
        let name = "logging".to_owned();
        Self { name, level: Level::Info, include_messages: false, include_timing: true, sink }
    }

    fn writes(&self, level: Level) -> bool {
        level >= self.level
    }

    fn write(&self, level: Level, message: &str) {
        if self.writes(level) {
            (self.sink)(&Line { level, message, error: None });
        }
    }

    /// A line with what was said: whole where messages are logged, else a preview for those who debug.
    fn quote(&self, what: &str, said: impl FnOnce() -> String) {
        let level = if self.include_messages { Level::Info } else { Level::Debug };
        if self.writes(level) {
            self.write(level, &format!("{what}: {}", self.quoted(&said())));
        }
    }

    fn quoted(&self, said: &str) -> String {
        if self.include_messages || said.chars().nth(PREVIEW).is_none() {
            return format!("{said:?}");
        }
        let preview: String = said.chars().take(PREVIEW).collect();
        format!("{:?}", preview + "…")
    }

    /// JSON in one line: it has its own quotes.
    fn json(&self, json: &RawJson) -> String {
        let text = json.get().chars().map(|character| if character.is_control() { ' ' } else { character });
        if self.include_messages || json.get().chars().nth(PREVIEW).is_none() {
            return text.collect();
        }
        text.take(PREVIEW).chain(['…']).collect()
    }

    /// ` in 1.2s`, where that is wanted.
    fn timing(&self, word: &str, context: &MiddlewareContext) -> String {
        let began: Arc<Began> = context.state.of(self);
        let began = *began.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(began) = began.filter(|_| self.include_timing) else { return String::new() };
        let milliseconds = context.now().milliseconds().saturating_sub(began.milliseconds()).max(0);
        if milliseconds < 1000 {
            return format!(" {word} {milliseconds}ms");
        }
        format!(" {word} {}.{}s", milliseconds / 1000, milliseconds % 1000 / 100)
    }

    fn begin(&self, context: &MiddlewareContext) {
        let began: Arc<Began> = context.state.of(self);
        *began.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.now());
        self.write(Level::Info, &format!("Agent {} starting execution", context.agent.id));
        if let Some(input) = context.input() {
            self.quote("Input", || said(&input));
        }
    }

    fn end(&self, turn: &Turn, context: &MiddlewareContext) {
        let aborted = turn.response().namespace("uap").is_some_and(|facts| facts.get("aborted").is_some());
        let outcome = if aborted { "was aborted" } else { "completed" };
        let timing = self.timing(if aborted { "after" } else { "in" }, context);
        let tokens = turn.usage.total_tokens;
        self.quote("Output", || said(turn.response()));
        let id = &context.agent.id;
        self.write(Level::Info, &format!("Agent {id} {outcome}{timing} ({tokens} tokens)"));
    }

    fn fail(&self, error: &UppError, context: &MiddlewareContext) {
        let timing = self.timing("after", context);
        let message = format!("Agent {} failed{timing}: {}", context.agent.id, error.message);
        if self.writes(Level::Error) {
            (self.sink)(&Line { level: Level::Error, message: &message, error: Some(error) });
        }
    }

    fn event(&self, event: &AgentStreamEvent, context: &MiddlewareContext) {
        let id = &context.agent.id;
        match event {
            AgentStreamEvent::Uap(event) => match &event.data {
                UapData::StepStart(_) => {
                    self.write(Level::Debug, &format!("Agent {id} step {} started", event.step));
                }
                UapData::StepEnd(end) => {
                    let tokens = end.usage.total_tokens;
                    self.write(
                        Level::Debug,
                        &format!("Agent {id} step {} ended ({tokens} tokens)", event.step),
                    );
                }
                UapData::Action(action) => {
                    for call in &action.tool_calls {
                        let arguments = self.json(&call.arguments);
                        let words = format!("Agent {id} calls tool {} with {arguments}", call.tool_name);
                        self.write(Level::Debug, &words);
                    }
                }
                _ => {}
            },
            AgentStreamEvent::Upp(event) => {
                if let Delta::ToolExecutionEnd(end) = &event.delta {
                    let outcome = if end.is_error { "failed" } else { "answered" };
                    let result = self.json(&end.result);
                    let words = format!("Agent {id} tool {} {outcome} {result}", end.tool_name);
                    self.write(Level::Debug, &words);
                }
            }
            // Sub-agents have middleware of their own.
            AgentStreamEvent::SubAgent(_) => {}
        }
    }
}

/// The text of a message, and how much else it has.
fn said(message: &Message) -> String {
    let text = message.text();
    let others = message.content().iter().filter(|block| block.as_text().is_none()).count();
    if others == 0 { text } else { format!("{text} (+{others} blocks)") }
}

impl Middleware for Logging {
    fn name(&self) -> &str {
        &self.name
    }

    fn hooks(&self) -> Hooks {
        let always = Hooks::BEFORE | Hooks::AFTER | Hooks::ERROR;
        if self.writes(Level::Debug) { always | Hooks::EVENT } else { always }
    }

    fn before<'a>(&'a self, context: &'a Arc<MiddlewareContext>) -> HookFuture<'a, ()> {
        self.begin(context);
        Box::pin(ready(Ok(())))
    }

    fn after<'a>(
        &'a self,
        context: &'a Arc<MiddlewareContext>,
        turn: Arc<Turn>,
    ) -> HookFuture<'a, Arc<Turn>> {
        self.end(&turn, context);
        Box::pin(ready(Ok(turn)))
    }

    fn on_error<'a>(
        &'a self,
        context: &'a Arc<MiddlewareContext>,
        error: &'a UppError,
    ) -> HookFuture<'a, Option<Arc<Turn>>> {
        self.fail(error, context);
        Box::pin(ready(Ok(None)))
    }

    fn on_event<'a>(
        &'a self,
        context: &'a Arc<MiddlewareContext>,
        event: &'a AgentStreamEvent,
    ) -> HookFuture<'a, ()> {
        self.event(event, context);
        Box::pin(ready(Ok(())))
    }
}
