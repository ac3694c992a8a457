//! Builds the actions of one message and records the location of each part.

use std::borrow::Cow;

use super::model::ModelMessage;
use super::part_to_actions::EncodedPart;
use crate::action::Action;
use crate::convert::portable::DeferredAction;
use turntree_core::time::Timestamp;

/// The source of a message, for comparison.
#[derive(Debug, Clone, Copy)]
pub(super) enum MessageSource<'a> {
    /// A text that starts with the message.
    Text(&'a str),
    /// No text: the source is the message itself.
    Written,
}

/// The decoded message differs from its source.
#[derive(Debug)]
pub(super) struct RoundTripMismatch;

/// The actions of one message while it is encoded.
#[derive(Debug, Default)]
pub(super) struct MessageBuilder {
    pub actions: Vec<Action>,
    /// The members of each action's round-trip metadata.
    pub fragments: Vec<String>,
    /// The location of each part.
    pub layout: PartLayout,
    /// True if the message can only be preserved verbatim.
    pub irregular: bool,
    /// True if something was not compared byte for byte with the decoder's result.
    pub unproven: bool,
    /// Actions that follow the results of the response.
    pub deferred: Vec<DeferredAction>,
    /// The latest time of a part that is after the time of its message.
    pub latest: Option<(Timestamp, String)>,
}

/// The locations of the parts of a message.
#[derive(Debug, Default)]
pub(super) struct PartLayout {
    /// One entry per part.
    pub entries: Vec<PartLocation>,
    /// True if the parts are not the actions in order.
    pub needed: bool,
    /// The number of actions of parts so far.
    pub actions: usize,
}

/// The location of a part.
#[derive(Debug, Clone)]
pub(super) enum PartLocation {
    /// The action at this index.
    Action(usize),
    /// Another location, as JSON.
    Other(String),
}

impl PartLayout {
    /// Records that the next part is the next action.
    pub(super) fn action(&mut self) {
        self.entries.push(PartLocation::Action(self.actions));
        self.actions += 1;
    }

    /// Records another location of the next part.
    pub(super) fn other(&mut self, entry: String) {
        self.entries.push(PartLocation::Other(entry));
        self.needed = true;
    }

    /// The JSON of the message's round-trip metadata.
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

    /// Adds an action that represents no part.
    pub(super) fn annotate(&mut self, action: Action) {
        self.actions.push(action);
        self.fragments.push(String::new());
    }

    /// Sets the times of the actions from `first` on, which represent a part with this time. A part without a time has
    /// that of its message, but not before an earlier part of the message.
    pub(super) fn set_times(&mut self, first: usize, own: Option<&str>, message: &str) {
        if let Some(time) = own {
            let Ok(at) = time.parse::<Timestamp>() else { return };
            let before = match &self.latest {
                Some((latest, _)) => Some(*latest),
                None => message.parse().ok(),
            };
            if before.is_none_or(|before| at > before) {
                self.latest = Some((at, time.to_owned()));
            }
        } else if let Some((_, latest)) = &self.latest {
            for action in self.actions.get_mut(first..).unwrap_or_default() {
                action.set_timestamp(latest.as_str().into());
            }
        }
    }

    /// The length of the message's text if every member was compared with the decoder's result, so that decoding the
    /// message is not necessary; `None` otherwise.
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

    /// Adds the sources of a text; after a call they are deferred until its result.
    pub(super) fn sources(&mut self, sources: &mut Vec<DeferredAction>, called: bool) {
        if called {
            self.deferred.append(sources);
        }
        sources.drain(..).for_each(|source| self.annotate(source.action));
    }
}
