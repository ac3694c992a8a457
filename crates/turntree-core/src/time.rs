//! Timestamps and clocks.
//!
//! Spec: UPP-1.2 §2 (ISO 8601 text in UTC with milliseconds and `Z`)

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::json::tagged::CowStr;

/// A point in time with a resolution of one microsecond, as a Python `datetime`.
///
/// Written in UTC with three digits of fraction, or six if the last three are not zero: `2024-01-15T10:30:00.000Z`.
/// Parses any ISO 8601 text; a text without an offset counts as UTC, and digits after the sixth are cut. Years outside 0
/// to 9999 have a sign and six digits, so that every value can be written and parsed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    microseconds: i64,
}

/// A text that is not an ISO 8601 date and time.
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

    /// Calls `use_text` with the text form.
    fn with_text<R>(self, use_text: impl FnOnce(&str) -> R) -> R {
        if let Some((text, length)) = calendar::text(self.microseconds)
            && let Some(Ok(text)) = text.get(..length).map(std::str::from_utf8)
        {
            return use_text(text);
        }
        use_text(&calendar::long_text(self.microseconds))
    }

    fn from_instant(instant: jiff::Timestamp) -> Self {
        Self { microseconds: instant.as_microsecond() }
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        if let Some(microseconds) = calendar::read(text.as_bytes()) {
            return Ok(Self { microseconds });
        }
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
        self.with_text(|text| formatter.write_str(text))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A fast reader and writer of the common form, for years with four digits.
mod calendar {
    const MICROSECONDS_A_SECOND: i64 = 1_000_000;
    const SECONDS_A_DAY: i64 = 86_400;
    /// The calendar repeats after 400 years.
    const DAYS_AN_ERA: i64 = 146_097;
    /// From 0000-03-01 to 1970-01-01.
    const DAYS_TO_EPOCH: i64 = 719_468;

    /// Parses `2024-01-15T10:30:00Z` with zero, three or six digits of fraction; None for other forms.
    pub(super) fn read(text: &[u8]) -> Option<i64> {
        let (year, text) = match text.first()? {
            b'+' | b'-' => text.split_at_checked(7)?,
            _ => text.split_at_checked(4)?,
        };
        let year = match year {
            [b'-', digits @ ..] => -number(digits)?,
            [b'+', digits @ ..] | digits => number(digits)?,
        };
        let (clock, zone) = text.split_at_checked("-01-15T10:30:00".len())?;
        if clock.iter().step_by(3).ne(b"--T::") {
            return None;
        }
        let field = |place: usize| number(clock.get(place..place + 2)?);
        let (month, day) = (field(1)?, field(4)?);
        let (hour, minute, second) = (field(7)?, field(10)?, field(13)?);
        let is_date = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
        let is_time = hour < 24 && minute < 60 && second < 60;
        if !is_date || !is_time {
            return None;
        }
        let zone_at = zone.iter().position(|byte| matches!(byte, b'Z' | b'+'))?;
        let (fraction, zone) = zone.split_at_checked(zone_at)?;
        let microsecond = match fraction {
            [] => 0,
            [b'.', digits @ ..] if digits.len() == 3 => number(digits)? * 1_000,
            [b'.', digits @ ..] if digits.len() == 6 => number(digits)?,
            _ => return None,
        };
        let seconds =
            days_since_epoch(year, month, day) * SECONDS_A_DAY + hour * 3_600 + minute * 60 + second;
        // `i128`, because the first second is not completely inside the range of `i64`.
        let instant = i128::from(seconds) * i128::from(MICROSECONDS_A_SECOND) + i128::from(microsecond);
        matches!(zone, b"Z" | b"+00:00").then(|| i64::try_from(instant).ok()).flatten()
    }

    /// UTC with milliseconds, or with microseconds if they are not zero, in the first bytes of an array; None for a year
    /// that does not have four digits.
    pub(super) fn text(instant: i64) -> Option<([u8; 27], usize)> {
        let (year, month, day, second, microsecond) = parts(instant);
        if !(0..=9999).contains(&year) {
            return None;
        }
        let pairs = [
            (0, year / 100),
            (2, year % 100),
            (5, month),
            (8, day),
            (11, second / 3_600),
            (14, second / 60 % 60),
            (17, second % 60),
            (20, microsecond / 10_000),
            (22, microsecond / 100 % 100),
            (24, microsecond % 100),
        ];
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        for (place, number) in pairs {
            let digits = [number / 10, number % 10]
                .map(|digit| u8::try_from(digit).map_or(b'0', |digit| b'0' + digit));
            text.get_mut(place..place + 2)?.copy_from_slice(&digits);
        }
        if microsecond % 1_000 > 0 {
            return Some((text, text.len()));
        }
        *text.get_mut(23)? = b'Z';
        Some((text, 24))
    }

    /// The text form of years with a sign and six digits.
    pub(super) fn long_text(instant: i64) -> String {
        let (year, month, day, second, microsecond) = parts(instant);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let (digits, fraction) =
            if microsecond % 1_000 > 0 { (6, microsecond) } else { (3, microsecond / 1_000) };
        format!("{year:+07}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:0digits$}Z")
    }

    /// Year, month, day, second of the day and microsecond.
    const fn parts(instant: i64) -> (i64, i64, i64, i64, i64) {
        let seconds = instant.div_euclid(MICROSECONDS_A_SECOND);
        let (year, month, day) = date_of(seconds.div_euclid(SECONDS_A_DAY));
        (year, month, day, seconds.rem_euclid(SECONDS_A_DAY), instant.rem_euclid(MICROSECONDS_A_SECOND))
    }

    fn number(digits: &[u8]) -> Option<i64> {
        let next =
            |number: i64, digit: &u8| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'));
        digits.iter().try_fold(0, next)
    }

    const fn days_of(year: i64, month: i64) -> i64 {
        match month {
            4 | 6 | 9 | 11 => 30,
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            _ => 31,
        }
    }

    /// Years begin in March here, so that a leap day is the last of its year.
    const fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
        let year = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * DAYS_AN_ERA + day_of_era - DAYS_TO_EPOCH
    }

    const fn date_of(days: i64) -> (i64, i64, i64) {
        let days = days + DAYS_TO_EPOCH;
        let (era, day_of_era) = (days.div_euclid(DAYS_AN_ERA), days.rem_euclid(DAYS_AN_ERA));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
        (year, month, day)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = CowStr::deserialize(deserializer)?;
        text.as_str().parse().map_err(serde::de::Error::custom)
    }
}

/// A source of the current time. State machines take it as an argument.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current time, rounded down to a millisecond, the resolution of UPP-1.2.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let instant = jiff::Timestamp::now();
        Timestamp::from_microseconds(instant.as_millisecond().saturating_mul(1_000))
    }
}

/// A clock with a constant time, for tests and snapshots.
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
        for text in
            ["yesterday", "", "2024-02-30T00:00:00Z", "2024-01-15T24:30:00Z", "+999999-01-01T00:00:00Z"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_first_and_last_timestamps_round_trip() {
        for (microseconds, written) in [
            (i64::MIN, "-290308-12-21T19:59:05.224192Z"),
            (i64::MAX, "+294247-01-10T04:00:54.775807Z"),
            (-62_167_219_200_000_001, "-000001-12-31T23:59:59.999999Z"),
            (-62_167_219_200_000_000, "0000-01-01T00:00:00.000Z"),
            (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "+010000-01-01T00:00:00.000Z"),
        ] {
            let timestamp = Timestamp::from_microseconds(microseconds);
            assert_eq!(timestamp.to_string(), written);
            assert_eq!(written.parse(), Ok(timestamp));
        }
    }
}
