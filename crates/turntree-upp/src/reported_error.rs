//! Errors of servers and gateways in responses with a status of success.
//!
//! A vendor's error has the form of its dialect, which reads it. Proxies and frameworks in front of a vendor have forms
//! of their own, such as `{"detail": …}`. Only a body that the dialect cannot read is searched for them.
//!
//! Spec: UPP-1.2 §12

use std::sync::Arc;

use super::dialects::common::VendorError;
use super::error::{ErrorCode, UppError, VendorReport};

/// Frames of a stream above this size are not errors.
const MAX_FRAME: usize = 4096;

/// The error that `body` reports, if the dialect could not read it; else the error of the dialect.
pub(super) fn of_body(error: UppError, body: &str) -> UppError {
    if error.code != ErrorCode::InvalidResponse {
        return error;
    }
    let Some(vendor) = VendorError::reported(body) else { return error };
    let reported = vendor.into_error(&error.provider);
    let report = reported.report.as_deref().cloned().unwrap_or_default();
    UppError {
        report: Some(Arc::new(VendorReport { body: Some(body.to_owned()), ..report })),
        cause: error.cause,
        modality: error.modality,
        ..reported
    }
}

/// The last frame of a stream, which may be an error that the dialect does not know.
#[derive(Debug, Default)]
pub(super) struct LastFrame(String);

impl LastFrame {
    pub(super) fn record(&mut self, data: &str) {
        self.0.clear();
        if data.len() <= MAX_FRAME {
            self.0.push_str(data);
        }
    }

    /// As [`of_body`].
    pub(super) fn reported(&self, error: UppError) -> UppError {
        of_body(error, &self.0)
    }
}
