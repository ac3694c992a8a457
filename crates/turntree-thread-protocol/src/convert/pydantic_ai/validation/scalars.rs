//! Formats of numbers, times and bytes that Pydantic accepts in JSON.
//!
//! Pydantic also reads numbers and times from strings, and times from numbers: seconds since 1970, or milliseconds for
//! large numbers.

use super::values::{elements, text_of};

/// The limit of integers that Pydantic reads from numbers with a fraction or an exponent.
const PAST_INTEGERS: f64 = 9.2e18;

/// True if Pydantic reads it as a boolean.
pub(super) fn is_boolean(json: &str) -> bool {
    const BOOLEANS: [&str; 12] = ["0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"];
    match text_of(json) {
        Some(text) => BOOLEANS.iter().any(|word| word.eq_ignore_ascii_case(&text)),
        None => {
            matches!(json, "true" | "false")
                || json.parse::<f64>().is_ok_and(|number| [0.0, 1.0].contains(&number))
        }
    }
}

/// True if the value is falsy in Python; `json` is not an object.
pub(super) fn is_nothing(json: &str) -> bool {
    matches!(json, "null" | "false" | "\"\"")
        || json.parse::<f64>().is_ok_and(|number| number == 0.0)
        || (json.starts_with('[') && elements(json).next().is_none())
}

/// True if Pydantic reads it as an integer of any size.
pub(super) fn is_integer(json: &str) -> bool {
    if let Some(text) = text_of(json) {
        let text = text.trim();
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, zeros) = digits.split_once('.').unwrap_or((digits, "0"));
        return is_grouped(whole) && !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0');
    }
    let digits = json.strip_prefix('-').unwrap_or(json);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    matches!(json, "true" | "false")
        || json.parse::<f64>().is_ok_and(|number| number.fract() == 0.0 && number.abs() < PAST_INTEGERS)
}

/// True for digits in groups between single underscores.
fn is_grouped(digits: &str) -> bool {
    digits.split('_').all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
}

/// True if Pydantic reads it as a number.
pub(super) fn is_number(json: &str) -> bool {
    match text_of(json) {
        Some(text) => text.trim().replace('_', "").parse::<f64>().is_ok(),
        None => matches!(json, "true" | "false") || is_digits(json),
    }
}

/// True if Pydantic reads it as a decimal number.
pub(super) fn is_decimal(json: &str) -> bool {
    match text_of(json) {
        Some(text) => {
            let text = text.trim().replace('_', "");
            // Excludes the names of infinity and NaN, which Rust parses.
            text.bytes().all(|byte| !byte.is_ascii_alphabetic() || matches!(byte, b'e' | b'E'))
                && text.parse::<f64>().is_ok()
        }
        None => is_digits(json) && json.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

fn is_digits(json: &str) -> bool {
    json.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// True for base64 in one alphabet, padded or not, without trailing bits.
pub(super) fn is_base64(json: &str) -> bool {
    text_of(json).and_then(|text| alphabets(&text)).is_some_and(|alphabets| alphabets != STANDARD | URL_SAFE)
}

/// As [`is_base64`], for text that may mix the alphabets.
pub(super) fn is_any_base64(text: &str) -> bool {
    alphabets(text).is_some()
}

/// The alphabets of base64 text; `None` for other text.
fn alphabets(text: &str) -> Option<u8> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let whole = match digits.len() % 4 {
        0 => padding == 0,
        2 => padding <= 2 && leaves_nothing(digits, 0b1111),
        3 => padding <= 1 && leaves_nothing(digits, 0b11),
        _ => false,
    };
    Some(kinds_of_digits(digits.as_bytes())).filter(|kinds| whole && kinds & OTHER == 0)
}

/// True if the last digit has none of these bits.
fn leaves_nothing(digits: &str, bits: u8) -> bool {
    let value = digits.bytes().last().map_or(0, |digit| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        _ => 63,
    });
    value & bits == 0
}

/// Digits of the standard alphabet only, of the URL-safe alphabet only, and other characters.
const STANDARD: u8 = 1;
const URL_SAFE: u8 = 2;
const OTHER: u8 = 4;

/// Classifies digits in blocks without branches, so that long data is fast.
fn kinds_of_digits(digits: &[u8]) -> u8 {
    let mut kinds = 0;
    for block in digits.chunks(256) {
        kinds |= block.iter().fold(0, |kinds, byte| {
            let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
            let digit = byte.wrapping_sub(b'0') < 10;
            let standard = *byte == b'+' || *byte == b'/';
            let url_safe = *byte == b'-' || *byte == b'_';
            let other = !(letter | digit | standard | url_safe);
            kinds
                | (u8::from(standard) * STANDARD)
                | (u8::from(url_safe) * URL_SAFE)
                | (u8::from(other) * OTHER)
        });
        if kinds & OTHER != 0 {
            break;
        }
    }
    kinds
}

/// The first and the last millisecond of Python's `datetime`.
const MILLISECONDS: std::ops::RangeInclusive<f64> = -62_135_596_800_000.0..=253_402_300_799_999.0;
/// Larger numbers are milliseconds.
const MOST_SECONDS: f64 = 2e10;

/// True if Pydantic reads it as a time.
pub(super) fn is_time(json: &str) -> bool {
    let Some(text) = text_of(json) else { return is_digits(json) && is_instant(json) };
    is_date_time(text.as_bytes()).unwrap_or(false)
        || (text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.'))
            && is_instant(&text))
}

fn is_instant(number: &str) -> bool {
    number.parse::<f64>().is_ok_and(|number| {
        let milliseconds = if number.abs() <= MOST_SECONDS { number * 1000.0 } else { number };
        MILLISECONDS.contains(&milliseconds)
    })
}

/// True for a date, or a date and a time. `None` if it is too short.
fn is_date_time(text: &[u8]) -> Option<bool> {
    let [year @ .., _, _, _, _, _, _] = text.get(..10)? else { return None };
    let (year, month, day) = (number(year)?, number(text.get(5..7)?)?, number(text.get(8..10)?)?);
    let is_date = text.get(4) == Some(&b'-')
        && text.get(7) == Some(&b'-')
        && year > 0
        && (1..=12).contains(&month)
        && (1..=days(year, month)).contains(&day);
    let Some((separator, clock)) = text.get(10..)?.split_first() else { return Some(is_date) };
    let is_separated = matches!(separator, b'T' | b't' | b' ' | b'_');
    Some(is_date && is_separated && is_clock(clock)?)
}

fn is_clock(clock: &[u8]) -> Option<bool> {
    let is_hour =
        number(clock.get(..2)?)? < 24 && clock.get(2) == Some(&b':') && number(clock.get(3..5)?)? < 60;
    let mut rest = clock.get(5..)?;
    if let Some(seconds) = rest.strip_prefix(b":") {
        if number(seconds.get(..2)?)? > 59 {
            return Some(false);
        }
        rest = seconds.get(2..)?;
        if let Some(fraction) = rest.strip_prefix(b".").or_else(|| rest.strip_prefix(b",")) {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return Some(false);
            }
            rest = fraction.get(digits..)?;
        }
    }
    Some(is_hour && is_offset(rest)?)
}

