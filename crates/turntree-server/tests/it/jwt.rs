//! JSON Web Tokens with the keys of an issuer that runs in the test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::{BoxFuture, FutureExt as _};
use http::StatusCode;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use turntree_core::time::{Clock as _, SystemClock};
use turntree_server::{
    Application, Authenticator as _, Body, JwtAlgorithm, JwtAuthenticator, JwtConfig, Principal, Request,
    RequestContext, Response, Server, ServerConfig, ServerError, Service,
};

/// A key that signs tokens.
enum Key {
    Ed(Ed25519KeyPair),
    Ec(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl Key {
    fn ed() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    fn ec() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap())
    }

    fn rsa() -> Self {
        Self::Rsa(Box::new(RsaKeyPair::from_pkcs8(include_bytes!("../data/rsa-2048.pk8")).unwrap()))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed(_) => "EdDSA",
            Self::Ec(_) => "ES256",
            Self::Rsa(_) => "RS256",
        }
    }

    fn public(&self, id: &str) -> Value {
        match self {
            Self::Ed(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(key.public_key().as_ref())})
            }
            Self::Ec(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": encode(&point[1..33]), "y": encode(&point[33..])})
            }
            Self::Rsa(key) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": encode(&public.n), "e": encode(&public.e)})
            }
        }
    }

    fn token(&self, id: &str, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm(), "kid": id}), claims)
    }

    fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message =
            format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let (bytes, random) = (message.as_bytes(), SystemRandom::new());
        let signature = match self {
            Self::Ed(key) => key.sign(bytes).as_ref().to_vec(),
            Self::Ec(key) => key.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature).unwrap();
                signature
            }
        };
        format!("{message}.{}", encode(&signature))
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Publishes keys.
#[derive(Debug, Clone, Default)]
struct Issuer {
    /// None: the issuer answers 500.
    keys: Arc<Mutex<Option<Value>>>,
    fetches: Arc<AtomicUsize>,
}

impl Application for Issuer {
    fn call(&self, _request: Request, _context: RequestContext) -> BoxFuture<'_, Response> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        let keys = self.keys.lock().unwrap().clone();
        let response = match keys {
            Some(keys) => Body::json(&keys).into_response(StatusCode::OK),
            None => Body::empty().into_response(StatusCode::NOT_FOUND),
        };
        std::future::ready(response).boxed()
    }
}

