//! Logs the runs of an agent: start, end, duration and tokens.
//!
//! Spec: UAP-1.0 §10.3; decisions A52, A53

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

/// Maximum number of characters in a preview of a message.
const PREVIEW: usize = 60;

/// One record of the log.
#[derive(Debug, Clone, Copy)]
pub struct LogRecord<'a> {
    /// Severity.
    pub level: Level,
    /// The logged text.
    pub message: &'a str,
    /// The error that ended the run, if the record is about one.
    pub error: Option<&'a UppError>,
}

/// Receives the log records.
pub type Sink = Arc<dyn Fn(&LogRecord<'_>) + Send + Sync>;

/// Middleware that logs runs. Messages are logged as a preview at [`Level::Debug`], and in full only with
/// [`Logging::include_messages`].
#[derive(Clone)]
pub struct Logging {
    /// Name of the middleware.
    pub name: String,
    /// Records below this level are not written; [`Level::Info`] by default.
    pub level: Level,
    /// True if messages, arguments and results are written in full; false by default.
    pub include_messages: bool,
    /// True if records include the duration of the run; true by default.
    pub include_timing: bool,
    sink: Sink,
}

impl fmt::Debug for Logging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Logging").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Default for Logging {
    /// Writes to the `log` crate with the target `turntree`.
    fn default() -> Self {
        Self::new(Arc::new(to_log))
    }
}

fn to_log(line: &LogRecord<'_>) {
    let level = match line.level {
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warning => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    log::log!(target: "turntree", level, "{}", line.message);
}

/// Start time of the run.
#[derive(Default)]
struct Began(Mutex<Option<Timestamp>>);

impl Logging {
    /// Creates a middleware that writes to `sink`.
    pub fn new(sink: Sink) -> Self {
        let name = "logging".to_owned();
        Self { name, level: Level::Info, include_messages: false, include_timing: true, sink }
    }

    fn writes(&self, level: Level) -> bool {
        level >= self.level
    }

    fn write(&self, level: Level, message: &str) {
        if self.writes(level) {
            (self.sink)(&LogRecord { level, message, error: None });
        }
    }

    /// Logs a message: in full at info level with `include_messages`, else as a preview at debug level.
    fn quote(&self, label: &str, text: impl FnOnce() -> String) {
        let level = if self.include_messages { Level::Info } else { Level::Debug };
        if self.writes(level) {
            self.write(level, &format!("{label}: {}", self.quoted(&text())));
        }
    }

    fn quoted(&self, text: &str) -> String {
        if self.include_messages || text.chars().nth(PREVIEW).is_none() {
            return format!("{text:?}");
        }
        let preview: String = text.chars().take(PREVIEW).collect();
        format!("{:?}", preview + "…")
    }

    /// JSON on one line, shortened like a quoted text. Not quoted again.
    fn json(&self, json: &RawJson) -> String {
        let text = json.get().chars().map(|character| if character.is_control() { ' ' } else { character });
        if self.include_messages || json.get().chars().nth(PREVIEW).is_none() {
            return text.collect();
        }
        text.take(PREVIEW).chain(['…']).collect()
    }

    /// The duration, for example ` in 1.2s`. Empty without `include_timing`.
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
            self.quote("Input", || message_text(&input));
        }
    }

    fn end(&self, turn: &Turn, context: &MiddlewareContext) {
        let aborted = turn.response().namespace("uap").is_some_and(|facts| facts.get("aborted").is_some());
        let outcome = if aborted { "was aborted" } else { "completed" };
        let timing = self.timing(if aborted { "after" } else { "in" }, context);
        let tokens = turn.usage.total_tokens;
        self.quote("Output", || message_text(turn.response()));
        let id = &context.agent.id;
        self.write(Level::Info, &format!("Agent {id} {outcome}{timing} ({tokens} tokens)"));
    }

    fn fail(&self, error: &UppError, context: &MiddlewareContext) {
        let timing = self.timing("after", context);
        let message = format!("Agent {} failed{timing}: {}", context.agent.id, error.message);
        if self.writes(Level::Error) {
            (self.sink)(&LogRecord { level: Level::Error, message: &message, error: Some(error) });
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
                        let message = format!("Agent {id} calls tool {} with {arguments}", call.tool_name);
                        self.write(Level::Debug, &message);
                    }
                }
                _ => {}
            },
            AgentStreamEvent::Upp(event) => {
                if let Delta::ToolExecutionEnd(end) = &event.delta {
                    let outcome = if end.is_error { "failed" } else { "answered" };
                    let result = self.json(&end.result);
                    let message = format!("Agent {id} tool {} {outcome} {result}", end.tool_name);
                    self.write(Level::Debug, &message);
                }
            }
            // Sub-agents have their own middleware.
            AgentStreamEvent::SubAgent(_) => {}
        }
    }
}

/// The text of a message and the number of its other blocks.
fn message_text(message: &Message) -> String {
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
