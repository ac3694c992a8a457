//! Signatures of responses: a JWT that says which agent gave which response to which request, and when.
//!
//! | claim | content |
//! |---|---|
//! | `iss` | who signs: the URL of the agent |
//! | `aud` | the principal who asked; absent without one |
//! | `iat`, `exp` | when it was signed, and a day later, in seconds since 1970 |
//! | `jti` | the id of the response |
//! | `response_hash` | SHA-256 of the response's text in UTF-8, in hexadecimal digits |
//! | `request_hash` | SHA-256 of the canonical JSON (RFC 8785) of the array of messages |
//! | `hash_alg`, `canon` | `sha-256`, `jcs` |
//!
//! Spec: UAMP-1.0 §6.7

mod key;
mod verify;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use turntree_core::json::canonical::{CanonicalForm, canonical};

pub use key::{KeyError, SigningKey};
pub use verify::{SignatureError, verify};

/// How long a signature is valid.
const LIFETIME_SECONDS: i64 = 24 * 60 * 60;

/// What a signature says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who signed.
    pub iss: String,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aud: Option<String>,
    /// When it was signed, in seconds since 1970.
    pub iat: i64,
    /// When it expires, in seconds since 1970.
    pub exp: i64,
    /// The id of the response.
    pub jti: String,
    /// The hash of the response.
    pub response_hash: String,
    /// The hash of the request.
    pub request_hash: String,
    /// `sha-256`.
    pub hash_alg: String,
    /// `jcs`.
    pub canon: String,
}

/// A response to sign.
#[derive(Debug, Clone, Copy)]
pub struct SignedResponse<'a> {
    /// Who signs: the URL of the agent, or its name.
    pub issuer: &'a str,
    /// Who asked.
    pub audience: Option<&'a str>,
    /// The id of the response.
    pub response_id: &'a str,
    /// The text of the response.
    pub text: &'a str,
    /// The messages of the request: a JSON array.
    pub messages: &'a str,
    /// The time, in seconds since 1970.
    pub now: i64,
}

impl SignedResponse<'_> {
    fn claims(&self) -> Claims {
        Claims {
            iss: self.issuer.to_owned(),
            aud: self.audience.map(str::to_owned),
            iat: self.now,
            exp: self.now.saturating_add(LIFETIME_SECONDS),
            jti: self.response_id.to_owned(),
            response_hash: hash(self.text.as_bytes()),
            request_hash: hash(&canonical(self.messages, CanonicalForm::Exact)),
            hash_alg: "sha-256".to_owned(),
            canon: "jcs".to_owned(),
        }
    }
}

/// SHA-256 in hexadecimal digits.
fn hash(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let mut text = String::with_capacity(64);
    for byte in digest.as_ref() {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
