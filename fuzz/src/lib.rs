//! The checks of every fuzz target, as functions of bytes. The binaries in `fuzz_targets` call them with the input of
//! libFuzzer; `crates/turntree/tests/it/fuzz_replay.rs` calls them with the seeds in `tests/data/fuzz` and with
//! deterministic mutations of these.
//!
//! Every property is an assertion, in addition to the absence of panics.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;
use turntree::agents::session::SessionSnapshot;
use turntree::agents::types::Verdict;
use turntree::agents::{Agent, AgentOptions, Session, SessionOptions};
use turntree::core::event_stream::{self, EventStreamError};
use turntree::core::ids::CountingIds;
use turntree::core::json::canonical::CanonicalForm;
use turntree::core::json::{
    ParseErrorKind, PartialJson, RawJson, Token, eq_tokens, parse, parse_bytes, partial,
};
use turntree::core::limits::Limits;
use turntree::core::ndjson::{self, NdjsonError};
use turntree::core::sse::{self, Event, SseError};
use turntree::core::time::{FixedClock, Timestamp};
use turntree::message::fold::Fold;
use turntree::message::{Delta, Message, StreamEvent, Thread, Turn};
use turntree::thread_protocol::Thread as Document;
use turntree::thread_protocol::convert::pydantic_ai::{
    CombineText, ImportOptions, ProfileKind, ViewOptions, from_pydantic_ai_json,
};
use turntree::thread_protocol::convert::vercel_ui::{
    ExportOptions, Sdk, SidecarLevel, UiImportOptions, UiStreamReader,
};
use turntree::uamp::session::{AgentOutput, Effect, SessionCore, SessionSettings};
use turntree::uamp::wires::acp::content::{PromptBlock, message};
use turntree::uamp::wires::acp::json_rpc::{self, Incoming};
use turntree::uamp::wires::acp::updates;
use turntree::uamp::{Capabilities, ClientEvent, EventLimits, ServerEvent, SessionConfig};
use turntree::upp::dialect::{Dialect, Sources};
use turntree::upp::dialects::chat::{ChatDialect, ChatOptions};
use turntree::upp::{ModelRequest, ModelResponse, UppError};

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name; each has a binary and a folder of seeds of this name.
pub const TARGETS: &[(&str, Target)] = &[
    ("sse", sse),
    ("ndjson", ndjson),
    ("event_stream", event_stream),
    ("partial_json", partial_json),
    ("message_json", message_json),
    ("thread_json", thread_json),
    ("turn_json", turn_json),
    ("session_json", session_json),
    ("stream_event_json", stream_event_json),
    ("chat_stream", chat_stream),
    ("thread_protocol_json", thread_protocol_json),
    ("pydantic_ai_import", pydantic_ai_import),
    ("ui_stream", ui_stream),
    ("uamp_session", uamp_session),
    ("acp_messages", acp_messages),
];

/// A small limit, so that inputs exceed it.
const FRAME_LIMIT: usize = 64;

/// Low limits, so that small inputs exceed them.
const LIMITS: Limits = Limits { bytes: 16 * 1024, depth: 24, values: 512 };

/// Maximum number of bytes by which the output may be longer than the input: defaults are written explicitly.
const LONGEST_WRITTEN: usize = 64;

/// A prefix of a JSON document: any chunking gives the same value, the value is JSON, and it is complete if and only if a
/// strict parser accepts the text, with an equal value. The first byte is the size of the chunks.
pub fn partial_json(bytes: &[u8]) {
    let (size, bytes) = pieces(bytes);
    let text = String::from_utf8_lossy(bytes);
    let whole = partial(&text);

    let mut pieced = PartialJson::default();
    let characters: Vec<char> = text.chars().collect();
    for piece in characters.chunks(size) {
        pieced.push(&piece.iter().collect::<String>());
    }
    assert_eq!(pieced.read(), whole);

    let strict =
        RawJson::from_text(text.trim_ascii().to_owned()).ok().filter(|json| !has_lone_surrogates(json));
    let is_within = Limits::PAYLOAD.check(&text).is_ok();
    match (strict, whole) {
        (Some(strict), Some(read)) if is_within => assert!(read.is_complete && read.value == strict),
        (Some(_), None) if is_within => panic!("a complete document was not read"),
        (_, read) => assert!(read.is_none_or(|read| !read.is_complete)),
    }
}

