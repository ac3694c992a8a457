//! Pydantic AI histories: in, out, and nothing lost. Decisions 1 to 15.
//!
//! ```text
//! JSON bytes ── read ──► model ── encode ──► Thread          read, write   JSON, byte for byte
//! JSON bytes ◄─ write ── model ◄─ decode ─── Thread          model         messages as Rust sees them
//!                                                            profile       which keys objects have, and their defaults
//!                                                            envelope      what is kept in metadata.pydantic_ai
//!                                                            parts, items, texts, usage   one row of the mapping each
//! ```
//!
//! The full profile is lossless: `history → thread → history` gives back the bytes that `dump_json` of any version
//! wrote. What no core action can say stays in `metadata.pydantic_ai`; what even that cannot say is kept as the whole
//! message. JSON that Pydantic did not spell (indented, with ASCII escapes) comes back token by token.

mod agents;
mod decode;
mod encode;
mod envelope;
mod items;
pub mod model;
mod parts;
mod profile;
mod read;
mod texts;
mod thread_metadata;
mod usage;
mod view;
mod write;

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use agents::AgentSource;
pub use model::{History, Kind, ModelMessage, Object, Part, Value};
pub use read::read_history;
pub use view::{Others, OthersRole, ToolVisibility, ViewOptions};
pub use write::write_history;

use encode::{Differs, Encoder, Source};

use crate::core::json::canonical::respell;
use crate::core::json::{ParseError, ParseErrorKind};
use crate::core::limits::Limits;
use crate::thread_protocol::action::Action;
use crate::thread_protocol::content::MessageContent;
use crate::thread_protocol::document::{Actions, Thread};
use crate::thread_protocol::error::ThreadError;

/// What a time is when nothing says one: never the present.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// How many characters of the first user text make a title.
const TITLE_CHARACTERS: usize = 80;

/// How much of a history a thread keeps. Decision 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProfileKind {
    /// Core actions, system actions, and in metadata what is needed to invert them exactly.
    #[default]
    Full,
    /// Core actions and system actions, nothing else.
    Portable,
}

/// Which texts of an answer make one assistant message. Decision 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CombineText {
    /// Those that stand together.
    #[default]
    Adjacent,
    /// All of them, at the place of the first.
    Response,
}

/// How to make a thread of a history.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// How much to keep.
    pub profile: ProfileKind,
    /// Which texts to join.
    pub combine_text: CombineText,
    /// Who speaks.
    pub agent: AgentSource,
    /// The thread's id; else the conversation's if it is a UUID, else one that follows from the first message.
    pub thread_id: Option<String>,
    /// The thread's title; else the beginning of the first user text.
    pub title: Option<String>,
    /// Tell arguments that failed validation (`validation_error`) from other errors (decision 7).
    pub validation_status: bool,
    /// Add `system.tp.usage` for answers without text (portable profile, decision 14).
    pub usage_actions: bool,
    /// What the history may cost to read.
    pub limits: Limits,
}

/// Makes a thread of a history as `ModelMessagesTypeAdapter.dump_json` writes it.
///
/// Histories of every version since 0.0.13 are understood; parts and members of later ones are carried as they are.
/// The same bytes and options always give the same thread.
///
/// # Errors
/// [`ThreadError::Parse`] for bytes that are not UTF-8, not JSON, over a limit, or not a list of messages; names the
/// place.
pub fn from_pydantic_ai_json(bytes: &[u8], options: &ImportOptions) -> Result<Thread, ThreadError> {
    let text = simdutf8::compat::from_utf8(bytes).map_err(|error| ParseError {
        kind: ParseErrorKind::Encoding,
        path: Vec::new(),
        message: format!("invalid UTF-8 at byte {}; JSON is UTF-8", error.valid_up_to()),
    })?;
    let messages = read_history(text, &options.limits)?;
    if let Ok(thread) = convert(&messages, Some(text), false, options) {
        return Ok(thread);
    }
    // Some message is not spelled as Pydantic spells it. What is left of that after respelling is kept verbatim.
    let respelled = respell(text);
    let messages = if respelled == text { messages } else { read_history(&respelled, &options.limits)? };
    let converted = convert(&messages, Some(&respelled), true, options);
    converted.map_err(|Differs| not_a_list())
}

