//! The portable profile: a history in the words of the stream that its server sent, so that server and client hold the
//! same actions. UI message stream, §10 to §12.
//!
//! What the wire spells otherwise is respelled (arguments that are no object, errors that are no text), what it carries
//! beside the parts of a history becomes actions (data, sources and files of tools, cited sources), and what it does not
//! carry is left out (empty thoughts, the provider of thoughts that name none). The full profile keeps a history as it is.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::model::{Part, part_kind};
use crate::action::Action;
use crate::content::ContentPart;
use crate::convert::portable::{DeferredAction, DeferredActions, data_name, file_data, system};
use turntree_core::json::{RawJson, RawObject};

/// What the portable profile remembers between the messages of a run.
#[derive(Debug, Default)]
pub(super) struct PortableState {
    /// Actions that wait for the results of a response.
    pub deferred: DeferredActions,
    /// The addresses that the run has cited.
    cited: HashSet<String>,
}

impl PortableState {
    /// Starts a new user turn.
    pub(super) fn begin_turn(&mut self) {
        self.cited.clear();
        self.deferred.begin_turn();
    }

    /// The sources that a text cites and the run has not named yet.
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
            DeferredAction::new(fact("source_url", &data, timestamp))
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

/// Whether a text cites a source that has an address.
pub(super) fn cites(text: &Part<'_>) -> bool {
    text.get("citations")
        .is_some_and(|citations| !citations.is_null() && citations.to_json().contains("\"web\""))
}

/// Whether a thought says nothing at all.
pub(super) fn is_empty_thought(part: &Part<'_>) -> bool {
    let says = |key: &str| part.get(key).is_some_and(|value| !value.is_null());
    part_kind(part) == "thinking"
        && part.text("content").is_some_and(|text| text.is_empty())
        && !["signature", "id", "provider_name", "provider_details"].into_iter().any(says)
}

/// The chunks that a tool sent beside its result, which Pydantic AI keeps in the metadata of its return.
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

/// Kinds of chunks that carry facts, and the members that each must and may have.
const FACTS: &[(&str, &str, &[&str], &[&str])] = &[
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
    let (_, name, must, may) = FACTS.iter().find(|(known, ..)| *known == kind)?;
    let members: Vec<&str> = must.iter().chain(*may).copied().collect();
    let text = |key: &str| chunk.get(key).is_some_and(RawJson::is_string);
    if !known(&members) || !must.iter().all(|key| text(key)) {
        return None;
    }
    let said = members.into_iter().filter(|key| text(key));
    let data = said.filter_map(|key| Some((key, chunk.get(key)?.clone()))).collect();
    Some(DeferredAction::new(fact(name, &data, timestamp)))
}

/// An action of a fact that streams know. UI message stream, §12.
fn fact(name: &str, data: &RawObject, timestamp: &str) -> Action {
    system(&format!("system.tp.{name}"), timestamp, RawJson::from_value(data).unwrap_or_default())
}

/// A file of an answer that stands behind a call: in a stream it cannot be told from the file of a tool.
pub(super) fn file(file: &ContentPart, timestamp: &str) -> DeferredAction {
    DeferredAction::new(system("system.tp.file", timestamp, file_data(file)))
}

/// Whether a part is a call of a tool.
pub(super) fn is_call(part: &Part<'_>) -> bool {
    matches!(&*part_kind(part), "tool-call" | "builtin-tool-call")
}