/// True if a string of the document has half a surrogate pair, which `RawJson` preserves and the incremental parser refuses.
fn has_lone_surrogates(json: &RawJson) -> bool {
    json.reader().any(|token| match token {
        Token::Key(text) | Token::String(text) => serde_json::from_str::<String>(&text.quoted()).is_err(),
        _ => false,
    })
}

/// Server-sent events: any chunking gives the same events, no event exceeds the limit, and encoded events decode to
/// themselves. The first byte is the size of the chunks.
pub fn sse(bytes: &[u8]) {
    let (size, bytes) = pieces(bytes);
    let whole = events_of([bytes]);

    assert_eq!(events_of(bytes.chunks(size)), whole);
    let Ok(events) = whole else { return };
    // A byte that is not UTF-8 becomes three.
    assert!(events.iter().all(|event| event.data.len() <= 3 * FRAME_LIMIT));
    let mut encoded = Vec::new();
    for event in &events {
        event.encode(&mut encoded);
    }
    let mut again = Vec::new();
    let mut decoder = sse::Decoder::default();
    let mut collect = |event: Event<'_>| {
        again.push(event.into_owned());
        Ok::<_, SseError>(())
    };
    decoder.push(&encoded, &mut collect).unwrap();
    decoder.finish(&mut collect).unwrap();
    // The replacement characters are valid text.
    let undamaged: Vec<_> = events.into_iter().map(|event| Event { is_damaged: false, ..event }).collect();
    assert_eq!(again, undamaged);
}

fn events_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event<'static>>, SseError> {
    let mut decoder = sse::Decoder::with_limit(FRAME_LIMIT);
    let mut events = Vec::new();
    let mut collect = |event: Event<'_>| {
        events.push(event.into_owned());
        Ok::<_, SseError>(())
    };
    for piece in pieces {
        decoder.push(piece, &mut collect)?;
    }
    decoder.finish(&mut collect)?;
    Ok(events)
}

/// Newline-delimited JSON: any chunking gives the same lines, no line exceeds the limit or is empty, and joined lines are
/// read back. The first byte is the size of the chunks.
pub fn ndjson(bytes: &[u8]) {
    let (size, bytes) = pieces(bytes);
    let whole = lines_of([bytes], FRAME_LIMIT);

    assert_eq!(lines_of(bytes.chunks(size), FRAME_LIMIT), whole);
    let Ok(lines) = whole else { return };
    assert!(lines.iter().all(|line| line.len() <= FRAME_LIMIT && !line.trim_ascii().is_empty()));
    // A separate first line, because only the first line may begin with a byte order mark.
    let joined = format!("{{}}\r\n{}\r\n", lines.join("\r\n"));
    let again = lines_of([joined.as_bytes()], 2 * FRAME_LIMIT).unwrap();
    assert!(again.iter().skip(1).eq(&lines), "{again:?} instead of {lines:?}");
}

fn lines_of<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> Result<Vec<String>, NdjsonError> {
    let mut decoder = ndjson::Decoder::with_limit(limit);
    let mut lines = Vec::new();
    let mut collect = |line: &str| {
        lines.push(line.to_owned());
        Ok::<_, NdjsonError>(())
    };
    for piece in pieces {
        decoder.push(piece, &mut collect)?;
    }
    decoder.finish(&mut collect)?;
    Ok(lines)
}

