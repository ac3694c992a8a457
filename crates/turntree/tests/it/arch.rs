//! Architecture rules that the crate graph does not enforce.

mod imports;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use self::imports::{Crate, circles};

/// Largest number of files that may import each other in a circle.
const MAX_CIRCLE: usize = 6;

/// Largest number of lines of a file.
const MAX_FILE: usize = 600;

/// Largest number of lines of a function. The lint `clippy::too_many_lines` has the same limit.
const MAX_FUNCTION: usize = 60;

/// Crates that only one place may name, or each of two.
const CRATES: &[(&str, &str)] = &[
    ("pyo3", "src/"),
    ("pythonize", "src/convert/any.rs"),
    ("pyo3_async_runtimes", "src/"),
    ("reqwest", "crates/turntree-core/src/http/transport/reqwest.rs"),
    ("rustls", "crates/turntree-core/src/http/tls.rs"),
    ("axum", "crates/turntree-server/src/native/"),
    ("hyper", "crates/turntree-server/src/native/ or crates/turntree-core/src/http/transport/"),
    ("hyper_util", "crates/turntree-server/src/native/ or crates/turntree-core/src/http/transport/"),
    ("h2", "crates/turntree-core/src/http/transport/channel.rs"),
    ("tokio_postgres", "crates/turntree-store/src/engines/postgres/"),
    ("redis", "crates/turntree-store/src/engines/redis/"),
    ("rmcp", "crates/turntree-mcp/src/"),
    ("tree_sitter", "crates/turntree-harness/src/shell/tree.rs"),
    ("tree_sitter_bash", "crates/turntree-harness/src/shell/tree.rs"),
    ("toml", "crates/turntree-harness/src/toml_file.rs"),
    ("cedar_policy", "crates/turntree-cedar/src/"),
];

/// Calls that only one place may make, and why.
const CALLS: &[(&str, &str, &str)] = &[
    ("tokio::spawn(", "crates/turntree-core/src/runtime.rs", "tasks are started by core::runtime"),
    ("Python::attach(", "src/bridge/gil.rs", "threads attach to the interpreter in bridge::gil"),
    ("Python::try_attach(", "src/bridge/gil.rs", "threads attach to the interpreter in bridge::gil"),
    ("pyo3::prelude", "src/prelude.rs", "crate::prelude has the attributes that read arguments"),
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

/// True if code has a path that begins with the name of a crate. `super::tracing::X` does not.
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].strip_suffix("::").unwrap_or(&code[..at]);
        !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

/// The sources of the crates and of the extension module.
fn all_sources() -> Vec<PathBuf> {
    let root = root();
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut files);
    }
    assert!(files.len() > 300, "the sources are not where this test looks: {}", root.display());
    files
}

/// The functions of a formatted file: line number and number of lines, with signature and braces.
fn function_lengths(text: &str) -> Vec<(usize, usize)> {
    let mut open: Option<(usize, &str)> = None;
    let mut lengths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        match open {
            None if is_function(line.trim_start()) => open = Some((number, indent)),
            Some((start, outer)) if indent == outer && line.trim_start().starts_with(['}', ')']) => {
                if line.ends_with('}') {
                    lengths.push((start + 1, number - start + 1));
                }
                if line.ends_with(['}', ';']) {
                    open = None;
                }
            }
            _ => {}
        }
        // A declaration, or a function on one line.
        if open.is_some_and(|(start, _)| start == number) && line.ends_with([';', '}']) {
            open = None;
        }
    }
    lengths
}

/// True if a line begins a function.
fn is_function(line: &str) -> bool {
    let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(rest, |(_, rest)| rest),
        None => rest,
    });
    let modifiers = ["const", "async", "unsafe", "extern", "\"C\""];
    line.split_whitespace().find(|word| !modifiers.contains(word)) == Some("fn")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The path below a folder, with `/` on every system.
fn relative(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/")
}

#[test]
fn crates_and_calls_stay_where_they_belong() {
    let root = root();
    let mut found = Vec::new();
    for path in all_sources() {
        let place = relative(&root, &path);
        let code = code(&path);
        for (name, home) in CRATES {
            if names_crate(&code, name) && !home.split(" or ").any(|home| place.starts_with(home)) {
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

#[test]
fn files_and_functions_are_short() {
    let root = root();
    let mut too_long = Vec::new();
    let mut functions = 0;
    for path in all_sources() {
        let place = relative(&root, &path);
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        if lines > MAX_FILE {
            too_long.push(format!("{place} has {lines} lines; split it into files of at most {MAX_FILE}"));
        }
        let lengths = function_lengths(&text);
        functions += lengths.len();
        for (line, length) in lengths.into_iter().filter(|(_, length)| *length > MAX_FUNCTION) {
            too_long.push(format!(
                "{place}:{line}: the function has {length} lines; split it into functions of at most {MAX_FUNCTION}"
            ));
        }
    }

    assert!(functions > 3000, "the test found only {functions} functions");
    assert!(too_long.is_empty(), "{}", too_long.join("\n"));
}

#[test]
fn function_lengths_include_the_signature_and_nested_blocks() {
    let source = "impl A {\n    pub(crate) async fn a(\n        &self,\n    ) -> u8 {\n        loop {\n        }\n    }\n    \
                  fn b();\n    fn c() {}\n}\nfn d() {\n    e();\n}\n";

    assert_eq!(function_lengths(source), [(2, 6), (11, 3)]);
}

/// `cargo test -p turntree --test it no_import_circle -- --nocapture` prints the largest circle of each crate.
#[test]
fn no_import_circle_has_more_than_six_files() {
    let root = root();
    let mut folders = vec![root.join("src")];
    folders.extend(fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src")));
    folders.sort();

    let mut too_large = Vec::new();
    for folder in folders {
        let parsed = Crate::read(&root, &folder);
        let edges = parsed.edges();
        let circles = circles(&edges);
        let name = relative(&root, &folder);
        println!(
            "{name}: {} files, circles of {:?}",
            edges.len(),
            circles.iter().map(BTreeSet::len).collect::<Vec<_>>()
        );
        for circle in circles {
            let files: Vec<&str> = circle.into_iter().collect();
            println!("  {} files: {}", files.len(), files.join(" "));
            if files.len() > MAX_CIRCLE {
                too_large.push(format!(
                    "{name}: {} files import each other: {}",
                    files.len(),
                    files.join(", ")
                ));
            }
        }
    }

    assert!(too_large.is_empty(), "{}", too_large.join("\n"));
}
