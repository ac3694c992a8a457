//! Imports of Pydantic AI histories, from JSON or from messages.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::agents::AgentSource;
use super::fast_reader::{self, ReadOutcome};
use super::field_layout::BASE;
use super::message_builder::{MessageSource, RoundTripMismatch};
use super::model::{History, ModelMessage};
use super::options::ImportOptions;
use super::read::read_history;
use super::thread_metadata::PORTABLE;
use super::to_actions::Encoder;
use super::{first_message, read, thread_metadata};
use crate::convert::portable::{EPOCH, ProfileKind, assistant, namespace, title};
use crate::document::{Actions, Thread};
use crate::error::ThreadError;
use crate::roundtrip_metadata::PYDANTIC_AI;
use crate::validate::has_unmatched_return;
use turntree_core::json::canonical::normalize;
use turntree_core::json::{ParseError, ParseErrorKind};
use turntree_core::limits::Limits;

/// Converts a history, as `ModelMessagesTypeAdapter.dump_json` writes it, to a thread.
///
/// Histories of all versions since 0.0.13 are supported; unknown parts and members of later versions are preserved.
/// `NaN` and `Infinity`, which Pydantic accepts although JSON does not have them, become `null`, as Pydantic writes
/// them. The result depends only on the bytes and the options.
///
/// # Errors
/// [`ThreadError::Parse`] for bytes that are not UTF-8, not JSON, over a limit, or not a list of messages. The error
/// has the JSON pointer.
pub fn from_pydantic_ai_json(bytes: &[u8], options: &ImportOptions) -> Result<Thread, ThreadError> {
    let text = checked_text(bytes)?;
    match from_text(text, options) {
        Err(error) if error.rule() == ParseErrorKind::Syntax.name() => match read::without_nan(text) {
            Some(standard) => from_text(&standard, options),
            None => Err(error),
        },
        read => read,
    }
}

fn checked_text(bytes: &[u8]) -> Result<&str, ParseError> {
    simdutf8::compat::from_utf8(bytes).map_err(|error| ParseError {
        kind: ParseErrorKind::Encoding,
        path: Vec::new(),
        message: format!("invalid UTF-8 at byte {}; JSON is UTF-8", error.valid_up_to()),
    })
}