/// The event streams of Amazon: any chunking gives the same messages, a message with the bytes as its payload is read back, and a
/// changed byte is an error. The first byte is the size of the chunks.
pub fn event_stream(bytes: &[u8]) {
    let (size, bytes) = pieces(bytes);

    assert_eq!(messages_of(bytes.chunks(size)), messages_of([bytes]));
    let mut encoded = event_stream::encode(&[(":event-type", "event")], bytes);
    let read = messages_of(encoded.chunks(size)).unwrap();
    assert_eq!(read, [("event".to_owned(), bytes.to_vec())]);
    let place = size.wrapping_mul(7) % encoded.len();
    encoded[place] ^= 1 << (size % 8);
    assert!(messages_of([&*encoded]).is_err());
}

type NamedPayload = (String, Vec<u8>);

fn messages_of<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<NamedPayload>, EventStreamError> {
    let mut decoder = event_stream::Decoder::default();
    let mut messages = Vec::new();
    for piece in pieces {
        decoder.push(piece, |message| {
            messages.push((message.name().to_owned(), message.payload.to_vec()));
            Ok::<_, EventStreamError>(())
        })?;
    }
    Ok(messages)
}

/// A message.
pub fn message_json(bytes: &[u8]) {
    if let Some(message) = document::<Message>(bytes) {
        let texts = message.synthetic_content();
        assert!(message.text().len() >= texts.iter().filter_map(|block| block.as_text()).map(str::len).sum());
    }
}

/// A thread.
pub fn thread_json(bytes: &[u8]) {
    document::<Thread>(bytes);
}

/// A turn: its response is the last assistant message.
pub fn turn_json(bytes: &[u8]) {
    if let Some(turn) = document::<Turn>(bytes) {
        assert!(turn.messages.contains(turn.response()));
    }
}

