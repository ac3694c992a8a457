//! Reads streamed responses. Each frame is a response in itself, with the parts that are new.
//!
//! Spec: UPP-1.2 §11, §19.4

use serde_json::value::RawValue;

use super::assembly::{Assembly, Head};
use super::decode::{Candidate, Feedback, Frame};
use super::{DecodeContext, reported_error};
use crate::dialect::{Sources, StreamDecoder};
use crate::dialects::borrowed_text::BorrowedText;
use crate::dialects::common::{cut_short, read_frame};
use crate::error::UppError;
use crate::request::ModelResponse;
use turntree_core::json::RawJson;
use turntree_core::message::StreamEvent;

/// Decodes one stream.
pub(super) struct Decoder {
    context: DecodeContext,
    head: Head,
    assembly: Assembly,
    logprobs: Vec<RawJson>,
    has_started: bool,
    has_candidate: bool,
}

impl Decoder {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self {
            context,
            head: Head::default(),
            assembly: Assembly::default(),
            logprobs: Vec::new(),
            has_started: false,
            has_candidate: false,
        }
    }

    pub(super) fn read(
        &mut self,
        frame: Frame<'_>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        if frame.error.is_some_and(|error| error.get() != "null") {
            return Err(reported_error(self.context.provider, data));
        }
        if !std::mem::replace(&mut self.has_started, true) {
            events.push(StreamEvent::message_start());
        }
        let head = &mut self.head;
        // Counts are cumulative: the last ones are complete.
        head.usage = frame.usage_metadata.unwrap_or(head.usage);
        update(&mut head.model, frame.model_version);
        update(&mut head.reported.response_id, frame.response_id);
        if let Some(feedback) = frame.prompt_feedback.filter(|raw| raw.get().starts_with('{')) {
            let read: Feedback<'_> =
                serde_json::from_str(feedback.get()).map_err(|error| self.context.broken(error))?;
            head.block_reason = read.block_reason.map(BorrowedText::owned).or(head.block_reason.take());
            keep(&mut head.reported.prompt_feedback, Some(feedback));
        }
        // Other candidates are ignored.
        let mut candidates = frame.candidates.into_iter().flatten();
        match candidates.find(|candidate| candidate.index.unwrap_or_default() == 0) {
            Some(candidate) => self.candidate(candidate, events),
            None => Ok(()),
        }
    }

    /// Refuses a response without a candidate and without a reason why the prompt was blocked.
    pub(super) fn check_has_response(&self) -> Result<(), UppError> {
        if self.has_candidate || self.head.block_reason.is_some() {
            return Ok(());
        }
        Err(self.context.broken("it has neither \"candidates\" nor a block reason"))
    }

    fn candidate(&mut self, candidate: Candidate<'_>, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        self.has_candidate = true;
        let head = &mut self.head;
        let reason = candidate.finish_reason.map(BorrowedText::owned).filter(|reason| !reason.is_empty());
        head.finish_reason = reason.or(head.finish_reason.take());
        let reported = &mut head.reported;
        keep(&mut reported.finish_message, candidate.finish_message);
        keep(&mut reported.safety_ratings, candidate.safety_ratings);
        keep(&mut reported.grounding_metadata, candidate.grounding_metadata);
        keep(&mut reported.url_context_metadata, candidate.url_context_metadata);
        keep(&mut reported.citation_metadata, candidate.citation_metadata);
        keep(&mut reported.avg_logprobs, candidate.avg_logprobs);
        self.logprobs.extend(candidate.logprobs_result.map(RawJson::from));
        let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
        parts.into_iter().try_for_each(|part| self.assembly.add(part, &self.context, events))
    }

    pub(super) fn into_response(mut self, sources: Sources<'_>) -> ModelResponse {
        self.head.reported.logprobs_result = match self.logprobs.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            results => RawJson::from_value(results).ok(),
        };
        self.assembly.finish(self.head, &self.context, sources)
    }
}

/// Replaces a value by a later one. Most frames repeat the first value.
fn update(known: &mut Option<String>, reported: Option<BorrowedText<'_>>) {
    if let Some(reported) = reported.filter(|reported| known.as_deref() != Some(reported.as_str())) {
        *known = Some(reported.owned());
    }
}

/// Replaces a value by a later one that is not empty.
fn keep(stored: &mut Option<RawJson>, reported: Option<&RawValue>) {
    let says_nothing = |reported: &&RawValue| matches!(reported.get(), "null" | "{}" | "[]");
    let is_known =
        |reported: &&RawValue| stored.as_ref().is_some_and(|stored| stored.get() == reported.get());
    if let Some(reported) = reported.filter(|reported| !says_nothing(reported) && !is_known(reported)) {
        *stored = Some(reported.into());
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
            let errors = read_frame::<Vec<&RawValue>>(self.context.provider, data)?;
            return Err(match errors.as_deref() {
                None | Some([]) => self.context.broken("an empty list"),
                Some(_) => reported_error(self.context.provider, data),
            });
        }
        match read_frame::<Frame<'_>>(self.context.provider, data)? {
            Some(frame) => self.read(frame, data, events),
            None => Ok(()),
        }
    }

    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError> {
        // The vendor marks the end in the last frame with content; counts may follow it.
        if self.head.finish_reason.is_none() && self.head.block_reason.is_none() {
            return Err(cut_short(self.context.provider));
        }
        events.push(StreamEvent::message_stop());
        Ok(self.into_response(sources))
    }
}
