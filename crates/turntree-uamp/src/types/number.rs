//! Numbers that are written as they were read.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};

/// Times in milliseconds are larger than this, times in seconds are smaller: the year 5138 in seconds, March 1973 in
/// milliseconds.
const LARGEST_SECONDS: f64 = 1e11;

/// A JSON number. An integer stays an integer: `1704067200000` is not written as `1704067200000.0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Number(#[serde(deserialize_with = "number")] serde_json::Number);

impl Number {
    /// The value; `None` for NaN and infinity.
    pub fn from_f64(value: f64) -> Option<Self> {
        serde_json::Number::from_f64(value).map(Self)
    }

    /// The value as a double.
    pub fn as_f64(&self) -> f64 {
        self.0.as_f64().unwrap_or(f64::NAN)
    }

    /// The value if it is an integer from 0 to 2^64 - 1.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.as_u64()
    }

    /// A time as seconds since 1970. Some servers send milliseconds: every value above 10^11 counts as
    /// milliseconds.
    pub fn unix_seconds(&self) -> f64 {
        let value = self.as_f64();
        if value > LARGEST_SECONDS { value / 1000.0 } else { value }
    }
}

impl Default for Number {
    fn default() -> Self {
        Self(0.into())
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(value.into())
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(value.into())
    }
}

impl Field for Number {}

impl JsonSchema for Number {
    fn schema(_: &mut Definitions) -> Value {
        json!({ "type": "number" })
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<serde_json::Number, D::Error> {
    serde_json::Number::deserialize(deserializer)
}

/// Milliseconds as seconds, not earlier.
pub(crate) const fn rounded_up(milliseconds: i64) -> i64 {
    milliseconds.saturating_add(999).div_euclid(1000)
}
