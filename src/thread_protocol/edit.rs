//! Other threads of threads: two branches joined, contents made unreadable, a part cut out. Each result is valid when
//! its sources are.
//!
//! What Pydantic AI's exact way back needs is kept for actions that stay in whole messages with their thread, and taken
//! from the others: their messages are then made of what the actions say.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::action::Action;
use super::content::{ContentPart, MessageContent};
use super::document::{Actions, Thread};
use crate::core::json::{RawJson, RawObject};
use crate::core::time::Timestamp;

/// Why two threads cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// They do not begin alike, and neither names the other or a common parent.
    #[error(
        "threads \"{ours}\" and \"{theirs}\" have no first action in common; merge branches of one thread, or append the actions of one to the other"
    )]
    NoCommonAncestor {
        /// The thread that was to take the other in.
        ours: String,
        /// The other.
        theirs: String,
    },
    /// They know one agent in two ways.
    #[error(
        "/agents/{agent_id}: the threads know agent \"{agent_id}\" in two ways; give one of them another id"
    )]
    AgentConflict {
        /// The id of both.
        agent_id: String,
    },
}

/// Which actions to cut out; what is `None` does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slice {
    /// What this agent said and did, what its tools answered, and what users said.
    pub agent_id: Option<String>,
    /// Not before this time.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
}

impl Thread {
    /// How many first actions two threads have in common: their common ancestor.
    pub fn common_actions(&self, other: &Self) -> usize {
        let same = |(one, other): &(&Arc<Action>, &Arc<Action>)| Arc::ptr_eq(one, other) || one == other;
        self.actions.iter().zip(other.actions.iter()).take_while(same).count()
    }

    /// Whether one thread branched from the other, or both from the same.
    fn is_kin(&self, other: &Self) -> bool {
        let parent = |thread: &Self| thread.parent_thread_id.clone();
        parent(self).is_some_and(|id| id == other.thread_id || Some(id) == parent(other))
            || parent(other).is_some_and(|id| id == self.thread_id)
    }

    /// Joins two branches: what they have in common, then what is new here, then what is new there.
    ///
    /// The result is a child of this thread; `metadata.merge` says what was joined and where the two parted. A call of
    /// the other branch whose id is open here gets a new id, together with its return; a second return of a call before
    /// the parting becomes `system.tp.second_return`, so that nothing is lost and every return has its call.
    ///
    /// # Errors
    /// [`MergeError`] when the threads have no first action in common, or know one agent in two ways.
    pub fn merge(
        &self,
        other: &Self,
        thread_id: impl Into<String>,
        created_at: impl Into<String>,
    ) -> Result<Self, MergeError> {
        let common = self.common_actions(other);
        if common == 0 && !self.actions.is_empty() && !other.actions.is_empty() && !self.is_kin(other) {
            return Err(MergeError::NoCommonAncestor {
                ours: self.thread_id.clone(),
                theirs: other.thread_id.clone(),
            });
        }
        let mut merged = self.clone();
        merged.parent_thread_id = Some(std::mem::replace(&mut merged.thread_id, thread_id.into()));
        merged.created_at = created_at.into();
        for (key, agent) in other.agents.iter() {
            match merged.agents.get(key) {
                Some(known) if known != agent => {
                    return Err(MergeError::AgentConflict { agent_id: key.to_owned() });
                }
                Some(_) => {}
                None => merged.agents.insert(key, agent.clone()),
            }
        }
        let mut calls = Calls::after(self, common);
        for action in other.actions.iter().skip(common) {
            let mut action = Action::clone(action);
            forget_history(&mut action);
            merged.append(calls.fit(action, &other.thread_id));
        }
        merged.updated_at.clone_from(&merged.created_at);
        let parted = self.actions.get(common.wrapping_sub(1)).map_or(0, |action| action.sequence());
        let [ours, theirs] = [&self.thread_id, &other.thread_id].map(|id| RawJson::from_str_value(id));
        let told = format!("{{\"threads\":[{ours},{theirs}],\"parent_sequence\":{parted}}}");
        let told = RawJson::from_text(told).unwrap_or_default();
        merged.metadata.get_or_insert_default().insert("merge", told);
        Ok(merged)
    }

    /// Makes the contents of some actions unreadable and keeps their structure: who, when, which tool, which call.
    ///
    /// Texts become `replacement`, files and attachments lose their data, arguments and the data of system actions
    /// become `{}`, results become `replacement`; the metadata of these actions goes, and all that Pydantic AI's way
    /// back kept of their messages. A title that begins like a text that went becomes `replacement` too.
    #[must_use]
    pub fn redact(&self, replacement: &str, which: impl Fn(&Action) -> bool) -> Self {
        let mut redacted = self.clone();
        let mut messages = HashSet::new();
        for entry in &mut redacted.actions.0 {
            if which(entry) {
                messages.extend(message_of(entry));
                if told_by(&redacted.title, entry) {
                    replacement.clone_into(&mut redacted.title);
                }
                let action = Arc::make_mut(entry);
                *action.metadata_mut() = None;
                blacken(action, replacement);
            }
        }
        for entry in &mut redacted.actions.0 {
            if message_of(entry).is_some_and(|message| messages.contains(&message)) {
                forget_history(Arc::make_mut(entry));
            }
        }
        redacted.forget_hoisted();
        redacted
    }

