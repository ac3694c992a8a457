//! Points in time, and where they come from. UPP-1.2 §2: ISO 8601 text, UTC with milliseconds and `Z`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::core::json::tagged::CowStr;

/// A point in time with a resolution of one microsecond (what a Python `datetime` holds).
///
/// Written as UTC with three digits of fraction, or six where the last three are not zero: `2024-01-15T10:30:00.000Z`.
/// Read from any ISO 8601 text; one without an offset counts as UTC, digits past the sixth are cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    microseconds: i64,
}

/// A text that is not an ISO 8601 point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not an ISO 8601 date and time; write it like 2024-01-15T10:30:00.000Z")]
pub struct TimestampError {
    text: String,
}

impl Timestamp {
    /// From microseconds since 1970-01-01T00:00:00Z.
    pub const fn from_microseconds(microseconds: i64) -> Self {
        Self { microseconds }
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn microseconds(self) -> i64 {
        self.microseconds
    }

    /// Milliseconds since 1970-01-01T00:00:00Z, rounded down.
    pub const fn milliseconds(self) -> i64 {
        self.microseconds.div_euclid(1_000)
    }

    fn from_instant(instant: jiff::Timestamp) -> Self {
        Self { microseconds: instant.as_microsecond() }
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Ok(Self::from_instant(instant));
        }
        text.parse::<jiff::civil::DateTime>()
            .ok()
            .and_then(|naive| naive.to_zoned(jiff::tz::TimeZone::UTC).ok())
            .map(|zoned| Self::from_instant(zoned.timestamp()))
            .ok_or_else(|| TimestampError { text: text.chars().take(64).collect() })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(instant) = jiff::Timestamp::from_microsecond(self.microseconds) else {
            return Err(fmt::Error);
        };
        if self.microseconds.rem_euclid(1_000) == 0 {
            write!(formatter, "{instant:.3}")
        } else {
            write!(formatter, "{instant:.6}")
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = CowStr::deserialize(deserializer)?;
        text.as_str().parse().map_err(serde::de::Error::custom)
    }
}

/// Tells the time. Machines never look at a clock themselves: a driver hands them one.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now, rounded down to a millisecond (the resolution that UPP-1.2 writes).
    fn now(&self) -> Timestamp;
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let instant = jiff::Timestamp::now();
        Timestamp::from_microseconds(instant.as_millisecond().saturating_mul(1_000))
    }
}

/// A clock that stands still, for tests and snapshots.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn writes_utc_with_milliseconds() {
        for (read, written) in [
            ("2024-01-15T10:30:00Z", "2024-01-15T10:30:00.000Z"),
            ("2024-01-15T12:30:00.5+02:00", "2024-01-15T10:30:00.500Z"),
            ("2024-01-15T10:30:00.123456789Z", "2024-01-15T10:30:00.123456Z"),
            ("2024-01-15T10:30:00", "2024-01-15T10:30:00.000Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ] {
            let timestamp: Timestamp = read.parse().unwrap();
            assert_eq!(timestamp.to_string(), written);
        }
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