/// Reads a history and passes its messages to `use_history`.
///
/// # Errors
/// As [`from_pydantic_ai_json`].
pub fn read_any_history<R>(
    bytes: &[u8],
    limits: &Limits,
    use_history: impl FnOnce(&History<'_>) -> R,
) -> Result<R, ThreadError> {
    let text = checked_text(bytes)?;
    match read_history(text, limits) {
        Ok(history) => Ok(use_history(&history)),
        Err(error) => {
            let standard = read::without_nan(text).ok_or(error)?;
            Ok(use_history(&read_history(&standard, limits)?))
        }
    }
}

fn from_text(text: &str, options: &ImportOptions) -> Result<Thread, ThreadError> {
    read::check(text, &options.limits)?;
    if let Some(thread) = stream(text, options) {
        return Ok(thread);
    }
    // Validate the history before normalizing it.
    read_history(text, &options.limits)?;
    // Some message is not written as Pydantic writes it. Messages that still differ after normalization are stored
    // verbatim.
    let respelled = normalize(text);
    let messages = read_history(&respelled, &options.limits)?;
    convert(&messages, Some(&respelled), options).map_err(|RoundTripMismatch| not_a_list())
}

/// Converts messages to a thread.
pub fn from_messages(messages: &[ModelMessage<'_>], options: &ImportOptions) -> Thread {
    // Without a source text, every message can be preserved.
    convert(messages, None, options).unwrap_or_else(|RoundTripMismatch| Thread::new(Uuid::nil(), EPOCH, ""))
}

/// As [`from_messages`], for an iterator of messages; each one is dropped after its conversion.
pub fn from_message_stream<'a>(
    messages: impl IntoIterator<Item = ModelMessage<'a>>,
    options: &ImportOptions,
) -> Thread {
    let mut messages = messages.into_iter();
    // Messages before the first timestamp use that timestamp, so they wait for it.
    let mut waiting = Vec::new();
    let mut timestamp = None;
    while timestamp.is_none()
        && let Some(message) = messages.next()
    {
        timestamp = first_timestamp(std::slice::from_ref(&message));
        waiting.push(message);
    }
    let mut conversion = Conversion::new(options, timestamp, None);
    let mut before: Option<ModelMessage<'a>> = None;
    for message in waiting.into_iter().chain(messages) {
        // Without a source text, every message can be preserved.
        let _kept = conversion.step(&message, before.as_ref(), true);
        before = Some(message);
    }
    conversion.finish()
}

fn not_a_list() -> ThreadError {
    ParseError::shape(Vec::new(), "the history is not a list of messages").into()
}

/// Converts while reading. `None` if a message differs from its text, the first message has no timestamp, or the JSON
/// is not as Pydantic writes it; these cases need the whole history.
fn stream(text: &str, options: &ImportOptions) -> Option<Thread> {
    let mut conversion: Option<Conversion<'_, '_>> = None;
    let mut before: Option<ModelMessage<'_>> = None;
    let mut whole = true;
    let scan = fast_reader::for_each_message(text, &options.limits, |message| {
        let conversion = match &mut conversion {
            Some(conversion) => conversion,
            none => {
                let timestamp = first_timestamp(std::slice::from_ref(&message));
                whole = timestamp.is_some();
                none.insert(Conversion::new(options, timestamp, Some(text)))
            }
        };
        whole = whole && conversion.step(&message, before.as_ref(), false).is_ok();
        before = Some(message);
        whole
    });
    let conversion = conversion.unwrap_or_else(|| Conversion::new(options, None, Some(text)));
    (whole && scan == ReadOutcome::Complete).then(|| conversion.finish())
}

/// Converts message by message. Messages that differ from their text are stored verbatim.
fn convert<'a>(
    messages: &[ModelMessage<'a>],
    text: Option<&'a str>,
    options: &ImportOptions,
) -> Result<Thread, RoundTripMismatch> {
    let mut conversion = Conversion::new(options, first_timestamp(messages), text);
    let mut texts: Option<Vec<&str>> = None;
    let mut before = None;
    for (index, message) in messages.iter().enumerate() {
        if conversion.step(message, before, text.is_none()).is_err() {
            let texts = match &mut texts {
                Some(texts) => texts,
                none => none.insert(text.map(message_texts).ok_or(RoundTripMismatch)??),
            };
            conversion.rest = Some(texts.get(index).copied().ok_or(RoundTripMismatch)?);
            conversion.step(message, before, true)?;
            // The start of the next message is known again.
            conversion.rest = texts.get(index + 1).copied();
        }
        before = Some(message);
    }
    Ok(conversion.finish())
}

/// The state of an import.
struct Conversion<'o, 'a> {
    options: &'o ImportOptions,
    encoder: Encoder<'o, 'a>,
    index: usize,
    /// The text from the next message on, while it is known.
    rest: Option<&'a str>,
    /// The first conversation id.
    conversation: Option<String>,
    digest: [u8; 32],
}

impl<'o, 'a> Conversion<'o, 'a> {
    fn new(options: &'o ImportOptions, timestamp: Option<String>, text: Option<&'a str>) -> Self {
        Self {
            options,
            encoder: Encoder::new(options, timestamp.unwrap_or_else(|| EPOCH.to_owned())),
            index: 0,
            rest: text.and_then(|text| text.get(1..)),
            conversation: None,
            digest: Sha256::digest(b"").into(),
        }
    }

    /// Converts a message. `whole` is true if the text ends with the message, or if there is no text.
    fn step(
        &mut self,
        message: &ModelMessage<'a>,
        before: Option<&ModelMessage<'a>>,
        whole: bool,
    ) -> Result<(), RoundTripMismatch> {
        if self.conversation.is_none() {
            self.conversation = message.text("conversation_id").map(Cow::into_owned);
        }
        if self.index == 0 && self.options.thread_id.is_none() && self.conversation_uuid().is_none() {
            self.digest = first_message::digest(message);
        }
        let source = self.rest.map_or(MessageSource::Written, MessageSource::Text);
        let length = self.encoder.message(self.index, message, before, source, whole)?;
        self.rest = self.rest.map(|rest| rest.get(length + 1..).unwrap_or_default());
        self.index += 1;
        Ok(())
    }

    fn conversation_uuid(&self) -> Option<Uuid> {
        self.conversation.as_deref().and_then(|id| Uuid::parse_str(id).ok())
    }

    fn finish(mut self) -> Thread {
        self.encoder.settle();
        // Decision 13: the caller's id, the conversation id if it is a UUID, or an id derived from the first message.
        let derived = || Uuid::new_v5(&namespace(), &self.digest);
        let thread_id = match &self.options.thread_id {
            Some(id) => id.clone(),
            None => self.conversation_uuid().unwrap_or_else(derived).to_string(),
        };
        assemble(self.encoder, thread_id, self.options)
    }
}

/// The text of each message of a list.
fn message_texts(text: &str) -> Result<Vec<&str>, RoundTripMismatch> {
    let texts = read::message_texts(text).map_err(|_| RoundTripMismatch)?;
    Ok(texts.into_iter().map(serde_json::value::RawValue::get).collect())
}

/// The first timestamp of a history, for actions before any timestamp.
fn first_timestamp(messages: &[ModelMessage<'_>]) -> Option<String> {
    let own = |message: &ModelMessage<'_>| {
        let of_parts = message.parts.iter().find_map(|part| part.text("timestamp").map(Cow::into_owned));
        of_parts.or_else(|| message.text("timestamp").map(Cow::into_owned))
    };
    messages.iter().find_map(own)
}

fn assemble(encoder: Encoder<'_, '_>, thread_id: String, options: &ImportOptions) -> Thread {
    let full = options.profile == ProfileKind::Full;
    let Encoder { layouts, mut agents, actions, system_prompts, .. } = encoder;
    if agents.is_empty() {
        agents.add(match &options.agent {
            AgentSource::One(agent) => agent.clone(),
            _ => assistant(),
        });
    }
    let created_at = actions.first().map_or(EPOCH, |action| action.timestamp()).to_owned();
    let updated_at = actions.last().map_or(EPOCH, |action| action.timestamp()).to_owned();
    let configuration = thread_metadata::configuration(&layouts, &system_prompts);
    for agent in agents.values_mut() {
        if agent.created_at.is_empty() {
            agent.created_at.clone_from(&created_at);
        }
        if agent.config_ref.is_none() {
            agent.config_ref = configuration.as_ref().map(|configuration| configuration.reference.clone());
        }
    }
    let title = options.title.clone().unwrap_or_else(|| title(actions.iter().map(AsRef::as_ref)));
    let mut thread = Thread::new(thread_id, created_at, title);
    thread.updated_at = updated_at;
    thread.agents = agents;
    thread.actions = Actions(actions.into());
    let profile = match options.profile {
        ProfileKind::Full => Some(BASE),
        // Validation then knows that a history is the source.
        ProfileKind::Portable => has_unmatched_return(&thread.actions).then_some(PORTABLE),
    };
    if let Some(metadata) = thread_metadata::write(&layouts, configuration.as_ref(), profile, full) {
        thread.metadata.get_or_insert_default().insert(PYDANTIC_AI, metadata);
    }
    if options.strict { thread.with_hoisted_metadata() } else { thread }
}
