//! A fixed set of bearer tokens.

use std::fmt;

use futures_util::future::BoxFuture;
use ring::digest::{SHA256, digest};
use turntree_core::secret::Secret;

use crate::authentication::{Authenticator, Principal};
use crate::error::ServerError;

/// Accepts tokens of a fixed set. The time of a comparison does not depend on the tokens.
///
/// ```
/// use turntree_core::secret::Secret;
/// use turntree_server::{BearerTokens, Principal};
///
/// let tokens = BearerTokens::new([(Secret::new("a-long-random-token"), Principal::new("alice"))]);
/// ```
#[derive(Clone)]
pub struct BearerTokens(Vec<(Vec<u8>, Principal)>);

impl BearerTokens {
    /// Tokens and their principals.
    pub fn new(tokens: impl IntoIterator<Item = (Secret, Principal)>) -> Self {
        Self(tokens.into_iter().map(|(token, principal)| (hash(token.expose()), principal)).collect())
    }
}

impl fmt::Debug for BearerTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BearerTokens({} tokens)", self.0.len())
    }
}

impl Authenticator for BearerTokens {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, ServerError>> {
        let given = hash(token);
        // All are compared, and each is compared as a whole.
        let found = self.0.iter().fold(None, |found, (known, principal)| {
            let difference = known.iter().zip(&given).fold(0, |all, (a, b)| all | (a ^ b));
            if std::hint::black_box(difference) == 0 { Some(principal) } else { found }
        });
        Box::pin(std::future::ready(Ok(found.cloned())))
    }
}

fn hash(token: &str) -> Vec<u8> {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}
