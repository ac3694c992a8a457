//! System prompts and instructions of an export: where they come from, and what the options make of them. Decisions 9
//! and P36.
//!
//! Leading system prompts and the first instructions are the configuration of the agent. Later system prompts are
//! actions. Later instructions are metadata of their message (full profile) or actions (portable profile).

use std::borrow::Cow;

use serde::Deserialize;

use super::coerce;
use super::field_layout::{Expected, FieldLayouts};
use super::model::{History, Kind, ModelMessage, Part, Value, part_kind};
use super::part_fields::INSTRUCTIONS;
use super::roundtrip_metadata::Members;
use super::thread_metadata::ThreadMetadata;
use crate::action::{Action, SystemAction};
use crate::convert::agent_view::{SystemPrompts, ViewOptions};
use crate::document::Thread;
use crate::error::ThreadError;
use crate::roundtrip_metadata::PYDANTIC_AI;
use turntree_core::json::tagged::CowStr;
use turntree_core::json::{RawJson, RawObject};

/// The kinds of parts that are prompts.
const PROMPTS: [&str; 3] = ["system-prompt", "instruction-delta", "instruction-baseline"];

/// The prefix of references to a configuration.
const REFERENCE: &str = "#/metadata/pydantic_ai/configs/";

/// The configuration of an agent.
#[derive(Debug, Default)]
pub(super) struct AgentPrompts<'t> {
    pub system_prompts: Vec<Value<'t>>,
    pub instructions: Option<Value<'t>>,
}

/// What a history without round-trip metadata has before its first action.
#[derive(Debug)]
pub(super) struct LeadingPrompts<'t> {
    pub parts: Vec<Part<'t>>,
    pub instructions: Option<Value<'t>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StoredConfiguration<'t> {
    #[serde(borrow)]
    system_prompts: Vec<CowStr<'t>>,
    #[serde(borrow)]
    instructions: Option<CowStr<'t>>,
}

impl<'t> AgentPrompts<'t> {
    /// The configuration of an agent, by default of the first agent that has one. Empty if the thread does not store
    /// it.
    pub(super) fn of(thread: &'t Thread, metadata: &ThreadMetadata<'t>, agent_id: Option<&str>) -> Self {
        let Some(configs) = metadata.configs() else { return Self::default() };
        let configs: Members<'t> = serde_json::from_str(configs.get()).unwrap_or_default();
        let config = |reference: &str| {
            let digest = reference.strip_prefix(REFERENCE)?;
            configs.0.iter().find(|(key, _)| key == digest).map(|(_, config)| *config)
        };
        let mut agents = thread.agents.iter().filter(|(id, _)| agent_id.is_none_or(|wanted| wanted == *id));
        let found = agents.find_map(|(_, agent)| config(agent.config_ref.as_deref()?));
        let only = || match configs.0.as_slice() {
            [(_, only)] => Some(*only),
            _ => None,
        };
        let Some(config) = found.or_else(only) else { return Self::default() };
        let config: StoredConfiguration<'t> = serde_json::from_str(config.get()).unwrap_or_default();
        let text = |address: &CowStr<'t>| metadata.text(address.as_str());
        Self {
            system_prompts: config.system_prompts.iter().filter_map(text).collect(),
            instructions: config.instructions.as_ref().and_then(text),
        }
    }

    /// The prompts of the configuration; `None` if there are none.
    pub(super) fn leading(
        &self,
        layouts: &FieldLayouts<'t>,
        timestamp: &'t str,
    ) -> Option<LeadingPrompts<'t>> {
        let parts = self.parts(layouts, timestamp);
        let is_empty = parts.is_empty() && self.instructions.is_none();
        (!is_empty).then(|| LeadingPrompts { parts, instructions: self.instructions.clone() })
    }

    /// The system prompts as parts.
    pub(super) fn parts(&self, layouts: &FieldLayouts<'t>, timestamp: &'t str) -> Vec<Part<'t>> {
        let Some(layout) = layouts.get("system-prompt") else { return Vec::new() };
        let part = |text: &Value<'t>| {
            layout.rebuild(None, &[], |key| match key {
                "content" => Expected::Value(text.clone()),
                "timestamp" => coerce::time(timestamp),
                "part_kind" => Expected::text("system-prompt"),
                _ => Expected::Default,
            })
        };
        self.system_prompts.iter().map(part).collect()
    }
}

