//! Retry and key strategies: UPP-1.2 §13.1–13.3. The clock is paused, so that waits take no time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use turntree::core::http::{
    DynamicKey, EnvironmentKey, ExponentialBackoff, FailedAttempt, HeaderMap, HostFailure, HttpError,
    KeyError, KeyStrategy, LinearBackoff, NoRetry, RetryAfterStrategy, RetryFuture, RetryPolicy,
    RetryStrategy, RoundRobinKeys, StaticKey, StatusCode, StatusError, TimeoutPhase, TokenBucket,
    WeightedKeys, parse_retry_after,
};
use turntree::core::secret::Secret;

fn refusal(status: u16, retry_after: Option<u64>) -> HttpError {
    HttpError::Status(Box::new(StatusError {
        address: "http://host/".to_owned(),
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: "".into(),
        retry_after: retry_after.map(Duration::from_secs),
        request_id: None,
    }))
}

fn network() -> HttpError {
    HttpError::Network { address: "http://host/".to_owned(), message: "reset".to_owned(), source: None }
}

fn timeout(phase: TimeoutPhase) -> HttpError {
    HttpError::Timeout { phase, after: Duration::from_secs(1), address: "http://host/".to_owned() }
}

/// The delays before the retries of a request that always fails.
async fn waits(policy: &RetryPolicy, failure: impl Fn() -> HttpError) -> Vec<Duration> {
    let mut attempts = policy.attempts();
    let mut waits = Vec::new();
    loop {
        attempts.before_request().await.unwrap();
        let start = Instant::now();
        if attempts.after_failure(failure()).await.is_err() {
            return waits;
        }
        waits.push(start.elapsed());
    }
}

fn milliseconds(numbers: &[u64]) -> Vec<Duration> {
    numbers.iter().copied().map(Duration::from_millis).collect()
}

#[tokio::test(start_paused = true)]
async fn without_a_strategy_requests_are_not_retried() {
    assert_eq!(waits(&RetryPolicy::default(), network).await, []);
    assert_eq!(waits(&RetryPolicy::new(NoRetry), network).await, []);
}

#[tokio::test(start_paused = true)]
async fn exponential_backoff_doubles_up_to_its_maximum() {
    let strategy = ExponentialBackoff { max_attempts: 6, jitter: false, ..ExponentialBackoff::default() };

    let waits = waits(&RetryPolicy::new(strategy), network).await;

    assert_eq!(waits, milliseconds(&[1000, 2000, 4000, 8000, 16000, 30000]));
}

