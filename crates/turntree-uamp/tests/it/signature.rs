//! Signatures of responses.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::Ed25519KeyPair;
use serde_json::json;
use turntree_server::TestClient;
use turntree_uamp::service::AgentService;
use turntree_uamp::signature::{KeyError, SignatureError, SignedResponse, SigningKey, verify};
use turntree_uamp::wires;

const NOW: i64 = 1_800_000_000;
const MESSAGES: &str = r#"[{"role":"user","content":"Grüße"}]"#;

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// A new Ed25519 key.
pub(crate) fn ed25519() -> SigningKey {
    let der = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    SigningKey::parse(&pem("PRIVATE KEY", der.as_ref())).unwrap()
}

fn rsa() -> SigningKey {
    let der = include_bytes!("../../../turntree-server/tests/data/rsa-2048.pk8");
    SigningKey::parse(&pem("PRIVATE KEY", der)).unwrap()
}

fn sign(key: &SigningKey) -> String {
    let response = SignedResponse {
        issuer: "https://example.com/agents/guide",
        audience: Some("alice"),
        response_id: "r1",
        text: "Hello",
        messages: MESSAGES,
        now: NOW,
    };
    key.sign(&response).unwrap()
}

fn jwks(keys: &[&SigningKey]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| key.public_jwk()).collect();
    json!({ "keys": keys }).to_string()
}

#[test]
fn a_signature_proves_the_response_and_the_request() {
    for key in [ed25519(), rsa()] {
        let token = sign(&key);
        let keys = jwks(&[&ed25519(), &key]);
        // The order of members and the spelling of characters do not matter: the JSON is canonical.
        let same = r#"[ {"content": "Gr\u00fc\u00dfe", "role": "user"} ]"#;
        let claims = verify(&token, "Hello", Some(same), &keys, NOW).unwrap();
        assert_eq!((claims.jti.as_str(), claims.aud.as_deref()), ("r1", Some("alice")));
        assert_eq!((claims.iat, claims.exp), (NOW, NOW + 86_400));

        let failure =
            |text, messages, keys: &str, now| verify(&token, text, messages, keys, now).unwrap_err();
        assert_eq!(failure("Hallo", None, &keys, NOW), SignatureError::OtherResponse);
        assert_eq!(failure("Hello", Some("[]"), &keys, NOW), SignatureError::OtherRequest);
        assert!(matches!(failure("Hello", Some("["), &keys, NOW), SignatureError::Input { .. }));
        assert_eq!(failure("Hello", None, &keys, NOW + 86_400), SignatureError::Expired { at: NOW + 86_400 });
        assert_eq!(failure("Hello", None, &jwks(&[&ed25519()]), NOW), SignatureError::UnknownKey);
        assert!(matches!(failure("Hello", None, "{}", NOW), SignatureError::Input { .. }));
    }
}

#[test]
fn a_changed_or_foreign_signature_is_refused() {
    let key = ed25519();
    let (token, keys) = (sign(&key), jwks(&[&key]));
    let parts: Vec<&str> = token.split('.').collect();
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let changed = URL_SAFE_NO_PAD.encode(r#"{"iss":"x"}"#);

    let failure = |token: &str| verify(token, "Hello", None, &keys, NOW).unwrap_err();
    assert_eq!(failure(&format!("{}.{changed}.{}", parts[0], parts[2])), SignatureError::Invalid);
    assert!(matches!(failure(&format!("{none}.{}.", parts[1])), SignatureError::Algorithm { .. }));
    for malformed in ["", ".", "..", "a.b.c", parts[0], &format!("{}.{}", parts[0], parts[1])] {
        assert_eq!(failure(malformed), SignatureError::Malformed, "{malformed}");
    }
}

#[test]
fn keys_are_read_from_pem_and_from_a_jwk_and_others_are_refused() {
    // The key of RFC 8037, appendix A.
    let jwk = r#"{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
                  "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let key = SigningKey::parse(jwk).unwrap();
    assert_eq!(key.id(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    assert!(verify(&sign(&key), "Hello", Some(MESSAGES), &jwks(&[&key]), NOW).is_ok());
    assert!(!format!("{key:?}").contains("nWGxne"));

    for (text, is_format) in [
        ("", true),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", true),
        ("-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----", true),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", false),
        ("{", true),
        (r#"{"kty":"oct","k":"AAAA"}"#, false),
        (r#"{"kty":"OKP","crv":"Ed25519","d":"AAAA","x":"AAAA"}"#, false),
        (r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, false),
    ] {
        let error = SigningKey::parse(text).unwrap_err();
        assert_eq!(matches!(error, KeyError::Format { .. }), is_format, "{text}: {error}");
    }
}

fn client_of(key: &std::sync::Arc<SigningKey>, replies: &[&str]) -> TestClient {
    let mut site = crate::service::site_of([crate::service::served("a", replies)]);
    site.signing_key = Some(std::sync::Arc::clone(key));
    TestClient::new(AgentService::new(site, wires::all()))
}

#[tokio::test]
async fn completions_are_signed_in_the_body_or_after_the_last_frame() {
    let key = std::sync::Arc::new(ed25519());
    let client = client_of(&key, &["one two", "three four"]);
    let jwks = json!({ "keys": [key.public_jwk()] }).to_string();
    let messages = json!([{ "role": "user", "content": "Hi", "name": "Ada" }]);
    let now = turntree_core::time::Clock::now(&turntree_core::time::SystemClock).milliseconds() / 1000;

    let request = json!({ "model": "a", "messages": messages });
    let body = client.post("/v1/chat/completions", &request).await.unwrap().json();
    let signed = body["signature"].as_str().unwrap();
    let claims = verify(signed, "one two", Some(&messages.to_string()), &jwks, now).unwrap();
    assert_eq!((&*claims.iss, &*claims.jti), ("a", body["id"].as_str().unwrap()));

    let request = json!({ "model": "a", "messages": messages, "stream": true });
    let response = client.post("/v1/chat/completions", &request).await.unwrap();
    let text = response.text();
    let (_, after) = text.split_once("data: [DONE]\n\n").unwrap();
    let event = after.lines().find_map(|line| line.strip_prefix("event: "));
    let data = after.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    assert_eq!(event, Some("response_signature"));
    let frame: serde_json::Value = serde_json::from_str(data).unwrap();
    // Clients that read this frame as a chunk find nothing in it.
    assert_eq!((&frame["object"], &frame["choices"]), (&json!("chat.completion.chunk"), &json!([])));
    let signed = frame["signature"].as_str().unwrap();
    assert!(verify(signed, "three four", Some(&messages.to_string()), &jwks, now).is_ok());
    assert!(verify(signed, "three", Some(&messages.to_string()), &jwks, now).is_err());
}

#[tokio::test]
async fn the_public_keys_are_published() {
    let key = std::sync::Arc::new(ed25519());
    let client = client_of(&key, &[]);

    let response = client.get("/.well-known/jwks.json").await.unwrap();
    assert_eq!(response.json(), json!({ "keys": [key.public_jwk()] }));
}