fn is_offset(offset: &[u8]) -> Option<bool> {
    let minus = "−".as_bytes();
    let digits = match offset {
        [] | b"Z" | b"z" => return Some(true),
        [b'+' | b'-', digits @ ..] => digits,
        _ => offset.strip_prefix(minus)?,
    };
    let (hours, minutes) = match digits {
        [_, _, b':', minutes @ ..] => (digits.get(..2)?, minutes),
        _ => (digits.get(..2)?, digits.get(2..)?),
    };
    Some(minutes.len() == 2 && number(hours)? < 24 && number(minutes)? < 60)
}

/// The number of a few digits; `None` for other bytes.
fn number(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0')))
}

const fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// True if Pydantic reads it as a duration: ISO 8601, days and a clock, or seconds.
pub(super) fn is_duration(json: &str) -> bool {
    /// The approximate number of seconds of Python's largest `timedelta`.
    const MOST: f64 = 86_399_999_999_999.0;
    let Some(text) = text_of(json) else {
        return is_digits(json) && json.parse::<f64>().is_ok_and(|seconds| seconds.abs() <= MOST);
    };
    let text = text.strip_prefix(['+', '-']).unwrap_or(&text);
    match text.strip_prefix('P') {
        Some(period) => is_period(period),
        None => is_days_and_clock(text),
    }
}

fn is_period(period: &str) -> bool {
    let (days, clock) = period.split_once('T').unwrap_or((period, ""));
    let steps = |text: &str, units: &str| {
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest
                .trim_start_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ','));
            let Some(unit) = digits.chars().next().filter(|_| digits.len() < rest.len()) else {
                return false;
            };
            if !units.contains(unit) {
                return false;
            }
            rest = digits.get(unit.len_utf8()..).unwrap_or_default();
        }
        true
    };
    !(days.is_empty() && clock.is_empty()) && steps(days, "YMWD") && steps(clock, "HMS")
}

fn is_days_and_clock(text: &str) -> bool {
    let digits = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if digits.len() == text.len() {
        return false;
    }
    let clock = match digits.trim_start().strip_prefix('d') {
        Some(word) => {
            let word = word.strip_prefix("ays").or_else(|| word.strip_prefix("ay")).unwrap_or(word);
            let rest = word.trim_start_matches([',', ' ']);
            if rest.is_empty() {
                return true;
            }
            rest
        }
        None => text,
    };
    let clock = clock.strip_prefix(['+', '-']).unwrap_or(clock);
    let fields: Vec<&str> = clock.split(':').collect();
    let is_number =
        |field: &&str| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    matches!(fields.len(), 2 | 3) && fields.iter().all(is_number)
}
