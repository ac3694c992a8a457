//! The key that signs.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::{Value, json};

use super::SignedResponse;

/// Why a key cannot sign.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is neither PEM nor a JWK.
    #[error("the signing key is neither PEM (`-----BEGIN PRIVATE KEY-----`) nor a JWK: {reason}")]
    Format {
        /// What is wrong.
        reason: String,
    },
    /// The key is of a kind that cannot sign responses.
    #[error("the signing key is not usable: {reason}; use an Ed25519 key, or RSA with 2048 to 4096 bits")]
    Unusable {
        /// What is wrong.
        reason: String,
    },
    /// The system has no randomness.
    #[error("the response could not be signed: the system's random numbers are not available")]
    Randomness,
}

enum Pair {
    Ed25519(Box<Ed25519KeyPair>),
    Rsa(Box<RsaKeyPair>),
}

/// A private key that signs responses with `EdDSA` (Ed25519) or RS256 (RSA).
pub struct SigningKey {
    pair: Pair,
    id: String,
}

/// The members of a private JWK.
#[derive(Deserialize)]
struct PrivateJwk {
    kty: String,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    x: String,
    #[serde(default)]
    d: String,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    p: String,
    #[serde(default)]
    q: String,
    #[serde(default)]
    dp: String,
    #[serde(default)]
    dq: String,
    #[serde(default)]
    qi: String,
}

impl SigningKey {
    /// Reads a private key: PEM (PKCS#8, or PKCS#1 for RSA) or a JWK. The id of a key without one is its thumbprint
    /// (RFC 7638).
    ///
    /// # Errors
    /// The text is not a key, or not one of Ed25519 or RSA.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if text.trim_start().starts_with('{') { Self::from_jwk(text) } else { Self::from_pem(text) }
    }

    fn from_pem(text: &str) -> Result<Self, KeyError> {
        let format = |reason: &str| KeyError::Format { reason: reason.to_owned() };
        let mut lines = text.trim().lines().map(str::trim);
        let label = lines.next().unwrap_or_default();
        let body: String = lines.take_while(|line| !line.starts_with("-----END")).collect();
        let der =
            STANDARD.decode(body).map_err(|_| format("the text between the PEM lines is not base64"))?;
        let pair = match label {
            "-----BEGIN RSA PRIVATE KEY-----" => rsa(RsaKeyPair::from_der(&der))?,
            "-----BEGIN PRIVATE KEY-----" => match Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
                Ok(pair) => Pair::Ed25519(Box::new(pair)),
                Err(_) => rsa(RsaKeyPair::from_pkcs8(&der))?,
            },
            _ => return Err(format("the first line is not that of a private key")),
        };
        Ok(Self::with_id(pair, None))
    }

    fn from_jwk(text: &str) -> Result<Self, KeyError> {
        let jwk: PrivateJwk =
            serde_json::from_str(text).map_err(|error| KeyError::Format { reason: error.to_string() })?;
        let bytes = |member: &str| {
            let decoded = URL_SAFE_NO_PAD.decode(member);
            decoded.map_err(|_| KeyError::Format { reason: "a member is not base64url".to_owned() })
        };
        let pair = match (&*jwk.kty, &*jwk.crv) {
            ("OKP", "Ed25519") => {
                let pair = Ed25519KeyPair::from_seed_and_public_key(&bytes(&jwk.d)?, &bytes(&jwk.x)?);
                Pair::Ed25519(Box::new(pair.map_err(unusable)?))
            }
            ("RSA", _) => rsa(RsaKeyPair::from_components(&KeyPairComponents {
                public_key: PublicKeyComponents { n: bytes(&jwk.n)?, e: bytes(&jwk.e)? },
                d: bytes(&jwk.d)?,
                p: bytes(&jwk.p)?,
                q: bytes(&jwk.q)?,
                dP: bytes(&jwk.dp)?,
                dQ: bytes(&jwk.dq)?,
                qInv: bytes(&jwk.qi)?,
            }))?,
            (kty, crv) => {
                return Err(KeyError::Unusable { reason: format!("its kind is \"{kty}\" \"{crv}\"") });
            }
        };
        Ok(Self::with_id(pair, jwk.kid))
    }

    fn with_id(pair: Pair, id: Option<String>) -> Self {
        let mut key = Self { pair, id: String::new() };
        key.id = id.unwrap_or_else(|| key.thumbprint());
        key
    }

    /// The id, `kid` in the header of signatures.
    pub fn id(&self) -> &str {
        &self.id
    }

    const fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ed25519(_) => "EdDSA",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// The members of the public key that identify it, in the order of RFC 7638.
    fn required_members(&self) -> Value {
        match &self.pair {
            Pair::Ed25519(pair) => {
                let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
                json!({ "crv": "Ed25519", "kty": "OKP", "x": x })
            }
            Pair::Rsa(pair) => {
                let public: PublicKeyComponents<Vec<u8>> = pair.public().into();
                let (e, n) = (URL_SAFE_NO_PAD.encode(public.e), URL_SAFE_NO_PAD.encode(public.n));
                json!({ "e": e, "kty": "RSA", "n": n })
            }
        }
    }

    fn thumbprint(&self) -> String {
        let text = self.required_members().to_string();
        URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()))
    }

    /// The public key as a JWK (RFC 7517).
    pub fn public_jwk(&self) -> Value {
        let mut jwk = self.required_members();
        if let Some(members) = jwk.as_object_mut() {
            members.insert("kid".to_owned(), self.id.as_str().into());
            members.insert("alg".to_owned(), self.algorithm().into());
            members.insert("use".to_owned(), "sig".into());
        }
        jwk
    }

    /// Signs a response. Ed25519 takes about 20 µs, RSA with 2048 bits about 1 ms.
    ///
    /// # Errors
    /// [`KeyError::Randomness`].
    pub fn sign(&self, response: &SignedResponse<'_>) -> Result<String, KeyError> {
        let header = json!({ "alg": self.algorithm(), "typ": "JWT", "kid": self.id });
        let claims = serde_json::to_vec(&response.claims())
            .map_err(|error| KeyError::Format { reason: error.to_string() })?;
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = match &self.pair {
            Pair::Ed25519(pair) => pair.sign(token.as_bytes()).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), token.as_bytes(), &mut signature)
                    .map_err(|_| KeyError::Randomness)?;
                signature
            }
        };
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SigningKey")
            .field("id", &self.id)
            .field("algorithm", &self.algorithm())
            .finish_non_exhaustive()
    }
}

fn rsa(pair: Result<RsaKeyPair, ring::error::KeyRejected>) -> Result<Pair, KeyError> {
    Ok(Pair::Rsa(Box::new(pair.map_err(unusable)?)))
}

fn unusable(error: ring::error::KeyRejected) -> KeyError {
    KeyError::Unusable { reason: error.to_string() }
}
