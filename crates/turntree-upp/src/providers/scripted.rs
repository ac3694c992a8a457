//! A scripted model for tests, examples and benchmarks. It uses no network and is deterministic: the same script and
//! requests give the same responses.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use futures_util::{StreamExt as _, TryFutureExt as _, stream};

use crate::dialect::Sources;
use crate::dialects::common::{ResponseParts, data_of, system_text};
use crate::error::UppError;
use crate::provider::{Capabilities, Model, ModelEvent, ModelStream};
use crate::request::{ModelRequest, ModelResponse, StopReason};
use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::content::raw_as_text;
use turntree_core::message::event::DataDelta;
use turntree_core::message::fold::Fold;
use turntree_core::message::media::Binary;
use turntree_core::message::message::History;
use turntree_core::message::{
    Body, ContentBlock, Delta, ImageSource, Message, StreamEvent, TokenUsage, ToolCall,
};
use turntree_core::runtime;
use turntree_core::time::{Clock, SystemClock};

/// The provider's name; also the namespace of its metadata.
pub const PROVIDER: &str = "scripted";

/// The longest chunk of a streamed text, in characters.
const PIECE: usize = 8;

/// Returns the reply to a request. Called where the model's future is polled.
pub type ReplyFunction =
    Arc<dyn Fn(&ModelRequest) -> BoxFuture<'static, Result<Reply, UppError>> + Send + Sync>;

/// One reply of a script.
///
/// ```
/// use std::time::Duration;
/// use turntree_upp::providers::scripted::Reply;
///
/// let slow = Reply::from("Tokyo is sunny.").after(Duration::from_millis(5));
/// assert_eq!(slow.delay, Duration::from_millis(5));
/// ```
#[derive(Debug, Clone)]
pub struct Reply {
    /// The content of the reply.
    pub says: Says,
    /// The delay before the reply begins.
    pub delay: Duration,
    /// The delay before each further event of a stream.
    pub pace: Duration,
}

/// The content of a reply.
#[derive(Debug, Clone)]
pub enum Says {
    /// Blocks and tool calls. A call with an empty id gets the id `call_<request>_<place>`, both from 1.
    Message {
        /// The blocks; reasoning is moved to the front.
        content: Vec<ContentBlock>,
        /// The tool calls.
        tool_calls: Vec<ToolCall>,
    },
    /// These events, in this order. A missing start or stop of the message is added.
    Events {
        /// The events.
        events: Vec<StreamEvent>,
        /// The error after the events, if any.
        error: Option<UppError>,
    },
    /// The call fails.
    Error(UppError),
}

impl Reply {
    /// A reply of blocks and tool calls.
    pub fn message(content: Vec<ContentBlock>, tool_calls: Vec<ToolCall>) -> Self {
        Self::from(Says::Message { content, tool_calls })
    }

    /// A reply of one tool call and no text.
    pub fn tool_call(name: impl Into<String>, arguments: RawJson) -> Self {
        let (tool_call_id, tool_name, extra) = (String::new(), name.into(), Extra::new());
        Self::message(Vec::new(), vec![ToolCall { tool_call_id, tool_name, arguments, extra }])
    }

    /// A reply of these events.
    pub fn events(events: Vec<StreamEvent>) -> Self {
        Self::from(Says::Events { events, error: None })
    }

    /// A reply of these events, then an error.
    pub fn broken(events: Vec<StreamEvent>, error: UppError) -> Self {
        Self::from(Says::Events { events, error: Some(error) })
    }

    /// Sets the delay before the reply begins.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Sets the delay between the events of a stream.
    #[must_use]
    pub fn paced(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }
}

impl From<Says> for Reply {
    fn from(says: Says) -> Self {
        Self { says, delay: Duration::ZERO, pace: Duration::ZERO }
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::message(vec![ContentBlock::text(text)], Vec::new())
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::message(vec![ContentBlock::text(text)], Vec::new())
    }
}

impl From<UppError> for Reply {
    fn from(error: UppError) -> Self {
        Self::from(Says::Error(error))
    }
}

/// A scripted model. Clones share the script and the recorded requests.
#[derive(Clone)]
pub struct Scripted {
    model_id: Arc<str>,
    capabilities: Capabilities,
    script: ReplyFunction,
    requests: Arc<Mutex<Vec<ModelRequest>>>,
    counted: Arc<Mutex<Counted>>,
    ids: Arc<dyn IdSource>,
    clock: Arc<dyn Clock>,
}