#[tokio::test(start_paused = true)]
async fn jitter_scales_delays_by_0_5_to_1_5() {
    for _ in 0..100 {
        let waits = waits(&RetryPolicy::new(ExponentialBackoff::default()), network).await;

        assert_eq!(waits.len(), 3);
        for (wait, base) in waits.into_iter().zip([1000, 2000, 4000]) {
            let base = Duration::from_millis(base);
            assert!(wait >= base / 2 && wait <= base * 3 / 2 + Duration::from_millis(1), "{wait:?} {base:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn linear_backoff_grows_by_its_delay() {
    assert_eq!(
        waits(&RetryPolicy::new(LinearBackoff::default()), || refusal(503, None)).await,
        milliseconds(&[1000, 2000, 3000])
    );
}

#[tokio::test(start_paused = true)]
async fn backoffs_wait_for_a_longer_retry_after() {
    let exponential = ExponentialBackoff { jitter: false, ..ExponentialBackoff::default() };

    assert_eq!(
        waits(&RetryPolicy::new(exponential), || refusal(429, Some(3))).await,
        milliseconds(&[3000, 3000, 4000])
    );
    assert_eq!(
        waits(&RetryPolicy::new(LinearBackoff::default()), || refusal(503, Some(2))).await,
        milliseconds(&[2000, 2000, 3000])
    );
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_limited_by_the_policy() {
    let bound = Duration::from_secs(60);
    let policy = RetryPolicy { retry_after_max: bound, ..RetryPolicy::new(RetryAfterStrategy::default()) };

    assert_eq!(waits(&policy, || refusal(429, Some(86_400))).await, [bound; 3]);
    assert_eq!(
        waits(&RetryPolicy::new(RetryAfterStrategy::default()), || refusal(429, Some(86_400))).await,
        [Duration::from_secs(3600); 3]
    );
}

#[tokio::test(start_paused = true)]
async fn the_retry_after_strategy_retries_rate_limits_only() {
    let policy = RetryPolicy::new(RetryAfterStrategy::default());

    assert_eq!(waits(&policy, || refusal(429, None)).await, [Duration::from_secs(5); 3]);
    assert_eq!(waits(&policy, || refusal(500, Some(1))).await, []);
    assert_eq!(waits(&policy, network).await, []);
}

#[test]
fn only_transient_failures_are_retryable() {
    for status in [408, 429, 500, 502, 503, 504, 529] {
        assert!(refusal(status, None).is_retryable(), "{status}");
    }
    for status in [301, 400, 401, 402, 403, 404, 409, 413, 422, 451] {
        assert!(!refusal(status, None).is_retryable(), "{status}");
    }
    assert!(network().is_retryable() && timeout(TimeoutPhase::Headers).is_retryable());
    assert!(!timeout(TimeoutPhase::Total).is_retryable() && !HttpError::Cancelled.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn a_token_bucket_limits_all_requests_that_share_it() {
    let policy = RetryPolicy::new(TokenBucket::new(2, 1.0, 3));
    let start = Instant::now();
    let mut sent = Vec::new();

    for _ in 0..5 {
        let mut attempts = policy.attempts();
        attempts.before_request().await.unwrap();
        attempts.succeeded().await.unwrap();
        sent.push(start.elapsed().as_millis());
    }

    assert_eq!(sent, [0, 0, 1000, 2000, 3000]);
}

/// The departure times of `count` requests that arrive at once, in order of arrival.
async fn departures(bucket: &TokenBucket, count: usize) -> Vec<u128> {
    let start = Instant::now();
    let waiting = (0..count).map(|_| {
        let turn = bucket.clone().before_request();
        async move {
            turn.await.unwrap();
            start.elapsed().as_millis()
        }
    });
    futures_util::future::join_all(waiting).await
}

#[tokio::test(start_paused = true)]
async fn a_token_bucket_is_fair_and_refills_to_its_size() {
    let bucket = TokenBucket::new(1, 2.0, 3);

    let first = departures(&bucket, 3).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    let later = departures(&bucket, 2).await;

    assert_eq!(first, [0, 500, 1000]);
    assert_eq!(later, [0, 500]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiting_request_takes_no_token() {
    let bucket = TokenBucket::new(1, 1.0, 3);
    bucket.before_request().await.unwrap();
    let start = Instant::now();

    let dropped = tokio::time::timeout(Duration::from_millis(400), bucket.before_request()).await;
    bucket.before_request().await.unwrap();

    assert!(dropped.is_err());
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_token_bucket_of_size_zero_admits_one_request_at_a_time() {
    assert_eq!(departures(&TokenBucket::new(0, 1.0, 3), 2).await, [0, 1000]);
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_strategy_is_the_error_of_the_request() {
    #[derive(Debug)]
    struct Broken;
    impl RetryStrategy for Broken {
        fn delay(&self, _failure: &FailedAttempt<'_>) -> Option<Duration> {
            None
        }
        fn on_failure(&self, _failure: &FailedAttempt<'_>) -> RetryFuture<Option<Duration>> {
            Box::pin(async { Err(HostFailure::new(std::io::Error::other("no idea"))) })
        }
    }
    let mut attempts = RetryPolicy::new(Broken).attempts();

    let error = attempts.after_failure(network()).await.unwrap_err();
    let cancelled = attempts.after_failure(HttpError::Cancelled).await.unwrap_err();

    assert!(matches!(&error, HttpError::Host(failure) if failure.to_string() == "no idea"), "{error:?}");
    assert!(matches!(cancelled, HttpError::Cancelled), "a cancelled request does not call the strategy");
}

#[tokio::test(start_paused = true)]
async fn a_token_bucket_retries_rate_limits_only() {
    let bucket = TokenBucket::new(100, 4.0, 3);

    assert_eq!(
        waits(&RetryPolicy::new(bucket.clone()), || refusal(429, None)).await,
        milliseconds(&[500, 500, 500])
    );
    assert_eq!(
        waits(&RetryPolicy::new(bucket.clone()), || refusal(429, Some(2))).await,
        milliseconds(&[2000; 3])
    );
    assert_eq!(waits(&RetryPolicy::new(bucket), network).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_strategy_with_state_is_forked_for_each_request() {
    #[derive(Debug, Default)]
    struct Once(std::sync::atomic::AtomicBool);
    impl RetryStrategy for Once {
        fn delay(&self, _failure: &FailedAttempt<'_>) -> Option<Duration> {
            let used = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
            (!used).then_some(Duration::ZERO)
        }
        fn fork(&self) -> Option<Arc<dyn RetryStrategy>> {
            Some(Arc::new(Self::default()))
        }
    }
    let policy = RetryPolicy::new(Once::default());

    for _ in 0..2 {
        assert_eq!(waits(&policy, network).await.len(), 1);
    }
}

#[test]
fn retry_after_is_read_in_every_form() {
    let read = |pairs: &[(&'static str, &str)]| {
        let headers: HeaderMap =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        parse_retry_after(&headers)
    };
    let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");

    assert_eq!(read(&[("retry-after", "120")]), Some(Duration::from_secs(120)));
    assert_eq!(read(&[("retry-after", " 0.5 ")]), Some(Duration::from_millis(500)));
    assert_eq!(read(&[("retry-after", "9"), ("retry-after-ms", "250")]), Some(Duration::from_millis(250)));
    assert_eq!(
        read(&[date, ("retry-after", "Wed, 21 Oct 2015 07:30:00 GMT")]),
        Some(Duration::from_secs(120))
    );
    assert_eq!(read(&[date, ("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT")]), Some(Duration::ZERO));
    assert_eq!(read(&[("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT")]), Some(Duration::ZERO));
    assert_eq!(read(&[("retry-after", "1e300")]), Some(Duration::MAX));
    for nonsense in ["soon", "-1", "NaN", "inf", ""] {
        assert_eq!(read(&[("retry-after", nonsense)]), None, "{nonsense}");
    }
    assert_eq!(read(&[]), None);
}

async fn exposed(strategy: &dyn KeyStrategy) -> String {
    strategy.key().await.unwrap().expose().to_owned()
}

#[tokio::test]
async fn round_robin_keys_alternate() {
    let keys = RoundRobinKeys::new(["a", "b", "c"].map(Secret::from)).unwrap();

    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(exposed(&keys).await);
    }

    assert_eq!(seen, ["a", "b", "c", "a"]);
    assert_eq!(RoundRobinKeys::new([]).unwrap_err(), KeyError::Empty { strategy: "RoundRobinKeys" });
}

#[tokio::test]
async fn weighted_keys_are_chosen_by_weight() {
    let keys = WeightedKeys::new([(Secret::from("often"), 3.0), (Secret::from("seldom"), 1.0)]).unwrap();

    let mut often = 0;
    for _ in 0..4000 {
        often += u32::from(exposed(&keys).await == "often");
    }

    assert!((2700..3300).contains(&often), "{often}");
    assert_eq!(WeightedKeys::new([]).unwrap_err(), KeyError::Empty { strategy: "WeightedKeys" });
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            WeightedKeys::new([(Secret::from("a"), weight)]),
            Err(KeyError::Weight { index: 0, .. })
        ));
    }
}

#[tokio::test]
async fn a_key_comes_from_a_function_or_the_environment() {
    let dynamic = DynamicKey(|| async { Ok(Secret::from("made")) });
    let failing = DynamicKey(|| async { Err(KeyError::Failed { message: "vault is closed".to_owned() }) });
    let set = EnvironmentKey::new(["TURNTREE_TEST_NO_SUCH_KEY", "PATH"]);
    let unset = EnvironmentKey::new(["TURNTREE_TEST_NO_SUCH_KEY"]);

    assert_eq!(exposed(&StaticKey(Secret::from("fixed"))).await, "fixed");
    assert_eq!(exposed(&dynamic).await, "made");
    assert_eq!(failing.key().await.unwrap_err().to_string(), "the API key function failed: vault is closed");
    assert_eq!(exposed(&set).await, std::env::var("PATH").unwrap().trim());
    assert_eq!(
        unset.key().await.unwrap_err().to_string(),
        "no API key: set the environment variable TURNTREE_TEST_NO_SUCH_KEY, or pass api_key="
    );
}

#[test]
fn secrets_are_redacted_in_text_and_debug_output() {
    let (short, long) = (Secret::from("12345678"), Secret::from("sk-\u{e4}bcdefgh"));

    assert_eq!(format!("{short} {short:?} {long} {long:?}"), "*** *** sk-\u{e4}...efgh ***");
    assert_eq!(format!("{:?}", StaticKey(long)), "StaticKey(***)");
}

#[tokio::test(start_paused = true)]
async fn every_strategy_stops_after_its_maximum_of_attempts() {
    let busy = || refusal(429, Some(2));
    for (policy, expected) in [
        (
            RetryPolicy::new(ExponentialBackoff { jitter: false, ..ExponentialBackoff::default() }),
            vec![2000, 2000, 4000],
        ),
        (RetryPolicy::new(LinearBackoff::default()), vec![2000, 2000, 3000]),
        (RetryPolicy::new(RetryAfterStrategy::default()), vec![2000; 3]),
        (RetryPolicy::new(TokenBucket::default()), vec![2000; 3]),
        (RetryPolicy::new(NoRetry), vec![]),
    ] {
        assert_eq!(waits(&policy, busy).await, milliseconds(&expected), "{policy:?}");
    }
    for policy in [
        RetryPolicy::new(ExponentialBackoff { max_attempts: 0, ..ExponentialBackoff::default() }),
        RetryPolicy::new(LinearBackoff { max_attempts: 0, ..LinearBackoff::default() }),
        RetryPolicy::new(RetryAfterStrategy { max_attempts: 0, ..RetryAfterStrategy::default() }),
        RetryPolicy::new(TokenBucket::new(1, 1.0, 0)),
    ] {
        assert_eq!(waits(&policy, busy).await, [], "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_token_bucket_share_its_queue() {
    let bucket = TokenBucket::new(1, 1.0, 0);
    let (twin, other) = (bucket.clone(), TokenBucket::new(1, 1.0, 0));
    let start = Instant::now();

    bucket.before_request().await.unwrap();
    other.before_request().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    twin.before_request().await.unwrap();

    assert_eq!(start.elapsed(), Duration::from_secs(1));
}
