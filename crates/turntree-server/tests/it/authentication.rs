//! Credentials of requests, and what may listen without them.

use futures_util::future::{BoxFuture, FutureExt as _};
use http::{StatusCode, header};
use serde_json::json;
use turntree_core::secret::Secret;
use turntree_server::{
    Authenticator, BearerTokens, Principal, Server, ServerConfig, ServerError, Service, TestClient,
};

use crate::application::{Behaviours, Events, RawClient};

/// Knows one token; cannot check another one.
#[derive(Debug)]
struct OneToken;

impl Authenticator for OneToken {
    fn authenticate<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, ServerError>> {
        async move {
            match token {
                "good" => Ok(Some(Principal::new("alice"))),
                "outage" => Err(ServerError::Authenticator { reason: "dns of idp.internal".to_owned() }),
                _ => Ok(None),
            }
        }
        .boxed()
    }
}

fn client() -> (TestClient, Events) {
    let (behaviours, events) = Behaviours::new();
    (TestClient::for_service(Service::new(behaviours).with_authenticator(OneToken)), events)
}

#[tokio::test]
async fn a_valid_token_gives_the_principal() {
    let (client, _events) = client();

    for scheme in ["Bearer", "bearer"] {
        let client = client.clone().with_header(header::AUTHORIZATION, &format!("{scheme} good"));
        let answer = client.get("/who").await.unwrap();
        assert_eq!(answer.json(), json!({"principal": "alice", "peer": false}));
    }
}

#[tokio::test]
async fn a_request_without_valid_credentials_does_not_reach_the_application() {
    let (client, mut events) = client();

    let missing = client.get("/who").await.unwrap();
    let basic = client.clone().with_header(header::AUTHORIZATION, "Basic good").get("/who").await.unwrap();
    let wrong = client.clone().with_token("bad").get("/who").await.unwrap();

    for (answer, challenge) in [
        (missing, "Bearer realm=\"turntree\""),
        (basic, "Bearer realm=\"turntree\""),
        (wrong, "Bearer realm=\"turntree\", error=\"invalid_token\""),
    ] {
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        assert_eq!(answer.header("www-authenticate"), Some(challenge));
    }
    events.try_recv().expect_err("the application was called");
}

#[tokio::test]
async fn an_authenticator_that_fails_hides_its_reason() {
    let (client, _events) = client();

    let answer = client.with_token("outage").get("/who").await.unwrap();

    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!answer.text().contains("idp"), "{}", answer.text());
}

#[tokio::test]
async fn public_requests_and_health_need_no_credentials() {
    let (client, _events) = client();

    assert_eq!(client.get("/public").await.unwrap().status, StatusCode::NOT_FOUND);
    assert_eq!(client.get("/healthz").await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn each_token_of_a_set_has_its_principal() {
    let tokens = ["alice", "bob"].map(|name| (Secret::new(format!("{name}-token")), Principal::new(name)));
    let tokens = BearerTokens::new(tokens);

    for (token, expected) in
        [("alice-token", Some("alice")), ("bob-token", Some("bob")), ("alice-toke", None), ("", None)]
    {
        let found = tokens.authenticate(token).await.unwrap();
        assert_eq!(found.as_ref().map(Principal::id), expected);
    }
    assert_eq!(format!("{tokens:?}"), "BearerTokens(2 tokens)");
}

#[tokio::test]
async fn an_open_address_needs_an_authenticator() {
    let config = ServerConfig { host: "0.0.0.0".to_owned(), ..ServerConfig::default() };

    let error = Server::start(Service::new(Behaviours::new().0), config.clone()).await.unwrap_err();
    assert!(matches!(error, ServerError::AuthenticatorRequired { .. }), "{error}");
    assert!(error.to_string().contains("pass `auth`, or listen on 127.0.0.1"), "{error}");

    let service = Service::new(Behaviours::new().0).with_authenticator(OneToken);
    Server::start(service, config).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let first = Server::start(Service::new(Behaviours::new().0), ServerConfig::default()).await.unwrap();
    let config = ServerConfig { port: first.address().port(), ..ServerConfig::default() };

    let error = Server::start(Service::new(Behaviours::new().0), config).await.unwrap_err();

    assert!(error.to_string().starts_with(&format!("cannot listen on {}: ", first.address())), "{error}");
}

/// The status of a request with these headers over a socket.
async fn status_of(server: &Server, headers: &str) -> String {
    let mut client = RawClient::connect(server.address()).await;
    client.send(&format!("POST /echo HTTP/1.1\r\nContent-Length: 0\r\n{headers}\r\n")).await;
    let answer = client.read_until("\r\n\r\n").await;
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn web_pages_of_other_sites_cannot_use_a_server_without_an_authenticator() {
    let config = ServerConfig { public_host: Some("agents.example".to_owned()), ..ServerConfig::default() };
    let open = Server::start(Service::new(Behaviours::new().0), config.clone()).await.unwrap();
    let service = Service::new(Behaviours::new().0).with_authenticator(OneToken);
    let protected = Server::start(service, ServerConfig::default()).await.unwrap();

    for headers in [
        "Host: 127.0.0.1:8000\r\nOrigin: https://evil.example\r\n",
        "Host: 127.0.0.1:8000\r\nOrigin: http://203.0.113.5\r\n",
        "Host: 127.0.0.1:8000\r\nOrigin: null\r\n",
        "Host: 127.0.0.1:8000\r\nOrigin: \r\n",
        "Host: 127.0.0.1:8000\r\nOrigin: http://localhost.evil.example\r\n",
        "Host: 127.0.0.1:8000\r\nOrigin: http://127.0.0.1@evil.example\r\n",
        // DNS rebinding: the page and the server have one name.
        "Host: evil.example:8000\r\nOrigin: http://evil.example:8000\r\n",
        "Host: evil.example\r\n",
        "Host: 127.0.0.1.evil.example\r\n",
    ] {
        assert_eq!(status_of(&open, headers).await, "403", "{headers}");
        assert_eq!(status_of(&protected, headers).await, "401", "{headers}");
        let token = format!("{headers}Authorization: Bearer good\r\n");
        assert_eq!(status_of(&protected, &token).await, "200", "{headers}");
    }
    for headers in [
        "Host: 127.0.0.1:8000\r\n",
        "Host: a\r\n",
        "Host: LOCALHOST:8000\r\nOrigin: http://localhost:3000\r\n",
        "Host: [::1]:8000\r\nOrigin: http://127.0.0.1:3000\r\n",
        "Host: 192.168.0.5\r\nOrigin: http://192.168.0.5\r\n",
        "Host: agents.example\r\nOrigin: https://agents.example\r\n",
        "Host: 127.0.0.1\r\nOrigin: file://\r\n",
        "Host: 127.0.0.1\r\nOrigin: vscode-webview://x\r\n",
    ] {
        assert_eq!(status_of(&open, headers).await, "200", "{headers}");
    }
}

#[tokio::test]
async fn a_web_page_of_another_site_cannot_open_a_websocket_connection() {
    let server = Server::start(Service::new(Behaviours::new().0), ServerConfig::default()).await.unwrap();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (origin, status) in [("https://evil.example", "403"), ("http://localhost:3000", "101")] {
        let mut client = RawClient::connect(server.address()).await;
        let head = format!("GET /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {origin}\r\n{upgrade}\r\n");
        client.send(&head).await;
        let answer = client.read_until("\r\n\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{origin}: {answer}");
    }
}
