//! [`BODY_LIMITS`]: limits on the JSON of requests of foreign protocols.

use turntree_core::limits::Limits;

/// Limits on the JSON of a request of a foreign protocol. The server limits its size. The schemas and arguments in it must
/// leave room for the levels around them in a session.
pub(super) const BODY_LIMITS: Limits = Limits { bytes: 1 << 30, depth: 128, values: 1_000_000 };
