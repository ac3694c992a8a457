//! The responses of vendors as they arrived, kept on request in the metadata of messages.
//!
//! The setting `raw` of a call asks for it. A whole response is kept as its JSON document, a stream as the list of its
//! events. Nothing is kept without the setting, because a response takes about three times the memory of its message.

use std::sync::Arc;

use super::dialect::Framing;
use super::request::ModelResponse;
use super::settings;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::Message;

/// The namespace of turntree in the metadata of messages.
const NAMESPACE: &str = "turntree";

/// The member with the response.
const MEMBER: &str = "raw";

/// True if the parameters of a request ask for the response as it arrived.
pub fn is_requested(params: &RawObject) -> bool {
    settings::setting(params, MEMBER).is_some_and(|value| value.get() == "true")
}

/// The response that a message was made of: an object, or a list of events. `None` if it was not requested.
pub fn of_message(message: &Message) -> Option<RawJson> {
    message.namespace(NAMESPACE)?.get(MEMBER).cloned()
}

/// Keeps the body of a whole response, if the parameters ask for it.
pub(crate) fn keep(params: &RawObject, body: &str, response: &mut ModelResponse) {
    if is_requested(params) {
        record(response, RawJson::from_embedded(body));
    }
}

/// Adds a response as it arrived to the metadata of its message.
fn record(response: &mut ModelResponse, raw: Option<RawJson>) {
    let Some(raw) = raw else { return };
    let mut members = response.message.namespace(NAMESPACE).unwrap_or_default();
    members.insert(MEMBER, raw);
    if let Ok(members) = RawJson::from_value(&members) {
        let message = Arc::make_mut(&mut response.message);
        message.metadata.get_or_insert_default().insert(NAMESPACE, members);
    }
}

/// The events of one stream.
#[derive(Debug)]
pub(super) struct RawEvents {
    /// True if the name of an event is not in its data.
    is_named: bool,
    events: Vec<RawJson>,
}

impl RawEvents {
    pub(super) fn new(framing: Framing) -> Self {
        Self { is_named: framing == Framing::AmazonEventStream, events: Vec::new() }
    }

    /// Adds an event. Data that is not JSON is left out.
    pub(super) fn push(&mut self, name: Option<&str>, data: &str) {
        let Some(data) = RawJson::from_embedded(data) else { return };
        let named = name.filter(|_| self.is_named).and_then(|name| {
            let members: RawObject = [(name, data.clone())].into_iter().collect();
            RawJson::from_value(&members).ok()
        });
        self.events.push(named.unwrap_or(data));
    }

    /// Adds the events to the response that they make up.
    pub(super) fn record(self, response: &mut ModelResponse) {
        record(response, RawJson::from_value(&self.events).ok());
    }
}
