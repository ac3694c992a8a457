//! Parses the wait that a server requests: `Retry-After` and its variants.
//!
//! Spec: UPP-1.2 §13.2

use std::time::Duration;

use ::http::HeaderMap;
use ::http::header::{DATE, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use serde::Deserialize;

/// Parses the wait that a server requests: `retry-after-ms`, or `Retry-After` in seconds or as an HTTP date.
///
/// A date is relative to the server's own `Date` header, so that a wrong clock on either side has no effect. A date in
/// the past means no wait. Other values are ignored.
pub fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(number) = text("retry-after-ms").and_then(parse_number) {
        return Some(milliseconds(number.ceil()));
    }
    let wanted = text(RETRY_AFTER.as_str())?;
    if let Some(seconds) = parse_number(wanted) {
        return Some(scale(Duration::from_secs(1), seconds));
    }
    let wanted = parse_date(wanted)?;
    let now = text(DATE.as_str()).and_then(parse_date).unwrap_or_else(Timestamp::now);
    Some(wanted.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

/// Parses the wait that Google requests in the details of an error: `RetryInfo.retryDelay`, for example `"13s"`.
pub(super) fn parse_retry_info(body: &[u8]) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Refusal {
        error: Status,
    }
    #[derive(Deserialize)]
    struct Status {
        details: Vec<Detail>,
    }
    #[derive(Deserialize)]
    struct Detail {
        #[serde(rename = "retryDelay")]
        retry_delay: Option<String>,
    }
    memchr::memmem::find(body, b"retryDelay")?;
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    // Streamed responses wrap the error in a list.
    let refusal = serde_json::from_slice::<Refusal>(body).ok();
    let refusal = refusal.or_else(|| serde_json::from_slice::<[Refusal; 1]>(body).ok().map(|[only]| only))?;
    let delay = refusal.error.details.into_iter().find_map(|detail| detail.retry_delay)?;
    let seconds = parse_number(delay.trim().strip_suffix('s')?)?;
    Some(scale(Duration::from_secs(1), seconds))
}

fn parse_number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// Only the fixed-length form of RFC 9110 §5.6.7; servers no longer send the two obsolete forms.
fn parse_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text).ok()
}

/// Multiplies a duration. An overflow becomes `Duration::MAX`.
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

fn milliseconds(number: f64) -> Duration {
    scale(Duration::from_secs(1), number / 1000.0)
}
