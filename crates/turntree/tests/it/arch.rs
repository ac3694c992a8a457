//! Architecture rules that the crate graph does not enforce.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that only one place may name.
const CRATES: &[(&str, &str)] = &[
    ("pyo3", "src/"),
    ("pythonize", "src/convert/any.rs"),
    ("pyo3_async_runtimes", "src/"),
    ("reqwest", "crates/turntree-core/src/http/"),
    ("rustls", "crates/turntree-core/src/http/"),
];

/// Calls that only one place may make, and why.
const CALLS: &[(&str, &str, &str)] = &[
    ("tokio::spawn(", "crates/turntree-core/src/runtime.rs", "tasks are started by core::runtime"),
    ("Python::attach(", "src/bridge/guard.rs", "threads enter Python through the guard"),
    ("Python::try_attach(", "src/bridge/guard.rs", "threads enter Python through the guard"),
    ("future_into_py", "nowhere", "its hops cost 30 to 130 µs and crash at exit"),
    ("SystemTime::now", "nowhere", "time comes from core::time::Clock"),
    ("env::var", "crates/turntree-core/", "the environment is read in core"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file: comments and doc examples may name anything.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn crates_and_calls_stay_where_they_belong() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
    }
    assert!(files.len() > 300, "the sources are not where this test looks: {}", root.display());

    let mut found = Vec::new();
    for path in files {
        let place = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let code = code(&path);
        for (name, home) in CRATES {
            if code.contains(&format!("{name}::")) && !place.starts_with(home) {
                found.push(format!("{place} names {name}, which belongs to {home}"));
            }
        }
        for (call, home, why) in CALLS {
            if code.contains(call) && !place.starts_with(home) {
                found.push(format!("{place} calls {call}: {why}"));
            }
        }
    }

    assert!(found.is_empty(), "{}", found.join("\n"));
}
