//! The keys that an issuer publishes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use turntree_core::http::{HttpClient, HttpConfig, HttpRequest, RetryPolicy};

use super::JwtConfig;
use crate::access_log::LOGGER;
use crate::error::ServerError;

/// The largest response with keys.
const MAX_BYTES: usize = 1024 * 1024;

/// How long a fetch may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Keys by their id.
#[derive(Debug)]
pub(super) struct KeySet(Vec<PublishedKey>);

#[derive(Debug)]
struct PublishedKey {
    id: Option<String>,
    /// The only algorithm that the key is for, if it says so.
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a JWKS. Keys of unknown kinds, and keys for encryption, are left out (RFC 7517 §5).
    fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        let document: Document = serde_json::from_slice(json)?;
        Ok(Self(document.keys.into_iter().filter_map(PublishedKey::read).collect()))
    }

    /// The key of a token. A token without a key id needs a set in which only one key fits.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut fitting = self.0.iter().filter(|key| {
            key.key.family() == algorithm.family()
                && key.algorithm.is_none_or(|own| own == algorithm)
                && (id.is_none() || key.id.as_deref() == id)
        });
        let first = fitting.next()?;
        fitting.next().is_none().then_some(&first.key)
    }
}

impl PublishedKey {
    fn read(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        if jwk.common.public_key_use.as_ref().is_some_and(|purpose| *purpose != PublicKeyUse::Signature) {
            return None;
        }
        let algorithm = match jwk.common.key_algorithm {
            Some(algorithm) => Some(algorithm.to_string().parse().ok()?),
            None => None,
        };
        Some(Self { key: DecodingKey::from_jwk(&jwk).ok()?, algorithm, id: jwk.common.key_id })
    }
}

type Fetch = Shared<BoxFuture<'static, Result<Arc<KeySet>, ServerError>>>;

/// Fetches keys and remembers them.
pub(super) struct PublishedKeys {
    client: HttpClient,
    config: JwtConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: Option<(Arc<KeySet>, Instant)>,
    last_fetch: Option<Instant>,
    /// The fetch in progress, which all requests wait for.
    fetching: Option<Fetch>,
}

impl fmt::Debug for PublishedKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PublishedKeys").field("url", &self.config.jwks_url).finish_non_exhaustive()
    }
}

impl PublishedKeys {
    pub(super) fn new(config: JwtConfig) -> Result<Self, ServerError> {
        let settings =
            HttpConfig { max_body: MAX_BYTES, total_deadline: Some(FETCH_TIMEOUT), ..HttpConfig::default() };
        let client = HttpClient::shared(&settings)
            .map_err(|error| ServerError::Setting { setting: "jwks_url", reason: error.to_string() })?;
        Ok(Self { client, config, state: Mutex::default() })
    }

    /// The keys, fetched if there are none or if they are old. Old keys serve while they cannot be fetched.
    pub(super) async fn current(&self) -> Result<Arc<KeySet>, ServerError> {
        let known = self.lock().keys.clone();
        match known {
            Some((keys, since)) if since.elapsed() < self.config.max_age => Ok(keys),
            Some((keys, _)) => Ok(self.refreshed().await.unwrap_or(keys)),
            None => self.refreshed().await,
        }
    }

    /// The keys, fetched again unless the last fetch was a moment ago.
    pub(super) async fn refreshed(&self) -> Result<Arc<KeySet>, ServerError> {
        let fetch = {
            let mut state = self.lock();
            let is_early = state.last_fetch.is_some_and(|at| at.elapsed() < self.config.min_fetch_interval);
            if let Some(fetching) = &state.fetching {
                fetching.clone()
            } else if is_early {
                let keys = state.keys.as_ref().map(|(keys, _)| Arc::clone(keys));
                return keys.ok_or_else(|| self.unavailable("they could not be fetched a moment ago"));
            } else {
                state.last_fetch = Some(Instant::now());
                state.fetching.insert(self.fetch().shared()).clone()
            }
        };
        let outcome = fetch.clone().await;
        let mut state = self.lock();
        // The first of those who waited stores the keys; a later fetch may have begun.
        if state.fetching.as_ref().is_some_and(|current| current.ptr_eq(&fetch)) {
            state.fetching = None;
            if let Ok(keys) = &outcome {
                state.keys = Some((Arc::clone(keys), Instant::now()));
            }
        }
        drop(state);
        outcome
    }

    fn fetch(&self) -> BoxFuture<'static, Result<Arc<KeySet>, ServerError>> {
        let request = HttpRequest::get(self.config.jwks_url.clone());
        let response = self.client.send(request, &RetryPolicy::default(), &CancellationToken::new());
        let url = self.config.jwks_url.clone();
        async move {
            let failed = |reason: String| {
                log::warn!(target: LOGGER, "the keys of {url} cannot be fetched: {reason}");
                ServerError::Authenticator {
                    reason: format!("the keys of {url} cannot be fetched: {reason}"),
                }
            };
            let response = response.await.map_err(|error| failed(error.to_string()))?;
            KeySet::parse(&response.body).map(Arc::new).map_err(|error| failed(error.to_string()))
        }
        .boxed()
    }

    fn unavailable(&self, reason: &str) -> ServerError {
        ServerError::Authenticator { reason: format!("the keys of {}: {reason}", self.config.jwks_url) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
