//! The HTTP client against a loopback server that misbehaves as scripted.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;
use turntree::core::http::{
    BodySink, BodyStream, Expect, ExponentialBackoff, Flow, HttpClient, HttpConfig, HttpError, HttpRequest,
    HttpResponse, LinearBackoff, Proxy, RetryAfterStrategy, RetryPolicy, StatusCode, TimeoutPhase,
};
use turntree::core::secret::Secret;
use turntree::core::sse::{Decoder, SseError};

use crate::support::server::{Server, Step, chunk, event_stream, json, last_chunk, response, send};

/// The data of server-sent events; `[DONE]` ends the content.
#[derive(Default)]
struct EventData(Decoder);

#[derive(Debug)]
enum StreamError {
    Http(HttpError),
    Sse(SseError),
}

impl From<HttpError> for StreamError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl From<SseError> for StreamError {
    fn from(error: SseError) -> Self {
        Self::Sse(error)
    }
}

impl BodySink for EventData {
    type Item = String;
    type Error = StreamError;

    fn chunk(&mut self, bytes: &Bytes, out: &mut Vec<String>) -> Result<Flow, StreamError> {
        let mut flow = Flow::Continue;
        self.0.push(bytes, |event| {
            if event.data == "[DONE]" {
                flow = Flow::Done;
            } else {
                out.push(event.data.into_owned());
            }
            Ok::<_, StreamError>(())
        })?;
        Ok(flow)
    }

    fn end(&mut self, out: &mut Vec<String>) -> Result<(), StreamError> {
        self.0.finish(|event| {
            out.push(event.data.into_owned());
            Ok(())
        })
    }
}

type EventStream = BodyStream<String, StreamError>;

/// Short limits, no proxy, connections of its own: tests do not wait and do not meet.
fn config() -> HttpConfig {
    HttpConfig { proxy: Proxy::Direct, ..HttpConfig::default() }
}

fn client(config: &HttpConfig) -> HttpClient {
    HttpClient::isolated(config).unwrap()
}

async fn get(server: &Server, config: &HttpConfig) -> Result<HttpResponse, HttpError> {
    let request = HttpRequest::get(server.url("/v1/thing?key=hidden")).expect(Expect::Json);
    client(config).send(request, &RetryPolicy::default(), &CancellationToken::new()).await
}

async fn open(server: &Server, config: &HttpConfig, retry: &RetryPolicy) -> Result<EventStream, HttpError> {
    let request = HttpRequest::post(server.url("/v1/chat"), "{}").expect(Expect::EventStream);
    client(config).stream(request, retry, &CancellationToken::new(), EventData::default()).await
}

/// Reads a stream to its end: the items, and the error that ended it.
async fn drain(mut stream: EventStream) -> (Vec<String>, Option<StreamError>) {
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(item) => items.push(item),
            Err(error) => {
                assert!(stream.next().await.is_none(), "a stream ends after its error");
                return (items, Some(error));
            }
        }
    }
    (items, None)
}

fn quick_retries() -> RetryPolicy {
    RetryPolicy::new(LinearBackoff { max_attempts: 3, delay: Duration::from_millis(1) })
}

fn phase(error: &HttpError) -> Option<TimeoutPhase> {
    match error {
        HttpError::Timeout { phase, .. } => Some(*phase),
        _ => None,
    }
}

