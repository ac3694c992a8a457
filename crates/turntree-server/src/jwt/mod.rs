//! JSON Web Tokens, checked with the keys that the issuer publishes (RFC 7519, RFC 7517).

mod crypto;
mod keys;

use std::time::Duration;

use futures_util::future::BoxFuture;
use jsonwebtoken::{Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::authentication::{Authenticator, Principal};
use crate::error::ServerError;

use self::keys::PublishedKeys;

/// The largest tolerated difference of clocks.
const MAX_LEEWAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of a [`JwtAuthenticator`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtConfig {
    /// The URL of the issuer's keys (JWKS).
    pub jwks_url: String,
    /// The issuer; tokens of other issuers are refused.
    pub issuer: String,
    /// Names of this server; tokens for none of them are refused.
    pub audiences: Vec<String>,
    /// The algorithms that are accepted: RS256, ES256 and `EdDSA` by default. Algorithms with a shared secret
    /// do not exist here: the keys are public.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The difference of clocks that is tolerated: 60 s, at most a day.
    pub leeway: Duration,
    /// The keys are fetched again when they are older: 10 min.
    pub max_age: Duration,
    /// The shortest time between two fetches: 10 s. A token with an unknown key makes the server fetch them.
    pub min_fetch_interval: Duration,
}

impl JwtConfig {
    /// Settings with the defaults.
    pub fn new(jwks_url: impl Into<String>, issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            jwks_url: jwks_url.into(),
            issuer: issuer.into(),
            audiences: vec![audience.into()],
            algorithms: vec![JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa],
            leeway: Duration::from_secs(60),
            max_age: Duration::from_secs(600),
            min_fetch_interval: Duration::from_secs(10),
        }
    }
}

/// An algorithm of signatures (RFC 7518 §3.1, RFC 8037 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names of RFC 7518")]
pub enum JwtAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl JwtAlgorithm {
    const fn algorithm(self) -> jsonwebtoken::Algorithm {
        use jsonwebtoken::Algorithm;
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Rs384 => Algorithm::RS384,
            Self::Rs512 => Algorithm::RS512,
            Self::Ps256 => Algorithm::PS256,
            Self::Ps384 => Algorithm::PS384,
            Self::Ps512 => Algorithm::PS512,
            Self::Es256 => Algorithm::ES256,
            Self::Es384 => Algorithm::ES384,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

/// Accepts JSON Web Tokens of one issuer. The principal's id is the claim `sub`.
#[derive(Debug)]
pub struct JwtAuthenticator {
    validation: Validation,
    keys: PublishedKeys,
}

impl JwtAuthenticator {
    /// An authenticator. The keys are fetched with the first token.
    ///
    /// # Errors
    /// [`ServerError::Setting`] if no audience or algorithm is given, or if `jwks_url` is no URL of `http` or `https`; what
    /// the HTTP client refuses.
    pub fn new(config: JwtConfig) -> Result<Self, ServerError> {
        let wrong = |setting, reason: &str| ServerError::Setting { setting, reason: reason.to_owned() };
        let Some(first) = config.algorithms.first() else {
            return Err(wrong("algorithms", "no algorithm is accepted; give at least one"));
        };
        if config.audiences.is_empty() {
            return Err(wrong(
                "audiences",
                "a token for any server would be accepted; give the names of this one",
            ));
        }
        if !is_http_url(&config.jwks_url) {
            let reason = format!(
                "{:?} is no URL of http or https; give the address of the issuer's keys",
                config.jwks_url
            );
            return Err(wrong("jwks_url", &reason));
        }
        crypto::install();
        let mut validation = Validation::new(first.algorithm());
        validation.algorithms = config.algorithms.iter().map(|algorithm| algorithm.algorithm()).collect();
        validation.leeway = config.leeway.min(MAX_LEEWAY).as_secs();
        validation.validate_nbf = true;
        validation.set_audience(&config.audiences);
        validation.set_issuer(&[&config.issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        Ok(Self { validation, keys: PublishedKeys::new(config)? })
    }

    async fn principal(&self, token: &str) -> Result<Option<Principal>, ServerError> {
        let Ok(header) = decode_header(token) else { return Ok(None) };
        if !self.validation.algorithms.contains(&header.alg) {
            return Ok(None);
        }
        // The list must have algorithms of the key's kind only.
        let validation = Validation { algorithms: vec![header.alg], ..self.validation.clone() };
        let kid = header.kid.as_deref();
        let mut keys = self.keys.current().await?;
        if keys.find(kid, header.alg).is_none() {
            keys = self.keys.refreshed().await?;
        }
        Ok(keys.find(kid, header.alg).and_then(|key| {
            let claims = decode::<Map<String, Value>>(token, key, &validation).ok()?.claims;
            let id = claims.get("sub")?.as_str()?.to_owned();
            Some(Principal::new(id).with_claims(claims))
        }))
    }
}

impl Authenticator for JwtAuthenticator {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, ServerError>> {
        Box::pin(self.principal(token))
    }
}

fn is_http_url(text: &str) -> bool {
    let url = text.parse::<http::Uri>();
    url.is_ok_and(|url| url.host().is_some() && matches!(url.scheme_str(), Some("http" | "https")))
}
