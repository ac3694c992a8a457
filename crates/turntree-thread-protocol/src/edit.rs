//! Thread transformations: merge two branches, redact contents, cut out a slice. The result is valid if its sources
//! are.
//!
//! Round-trip metadata is preserved for messages whose actions all stay in their thread, and removed from all other
//! messages. Their export is then built from the actions alone. Hoisted metadata follows its actions.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::action::Action;
use super::content::{ContentPart, MessageContent};
use super::document::{Actions, AgentConfig, Thread};
use super::roundtrip_metadata::{PYDANTIC_AI, remove_namespace, remove_of_messages};
use turntree_core::intern::InternedStr;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::time::Timestamp;

/// Why two threads cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The threads have no common beginning, and neither refers to the other or to a common parent.
    #[error(
        "threads \"{ours}\" and \"{theirs}\" have no first action in common; merge branches of one thread, or append the actions of one to the other"
    )]
    NoCommonAncestor {
        /// The thread that receives the other.
        ours: String,
        /// The other thread.
        theirs: String,
    },
    /// The threads define one agent differently.
    #[error(
        "/agents/{agent_id}: the threads define agent \"{agent_id}\" differently; give one of them another id"
    )]
    AgentConflict {
        /// The id of the agent.
        agent_id: String,
    },
}

/// Selects the actions of a slice. A field that is `None` does not restrict it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slice {
    /// Keep the actions of this agent, the results of its tools, and all user messages.
    pub agent_id: Option<String>,
    /// Keep actions at or after this time.
    pub since: Option<Timestamp>,
    /// Keep actions before this time.
    pub until: Option<Timestamp>,
}

impl Thread {
    /// The number of leading actions that both threads share. Different spellings of a time are equal.
    pub fn common_actions(&self, other: &Self) -> usize {
        self.actions.iter().zip(other.actions.iter()).take_while(|(one, other)| is_same(one, other)).count()
    }

    /// Makes this thread a branch of `parent`, which begins with the actions that both share.
    pub fn set_parent(&mut self, parent: &Self) {
        self.set_branch_point(self.common_actions(parent) as u64);
        self.parent_thread_id = Some(parent.thread_id.clone());
    }

    /// True if one thread branched from the other, or both from the same parent, before the first action.
    fn is_kin(&self, other: &Self) -> bool {
        let parent = |thread: &Self| thread.parent_thread_id.clone();
        let child_of = |one: &Self, other: &Self| parent(one).is_some_and(|id| id == other.thread_id);
        let siblings = parent(self).is_some() && parent(self) == parent(other);
        let early = |thread: &Self| thread.branch_point().is_none_or(|point| point == 0);
        match (child_of(self, other), child_of(other, self)) {
            (true, _) => early(self),
            (_, true) => early(other),
            _ => siblings && (early(self) || early(other)),
        }
    }

    /// The sequence of the last action that this thread shares with its parent (decision 16).
    fn branch_point(&self) -> Option<u64> {
        #[derive(serde::Deserialize)]
        struct Branch {
            parent_sequence: u64,
        }
        let branch: Branch = self.metadata.as_ref()?.get("branch")?.to().ok()?;
        Some(branch.parent_sequence)
    }

