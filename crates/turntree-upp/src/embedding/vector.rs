//! The numbers of an embedding, in the precision that the vendor sent.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use turntree_core::json::object::Field;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::message::media::Binary;

/// Numbers in the precision that the vendor sent: base64 holds single precision, JSON double. Clones share the
/// numbers.
///
/// Deserializes from a list of numbers, or from base64 of little-endian `f32`. Comparison and serialization use double
/// precision, which represents both exactly.
///
/// ```
/// use turntree_upp::embedding::Vector;
///
/// let listed: Vector = serde_json::from_str("[0.5, -1]")?;
/// let encoded: Vector = serde_json::from_str(r#""AAAAPwAAgL8=""#)?;
/// assert_eq!(listed, encoded);
/// assert_eq!(serde_json::to_string(&encoded)?, "[0.5,-1.0]");
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone)]
pub enum Vector {
    /// Single precision.
    Single(Arc<[f32]>),
    /// Double precision.
    Double(Arc<[f64]>),
}

/// A string that does not encode a vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VectorError {
    /// Not base64.
    #[error("the vector is {0}")]
    Base64(#[from] turntree_core::message::media::Base64Error),
    /// The length is not a multiple of four bytes.
    #[error("the vector has {0} bytes; expected a multiple of 4 (32-bit floats)")]
    Length(usize),
    /// A number is infinite or NaN.
    #[error("the vector's number {0} is not finite")]
    NotFinite(usize),
}

impl Vector {
    /// Decodes base64 of little-endian 32-bit floats.
    ///
    /// # Errors
    /// [`VectorError`] for invalid base64, for remaining bytes, and for numbers that are not finite.
    pub fn from_base64(text: &str) -> Result<Self, VectorError> {
        let bytes = Binary::from_base64(text)?;
        let (numbers, rest) = bytes.as_slice().as_chunks::<4>();
        if !rest.is_empty() {
            return Err(VectorError::Length(bytes.as_slice().len()));
        }
        let numbers: Arc<[f32]> = numbers.iter().map(|number| f32::from_le_bytes(*number)).collect();
        match numbers.iter().position(|number| !number.is_finite()) {
            Some(place) => Err(VectorError::NotFinite(place)),
            None => Ok(Self::Single(numbers)),
        }
    }

    /// How many numbers the vector has.
    pub fn len(&self) -> usize {
        match self {
            Self::Single(numbers) => numbers.len(),
            Self::Double(numbers) => numbers.len(),
        }
    }

    /// True if the vector is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = f64> {
        let (single, double) = match self {
            Self::Single(numbers) => (&**numbers, &[][..]),
            Self::Double(numbers) => (&[][..], &**numbers),
        };
        // One of the two slices is empty; `chain` would not know its length.
        (0..self.len()).map(move |place| {
            let single = single.get(place).map(|number| f64::from(*number));
            single.or_else(|| double.get(place).copied()).unwrap_or_default()
        })
    }

    /// The size of one number in bytes: 4 or 8.
    pub const fn width(&self) -> usize {
        match self {
            Self::Single(_) => size_of::<f32>(),
            Self::Double(_) => size_of::<f64>(),
        }
    }

    /// Appends the numbers in the machine's byte order, each of [`Self::width`] bytes.
    pub fn write_native(&self, out: &mut Vec<u8>) {
        match self {
            Self::Single(numbers) => numbers.iter().for_each(|number| out.extend(number.to_ne_bytes())),
            Self::Double(numbers) => numbers.iter().for_each(|number| out.extend(number.to_ne_bytes())),
        }
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<vector of {}>", self.len())
    }
}

impl PartialEq for Vector {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Single(one), Self::Single(other)) => one == other,
            (Self::Double(one), Self::Double(other)) => one == other,
            _ => self.iter().eq(other.iter()),
        }
    }
}

impl From<Vec<f32>> for Vector {
    fn from(numbers: Vec<f32>) -> Self {
        Self::Single(numbers.into())
    }
}

impl From<Vec<f64>> for Vector {
    fn from(numbers: Vec<f64>) -> Self {
        Self::Double(numbers.into())
    }
}

impl Field for Vector {}

impl JsonSchema for Vector {
    fn schema(_: &mut Definitions) -> serde_json::Value {
        serde_json::json!({ "type": "array", "items": { "type": "number" } })
    }
}

impl Serialize for Vector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Vector;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of numbers, or base64 of 32-bit floats")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Vector, E> {
                Vector::from_base64(text).map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vector, A::Error> {
                let mut numbers: Vec<f64> = Vec::with_capacity(seq.size_hint().unwrap_or(1536));
                while let Some(number) = seq.next_element()? {
                    numbers.push(number);
                }
                Ok(numbers.into())
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}
