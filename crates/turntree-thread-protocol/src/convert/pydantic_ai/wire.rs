//! The portable profile: a history in the words of the stream that its server sent, so that server and client hold the
//! same actions. UI message stream, §10 to §12.
//!
//! What the wire spells otherwise is respelled (arguments that are no object, errors that are no text), what it carries
//! beside the parts of a history becomes actions (data, sources and files of tools, cited sources), and what it does not
//! carry is left out (empty thoughts, the provider of thoughts that name none). The full profile keeps a history as it is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::draft::Draft;
use super::encode::Encoder;
use super::envelope::ObjectWriter;
use super::model::{Kind, ModelMessage, Part, part_kind};
use super::parts::{self, USAGE, system};
use crate::action::Action;
use crate::content::ContentPart;
use crate::convert::vercel_ui::{data_name, file_data, object_arguments};
use turntree_core::json::canonical;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::time::Timestamp;

/// What stands in a stream behind the results of a response's calls, and what the message of the run said before.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// Data, sources and files of the response, until its results have come.
    late: Vec<Remark>,
    /// The addresses that the run has cited.
    cited: HashSet<String>,
    /// Where data with an id stands: a later value takes its place.
    data: HashMap<(String, String), usize>,
}

impl Encoder<'_, '_> {
    /// Adds the actions of a message in the portable profile.
    pub(super) fn finish_portable(&mut self, message: &ModelMessage<'_>, mut draft: Draft, agent_id: &str) {
        if self.options.usage_actions
            && let Some(usage) = usage_action(message, &draft, agent_id, &self.timestamp)
        {
            draft.remark(usage);
        }
        // A response begins when the one before has all it waits for; results stand before what else a user says.
        let last_result = draft.actions.iter().rposition(|action| matches!(action, Action::ToolReturn(_)));
        let results = match message.kind {
            Kind::Request => last_result.map_or(0, |place| place + 1),
            _ => 0,
        };
        let rest = draft.actions.split_off(results);
        draft.actions.into_iter().for_each(|action| self.tell(action));
        if message.kind == Kind::Request {
            self.wire.wait(std::mem::take(&mut draft.late));
        }
        self.settle();
        for action in rest {
            if results == 0 && matches!(action, Action::UserMessage(_)) {
                self.wire.begin();
            }
            self.tell(action);
        }
        self.wire.wait(draft.late);
    }

    /// Adds what waits for results that will not come any more.
    pub(super) fn settle(&mut self) {
        for remark in self.wire.due() {
            if let Some(action) = self.wire.place(remark, &mut self.actions) {
                self.tell(action);
            }
        }
    }

    /// Adds an action of the portable profile.
    fn tell(&mut self, mut action: Action) {
        respell(&mut action);
        self.clamp(&mut action);
        action.timestamp().clone_into(&mut self.timestamp);
        self.push(action);
    }

    /// Moves a time that would run backwards to the latest so far (decision 10).
    fn clamp(&mut self, action: &mut Action) {
        let Ok(timestamp) = action.timestamp().parse::<Timestamp>() else { return };
        match self.clamp {
            Some(latest) if timestamp < latest => action.set_timestamp(self.timestamp.as_str().into()),
            _ => self.clamp = Some(timestamp),
        }
    }
}

/// The cost of an answer without text. Decision 14.
fn usage_action(
    message: &ModelMessage<'_>,
    draft: &Draft,
    agent_id: &str,
    timestamp: &str,
) -> Option<Action> {
    if draft.actions.iter().any(|action| matches!(action, Action::AssistantMessage(_))) {
        return None;
    }
    let counted = super::usage::counted(message.usage.as_ref()?)?;
    let mut data = ObjectWriter::default();
    data.text("agent_id", agent_id);
    data.json("input_tokens", &counted.input_tokens.to_string());
    data.json("output_tokens", &counted.output_tokens.to_string());
    if let Some(reason) = message.text("finish_reason") {
        data.text("finish_reason", &reason);
    }
    let timestamp = draft.actions.last().map_or(timestamp, Action::timestamp);
    Some(parts::system(USAGE, timestamp, RawJson::from_text(data.finish()).unwrap_or_default()))
}

/// A chunk of the stream that is no part of the history.
#[derive(Debug)]
pub(super) struct Remark {
    pub action: Action,
    /// Data parts: their id.
    pub id: Option<String>,
}

