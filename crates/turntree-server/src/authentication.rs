//! Who makes a request.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::error::ServerError;

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

/// Finds the principal of a token.
///
/// Called for each request that needs one, with the token of the header `Authorization: Bearer`.
pub trait Authenticator: fmt::Debug + Send + Sync + 'static {
    /// The principal of a token; None if the token is not valid, which answers 401.
    ///
    /// # Errors
    /// [`ServerError::Authenticator`] if the token could not be checked, which answers 503.
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, ServerError>>;
}

impl<T: Authenticator + ?Sized> Authenticator for Arc<T> {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, ServerError>> {
        (**self).authenticate(token)
    }
}
