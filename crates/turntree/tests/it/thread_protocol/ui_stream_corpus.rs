//! Recorded UI message streams of the corpus: the assembled messages equal those of the Vercel AI SDK.
//!
//! `TURNTREE_CORPUS` names a folder with `ui-streams/`. Without it the tests print that they are skipped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use turntree::core::json::canonical::{CanonicalForm, canonical};
use turntree::core::limits::Limits;
use turntree::thread_protocol::convert::pydantic_ai::{ImportOptions, ProfileKind, from_pydantic_ai_json};
use turntree::thread_protocol::convert::vercel_ui::{
    ExportOptions, Sdk, UiImportOptions, UiMessage, UiStreamReader, from_ui_messages,
};
use turntree::thread_protocol::{Severity, Thread};

/// A stream of the corpus.
struct Case {
    name: String,
    folder: PathBuf,
    chunks: Vec<String>,
    recorded: Value,
}

impl Case {
    fn prior(&self) -> Vec<UiMessage> {
        serde_json::from_value(self.recorded["prior_messages"].clone()).unwrap_or_default()
    }

    /// True if the reader of the SDK refuses the stream. Our reader accepts chunks that only its schemas refuse.
    fn is_refused(&self) -> bool {
        let is_reason = |error: &Value| {
            let text = error.to_string();
            text.contains("UIMessageStreamError")
                || text.contains("No tool invocation")
                || text.contains("Received ")
        };
        let errors = self.recorded["reader_errors"].as_array();
        errors.is_some_and(|errors| errors.iter().any(is_reason)) || is_reason(&self.recorded["stream_threw"])
    }

    fn has_history(&self) -> bool {
        self.path("pai_messages.json").exists()
    }

    fn path(&self, ending: &str) -> PathBuf {
        let id = self.name.rsplit('/').next().unwrap();
        self.folder.join(format!("{id}.{ending}"))
    }
}

fn cases(suites: &[&str]) -> Option<Vec<Case>> {
    let Some(corpus) = std::env::var_os("TURNTREE_CORPUS") else {
        println!("skipped: TURNTREE_CORPUS is not set");
        return None;
    };
    let mut cases = Vec::new();
    for suite in suites {
        let folder = Path::new(&corpus).join("ui-streams").join(suite);
        let mut names: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .filter_map(|entry| {
                entry.unwrap().file_name().to_str()?.strip_suffix(".chunks.jsonl").map(str::to_owned)
            })
            .collect();
        names.sort();
        for name in names {
            let read =
                |ending: &str| std::fs::read_to_string(folder.join(format!("{name}.{ending}"))).unwrap();
            let chunks =
                read("chunks.jsonl").lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
            let recorded = serde_json::from_str(&read("json")).unwrap();
            cases.push(Case { name: format!("{suite}/{name}"), folder: folder.clone(), chunks, recorded });
        }
    }
    assert!(!cases.is_empty());
    Some(cases)
}

const ALL: &[&str] = &["sdk", "providers", "pai", "harvest_pydantic", "harvest_vercel"];

fn options() -> UiImportOptions {
    UiImportOptions::default()
}

/// Reads a stream to its end or its first error.
fn read(case: &Case, options: UiImportOptions) -> (UiStreamReader, Option<String>) {
    let mut reader = UiStreamReader::new(case.prior(), options);
    for chunk in &case.chunks {
        if let Err(error) = reader.push_json(chunk) {
            return (reader, Some(error.to_string()));
        }
    }
    (reader, None)
}

/// Canonical JSON without trailing empty steps, which clients drop.
fn shape(message: &Value) -> String {
    let mut message = message.clone();
    if let Some(parts) = message["parts"].as_array_mut() {
        while parts.last().is_some_and(|part| part["type"] == "step-start") {
            parts.pop();
        }
    }
    String::from_utf8(canonical(&message.to_string(), CanonicalForm::JavaScript)).unwrap()
}

fn as_value<T: serde::Serialize>(value: &T) -> Value {
    // Numbers outside the range of doubles become null, as in a browser.
    serde_json::from_slice(&canonical(&serde_json::to_string(value).unwrap(), CanonicalForm::JavaScript))
        .unwrap()
}

