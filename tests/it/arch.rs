//! The rule of the house: who may use whom. The map is in `src/lib.rs`.

use std::fs;
use std::path::{Path, PathBuf};

/// Each room with the rooms it may use besides itself.
const ROOMS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("message", &["core"]),
    ("upp", &["core", "message"]),
    ("thread_protocol", &["core", "message"]),
    ("agents", &["core", "message", "upp"]),
    ("py", &["core", "message", "upp", "thread_protocol", "agents"]),
];

/// Crates that only one place may name.
const CRATES: &[(&str, &str)] = &[
    ("pyo3", "py/"),
    ("pythonize", "py/convert/any.rs"),
    ("pyo3_async_runtimes", "py/"),
    ("reqwest", "core/http/"),
    ("rustls", "core/http/"),
];

/// Calls that only one place may make, and why.
const CALLS: &[(&str, &str, &str)] = &[
    ("tokio::spawn(", "core/runtime.rs", "tasks are started by core::runtime"),
    ("Python::attach(", "py/bridge/guard.rs", "threads enter Python through the guard"),
    ("Python::try_attach(", "py/bridge/guard.rs", "threads enter Python through the guard"),
    ("future_into_py", "nowhere", "its hops cost 30 to 130 µs and crash at exit"),
    ("SystemTime::now", "nowhere", "time comes from core::time::Clock"),
    ("env::var", "core/", "the environment is read in core"),
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

fn names_after<'a>(code: &'a str, marker: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(marker).map(move |(place, _)| {
        let rest = &code[place + marker.len()..];
        let end = rest
            .find(|character: char| !character.is_alphanumeric() && character != '_')
            .unwrap_or(rest.len());
        &rest[..end]
    })
}

fn breaches(root: &Path) -> Vec<String> {
    let (mut files, mut found) = (Vec::new(), Vec::new());
    sources(root, &mut files);
    assert!(files.len() > 30, "the sources are not where this test looks: {}", root.display());
    for path in files {
        let place = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let code = code(&path);
        let room = place.split('/').next().unwrap();
        if let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) {
            for used in names_after(&code, "crate::") {
                let is_room = ROOMS.iter().any(|(name, _)| *name == used);
                if is_room && used != room && !allowed.contains(&used) {
                    found.push(format!("{place} uses {used}"));
                }
            }
        }
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
    found
}

#[test]
fn every_room_uses_only_the_rooms_below_it() {
    let found = breaches(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));

    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_room_is_on_the_map() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut rooms: Vec<_> = fs::read_dir(source)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut map: Vec<_> = ROOMS.iter().map(|(name, _)| (*name).to_owned()).collect();
    rooms.sort();
    map.sort();

    assert_eq!(rooms, map);
}