impl Scripted {
    /// Replies to the first request with the first reply, and so on. A request after the last reply fails with
    /// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest).
    pub fn new<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().map(Into::into).collect();
        let count = replies.len();
        let rest = Mutex::new(replies.into_iter());
        Self::function(Arc::new(move |_request| {
            let next = rest.lock().unwrap_or_else(PoisonError::into_inner).next();
            Box::pin(ready(next.ok_or_else(|| exhausted(count))))
        }))
    }

    /// Calls a function for every reply.
    pub fn function(script: ReplyFunction) -> Self {
        Self {
            model_id: PROVIDER.into(),
            capabilities: Capabilities::ALL,
            script,
            requests: Arc::default(),
            counted: Arc::default(),
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
        }
    }

    /// Sets the model id.
    #[must_use]
    pub fn named(self, model_id: impl Into<Arc<str>>) -> Self {
        Self { model_id: model_id.into(), ..self }
    }

    /// Sets the capabilities.
    #[must_use]
    pub fn with_capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Sets the sources of message ids and timestamps.
    #[must_use]
    pub fn with_sources(self, ids: Arc<dyn IdSource>, clock: Arc<dyn Clock>) -> Self {
        Self { ids, clock, ..self }
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, request: &ModelRequest) -> usize {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request.clone());
        requests.len()
    }

    /// Takes the next reply and prepares its response, and its events if they are shown.
    async fn perform(self, request: ModelRequest, shows_events: bool) -> Result<Performance, UppError> {
        let number = self.record(&request);
        let reply = (self.script)(&request).await?;
        runtime::sleep(reply.delay).await;
        let is_structured = request.structure.is_some();
        let (events, content, tool_calls, error) = match reply.says {
            Says::Error(error) => return Err(error),
            Says::Message { content, tool_calls } => {
                let (content, tool_calls) = (reasoning_first(content), with_ids(tool_calls, number));
                let events =
                    if shows_events { events_of(&content, &tool_calls, is_structured) } else { Vec::new() };
                (events, content, tool_calls, None)
            }
            Says::Events { events, error } => {
                let mut fold = Fold::default();
                for event in &events {
                    fold.push(event);
                }
                let folded = fold.finish();
                let is_broken = error.is_some();
                (complete(events, is_broken), folded.content, folded.tool_calls, error)
            }
        };
        let end = match error {
            Some(error) => Err(error),
            None => Ok(self.response(&request, content, tool_calls)),
        };
        Ok(Performance { events, end, pace: reply.pace })
    }

    fn words_of_request(&self, request: &ModelRequest) -> u64 {
        let system = request.system.as_deref().and_then(|system| system_text(PROVIDER, system).ok());
        let of_system = system.map_or(0, |text| words(&text));
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.words_of(&request.messages).saturating_add(of_system)
    }

    fn response(
        &self,
        request: &ModelRequest,
        content: Vec<ContentBlock>,
        tool_calls: Vec<ToolCall>,
    ) -> ModelResponse {
        let text: String = content.iter().filter_map(ContentBlock::as_text).collect();
        let answer = ResponseParts {
            id: String::new(),
            usage: TokenUsage::of_call(self.words_of_request(request), words_of(&content, &tool_calls)),
            metadata: [("model", RawJson::from_str_value(&self.model_id))].into_iter().collect(),
            stop_reason: if tool_calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse },
            data: request.structure.as_ref().and_then(|_| data_of(&text)),
            content,
            tool_calls,
        };
        answer.into_response(PROVIDER, Sources { ids: &*self.ids, clock: &*self.clock })
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).len();
        formatter
            .debug_struct("Scripted")
            .field("model_id", &self.model_id)
            .field("requests", &requests)
            .finish_non_exhaustive()
    }
}

impl Model for Scripted {
    fn model_id(&self) -> &str {
        &self.model_id
    }

    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let performance = self.clone().perform(request, false);
        Box::pin(async move { performance.await?.end })
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let performance = self.clone().perform(request, true);
        let shown = async move {
            let Performance { events, end, pace } = performance.await?;
            let events = events.into_iter().map(|event| Ok(ModelEvent::Event(event)));
            let items = events.chain([end.map(ModelEvent::Done)]).enumerate();
            Ok(stream::iter(items).then(move |(place, item)| async move {
                if place > 0 {
                    runtime::sleep(pace).await;
                }
                item
            }))
        };
        Box::pin(shown.try_flatten_stream())
    }
}

/// A reply that is ready to be sent.
struct Performance {
    events: Vec<StreamEvent>,
    end: Result<ModelResponse, UppError>,
    pace: Duration,
}

fn exhausted(count: usize) -> UppError {
    let replies = if count == 1 { "reply" } else { "replies" };
    UppError::invalid_request(
        PROVIDER,
        format!("the script has only {count} {replies}; add a reply, or use a function"),
    )
}

fn reasoning_first(mut content: Vec<ContentBlock>) -> Vec<ContentBlock> {
    content.sort_by_key(|block| !matches!(block, ContentBlock::Reasoning(_)));
    content
}

fn with_ids(mut tool_calls: Vec<ToolCall>, number: usize) -> Vec<ToolCall> {
    for (place, call) in tool_calls.iter_mut().enumerate().filter(|(_, call)| call.tool_call_id.is_empty()) {
        call.tool_call_id = format!("call_{number}_{}", place + 1);
    }
    tool_calls
}

