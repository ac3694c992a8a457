//! How many requests to one host are under way at once, and how long all of it may take.

use std::num::NonZeroUsize;

use futures_util::future::join;

use super::*;

fn one_at_a_time() -> HttpConfig {
    HttpConfig { max_concurrency: NonZeroUsize::new(1), ..config() }
}

fn slow_stream() -> Vec<Step> {
    vec![event_stream(), chunk("data: 1\n\n"), Step::AwaitHangUp]
}

#[tokio::test]
async fn a_place_is_taken_until_the_body_ends() {
    let script =
        vec![event_stream(), chunk("data: 1\n\n"), Step::Wait(Duration::from_millis(150)), last_chunk()];
    let server = Server::start([script, json("2")]).await;
    let limits = one_at_a_time();

    let stream = open(&server, &limits, &RetryPolicy::default()).await.unwrap();
    let begun = std::time::Instant::now();
    let (drained, answer) = join(drain(stream), get(&server, &limits)).await;

    assert_eq!(drained.0, ["1"]);
    assert_eq!(answer.unwrap().body, "2");
    assert!(begun.elapsed() >= Duration::from_millis(100), "the second request did not wait");
}

#[tokio::test]
async fn a_stream_that_is_dropped_gives_its_place_back() {
    let server = Server::start([slow_stream(), json("2")]).await;
    let limits = one_at_a_time();

    drop(open(&server, &limits, &RetryPolicy::default()).await.unwrap());
    let answer = tokio::time::timeout(Duration::from_secs(5), get(&server, &limits)).await;

    assert_eq!(answer.expect("the place was not given back").unwrap().body, "2");
}

#[tokio::test]
async fn who_leaves_the_line_does_not_hold_it_up() {
    let server = Server::start([slow_stream(), json("3")]).await;
    let limits = one_at_a_time();

    let stream = open(&server, &limits, &RetryPolicy::default()).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(50), get(&server, &limits)).await;
    drop(stream);
    let answer = tokio::time::timeout(Duration::from_secs(5), get(&server, &limits)).await;

    assert!(waiting.is_err(), "two were under way at once");
    assert_eq!(answer.expect("the line is stuck").unwrap().body, "3");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn waiting_in_line_counts_for_the_whole_time() {
    let server = Server::start([slow_stream()]).await;
    let limits = one_at_a_time();
    let impatient = HttpConfig { total_deadline: Some(Duration::from_millis(50)), ..limits.clone() };

    let _stream = open(&server, &limits, &RetryPolicy::default()).await.unwrap();
    let error = get(&server, &impatient).await.unwrap_err();

    assert_eq!(phase(&error), Some(TimeoutPhase::Total));
}

#[tokio::test]
async fn google_says_in_the_body_how_long_to_wait() {
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

    let (told, header) = (Duration::from_millis(3500), Duration::from_secs(9));
    assert_eq!(waits, [Some(told), Some(told), Some(header), None]);
}

#[tokio::test]
async fn the_line_is_first_come_first_served() {
    let server = Server::start([slow_stream(), json("1"), json("2"), json("3"), json("4")]).await;
    let limits = one_at_a_time();
    let stream = open(&server, &limits, &RetryPolicy::default()).await.unwrap();

    let mut line = Vec::new();
    for place in 1..=4 {
        let request = HttpRequest::get(server.url(&format!("/{place}"))).response_type(ResponseType::Json);
        let client = client(&limits);
        line.push(tokio::spawn(async move {
            client.send(request, &RetryPolicy::default(), &CancellationToken::new()).await.unwrap()
        }));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    line.remove(1).abort();
    assert_eq!(server.requests().len(), 1, "they did not wait");
    drop(stream);
    for waiting in line {
        waiting.await.unwrap();
    }

    let paths: Vec<String> = server.requests().iter().skip(1).map(|r| r.head[..6].to_owned()).collect();
    assert_eq!(paths, ["GET /1", "GET /3", "GET /4"]);
}

#[tokio::test]
async fn a_wait_before_a_retry_holds_no_place_and_counts_for_the_whole_time() {
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
    let other = tokio::time::timeout(Duration::from_secs(5), get(&server, &limits)).await;
    retrying.abort();
    let hurried = client_of(Some(Duration::from_millis(200)));
    let error = hurried.send(request(), &patient, &CancellationToken::new()).await.unwrap_err();

    assert_eq!(other.expect("who waits for a retry holds a place").unwrap().body, "2");
    assert_eq!(phase(&error), Some(TimeoutPhase::Total));
}
