//! Reports what a request leaves out: opaque parts of messages that another model made.

use std::sync::OnceLock;

use super::provenance::{ModelIdentity, Provenance, is_opaque};
use turntree_core::json::RawObject;
use turntree_core::message::message::History;

/// Opaque parts of a message that a request leaves out, since another model made them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// Whose parts: the provider in whose namespace they are kept.
    pub made_by: String,
    /// The model that made them; empty where the message does not say.
    pub made_by_model: String,
    /// The message.
    pub message_id: String,
    /// The provider that is asked.
    pub provider: String,
    /// The model that is asked.
    pub model_id: String,
}

/// Hears what requests leave out; for logs.
pub trait OmissionObserver: Send + Sync + 'static {
    /// Whether it listens: where nobody does, nothing is looked for.
    fn is_enabled(&self) -> bool {
        true
    }

    /// Parts were left out.
    fn omitted(&self, omission: &Omission);
}

static OBSERVER: OnceLock<Box<dyn OmissionObserver>> = OnceLock::new();

/// Sets who hears what requests leave out, once in a process. Gives the observer back where there is one already.
///
/// # Errors
/// The observer, where another was set before.
pub fn set_omission_observer(observer: Box<dyn OmissionObserver>) -> Result<(), Box<dyn OmissionObserver>> {
    OBSERVER.set(observer)
}

/// Tells the observer what a request leaves out.
pub(super) fn report(history: &History, producer: ModelIdentity<'_>) {
    let Some(observer) = OBSERVER.get().filter(|observer| observer.is_enabled()) else { return };
    for message in history {
        for (namespace, facts) in message.metadata.iter().flat_map(RawObject::iter) {
            let origin = Provenance::of(message, namespace);
            let is_own = namespace == producer.provider && producer.made(origin);
            if !is_own && is_opaque(facts.get()) {
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
