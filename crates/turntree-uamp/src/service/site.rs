//! What all wires of a server share.

use std::sync::Arc;
use std::time::Duration;

use turntree_core::ids::{IdSource, RandomIds};
use turntree_core::time::{Clock, SystemClock};
use turntree_server::Authenticator;

use crate::agent::{AgentRegistry, Conversations, ServedAgent};
use crate::payments::PaymentGate;
use crate::session::Signer;
use crate::signature::SigningKey;

/// The settings of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOptions {
    /// The URL under which clients reach the server, without a slash at the end. Default: that of the request.
    pub public_url: Option<Arc<str>>,
    /// How long a response continues while its client is not connected. Default: 60 s.
    pub resume_window: Duration,
    /// True if the paths of OpenAI refuse requests without `model`, as OpenAI does.
    pub strict_openai: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self { public_url: None, resume_window: Duration::from_secs(60), strict_openai: false }
    }
}

/// The agents of a server, their conversations, and the settings. [`Site::new`] sets the other members to their
/// defaults.
#[derive(Debug)]
pub struct Site {
    /// The agents.
    pub agents: AgentRegistry,
    /// The conversations that the server keeps.
    pub conversations: Conversations,
    /// The settings.
    pub options: ServiceOptions,
    /// Checks tokens that are a part of the protocol, for example those of `session.create`. The same as that of the
    /// server ([`turntree_server::Service::with_authenticator`]). Default: none, everyone may connect.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Decides whether a response must be paid. Default: responses are free.
    pub payment_gate: Option<Arc<dyn PaymentGate>>,
    /// Signs complete responses. Default: they are not signed.
    pub signing_key: Option<Arc<SigningKey>>,
    /// Makes ids. Default: random ones.
    pub ids: Arc<dyn IdSource>,
    /// Tells the time. Default: that of the system.
    pub clock: Arc<dyn Clock>,
}

impl Site {
    /// A site without authentication, payments and signatures.
    pub fn new(agents: AgentRegistry, conversations: Conversations) -> Self {
        Self {
            agents,
            conversations,
            options: ServiceOptions::default(),
            authenticator: None,
            payment_gate: None,
            signing_key: None,
            ids: Arc::new(RandomIds),
            clock: Arc::new(SystemClock),
        }
    }

    /// What signs the responses of an agent to a principal; `base` is the path of the agent.
    pub(crate) fn signer(&self, agent: &ServedAgent, base: &str, principal: Option<&str>) -> Option<Signer> {
        let key = Arc::clone(self.signing_key.as_ref()?);
        let issuer = match &self.options.public_url {
            Some(url) => format!("{url}{base}"),
            None => agent.name().to_string(),
        };
        Some(Signer { key, issuer, audience: principal.map(str::to_owned) })
    }
}
