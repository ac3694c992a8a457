//! Signatures of completions, as `response.done` has them: a member of the body, or the event after `[DONE]`.
//!
//! Spec: UAMP-1.0 §6.7, decision UAMP-A20

use std::sync::Arc;

use serde::Deserialize;
use turntree_core::json::RawJson;
use turntree_server::Principal;

use super::Heading;
use crate::agent::ServedAgent;
use crate::service::{Exchange, Site};
use crate::session::Signer;
use crate::wires::openai::conversation;

/// The name of the event after `[DONE]`.
pub(super) const EVENT: &str = "response_signature";

/// Signs one completion.
#[derive(Debug)]
pub(super) struct Signing {
    signer: Signer,
    site: Arc<Site>,
    /// The messages of the request, as the client sent them.
    messages: RawJson,
    id: String,
}

#[derive(Deserialize)]
struct Conversation {
    messages: RawJson,
}

impl Signing {
    /// What signs the completion; `None` if the server does not sign, or the request has no messages.
    pub(super) fn of<R>(
        exchange: &Exchange<R>,
        agent: &ServedAgent,
        heading: &Heading,
        body: &[u8],
    ) -> Option<Self> {
        let principal = exchange.context.principal.as_ref().map(Principal::id);
        let signer = exchange.site.signer(agent, &exchange.route.base, principal)?;
        let Conversation { messages } = conversation::parse_body(body).ok()?;
        Some(Self { signer, site: Arc::clone(&exchange.site), messages, id: heading.id.clone() })
    }

    /// The signature of the text.
    pub(super) fn sign(&self, text: &str) -> Option<String> {
        self.signer.sign(&self.id, text, self.messages.get(), self.site.clock.now())
    }
}