/// A session: the written form parses back equal, and every pending call can be approved or denied.
pub fn session_json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let snapshot = match SessionSnapshot::from_json(text, &LIMITS) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = serde_json::to_string(&snapshot).unwrap();
    let read = |text: &str| {
        SessionSnapshot::from_json(text, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let again = read(&written);
    assert_eq!(serde_json::to_string(&again).unwrap(), written);
    for checkpoint in &again.checkpoints {
        assert_eq!(checkpoint.state().step, checkpoint.step());
    }
    let ids = CountingIds::default();
    let options = SessionOptions {
        metadata: Arc::new(Mutex::new(again.metadata.clone())),
        ..SessionOptions::default()
    };
    let session = Session::from_snapshot(again, Agent::new(AgentOptions::default(), &ids), options);
    for call in session.pending() {
        session.decide(&call.tool_call_id, Verdict::Denied { reason: None }, None).unwrap();
    }
    assert!(session.pending().is_empty());
    let decided = read(&session.to_json().unwrap());
    assert_eq!(decided.unfinished.is_some(), snapshot.unfinished.is_some());
}

/// A stream event: folding it uses memory in proportion to its size.
pub fn stream_event_json(bytes: &[u8]) {
    if let Some(event) = document::<StreamEvent>(bytes) {
        let mut fold = Fold::default();
        fold.push(&event);
        let folded = fold.finish();
        assert!(folded.content.len() + folded.tool_calls.len() <= 1);
    }
}

/// A document that parses round-trips through JSON, with the same bytes on the second writing. Otherwise the error has a
/// message, and it is a limit error if and only if the input exceeds a limit.
fn document<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let value: T = match parse_bytes(bytes, &LIMITS) {
        Ok(value) => value,
        Err(error) => {
            let is_over = std::str::from_utf8(bytes).is_ok_and(|text| LIMITS.check(text).is_err());
            assert_eq!(error.kind == ParseErrorKind::Limit, is_over, "{error}");
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let written = serde_json::to_string(&value).unwrap();
    assert!(
        written.len() <= LONGEST_WRITTEN * (bytes.len() + 4),
        "{} from {} bytes",
        written.len(),
        bytes.len()
    );
    let again: T = parse(&written, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again, value, "{written}");
    assert_eq!(serde_json::to_string(&again).unwrap(), written);
    Some(value)
}

/// Chat Completions, as a stream of server-sent events and as a body: the streamed deltas equal the response, every
/// block has an index of its own, and the response survives a JSON round trip.
pub fn chat_stream(bytes: &[u8]) {
    let (size, bytes) = pieces(bytes);
    let dialect = ChatDialect::new(ChatOptions::new("host", "http://localhost"))
        .with_ids(std::sync::Arc::new(CountingIds::default()));
    if let Ok(body) = std::str::from_utf8(bytes) {
        for request in [ModelRequest::default(), structured()] {
            if let Ok(response) = dialect.decode(body, &request, sources(&CountingIds::default())) {
                assert_round_trips(&response);
            }
        }
    }
    let (events, end) = answer_of(&dialect, [bytes]);
    assert_separate_blocks(&events);
    if let Ok(response) = &end {
        let mut fold = Fold::default();
        for event in &events {
            fold.push(event);
        }
        let folded = fold.finish();
        assert_eq!(folded.content, response.message.content());
        assert_eq!(folded.tool_calls, response.message.tool_calls());
        assert_round_trips(response);
    }
    let (pieces, end_of_pieces) = answer_of(&dialect, bytes.chunks(size));
    assert_eq!(kinds(&pieces), kinds(&events));
    assert_eq!(end_of_pieces.is_ok(), end.is_ok());
}

fn answer_of<'a>(
    dialect: &ChatDialect,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<StreamEvent>, Result<ModelResponse, UppError>) {
    let (mut frames, mut events) = (sse::Decoder::default(), Vec::new());
    let mut decoder = dialect.stream_decoder(&structured());
    let failed = |error: Failure| match error {
        Failure::Dialect(error) => *error,
        Failure::Frames(error) => UppError::invalid_response("host", error.to_string()),
    };
    let mut read = |event: Event<'_>| {
        decoder
            .frame(event.event.as_deref(), &event.data, &mut events)
            .map_err(|error| Failure::Dialect(error.into()))
    };
    let mut result = Ok(());
    for piece in pieces {
        result = result.and_then(|()| frames.push(piece, &mut read));
    }
    let result = result.and_then(|()| frames.finish(&mut read)).map_err(failed);
    let end = result.and_then(|()| decoder.finish(sources(&CountingIds::default()), &mut events));
    (events, end)
}

enum Failure {
    Dialect(Box<UppError>),
    Frames(SseError),
}

impl From<SseError> for Failure {
    fn from(error: SseError) -> Self {
        Self::Frames(error)
    }
}

fn structured() -> ModelRequest {
    ModelRequest {
        structure: Some(std::sync::Arc::new(turntree::core::json::RawJson::empty_object())),
        ..ModelRequest::default()
    }
}

fn sources(ids: &CountingIds) -> Sources<'_> {
    const CLOCK: FixedClock = FixedClock(Timestamp::from_microseconds(0));
    Sources { ids, clock: &CLOCK }
}

/// Checks that the message of a response round-trips through JSON.
fn assert_round_trips(response: &ModelResponse) {
    let written = serde_json::to_string(&response.message).unwrap();
    let again: Message =
        parse(&written, &Limits::default()).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again, *response.message);
    let data = response.data.iter().all(|data| Limits::PAYLOAD.check(data.get()).is_ok());
    assert!(data, "{:?}", response.data);
}

/// Checks that all deltas with one index have the same kind and, for tool calls, the same id and name.
fn assert_separate_blocks(events: &[StreamEvent]) {
    let mut blocks = std::collections::HashMap::new();
    for event in events {
        let owner = match &event.delta {
            Delta::Text(_) | Delta::Reasoning(_) => (event.delta.kind(), None),
            Delta::ToolCall(delta) => (event.delta.kind(), Some((&delta.tool_call_id, &delta.tool_name))),
            _ => continue,
        };
        assert_eq!(*blocks.entry(event.index).or_insert(owner), owner, "two blocks at {}", event.index);
    }
}

