//! Smaller forms of a thread: its core, and one whose actions hold nothing but what the specification names.
//! Decision 2.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::action::Action;
use super::document::{Actions, Thread};
use crate::core::json::{RawJson, RawObject};

/// Whether actions of this type only keep what one side knows.
fn is_residue(action_type: &str) -> bool {
    action_type.starts_with("system.pydantic_ai.") || action_type.starts_with("system.ui.")
}

impl Thread {
    /// What everybody who saw the conversation agrees on: no metadata, no facts that only Pydantic AI or a client
    /// of the AI SDK has, actions numbered anew.
    #[must_use]
    pub fn core(&self) -> Self {
        let mut core = self.clone();
        core.metadata = None;
        for agent in core.agents.values_mut() {
            // It pointed into the metadata.
            agent.config_ref =
                agent.config_ref.take().filter(|reference| !reference.starts_with("#/metadata/"));
        }
        let kept = self.actions.iter().filter(|action| !is_residue(action.action_type()));
        core.actions = kept
            .zip(1_u64..)
            .map(|(action, sequence)| {
                let mut action = Action::clone(action);
                action.set_sequence(sequence);
                *action.metadata_mut() = None;
                action
            })
            .collect::<Actions>();
        core
    }

    /// The same thread with the metadata of its actions in `metadata.<namespace>.actions["<sequence>"]`, for readers
    /// that take the schema by the letter.
    ///
    /// What stands there already stays. A namespace that the thread's metadata uses otherwise stays in the actions.
    #[must_use]
    pub fn with_hoisted_metadata(&self) -> Self {
        self.unhoisted().hoisted(|_| true)
    }

    /// The same thread with all metadata of actions in its actions: the reverse of [`Self::with_hoisted_metadata`].
    pub(super) fn unhoisted(&self) -> Cow<'_, Self> {
        let namespaces = self.hoisted_namespaces();
        if namespaces.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut thread = self.clone();
        let mut lowered: HashMap<u64, Vec<(String, RawJson)>> = HashMap::new();
        for namespace in namespaces {
            let Some(metadata) = &mut thread.metadata else { break };
            let Some(mut object) = metadata.get(&namespace).and_then(RawObject::from_raw) else { continue };
            let table = object.remove("actions").and_then(|table| RawObject::from_raw(&table));
            if object.is_empty() {
                metadata.remove(&namespace);
            } else {
                metadata.insert(&*namespace, RawJson::from_value(&object).unwrap_or_default());
            }
            for (sequence, value) in table.iter().flat_map(RawObject::iter) {
                let Ok(sequence) = sequence.parse() else { continue };
                lowered.entry(sequence).or_default().push((namespace.clone(), value.clone()));
            }
        }
        thread.metadata = thread.metadata.filter(|metadata| !metadata.is_empty());
        for entry in &mut thread.actions.0 {
            let Some(kept) = lowered.remove(&entry.sequence()) else { continue };
            let metadata = Arc::make_mut(entry).metadata_mut().get_or_insert_default();
            for (namespace, value) in kept {
                // What the action itself says was said later.
                if metadata.get(&namespace).is_none() {
                    metadata.insert(namespace, value);
                }
            }
        }
        Cow::Owned(thread)
    }

    /// The namespaces that hold metadata of actions by sequence.
    pub(super) fn hoisted_namespaces(&self) -> HashSet<String> {
        let Some(metadata) = &self.metadata else { return HashSet::new() };
        let tables = metadata.iter().filter_map(|(namespace, value)| {
            let table = RawObject::from_raw(RawObject::from_raw(value)?.get("actions")?)?;
            Some((namespace, table))
        });
        let is_sequence = |(key, _): (&str, &RawJson)| key.parse::<u64>().is_ok();
        let tables = tables.filter(|(_, table)| !table.is_empty() && table.iter().all(is_sequence));
        tables.map(|(namespace, _)| namespace.to_owned()).collect()
    }

    /// The same thread with the metadata of these namespaces in its own.
    pub(super) fn hoisted(&self, which: impl Fn(&str) -> bool) -> Self {
        let mut thread = self.clone();
        let mut hoisted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let is_free = |namespace: &str| match self.metadata.as_ref().and_then(|all| all.get(namespace)) {
            Some(value) => RawObject::from_raw(value).is_some_and(|object| {
                // A table in which nothing is written yet may be filled.
                object
                    .get("actions")
                    .is_none_or(|table| RawObject::from_raw(table).is_some_and(|t| t.is_empty()))
            }),
            None => true,
        };
        for entry in &mut thread.actions.0 {
            let moves = |namespace: &str| which(namespace) && is_free(namespace);
            if !entry
                .metadata()
                .is_some_and(|metadata| metadata.iter().any(|(namespace, _)| moves(namespace)))
            {
                continue;
            }
            let action = Arc::make_mut(entry);
            let sequence = action.sequence();
            let mut stays = RawObject::new();
            for (namespace, value) in action.metadata_mut().take().unwrap_or_default().iter() {
                if moves(namespace) {
                    hoisted.entry(namespace.to_owned()).or_default().push(format!("\"{sequence}\":{value}"));
                } else {
                    stays.insert(namespace, value.clone());
                }
            }
            *action.metadata_mut() = (!stays.is_empty()).then_some(stays);
        }
        for (namespace, entries) in hoisted {
            let metadata = thread.metadata.get_or_insert_default();
            let mut object = metadata.get(&namespace).and_then(RawObject::from_raw).unwrap_or_default();
            let actions = RawJson::from_text(format!("{{{}}}", entries.join(","))).unwrap_or_default();
            object.insert("actions", actions);
            metadata.insert(namespace, RawJson::from_value(&object).unwrap_or_default());
        }
        thread
    }
}
