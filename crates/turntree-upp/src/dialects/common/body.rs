//! Writes request bodies, without intermediate JSON values.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::UppError;
use turntree_core::json::{RawJson, RawObject};

/// Writes the body of a request: the dialect's members, then the caller's parameters of other names.
///
/// A member that was written or [reserved](Self::reserve) takes precedence over a parameter of the same name (UPP-1.2
/// §19.0: "params spread first, then adapter-owned keys overwrite"). No name is written twice.
///
/// ```
/// use turntree_core::json::RawObject;
/// use turntree_upp::dialects::common::BodyWriter;
///
/// let params: RawObject = serde_json::from_str(r#"{"model":"theirs","top_p":0.50}"#)?;
/// let mut body = BodyWriter::new("vendor", &params);
/// body.member("model", "ours").unwrap();
/// assert_eq!(body.finish(), br#"{"model":"ours","top_p":0.50}"#);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug)]
pub struct BodyWriter<'a> {
    provider: &'a str,
    params: &'a RawObject,
    bytes: Vec<u8>,
    owned: Vec<&'static str>,
}

/// Initial capacity for the small members of a body.
const FIRST_CAPACITY: usize = 1024;

impl<'a> BodyWriter<'a> {
    /// Starts a body; `provider` is used in errors.
    pub fn new(provider: &'a str, params: &'a RawObject) -> Self {
        let mut bytes = Vec::with_capacity(FIRST_CAPACITY);
        bytes.push(b'{');
        Self { provider, params, bytes, owned: Vec::with_capacity(8) }
    }

    /// Writes a member.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) if the value cannot be serialized.
    pub fn member<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), UppError> {
        self.owned.push(name);
        write_member(&mut self.bytes, name, value)
            .map_err(|error| UppError::invalid_request(self.provider, format!("{name}: {error}")))
    }

    /// Excludes a parameter of this name from the body, such as `stream` in a call without a stream.
    pub fn reserve(&mut self, name: &'static str) {
        self.owned.push(name);
    }

    /// Adds the caller's parameters and returns the bytes.
    pub fn finish(mut self) -> Vec<u8> {
        for (name, value) in self.params.iter().filter(|(name, _)| !self.owned.contains(name)) {
            // Raw values are JSON already and names are strings: this cannot fail.
            let _ = write_member(&mut self.bytes, name, value);
        }
        self.bytes.push(b'}');
        self.bytes
    }
}

fn write_member<T: Serialize + ?Sized>(
    bytes: &mut Vec<u8>,
    name: &str,
    value: &T,
) -> Result<(), serde_json::Error> {
    if bytes.len() > 1 {
        bytes.push(b',');
    }
    serde_json::to_writer(&mut *bytes, name)?;
    bytes.push(b':');
    serde_json::to_writer(bytes, value)
}

/// Refuses several choices of one call: a message has one answer, and the others would be lost.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) if the parameter `name` is more than 1.
pub fn refuse_choices(provider: &str, params: &RawObject, name: &str) -> Result<(), UppError> {
    match params.get(name).and_then(|count| count.to::<u64>().ok()) {
        Some(count) if count > 1 => Err(UppError::invalid_request(
            provider,
            format!(
                "params.{name}: a call returns one choice, and {count} would be paid; call the model several times \
                 instead"
            ),
        )),
        _ => Ok(()),
    }
}

/// The caller's stream options plus `include_usage`, without which a stream reports no usage.
pub fn stream_options(params: &RawObject) -> RawObject {
    let mut options = params.get("stream_options").and_then(RawObject::from_raw).unwrap_or_default();
    options.insert("include_usage", RawJson::from_value(&true).unwrap_or_default());
    options
}

/// A tool's result as text: a string as it is, anything else as its JSON (UPP-1.2 §19.0).
#[derive(Debug, Clone, Copy)]
pub struct ResultText<'a>(pub &'a RawJson);

impl Serialize for ResultText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The JSON of a string is written as it is, without decoding it.
        if self.0.is_string() { self.0.serialize(serializer) } else { serializer.serialize_str(self.0.get()) }
    }
}

/// Serializes several texts as one JSON string, without concatenating them first.
#[derive(Debug, Clone)]
pub struct Concatenated<'a, I> {
    /// The texts.
    pub texts: I,
    /// The separator.
    pub separator: &'a str,
}

impl<'t, I: Iterator<Item = &'t str> + Clone> fmt::Display for Concatenated<'_, I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, text) in self.texts.clone().enumerate() {
            if place > 0 {
                formatter.write_str(self.separator)?;
            }
            formatter.write_str(text)?;
        }
        Ok(())
    }
}

impl<'t, I: Iterator<Item = &'t str> + Clone> Serialize for Concatenated<'_, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The schema of structured output, as vendors with a strict mode require it.
#[derive(Debug, Clone)]
pub struct StructureSchema {
    /// The schema's description.
    pub description: Option<RawJson>,
    /// The schema. `additionalProperties` is false unless it is set or the schema is not enforced.
    pub schema: RawObject,
    /// True if the vendor is to enforce the schema.
    pub strict: bool,
}

impl StructureSchema {
    /// Reads a schema. `strict` is that of the request.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) if it is not an object.
    pub fn new(provider: &str, structure: &RawJson, strict: Option<bool>) -> Result<Self, UppError> {
        let strict = strict.unwrap_or(true);
        let mut schema = RawObject::from_raw(structure).ok_or_else(|| {
            UppError::invalid_request(
                provider,
                "structure: a JSON Schema is an object with \"type\": \"object\"",
            )
        })?;
        if strict && schema.get("additionalProperties").is_none() {
            schema.insert("additionalProperties", RawJson::from_value(&false).unwrap_or_default());
        }
        Ok(Self {
            description: schema.get("description").filter(|text| text.is_string()).cloned(),
            schema,
            strict,
        })
    }
}
