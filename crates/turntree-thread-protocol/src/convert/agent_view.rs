//! Builds one agent's view of a thread: which speakers are visible, how messages of others are quoted, and where tool
//! results go.
//!
//! The agent's own messages, calls and results are unchanged. Messages of other agents are attributed to them. Their
//! tools are hidden, summarized or shown. Their thinking never appears. Of the system actions, only system prompts
//! before a response of the agent, and the usage of its responses, appear. Providers require tool
//! returns directly after their calls, so later returns move there; all other actions stay in order.
//!
//! Spec: ThreadProtocol 1.0.0, "ThreadProtocol → `ModelMessages`"; decisions 4, 11 and 12.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::action::{Action, AssistantMessageAction, SystemAction, ToolCallAction, ToolReturnAction};
use crate::content::{ContentPart, MessageContent};
use crate::document::Thread;
use crate::error::ThreadError;
use turntree_core::json::RawObject;
use turntree_core::limits::Limits;

/// The maximum number of characters of arguments and of results in a summary.
const SUMMARY_CHARACTERS: usize = 200;

/// The role of other agents' messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OthersRole {
    /// As user messages: models imitate text in the assistant role.
    #[default]
    User,
    /// As assistant messages. Messages with files remain user messages, because an assistant message cannot have files
    /// of others.
    Assistant,
}

/// Visibility of other agents' messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Others {
    /// Visible, with attribution.
    #[default]
    Prefix,
    /// Hidden.
    Hide,
}

/// Visibility of other agents' tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolVisibility {
    /// Hidden.
    #[default]
    Hide,
    /// One line for a call and its return.
    Summarize,
    /// Calls and returns in pairs, with unique ids.
    Show,
}

/// What an export makes of system prompts and instructions. Decision P36.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SystemPrompts {
    /// They are in the messages, where the history has them.
    #[default]
    Include,
    /// They are configuration of the agent: the instructions of each request.
    Config,
    /// They are left out.
    Omit,
}

/// Options of an export to messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewOptions {
    /// The agent of the view; `None` exports the whole history as it was imported.
    pub agent_id: Option<String>,
    /// Visibility of other agents' messages.
    pub others: Others,
    /// The role of other agents' messages.
    pub others_role: OthersRole,
    /// Prefix of other agents' messages. `NAME` is replaced with the agent's name.
    pub attribution: String,
    /// Visibility of other agents' tools.
    pub tool_visibility: ToolVisibility,
    /// System prompts and instructions.
    pub system_prompts: SystemPrompts,
    /// Limits of the output. A text that the thread stores once is written at each of its uses.
    pub limits: Limits,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            agent_id: None,
            others: Others::default(),
            others_role: OthersRole::default(),
            attribution: "{agent:NAME}: ".to_owned(),
            tool_visibility: ToolVisibility::default(),
            system_prompts: SystemPrompts::default(),
            limits: Limits::default(),
        }
    }
}

impl ViewOptions {
    /// The view of one agent.
    pub fn of(agent_id: impl Into<String>) -> Self {
        Self { agent_id: Some(agent_id.into()), ..Self::default() }
    }
}

/// What the source format says about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ActionOrigin {
    /// The index of the first action of its source message.
    pub message: Option<usize>,
    /// True for tools that the provider runs: their returns are in the response.
    pub native: bool,
    /// True if the target format cannot represent the action.
    pub unrepresentable: bool,
}

/// How an action appears in the view.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Rendering<'t> {
    /// Unchanged.
    AsIs,
    /// As a call with this id.
    Call { id: Cow<'t, str>, own: bool },
    /// As the return of the call with this id.
    Return { id: Cow<'t, str>, own: bool },
    /// As a quote of another agent, after this prefix.
    Quoted(String),
    /// As this line of text.
    Summary(String),
}

/// One action in the view.
#[derive(Debug, Clone)]
pub(super) struct ViewItem<'t> {
    /// The index in the thread.
    pub index: usize,
    /// The action.
    pub action: &'t Action,
    /// How the action appears.
    pub rendering: Rendering<'t>,
}

