//! `thread.metadata.pydantic_ai`: the shared values of a history.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::arguments::{self, ArgumentsForm};
use super::field_layout::{FieldLayouts, MOST_MEMBERS};
use super::model::{Object, Value};
use super::roundtrip_metadata::{ActionMetadata, Members, ObjectWriter};
use super::write::{Sink, write_object, write_value};
use crate::action::Action;
use crate::document::Thread;
use crate::error::ThreadError;
use turntree_core::json::RawJson;
use turntree_core::json::tagged::CowStr;

/// The Pydantic AI metadata of a thread.
#[derive(Debug, Default)]
pub(super) struct ThreadMetadata<'t> {
    stored: StoredMetadata<'t>,
    /// Hoisted metadata of actions, by sequence (decision 2, `strict`).
    hoisted: HashMap<u64, &'t RawValue>,
    /// Shared texts, by address. A configuration may have thousands of system prompts.
    texts: HashMap<Cow<'t, str>, &'t RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct StoredMetadata<'t> {
    #[serde(borrow)]
    profile: Option<CowStr<'t>>,
    #[serde(borrow)]
    configs: Option<&'t RawValue>,
    #[serde(borrow, default)]
    templates: HashMap<Cow<'t, str>, Members<'t>>,
    #[serde(borrow)]
    instructions: Option<CowStr<'t>>,
    #[serde(borrow)]
    args: Option<CowStr<'t>>,
    #[serde(borrow, default)]
    texts: Members<'t>,
    #[serde(borrow, default)]
    actions: Members<'t>,
}

/// The profile of threads without round-trip metadata.
pub(super) const PORTABLE: &str = "portable";

const POINTER: &str = "/metadata/pydantic_ai";

fn damaged_thread(message: impl std::fmt::Display) -> ThreadError {
    ThreadError::RoundtripMetadata { pointer: POINTER.to_owned(), message: message.to_string() }
}

impl<'t> ThreadMetadata<'t> {
    /// Reads the metadata of a thread; empty if it has none.
    ///
    /// # Errors
    /// [`ThreadError::RoundtripMetadata`] if it is damaged.
    pub(super) fn of(thread: &'t Thread) -> Result<Self, ThreadError> {
        let Some(metadata) = thread.metadata.as_ref().and_then(|metadata| metadata.get("pydantic_ai")) else {
            return Ok(Self::default());
        };
        let mut stored: StoredMetadata<'t> = serde_json::from_str(metadata.get()).map_err(damaged_thread)?;
        let mut hoisted = HashMap::new();
        for (sequence, stored) in std::mem::take(&mut stored.actions.0) {
            hoisted.insert(sequence.parse().map_err(damaged_thread)?, stored);
        }
        let texts = std::mem::take(&mut stored.texts.0).into_iter().collect();
        Ok(Self { stored, hoisted, texts })
    }

    /// The hoisted metadata of an action.
    pub(super) fn hoisted(&self, sequence: u64) -> Option<&'t str> {
        self.hoisted.get(&sequence).map(|stored| stored.get())
    }

    /// The configurations of the agents, if there are some.
    pub(super) const fn configs(&self) -> Option<&'t RawValue> {
        self.stored.configs
    }

    /// The text of an address.
    pub(super) fn text(&self, address: &str) -> Option<Value<'t>> {
        self.texts.get(address).map(|text| Value::Raw(text)).filter(Value::is_text)
    }

    /// True if messages have their own prompts, in the full profile. Otherwise only the configuration has them.
    pub(super) fn is_full(&self) -> bool {
        self.stored.profile.as_ref().is_some_and(|profile| profile.as_str() != PORTABLE)
    }

    /// The field layouts of the history.
    ///
    /// # Errors
    /// [`ThreadError::RoundtripMetadata`] if they are damaged.
    pub(super) fn layouts(&self) -> Result<FieldLayouts<'t>, ThreadError> {
        let mut layouts = FieldLayouts::default();
        for (class, members) in &self.stored.templates {
            if members.0.len() > MOST_MEMBERS {
                return Err(damaged_thread(format_args!(
                    "template \"{class}\" has more than {MOST_MEMBERS} members"
                )));
            }
            let mut object = Object::with_capacity(members.0.len());
            for (key, default) in &members.0 {
                object.push(key.clone(), Value::Raw(default));
            }
            layouts.replace(class.clone(), object);
        }
        layouts.instructions = self.stored.instructions.clone().map(CowStr::into_cow);
        layouts.arguments = self.stored.args.as_ref().map(|form| ArgumentsForm::of_name(form.as_str()));
        for (address, text) in &self.texts {
            layouts.texts.insert(address.clone(), Value::Raw(text));
        }
        Ok(layouts)
    }
}

