use std::sync::Arc;

use turntree_store::engines::memory::MemoryEngine;

use crate::conformance::{conformance, queue_conformance, record_conformance};
use crate::support::Fixture;

fn open() -> Fixture {
    Fixture::new(Arc::new(MemoryEngine::new()))
}

conformance!(open);
queue_conformance!(open);
record_conformance!(open);