/// The instructions in the data of an action; `None` for other actions.
#[expect(clippy::option_option, reason = "no change, instructions that end, new instructions")]
pub(super) fn changed_instructions(action: &Action) -> Option<Option<Value<'_>>> {
    let Action::System(SystemAction { action_type, data, .. }) = action else { return None };
    if *action_type != INSTRUCTIONS {
        return None;
    }
    let members: Members<'_> = serde_json::from_str(data.get()).unwrap_or_default();
    let found = members.0.into_iter().find(|(key, _)| key == "instructions");
    Some(found.map(|(_, value)| Value::Raw(value)).filter(Value::is_text))
}

/// Puts leading system prompts in front of a history. With `configured`, the history also needs a first request for the
/// instructions of the configuration.
pub(super) fn prepend<'t>(
    messages: &mut History<'t>,
    parts: Vec<Part<'t>>,
    configured: bool,
    request: impl FnOnce() -> ModelMessage<'t>,
) {
    if parts.is_empty() && !configured {
        return;
    }
    if messages.first().is_none_or(|first| first.kind != Kind::Request) {
        messages.insert(0, request());
    }
    if let Some(first) = messages.first_mut() {
        first.parts.splice(0..0, parts);
    }
}

/// Applies the option to a history that includes everything.
pub(super) fn apply(messages: &mut History<'_>, option: SystemPrompts) {
    if option == SystemPrompts::Include {
        return;
    }
    let leading = leading(messages).join("\n\n");
    messages.retain_mut(|message| {
        if message.kind != Kind::Request {
            return true;
        }
        let before = message.parts.len();
        message.parts.retain(|part| !PROMPTS.contains(&&*part_kind(part)));
        if option == SystemPrompts::Config {
            let own = message.text("instructions").map(Cow::into_owned);
            let texts = [Some(leading.clone()).filter(|text| !text.is_empty()), own];
            let text = texts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
            set_instructions(message, Some(text).filter(|text| !text.is_empty()));
        } else {
            set_instructions(message, None);
        }
        // A request that had only prompts.
        before == 0 || !message.parts.is_empty()
    });
}

fn set_instructions(message: &mut ModelMessage<'_>, text: Option<String>) {
    let value = text.map_or(Value::NULL, |text| Value::Text(Cow::Owned(text)));
    if message.members.get("instructions").is_some() {
        message.members.replace("instructions", value);
    } else if !value.is_null() {
        message.members.push("instructions", value);
    }
}

/// The texts of the system prompts before all other parts.
fn leading(messages: &History<'_>) -> Vec<String> {
    let first = messages.first().filter(|message| message.kind == Kind::Request);
    let parts = first.map(|message| message.parts.as_slice()).unwrap_or_default();
    let prompts = parts.iter().take_while(|part| part_kind(part) == "system-prompt");
    prompts.filter_map(|part| part.text("content").map(Cow::into_owned)).collect()
}

impl Thread {
    /// The system prompt of an agent: its leading system prompts and its latest instructions, separated by blank lines.
    /// `None` if the thread has none.
    ///
    /// # Errors
    /// As [`Self::to_messages`].
    pub fn system_prompt(&self, agent_id: Option<&str>) -> Result<Option<String>, ThreadError> {
        if let Some(agent_id) = agent_id {
            self.agent(agent_id)?;
        }
        if !self.has_prompts() {
            return Ok(None);
        }
        let options = ViewOptions { agent_id: agent_id.map(str::to_owned), ..ViewOptions::default() };
        let messages = self.to_messages(&options)?;
        let mut texts = leading(&messages);
        let last = messages.iter().rev().find(|message| message.kind == Kind::Request);
        texts.extend(last.and_then(|message| message.text("instructions")).map(Cow::into_owned));
        Ok(Some(texts.join("\n\n")).filter(|text| !text.is_empty()))
    }

    /// True if the thread may have a system prompt. A cheap check.
    fn has_prompts(&self) -> bool {
        let metadata = self.metadata.as_ref().and_then(|metadata| metadata.get(PYDANTIC_AI));
        metadata.is_some_and(|metadata| metadata.get().contains("\"texts\""))
            || self.actions.iter().any(|action| action.action_type() == INSTRUCTIONS)
    }
}

/// The text of a later system prompt, for other formats; `None` for other actions.
pub(in crate::convert) fn later_prompt(action: &Action) -> Option<String> {
    let Action::System(system) = action else { return None };
    if system.action_type != "system.pydantic_ai.system_prompt" {
        return None;
    }
    RawObject::from_raw(&system.data)?.get("content").and_then(RawJson::as_string)
}
