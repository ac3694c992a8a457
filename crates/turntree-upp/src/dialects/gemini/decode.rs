//! Answers: each frame of a stream is an answer in itself, and a whole answer is a stream of one. UPP-1.2 §11, §19.4.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer::{Assembly, Head, Usage};
use super::{Reading, told_error};
use crate::dialect::{Sources, StreamDecoder};
use crate::dialects::common::{cut_short, read_body, read_frame};
use crate::dialects::text::Text;
use crate::error::UppError;
use crate::request::ModelResponse;
use turntree_core::json::RawJson;
use turntree_core::message::StreamEvent;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    prompt_feedback: Option<&'a RawValue>,
    #[serde(default)]
    usage_metadata: Option<Usage>,
    #[serde(borrow, default)]
    model_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    response_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: Option<u32>,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    finish_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    safety_ratings: Option<&'a RawValue>,
    #[serde(borrow, default)]
    grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    url_context_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    citation_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    avg_logprobs: Option<&'a RawValue>,
    #[serde(borrow, default)]
    logprobs_result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow, default)]
    block_reason: Option<Text<'a>>,
}

/// Reads a whole answer.
pub(super) fn decode(body: &str, reading: Reading, sources: Sources<'_>) -> Result<ModelResponse, UppError> {
    if body.trim_start().starts_with('[') {
        // Nothing but errors comes in a list.
        let errors = read_body::<Vec<&RawValue>>(reading.provider, body)?;
        return Err(match errors.as_slice() {
            [] => reading.broken("an empty list"),
            _ => told_error(reading.provider, body),
        });
    }
    let frame: Frame<'_> = read_body(reading.provider, body)?;
    let mut decoder = Decoder::new(reading);
    decoder.read(frame, body, &mut Vec::new())?;
    if !decoder.has_candidate && decoder.head.block_reason.is_none() {
        return Err(decoder.reading.broken("it has no \"candidates\", and no reason why"));
    }
    Ok(decoder.into_response(sources))
}

/// Reads one stream.
pub(super) struct Decoder {
    reading: Reading,
    head: Head,
    assembly: Assembly,
    logprobs: Vec<RawJson>,
    has_started: bool,
    has_candidate: bool,
}

impl Decoder {
    pub(super) fn new(reading: Reading) -> Self {
        Self {
            reading,
            head: Head::default(),
            assembly: Assembly::default(),
            logprobs: Vec::new(),
            has_started: false,
            has_candidate: false,
        }
    }

    fn read(&mut self, frame: Frame<'_>, data: &str, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if frame.error.is_some_and(|error| error.get() != "null") {
            return Err(told_error(self.reading.provider, data));
        }
        if !std::mem::replace(&mut self.has_started, true) {
            events.push(StreamEvent::message_start());
        }
        let head = &mut self.head;
        // Counts are of the answer so far: the last say it all.
        head.usage = frame.usage_metadata.unwrap_or(head.usage);
        learn(&mut head.model, frame.model_version);
        learn(&mut head.told.response_id, frame.response_id);
        if let Some(feedback) = frame.prompt_feedback.filter(|raw| raw.get().starts_with('{')) {
            let read: Feedback<'_> =
                serde_json::from_str(feedback.get()).map_err(|error| self.reading.broken(error))?;
            head.block_reason = read.block_reason.map(Text::owned).or(head.block_reason.take());
            keep(&mut head.told.prompt_feedback, Some(feedback));
        }
        // Other candidates are other answers.
        let mut candidates = frame.candidates.into_iter().flatten();
        match candidates.find(|candidate| candidate.index.unwrap_or_default() == 0) {
            Some(candidate) => self.candidate(candidate, events),
            None => Ok(()),
        }
    }

    fn candidate(&mut self, candidate: Candidate<'_>, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        self.has_candidate = true;
        let head = &mut self.head;
        let reason = candidate.finish_reason.map(Text::owned).filter(|reason| !reason.is_empty());
        head.finish_reason = reason.or(head.finish_reason.take());
        let told = &mut head.told;
        keep(&mut told.finish_message, candidate.finish_message);
        keep(&mut told.safety_ratings, candidate.safety_ratings);
        keep(&mut told.grounding_metadata, candidate.grounding_metadata);
        keep(&mut told.url_context_metadata, candidate.url_context_metadata);
        keep(&mut told.citation_metadata, candidate.citation_metadata);
        keep(&mut told.avg_logprobs, candidate.avg_logprobs);
        self.logprobs.extend(candidate.logprobs_result.map(RawJson::from));
        let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
        parts.into_iter().try_for_each(|part| self.assembly.add(part, &self.reading, events))
    }

    fn into_response(mut self, sources: Sources<'_>) -> ModelResponse {
        self.head.told.logprobs_result = match self.logprobs.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            results => RawJson::from_value(results).ok(),
        };
        self.assembly.finish(self.head, &self.reading, sources)
    }
}

/// Keeps the last word, which is nearly always the first again.
fn learn(known: &mut Option<String>, told: Option<Text<'_>>) {
    if let Some(told) = told.filter(|told| known.as_deref() != Some(told.as_str())) {
        *known = Some(told.owned());
    }
}

/// Keeps the last word that says something.
fn keep(kept: &mut Option<RawJson>, told: Option<&RawValue>) {
    let says_nothing = |told: &&RawValue| matches!(told.get(), "null" | "{}" | "[]");
    let is_known = |told: &&RawValue| kept.as_ref().is_some_and(|kept| kept.get() == told.get());
    if let Some(told) = told.filter(|told| !says_nothing(told) && !is_known(told)) {
        *kept = Some(told.into());
    }
}

impl StreamDecoder for Decoder {
    fn frame(
        &mut self,
        _event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        if data.trim_start().starts_with('[') {
            let errors = read_frame::<Vec<&RawValue>>(self.reading.provider, data)?;
            return Err(match errors.as_deref() {
                None | Some([]) => self.reading.broken("an empty list"),
                Some(_) => told_error(self.reading.provider, data),
            });
        }
        match read_frame::<Frame<'_>>(self.reading.provider, data)? {
            Some(frame) => self.read(frame, data, events),
            None => Ok(()),
        }
    }

    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError> {
        // The vendor marks the end in the last frame that says something; counts may follow it.
        if self.head.finish_reason.is_none() && self.head.block_reason.is_none() {
            return Err(cut_short(self.reading.provider));
        }
        events.push(StreamEvent::message_stop());
        Ok(self.into_response(sources))
    }
}
