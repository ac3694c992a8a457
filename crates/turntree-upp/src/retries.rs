//! The retries of a call, as recorded in the metadata of its message.

use std::sync::Arc;

use turntree_core::http::RetryLog;
use turntree_core::json::RawJson;
use turntree_core::message::Message;

use crate::request::ModelResponse;

/// The namespace of the metadata.
const NAMESPACE: &str = "turntree";

/// The member with the failures.
const RETRIES: &str = "retries";

/// Records the failures before a response, if there are any.
pub(crate) fn record(response: &mut ModelResponse, retries: &RetryLog) {
    let failures = retries.failures();
    if failures.is_empty() {
        return;
    }
    let mut members = response.message.namespace(NAMESPACE).unwrap_or_default();
    let Ok(failures) = RawJson::from_value(&failures) else { return };
    members.insert(RETRIES, failures);
    if let Ok(members) = RawJson::from_value(&members) {
        let message = Arc::make_mut(&mut response.message);
        message.metadata.get_or_insert_default().insert(NAMESPACE, members);
    }
}

/// The number of retries before a response.
pub(crate) fn count(message: &Message) -> u64 {
    let failures =
        message.namespace(NAMESPACE).and_then(|members| members.get(RETRIES)?.to::<Vec<String>>().ok());
    failures.map_or(0, |failures| failures.len() as u64)
}