    /// Merges two branches: the common actions, then the new actions of this thread, then those of the other.
    ///
    /// The result is a child of this thread; `metadata.merge` describes the sources and the fork. If a call of the
    /// other branch has an id that is open here, the call and its return get a new id. A second return of a call before
    /// the fork becomes `system.tp.second_return`, so that every return has its call.
    ///
    /// # Errors
    /// [`MergeError`] if the threads have no common beginning, or define one agent differently.
    pub fn merge(
        &self,
        other: &Self,
        thread_id: impl Into<String>,
        created_at: impl Into<String>,
    ) -> Result<Self, MergeError> {
        let namespaces = self.hoisted_namespaces();
        let (ours, mut theirs) = (self.unhoisted(), other.unhoisted().into_owned());
        let common = ours.common_actions(&theirs);
        if common == 0 && !ours.actions.is_empty() && !theirs.actions.is_empty() && !ours.is_kin(&theirs) {
            return Err(MergeError::NoCommonAncestor {
                ours: self.thread_id.clone(),
                theirs: other.thread_id.clone(),
            });
        }
        let mut merged = Self::clone(&ours);
        merged.parent_thread_id = Some(std::mem::replace(&mut merged.thread_id, thread_id.into()));
        merged.created_at = created_at.into();
        for (key, agent) in theirs.agents.iter() {
            match merged.agents.get(key) {
                Some(known) if !is_same_agent(known, agent) => {
                    return Err(MergeError::AgentConflict { agent_id: key.to_owned() });
                }
                Some(_) => {}
                None => merged.agents.insert(key, agent.clone()),
            }
        }
        let mut calls = Calls::after(&ours, common);
        let mut changed: HashSet<usize> = (0..common).collect();
        for (index, entry) in theirs.actions.0.iter_mut().enumerate().skip(common) {
            let fitting = calls.fit(Action::clone(entry), &other.thread_id);
            if fitting != **entry {
                changed.insert(index);
                *entry = Arc::new(fitting);
            }
        }
        remove_of_messages(&mut theirs.actions, |index| changed.contains(&index));
        for action in theirs.actions.iter().skip(common) {
            let mut action = Action::clone(action);
            // Its members depend on the templates of the other thread.
            remove_namespace(&mut action, PYDANTIC_AI);
            merged.append(action);
        }
        merged.updated_at.clone_from(&merged.created_at);
        merged.take_metadata(&theirs);
        let parted = ours.actions.get(common.wrapping_sub(1)).map_or(0, |action| action.sequence());
        let last = ours.actions.last().map_or(0, |action| action.sequence());
        let [ours, theirs] = [&self.thread_id, &other.thread_id].map(|id| RawJson::from_str_value(id));
        merged.set_branch_point(last);
        let sources = format!("{{\"threads\":[{ours},{theirs}],\"parent_sequence\":{parted}}}");
        let sources = RawJson::from_text(sources).unwrap_or_default();
        merged.metadata.get_or_insert_default().insert("merge", sources);
        Ok(merged.hoisted(|namespace| namespaces.contains(namespace)))
    }

    /// Adds the metadata of another thread: missing namespaces, and the configurations that its agents refer to.
    fn take_metadata(&mut self, other: &Self) {
        let mut metadata = self.metadata.take().unwrap_or_default();
        for (namespace, value) in other.metadata.iter().flat_map(RawObject::iter) {
            match (namespace, metadata.get(namespace)) {
                (PYDANTIC_AI, ours) => {
                    let joined = with_texts(ours, value);
                    metadata.insert(namespace, joined);
                }
                (_, None) => metadata.insert(namespace, value.clone()),
                _ => {}
            }
        }
        self.metadata = Some(metadata);
    }

    /// Redacts the contents of the selected actions and preserves their structure: agent, time, tool and call.
    ///
    /// Texts and results become `replacement`. Files and attachments lose their data. Arguments and the data of system
    /// actions become `{}`. The metadata of these actions and the round-trip metadata of their messages are removed. A
    /// title that repeats a redacted text, or a part of it, becomes `replacement`. Other actions, the configurations of
    /// agents and the metadata of the thread do not change.
    #[must_use]
    pub fn redact(&self, replacement: &str, which: impl Fn(&Action) -> bool) -> Self {
        let namespaces = self.hoisted_namespaces();
        let mut redacted = self.unhoisted().into_owned();
        let chosen: Vec<bool> = redacted.actions.iter().map(|action| which(action)).collect();
        let is_chosen = |index: usize| chosen.get(index) == Some(&true);
        remove_of_messages(&mut redacted.actions, is_chosen);
        for (index, entry) in redacted.actions.0.iter_mut().enumerate() {
            if !is_chosen(index) {
                continue;
            }
            if title_repeats(&redacted.title, entry) {
                replacement.clone_into(&mut redacted.title);
            }
            let action = Arc::make_mut(entry);
            *action.metadata_mut() = None;
            blacken(action, replacement);
        }
        redacted.forget_texts();
        redacted.hoisted(|namespace| namespaces.contains(namespace))
    }

    /// Cuts out the actions of one agent or of a span of time as a new thread with new sequence numbers. A return
    /// without its call is left out.
    #[must_use]
    pub fn slice(&self, slice: &Slice, thread_id: impl Into<String>, created_at: impl Into<String>) -> Self {
        let namespaces = self.hoisted_namespaces();
        let whole = self.unhoisted();
        let retained = slice.retained(&whole.actions);
        let is_kept = |index: usize| retained.get(index) == Some(&true);
        let mut actions = whole.actions.clone();
        remove_of_messages(&mut actions, |index| !is_kept(index));
        let mut cut = Self { actions: Actions::default(), ..whole.into_owned() };
        cut.parent_thread_id = Some(std::mem::replace(&mut cut.thread_id, thread_id.into()));
        cut.created_at = created_at.into();
        if let Some(metadata) = &mut cut.metadata {
            // The slice does not share the beginning of the thread.
            metadata.remove("branch");
            metadata.remove("merge");
        }
        cut.metadata = cut.metadata.filter(|metadata| !metadata.is_empty());
        for (_, action) in actions.0.into_iter().enumerate().filter(|(index, _)| is_kept(*index)) {
            cut.append(Arc::unwrap_or_clone(action));
        }
        cut.updated_at.clone_from(&cut.created_at);
        cut.forget_texts();
        cut.hoisted(|namespace| namespaces.contains(namespace))
    }

