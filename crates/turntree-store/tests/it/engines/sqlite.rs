use std::path::Path;
use std::sync::Arc;

use turntree_store::engine::Engine;
use turntree_store::engines::sqlite::{SqliteEngine, SqliteOptions};

use crate::conformance::{conformance, queue_conformance, record_conformance};
use crate::support::{Fixture, TempFolder};

mod errors;
#[cfg(target_os = "linux")]
mod fork;
mod layout;
mod maintenance;
mod turns;

fn open() -> Fixture {
    let folder = TempFolder::new();
    let path = folder.path().join("sessions.db");
    let engine = engine_at(&path);
    let reopen = move || engine_at(&path) as Arc<dyn Engine>;
    Fixture { engine, reopen: Some(Box::new(reopen)), cleanup: Some(Box::new(folder)) }
}

conformance!(open);
queue_conformance!(open);
record_conformance!(open);

fn engine_at(path: &Path) -> Arc<SqliteEngine> {
    Arc::new(SqliteEngine::open(path, SqliteOptions::default()).unwrap())
}
