//! Streamed bodies, decoded by the task that reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;
use turntree::core::http::{
    BodyDecoder, Flow, HttpConfig, HttpError, HttpRequest, RetryPolicy, StatusCode, TimeoutPhase,
};
use turntree::core::sse::{Decoder, SseError};

use super::{EventData, StreamError, client, config, drain, open, phase, quick_retries};
use crate::support::server::{
    PATIENCE, Server, Step, chunk, event_stream, json, last_chunk, response, settle,
};

#[tokio::test]
async fn json_instead_of_an_event_stream_is_a_content_type_error() {
    let server = Server::start([json("{\"error\":\"no stream\"}")]).await;

    let error = open(&server, &config(), &RetryPolicy::default()).await.unwrap_err();

    assert!(
        matches!(&error, HttpError::ContentType { excerpt, .. } if excerpt.contains("no stream")),
        "{error}"
    );
}

#[tokio::test]
async fn the_deadline_covers_the_stream() {
    let server = Server::start([vec![event_stream(), chunk("data: 1\n\n"), Step::AwaitHangUp]]).await;
    let config = HttpConfig { total_deadline: Some(Duration::from_secs(3)), ..config() };

    let (items, error) = drain(open(&server, &config, &RetryPolicy::default()).await.unwrap()).await;

    assert_eq!(items, ["1"]);
    assert!(
        matches!(&error, Some(StreamError::Http(error)) if phase(error) == Some(TimeoutPhase::Total)),
        "{error:?}"
    );
}

#[tokio::test]
async fn decoding_is_independent_of_chunking() {
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
async fn a_slow_consumer_receives_all_events_in_order() {
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

/// Gives one item for each chunk and counts them.
struct CountingDecoder(Arc<AtomicUsize>);

impl BodyDecoder for CountingDecoder {
    type Item = ();
    type Error = HttpError;

    fn decode(&mut self, _bytes: &Bytes, out: &mut Vec<()>) -> Result<Flow, HttpError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        out.push(());
        Ok(Flow::Continue)
    }

    fn finish(&mut self, _out: &mut Vec<()>) -> Result<(), HttpError> {
        Ok(())
    }
}

#[tokio::test]
async fn back_pressure_stops_reading_from_the_socket() {
    let mut server = Server::start([vec![event_stream(), Step::Flood(b"1\r\nx\r\n".to_vec())]]).await;
    let decoded = Arc::<AtomicUsize>::default();
    let opening = client(&config()).stream(
        HttpRequest::get(server.url("/")),
        &RetryPolicy::default(),
        &CancellationToken::new(),
        CountingDecoder(decoded.clone()),
    );

    let stream = opening.await.unwrap();

    // One item came with the headers, 256 are buffered, the task holds one.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while decoded.load(Ordering::Relaxed) < 258 {
        assert!(tokio::time::Instant::now() < deadline, "{decoded:?} chunks");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    settle().await;
    assert_eq!(decoded.load(Ordering::Relaxed), 258);
    drop(stream);
    server.hung_up().await;
}

#[tokio::test]
async fn a_stream_past_its_limit_is_refused() {
    let server =
        Server::start([vec![event_stream(), chunk("data: 1\n\n"), chunk("data: 2\n\n"), last_chunk()]]).await;

    let config = HttpConfig { max_stream: 12, ..config() };
    let (items, error) = drain(open(&server, &config, &RetryPolicy::default()).await.unwrap()).await;

    assert_eq!(items, ["1"]);
    assert!(matches!(error, Some(StreamError::Http(HttpError::TooLarge { limit: 12, .. }))), "{error:?}");
}

#[tokio::test]
async fn a_stream_read_to_its_end_returns_its_connection_to_the_pool() {
    let done = vec![event_stream(), chunk("data: 1\n\ndata: [DONE]\n\n"), last_chunk()];
    let ended = vec![event_stream(), chunk("data: 1\n\n"), last_chunk()];
    let server = Server::start([done, ended, json("1")]).await;
    let client = client(&config());
    let (retry, cancel) = (RetryPolicy::default(), CancellationToken::new());

    for _ in 0..2 {
        let request = HttpRequest::get(server.url("/"));
        let stream = client.stream(request, &retry, &cancel, EventData::default()).await.unwrap();
        assert!(matches!(drain(stream).await, (items, None) if items == ["1"]));
        // The rest of the body is read in the background.
        settle().await;
    }
    client.send(HttpRequest::get(server.url("/")), &retry, &cancel).await.unwrap();

    assert_eq!(server.requests().iter().map(|request| request.connection).collect::<Vec<_>>(), [1, 1, 1]);
}

#[tokio::test]
async fn a_broken_stream_returns_its_error_after_its_items() {
    let reset =
        vec![event_stream(), chunk("data: 1\n\n"), Step::Wait(Duration::from_millis(20)), Step::Reset];
    let cut = vec![event_stream(), chunk("data: 1\n\ndata: ha"), Step::Close];
    let server = Server::start([reset, cut]).await;

    for _ in 0..2 {
        let (items, error) = drain(open(&server, &config(), &quick_retries()).await.unwrap()).await;

        assert_eq!(items, ["1"]);
        assert!(matches!(error, Some(StreamError::Http(HttpError::Network { .. }))), "{error:?}");
    }
    assert_eq!(server.requests().len(), 2, "a stream with items is not retried");
}

#[tokio::test]
async fn a_stream_without_new_bytes_times_out() {
    let mut server = Server::start([vec![event_stream(), chunk("data: 1\n\n"), Step::AwaitHangUp]]).await;
    let config = HttpConfig { idle_timeout: Duration::from_secs(2), ..config() };

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
async fn an_error_status_of_a_stream_carries_the_body() {
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
async fn cancelling_ends_a_stream_with_buffered_items() {
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
    impl BodyDecoder for Tiny {
        type Item = String;
        type Error = StreamError;
        fn decode(&mut self, bytes: &Bytes, out: &mut Vec<String>) -> Result<Flow, StreamError> {
            self.0.decode(bytes, out)
        }
        fn finish(&mut self, out: &mut Vec<String>) -> Result<(), StreamError> {
            self.0.finish(out)
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
async fn a_panic_in_a_decoder_is_an_error() {
    struct Broken;
    impl BodyDecoder for Broken {
        type Item = ();
        type Error = HttpError;
        fn decode(&mut self, bytes: &Bytes, out: &mut Vec<()>) -> Result<Flow, HttpError> {
            assert!(bytes.starts_with(b"good"), "decoder is broken");
            out.push(());
            Ok(Flow::Continue)
        }
        fn finish(&mut self, _out: &mut Vec<()>) -> Result<(), HttpError> {
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

    assert!(at_once.to_string().contains("panicked: decoder is broken"), "{at_once}");
    assert!(stream.next().await.unwrap().is_ok());
    assert!(matches!(stream.next().await, Some(Err(HttpError::Task(_)))));
    assert!(stream.next().await.is_none());
}