    /// Removes texts that no message and no configuration refers to.
    fn forget_texts(&mut self) {
        let Some(mut object) =
            self.metadata.as_ref().and_then(|all| RawObject::from_raw(all.get(PYDANTIC_AI)?))
        else {
            return;
        };
        let Some(texts) = object.remove("texts").and_then(|texts| RawObject::from_raw(&texts)) else {
            return;
        };
        let mut named = HashSet::new();
        let in_actions = self.actions.iter().filter_map(|action| action.metadata()?.get(PYDANTIC_AI));
        for json in object.iter().map(|(_, value)| value).chain(in_actions) {
            let quoted = json.get().split('"');
            named.extend(quoted.filter(|text| text.starts_with("sha256:")).map(str::to_owned));
        }
        let known = texts.len();
        let texts: RawObject = texts
            .iter()
            .filter(|(address, _)| named.contains(*address))
            .map(|(address, text)| (address, text.clone()))
            .collect();
        if texts.len() == known {
            return;
        }
        if !texts.is_empty() {
            object.insert("texts", RawJson::from_value(&texts).unwrap_or_default());
        }
        if let Some(metadata) = &mut self.metadata {
            metadata.insert(PYDANTIC_AI, RawJson::from_value(&object).unwrap_or_default());
        }
    }
}

/// True if two actions are equal, whatever the spelling of their times.
fn is_same(one: &Arc<Action>, other: &Arc<Action>) -> bool {
    if Arc::ptr_eq(one, other) || one == other {
        return true;
    }
    if one.timestamp() == other.timestamp() || !is_same_time(one.timestamp(), other.timestamp()) {
        return false;
    }
    let mut respelled = Action::clone(other);
    respelled.set_timestamp(one.timestamp().into());
    **one == respelled
}

fn is_same_agent(one: &AgentConfig, other: &AgentConfig) -> bool {
    one == other
        || is_same_time(&one.created_at, &other.created_at)
            && AgentConfig { created_at: one.created_at.clone(), ..other.clone() } == *one
}

fn is_same_time(one: &str, other: &str) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    time(one).is_some() && time(one) == time(other)
}

/// Adds the texts and configurations of another thread to the Pydantic AI metadata. Their keys are digests, so they
/// never collide.
fn with_texts(ours: Option<&RawJson>, theirs: &RawJson) -> RawJson {
    let mut joined = ours.and_then(RawObject::from_raw).unwrap_or_default();
    let theirs = RawObject::from_raw(theirs).unwrap_or_default();
    for member in ["texts", "configs"] {
        let [held, more] = [&joined, &theirs].map(|object| object.get(member).and_then(RawObject::from_raw));
        if let Some(more) = more {
            let held = held.unwrap_or_default();
            let all = held.iter().chain(more.iter()).map(|(key, value)| (key, value.clone()));
            let all: RawObject = all.collect();
            joined.insert(member, RawJson::from_value(&all).unwrap_or_default());
        }
    }
    RawJson::from_value(&joined).unwrap_or_default()
}

impl Slice {
    /// For each action, whether the slice keeps it.
    fn retained(&self, actions: &Actions) -> Vec<bool> {
        let mut open: HashMap<&str, VecDeque<bool>> = HashMap::new();
        let retained = actions.iter().map(|action| match &**action {
            Action::ToolReturn(returned) => {
                let call = open.get_mut(returned.tool_call_id.as_str()).and_then(VecDeque::pop_front);
                call == Some(true) && self.takes_time(action)
            }
            Action::ToolCall(call) => {
                let retained = self.takes_time(action) && self.takes_agent(action);
                open.entry(&call.tool_call_id).or_default().push_back(retained);
                retained
            }
            _ => self.takes_time(action) && self.takes_agent(action),
        });
        retained.collect()
    }

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

/// Open calls while the actions of another branch are appended.
struct Calls {
    /// Calls that the next return with their id closes.
    ours: HashSet<InternedStr>,
    /// Calls before the fork: whether they are still open.
    before: HashMap<InternedStr, VecDeque<bool>>,
    /// New ids of the other branch's calls.
    theirs: HashMap<InternedStr, VecDeque<InternedStr>>,
}

impl Calls {
    /// The open calls at the end of a thread whose first `common` actions the other thread shares.
    fn after(thread: &Thread, common: usize) -> Self {
        // Calls that were open at the fork, and whether they still are.
        let mut open: HashMap<&str, VecDeque<usize>> = HashMap::new();
        let mut at_parting: HashMap<String, VecDeque<usize>> = HashMap::new();
        let copy = |open: &HashMap<&str, VecDeque<usize>>| {
            open.iter().map(|(id, indices)| ((*id).to_owned(), indices.clone())).collect()
        };
        for (index, action) in thread.actions.iter().enumerate() {
            if index == common {
                at_parting = copy(&open);
            }
            match &**action {
                Action::ToolCall(call) => open.entry(&call.tool_call_id).or_default().push_back(index),
                Action::ToolReturn(returned) => {
                    open.get_mut(returned.tool_call_id.as_str()).and_then(VecDeque::pop_front);
                }
                _ => {}
            }
        }
        if thread.actions.len() <= common {
            at_parting = copy(&open);
        }
        let still = |id: &str, index: usize| open.get(id).is_some_and(|indices| indices.contains(&index));
        let before = at_parting
            .iter()
            .map(|(id, indices)| {
                (id.as_str().into(), indices.iter().map(|index| still(id, *index)).collect())
            })
            .collect();
        let ours = open.iter().filter(|(_, indices)| !indices.is_empty()).map(|(id, _)| (*id).into());
        Self { ours: ours.collect(), before, theirs: HashMap::new() }
    }

