//! HTTP models over loopback sockets: requests, responses, streams and failures.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use turntree::core::http::{DynamicKey, ExponentialBackoff, KeyError, RoundRobinKeys};
use turntree::core::ids::CountingIds;
use turntree::core::secret::Secret;
use turntree::message::StreamEvent;
use turntree::upp::dialect::Dialect;
use turntree::upp::dialects::chat::{ChatDialect, ChatOptions};
use turntree::upp::http_model::HttpModel;
use turntree::upp::providers::anthropic::anthropic;
use turntree::upp::providers::ollama::ollama;
use turntree::upp::providers::openai_chat::openai_chat;
use turntree::upp::{Endpoint, ErrorCode, Model, ModelEvent, ModelResponse, ProviderConfig, UppError};

use crate::support::dialect::{clock, decoded, frames, hello, streamed as decoded_stream};
use crate::support::server::{
    PATIENCE, Recorded, Server, Step, chunk, event_stream, json, last_chunk, response, send,
};

const KEY: &str = "sk-very-secret-0123456789";
/// Longer than the patience of a test: no test reaches it.
const LONG: Duration = Duration::from_secs(60);
const TEXT: &str = include_str!("../../../../../tests/data/upp/chat/text.json");
const TEXT_STREAM: &str = include_str!("../../../../../tests/data/upp/chat/text.sse");

fn config(server: &Server) -> ProviderConfig {
    ProviderConfig::default().with_base_url(server.url("/v1")).with_key(KEY).with_timeout(LONG)
}

fn model_of(dialect: impl Dialect, config: ProviderConfig) -> HttpModel {
    HttpModel::new(Arc::new(dialect), "gpt-4o-mini", config)
        .with_prices(Arc::default())
        .with_sources(Arc::new(CountingIds::default()), Arc::new(clock()))
}

fn model(config: ProviderConfig) -> HttpModel {
    model_of(openai_chat(), config)
}

async fn drain(model: &HttpModel) -> (Vec<StreamEvent>, Result<ModelResponse, UppError>) {
    let (mut events, mut end) = (Vec::new(), None);
    let mut stream = model.stream(hello());
    while let Some(item) = stream.next().await {
        assert!(end.is_none(), "an item after the end");
        match item {
            Ok(ModelEvent::Event(event)) => events.push(event),
            Ok(ModelEvent::Done(response)) => end = Some(Ok(response)),
            Err(error) => end = Some(Err(error)),
        }
    }
    (events, end.expect("the stream ended without a response"))
}

async fn call(server: &Server) -> Result<ModelResponse, UppError> {
    model(config(server)).complete(hello()).await
}

async fn stream_error(steps: Vec<Step>, timeout: Duration) -> (usize, UppError) {
    let server = Server::start([steps]).await;
    let (events, end) = drain(&model(config(&server).with_timeout(timeout))).await;
    (events.len(), end.unwrap_err())
}

fn header<'a>(request: &'a Recorded, name: &str) -> Vec<&'a str> {
    let lines = request.head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

fn whole_stream() -> Vec<Step> {
    vec![event_stream(), chunk(TEXT_STREAM), last_chunk()]
}

#[tokio::test]
async fn a_call_sends_key_path_and_body_and_decodes_the_response() {
    let server = Server::start([json(TEXT)]).await;

    let answer = call(&server).await.unwrap();

    assert_eq!(answer, decoded(&openai_chat(), TEXT, &hello()).unwrap());
    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(header(request, "authorization"), [format!("Bearer {KEY}")]);
    assert_eq!(header(request, "content-type"), ["application/json"]);
    assert_eq!(
        String::from_utf8_lossy(&request.body),
        r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hello"}]}"#
    );
}

#[tokio::test]
async fn a_stream_gives_events_and_the_same_response() {
    let server = Server::start([whole_stream()]).await;

    let (events, end) = drain(&model(config(&server))).await;

    assert_eq!(header(&server.requests()[0], "accept"), ["text/event-stream"]);
    let (expected, response) = decoded_stream(&openai_chat(), frames(TEXT_STREAM), &hello());
    assert_eq!((events, end.unwrap()), (expected, response.unwrap()));
}

#[tokio::test]
async fn a_stream_is_independent_of_chunking() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let bytes = format!("{head}{}", TEXT_STREAM.replace('\n', "\r\n"));
    let server = Server::start([whole_stream(), vec![Step::Drip(bytes.into()), Step::Close]]).await;
    let model = model(config(&server));

    let (whole, one) = drain(&model).await;
    let (dripped, two) = drain(&model).await;

    assert_eq!((whole, one.unwrap().message.text()), (dripped, two.unwrap().message.text()));
}

