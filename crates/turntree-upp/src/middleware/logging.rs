//! Logs calls: start, end, duration, tool calls, errors.

use std::fmt;
use std::sync::Arc;

use super::context::{CallContext, Request, Response};
use super::hooks::{Emitted, HookFuture, Hooks, Middleware, done};
use crate::embedding::EmbeddingInput;
use crate::error::UppError;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{StreamEvent, ToolDefinition, Turn};

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// Every event.
    Debug,
    /// Calls and tool calls.
    #[default]
    Info,
    /// Aborted calls.
    Warning,
    /// Failed calls.
    Error,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warning, Self::Error];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Receives log lines: level, message, data.
pub type Sink = Arc<dyn Fn(Level, &str, &RawObject) + Send + Sync>;

/// Logs calls. Never logs a key. Logs contents (messages, arguments, results) only with [`Self::contents`].
#[derive(Clone)]
pub struct Logging {
    /// The lowest level that is logged. Default: [`Level::Info`].
    pub level: Level,
    /// The prefix of every line.
    pub prefix: String,
    /// Logs stream events at [`Level::Debug`]. Default: false.
    pub stream_events: bool,
    /// Logs tool calls. Default: true.
    pub tool_calls: bool,
    /// Includes contents in the data. Default: false.
    pub contents: bool,
    sink: Sink,
}

impl Default for Logging {
    /// Logs to the `log` crate with target `turntree`.
    fn default() -> Self {
        Self::new(Arc::new(to_log))
    }
}

impl fmt::Debug for Logging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Logging").field("level", &self.level).finish_non_exhaustive()
    }
}

