//! The fuzz targets on their seeds and on a few thousand mutations of these, the same on every run.

use std::path::{Path, PathBuf};

#[path = "../../../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a crate of its own for libFuzzer")]
mod targets;

/// Mutations a target. All targets together take a second or two.
const CASES: usize = 5000;

/// Longest input; what grows past it is cut.
const LONGEST: usize = 8192;

/// What readers of streams and of JSON trip over.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\u{0}",
    "\u{feff}",
    "\u{1f600}",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    " ",
    "data: ",
    "event: ",
    "id: ",
    "[DONE]",
    "[[[[[[[[",
    "1e",
    "-",
    "tru",
];

/// Whole values, so that a mutated document stays one.
const VALUES: &[&str] = &[
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-0",
    "-1",
    "1.0",
    "1e400",
    "-1E-999",
    "1e9999999999999999999",
    "18446744073709551616",
    "4294967296",
    "{\"a\":1,\"a\":2}",
    "[[[[[[[[]]]]]]]]",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\u00e9\\n\"",
    "\"aGk\"",
    "\"text\"",
    "\"bytes\"",
    "\"user\"",
    "\"tool_call_delta\"",
    "{\"type\":\"text\",\"text\":\"t\"}",
    "{\"text\":\"t\",\"type\":\"reasoning\"}",
    "\"+010000-01-01T00:00:00.000Z\"",
    "\"-000001-12-31T23:59:59.999999Z\"",
    " [ 1 , {} ] ",
];

/// Names of members; with a value they are put anywhere into an object.
const NAMES: &[&str] = &[
    "type", "id", "index", "delta", "text", "content", "data", "extra", "usage", "error", "x", "\\u0078",
    "\u{e9}", "",
];

fn seeds_of(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fuzz").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Changes an input in one to three places; mostly such that a document stays a document.
fn mutate(input: &[u8], seeds: &[(PathBuf, Vec<u8>)], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let is_gentle = random.u8(0..4) > 0;
    for _ in 0..random.usize(1..=3) {
        if is_gentle {
            change_value(&mut bytes, random);
        } else {
            change_bytes(&mut bytes, seeds, random);
        }
    }
    bytes.truncate(LONGEST);
    bytes
}

fn pick<'a>(from: &[&'a str], random: &mut fastrand::Rng) -> &'a str {
    from[random.usize(0..from.len())]
}

/// Adds a member to an object, or replaces a text, a number or a word by another value.
fn change_value(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    let start = random.usize(0..=bytes.len());
    if random.bool() {
        let Some(length) = bytes[start..].windows(2).position(|pair| pair == b"{\"" || pair == b",\"") else {
            return;
        };
        let member = format!("\"{}\":{},", pick(NAMES, random), pick(VALUES, random));
        let place = start + length + 1;
        bytes.splice(place..place, member.bytes());
    } else {
        let Some(length) = bytes[start..].iter().position(|byte| *byte == b':') else { return };
        let from = start + length + 1;
        let length = bytes[from..].iter().position(|byte| b"{}[],".contains(byte)).unwrap_or_default();
        if length > 0 {
            bytes.splice(from..from + length, pick(VALUES, random).bytes());
        }
    }
}

fn change_bytes(bytes: &mut Vec<u8>, seeds: &[(PathBuf, Vec<u8>)], random: &mut fastrand::Rng) {
    let start = random.usize(0..=bytes.len());
    let end = random.usize(start..=bytes.len().min(start + 64));
    match random.u8(0..6) {
        0 => bytes.truncate(start),
        1 => drop(bytes.drain(start..end)),
        2 => {
            let piece = bytes[start..end].to_vec();
            let place = random.usize(0..=bytes.len());
            bytes.splice(place..place, piece);
        }
        3 => {
            let other = &seeds[random.usize(0..seeds.len())].1;
            let from = random.usize(0..=other.len());
            bytes.splice(start..end, other[from..other.len().min(from + 64)].iter().copied());
        }
        4 if start < bytes.len() => bytes[start] ^= 1 << random.u8(0..8),
        _ => drop(bytes.splice(start..start, pick(TOKENS, random).bytes())),
    }
}

fn replay(name: &str) {
    let (_, target) = targets::TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    let seeds = seeds_of(name);
    for (path, seed) in &seeds {
        run(*target, seed, || path.display().to_string());
    }
    let mut random = fastrand::Rng::with_seed(7);
    for case in 0..CASES {
        let seed = &seeds[random.usize(0..seeds.len())].1;
        let input = mutate(seed, &seeds, &mut random);
        run(*target, &input, || format!("case {case}: {:?}", String::from_utf8_lossy(&input)));
    }
}

/// Runs a target; says on which input it failed.
fn run(target: targets::Target, input: &[u8], name: impl Fn() -> String) {
    if let Err(panic) = std::panic::catch_unwind(|| target(input)) {
        eprintln!("{}", name());
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn sse_holds_on_seeds_and_mutations() {
    replay("sse");
}

#[test]
fn ndjson_holds_on_seeds_and_mutations() {
    replay("ndjson");
}

#[test]
fn message_json_holds_on_seeds_and_mutations() {
    replay("message_json");
}

#[test]
fn thread_json_holds_on_seeds_and_mutations() {
    replay("thread_json");
}

#[test]
fn session_json_holds_on_seeds_and_mutations() {
    replay("session_json");
}

#[test]
fn turn_json_holds_on_seeds_and_mutations() {
    replay("turn_json");
}

#[test]
fn stream_event_json_holds_on_seeds_and_mutations() {
    replay("stream_event_json");
}

#[test]
fn chat_stream_holds_on_seeds_and_mutations() {
    replay("chat_stream");
}

#[test]
fn thread_protocol_json_holds_on_seeds_and_mutations() {
    replay("thread_protocol_json");
}

#[test]
fn pydantic_ai_import_holds_on_seeds_and_mutations() {
    replay("pydantic_ai_import");
}

#[test]
fn ui_stream_holds_on_seeds_and_mutations() {
    replay("ui_stream");
}

#[test]
fn every_target_has_a_binary() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for (name, _) in targets::TARGETS {
        assert!(root.join("fuzz_targets").join(format!("{name}.rs")).exists(), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
