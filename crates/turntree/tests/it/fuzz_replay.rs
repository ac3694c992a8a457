//! Runs every fuzz target on its seeds and on 5000 deterministic mutations of these.

use std::path::{Path, PathBuf};

#[path = "../../../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "a crate of its own for libFuzzer")]
mod targets;

/// Mutations for each target. All targets together take two seconds.
const CASES: usize = 5000;

/// Maximum length of an input; longer mutations are truncated.
const MAX_INPUT: usize = 8192;

/// Tokens that are special to the readers of streams and JSON.
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

/// Complete JSON values, so that a mutated document stays valid.
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

/// Names of members that mutations insert into objects.
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

/// Changes an input at one to three positions; three of four mutations keep a valid document valid.
fn mutate(input: &[u8], seeds: &[(PathBuf, Vec<u8>)], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let keeps_valid = random.u8(0..4) > 0;
    for _ in 0..random.usize(1..=3) {
        if keeps_valid {
            change_value(&mut bytes, random);
        } else {
            change_bytes(&mut bytes, seeds, random);
        }
    }
    bytes.truncate(MAX_INPUT);
    bytes
}

fn pick<'a>(from: &[&'a str], random: &mut fastrand::Rng) -> &'a str {
    from[random.usize(0..from.len())]
}

/// Adds a member to an object, or replaces a scalar by another value.
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

/// Runs a target and prints the input if it fails.
fn run(target: targets::Target, input: &[u8], name: impl Fn() -> String) {
    if let Err(panic) = std::panic::catch_unwind(|| target(input)) {
        eprintln!("{}", name());
        std::panic::resume_unwind(panic);
    }
}

/// Declares one test for each target.
macro_rules! replay_tests {
    ($($target:ident),* $(,)?) => {
        const REPLAYED: &[&str] = &[$(stringify!($target)),*];

        mod seeds_and_mutations_pass {
            $(
                #[test]
                fn $target() {
                    super::replay(stringify!($target));
                }
            )*
        }
    };
}

replay_tests! {
    sse,
    ndjson,
    event_stream,
    partial_json,
    message_json,
    thread_json,
    turn_json,
    session_json,
    stream_event_json,
    chat_stream,
    thread_protocol_json,
    pydantic_ai_import,
    ui_stream,
    uamp_session,
    acp_messages,
}

#[test]
fn every_target_is_replayed_and_has_a_binary() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let names: Vec<&str> = targets::TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(REPLAYED, names);
    for name in names {
        assert!(root.join("fuzz_targets").join(format!("{name}.rs")).exists(), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
