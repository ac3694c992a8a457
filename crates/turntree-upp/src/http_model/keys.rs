//! What belongs to one request beside its content: the keys in it, and its retries.

use std::sync::Arc;

use turntree_core::http::RetryLog;
use turntree_core::secret::Secret;

use crate::config::ProviderConfig;
use crate::error::{UppError, VendorReport};

/// Shorter keys and header values are not removed from error messages: they could be ordinary words.
const SHORTEST_HIDDEN_KEY: usize = 6;

/// The keys of a request, to be removed from errors: some vendors quote them. Decision U31.
pub(super) struct Keys {
    secrets: Vec<Secret>,
    /// The retries of the request.
    pub(super) retries: RetryLog,
}

impl Keys {
    /// The provider's key, and the values of all headers of the configuration.
    pub(super) fn of(key: Option<Secret>, config: &ProviderConfig) -> Self {
        let values = config.headers.iter().filter_map(|(_, value)| value.as_ref());
        // Of `Bearer sk-…` vendors quote only the second word.
        let last_word = |value: &Secret| value.expose().split_whitespace().next_back().map(Secret::from);
        let in_headers = values
            .flat_map(|value| [Secret::from(value.expose().trim())].into_iter().chain(last_word(value)));
        let mut keys: Vec<Secret> = key.into_iter().chain(in_headers).collect();
        keys.retain(|key| key.expose().len() >= SHORTEST_HIDDEN_KEY);
        // A value may contain another one.
        keys.sort_by_key(|key| std::cmp::Reverse(key.expose().len()));
        Self { secrets: keys, retries: RetryLog::default() }
    }

    /// Replaces the keys in an error's message, and adds the number of retries. A cause whose text contains a key is removed.
    pub(super) fn hide(&self, mut error: UppError) -> UppError {
        error.retries = self.retries.failures().len();
        for key in self.secrets.iter().flat_map(|key| written_forms(key.expose())) {
            let key = key.as_str();
            let is_quoted = error.message.contains(key);
            if is_quoted {
                error.message = error.message.replace(key, "***");
            }
            if is_quoted || error.cause.as_deref().is_some_and(|cause| quotes(cause, key)) {
                error.cause = None;
            }
            error.request_id = error.request_id.map(|id| id.replace(key, "***"));
            if let Some(report) = &mut error.report {
                hide_in_report(Arc::make_mut(report), key);
            }
        }
        error
    }
}

/// A key as it is, and as it stands in the JSON of a response: some writers escape the slash too.
fn written_forms(key: &str) -> [String; 3] {
    let escaped = key.replace('\\', r"\\").replace('"', r#"\""#);
    [escaped.replace('/', r"\/"), escaped, key.to_owned()]
}

fn hide_in_report(report: &mut VendorReport, key: &str) {
    let values = report.headers.iter_mut().map(|(_, value)| value);
    let texts = [&mut report.body, &mut report.vendor_code, &mut report.param].into_iter().flatten();
    for text in values.chain(texts).filter(|text| text.contains(key)) {
        *text = text.replace(key, "***");
    }
}

/// True if the text of an error or of one of its sources contains a key.
fn quotes(error: &(dyn std::error::Error + 'static), key: &str) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.to_string().contains(key))
}