fn to_log(level: Level, message: &str, data: &RawObject) {
    let level = match level {
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warning => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    let data = serde_json::to_string(data).unwrap_or_default();
    log::log!(target: "turntree", level, "{message} {data}");
}

impl Logging {
    /// Logs to `sink`.
    pub fn new(sink: Sink) -> Self {
        Self {
            level: Level::Info,
            prefix: "[turntree]".to_owned(),
            stream_events: false,
            tool_calls: true,
            contents: false,
            sink,
        }
    }

    fn write(&self, level: Level, message: &str, data: &RawObject) {
        if level < self.level {
            return;
        }
        let separator = if self.prefix.is_empty() { "" } else { " " };
        (self.sink)(level, &format!("{}{separator}{message}", self.prefix), data);
    }

    fn contents_of(&self, data: &mut RawObject, name: &str, value: Option<RawJson>) {
        if let Some(value) = value.filter(|_| self.contents) {
            data.insert(name, value);
        }
    }
}

/// Modality, provider, model and mode of a call.
fn call_data(context: &CallContext) -> RawObject {
    let mut data = RawObject::new();
    data.insert("modality", RawJson::from_str_value(context.modality.as_str()));
    data.insert("provider", RawJson::from_str_value(&context.provider));
    data.insert("modelId", RawJson::from_str_value(&context.model_id));
    put(&mut data, "streaming", &context.streaming);
    data
}

fn put<T: serde::Serialize + ?Sized>(data: &mut RawObject, name: &str, value: &T) {
    if let Ok(json) = RawJson::from_value(value) {
        data.insert(name, json);
    }
}

fn put_duration(data: &mut RawObject, context: &CallContext) {
    if let Some(end) = context.end_time() {
        put(data, "durationMs", &end.milliseconds().saturating_sub(context.start_time.milliseconds()));
    }
}

fn model_of(context: &CallContext) -> String {
    format!("{} {}/{}", context.modality.as_str(), context.provider, context.model_id)
}

impl Middleware for Logging {
    fn hooks(&self) -> Hooks {
        let calls =
            if self.level <= Level::Info { Hooks::START | Hooks::TURN | Hooks::END } else { Hooks::empty() };
        let detail =
            if self.level <= Level::Debug { Hooks::REQUEST | Hooks::RESPONSE } else { Hooks::empty() };
        let events = if self.stream_events && self.level <= Level::Debug {
            Hooks::STREAM_EVENT
        } else {
            Hooks::empty()
        };
        let tools = if self.tool_calls && self.level <= Level::Info {
            Hooks::TOOL_CALL | Hooks::TOOL_RESULT
        } else {
            Hooks::empty()
        };
        calls | detail | events | tools | Hooks::ERROR | Hooks::ABORT
    }

    fn on_start<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.write(Level::Info, &format!("{} starts", model_of(context)), &call_data(context));
        done()
    }

    fn on_request<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        let mut data = call_data(context);
        match context.request() {
            Request::Llm(request) => {
                put(&mut data, "messages", &request.messages.len());
                put(&mut data, "tools", &request.tools.len());
                let messages: Vec<_> = request.messages.iter().collect();
                self.contents_of(&mut data, "contents", RawJson::from_value(&messages).ok());
            }
            Request::Embedding(request) => {
                put(&mut data, "inputs", &request.inputs.len());
                let texts: Vec<_> = request.inputs.iter().map(EmbeddingInput::as_text).collect();
                self.contents_of(&mut data, "contents", RawJson::from_value(&texts).ok());
            }
            Request::Image(request) => {
                self.contents_of(&mut data, "contents", Some(RawJson::from_str_value(&request.prompt)));
            }
        }
        self.write(Level::Debug, &format!("{} receives a request", model_of(context)), &data);
        done()
    }

    fn on_response<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        let mut data = call_data(context);
        match context.response() {
            Some(Response::Llm(response)) => {
                data.insert("stopReason", RawJson::from_str_value(response.stop_reason.as_str()));
                self.contents_of(&mut data, "contents", RawJson::from_value(&response.message).ok());
            }
            // Vectors and images are only counted.
            Some(Response::Embedding(result)) => {
                put(&mut data, "embeddings", &result.embeddings.len());
                put(&mut data, "totalTokens", &result.usage.total_tokens);
            }
            Some(Response::Image(result)) => put(&mut data, "images", &result.images.len()),
            None => {}
        }
        self.write(Level::Debug, &format!("{} returned a response", model_of(context)), &data);
        done()
    }

    fn on_turn<'a>(&'a self, turn: &'a Arc<Turn>, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        let mut data = call_data(context);
        put(&mut data, "cycles", &turn.cycles);
        put(&mut data, "inputTokens", &turn.usage.input_tokens);
        put(&mut data, "outputTokens", &turn.usage.output_tokens);
        self.write(Level::Info, &format!("{} completed a turn", model_of(context)), &data);
        done()
    }

    fn on_end<'a>(&'a self, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        let mut data = call_data(context);
        put_duration(&mut data, context);
        self.write(Level::Info, &format!("{} ends", model_of(context)), &data);
        done()
    }

    fn on_error<'a>(&'a self, error: &'a UppError, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        let mut data = call_data(context);
        put_duration(&mut data, context);
        data.insert("code", RawJson::from_str_value(error.code.as_str()));
        put(&mut data, "statusCode", &error.status_code);
        put(&mut data, "requestId", &error.request_id);
        self.write(Level::Error, &format!("{} failed: {error:?}", model_of(context)), &data);
        done()
    }

    fn on_abort<'a>(&'a self, _error: &'a UppError, context: &'a Arc<CallContext>) -> HookFuture<'a> {
        let mut data = call_data(context);
        put_duration(&mut data, context);
        self.write(Level::Warning, &format!("{} was aborted", model_of(context)), &data);
        done()
    }

    fn on_stream_event(&self, event: StreamEvent, context: &Arc<CallContext>) -> Result<Emitted, UppError> {
        let mut data = call_data(context);
        put(&mut data, "index", &event.index);
        self.contents_of(&mut data, "contents", RawJson::from_value(&event).ok());
        self.write(Level::Debug, &format!("event {}", event.delta.kind()), &data);
        Ok(Emitted::One(event))
    }

    fn on_tool_call<'a>(
        &'a self,
        tool: &'a ToolDefinition,
        params: &'a RawJson,
        context: &'a Arc<CallContext>,
    ) -> HookFuture<'a> {
        let mut data = call_data(context);
        data.insert("toolName", RawJson::from_str_value(&tool.name));
        self.contents_of(&mut data, "contents", Some(params.clone()));
        self.write(Level::Info, &format!("tool '{}' is called", tool.name), &data);
        done()
    }

    fn on_tool_result<'a>(
        &'a self,
        tool: &'a ToolDefinition,
        result: &'a RawJson,
        context: &'a Arc<CallContext>,
    ) -> HookFuture<'a> {
        let mut data = call_data(context);
        data.insert("toolName", RawJson::from_str_value(&tool.name));
        self.contents_of(&mut data, "contents", Some(result.clone()));
        self.write(Level::Info, &format!("tool '{}' returned", tool.name), &data);
        done()
    }
}