#[tokio::test]
async fn a_plain_request_is_answered() {
    let server = Server::start([json("{\"ok\":true}")]).await;
    let request = HttpRequest::post(server.url("/v1/chat"), "{\"a\":1}")
        .header("X-Custom", "first")
        .header("x-custom", "second")
        .bearer(&Secret::from("sk-1"))
        .expect(Expect::Json);

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
async fn the_second_request_uses_the_first_ones_connection() {
    let server = Server::start([json("1"), json("2")]).await;
    let client = client(&config());

    for _ in 0..2 {
        let request = HttpRequest::get(server.url("/"));
        client.send(request, &RetryPolicy::default(), &CancellationToken::new()).await.unwrap();
    }

    assert_eq!(server.requests().iter().map(|request| request.connection).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test]
async fn a_body_in_single_bytes_is_put_together() {
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
async fn a_refusal_carries_what_explains_it() {
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
async fn a_page_of_html_is_the_wrong_kind() {
    let page = format!("<html>\n  <h1>Bad gateway</h1>{}", "x".repeat(1000));
    let server = Server::start([response("200 OK", &[("Content-Type", "text/html")], &page)]).await;

    let error = get(&server, &config()).await.unwrap_err();

    let HttpError::ContentType { expected, found, excerpt, .. } = error else { panic!("{error}") };
    assert_eq!((expected, found.as_str()), ("application/json", "text/html"));
    assert!(excerpt.starts_with("<html> <h1>Bad gateway</h1>xxx") && excerpt.len() == 200, "{excerpt}");
}

#[tokio::test]
async fn json_where_events_are_expected_is_the_wrong_kind() {
    let server = Server::start([json("{\"error\":\"no stream\"}")]).await;

    let error = open(&server, &config(), &RetryPolicy::default()).await.unwrap_err();

    assert!(
        matches!(&error, HttpError::ContentType { excerpt, .. } if excerpt.contains("no stream")),
        "{error}"
    );
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
async fn a_refused_connection_is_a_network_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:password@{}/v1?key=hidden", listener.local_addr().unwrap());
    drop(listener);

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
async fn a_reset_before_and_within_the_answer_is_a_network_error() {
    let within = vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), Step::Reset];
    let cut = vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), Step::Close];
    let server = Server::start([vec![Step::Reset], vec![Step::Close], within, cut]).await;

    for _ in 0..4 {
        let error = get(&server, &config()).await.unwrap_err();

        assert!(matches!(error, HttpError::Network { .. }), "{error}");
    }
}

#[tokio::test]
async fn silence_is_a_timeout_of_its_phase() {
    let limit = Duration::from_millis(50);
    let headers_only = send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let mut server = Server::start([vec![Step::AwaitHangUp], vec![headers_only, Step::AwaitHangUp]]).await;

    let headers = get(&server, &HttpConfig { header_timeout: limit, ..config() }).await.unwrap_err();
    server.hung_up().await;
    let idle = get(&server, &HttpConfig { idle_timeout: limit, ..config() }).await.unwrap_err();
    server.hung_up().await;

    assert_eq!((phase(&headers), phase(&idle)), (Some(TimeoutPhase::Headers), Some(TimeoutPhase::Idle)));
    assert!(headers.to_string().contains("took longer than 50 ms to send its headers"), "{headers}");
}

/// A listener whose queue is full answers no further connection.
#[tokio::test]
async fn a_server_that_accepts_nobody_is_a_connect_timeout() {
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
async fn the_deadline_covers_the_stream() {
    let server = Server::start([vec![event_stream(), chunk("data: 1\n\n"), Step::AwaitHangUp]]).await;
    let config = HttpConfig { total_deadline: Some(Duration::from_millis(50)), ..config() };

    let (items, error) = drain(open(&server, &config, &RetryPolicy::default()).await.unwrap()).await;

    assert_eq!(items, ["1"]);
    assert!(
        matches!(&error, Some(StreamError::Http(error)) if phase(error) == Some(TimeoutPhase::Total)),
        "{error:?}"
    );
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
async fn retries_are_counted_and_the_last_failure_is_reported() {
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
async fn a_rate_limit_without_retry_after_waits_the_fallback() {
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

    let sent = tokio::time::timeout(Duration::from_millis(50), get(&server, &config())).await;

    assert!(sent.is_err());
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
async fn wrong_requests_are_explained_without_being_sent() {
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
async fn a_stream_is_decoded_whatever_the_chunks() {
    let half = vec![event_stream(), chunk("data: on"), chunk("e\n\nda"), chunk("ta: two\n\n"), last_chunk()];
    let body = "data: one\r\n\r\ndata: tw\u{f6}\r\n\r\n";
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n";
    let bytes = vec![Step::Drip(format!("{head}{body}").into()), Step::Close];
    let server = Server::start([half, bytes]).await;

    let (first, first_error) = drain(open(&server, &config(), &RetryPolicy::default()).await.unwrap()).await;
    let (second, second_error) =
        drain(open(&server, &config(), &RetryPolicy::default()).await.unwrap()).await;

    assert_eq!((first, second), (vec!["one".into(), "two".into()], vec!["one".into(), "tw\u{f6}".into()]));
    assert!(first_error.is_none() && second_error.is_none());
    assert!(server.requests()[0].head.to_ascii_lowercase().contains("accept-encoding: identity"));
}

#[tokio::test]
async fn many_events_pass_a_slow_consumer_in_order() {
    let text = (0..2000).map(|number| format!("data: {number}\n\n")).collect::<Vec<_>>().concat();
    let server = Server::start([vec![event_stream(), chunk(&text), chunk(&text), last_chunk()]]).await;
    let mut stream = open(&server, &config(), &RetryPolicy::default()).await.unwrap();

    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item.unwrap());
        if items.len() % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }

    let expected: Vec<String> = (0..2000).chain(0..2000).map(|number: u32| number.to_string()).collect();
    assert_eq!(items, expected);
}

#[tokio::test]
async fn a_stream_read_to_its_end_leaves_its_connection() {
    let done = vec![event_stream(), chunk("data: 1\n\ndata: [DONE]\n\n"), last_chunk()];
    let ended = vec![event_stream(), chunk("data: 1\n\n"), last_chunk()];
    let server = Server::start([done, ended, json("1")]).await;
    let client = client(&config());
    let (retry, cancel) = (RetryPolicy::default(), CancellationToken::new());

    for _ in 0..2 {
        let request = HttpRequest::get(server.url("/"));
        let stream = client.stream(request, &retry, &cancel, EventData::default()).await.unwrap();
        assert!(matches!(drain(stream).await, (items, None) if items == ["1"]));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client.send(HttpRequest::get(server.url("/")), &retry, &cancel).await.unwrap();

    assert_eq!(server.requests().iter().map(|request| request.connection).collect::<Vec<_>>(), [1, 1, 1]);
}

#[tokio::test]
async fn a_stream_that_breaks_reports_it_after_its_items() {
    let reset =
        vec![event_stream(), chunk("data: 1\n\n"), Step::Wait(Duration::from_millis(20)), Step::Reset];
    let cut = vec![event_stream(), chunk("data: 1\n\ndata: ha"), Step::Close];
    let server = Server::start([reset, cut]).await;

    for _ in 0..2 {
        let (items, error) = drain(open(&server, &config(), &quick_retries()).await.unwrap()).await;

        assert_eq!(items, ["1"]);
        assert!(matches!(error, Some(StreamError::Http(HttpError::Network { .. }))), "{error:?}");
    }
    assert_eq!(server.requests().len(), 2, "nothing is retried once items are out");
}

#[tokio::test]
async fn a_stream_that_falls_silent_times_out() {
    let mut server = Server::start([vec![event_stream(), chunk("data: 1\n\n"), Step::AwaitHangUp]]).await;
    let config = HttpConfig { idle_timeout: Duration::from_millis(50), ..config() };

    let (items, error) = drain(open(&server, &config, &RetryPolicy::default()).await.unwrap()).await;

    assert_eq!(items, ["1"]);
    assert!(
        matches!(&error, Some(StreamError::Http(error)) if phase(error) == Some(TimeoutPhase::Idle)),
        "{error:?}"
    );
    server.hung_up().await;
}

#[tokio::test]
async fn a_stream_is_retried_before_its_first_byte() {
    let busy = response("503 Busy", &[], "{}");
    let headers_only = vec![event_stream(), Step::Reset];
    let good = vec![event_stream(), chunk("data: 1\n\n"), last_chunk()];
    let server = Server::start([busy, vec![Step::Close], headers_only, good]).await;

    let (items, error) = drain(open(&server, &config(), &quick_retries()).await.unwrap()).await;

    assert_eq!(items, ["1"]);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_stream_without_a_body_ends_at_once() {
    let server = Server::start([vec![event_stream(), last_chunk()]]).await;

    let stream = open(&server, &config(), &RetryPolicy::default()).await.unwrap();

    assert_eq!(stream.status(), StatusCode::OK);
    assert!(matches!(drain(stream).await, (items, None) if items.is_empty()));
}

#[tokio::test]
async fn a_refused_stream_carries_the_body() {
    let server =
        Server::start([response("401 No", &[("Content-Type", "application/json")], "{\"e\":1}")]).await;

    let error = open(&server, &config(), &quick_retries()).await.unwrap_err();

    let HttpError::Status(refusal) = error else { panic!("{error}") };
    assert_eq!((refusal.status, refusal.body.as_ref()), (StatusCode::UNAUTHORIZED, b"{\"e\":1}".as_slice()));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let waiting = vec![event_stream(), chunk("data: 1\n\n"), Step::AwaitHangUp];
    let flooding = vec![event_stream(), Step::Flood(b"9\r\ndata: 1\n\n\r\n".to_vec())];
    let mut server = Server::start([waiting, flooding]).await;

    for _ in 0..2 {
        let mut stream = open(&server, &config(), &RetryPolicy::default()).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), "1");
        drop(stream);
        server.hung_up().await;
    }
}

#[tokio::test]
async fn cancelling_ends_the_stream_even_with_items_left() {
    let scripts = [
        vec![event_stream(), chunk("data: 1\n\ndata: 2\n\n"), Step::AwaitHangUp],
        vec![event_stream(), chunk("data: 1\n\n"), Step::AwaitHangUp],
    ];
    let mut server = Server::start(scripts).await;

    for late in [false, true] {
        let cancel = CancellationToken::new();
        let request = HttpRequest::get(server.url("/"));
        let opening =
            client(&config()).stream(request, &RetryPolicy::default(), &cancel, EventData::default());
        let mut stream = opening.await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), "1");

        let stop = async {
            if late {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            cancel.cancel();
        };
        let ((), next) = futures_util::future::join(stop, stream.next()).await;

        assert!(matches!(next, Some(Err(StreamError::Http(HttpError::Cancelled)))), "{next:?}");
        assert!(stream.next().await.is_none());
        server.hung_up().await;
    }
}

#[tokio::test]
async fn a_decoder_error_ends_the_stream_after_its_items() {
    struct Tiny(EventData);
    impl BodySink for Tiny {
        type Item = String;
        type Error = StreamError;
        fn chunk(&mut self, bytes: &Bytes, out: &mut Vec<String>) -> Result<Flow, StreamError> {
            self.0.chunk(bytes, out)
        }
        fn end(&mut self, out: &mut Vec<String>) -> Result<(), StreamError> {
            self.0.end(out)
        }
    }
    let server =
        Server::start([vec![event_stream(), chunk("data: 1\n\ndata: 0123456789\n\n"), last_chunk()]]).await;
    let sink = Tiny(EventData(Decoder::with_limit(8)));

    let stream = client(&config())
        .stream(HttpRequest::get(server.url("/")), &RetryPolicy::default(), &CancellationToken::new(), sink)
        .await;

    let (items, error) = drain(stream.unwrap()).await;
    assert_eq!(items, ["1"]);
    assert!(matches!(error, Some(StreamError::Sse(SseError::TooLarge { limit: 8 }))), "{error:?}");
}

#[tokio::test]
async fn a_panic_in_a_sink_is_an_error_not_a_hang() {
    struct Broken;
    impl BodySink for Broken {
        type Item = ();
        type Error = HttpError;
        fn chunk(&mut self, bytes: &Bytes, out: &mut Vec<()>) -> Result<Flow, HttpError> {
            assert!(bytes.starts_with(b"good"), "sink is broken");
            out.push(());
            Ok(Flow::Continue)
        }
        fn end(&mut self, _out: &mut Vec<()>) -> Result<(), HttpError> {
            Ok(())
        }
    }
    let late = vec![
        event_stream(),
        chunk("good"),
        Step::Wait(Duration::from_millis(20)),
        chunk("bad"),
        last_chunk(),
    ];
    let server = Server::start([vec![event_stream(), chunk("bad"), last_chunk()], late]).await;
    let client = client(&config());
    let open = || {
        client.stream(HttpRequest::get(server.url("/")), &quick_retries(), &CancellationToken::new(), Broken)
    };

    let at_once = open().await.unwrap_err();
    let mut stream = open().await.unwrap();

    assert!(at_once.to_string().contains("panicked: sink is broken"), "{at_once}");
    assert!(stream.next().await.unwrap().is_ok());
    assert!(matches!(stream.next().await, Some(Err(HttpError::Task(_)))));
    assert!(stream.next().await.is_none());
}

/// As on the thread of an asyncio event loop: no tokio context, a foreign executor.
#[test]
fn everything_may_be_polled_outside_of_tokio() {
    let server_runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let scripts = [
        response("500 Oops", &[], ""),
        json("1"),
        vec![
            event_stream(),
            chunk("data: 1\n\n"),
            Step::Wait(Duration::from_millis(20)),
            chunk("data: 2\n\n"),
            last_chunk(),
        ],
    ];
    let server = server_runtime.block_on(Server::start(scripts));
    let client = HttpClient::shared(&config()).unwrap();
    let (retry, cancel) = (quick_retries(), CancellationToken::new());

    let answer = block_on(client.send(HttpRequest::get(server.url("/")), &retry, &cancel)).unwrap();
    let opening = client.stream(HttpRequest::get(server.url("/")), &retry, &cancel, EventData::default());
    let (items, error) = block_on(async { drain(opening.await.unwrap()).await });

    assert_eq!(answer.body, "1");
    assert_eq!(items, ["1", "2"]);
    assert!(error.is_none(), "{error:?}");
}

/// The smallest executor: polls here, sleeps until woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
