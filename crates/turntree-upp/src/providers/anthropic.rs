//! Anthropic.
//!
//! Spec: UPP-1.2 §19.1

use crate::config::ProviderConfig;
use crate::dialects::messages::{BETA_HEADER, MessagesDialect, MessagesOptions};
use turntree_core::secret::Secret;

/// `anthropic(model)`: `https://api.anthropic.com/v1/messages`, key in `ANTHROPIC_API_KEY`.
///
/// `betas` are sent as the `anthropic-beta` header. With
/// [`STRUCTURED_OUTPUTS_BETA`](crate::dialects::messages::STRUCTURED_OUTPUTS_BETA) the vendor enforces schemas. The
/// header of that name in the configuration replaces all betas, and `api_version` of the configuration sets the
/// version of the API.
///
/// ```
/// use turntree_upp::ProviderConfig;
/// use turntree_upp::dialect::Dialect as _;
/// use turntree_upp::providers::anthropic::anthropic;
///
/// let dialect = anthropic(&["files-api-2025-04-14"], &ProviderConfig::default());
/// assert_eq!(dialect.endpoint().key_variables, ["ANTHROPIC_API_KEY"]);
/// ```
pub fn anthropic<T: AsRef<str>>(betas: &[T], config: &ProviderConfig) -> MessagesDialect {
    let dialect = MessagesDialect::new(MessagesOptions::ANTHROPIC);
    let header = config.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(BETA_HEADER));
    let dialect = match header {
        Some((_, header)) => dialect.with_betas(header.as_ref().map(Secret::expose)),
        None => dialect.with_betas(betas),
    };
    match &config.api_version {
        Some(version) => dialect.with_api_version(version.as_str()),
        None => dialect,
    }
}