/// One message of a view: a request, or the response of one agent. Two requests are never adjacent.
#[derive(Debug)]
pub(super) struct ViewMessage<'t> {
    /// The responding agent; `None` for a request.
    pub speaker: Option<&'t str>,
    /// The source message of the response, as in [`ActionOrigin::message`].
    pub origin: Option<usize>,
    /// The items. Tool returns come first in a request.
    pub items: Vec<ViewItem<'t>>,
}

/// Builds the messages of an agent's view. With `calls_end`, a response without a source message ends after its calls.
///
/// # Errors
/// [`ThreadError::UnknownAgent`] if the registry does not have the agent.
pub(super) fn messages<'t>(
    thread: &'t Thread,
    agent_id: &str,
    options: &ViewOptions,
    origins: &[ActionOrigin],
    calls_end: bool,
) -> Result<Vec<ViewMessage<'t>>, ThreadError> {
    thread.agent(agent_id)?;
    let pairs = CallPairs::of(thread, origins);
    let responders = responders(thread);
    let build = |waiting: Option<&HashSet<usize>>| {
        let own_ids = thread.actions.iter().filter_map(|action| match &**action {
            Action::ToolCall(call) if call.agent_id == agent_id => Some(Cow::Borrowed(&*call.tool_call_id)),
            _ => None,
        });
        let ids = own_ids.collect();
        let builder = ViewBuilder {
            thread,
            agent_id,
            options,
            origins,
            calls_end,
            pairs: &pairs,
            waiting,
            ids,
            next: &responders,
            suffixes: HashMap::new(),
            messages: Vec::new(),
            open: None,
            opened: OpenedMessage::default(),
        };
        builder.build()
    };
    // Open calls of the last message may still get a return. Providers reject all other open calls.
    let messages = build(None);
    let is_open = |item: &ViewItem<'_>| {
        matches!(item.rendering, Rendering::Call { .. }) && !pairs.return_of.contains_key(&item.index)
    };
    let waiting: HashSet<usize> = match messages.last() {
        Some(last) => last.items.iter().filter(|item| is_open(item)).map(|item| item.index).collect(),
        None => HashSet::new(),
    };
    let open = messages.iter().flat_map(|message| &message.items).filter(|item| is_open(item)).count();
    Ok(if open == waiting.len() { messages } else { build(Some(&waiting)) })
}

/// The action type with the usage of a response without text, in the portable profile.
pub(super) const USAGE: &str = "system.tp.usage";

/// The prefix of actions of Pydantic AI.
const PYDANTIC_AI: &str = "system.pydantic_ai.";

/// True for system prompts and instructions. A prompt that was redacted is none.
pub(super) fn is_prompt(system: &SystemAction) -> bool {
    let member = |key: &str| RawObject::from_raw(&system.data)?.get(key)?.as_string();
    match system.action_type.strip_prefix(PYDANTIC_AI) {
        Some("instructions") => true,
        Some("system_prompt") => {
            member("part_kind").as_deref() == Some("system-prompt") && member("content").is_some()
        }
        Some("instruction_delta") => member("part_kind").as_deref() == Some("instruction-delta"),
        Some("instruction_baseline") => member("part_kind").as_deref() == Some("instruction-baseline"),
        _ => false,
    }
}

/// For each action, the agent of the next response; `None` after the last response.
pub(super) fn responders(thread: &Thread) -> Vec<Option<&str>> {
    let mut next = None;
    let mut responders: Vec<Option<&str>> = thread
        .actions
        .iter()
        .rev()
        .map(|action| {
            next = action.agent_id().or(next);
            next
        })
        .collect();
    responders.reverse();
    responders
}

/// Calls and their returns by index. Ids are not unique: a return belongs to the first open call with its id.
#[derive(Debug, Default)]
struct CallPairs {
    return_of: HashMap<usize, usize>,
    call_of: HashMap<usize, usize>,
}