#[test]
fn every_stream_assembles_to_the_message_of_the_sdk() {
    let Some(cases) = cases(ALL) else { return };
    let (mut agree, mut refused, mut failures) = (0, 0, Vec::new());
    for case in &cases {
        let (mut reader, error) = read(case, options());
        let expected = &case.recorded["ui_message"];
        let actual = reader.message().map_or(Value::Null, as_value);
        refused += usize::from(error.is_some());
        if error.is_some() != case.is_refused() {
            failures
                .push(format!("{}: {error:?}, but the client {}", case.name, case.recorded["reader_errors"]));
        }
        if shape(&actual) == shape(expected)
            || (expected.is_null() && shape(&actual).contains(r#""parts":[]"#))
        {
            agree += 1;
        } else {
            failures.push(format!("{}:\n  {}\n  {}", case.name, shape(&actual), shape(expected)));
        }
    }
    println!("{} streams, {agree} agree, {refused} refused by both", cases.len());
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_message_of_the_sdk_round_trips_through_a_thread() {
    let Some(cases) = cases(ALL) else { return };
    let mut failures = Vec::new();
    for case in &cases {
        let (mut reader, _) = read(case, options());
        let messages = reader.messages();
        let thread = reader.thread();
        let back = Thread::from_json(&thread.to_json(), &Limits::default()).unwrap();
        let again = back.to_ui_messages(&ExportOptions::default());
        if as_value(&again) != as_value(&messages) {
            failures.push(format!("{}:\n  {}\n  {}", case.name, as_value(&again), as_value(&messages)));
        }
        let errors: Vec<_> =
            thread.validate().into_iter().filter(|issue| issue.severity == Severity::Error).collect();
        if !errors.is_empty() {
            failures.push(format!("{}: {errors:?}", case.name));
        }
    }
    println!("{} streams", cases.len());
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

/// The actions without the members that only one path has: timestamps, sequence numbers, agents, usage, and the finish
/// reasons of all responses except the last.
fn comparable(thread: &Thread) -> Vec<String> {
    let last = thread.actions.iter().rposition(|action| action.action_type() == "assistant_message");
    let shown = thread.actions.iter().enumerate().map(|(place, action)| {
        let mut value = as_value(&**action);
        let object = value.as_object_mut().unwrap();
        for key in ["timestamp", "sequence", "agent_id", "usage"] {
            object.remove(key);
        }
        if Some(place) != last || place + 1 != thread.actions.len() {
            object.remove("finish_reason");
        }
        String::from_utf8(canonical(&value.to_string(), CanonicalForm::JavaScript)).unwrap()
    });
    shown.collect()
}

/// The reason why two threads differ, if the stream of Pydantic AI lacks the information. UI message stream, §12.
fn exception(case: &Case, server: &[String], client: &[String]) -> Option<&'static str> {
    if case.name.ends_with("--v5")
        && case.prior().iter().any(|message| as_value(message).to_string().contains("approval"))
    {
        return Some("version 5 has no approvals");
    }
    let without_retries: Vec<&String> =
        server.iter().filter(|action| !action.contains("system.tp.retry")).collect();
    (without_retries.len() < server.len() && without_retries.into_iter().eq(client))
        .then_some("retries without a tool")
}

#[test]
fn the_history_of_the_server_and_the_stream_of_the_client_give_the_same_thread() {
    let Some(cases) = cases(&["pai"]) else { return };
    let cases: Vec<_> = cases.into_iter().filter(Case::has_history).collect();
    let (mut same, mut exceptions, mut failures) = (0, BTreeMap::<&str, usize>::new(), Vec::new());
    let mut kinds = BTreeMap::<String, [usize; 2]>::new();
    for case in &cases {
        let history = std::fs::read(case.path("pai_messages.json")).unwrap();
        let portable = ImportOptions { profile: ProfileKind::Portable, ..ImportOptions::default() };
        let thread = from_pydantic_ai_json(&history, &portable).unwrap();
        // A stream of the SDK has no prompts.
        let server: Vec<_> = comparable(&thread)
            .into_iter()
            .filter(|action| !action.contains("system.pydantic_ai."))
            .collect();
        let (mut reader, _) = read(case, UiImportOptions { profile: ProfileKind::Portable, ..options() });
        let client = comparable(&reader.thread());
        let reason = if server == client { None } else { exception(case, &server, &client) };
        let fails = server != client && reason.is_none();
        for (place, action) in thread.actions.iter().enumerate() {
            let count = kinds.entry(action.action_type().to_owned()).or_default();
            count[0] += 1;
            count[1] += usize::from(fails && server.get(place) != client.get(place));
        }
        same += usize::from(server == client);
        exceptions
            .extend(reason.map(|reason| (reason, exceptions.get(reason).copied().unwrap_or_default() + 1)));
        if fails {
            failures.push(format!("{}\n  S {server:#?}\n  C {client:#?}", case.name));
        }
    }
    println!("{} runs, {same} the same; exceptions {exceptions:?}", cases.len());
    println!("actions by kind, and those that differ: {kinds:?}");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_thread_of_a_stream_can_be_exported_as_a_stream() {
    let Some(cases) = cases(ALL) else { return };
    let mut failures = Vec::new();
    for case in &cases {
        let portable = UiImportOptions { profile: ProfileKind::Portable, ..options() };
        let (mut reader, _) = read(case, portable.clone());
        let thread = reader.thread();
        if thread.actions.is_empty() {
            continue;
        }
        for sdk in [Sdk::V5, Sdk::V6, Sdk::V7] {
            let export = ExportOptions { sdk, ..ExportOptions::default() };
            let mut again = UiStreamReader::new(Vec::new(), portable.clone());
            for chunk in thread.to_ui_stream(&export) {
                again.push(&chunk).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            }
            let back = again.thread();
            if back.canonical_json(CanonicalForm::Exact) != thread.canonical_json(CanonicalForm::Exact) {
                failures.push(format!(
                    "{} {sdk:?}\n  {:?}\n  {:?}",
                    case.name,
                    comparable(&back),
                    comparable(&thread)
                ));
            }
            let messages = thread.to_ui_messages(&export);
            let back = from_ui_messages(&messages, &portable);
            if back.canonical_json(CanonicalForm::Exact) != thread.canonical_json(CanonicalForm::Exact) {
                failures.push(format!(
                    "{} {sdk:?} messages\n  {}\n  {}",
                    case.name,
                    String::from_utf8_lossy(&back.to_json()),
                    String::from_utf8_lossy(&thread.to_json())
                ));
            }
        }
    }
    println!("{} threads", cases.len());
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
