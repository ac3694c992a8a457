//! Reports what a request leaves out: opaque parts of messages that another model made.

use std::sync::OnceLock;

use super::provenance::{ModelIdentity, Provenance, is_opaque};
use turntree_core::json::RawObject;
use turntree_core::message::message::History;

/// Opaque parts of a message that a request leaves out because another model made them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// The provider in whose namespace the parts are stored.
    pub made_by: String,
    /// The model that made them; empty if unknown.
    pub made_by_model: String,
    /// The id of the message.
    pub message_id: String,
    /// The provider that is called.
    pub provider: String,
    /// The model that is called.
    pub model_id: String,
}

/// Receives omissions, for logs.
pub trait OmissionObserver: Send + Sync + 'static {
    /// True if omissions are to be reported. If false, requests are not searched for them.
    fn is_enabled(&self) -> bool {
        true
    }

    /// Called for each message with omitted parts.
    fn omitted(&self, omission: &Omission);
}

static OBSERVER: OnceLock<Box<dyn OmissionObserver>> = OnceLock::new();

/// Sets the observer, once for the whole process.
///
/// # Errors
/// Returns the observer if another one is set already.
pub fn set_omission_observer(observer: Box<dyn OmissionObserver>) -> Result<(), Box<dyn OmissionObserver>> {
    OBSERVER.set(observer)
}

/// Reports the omissions of a request to the observer.
pub(super) fn report(history: &History, producer: ModelIdentity<'_>) {
    let Some(observer) = OBSERVER.get().filter(|observer| observer.is_enabled()) else { return };
    for message in history {
        for (namespace, members) in message.metadata.iter().flat_map(RawObject::iter) {
            let origin = Provenance::of(message, namespace);
            let is_own = namespace == producer.provider && producer.made(origin);
            if !is_own && is_opaque(members.get()) {
                observer.omitted(&Omission {
                    made_by: namespace.to_owned(),
                    made_by_model: origin.names().next().unwrap_or_default().into_owned(),
                    message_id: message.id.clone(),
                    provider: producer.provider.to_owned(),
                    model_id: producer.model_id.to_owned(),
                });
            }
        }
    }
}