/// Makes a thread of messages that some reader produced.
pub fn from_messages(messages: &[ModelMessage<'_>], options: &ImportOptions) -> Thread {
    // Without a text to compare with, every message can be kept.
    convert(messages, None, true, options).unwrap_or_else(|Differs| Thread::new(Uuid::nil(), EPOCH, ""))
}

fn not_a_list() -> ThreadError {
    ParseError::shape(Vec::new(), "the history is not a list of messages").into()
}

/// Converts message by message. With `patient`, messages that differ from their text are kept verbatim; without, the
/// first one ends the attempt.
fn convert<'a>(
    messages: &[ModelMessage<'a>],
    text: Option<&'a str>,
    patient: bool,
    options: &ImportOptions,
) -> Result<Thread, Differs> {
    let mut encoder = Encoder::new(options, first_timestamp(messages).unwrap_or_else(|| EPOCH.to_owned()));
    let mut texts: Option<Vec<&str>> = None;
    // Where the next message begins, as long as every message before gave its exact text.
    let mut offset = Some(1);
    let mut before = None;
    for (index, message) in messages.iter().enumerate() {
        let rest = offset.and_then(|offset| text?.get(offset..));
        let source = rest.map_or(Source::Written, Source::Text);
        let length = match encoder.message(index, message, before, source, text.is_none()) {
            Ok(length) => length,
            Err(Differs) if !patient && options.profile == ProfileKind::Full => return Err(Differs),
            Err(Differs) => {
                let texts = match &mut texts {
                    Some(texts) => texts,
                    none => none.insert(text.map(message_texts).ok_or(Differs)??),
                };
                let own = texts.get(index).copied().ok_or(Differs)?;
                encoder.message(index, message, before, Source::Text(own), true)?
            }
        };
        offset = offset.map(|offset| offset + length + 1);
        before = Some(message);
    }
    Ok(assemble(encoder, messages, options))
}

/// The text of each message in a list.
fn message_texts(text: &str) -> Result<Vec<&str>, Differs> {
    let texts = read::message_texts(text).map_err(|_| Differs)?;
    Ok(texts.into_iter().map(serde_json::value::RawValue::get).collect())
}

/// The first time that a history says, for actions before anything says one.
fn first_timestamp(messages: &[ModelMessage<'_>]) -> Option<String> {
    let own = |message: &ModelMessage<'_>| {
        let of_parts = message.parts.iter().find_map(|part| part.text("timestamp").map(Cow::into_owned));
        of_parts.or_else(|| message.text("timestamp").map(Cow::into_owned))
    };
    messages.iter().find_map(own)
}

fn assemble(encoder: Encoder<'_, '_>, messages: &[ModelMessage<'_>], options: &ImportOptions) -> Thread {
    let full = options.profile == ProfileKind::Full;
    let Encoder { profile, mut agents, mut actions, system_prompts, .. } = encoder;
    for (place, action) in actions.iter_mut().enumerate() {
        action.set_sequence(u64::try_from(place).unwrap_or(u64::MAX).saturating_add(1));
    }
    if agents.is_empty() {
        agents.add(match &options.agent {
            AgentSource::One(agent) => agent.clone(),
            _ => agents::assistant(),
        });
    }
    let created_at = actions.first().map_or(EPOCH, Action::timestamp).to_owned();
    let updated_at = actions.last().map_or(EPOCH, Action::timestamp).to_owned();
    let configuration = thread_metadata::configuration(&profile, &system_prompts);
    for agent in agents.values_mut() {
        if agent.created_at.is_empty() {
            agent.created_at.clone_from(&created_at);
        }
        if agent.config_ref.is_none() {
            agent.config_ref = configuration.as_ref().map(|configuration| configuration.reference.clone());
        }
    }
    let title = options.title.clone().unwrap_or_else(|| title(&actions));
    let mut thread = Thread::new(thread_id(messages, options), created_at, title);
    thread.updated_at = updated_at;
    thread.agents = agents;
    if let Some(metadata) = thread_metadata::write(&profile, configuration.as_ref(), full) {
        thread.metadata.get_or_insert_default().insert("pydantic_ai", metadata);
    }
    thread.actions = actions.into_iter().collect::<Actions>();
    thread
}

/// Decision 13: the caller's, the conversation's if it is a UUID, else derived from the first message.
fn thread_id(messages: &[ModelMessage<'_>], options: &ImportOptions) -> String {
    if let Some(id) = &options.thread_id {
        return id.clone();
    }
    let conversation = messages.iter().find_map(|message| message.text("conversation_id"));
    if let Some(id) = conversation.and_then(|id| Uuid::parse_str(&id).ok()) {
        return id.to_string();
    }
    let first = messages.first().map(write::message_to_json).unwrap_or_default();
    Uuid::new_v5(&agents::namespace(), &Sha256::digest(first.as_bytes())).to_string()
}

fn title(actions: &[Action]) -> String {
    let first = actions.iter().find_map(|action| match action {
        Action::UserMessage(message) => Some(&message.content),
        _ => None,
    });
    first.map(MessageContent::text).unwrap_or_default().chars().take(TITLE_CHARACTERS).collect()
}
