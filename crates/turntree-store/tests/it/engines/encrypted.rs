use std::sync::Arc;

use turntree_store::engines::encrypted::EncryptedEngine;
use turntree_store::engines::memory::MemoryEngine;

use crate::conformance::{conformance, queue_conformance};
use crate::support::Fixture;

fn open() -> Fixture {
    let inner = Arc::new(MemoryEngine::new());
    Fixture::new(Arc::new(EncryptedEngine::new(inner, &[("2026", [7; 32].as_slice())]).unwrap()))
}

conformance!(open; creating:
    the_sessions_of_a_batch_are_created,
    a_batch_with_a_session_that_exists_creates_none,
    a_batch_that_fails_creates_none,
    a_batch_that_is_dropped_is_created_as_a_whole_or_not_at_all,
);
queue_conformance!(open);
