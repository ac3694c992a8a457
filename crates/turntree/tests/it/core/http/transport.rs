//! Custom transports, which answer requests in process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream;
use turntree::core::http::cassette::{
    Cassette, CassetteMode, CassetteOptions, PlaybackTransport, RecordingTransport,
};
use turntree::core::http::{
    Credentials, PreparedRequest, ReplaceTransport, ResponseBody, Transport, TransportError, TransportFuture,
    TransportResponse,
};

use super::*;

/// Fails `failures` times, then responds with method, path and body in chunks of 3 bytes.
#[derive(Debug, Default)]
struct InProcess {
    failures: usize,
    requests: AtomicUsize,
}

impl Transport for InProcess {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let fails = number < self.failures;
        Box::pin(async move {
            if fails {
                return Err(TransportError::Network { message: "unplugged".to_owned(), source: None });
            }
            let answer = format!("{} {} ", request.method, request.url.path());
            let whole = [answer.as_bytes(), &request.body].concat();
            let chunks: Vec<_> = whole.chunks(3).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
            let mut response = TransportResponse::new(ResponseBody::new(stream::iter(chunks)));
            response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
            Ok(response)
        })
    }

    fn credentials(&self, _request: &HttpRequest) -> Credentials {
        Credentials::Unused
    }
}

#[tokio::test]
async fn a_custom_transport_answers_in_process_with_retries_and_without_credentials() {
    let transport = Arc::new(InProcess { failures: 2, ..InProcess::default() });
    let client = HttpClient::new(Arc::clone(&transport) as Arc<dyn Transport>, &config());
    let request = HttpRequest::post("https://host.invalid/v1", "hello");

    assert_eq!(client.credentials(&request), Credentials::Unused);
    let response = client.send(request, &quick_retries(), &CancellationToken::new()).await.unwrap();

    assert_eq!(response.body, "POST /v1 hello");
    assert_eq!(transport.requests.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn stream_decoding_and_limits_apply_to_custom_transports() {
    let client = |limit| {
        let config = HttpConfig { max_stream: limit, ..config() };
        client(&config).layer(&ReplaceTransport(Arc::new(InProcess::default())))
    };
    let open = async |client: HttpClient| {
        let request = HttpRequest::post("https://host.invalid/v1", "\ndata: 1\n\n")
            .response_type(ResponseType::EventStream);
        client
            .stream(request, &RetryPolicy::default(), &CancellationToken::new(), EventData::default())
            .await
            .unwrap()
    };

    let (items, error) = drain(open(client(1000)).await).await;
    assert_eq!((items, error.is_none()), (vec!["1".to_owned()], true));
    let (_, error) = drain(open(client(5)).await).await;
    assert!(matches!(error, Some(StreamError::Http(HttpError::TooLarge { .. }))), "{error:?}");
}

#[tokio::test]
async fn responses_of_a_custom_transport_are_recorded_and_replayed() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("in_process.json");
    let open = |mode| Cassette::open(&path, CassetteOptions { mode, ..CassetteOptions::default() }).unwrap();
    let send = async |transport: Arc<dyn Transport>| {
        let client = HttpClient::new(transport, &config());
        client
            .send(
                HttpRequest::get("https://host.invalid/x"),
                &RetryPolicy::default(),
                &CancellationToken::new(),
            )
            .await
    };

    let recording = open(CassetteMode::Record);
    let recorded =
        send(Arc::new(RecordingTransport::new(recording.clone(), InProcess::default()))).await.unwrap();
    recording.save().unwrap();
    let playing = Arc::new(PlaybackTransport::new(open(CassetteMode::Replay)));
    let played = send(Arc::clone(&playing) as Arc<dyn Transport>).await.unwrap();

    assert_eq!((&recorded.body, &played.body), (&Bytes::from("GET /x "), &Bytes::from("GET /x ")));
    assert!(matches!(send(playing).await, Err(HttpError::Rejected { .. })));
}