#[tokio::test]
async fn the_done_marker_ends_a_stream_with_an_open_connection() {
    let server = Server::start([vec![event_stream(), chunk(TEXT_STREAM), Step::AwaitHangUp]]).await;

    let (_, end) = drain(&model(config(&server))).await;

    assert_eq!(end.unwrap().usage.total_tokens, 20);
}

#[tokio::test]
async fn ollama_streams_json_lines_without_a_key() {
    let lines = include_str!("../../../../../tests/data/upp/ollama/text.ndjson");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (one, two) = lines.split_at(lines.len() / 2);
    let server = Server::start([vec![send(head), chunk(one), chunk(two), last_chunk()]]).await;
    let model = model_of(ollama(), ProviderConfig::default().with_base_url(server.url("")));

    let (events, end) = drain(&model).await;

    assert_eq!((events.len(), end.unwrap().message.text()), (6, "Hellö".to_owned()));
    assert!(server.requests()[0].head.starts_with("POST /api/chat "));
    assert!(header(&server.requests()[0], "authorization").is_empty());
}

#[tokio::test]
async fn custom_headers_override_defaults_ignoring_case() {
    let server = Server::start([json(TEXT), json(TEXT)]).await;
    let base = config(&server).with_header("X-Team", "blue").with_header("authorization", "Custom abc");
    let merged = ProviderConfig::default().with_header("x-team", "red").over(&base);
    let keyless = ProviderConfig { api_key: None, ..merged.clone() };

    model(merged).complete(hello()).await.unwrap();
    model(keyless).complete(hello()).await.unwrap();

    for request in server.requests() {
        assert_eq!(header(&request, "authorization"), ["Custom abc"]);
        assert_eq!(header(&request, "x-team"), ["red"]);
    }
}

#[tokio::test]
async fn a_complete_endpoint_url_is_used_unchanged() {
    let server = Server::start([json(TEXT)]).await;
    let url = server.url("/proxy/chat/completions/?tenant=1");

    model(config(&server).with_base_url(url)).complete(hello()).await.unwrap();

    assert!(server.requests()[0].head.starts_with("POST /proxy/chat/completions?tenant=1 "));
}

#[tokio::test]
async fn the_key_strategy_is_called_for_each_call() {
    let server = Server::start([json(TEXT), whole_stream(), json(TEXT)]).await;
    let keys = RoundRobinKeys::new(["one", "two"].map(Secret::from)).unwrap();
    let rotating = model(config(&server).with_key_strategy(keys));
    let dynamic = model(config(&server).with_key_strategy(DynamicKey(|| async {
        tokio::task::yield_now().await;
        Ok(Secret::from("three"))
    })));

    rotating.complete(hello()).await.unwrap();
    drain(&rotating).await.1.unwrap();
    dynamic.complete(hello()).await.unwrap();

    let sent: Vec<_> =
        server.requests().iter().map(|request| header(request, "authorization").join(",")).collect();
    assert_eq!(sent, ["Bearer one", "Bearer two", "Bearer three"]);
}

