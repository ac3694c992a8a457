//! The version of a request: 1.0 and 0.3 are served on one URL.
//!
//! Spec: A2A 1.0

use http::request::Parts;

use super::error::{A2aError, ErrorKind};

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 1.0
    V1,
    /// 0.3
    V03,
}

impl Version {
    /// The version that a request names in the header or the query parameter `A2A-Version`; `None` if it names none.
    ///
    /// # Errors
    /// The server does not speak it.
    pub fn of_request(parts: &Parts) -> Result<Option<Self>, A2aError> {
        let of_header = parts.headers.get("a2a-version").and_then(|value| value.to_str().ok());
        let query = parts.uri.query().unwrap_or_default();
        let of_query = query.split('&').find_map(|pair| pair.strip_prefix("A2A-Version="));
        let Some(text) = of_header.or(of_query).map(str::trim).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let mut numbers = text.split('.');
        match (numbers.next(), numbers.next()) {
            (Some("1"), _) => Ok(Some(Self::V1)),
            (Some("0"), Some("3")) => Ok(Some(Self::V03)),
            _ => Err(A2aError::new(
                ErrorKind::VersionNotSupported,
                format!(
                    "A2A-Version \"{}\" is not supported; use 1.0 or 0.3",
                    text.chars().take(20).collect::<String>()
                ),
            )),
        }
    }

    /// The version of a request of JSON-RPC. Without a name the method decides: those of 0.3 contain a slash.
    pub fn of_method(named: Option<Self>, method: &str) -> Self {
        named.unwrap_or(if method.contains('/') { Self::V03 } else { Self::V1 })
    }
}
