//! A message on its way to actions: what was made of its parts so far, and where each part is.

use std::borrow::Cow;

use super::model::ModelMessage;
use super::parts::EncodedPart;
use crate::action::Action;
use crate::convert::portable::DeferredAction;

/// Where the bytes of a message are, to compare with.
#[derive(Debug, Clone, Copy)]
pub(super) enum MessageSource<'a> {
    /// The text begins with the message.
    Text(&'a str),
    /// There is none: the message is written.
    Written,
}

/// A message that did not come back as the text it was read from.
#[derive(Debug)]
pub(super) struct RoundTripMismatch;

/// The actions of one message while it is encoded.
#[derive(Debug, Default)]
pub(super) struct MessageBuilder {
    pub actions: Vec<Action>,
    /// The members of each action's envelope.
    pub fragments: Vec<String>,
    /// Where each part is; `None` as long as parts are the actions in order.
    pub layout: PartLayout,
    /// Whether nothing but the message's text can hold it.
    pub irregular: bool,
    /// Whether something was not compared, to the byte, with what the actions give back.
    pub unproven: bool,
    /// What the stream says when the results of the response are there.
    pub deferred: Vec<DeferredAction>,
}

/// Where the parts of a message are.
#[derive(Debug, Default)]
pub(super) struct PartLayout {
    /// One a part.
    pub entries: Vec<PartLocation>,
    /// Whether an entry says more than "the next action".
    pub needed: bool,
    /// Parts' actions so far.
    pub actions: usize,
}

/// Where one part is.
#[derive(Debug, Clone)]
pub(super) enum PartLocation {
    /// It is the action at this place.
    Action(usize),
    /// What its JSON says.
    Other(String),
}

impl PartLayout {
    /// The next part is the next action.
    pub(super) fn action(&mut self) {
        self.entries.push(PartLocation::Action(self.actions));
        self.actions += 1;
    }

    /// The next part is somewhere else.
    pub(super) fn other(&mut self, entry: String) {
        self.entries.push(PartLocation::Other(entry));
        self.needed = true;
    }

    /// As the envelope of the message says it.
    pub(super) fn to_json(&self) -> String {
        let entries: Vec<Cow<'_, str>> = self
            .entries
            .iter()
            .map(|entry| match entry {
                PartLocation::Action(index) => Cow::Owned(index.to_string()),
                PartLocation::Other(json) => Cow::Borrowed(json.as_str()),
            })
            .collect();
        format!("[{}]", entries.join(","))
    }
}

impl MessageBuilder {
    /// Adds a part.
    pub(super) fn push(&mut self, encoded: EncodedPart) {
        if let Some(annotation) = encoded.before {
            self.annotate(annotation);
        }
        self.irregular |= encoded.irregular;
        self.unproven |= !encoded.exact;
        self.deferred.extend(encoded.deferred);
        self.actions.push(encoded.action);
        self.fragments.push(encoded.fragment);
        self.layout.action();
    }

    /// Adds an action that stands for no part.
    pub(super) fn annotate(&mut self, action: Action) {
        self.actions.push(action);
        self.fragments.push(String::new());
    }

    /// The length of the message's text, where every member was compared with what the decoder derives for it, so that
    /// decoding the message again can tell nothing new. `None` where that must be done.
    pub(super) fn proven_length(
        &self,
        message: &ModelMessage<'_>,
        source: MessageSource<'_>,
    ) -> Option<usize> {
        if self.unproven || self.layout.needed {
            return None;
        }
        match source {
            MessageSource::Text(text) => message.compact_length_in(text),
            MessageSource::Written => Some(0),
        }
    }

    /// Adds the sources of a text; behind a call they wait for its result.
    pub(super) fn sources(&mut self, sources: &mut Vec<DeferredAction>, called: bool) {
        if called {
            self.deferred.append(sources);
        }
        sources.drain(..).for_each(|source| self.annotate(source.action));
    }
}
