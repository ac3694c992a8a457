//! Limits on concurrent requests to one host, the order of waiting requests, and the total deadline.

use std::num::NonZeroUsize;
use std::sync::Mutex;

use futures_util::future::join;

use super::*;

fn one_at_a_time() -> HttpConfig {
    HttpConfig { max_concurrency: NonZeroUsize::new(1), ..config() }
}

fn slow_stream() -> Vec<Step> {
    vec![event_stream(), chunk("data: 1\n\n"), Step::AwaitHangUp]
}

#[tokio::test]
async fn a_permit_is_released_at_the_end_of_the_body() {
    let script =
        vec![event_stream(), chunk("data: 1\n\n"), Step::Wait(Duration::from_millis(150)), last_chunk()];
    let server = Server::start([script, json("2")]).await;
    let limits = one_at_a_time();

    let stream = open(&server, &limits, &RetryPolicy::default()).await.unwrap();
    let ended = Mutex::new(Vec::new());
    let draining = async {
        let (items, _) = drain(stream).await;
        ended.lock().unwrap().push("the stream");
        items
    };
    let getting = async {
        let answer = get(&server, &limits).await;
        ended.lock().unwrap().push("the second request");
        answer
    };
    let (items, answer) = join(draining, getting).await;

    assert_eq!(items, ["1"]);
    assert_eq!(answer.unwrap().body, "2");
    assert_eq!(*ended.lock().unwrap(), ["the stream", "the second request"], "it did not wait");
}

#[tokio::test]
async fn dropping_a_stream_releases_its_permit() {
    let server = Server::start([slow_stream(), json("2")]).await;
    let limits = one_at_a_time();

    drop(open(&server, &limits, &RetryPolicy::default()).await.unwrap());
    let answer = tokio::time::timeout(PATIENCE, get(&server, &limits)).await;

    assert_eq!(answer.expect("the permit was not released").unwrap().body, "2");
}

#[tokio::test]
async fn a_dropped_waiting_request_leaves_the_queue() {
    let server = Server::start([slow_stream(), json("3")]).await;
    let limits = one_at_a_time();

    let stream = open(&server, &limits, &RetryPolicy::default()).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(50), get(&server, &limits)).await;
    drop(stream);
    let answer = tokio::time::timeout(PATIENCE, get(&server, &limits)).await;

    assert!(waiting.is_err(), "two requests ran at once");
    assert_eq!(answer.expect("the queue is stuck").unwrap().body, "3");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn the_total_deadline_includes_time_in_the_queue() {
    let server = Server::start([slow_stream()]).await;
    let limits = one_at_a_time();
    let impatient = HttpConfig { total_deadline: Some(Duration::from_millis(50)), ..limits.clone() };

    let _stream = open(&server, &limits, &RetryPolicy::default()).await.unwrap();
    let error = get(&server, &impatient).await.unwrap_err();

    assert_eq!(phase(&error), Some(TimeoutPhase::Total));
}

#[tokio::test]
async fn the_retry_delay_of_google_is_read_from_the_body() {
    let body = r#"{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.5s"}]}}"#;
    let headers = [("Content-Type", "application/json"), ("Retry-After", "9")];
    let scripts = [
        response("429 Too Many", &headers[..1], body),
        response("429 Too Many", &headers[..1], &format!("[{body}]")),
        response("429 Too Many", &headers, body),
        response("429 Too Many", &headers[..1], &body.replace("3.5s", "soon")),
    ];
    let server = Server::start(scripts).await;

    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(get(&server, &config()).await.unwrap_err().retry_after());
    }

    let (body_delay, header_delay) = (Duration::from_millis(3500), Duration::from_secs(9));
    assert_eq!(waits, [Some(body_delay), Some(body_delay), Some(header_delay), None]);
}

#[tokio::test]
async fn waiting_requests_run_in_order_of_arrival() {
    let server = Server::start([slow_stream(), json("1"), json("2"), json("3"), json("4")]).await;
    let limits = one_at_a_time();
    let stream = open(&server, &limits, &RetryPolicy::default()).await.unwrap();

    let mut queue = Vec::new();
    for place in 1..=4 {
        let request = HttpRequest::get(server.url(&format!("/{place}"))).response_type(ResponseType::Json);
        let client = client(&limits);
        queue.push(tokio::spawn(async move {
            client.send(request, &RetryPolicy::default(), &CancellationToken::new()).await.unwrap()
        }));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    queue.remove(1).abort();
    assert_eq!(server.requests().len(), 1, "they did not wait");
    drop(stream);
    for waiting in queue {
        waiting.await.unwrap();
    }

    let paths: Vec<String> = server.requests().iter().skip(1).map(|r| r.head[..6].to_owned()).collect();
    assert_eq!(paths, ["GET /1", "GET /3", "GET /4"]);
}

#[tokio::test]
async fn a_retry_delay_holds_no_permit_and_counts_towards_the_total_deadline() {
    let slow_down = response("503 Later", &[("Retry-After", "0")], "");
    let server = Server::start([slow_down.clone(), json("2"), slow_down]).await;
    let limits = one_at_a_time();
    let patient = RetryPolicy::new(LinearBackoff { max_attempts: 1, delay: Duration::from_secs(60) });
    let request = || HttpRequest::get(server.url("/")).response_type(ResponseType::Json);
    let client_of = |total_deadline| client(&HttpConfig { total_deadline, ..limits.clone() });

    let retrying = tokio::spawn({
        let (client, request, patient) = (client_of(None), request(), patient.clone());
        async move { client.send(request, &patient, &CancellationToken::new()).await }
    });
    while server.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = tokio::time::timeout(PATIENCE, get(&server, &limits)).await;
    retrying.abort();
    let hurried = client_of(Some(Duration::from_millis(200)));
    let error = hurried.send(request(), &patient, &CancellationToken::new()).await.unwrap_err();

    assert_eq!(other.expect("a request that waits for a retry holds a permit").unwrap().body, "2");
    assert_eq!(phase(&error), Some(TimeoutPhase::Total));
}
