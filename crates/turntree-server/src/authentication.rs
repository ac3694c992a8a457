//! Who makes a request.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

pub use turntree_core::principal::Principal;

use crate::error::ServerError;

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
