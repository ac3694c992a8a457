//! Which model answered, as recorded in the metadata of the message.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::UppError;
use crate::provenance::Provenance;
use crate::provider::Model;
use crate::request::ModelResponse;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::Message;

/// The namespace of the metadata.
const NAMESPACE: &str = "turntree";

/// The member with the [`Answer`].
const ROUTED: &str = "routed";

/// A model that failed before another one answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedModel {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// The error's code.
    pub code: String,
}

impl FailedModel {
    pub(super) fn new(model: &dyn Model, error: &UppError) -> Self {
        Self {
            provider: model.provider().to_owned(),
            model: model.model_id().to_owned(),
            code: error.code.as_str().to_owned(),
        }
    }
}

/// The model that answered a request to a [`Fallback`](super::Fallback) or a [`Router`](super::Router).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The provider's name: the namespace of the message's metadata.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// The models that failed before, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedModel>,
}

impl Answer {
    pub(super) fn of(model: &dyn Model, failed: Vec<FailedModel>) -> Self {
        Self { provider: model.provider().to_owned(), model: model.model_id().to_owned(), failed }
    }

    /// Reads the record of a message.
    pub fn read(message: &Message) -> Option<Self> {
        message.namespace(NAMESPACE)?.get(ROUTED)?.to().ok()
    }

    /// Records the model in the response. A record of a model inside this one stays, with the failures before it.
    pub(super) fn record(self, response: &mut ModelResponse) {
        let answer = match Self::read(&response.message) {
            Some(inner) => Self { failed: self.failed.into_iter().chain(inner.failed).collect(), ..inner },
            None => self,
        };
        let mut members = response.message.namespace(NAMESPACE).unwrap_or_default();
        let Ok(answer) = RawJson::from_value(&answer) else { return };
        members.insert(ROUTED, answer);
        if let Ok(members) = RawJson::from_value(&members) {
            let message = Arc::make_mut(&mut response.message);
            message.metadata.get_or_insert_default().insert(NAMESPACE, members);
        }
    }
}

/// The id of the model that made a message: the requested one, or the name in the vendor's response. `None` if the
/// message has no metadata of a model.
pub fn model_of(message: &Message) -> Option<String> {
    if let Some(answer) = Answer::read(message) {
        return Some(answer.model);
    }
    let namespaces = message.metadata.as_ref().map(RawObject::iter)?;
    let mut vendors = namespaces.map(|(name, _)| name).filter(|name| *name != NAMESPACE);
    vendors.find_map(|vendor| Provenance::of(message, vendor).names().next().map(Cow::into_owned))
}