impl CallPairs {
    fn of(thread: &Thread, origins: &[ActionOrigin]) -> Self {
        let mut pairs = Self::default();
        let mut open: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (index, action) in thread.actions.iter().enumerate() {
            match &**action {
                Action::ToolCall(call) => open.entry(&call.tool_call_id).or_default().push_back(index),
                Action::ToolReturn(returned) => {
                    let call = open.get_mut(returned.tool_call_id.as_str()).and_then(VecDeque::pop_front);
                    // A return of a provider's tool only matches a call of a provider's tool, in the same response.
                    if let Some(call) = call
                        && is_native(origins, call) == is_native(origins, index)
                    {
                        pairs.call_of.insert(index, call);
                        pairs.return_of.insert(call, index);
                    }
                }
                _ => {}
            }
        }
        pairs
    }
}

fn is_native(origins: &[ActionOrigin], index: usize) -> bool {
    origins.get(index).is_some_and(|origin| origin.native)
}

/// Builds the messages while it iterates over the thread.
struct ViewBuilder<'t, 'o> {
    thread: &'t Thread,
    agent_id: &'o str,
    options: &'o ViewOptions,
    origins: &'o [ActionOrigin],
    calls_end: bool,
    pairs: &'o CallPairs,
    /// Open calls of the agent that stay in the view; `None` for all.
    waiting: Option<&'o HashSet<usize>>,
    /// Ids of calls in the view.
    ids: HashSet<Cow<'t, str>>,
    /// For each action, the agent of the next response.
    next: &'o [Option<&'t str>],
    /// The next suffix of each repeated id.
    suffixes: HashMap<String, u64>,
    messages: Vec<ViewMessage<'t>>,
    /// The message under construction.
    open: Option<ViewMessage<'t>>,
    opened: OpenedMessage<'t>,
}

/// The contents of the open response.
#[derive(Debug, Default)]
struct OpenedMessage<'t> {
    /// True if it has an assistant message.
    says: bool,
    /// True if it has calls that the view pairs with their returns.
    calls: bool,
    /// The ids of these calls.
    ids: HashSet<Cow<'t, str>>,
    /// The indices of all its calls in the thread.
    indices: HashSet<usize>,
}

impl<'t> OpenedMessage<'t> {
    fn add(&mut self, item: &ViewItem<'t>) {
        self.says |= matches!(item.action, Action::AssistantMessage(_));
        if matches!(item.action, Action::ToolCall(_)) {
            self.indices.insert(item.index);
        }
        if let Rendering::Call { id, .. } = &item.rendering {
            self.calls = true;
            self.ids.insert(id.clone());
        }
    }
}

