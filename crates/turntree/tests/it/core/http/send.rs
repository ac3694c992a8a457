//! Requests with a complete response.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use turntree::core::http::{
    Destinations, ExponentialBackoff, HttpClient, HttpConfig, HttpError, HttpRequest, LinearBackoff, Proxy,
    ResponseType, RetryAfterStrategy, RetryPolicy, StatusCode, TimeoutPhase, is_public,
};
use turntree::core::secret::Secret;

use super::{client, config, get, phase, quick_retries};
use crate::support::server::{Server, Step, chunk, event_stream, json, last_chunk, response, send};

#[tokio::test]
async fn a_request_sends_headers_and_body_and_returns_the_response() {
    let server = Server::start([json("{\"ok\":true}")]).await;
    let request = HttpRequest::post(server.url("/v1/chat"), "{\"a\":1}")
        .header("X-Custom", "first")
        .header("x-custom", "second")
        .bearer(&Secret::from("sk-1"))
        .response_type(ResponseType::Json);

    let answer =
        client(&config()).send(request, &RetryPolicy::default(), &CancellationToken::new()).await.unwrap();

    assert_eq!((answer.status, answer.body.as_ref()), (StatusCode::OK, b"{\"ok\":true}".as_slice()));
    assert_eq!(answer.request_id(), Some("req_7"));
    let [seen] = server.requests().try_into().unwrap();
    let head = seen.head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat http/1.1"), "{head}");
    assert!(head.contains("x-custom: second") && !head.contains("first"), "{head}");
    assert!(
        head.contains("authorization: bearer sk-1") && head.contains("accept: application/json"),
        "{head}"
    );
    assert!(head.contains("user-agent: turntree/"), "{head}");
    assert_eq!(seen.body, b"{\"a\":1}");
}

