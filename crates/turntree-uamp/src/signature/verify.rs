//! Checks signatures.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;
use turntree_core::json::canonical::{CanonicalForm, canonical};
use turntree_core::json::{self, RawJson};
use turntree_core::limits::Limits;

use super::{Claims, hash};

/// Why a signature does not prove a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The text is not a JWT of a response.
    #[error("the signature is not a JWT with the claims of a response")]
    Malformed,
    /// The messages or the keys are not JSON.
    #[error("the {what} cannot be read: {reason}")]
    Input {
        /// What cannot be read.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The algorithm is neither RS256 nor `EdDSA`.
    #[error("the algorithm \"{algorithm}\" is not accepted; signatures have RS256 or EdDSA")]
    Algorithm {
        /// The algorithm.
        algorithm: String,
    },
    /// No key has the id of the signature.
    #[error("no key fits the signature; fetch the server's /.well-known/jwks.json again")]
    UnknownKey,
    /// The signature was not made with the key.
    #[error("the signature is not valid: it was made with another key, or its claims were changed")]
    Invalid,
    /// The signature is too old.
    #[error("the signature expired at {at} s since 1970")]
    Expired {
        /// When, in seconds since 1970.
        at: i64,
    },
    /// The response is not the one that was signed.
    #[error("the response is not the one that was signed")]
    OtherResponse,
    /// The messages are not the ones that were signed.
    #[error("the messages are not the ones that were signed")]
    OtherRequest,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Checks that a response was signed with one of the server's keys, and returns what the signature says.
///
/// - `text`: the text of the response; of several items, their concatenation
/// - `messages`: the messages of the request, a JSON array; `None` does not check them
/// - `jwks`: the document at the server's `/.well-known/jwks.json`
/// - `now`: the time, in seconds since 1970
///
/// # Errors
/// The signature does not prove the response.
pub fn verify(
    token: &str,
    text: &str,
    messages: Option<&str>,
    jwks: &str,
    now: i64,
) -> Result<Claims, SignatureError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(SignatureError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(SignatureError::Malformed)?;
    let header: Header = part(header)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| SignatureError::Malformed)?;
    check(&header, signed, &signature, jwks)?;
    let claims: Claims = part(claims)?;
    if claims.exp <= now {
        return Err(SignatureError::Expired { at: claims.exp });
    }
    if claims.hash_alg != "sha-256" || claims.canon != "jcs" {
        return Err(SignatureError::Malformed);
    }
    if claims.response_hash != hash(text.as_bytes()) {
        return Err(SignatureError::OtherResponse);
    }
    if let Some(messages) = messages {
        let checked: Result<RawJson, _> = json::parse(messages, &Limits::default());
        checked.map_err(|error| SignatureError::Input { what: "messages", reason: error.to_string() })?;
        if claims.request_hash != hash(&canonical(messages, CanonicalForm::Exact)) {
            return Err(SignatureError::OtherRequest);
        }
    }
    Ok(claims)
}

fn part<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, SignatureError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| SignatureError::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| SignatureError::Malformed)
}

/// Checks the signature with the keys that fit its header.
fn check(header: &Header, signed: &str, signature: &[u8], jwks: &str) -> Result<(), SignatureError> {
    let set: KeySet = serde_json::from_str(jwks)
        .map_err(|error| SignatureError::Input { what: "keys", reason: error.to_string() })?;
    let kind = match &*header.alg {
        "EdDSA" => "OKP",
        "RS256" => "RSA",
        other => return Err(SignatureError::Algorithm { algorithm: other.to_owned() }),
    };
    let text = |key: &Value, member: &str| key.get(member).and_then(Value::as_str).map(str::to_owned);
    let mut fitting = set.keys.iter().filter(|key| {
        text(key, "kty").as_deref() == Some(kind)
            && (header.kid.is_none() || text(key, "kid") == header.kid)
            && text(key, "alg").is_none_or(|algorithm| algorithm == header.alg)
    });
    let bytes = |key: &Value, member: &str| URL_SAFE_NO_PAD.decode(text(key, member)?).ok();
    let key = fitting.next().ok_or(SignatureError::UnknownKey)?;
    let verified = if kind == "OKP" {
        let x = bytes(key, "x").ok_or(SignatureError::UnknownKey)?;
        UnparsedPublicKey::new(&ED25519, x).verify(signed.as_bytes(), signature)
    } else {
        let (n, e) = bytes(key, "n").zip(bytes(key, "e")).ok_or(SignatureError::UnknownKey)?;
        RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), signature)
    };
    verified.map_err(|_| SignatureError::Invalid)
}
