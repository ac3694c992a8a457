//! Who makes a request or a run.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map, Value};

/// Who makes a request: the result of an authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    id: Arc<str>,
    claims: Arc<Map<String, Value>>,
}

impl Principal {
    /// A principal without claims. `id` is unique among the server's principals, for example the subject of a token.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self { id: id.into(), claims: Arc::default() }
    }

    /// Adds what else is known, for example the claims of a JWT.
    #[must_use]
    pub fn with_claims(self, claims: Map<String, Value>) -> Self {
        Self { claims: Arc::new(claims), ..self }
    }

    /// The id. Applications compare it: a session belongs to the principal who opened it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What else is known about the principal.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }
}

/// Equal principals have equal ids.
impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}
