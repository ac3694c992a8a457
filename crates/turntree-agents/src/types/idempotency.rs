//! Keys that identify tool calls among all calls of all runs.
//!
//! Spec: decision A111.

use uuid::{Uuid, uuid};

/// The namespace of idempotency keys, a random UUID.
const NAMESPACE: Uuid = uuid!("3f1d6c52-7c0e-4a6b-9a55-0d1e8f2b7c94");

/// The key of the call at a position of a round of tool calls. The same when the round is resumed, in any process.
pub(crate) fn idempotency_key(round: &str, position: usize) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{round}/{position}").as_bytes())
}
