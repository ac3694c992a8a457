use std::path::Path;
use std::sync::Arc;

use turntree_store::engine::Engine;
use turntree_store::engines::file::FileEngine;

use crate::conformance::conformance;
use crate::support::{Fixture, TempFolder};

mod damage;
mod folder;

fn open() -> Fixture {
    let folder = TempFolder::new();
    let path = folder.path().join("store");
    let engine = engine_at(&path);
    let reopen = move || engine_at(&path) as Arc<dyn Engine>;
    Fixture { engine, reopen: Some(Box::new(reopen)), cleanup: Some(Box::new(folder)) }
}

conformance!(open);

fn engine_at(path: &Path) -> Arc<FileEngine> {
    Arc::new(FileEngine::open(path).unwrap())
}