fn kinds(events: &[StreamEvent]) -> Vec<(u32, &str)> {
    events.iter().map(|event| (event.index, event.delta.kind())).collect()
}

/// Splits the input into the size of the chunks and the rest.
fn pieces(bytes: &[u8]) -> (usize, &[u8]) {
    bytes.split_first().map_or((1, bytes), |(size, bytes)| (usize::from(*size).max(1), bytes))
}

/// A ThreadProtocol document: reading, checking, writing and the canonical form neither panic nor disagree.
pub fn thread_protocol_json(bytes: &[u8]) {
    let Ok(thread) = Document::from_json(bytes, &LIMITS) else { return };
    let _ = thread.validate();
    let _ = thread.usage();
    let _ = thread.core().with_hoisted_metadata();
    let written = thread.to_json();
    let read = Document::from_json(&written, &Limits::default()).unwrap();
    assert_eq!(read.to_json(), written);
    assert_eq!(read.canonical_json(CanonicalForm::Exact), thread.canonical_json(CanonicalForm::Exact));
    let options =
        ViewOptions { limits: Limits { bytes: 1 << 24, ..Limits::default() }, ..ViewOptions::default() };
    let _ = thread.to_pydantic_ai_json(&options);
    if let Some((id, _)) = thread.agents.iter().next() {
        let _ = thread.to_pydantic_ai_json(&ViewOptions { agent_id: Some(id.to_owned()), ..options });
    }
}

/// A Pydantic AI history: an accepted history is exported again, byte for byte if Pydantic could have written it, and
/// with equal JSON tokens otherwise.
pub fn pydantic_ai_import(bytes: &[u8]) {
    let combine_text =
        if bytes.len().is_multiple_of(2) { CombineText::Adjacent } else { CombineText::Response };
    let options = ImportOptions { combine_text, limits: LIMITS, ..ImportOptions::default() };
    let Ok(thread) = from_pydantic_ai_json(bytes, &options) else { return };
    let read = Document::from_json(&thread.to_json(), &Limits::default()).unwrap();
    let back = String::from_utf8(read.to_pydantic_ai_json(&ViewOptions::default()).unwrap()).unwrap();
    let history = std::str::from_utf8(bytes).unwrap();
    assert!(back == history || eq_tokens(&back, history));
    let portable = ImportOptions { profile: ProfileKind::Portable, ..options };
    let thread = from_pydantic_ai_json(bytes, &portable).unwrap();
    assert!(thread.actions.iter().all(|action| action.metadata().is_none()));
}

/// A UI message stream: any chunking gives the same messages, the thread returns them, and the stream written from the
/// thread can be read. The first byte is the size of the chunks.
pub fn ui_stream(bytes: &[u8]) {
    let (size, bytes) = pieces(bytes);
    let options = UiImportOptions { limits: LIMITS, ..UiImportOptions::default() };
    let mut whole = UiStreamReader::new(Vec::new(), options.clone());
    let mut pieced = UiStreamReader::new(Vec::new(), options);
    let taken = whole.push_bytes(bytes);
    let taken_in_pieces = bytes.chunks(size).try_for_each(|piece| pieced.push_bytes(piece));
    assert_eq!(taken.is_ok(), taken_in_pieces.is_ok());
    let (messages, thread) = (whole.messages(), whole.thread());
    assert_eq!(pieced.messages(), messages);
    assert_eq!(pieced.thread(), thread);

    let read = Document::from_json(&thread.to_json(), &Limits::default()).unwrap();
    let recorded = ExportOptions { sidecar: SidecarLevel::None, ..ExportOptions::default() };
    if !messages.is_empty() {
        assert_eq!(read.to_ui_messages(&recorded), messages);
    }
    for sdk in [Sdk::V5, Sdk::V6, Sdk::V7] {
        let export = ExportOptions { sdk, sidecar: SidecarLevel::Full, ..ExportOptions::default() };
        let mut again = UiStreamReader::new(Vec::new(), UiImportOptions::default());
        for chunk in read.to_ui_stream(&export) {
            again.push(&chunk).unwrap();
        }
    }
}