impl Remark {
    pub(super) const fn new(action: Action) -> Self {
        Self { action, id: None }
    }
}

impl Wire {
    /// A new message of the client begins.
    pub(super) fn begin(&mut self) {
        self.cited.clear();
        self.data.clear();
    }

    /// What comes when the results of the response are there.
    pub(super) fn wait(&mut self, remarks: impl IntoIterator<Item = Remark>) {
        self.late.extend(remarks);
    }

    /// What waited.
    pub(super) fn due(&mut self) -> Vec<Remark> {
        std::mem::take(&mut self.late)
    }

    /// The action of a remark that takes no earlier one's place. `actions` are those of the thread so far.
    pub(super) fn place(&mut self, remark: Remark, actions: &mut [Arc<Action>]) -> Option<Action> {
        let Some(id) = remark.id else { return Some(remark.action) };
        let key = (remark.action.action_type().to_owned(), id);
        let before = self.data.get(&key).and_then(|place| actions.get_mut(*place)).map(Arc::make_mut);
        if let Some(Action::System(before)) = before {
            if let Action::System(now) = remark.action {
                before.data = now.data;
            }
            return None;
        }
        self.data.insert(key, actions.len());
        Some(remark.action)
    }

    /// The sources that a text cites and the run has not named yet.
    pub(super) fn citations(&mut self, text: &Part<'_>, timestamp: &str) -> Vec<Remark> {
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
            Remark::new(fact("source_url", &data, timestamp))
        })
        .collect()
    }
}

#[derive(serde::Deserialize)]
struct Citation {
    #[serde(default)]
    sources: Vec<Source>,
}

#[derive(serde::Deserialize)]
struct Source {
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

/// Spells an action as the stream does.
pub(super) fn respell(action: &mut Action) {
    match action {
        Action::ToolCall(call) if !call.args.is_object() => call.args = object_arguments(&call.args),
        Action::ToolReturn(returned) if returned.status != "success" && !returned.content.is_string() => {
            let content = &returned.content;
            let text = if content.is_null() { String::new() } else { canonical::respell(content.get()) };
            returned.content = RawJson::from_str_value(&text);
        }
        _ => {}
    }
}

/// The chunks that a tool sent beside its result, which Pydantic AI keeps in the metadata of its return.
pub(super) fn of_tool(part: &Part<'_>, timestamp: &str) -> Vec<Remark> {
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

fn of_chunk(chunk: &RawObject, timestamp: &str) -> Option<Remark> {
    let kind = chunk.get("type")?.as_string()?;
    let known = |names: &[&str]| {
        chunk.iter().all(|(key, _)| ["type", "provider_metadata"].contains(&key) || names.contains(&key))
    };
    if let Some(name) = kind.strip_prefix("data-") {
        let transient = chunk.get("transient").is_some_and(|transient| transient.get() == "true");
        let data = chunk.get("data").filter(|_| known(&["id", "data", "transient"]) && !transient)?;
        let id = chunk.get("id").and_then(RawJson::as_string);
        return Some(Remark { action: system(&data_name(name)?, timestamp, data.clone()), id });
    }
    let (_, name, must, may) = FACTS.iter().find(|(known, ..)| *known == kind)?;
    let members: Vec<&str> = must.iter().chain(*may).copied().collect();
    let text = |key: &str| chunk.get(key).is_some_and(RawJson::is_string);
    if !known(&members) || !must.iter().all(|key| text(key)) {
        return None;
    }
    let said = members.into_iter().filter(|key| text(key));
    let data = said.filter_map(|key| Some((key, chunk.get(key)?.clone()))).collect();
    Some(Remark::new(fact(name, &data, timestamp)))
}

/// An action of a fact that streams know. UI message stream, §12.
fn fact(name: &str, data: &RawObject, timestamp: &str) -> Action {
    system(&format!("system.tp.{name}"), timestamp, RawJson::from_value(data).unwrap_or_default())
}

/// A file of an answer that stands behind a call: in a stream it cannot be told from the file of a tool.
pub(super) fn file(file: &ContentPart, timestamp: &str) -> Remark {
    Remark::new(system("system.tp.file", timestamp, file_data(file)))
}

/// Whether a part is a call of a tool.
pub(super) fn is_call(part: &Part<'_>) -> bool {
    matches!(&*part_kind(part), "tool-call" | "builtin-tool-call")
}