    /// The actions of one agent, or of a span of time, as a thread of its own, numbered anew. A return whose call is
    /// left out is left out too.
    #[must_use]
    pub fn slice(&self, slice: &Slice, thread_id: impl Into<String>, created_at: impl Into<String>) -> Self {
        let mut cut = self.clone();
        cut.parent_thread_id = Some(std::mem::replace(&mut cut.thread_id, thread_id.into()));
        cut.created_at = created_at.into();
        cut.actions = Actions::default();
        cut.forget_hoisted();
        let mut open: HashMap<&str, VecDeque<bool>> = HashMap::new();
        for action in self.actions.iter() {
            let kept = match &**action {
                Action::ToolReturn(returned) => {
                    let call = open.get_mut(returned.tool_call_id.as_str()).and_then(VecDeque::pop_front);
                    call == Some(true) && slice.takes_time(action)
                }
                _ => slice.takes_time(action) && slice.takes_agent(action),
            };
            if let Action::ToolCall(call) = &**action {
                open.entry(&call.tool_call_id).or_default().push_back(kept);
            }
            if kept {
                let mut action = Action::clone(action);
                forget_history(&mut action);
                cut.append(action);
            }
        }
        cut.updated_at.clone_from(&cut.created_at);
        cut
    }

    /// Takes away what is kept of actions by their numbers, which do not hold any more.
    fn forget_hoisted(&mut self) {
        let Some(metadata) = &mut self.metadata else { return };
        let namespaces: Vec<String> = metadata.iter().map(|(namespace, _)| namespace.to_owned()).collect();
        for namespace in namespaces {
            let Some(mut object) = metadata.get(&namespace).and_then(RawObject::from_raw) else { continue };
            if object.remove("actions").is_some() {
                metadata.insert(namespace, RawJson::from_value(&object).unwrap_or_default());
            }
        }
    }
}

impl Slice {
    fn takes_time(&self, action: &Action) -> bool {
        let Ok(time) = action.timestamp().parse::<Timestamp>() else {
            return self.since.is_none() && self.until.is_none();
        };
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
    }

    fn takes_agent(&self, action: &Action) -> bool {
        let Some(wanted) = &self.agent_id else { return true };
        let named = match action {
            Action::System(system) => RawObject::from_raw(&system.data)
                .and_then(|data| data.get("agent_id").and_then(RawJson::as_string)),
            action => action.agent_id().map(str::to_owned),
        };
        named.is_none_or(|agent_id| agent_id == *wanted)
    }
}

/// Which calls are open while actions of another branch are added.
struct Calls {
    /// Calls that are answered by the first return of their id.
    ours: HashSet<String>,
    /// Calls before the parting: whether nobody has answered yet.
    before: HashMap<String, VecDeque<bool>>,
    /// Calls of the other branch: the ids they have now.
    theirs: HashMap<String, VecDeque<String>>,
}

impl Calls {
    /// What is open after this thread, whose first `common` actions the other one has too.
    fn after(thread: &Thread, common: usize) -> Self {
        // Ids that were open when the branches parted, and whether they are still.
        let mut open: HashMap<&str, VecDeque<usize>> = HashMap::new();
        let mut at_parting: HashMap<String, VecDeque<usize>> = HashMap::new();
        let copy = |open: &HashMap<&str, VecDeque<usize>>| {
            open.iter().map(|(id, places)| ((*id).to_owned(), places.clone())).collect()
        };
        for (place, action) in thread.actions.iter().enumerate() {
            if place == common {
                at_parting = copy(&open);
            }
            match &**action {
                Action::ToolCall(call) => open.entry(&call.tool_call_id).or_default().push_back(place),
                Action::ToolReturn(returned) => {
                    open.get_mut(returned.tool_call_id.as_str()).and_then(VecDeque::pop_front);
                }
                _ => {}
            }
        }
        if thread.actions.len() <= common {
            at_parting = copy(&open);
        }
        let still = |id: &str, place: usize| open.get(id).is_some_and(|places| places.contains(&place));
        let before = at_parting
            .iter()
            .map(|(id, places)| (id.clone(), places.iter().map(|place| still(id, *place)).collect()))
            .collect();
        let ours = open.iter().filter(|(_, places)| !places.is_empty()).map(|(id, _)| (*id).to_owned());
        Self { ours: ours.collect(), before, theirs: HashMap::new() }
    }

