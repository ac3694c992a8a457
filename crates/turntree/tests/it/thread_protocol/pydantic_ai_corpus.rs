//! Recorded histories of the corpus: every file round-trips byte for byte.
//!
//! `TURNTREE_CORPUS` names a folder with `histories/` and `histories-canonical/`. Without it the tests print that they are
//! skipped.

use std::path::{Path, PathBuf};

use turntree::core::limits::Limits;
use turntree::thread_protocol::convert::pydantic_ai::{
    ImportOptions, ProfileKind, ViewOptions, from_pydantic_ai_json,
};
use turntree::thread_protocol::{Rule, Thread};

fn files(folder: &Path, paths: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "json")
            && !path.ends_with("index.json")
        {
            paths.push(path);
        }
    }
}

/// Every history file, or `None` without a corpus.
fn corpus() -> Option<Vec<PathBuf>> {
    let Some(corpus) = std::env::var_os("TURNTREE_CORPUS") else {
        println!("skipped: TURNTREE_CORPUS is not set");
        return None;
    };
    let mut paths = Vec::new();
    for folder in ["histories", "histories-canonical"] {
        files(&Path::new(&corpus).join(folder), &mut paths);
    }
    Some(paths)
}

#[test]
fn a_history_of_many_versions_round_trips_byte_for_byte() {
    let Some(paths) = corpus() else { return };
    let inner = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.trim().trim_start_matches('[').strip_suffix(']').unwrap().to_owned()
    };
    let histories: Vec<String> = paths.iter().map(inner).filter(|text| !text.is_empty()).collect();
    let history = format!("[{}]", histories.join(","));

    let thread = from_pydantic_ai_json(history.as_bytes(), &ImportOptions::default()).unwrap();
    let back = thread.to_pydantic_ai_json(&ViewOptions::default()).unwrap();

    println!("{} bytes of mixed versions, {} actions", history.len(), thread.actions.len());
    assert!(back == history.as_bytes());
}

#[test]
fn every_history_of_the_corpus_round_trips_byte_for_byte() {
    let Some(paths) = corpus() else { return };
    let (mut identical, mut verbatim, mut unmatched, mut failures) = (0, 0, 0, Vec::new());
    for path in &paths {
        let history = std::fs::read(path).unwrap();

        let thread = from_pydantic_ai_json(&history, &ImportOptions::default()).unwrap();
        let written = thread.to_json();
        let read = Thread::from_json(&written, &Limits::default()).unwrap();
        let back = read.to_pydantic_ai_json(&ViewOptions::default()).unwrap();

        assert_eq!(read.to_json(), written, "{}", path.display());
        verbatim += usize::from(String::from_utf8_lossy(&written).contains(r#","raw":{"parts""#));
        assert_eq!(thread.check(), Ok(()), "{}", path.display());
        // The faults of the histories themselves; the document adds no others.
        let own = [
            Rule::Chronology,
            Rule::DuplicateCall,
            Rule::OpenCall,
            Rule::Timestamp,
            Rule::ToolCallId,
            Rule::ToolName,
        ];
        let faults: Vec<Rule> = thread.validate_strictly().into_iter().map(|issue| issue.rule).collect();
        assert!(faults.iter().all(|rule| own.contains(rule)), "{}: {faults:?}", path.display());
        unmatched += usize::from(faults.contains(&Rule::ToolCallId) || faults.contains(&Rule::ToolName));
        if back == history {
            identical += 1;
        } else {
            failures.push(path.display().to_string());
        }
        let portable = ImportOptions { profile: ProfileKind::Portable, ..ImportOptions::default() };
        let thread = from_pydantic_ai_json(&history, &portable).unwrap();
        assert!(thread.actions.iter().all(|action| action.metadata().is_none()));
        assert_eq!(thread.check(), Ok(()), "{}", path.display());
        thread.to_pydantic_ai_json(&ViewOptions::default()).unwrap();
    }
    println!(
        "{} files: {identical} identical, {} not; {verbatim} with a verbatim message; {unmatched} with a return without a call",
        paths.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{failures:#?}");
}
