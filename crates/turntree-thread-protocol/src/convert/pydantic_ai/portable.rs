//! The portable profile of Pydantic AI histories: the same actions as an import of the stream that the server sent.
//!
//! Values are normalized as in the stream: arguments are objects, errors are strings. Data, sources and files of tools,
//! and cited sources, become actions. Fields that streams do not have are left out, for example empty thinking.
//!
//! Spec: UI message stream, §10 to §12.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::model::{Part, part_kind};
use crate::action::Action;
use crate::content::ContentPart;
use crate::convert::portable::{DeferredAction, DeferredActions, data_name, file_data, system};
use turntree_core::json::{RawJson, RawObject};

/// State of the portable profile across the messages of a run.
#[derive(Debug, Default)]
pub(super) struct PortableState {
    /// Actions that wait for the results of a response.
    pub deferred: DeferredActions,
    /// The URLs that the run has cited.
    cited: HashSet<String>,
}

impl PortableState {
    /// Starts a new user turn.
    pub(super) fn begin_turn(&mut self) {
        self.cited.clear();
        self.deferred.begin_turn();
    }

    /// The cited sources of a text that are new in the run.
    pub(super) fn citations(&mut self, text: &Part<'_>, timestamp: &str) -> Vec<DeferredAction> {
        let Some(citations) = text.get("citations").filter(|citations| !citations.is_null()) else {
            return Vec::new();
        };
        let citations: Vec<Citation> = serde_json::from_str(&citations.to_json()).unwrap_or_default();
        let webs = citations.into_iter().flat_map(|citation| citation.sources);
        let new = webs.filter_map(|source| {
            let url = source.url.filter(|_| source.kind == "web")?;
            self.cited.insert(url.clone()).then_some((url, source.title))
        });
        new.map(|(url, title)| {
            let mut data = RawObject::new();
            data.insert("source_id", RawJson::from_str_value(&url));
            data.insert("url", RawJson::from_str_value(&url));
            if let Some(title) = title {
                data.insert("title", RawJson::from_str_value(&title));
            }
            DeferredAction::new(portable_action("source_url", &data, timestamp))
        })
        .collect()
    }
}

#[derive(serde::Deserialize)]
struct Citation {
    #[serde(default)]
    sources: Vec<CitationSource>,
}

#[derive(serde::Deserialize)]
struct CitationSource {
    kind: String,
    url: Option<String>,
    title: Option<String>,
}

/// True if a text cites a source with a URL.
pub(super) fn cites(text: &Part<'_>) -> bool {
    text.get("citations")
        .is_some_and(|citations| !citations.is_null() && citations.to_json().contains("\"web\""))
}

/// True if a thinking part is empty.
pub(super) fn is_empty_thought(part: &Part<'_>) -> bool {
    let has = |key: &str| part.get(key).is_some_and(|value| !value.is_null());
    part_kind(part) == "thinking"
        && part.text("content").is_some_and(|text| text.is_empty())
        && !["signature", "id", "provider_name", "provider_details"].into_iter().any(has)
}

/// The actions of stream chunks that a tool sent beside its result. Pydantic AI stores them in the metadata of its
/// return.
pub(super) fn deferred_by_tool(part: &Part<'_>, timestamp: &str) -> Vec<DeferredAction> {
    let Some(metadata) = part.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return Vec::new();
    };
    let text = metadata.to_json();
    let chunks: Vec<&RawValue> = match serde_json::from_str(&text) {
        Ok(list) => list,
        Err(_) => serde_json::from_str(&text).into_iter().collect(),
    };
    chunks
        .into_iter()
        .filter_map(|chunk| of_chunk(&RawObject::from_raw(&RawJson::from(chunk))?, timestamp))
        .collect()
}

/// Types of chunks with their required and optional members.
const CHUNK_MEMBERS: &[(&str, &str, &[&str], &[&str])] = &[
    ("source-url", "source_url", &["source_id", "url"], &["title"]),
    ("source-document", "source_document", &["source_id", "media_type", "title"], &["filename"]),
    ("file", "file", &["media_type", "url"], &[]),
];

fn of_chunk(chunk: &RawObject, timestamp: &str) -> Option<DeferredAction> {
    let kind = chunk.get("type")?.as_string()?;
    let known = |names: &[&str]| {
        chunk.iter().all(|(key, _)| ["type", "provider_metadata"].contains(&key) || names.contains(&key))
    };
    if let Some(name) = kind.strip_prefix("data-") {
        let transient = chunk.get("transient").is_some_and(|transient| transient.get() == "true");
        let data = chunk.get("data").filter(|_| known(&["id", "data", "transient"]) && !transient)?;
        let id = chunk.get("id").and_then(RawJson::as_string);
        return Some(DeferredAction { action: system(&data_name(name)?, timestamp, data.clone()), id });
    }
    let (_, name, must, may) = CHUNK_MEMBERS.iter().find(|(known, ..)| *known == kind)?;
    let members: Vec<&str> = must.iter().chain(*may).copied().collect();
    let text = |key: &str| chunk.get(key).is_some_and(RawJson::is_string);
    if !known(&members) || !must.iter().all(|key| text(key)) {
        return None;
    }
    let present = members.into_iter().filter(|key| text(key));
    let data = present.filter_map(|key| Some((key, chunk.get(key)?.clone()))).collect();
    Some(DeferredAction::new(portable_action(name, &data, timestamp)))
}

/// Creates a `system.tp.*` action.
///
/// Spec: UI message stream, §12.
fn portable_action(name: &str, data: &RawObject, timestamp: &str) -> Action {
    system(&format!("system.tp.{name}"), timestamp, RawJson::from_value(data).unwrap_or_default())
}

/// The action of a file after a call: a stream does not distinguish it from a file of the tool.
pub(super) fn file(file: &ContentPart, timestamp: &str) -> DeferredAction {
    DeferredAction::new(system("system.tp.file", timestamp, file_data(file)))
}

/// True for tool calls.
pub(super) fn is_call(part: &Part<'_>) -> bool {
    matches!(&*part_kind(part), "tool-call" | "builtin-tool-call")
}
