//! How long a server asks the client to wait: `Retry-After` and its variants.
//!
//! Spec: UPP-1.2 §13.2

use std::time::Duration;

use ::http::HeaderMap;
use ::http::header::{DATE, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use serde::Deserialize;

/// Reads how long a server asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as an HTTP date.
///
/// A date is compared with the server's own `Date`, so that a clock that is off on either side does no
/// harm; a date in the past means no wait. Anything else is ignored.
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

/// Reads how long Google asks to wait: `RetryInfo.retryDelay` among the details of its error, as `"13s"`.
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
    // Its streams wrap the error in a list.
    let refusal = serde_json::from_slice::<Refusal>(body).ok();
    let refusal = refusal.or_else(|| serde_json::from_slice::<[Refusal; 1]>(body).ok().map(|[only]| only))?;
    let delay = refusal.error.details.into_iter().find_map(|detail| detail.retry_delay)?;
    let seconds = parse_number(delay.trim().strip_suffix('s')?)?;
    Some(scale(Duration::from_secs(1), seconds))
}

fn parse_number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// RFC 9110 §5.6.7 asks for the fixed-length form; its two obsolete forms are not sent any more.
fn parse_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text).ok()
}

/// A multiple of a duration; the longest there is instead of an overflow.
fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

fn milliseconds(number: f64) -> Duration {
    scale(Duration::from_secs(1), number / 1000.0)
}