#[tokio::test]
async fn a_second_request_reuses_the_connection() {
    let server = Server::start([json("1"), json("2")]).await;
    let client = client(&config());

    for _ in 0..2 {
        let request = HttpRequest::get(server.url("/"));
        client.send(request, &RetryPolicy::default(), &CancellationToken::new()).await.unwrap();
    }

    assert_eq!(server.requests().iter().map(|request| request.connection).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn a_body_received_byte_by_byte_is_joined() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world";
    let server = Server::start([vec![Step::Drip(text.into())]]).await;

    assert_eq!(get(&server, &config()).await.unwrap().body, "hello world");
}

#[tokio::test]
async fn an_empty_body_is_an_empty_success() {
    let server = Server::start([json("")]).await;

    assert!(get(&server, &config()).await.unwrap().body.is_empty());
}

#[tokio::test]
async fn an_error_status_carries_request_id_retry_after_and_body_without_secrets() {
    let headers = [("Retry-After", "7"), ("request-id", "req_1"), ("Set-Cookie", "session=cookie-secret")];
    let server =
        Server::start([response("429 Too Many Requests", &headers, "{\"error\":\"slow down\"}")]).await;

    let error = get(&server, &config()).await.unwrap_err();

    assert_eq!((error.retry_after(), error.is_retryable()), (Some(Duration::from_secs(7)), true));
    let text = format!("{error} {error:?}");
    assert!(!text.contains("hidden") && !text.contains("cookie-secret"), "{text}");
    let HttpError::Status(refusal) = error else { panic!("{error}") };
    assert_eq!(
        (refusal.status, refusal.request_id.as_deref()),
        (StatusCode::TOO_MANY_REQUESTS, Some("req_1"))
    );
    assert_eq!(refusal.body, "{\"error\":\"slow down\"}");
    assert!(
        refusal.to_string().ends_with("/v1/thing answered 429 Too Many Requests (request req_1)"),
        "{refusal}"
    );
}

#[tokio::test]
async fn an_html_page_is_a_content_type_error() {
    let page = format!("<html>\n  <h1>Bad gateway</h1>{}", "x".repeat(1000));
    let server = Server::start([response("200 OK", &[("Content-Type", "text/html")], &page)]).await;

    let error = get(&server, &config()).await.unwrap_err();

    let HttpError::ContentType { expected, found, excerpt, .. } = error else { panic!("{error}") };
    assert_eq!((expected, found.as_str()), ("application/json", "text/html"));
    assert!(excerpt.starts_with("<html> <h1>Bad gateway</h1>xxx") && excerpt.len() == 200, "{excerpt}");
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused() {
    let announced = json("0123456789");
    let chunked = vec![event_stream(), chunk("012345"), chunk("6789"), last_chunk()];
    let server = Server::start([announced, chunked]).await;
    let config = HttpConfig { max_body: 8, ..config() };
    let request = || HttpRequest::get(server.url("/"));

    for _ in 0..2 {
        let error = client(&config)
            .send(request(), &RetryPolicy::default(), &CancellationToken::new())
            .await
            .unwrap_err();

        assert!(matches!(error, HttpError::TooLarge { limit: 8, .. }), "{error}");
    }
}

#[tokio::test]
async fn another_limit_of_a_clone_does_not_change_the_client() {
    let server = Server::start([json("0123456789"), json("0123456789")]).await;
    let first = client(&config());
    let limited = first.clone().with_max_body(8);
    let send = |client: HttpClient| {
        let request = HttpRequest::get(server.url("/"));
        client.send(request, &RetryPolicy::default(), &CancellationToken::new())
    };

    let error = send(limited).await.unwrap_err();
    let response = send(first).await.unwrap();

    assert!(matches!(error, HttpError::TooLarge { limit: 8, .. }), "{error}");
    assert_eq!(response.body, "0123456789");
}

#[tokio::test]
async fn a_refused_connection_is_a_network_error() {
    // Bound, so that no other test gets the port, and not listening.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://user:password@{}/v1?key=hidden", socket.local_addr().unwrap());

    let sent = client(&config())
        .send(HttpRequest::get(url), &RetryPolicy::default(), &CancellationToken::new())
        .await;

    let error = sent.unwrap_err();
    assert!(matches!(error, HttpError::Network { .. }) && error.is_retryable(), "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("refused") && text.contains("127.0.0.1"), "{text}");
    assert!(!text.contains("password") && !text.contains("hidden"), "{text}");
}

#[tokio::test]
async fn a_reset_before_or_during_the_response_is_a_network_error() {
    let within = vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), Step::Reset];
    let cut = vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), Step::Close];
    let server = Server::start([vec![Step::Reset], vec![Step::Close], within, cut]).await;

    for _ in 0..4 {
        let error = get(&server, &config()).await.unwrap_err();

        assert!(matches!(error, HttpError::Network { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_silent_server_is_a_timeout_of_the_current_phase() {
    let limit = Duration::from_secs(2);
    let headers_only = send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let mut server = Server::start([vec![Step::AwaitHangUp], vec![headers_only, Step::AwaitHangUp]]).await;

    let headers = get(&server, &HttpConfig { header_timeout: limit, ..config() }).await.unwrap_err();
    server.hung_up().await;
    let idle = get(&server, &HttpConfig { idle_timeout: limit, ..config() }).await.unwrap_err();
    server.hung_up().await;

    assert_eq!((phase(&headers), phase(&idle)), (Some(TimeoutPhase::Headers), Some(TimeoutPhase::Idle)));
    assert!(headers.to_string().contains("took longer than 2000 ms to send its headers"), "{headers}");
}

/// A listener with a full queue accepts no further connection.
#[tokio::test]
async fn a_server_that_accepts_no_connection_is_a_connect_timeout() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(connected) =
        tokio::time::timeout(Duration::from_millis(50), tokio::net::TcpStream::connect(address)).await
    {
        queued.push(connected.unwrap());
    }
    let config = HttpConfig { connect_timeout: Duration::from_millis(50), ..config() };
    let request = HttpRequest::get(format!("http://{address}/"));

    let sent = client(&config).send(request, &RetryPolicy::default(), &CancellationToken::new()).await;

    let error = sent.unwrap_err();
    assert_eq!(phase(&error), Some(TimeoutPhase::Connect), "{error}");
}

#[tokio::test]
async fn the_deadline_covers_waits_between_attempts() {
    let server = Server::start([response("503 Busy", &[], "")]).await;
    let config = HttpConfig { total_deadline: Some(Duration::from_millis(50)), ..config() };
    let retry = RetryPolicy::new(ExponentialBackoff::default());

    let sent =
        client(&config).send(HttpRequest::get(server.url("/")), &retry, &CancellationToken::new()).await;

    assert_eq!(phase(&sent.unwrap_err()), Some(TimeoutPhase::Total));
}

#[tokio::test]
async fn failures_are_retried_until_success() {
    let server = Server::start([
        response("500 Oops", &[], ""),
        vec![Step::Reset],
        response("429 Slow", &[("Retry-After", "0")], ""),
        json("3"),
    ])
    .await;
    let request = HttpRequest::post(server.url("/"), "body");

    let answer = client(&config()).send(request, &quick_retries(), &CancellationToken::new()).await.unwrap();

    assert_eq!(answer.body, "3");
    assert_eq!(
        server.requests().iter().map(|request| request.body.as_slice()).collect::<Vec<_>>(),
        [b"body"; 4]
    );
}

#[tokio::test]
async fn the_last_failure_is_returned_after_the_maximum_of_retries() {
    let server = Server::start((500..504).map(|status| response(&format!("{status} Oops"), &[], ""))).await;

    let sent = client(&config())
        .send(HttpRequest::get(server.url("/")), &quick_retries(), &CancellationToken::new())
        .await;

    assert_eq!(sent.unwrap_err().status(), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_bad_request_is_not_retried() {
    let server = Server::start([response("400 Bad", &[], "")]).await;

    let sent = client(&config())
        .send(HttpRequest::get(server.url("/")), &quick_retries(), &CancellationToken::new())
        .await;

    assert_eq!(sent.unwrap_err().status(), Some(StatusCode::BAD_REQUEST));
}

#[tokio::test]
async fn a_rate_limit_without_retry_after_waits_for_the_fallback_delay() {
    let server = Server::start([response("429 Slow", &[], ""), json("1")]).await;
    let strategy = RetryAfterStrategy { fallback_delay: Duration::from_millis(1), ..Default::default() };

    let sent = client(&config())
        .send(HttpRequest::get(server.url("/")), &RetryPolicy::new(strategy), &CancellationToken::new())
        .await;

    assert_eq!(sent.unwrap().body, "1");
}

#[tokio::test]
async fn cancelling_stops_the_wait_between_attempts() {
    let server = Server::start([response("500 Oops", &[], "")]).await;
    let cancel = CancellationToken::new();
    let retry = RetryPolicy::new(LinearBackoff { max_attempts: 3, delay: Duration::from_secs(600) });
    let sending = client(&config()).send(HttpRequest::get(server.url("/")), &retry, &cancel);

    let stop = async {
        server.requested().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    };
    let (sent, ()) = futures_util::future::join(sending, stop).await;

    assert!(matches!(sent, Err(HttpError::Cancelled)), "{sent:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn dropping_the_future_closes_the_connection() {
    let mut server = Server::start([vec![Step::AwaitHangUp]]).await;
    let config = config();

    {
        let sending = std::pin::pin!(get(&server, &config));
        let arrived = std::pin::pin!(server.requested());
        let first = futures_util::future::select(sending, arrived).await;
        assert!(matches!(first, futures_util::future::Either::Right(_)));
    }

    server.hung_up().await;
}

#[tokio::test]
async fn redirects_do_not_leave_the_origin() {
    let elsewhere = response("307 Away", &[("Location", "http://127.0.0.1:9/elsewhere")], "");
    let changed = response("302 Away", &[("Location", "/other")], "");
    let here = response("307 Here", &[("Location", "/other")], "");
    let server = Server::start([elsewhere, changed, here, json("1")]).await;

    assert_eq!(get(&server, &config()).await.unwrap_err().status(), Some(StatusCode::TEMPORARY_REDIRECT));
    assert_eq!(get(&server, &config()).await.unwrap_err().status(), Some(StatusCode::FOUND));
    assert_eq!(get(&server, &config()).await.unwrap().body, "1");
}

#[tokio::test]
async fn invalid_requests_are_refused_before_they_are_sent() {
    let client = client(&config());
    let send = |request| client.send(request, &RetryPolicy::default(), &CancellationToken::new());

    let url = send(HttpRequest::get("ftp://host/?key=hidden")).await.unwrap_err();
    let header = send(HttpRequest::get("http://host/").header("x-api-key", "sk-1\n")).await.unwrap_err();

    assert_eq!(
        url.to_string(),
        "cannot make the request: the URL is not http or https; give a whole one such as https://host/path"
    );
    assert!(header.to_string().contains("x-api-key has line breaks") && !header.to_string().contains("sk-1"));
}

#[tokio::test]
async fn tls_to_a_plaintext_server_is_a_network_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let request = HttpRequest::get(format!("https://{}/", listener.local_addr().unwrap()));
    let client = client(&config());

    let (retry, cancel) = (RetryPolicy::default(), CancellationToken::new());
    let sending = client.send(request, &retry, &cancel);
    let answering = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        socket
    };
    let (sent, _socket) = futures_util::future::join(sending, answering).await;

    let error = sent.unwrap_err();
    assert!(matches!(&error, HttpError::Network { message, .. } if message.contains("corrupt")), "{error}");
}

#[test]
fn an_invalid_proxy_url_is_an_error_without_the_password() {
    let config = HttpConfig { proxy: Proxy::Url(Secret::from("http://user:password@[")), ..config() };

    let error = HttpClient::shared(&config).unwrap_err();

    assert_eq!(
        error.to_string(),
        "cannot make the request: the proxy URL does not parse; give one such as http://host:port"
    );
    assert!(!format!("{error:?} {config:?}").contains("password"));
}

#[tokio::test]
async fn a_proxy_receives_requests_for_other_hosts() {
    let server = Server::start([json("1")]).await;
    let config = HttpConfig { proxy: Proxy::Url(Secret::from(server.url(""))), ..config() };
    let request = HttpRequest::get("http://models.invalid/v1/thing");

    let answer =
        client(&config).send(request, &RetryPolicy::default(), &CancellationToken::new()).await.unwrap();

    assert_eq!(answer.body, "1");
    let head = &server.requests()[0].head;
    assert!(head.starts_with("GET http://models.invalid/v1/thing HTTP/1.1\r\n"), "{head}");
}

#[tokio::test]
async fn a_client_for_public_addresses_connects_to_no_other_one() {
    let server = Server::start([json("1")]).await;
    let config = HttpConfig { destinations: Destinations::Public, ..config() };
    let by_name = server.url("/v1/thing").replace("127.0.0.1", "localhost");

    for url in [server.url("/v1/thing"), by_name.clone(), "http://[::ffff:10.0.0.1]/".to_owned()] {
        let request = HttpRequest::get(url.clone());
        let error = client(&config).send(request, &RetryPolicy::default(), &CancellationToken::new()).await;
        assert!(error.unwrap_err().to_string().contains("only public addresses are allowed"), "{url}");
    }
    assert!(server.requests().is_empty());

    // The operator chooses the proxy.
    let proxy = Proxy::Url(Secret::from(by_name.trim_end_matches("/v1/thing")));
    let request = HttpRequest::get("http://models.invalid/v1/thing");
    let behind = client(&HttpConfig { proxy, ..config });
    let answer = behind.send(request, &RetryPolicy::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!(answer.body, "1");
}

#[test]
fn addresses_of_private_networks_are_not_public() {
    for address in [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "fe80::1",
        "fc00::1",
        "ff02::1",
    ] {
        assert!(!is_public(address.parse().unwrap()), "{address}");
    }
    for address in ["8.8.8.8", "100.63.255.255", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8"] {
        assert!(is_public(address.parse().unwrap()), "{address}");
    }
}
