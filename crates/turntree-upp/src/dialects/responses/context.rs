//! The properties of the vendor and of the request that the decoder needs.

use std::borrow::Cow;

use crate::dialects::common::VendorError;
use crate::error::UppError;

/// The properties of the vendor and of the request that the decoder needs.
#[derive(Debug, Clone)]
pub(super) struct DecodeContext {
    pub(super) provider: Cow<'static, str>,
    pub(super) is_structured: bool,
    pub(super) metadata_members: &'static [&'static str],
    pub(super) reports_cost: bool,
}

impl DecodeContext {
    pub(super) fn broken(&self, what: impl std::fmt::Display) -> UppError {
        let message = format!("invalid Responses response: {what}");
        UppError::invalid_response(self.provider.as_ref(), message)
    }

    /// An error inside a stream or a successful response.
    pub(super) fn reported(&self, data: &str) -> UppError {
        VendorError::of_body(data).into_error(&self.provider)
    }
}