    /// An action of the other branch, so that each return still answers its own call.
    fn fit(&mut self, mut action: Action, other: &str) -> Action {
        match &mut action {
            Action::ToolCall(call) => {
                let taken = self.ours.contains(&call.tool_call_id);
                let id =
                    if taken { format!("{}:{other}", call.tool_call_id) } else { call.tool_call_id.clone() };
                // Returns of calls before the parting come first.
                self.theirs.entry(call.tool_call_id.clone()).or_default().push_back(id.clone());
                call.tool_call_id = id;
                action
            }
            Action::ToolReturn(returned) => {
                let before = self.before.get_mut(&returned.tool_call_id).and_then(VecDeque::pop_front);
                match before {
                    Some(true) => action,
                    Some(false) => second_return(&action),
                    None => {
                        let id = self.theirs.get_mut(&returned.tool_call_id).and_then(VecDeque::pop_front);
                        if let Some(id) = id {
                            returned.tool_call_id = id;
                        }
                        action
                    }
                }
            }
            _ => action,
        }
    }
}

/// The remark that another branch had another result.
fn second_return(action: &Action) -> Action {
    let mut data: RawObject =
        RawJson::from_value(action).ok().and_then(|json| RawObject::from_raw(&json)).unwrap_or_default();
    for key in ["action_type", "timestamp", "sequence", "metadata"] {
        data.remove(key);
    }
    Action::System(super::action::SystemAction {
        action_type: "system.tp.second_return".to_owned(),
        timestamp: action.timestamp().to_owned(),
        data: RawJson::from_value(&data).unwrap_or_default(),
        ..super::action::SystemAction::default()
    })
}

/// Takes what Pydantic AI's way back kept from an action.
fn forget_history(action: &mut Action) {
    let Some(mut metadata) = action.metadata_mut().take() else { return };
    metadata.remove("pydantic_ai");
    *action.metadata_mut() = (!metadata.is_empty()).then_some(metadata);
}

/// The Pydantic AI message that an action belongs to.
fn message_of(action: &Action) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Envelope {
        m: Option<u64>,
        message: Option<Message>,
    }
    #[derive(serde::Deserialize)]
    struct Message {
        #[serde(default)]
        index: u64,
    }
    let envelope: Envelope = action.metadata()?.get("pydantic_ai")?.to().ok()?;
    envelope.m.or_else(|| envelope.message.map(|message| message.index))
}

/// Whether a title is the beginning of what an action says.
fn told_by(title: &str, action: &Action) -> bool {
    match action {
        Action::UserMessage(message) if !title.is_empty() => message.content.text().starts_with(title),
        _ => false,
    }
}

fn blacken(action: &mut Action, replacement: &str) {
    let text = || replacement.to_owned();
    match action {
        Action::UserMessage(message) => {
            blacken_content(&mut message.content, replacement);
            for attachment in message.attachments.iter_mut().flatten() {
                attachment.name = text();
                attachment.url = None;
                attachment.data = None;
                attachment.extra = crate::core::json::Extra::new();
            }
            message.extra = crate::core::json::Extra::new();
        }
        Action::AssistantMessage(message) => {
            blacken_content(&mut message.content, replacement);
            message.extra = crate::core::json::Extra::new();
        }
        Action::Thinking(thinking) => {
            thinking.content = thinking.content.is_some().then(text);
            thinking.signature = None;
            thinking.extra = crate::core::json::Extra::new();
        }
        Action::ToolCall(call) => {
            call.args = RawJson::empty_object();
            call.extra = crate::core::json::Extra::new();
        }
        Action::ToolReturn(returned) => {
            returned.content = RawJson::from_str_value(replacement);
            returned.extra = crate::core::json::Extra::new();
        }
        Action::System(system) => {
            system.data = RawJson::empty_object();
            system.extra = crate::core::json::Extra::new();
        }
        Action::Other(other) => other.extra = crate::core::json::Extra::new(),
    }
}

fn blacken_content(content: &mut MessageContent, replacement: &str) {
    let parts = match content {
        MessageContent::Text(text) => {
            replacement.clone_into(text);
            return;
        }
        MessageContent::Parts(parts) => parts,
    };
    macro_rules! without_data {
        ($part:expr) => {{
            $part.url = None;
            $part.base64 = None;
            $part.file_id = None;
            $part.name = None;
            $part.extra = crate::core::json::Extra::new();
        }};
    }
    for part in parts {
        match part {
            ContentPart::Text(text) => {
                replacement.clone_into(&mut text.text);
                text.extra = crate::core::json::Extra::new();
            }
            ContentPart::Image(part) => without_data!(part),
            ContentPart::File(part) => without_data!(part),
            ContentPart::Audio(part) => without_data!(part),
            ContentPart::Video(part) => without_data!(part),
            ContentPart::Unknown(unknown) => unknown.members = RawObject::new(),
        }
    }
}