impl<'t> ViewBuilder<'t, '_> {
    fn build(mut self) -> Vec<ViewMessage<'t>> {
        for (index, action) in self.thread.actions.iter().enumerate() {
            let action = &**action;
            let item = |rendering| ViewItem { index, action, rendering };
            match action {
                Action::UserMessage(_) => self.add_to_request(item(Rendering::AsIs)),
                Action::AssistantMessage(message) if message.agent_id != self.agent_id => {
                    self.other_message(index, action, message);
                }
                Action::AssistantMessage(message) => {
                    if !self.origins.get(index).is_some_and(|origin| origin.unrepresentable) {
                        self.add_to_response(&message.agent_id, item(Rendering::AsIs));
                    }
                }
                Action::Thinking(thought) if thought.agent_id == self.agent_id => {
                    self.add_to_response(&thought.agent_id, item(Rendering::AsIs));
                }
                Action::ToolCall(call) if call.agent_id == self.agent_id => {
                    self.own_call(index, action, call)
                }
                Action::ToolCall(call) => self.other_call(index, action, call),
                Action::ToolReturn(returned) => self.tool_return(index, action, returned),
                Action::System(system) => self.system(index, action, system),
                Action::Thinking(_) | Action::Other(_) => {}
            }
        }
        while self.open.is_some() {
            self.finish();
        }
        self.messages
    }

    fn system(&mut self, index: usize, action: &'t Action, system: &SystemAction) {
        let item = ViewItem { index, action, rendering: Rendering::AsIs };
        if is_prompt(system) {
            // The next response is the answer of the agent that has the prompt.
            if self.next.get(index).copied().flatten().is_none_or(|next| next == self.agent_id) {
                self.add_to_request(item);
            }
        } else if system.action_type == USAGE {
            // The results of the response may have closed it.
            let of_agent = |message: &&mut ViewMessage<'t>| message.speaker == Some(self.agent_id);
            let response = self.open.as_mut().filter(of_agent);
            if let Some(response) = response.or_else(|| self.messages.last_mut().filter(of_agent)) {
                response.items.push(item);
            }
        }
    }

    /// Adds to the open request, or starts a request.
    fn add_to_request(&mut self, item: ViewItem<'t>) {
        if self.open.as_ref().is_some_and(|open| open.speaker.is_some()) {
            self.finish();
        }
        let request = || ViewMessage { speaker: None, origin: None, items: Vec::new() };
        self.open.get_or_insert_with(request).items.push(item);
    }

    /// Adds to the open response if the item continues it, or starts a response.
    fn add_to_response(&mut self, speaker: &'t str, item: ViewItem<'t>) {
        let own = speaker == self.agent_id;
        let origin = self.origins.get(item.index).filter(|_| own).and_then(|origin| origin.message);
        let says_more = matches!(item.action, Action::AssistantMessage(_)) && self.opened.says;
        let is_call = matches!(item.rendering, Rendering::Call { .. });
        let follows_calls = self.calls_end && !is_call && self.opened.calls;
        let begins_anew = origin.is_none() && (says_more || follows_calls);
        if let Some(open) = &mut self.open
            && open.speaker == Some(speaker)
            && open.origin == origin
            && !begins_anew
        {
            self.opened.add(&item);
            open.items.push(item);
            return;
        }
        while self.open.is_some() {
            self.finish();
        }
        self.opened.add(&item);
        self.open = Some(ViewMessage { speaker: Some(speaker), origin, items: vec![item] });
    }

    fn own_call(&mut self, index: usize, action: &'t Action, call: &'t ToolCallAction) {
        if is_native(self.origins, index) {
            self.add_to_response(&call.agent_id, ViewItem { index, action, rendering: Rendering::AsIs });
            return;
        }
        let answered = self.pairs.return_of.contains_key(&index);
        if !answered && self.waiting.is_some_and(|waiting| !waiting.contains(&index)) {
            return;
        }
        let is_taken = self.opened.ids.contains(&*call.tool_call_id);
        let id = if is_taken { self.unique(&call.tool_call_id) } else { Cow::Borrowed(&*call.tool_call_id) };
        self.add_to_response(
            &call.agent_id,
            ViewItem { index, action, rendering: Rendering::Call { id, own: true } },
        );
    }

    /// A unique id derived from this one.
    fn unique(&mut self, id: &str) -> Cow<'t, str> {
        let mut free: Cow<'t, str> = Cow::Owned(id.to_owned());
        if self.ids.insert(free.clone()) {
            return free;
        }
        // Smaller suffixes are taken.
        let next = self.suffixes.entry(id.to_owned()).or_insert(2);
        loop {
            free = Cow::Owned(format!("{id}:{next}"));
            *next += 1;
            if self.ids.insert(free.clone()) {
                return free;
            }
        }
    }

    fn other_message(&mut self, index: usize, action: &'t Action, message: &'t AssistantMessageAction) {
        if self.options.others == Others::Hide || is_empty(&message.content) {
            return;
        }
        let rendering = Rendering::Quoted(self.attribution(&message.agent_id));
        if self.options.others_role == OthersRole::Assistant && is_text(&message.content) {
            self.add_to_response(&message.agent_id, ViewItem { index, action, rendering });
        } else {
            self.add_to_request(ViewItem { index, action, rendering });
        }
    }

    fn attribution(&self, agent_id: &str) -> String {
        let name = self.thread.agents.get(agent_id).map(|agent| &*agent.agent_name);
        let name = name.filter(|name| !name.is_empty()).unwrap_or(agent_id);
        self.options.attribution.replace("NAME", name)
    }

    fn other_call(&mut self, index: usize, action: &'t Action, call: &'t ToolCallAction) {
        let answered = self.pairs.return_of.contains_key(&index);
        match self.options.tool_visibility {
            ToolVisibility::Show if answered => {
                let id = self.unique(&format!("{}:{}", call.agent_id, call.tool_call_id));
                self.add_to_response(
                    &call.agent_id,
                    ViewItem { index, action, rendering: Rendering::Call { id, own: false } },
                );
            }
            // A call with a return is summarized at its return.
            ToolVisibility::Summarize if !answered => self.summarize(index, action, call, "no result"),
            ToolVisibility::Hide | ToolVisibility::Show | ToolVisibility::Summarize => {}
        }
    }

    fn tool_return(&mut self, index: usize, action: &'t Action, returned: &ToolReturnAction) {
        // Providers reject a return without a call.
        let Some(called) = self.pairs.call_of.get(&index).copied() else { return };
        let Some(Action::ToolCall(call)) = self.thread.actions.get(called).map(|call| &**call) else {
            return;
        };
        let own = call.agent_id == self.agent_id;
        if own && is_native(self.origins, index) {
            self.add_to_response(&call.agent_id, ViewItem { index, action, rendering: Rendering::AsIs });
        } else if !own && self.options.tool_visibility == ToolVisibility::Summarize {
            let result = format!("{}: {}", returned.status, shorten(returned.content.get()));
            self.summarize(index, action, call, &result);
        } else if self.opened.indices.contains(&called) {
            self.finish();
        }
    }

    fn summarize(&mut self, index: usize, action: &'t Action, call: &ToolCallAction, result: &str) {
        let who = self.attribution(&call.agent_id);
        let line = format!("{who}[tool {}({}) → {result}]", call.tool_name, shorten(call.args.get()));
        self.add_to_request(ViewItem { index, action, rendering: Rendering::Summary(line) });
    }

    /// Finishes the open message. The returns of a response start the next request.
    fn finish(&mut self) {
        let Some(message) = self.open.take() else { return };
        self.opened = OpenedMessage::default();
        let returned = |item: &ViewItem<'t>| match &item.rendering {
            Rendering::Call { id, own } => {
                let index = *self.pairs.return_of.get(&item.index)?;
                let action = &**self.thread.actions.get(index)?;
                Some(ViewItem { index, action, rendering: Rendering::Return { id: id.clone(), own: *own } })
            }
            _ => None,
        };
        let mut items: Vec<ViewItem<'t>> = message.items.iter().filter_map(returned).collect();
        items.sort_by_key(|item| item.index);
        if !items.is_empty() {
            self.open = Some(ViewMessage { speaker: None, origin: None, items });
        }
        self.messages.push(message);
    }
}

fn is_empty(content: &MessageContent) -> bool {
    match content {
        MessageContent::Text(text) => text.is_empty(),
        MessageContent::Parts(parts) => parts.iter().all(|part| part.as_text() == Some("")),
    }
}

fn is_text(content: &MessageContent) -> bool {
    match content {
        MessageContent::Text(_) => true,
        MessageContent::Parts(parts) => parts.iter().all(|part| matches!(part, ContentPart::Text(_))),
    }
}

/// Prefixes a text with its attribution. A text that already has the prefix, because it comes from a view, is
/// unchanged.
pub(super) fn prefixed(text: &str, prefix: &str) -> String {
    if text.starts_with(prefix) { text.to_owned() } else { format!("{prefix}{text}") }
}

/// The first characters of a JSON text.
fn shorten(json: &str) -> Cow<'_, str> {
    match json.char_indices().nth(SUMMARY_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}…", json.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(json),
    }
}