/// The configuration of a history's agents: system prompts and instructions.
#[derive(Debug)]
pub(super) struct Configuration {
    /// The JSON pointer for `config_ref`.
    pub reference: String,
    digest: String,
    json: String,
}

/// The configuration of a history; `None` if it has no system prompts and no instructions.
pub(super) fn configuration(layouts: &FieldLayouts<'_>, system_prompts: &[String]) -> Option<Configuration> {
    let mut writer = ObjectWriter::default();
    if !system_prompts.is_empty() {
        let out = writer.key("system_prompts");
        for (index, address) in system_prompts.iter().enumerate() {
            out.raw(if index == 0 { "[" } else { "," });
            out.string(address);
        }
        out.raw("]");
    }
    if let Some(address) = &layouts.instructions {
        writer.text("instructions", address);
    }
    if writer.is_empty() {
        return None;
    }
    let json = writer.finish();
    let digest = address(&json).trim_start_matches("sha256:").to_owned();
    Some(Configuration { reference: format!("#{POINTER}/configs/{digest}"), digest, json })
}

/// Writes the metadata of a thread; `None` if it is empty. `profile` is the version of the built-in layouts, or
/// `portable` for a thread without layouts.
pub(super) fn write(
    layouts: &FieldLayouts<'_>,
    configuration: Option<&Configuration>,
    profile: Option<&str>,
    full: bool,
) -> Option<RawJson> {
    let mut writer = ObjectWriter::default();
    if let Some(profile) = profile {
        writer.text("profile", profile);
    }
    if full {
        let mut templates = ObjectWriter::default();
        for (class, members) in layouts.retained() {
            write_object(templates.key(class), members);
        }
        if !templates.is_empty() {
            writer.json("templates", &templates.finish());
        }
        if let Some(address) = &layouts.instructions {
            writer.text("instructions", address);
        }
        arguments::write_form(layouts.arguments.unwrap_or_default(), ArgumentsForm::Json, &mut writer);
    }
    if !layouts.texts.is_empty() {
        let mut texts: Vec<_> = layouts.texts.iter().collect();
        texts.sort_unstable_by_key(|(address, _)| *address);
        let mut object = ObjectWriter::default();
        for (address, text) in texts {
            write_value(object.key(address), text);
        }
        writer.json("texts", &object.finish());
    }
    if let Some(configuration) = configuration {
        let mut configs = ObjectWriter::default();
        configs.json(&configuration.digest, &configuration.json);
        writer.json("configs", &configs.finish());
    }
    if writer.is_empty() { None } else { RawJson::from_text(writer.finish()).ok() }
}

/// The error for damaged metadata of an action.
pub(super) fn damaged(index: usize, message: String) -> ThreadError {
    ThreadError::RoundtripMetadata { pointer: format!("/actions/{index}/metadata/pydantic_ai"), message }
}

/// The metadata of an action: its own, or hoisted.
pub(super) fn action_metadata<'t>(
    action: &'t Action,
    metadata: &ThreadMetadata<'t>,
) -> Result<Option<ActionMetadata<'t>>, serde_json::Error> {
    let own = action.metadata().and_then(|metadata| metadata.get("pydantic_ai")).map(RawJson::get);
    match own.or_else(|| metadata.hoisted(action.sequence())) {
        Some(text) => serde_json::from_str(text).map(Some),
        None => Ok(None),
    }
}

/// The content address of a text.
pub(super) fn address(text: &str) -> String {
    use std::fmt::Write as _;
    let mut address = String::from("sha256:");
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(address, "{byte:02x}");
    }
    address
}