/// The events of a message: each block with its index, then the calls.
pub fn events_of(content: &[ContentBlock], tool_calls: &[ToolCall], is_structured: bool) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::message_start()];
    let mut indices = 0_u32..;
    for (block, index) in content.iter().zip(indices.by_ref()) {
        match block {
            ContentBlock::Text(block) => {
                for piece in pieces(&block.text) {
                    events.push(StreamEvent::text(index, piece));
                    if is_structured {
                        events.push(StreamEvent::object(index, piece));
                    }
                }
            }
            ContentBlock::Reasoning(block) => {
                events.extend(pieces(&block.text).map(|piece| StreamEvent::reasoning(index, piece)));
            }
            ContentBlock::Image(block) => {
                let data = image_data(&block.source);
                events.extend(data.map(|data| StreamEvent::new(index, Delta::Image(whole(data)))));
            }
            ContentBlock::Audio(block) => {
                events.push(StreamEvent::new(index, Delta::Audio(whole(block.data.clone()))));
            }
            ContentBlock::Video(block) => {
                events.push(StreamEvent::new(index, Delta::Video(whole(block.data.clone()))));
            }
            ContentBlock::CodeExecution(block) => events.push(StreamEvent::code_execution(index, block)),
            ContentBlock::Document(_) | ContentBlock::Binary(_) | ContentBlock::Unknown(_) => {}
        }
    }
    for (call, index) in tool_calls.iter().zip(indices) {
        let (id, name): (Arc<str>, Arc<str>) =
            (call.tool_call_id.as_str().into(), call.tool_name.as_str().into());
        let arguments = pieces(call.arguments.get());
        events.extend(
            arguments.map(|piece| StreamEvent::tool_call(index, Arc::clone(&id), Arc::clone(&name), piece)),
        );
    }
    events.push(StreamEvent::message_stop());
    events
}

/// An event with all of a block's data.
fn whole(data: Binary) -> DataDelta {
    DataDelta { data, extra: Extra::new() }
}

fn image_data(source: &ImageSource) -> Option<Binary> {
    match source {
        ImageSource::Bytes(source) => Some(source.data.clone()),
        ImageSource::Base64(source) => Binary::from_base64(&source.data).ok(),
        ImageSource::Url(_) | ImageSource::Unknown(_) => None,
    }
}

/// Splits a text into chunks: one word with the whitespace before it each; long words in parts, a single short word in
/// two.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let count = text.chars().count();
    let longest = if count <= PIECE { count.div_ceil(2).max(1) } else { PIECE };
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = None;
        let mut has_word = false;
        for (place, (offset, character)) in rest.char_indices().enumerate() {
            if place == longest || (has_word && character.is_whitespace()) {
                end = Some(offset);
                break;
            }
            has_word |= !character.is_whitespace();
        }
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Adds the start and stop events that every stream has.
fn complete(mut events: Vec<StreamEvent>, is_broken: bool) -> Vec<StreamEvent> {
    if !events.iter().any(|event| matches!(event.delta, Delta::MessageStart(_))) {
        events.insert(0, StreamEvent::message_start());
    }
    if !is_broken && !events.iter().any(|event| matches!(event.delta, Delta::MessageStop(_))) {
        events.push(StreamEvent::message_stop());
    }
    events
}

/// One word counts as one token.
fn words(text: &str) -> u64 {
    u64::try_from(text.split_whitespace().count()).unwrap_or(u64::MAX)
}

/// The messages of the previous request with their word counts, so that each text of a long conversation is counted
/// once.
#[derive(Default)]
struct Counted(Vec<(Arc<Message>, u64)>);

impl Counted {
    fn words_of(&mut self, messages: &History) -> u64 {
        let known =
            messages.iter().zip(&self.0).take_while(|(message, (counted, _))| Arc::ptr_eq(message, counted));
        let known = known.count();
        self.0.truncate(known);
        self.0.extend(
            messages.skip(known).iter().map(|message| (Arc::clone(message), words_of_message(message))),
        );
        self.0.iter().map(|(_, words)| *words).fold(0, u64::saturating_add)
    }
}

fn words_of_message(message: &Message) -> u64 {
    match &message.body {
        Body::ToolResult { results } => {
            results.iter().map(|result| words(&raw_as_text(&result.result))).sum()
        }
        _ => words_of(message.content(), message.tool_calls()),
    }
}

fn words_of(content: &[ContentBlock], tool_calls: &[ToolCall]) -> u64 {
    let of_content = content.iter().map(|block| match block {
        ContentBlock::Text(block) => words(&block.text),
        ContentBlock::Reasoning(block) => words(&block.text),
        _ => 1,
    });
    let of_calls = tool_calls.iter().map(|call| words(call.arguments.get()).saturating_add(1));
    of_content.chain(of_calls).fold(0, u64::saturating_add)
}