#[tokio::test]
async fn without_a_key_no_request_is_sent() {
    let server = Server::start([]).await;
    let failing = DynamicKey(|| async { Err(KeyError::Failed { message: "vault closed".to_owned() }) });

    let failed = model(config(&server).with_key_strategy(failing)).complete(hello()).await.unwrap_err();
    let blank = model(config(&server).with_key(" ")).complete(hello()).await.unwrap_err();

    assert_eq!((failed.code, blank.code), (ErrorCode::AuthenticationFailed, ErrorCode::AuthenticationFailed));
    assert!(failed.message.contains("vault closed"));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_missing_key_error_names_the_environment_variable() {
    let options = ChatOptions {
        endpoint: Endpoint::vendor("host", "http://127.0.0.1:9", &["TURNTREE_TEST_UNSET_KEY"]),
        ..ChatOptions::new("host", "http://127.0.0.1:9")
    };

    let error =
        model_of(ChatDialect::new(options), ProviderConfig::default()).complete(hello()).await.unwrap_err();

    assert_eq!(error.code, ErrorCode::AuthenticationFailed);
    assert_eq!(
        error.message,
        "no API key: set the environment variable TURNTREE_TEST_UNSET_KEY, or pass api_key="
    );
}

#[tokio::test]
async fn statuses_map_to_codes_with_request_id_and_retry_after() {
    let cases = [
        (
            "400 Bad Request",
            r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#,
            ErrorCode::ContextLengthExceeded,
        ),
        ("400 Bad Request", r#"{"error":{"message":"bad"}}"#, ErrorCode::InvalidRequest),
        ("401 Unauthorized", r#"{"error":{"message":"no"}}"#, ErrorCode::AuthenticationFailed),
        ("402 Payment Required", "{}", ErrorCode::QuotaExceeded),
        ("404 Not Found", "<html>no</html>", ErrorCode::InvalidRequest),
        (
            "404 Not Found",
            r#"{"error":{"code":"model_not_found","message":"no such model"}}"#,
            ErrorCode::ModelNotFound,
        ),
        ("429 Too Many Requests", r#"{"error":{"message":"slow"}}"#, ErrorCode::RateLimited),
        ("500 Internal Server Error", "", ErrorCode::ProviderError),
        ("503 Service Unavailable", "overloaded", ErrorCode::ProviderError),
    ];
    for (status, body, code) in cases {
        let answer = response(status, &[("x-request-id", "req_9"), ("Retry-After", "7")], body);
        let server = Server::start([answer.clone(), answer]).await;

        let whole = call(&server).await.unwrap_err();
        let (events, streamed) = drain(&model(config(&server))).await;
        let streamed = streamed.unwrap_err();

        assert_eq!((whole.code, streamed.code, events.len()), (code, code, 0), "{status}");
        assert_eq!(whole.status_code.map(|known| status.starts_with(&known.to_string())), Some(true));
        assert_eq!((whole.retry_after, whole.request_id.as_deref()), (Some(7.0), Some("req_9")));
        assert_eq!(whole.message, streamed.message);
        assert!(!whole.message.is_empty() && !whole.message.contains('<'), "{whole}");
    }
}

#[tokio::test]
async fn errors_do_not_contain_the_key() {
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    let server = Server::start([response("401 Unauthorized", &[], &body)]).await;

    let error = call(&server).await.unwrap_err();

    assert_eq!(error.message, "Incorrect API key provided: ***");
    let shown = format!("{error:?} {error} {:?} {:?}", error.cause, model(config(&server)));
    assert!(!shown.contains(KEY), "{shown}");
}

#[tokio::test]
async fn malformed_responses_are_errors() {
    for answer in [
        response("200 OK", &[("Content-Type", "application/json")], ""),
        response("200 OK", &[("Content-Type", "application/json")], "{\"choices\":"),
        response("200 OK", &[("Content-Type", "text/html")], "<html>Sign in</html>"),
        response("200 OK", &[("Content-Type", "application/json")], "{\"choices\":[]}"),
    ] {
        let server = Server::start([answer]).await;
        let error = call(&server).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidResponse, "{error}");
        assert_eq!(error.provider, "openai");
    }
}

#[tokio::test]
async fn an_error_in_a_success_response_has_the_request_id() {
    let server = Server::start([json(r#"{"error":{"type":"rate_limit_error","message":"slow"}}"#)]).await;

    let error = call(&server).await.unwrap_err();

    assert_eq!((error.code, error.request_id.as_deref()), (ErrorCode::RateLimited, Some("req_7")));
}

#[tokio::test]
async fn broken_streams_end_with_an_error() {
    let (half, _) = TEXT_STREAM.split_at(TEXT_STREAM.len() * 4 / 5);
    let cut_in_event = half.trim_end();
    let whole_events = &half[..half.rfind("\n\n").unwrap() + 2];
    let error_event =
        "event: error\ndata: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n";
    let cases = [
        (vec![event_stream(), chunk(whole_events), last_chunk()], ErrorCode::InvalidResponse),
        (vec![event_stream(), chunk(cut_in_event), last_chunk()], ErrorCode::InvalidResponse),
        (vec![event_stream(), chunk(whole_events), Step::Close], ErrorCode::NetworkError),
        (vec![event_stream(), chunk(whole_events), Step::Reset], ErrorCode::NetworkError),
        (vec![event_stream(), chunk(whole_events), Step::AwaitHangUp], ErrorCode::Timeout),
        (
            vec![event_stream(), chunk(whole_events), chunk(error_event), last_chunk()],
            ErrorCode::ProviderError,
        ),
    ];
    for (place, (steps, code)) in cases.into_iter().enumerate() {
        let timeout = if code == ErrorCode::Timeout { Duration::from_secs(2) } else { LONG };
        let (events, error) = stream_error(steps, timeout).await;
        assert_eq!(error.code, code, "case {place}: {error}");
        assert!(events > 1, "case {place}: received events come before the error");
    }
    let (_, empty) = stream_error(vec![event_stream(), last_chunk()], LONG).await;
    let (_, json) = stream_error(json(TEXT), LONG).await;
    let (_, silent) = stream_error(vec![Step::AwaitHangUp], Duration::from_millis(200)).await;
    assert_eq!((empty.code, json.code), (ErrorCode::InvalidResponse, ErrorCode::InvalidResponse));
    assert_eq!(silent.code, ErrorCode::Timeout);
    assert!(silent.message.starts_with("Request timed out after 200ms"), "{silent}");
}

#[tokio::test]
async fn a_chat_stream_without_its_end_marker_is_an_error() {
    let cut = TEXT_STREAM.split("data: [DONE]").next().unwrap();
    let steps = || vec![event_stream(), chunk(cut), last_chunk()];
    let server = Server::start([steps(), steps()]).await;

    let (events, strict) = drain(&model(config(&server))).await;
    let lenient = ChatDialect::new(ChatOptions::new("host", "http://127.0.0.1:9"));
    let (_, unknown_host) = drain(&model_of(lenient, config(&server))).await;

    assert_eq!(strict.unwrap_err().code, ErrorCode::InvalidResponse);
    assert!(events.len() > 1, "received events come before the error");
    assert!(unknown_host.is_ok(), "unknown hosts may omit the marker");
}

#[tokio::test]
async fn faults_after_the_end_of_a_stream_are_ignored() {
    let anthropic_stream = concat!(
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"content\":[]}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    for ending in [Step::Close, Step::AwaitHangUp] {
        let steps = |text: &str| vec![event_stream(), chunk(text), ending.clone()];
        let server = Server::start([steps(TEXT_STREAM), steps(anthropic_stream)]).await;
        let config = config(&server).with_timeout(PATIENCE);

        let (_, chat) = drain(&model(config.clone())).await;
        let (_, messages) = drain(&model_of(anthropic::<&str>(&[], &config), config)).await;

        assert!(chat.is_ok(), "{chat:?}");
        assert!(messages.is_ok(), "{messages:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_network_error() {
    let server = Server::start([]).await;
    let closed = ProviderConfig { base_url: Some("http://127.0.0.1:9/v1".to_owned()), ..config(&server) };

    let error = model(closed).complete(hello()).await.unwrap_err();

    assert_eq!(error.code, ErrorCode::NetworkError);
    assert!(error.message.starts_with("Network error: ") && error.cause.is_some(), "{error}");
}

#[tokio::test]
async fn failures_before_the_first_byte_are_retried_if_configured() {
    let retries =
        ExponentialBackoff { base_delay: Duration::from_millis(1), ..ExponentialBackoff::default() };
    let busy = || response("503 Service Unavailable", &[], "");
    let server = Server::start([busy(), json(TEXT), busy(), whole_stream()]).await;
    let model = model(config(&server).with_retries(retries));

    model.complete(hello()).await.unwrap();
    let (_, end) = drain(&model).await;

    assert!(end.is_ok());
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn dropping_a_stream_closes_the_connection_and_an_unpolled_stream_sends_no_request() {
    let mut server =
        Server::start([vec![event_stream(), chunk(TEXT_STREAM.split_at(600).0), Step::AwaitHangUp]]).await;
    let model = model(config(&server));

    drop(model.stream(hello()));
    let mut stream = model.stream(hello());
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Event(_)))));
    drop(stream);

    server.hung_up().await;
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_model_works_without_a_tokio_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start([json(TEXT), whole_stream()]));
    let model = model(config(&server));

    let answer = block_on(model.complete(hello())).unwrap();
    let (events, end) = block_on(drain(&model));

    assert_eq!((answer.message.text(), events.len()), (end.unwrap().message.text(), 5));
}

/// Polls on this thread, outside of tokio.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// Checks that a stream ends with its last event although the host keeps the connection open.
async fn assert_ends_at_the_last_event(dialect: impl Dialect, frames: &[&str], framing: &str) {
    let last = frames.concat();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {framing}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let server = Server::start([vec![send(head), chunk(&last), Step::AwaitHangUp]]).await;
    let model = model_of(dialect, config(&server));

    let drained = tokio::time::timeout(PATIENCE, drain(&model)).await;

    let (_, end) = drained.expect("the stream waits for the host to hang up");
    assert_eq!(end.unwrap().message.content()[0].as_text(), Some("Hi."));
}

#[tokio::test]
async fn a_stream_ends_at_its_last_event_if_the_connection_stays_open() {
    use turntree::upp::providers::{anthropic::anthropic, openai::openai};
    let anthropic = anthropic::<&str>(&[], &ProviderConfig::default());
    let messages = [
        "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Hi.\"}}\n\n",
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    ];
    assert_ends_at_the_last_event(anthropic, &messages, "text/event-stream").await;
    let responses = [
        "data: {\"type\":\"response.created\",\"response\":{}}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"message\",         \"content\":[{\"type\":\"output_text\",\"text\":\"Hi.\"}]}]}}\n\n",
    ];
    assert_ends_at_the_last_event(openai(), &responses, "text/event-stream").await;
    let lines = ["{\"message\":{\"content\":\"Hi.\"}}\n", "{\"done\":true,\"done_reason\":\"stop\"}\n"];
    assert_ends_at_the_last_event(ollama(), &lines, "application/x-ndjson").await;
    let chat = [
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi.\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n",
    ];
    assert_ends_at_the_last_event(openai_chat(), &chat, "text/event-stream").await;
}
