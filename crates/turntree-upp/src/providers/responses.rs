//! Any host with the Responses API, as the Open Responses specification describes it.
//!
//! Spec: UPP-1.2 §19.9

use crate::dialects::responses::{Documents, Media, ResponsesDialect, ResponsesOptions};
use crate::endpoint::Endpoint;
use crate::error::UppError;
use crate::provider::Capabilities;

/// The provider's name; also the namespace of its metadata.
pub const PROVIDER: &str = "responses";

/// The default environment variable of the key.
pub const KEY_VARIABLE: &str = "OPENRESPONSES_API_KEY";

/// `responses(model, host=…)`: `{host}/responses`, key in `OPENRESPONSES_API_KEY`.
///
/// ```
/// use turntree_upp::dialect::Dialect as _;
/// use turntree_upp::providers::responses::responses;
///
/// let dialect = responses("http://localhost:8000/v1")?;
/// assert_eq!(dialect.endpoint().key_variables, ["OPENRESPONSES_API_KEY"]);
/// assert!(responses("").is_err());
/// # Ok::<_, turntree_upp::UppError>(())
/// ```
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) without a host.
pub fn responses(host: impl Into<String>) -> Result<ResponsesDialect, UppError> {
    let host = host.into();
    if host.trim().is_empty() {
        let message = "responses needs a host; pass its prefix, such as https://host/v1";
        return Err(UppError::invalid_request(PROVIDER, message));
    }
    let endpoint = Endpoint { base_url: host.into(), ..Endpoint::vendor(PROVIDER, "", &[KEY_VARIABLE]) };
    Ok(ResponsesDialect::new(ResponsesOptions {
        endpoint,
        capabilities: Capabilities::ALL,
        documents: Documents::Any,
        media: Media::Files,
        ..ResponsesOptions::OPENAI
    }))
}
