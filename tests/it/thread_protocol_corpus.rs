//! Real histories, where somebody provides them: every file must come back byte for byte.
//!
//! `TURNTREE_CORPUS` names a folder with `histories/` and `histories-canonical/`. Without it the test says that it was
//! skipped.

use std::path::{Path, PathBuf};

use turntree::core::limits::Limits;
use turntree::thread_protocol::convert::pydantic_ai::{
    ImportOptions, ProfileKind, ViewOptions, from_pydantic_ai_json,
};
use turntree::thread_protocol::{Severity, Thread};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json")
            && !path.ends_with("index.json")
        {
            found.push(path);
        }
    }
}

#[test]
fn every_history_of_the_corpus_comes_back_byte_for_byte() {
    let Some(corpus) = std::env::var_os("TURNTREE_CORPUS") else {
        println!("skipped: TURNTREE_CORPUS is not set");
        return;
    };
    let mut paths = Vec::new();
    for folder in ["histories", "histories-canonical"] {
        files(&Path::new(&corpus).join(folder), &mut paths);
    }
    let (mut identical, mut verbatim, mut invalid, mut failures) = (0, 0, 0, Vec::new());
    for path in &paths {
        let history = std::fs::read(path).unwrap();

        let thread = from_pydantic_ai_json(&history, &ImportOptions::default()).unwrap();
        let written = thread.to_json();
        let read = Thread::from_json(&written, &Limits::default()).unwrap();
        let back = read.to_pydantic_ai_json(&ViewOptions::default()).unwrap();

        assert_eq!(read.to_json(), written, "{}", path.display());
        verbatim += usize::from(String::from_utf8_lossy(&written).contains(r#","raw":{"parts""#));
        invalid += usize::from(thread.validate().iter().any(|issue| issue.severity == Severity::Error));
        if back == history {
            identical += 1;
        } else {
            failures.push(path.display().to_string());
        }
        let portable = ImportOptions { profile: ProfileKind::Portable, ..ImportOptions::default() };
        let thread = from_pydantic_ai_json(&history, &portable).unwrap();
        assert!(thread.actions.iter().all(|action| action.metadata().is_none()));
        thread.to_pydantic_ai_json(&ViewOptions::default()).unwrap();
    }
    println!(
        "{} files: {identical} identical, {} not; {verbatim} with a message kept verbatim; {invalid} break a rule",
        paths.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{failures:#?}");
}
