//! The HTTP client against a scripted loopback server with faults.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;
use turntree::core::http::{
    BodyDecoder, BodyStream, Flow, HttpClient, HttpConfig, HttpError, HttpRequest, HttpResponse,
    LinearBackoff, Proxy, ResponseType, RetryPolicy, TimeoutPhase,
};
use turntree::core::sse::{Decoder, SseError};

use crate::support::server::{PATIENCE, Server, Step, chunk, event_stream, json, last_chunk, response};

mod cassette;
mod concurrency;
mod pings;
mod send;
mod stream;
mod transport;

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

impl BodyDecoder for EventData {
    type Item = String;
    type Error = StreamError;

    fn decode(&mut self, bytes: &Bytes, out: &mut Vec<String>) -> Result<Flow, StreamError> {
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

    fn finish(&mut self, out: &mut Vec<String>) -> Result<(), StreamError> {
        self.0.finish(|event| {
            out.push(event.data.into_owned());
            Ok(())
        })
    }
}

type EventStream = BodyStream<String, StreamError>;

/// The default limits without a proxy.
fn config() -> HttpConfig {
    HttpConfig { proxy: Proxy::Direct, ..HttpConfig::default() }
}

fn client(config: &HttpConfig) -> HttpClient {
    HttpClient::isolated(config).unwrap()
}

async fn get(server: &Server, config: &HttpConfig) -> Result<HttpResponse, HttpError> {
    let request = HttpRequest::get(server.url("/v1/thing?key=hidden")).response_type(ResponseType::Json);
    client(config).send(request, &RetryPolicy::default(), &CancellationToken::new()).await
}

async fn open(server: &Server, config: &HttpConfig, retry: &RetryPolicy) -> Result<EventStream, HttpError> {
    let request = HttpRequest::post(server.url("/v1/chat"), "{}").response_type(ResponseType::EventStream);
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

/// Polls on another executor without a tokio context, as on the thread of an asyncio event loop.
#[test]
fn requests_and_streams_can_be_polled_outside_of_tokio() {
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

/// A minimal executor: polls on this thread and parks it until a wake-up.
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