    /// Adapts an action of the other branch, so that each return still matches its own call.
    fn fit(&mut self, mut action: Action, other: &str) -> Action {
        match &mut action {
            Action::ToolCall(call) => {
                let taken = self.ours.contains(&call.tool_call_id);
                let id = if taken {
                    format!("{}:{other}", call.tool_call_id).into()
                } else {
                    call.tool_call_id.clone()
                };
                // Returns of calls before the fork come first.
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

/// The system action for a second result of one call.
fn second_return(action: &Action) -> Action {
    let mut data: RawObject =
        RawJson::from_value(action).ok().and_then(|json| RawObject::from_raw(&json)).unwrap_or_default();
    for key in ["action_type", "timestamp", "sequence", "metadata"] {
        data.remove(key);
    }
    Action::System(super::action::SystemAction {
        action_type: "system.tp.second_return".into(),
        timestamp: action.timestamp().into(),
        data: RawJson::from_value(&data).unwrap_or_default(),
        ..super::action::SystemAction::default()
    })
}

/// True if a title repeats the content of an action, or a part of it.
fn title_repeats(title: &str, action: &Action) -> bool {
    let payload = |json: &RawJson| json.as_string().unwrap_or_else(|| json.get().to_owned());
    let text = match action {
        Action::UserMessage(message) => message.content.text().into_owned(),
        Action::AssistantMessage(message) => message.content.text().into_owned(),
        Action::Thinking(thought) => thought.content.clone().unwrap_or_default(),
        Action::ToolCall(call) => payload(&call.args),
        Action::ToolReturn(returned) => payload(&returned.content),
        Action::System(system) => payload(&system.data),
        Action::Other(_) => String::new(),
    };
    let (title, text) = (title.trim(), text.trim());
    !title.is_empty() && !text.is_empty() && (text.contains(title) || title.contains(text))
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
                attachment.extra = Extra::new();
            }
            message.extra = Extra::new();
        }
        Action::AssistantMessage(message) => {
            blacken_content(&mut message.content, replacement);
            message.extra = Extra::new();
            if let Some(usage) = &mut message.usage {
                usage.extra = Extra::new();
            }
        }
        Action::Thinking(thinking) => {
            thinking.content = thinking.content.is_some().then(text);
            thinking.signature = None;
            thinking.extra = Extra::new();
            if let Some(usage) = &mut thinking.usage {
                usage.extra = Extra::new();
            }
        }
        Action::ToolCall(call) => {
            call.args = RawJson::empty_object();
            call.extra = Extra::new();
        }
        Action::ToolReturn(returned) => {
            returned.content = RawJson::from_str_value(replacement);
            returned.extra = Extra::new();
        }
        Action::System(system) => {
            system.data = RawJson::empty_object();
            system.extra = Extra::new();
        }
        Action::Other(other) => other.extra = Extra::new(),
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
            $part.extra = Extra::new();
        }};
    }
    for part in parts {
        match part {
            ContentPart::Text(text) => {
                replacement.clone_into(&mut text.text);
                text.extra = Extra::new();
            }
            ContentPart::Image(part) => without_data!(part),
            ContentPart::File(part) => without_data!(part),
            ContentPart::Audio(part) => without_data!(part),
            ContentPart::Video(part) => without_data!(part),
            ContentPart::Unknown(unknown) => unknown.members = RawObject::new(),
        }
    }
}
