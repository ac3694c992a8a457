//! Other threads of threads: two branches joined, contents made unreadable, a part cut out. Each result is valid when
//! its sources are.
//!
//! What the exact ways back need is kept for actions that stay in whole messages with their thread, and taken from the
//! others: their messages are then made of what the actions say. Metadata of actions that stands in the thread's own
//! goes with its actions.

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
    /// How many first actions two threads have in common: their common ancestor. How a time is spelled does not count.
    pub fn common_actions(&self, other: &Self) -> usize {
        self.actions.iter().zip(other.actions.iter()).take_while(|(one, other)| is_same(one, other)).count()
    }

    /// Whether the threads may have begun with nothing in common: one branched from the other, or both from the same,
    /// before anything was said.
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

    /// The last action that this thread has in common with its parent (decision 16).
    fn branch_point(&self) -> Option<u64> {
        #[derive(serde::Deserialize)]
        struct Branch {
            parent_sequence: u64,
        }
        let branch: Branch = self.metadata.as_ref()?.get("branch")?.to().ok()?;
        Some(branch.parent_sequence)
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
            // Its members are what the templates of the other thread do not say.
            remove_namespace(&mut action, PYDANTIC_AI);
            merged.append(action);
        }
        merged.updated_at.clone_from(&merged.created_at);
        merged.take_metadata(&theirs);
        let parted = ours.actions.get(common.wrapping_sub(1)).map_or(0, |action| action.sequence());
        let last = ours.actions.last().map_or(0, |action| action.sequence());
        let [ours, theirs] = [&self.thread_id, &other.thread_id].map(|id| RawJson::from_str_value(id));
        let metadata = merged.metadata.get_or_insert_default();
        let branch = RawJson::from_text(format!("{{\"parent_sequence\":{last}}}"));
        metadata.insert("branch", branch.unwrap_or_default());
        let told = format!("{{\"threads\":[{ours},{theirs}],\"parent_sequence\":{parted}}}");
        metadata.insert("merge", RawJson::from_text(told).unwrap_or_default());
        Ok(merged.hoisted(|namespace| namespaces.contains(namespace)))
    }

    /// Takes the metadata of another thread: namespaces that are not here, and what its agents' configurations name.
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

    /// Makes the contents of some actions unreadable and keeps their structure: who, when, which tool, which call.
    ///
    /// Texts become `replacement`, files and attachments lose their data, arguments and the data of system actions
    /// become `{}`, results become `replacement`; the metadata of these actions goes, and all that the ways back kept of
    /// their messages. A title that tells a text that went, or part of it, becomes `replacement` too. What others say
    /// stays, though it be the same words, and so do agents' configurations and applications' metadata of the thread.
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
            if told_by(&redacted.title, entry) {
                replacement.clone_into(&mut redacted.title);
            }
            let action = Arc::make_mut(entry);
            *action.metadata_mut() = None;
            blacken(action, replacement);
        }
        redacted.forget_texts();
        redacted.hoisted(|namespace| namespaces.contains(namespace))
    }

    /// The actions of one agent, or of a span of time, as a thread of its own, numbered anew. A return whose call is
    /// left out is left out too.
    #[must_use]
    pub fn slice(&self, slice: &Slice, thread_id: impl Into<String>, created_at: impl Into<String>) -> Self {
        let namespaces = self.hoisted_namespaces();
        let whole = self.unhoisted();
        let kept = slice.kept(&whole.actions);
        let is_kept = |index: usize| kept.get(index) == Some(&true);
        let mut actions = whole.actions.clone();
        remove_of_messages(&mut actions, |index| !is_kept(index));
        let mut cut = Self { actions: Actions::default(), ..whole.into_owned() };
        cut.parent_thread_id = Some(std::mem::replace(&mut cut.thread_id, thread_id.into()));
        cut.created_at = created_at.into();
        if let Some(metadata) = &mut cut.metadata {
            // A part has no beginning in common with its whole.
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

    /// Takes away texts that no message and no configuration names any more.
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

/// Whether two actions are one: equal, however their times are spelled.
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

/// What Pydantic AI's metadata says here, with the texts and the configurations of another thread. They stand under
/// their digests, so none is in another's way.
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
    /// Which actions it takes, by their places.
    fn kept(&self, actions: &Actions) -> Vec<bool> {
        let mut open: HashMap<&str, VecDeque<bool>> = HashMap::new();
        let kept = actions.iter().map(|action| match &**action {
            Action::ToolReturn(returned) => {
                let call = open.get_mut(returned.tool_call_id.as_str()).and_then(VecDeque::pop_front);
                call == Some(true) && self.takes_time(action)
            }
            Action::ToolCall(call) => {
                let kept = self.takes_time(action) && self.takes_agent(action);
                open.entry(&call.tool_call_id).or_default().push_back(kept);
                kept
            }
            _ => self.takes_time(action) && self.takes_agent(action),
        });
        kept.collect()
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

/// Which calls are open while actions of another branch are added.
struct Calls {
    /// Calls that are answered by the first return of their id.
    ours: HashSet<InternedStr>,
    /// Calls before the parting: whether nobody has answered yet.
    before: HashMap<InternedStr, VecDeque<bool>>,
    /// Calls of the other branch: the ids they have now.
    theirs: HashMap<InternedStr, VecDeque<InternedStr>>,
}

impl Calls {
    /// What is open after this thread, whose first `common` actions the other one has too.
    fn after(thread: &Thread, common: usize) -> Self {
        // Ids that were open when the branches parted, and whether they are still.
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

    /// An action of the other branch, so that each return still answers its own call.
    fn fit(&mut self, mut action: Action, other: &str) -> Action {
        match &mut action {
            Action::ToolCall(call) => {
                let taken = self.ours.contains(&call.tool_call_id);
                let id = if taken {
                    format!("{}:{other}", call.tool_call_id).into()
                } else {
                    call.tool_call_id.clone()
                };
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
        action_type: "system.tp.second_return".into(),
        timestamp: action.timestamp().into(),
        data: RawJson::from_value(&data).unwrap_or_default(),
        ..super::action::SystemAction::default()
    })
}

/// Whether a title tells what an action says, or part of it.
fn told_by(title: &str, action: &Action) -> bool {
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