/// Events of a client, one in each line, in a session whose agent answers each response with the texts of its lines that
/// are no events: what is read is written and read again, responses start and end once, and events are numbered.
pub fn uamp_session(bytes: &[u8]) {
    let limits = EventLimits { bytes: LIMITS.bytes, depth: LIMITS.depth, values: LIMITS.values };
    let text = String::from_utf8_lossy(bytes);
    let (mut core, mut effects) = SessionCore::new(SessionSettings {
        id: "s".to_owned(),
        agent: None,
        chat: None,
        config: SessionConfig::default(),
        capabilities: Capabilities::default(),
        client_capabilities: None,
        is_resumed: false,
        seq: 0,
        has_payment_gate: false,
        payment_token: None,
        token_expires_at: None,
        signer: None,
        ids: Arc::new(CountingIds::default()),
        clock: Arc::new(FixedClock(Timestamp::from_microseconds(0))),
    });
    for line in text.lines() {
        match ClientEvent::parse(line, &limits) {
            Ok(event) => {
                let again = ClientEvent::parse(&event.to_json(), &EventLimits::default()).unwrap();
                assert_eq!(again, event);
                effects.extend(core.on(event));
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                let response = core.active_response().unwrap_or_default().to_owned();
                let is_end = line.is_empty();
                let output = if is_end { AgentOutput::Done } else { AgentOutput::Text(line.to_owned()) };
                effects.extend(core.on_output(&response, output));
            }
        }
    }
    effects.extend(core.end(None));
    let (mut open, mut seq) = (0_i32, 0);
    for effect in effects {
        let Effect::Send(event) = effect else { continue };
        seq += 1;
        assert_eq!(turntree::uamp::event::Envelope::seq(&event), Some(seq));
        match &event {
            ServerEvent::ResponseCreated(_) => open += 1,
            ServerEvent::ResponseDone(_) | ServerEvent::ResponseCancelled(_) => open -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&open), "two responses at once");
        assert_eq!(ServerEvent::parse(&event.to_json(), &EventLimits::default()).unwrap(), event);
    }
    assert_eq!(open, 0);
}

/// Messages of an ACP client, one in each line: what is not a message is answered with an error that is one, a request is
/// read again as it is written, and a prompt is a message that clients can show.
pub fn acp_messages(bytes: &[u8]) {
    let (ids, clock) = (CountingIds::default(), FixedClock(Timestamp::from_microseconds(0)));
    for line in bytes.split(|byte| *byte == b'\n') {
        match json_rpc::read(line) {
            Err(malformed) => {
                assert!(!malformed.to_string().is_empty());
                let answer = json_rpc::read(malformed.response().as_bytes());
                assert!(matches!(answer, Ok(Incoming::Response { outcome: Err(_), .. })));
            }
            Ok(Incoming::Request { id, method, params }) => {
                if let (Some(number), true) = (id.as_u64(), params.is_object()) {
                    let again = json_rpc::read(json_rpc::request(number, &method, &params).as_bytes());
                    assert_eq!(again, Ok(Incoming::Request { id, method, params: params.clone() }));
                }
                let prompt = params.get("prompt").cloned().unwrap_or_default();
                let Ok(blocks) = serde_json::from_value::<Vec<PromptBlock>>(prompt) else { continue };
                let Ok(prompt) = message(blocks, &ids, &clock) else { continue };
                for update in updates::replay(&prompt) {
                    assert_eq!(update.get("sessionUpdate").unwrap(), "user_message_chunk");
                }
                let text = serde_json::to_string(&prompt).unwrap();
                assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), prompt);
            }
            Ok(_) => {}
        }
    }
}