impl Issuer {
    fn publish(&self, keys: &[Value]) {
        *self.keys.lock().unwrap() = Some(json!({"keys": keys}));
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    /// The server, and an authenticator with these changes of its settings.
    async fn start(&self, change: impl FnOnce(&mut JwtConfig)) -> (Server, JwtAuthenticator) {
        let server = Server::start(Service::new(self.clone()), ServerConfig::default()).await.unwrap();
        let mut config = JwtConfig::new(format!("{}/jwks", server.url()), "https://issuer.test", "shop");
        config.min_fetch_interval = Duration::ZERO;
        change(&mut config);
        (server, JwtAuthenticator::new(config).unwrap())
    }
}

fn now() -> i64 {
    SystemClock.now().milliseconds() / 1000
}

/// Claims that are accepted, with some replaced; null removes one.
fn claims(changes: &Value) -> Value {
    let mut claims = json!({"iss": "https://issuer.test", "aud": "shop", "sub": "alice", "exp": now() + 600});
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

async fn id(authenticator: &JwtAuthenticator, token: &str) -> Option<String> {
    authenticator.authenticate(token).await.unwrap().map(|principal: Principal| principal.id().to_owned())
}

#[tokio::test]
async fn tokens_of_each_kind_of_key_are_accepted() {
    let (issuer, keys) = (Issuer::default(), [Key::ed(), Key::ec(), Key::rsa()]);
    let published: Vec<_> = keys.iter().map(|key| key.public(key.algorithm())).collect();
    issuer.publish(&[published, vec![json!({"kty": "new", "kid": "x"}), json!(7)]].concat());
    let (_server, authenticator) = issuer.start(|_| ()).await;

    for key in &keys {
        let token = key.token(key.algorithm(), &claims(&json!({"role": "admin", "aud": ["other", "shop"]})));
        let principal = authenticator.authenticate(&token).await.unwrap().unwrap();
        assert_eq!((principal.id(), &principal.claims()["role"]), ("alice", &json!("admin")));
    }
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn claims_that_do_not_fit_are_refused() {
    let (issuer, key) = (Issuer::default(), Key::ed());
    issuer.publish(&[key.public("k")]);
    let (_server, authenticator) = issuer.start(|_| ()).await;

    for change in [
        json!({"exp": now() - 120}),
        json!({"exp": null}),
        json!({"exp": "never"}),
        json!({"nbf": now() + 600}),
        json!({"nbf": "always"}),
        json!({"aud": "bank"}),
        json!({"aud": null}),
        json!({"iss": "https://other.test"}),
        json!({"iss": null}),
        json!({"sub": null}),
        json!({"sub": 7}),
    ] {
        assert_eq!(id(&authenticator, &key.token("k", &claims(&change))).await, None, "{change}");
    }
    assert_eq!(
        id(&authenticator, &key.token("k", &claims(&json!({"exp": now() - 30})))).await.as_deref(),
        Some("alice")
    );
}

#[tokio::test]
async fn signatures_that_do_not_fit_are_refused() {
    let (issuer, key, other) = (Issuer::default(), Key::ed(), Key::ed());
    issuer.publish(&[key.public("k"), Key::rsa().public("r")]);
    let (_server, authenticator) = issuer.start(|_| ()).await;
    let valid = key.token("k", &claims(&json!({})));
    let (message, signature) = valid.rsplit_once('.').unwrap();
    let unsigned = json!({"alg": "none", "kid": "k"});
    // The public key of an issuer as the secret of an HMAC.
    let secret = json!({"alg": "HS256", "kid": "r"});

    for token in [
        other.token("k", &claims(&json!({}))),
        key.token("r", &claims(&json!({}))),
        key.token("unknown", &claims(&json!({}))),
        key.token_with(&unsigned, &claims(&json!({}))),
        key.token_with(&secret, &claims(&json!({}))),
        format!("{message}."),
        format!("{message}x.{signature}"),
        message.to_owned(),
        "a.b.c".to_owned(),
        String::new(),
        "ü".repeat(10_000),
    ] {
        assert_eq!(id(&authenticator, &token).await, None, "{token}");
    }
    assert_eq!(id(&authenticator, &valid).await.as_deref(), Some("alice"));
}

#[tokio::test]
async fn an_algorithm_outside_of_the_list_is_refused() {
    let (issuer, key) = (Issuer::default(), Key::rsa());
    issuer.publish(&[key.public("k")]);
    let (_server, authenticator) = issuer.start(|config| config.algorithms = vec![JwtAlgorithm::EdDsa]).await;

    assert_eq!(id(&authenticator, &key.token("k", &claims(&json!({})))).await, None);
}

#[tokio::test]
async fn a_new_key_is_fetched_when_a_token_names_it() {
    let (issuer, old, new) = (Issuer::default(), Key::ed(), Key::ec());
    issuer.publish(&[old.public("old")]);
    let (_server, authenticator) = issuer.start(|_| ()).await;

    assert!(id(&authenticator, &old.token("old", &claims(&json!({})))).await.is_some());
    issuer.publish(&[new.public("new")]);
    assert!(id(&authenticator, &new.token("new", &claims(&json!({})))).await.is_some());

    assert_eq!(id(&authenticator, &old.token("old", &claims(&json!({})))).await, None);
}

#[tokio::test]
async fn unknown_keys_do_not_make_the_server_fetch_all_the_time() {
    let (issuer, key) = (Issuer::default(), Key::ed());
    issuer.publish(&[key.public("k")]);
    let (_server, authenticator) =
        issuer.start(|config| config.min_fetch_interval = Duration::from_secs(600)).await;

    for number in 0..20 {
        let token = key.token(&format!("unknown-{number}"), &claims(&json!({})));
        assert_eq!(id(&authenticator, &token).await, None);
    }

    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn concurrent_requests_share_one_fetch() {
    let (issuer, key) = (Issuer::default(), Key::ed());
    issuer.publish(&[key.public("k")]);
    let (_server, authenticator) = issuer.start(|_| ()).await;
    let token = key.token("k", &claims(&json!({})));

    let found = futures_util::future::join_all((0..20).map(|_| id(&authenticator, &token))).await;

    assert!(found.iter().all(Option::is_some));
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn old_keys_serve_while_the_issuer_is_down() {
    let (issuer, key) = (Issuer::default(), Key::ed());
    let (_server, authenticator) = issuer.start(|config| config.max_age = Duration::ZERO).await;
    let token = key.token("k", &claims(&json!({})));

    let error = authenticator.authenticate(&token).await.unwrap_err();
    assert!(matches!(error, ServerError::Authenticator { .. }), "{error}");
    issuer.publish(&[key.public("k")]);
    assert!(id(&authenticator, &token).await.is_some());
    *issuer.keys.lock().unwrap() = None;

    assert!(id(&authenticator, &token).await.is_some());
}

#[test]
fn settings_that_accept_everything_are_refused() {
    let config = JwtConfig::new("http://127.0.0.1/jwks", "issuer", "shop");

    for config in [
        JwtConfig { audiences: Vec::new(), ..config.clone() },
        JwtConfig { algorithms: Vec::new(), ..config },
    ] {
        assert!(matches!(JwtAuthenticator::new(config), Err(ServerError::Setting { .. })));
    }
}
