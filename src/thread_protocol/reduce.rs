//! Smaller forms of a thread: its core, and one whose actions hold nothing but what the specification names.
//! Decision 2.

use std::collections::BTreeMap;
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
    #[must_use]
    pub fn with_hoisted_metadata(&self) -> Self {
        let mut thread = self.clone();
        let mut hoisted: BTreeMap<String, Vec<(u64, RawJson)>> = BTreeMap::new();
        for entry in &mut thread.actions.0 {
            if entry.metadata().is_none() {
                continue;
            }
            let action = Arc::make_mut(entry);
            let sequence = action.sequence();
            let metadata = action.metadata_mut().take().unwrap_or_default();
            for (namespace, value) in metadata.iter() {
                hoisted.entry(namespace.to_owned()).or_default().push((sequence, value.clone()));
            }
        }
        for (namespace, entries) in hoisted {
            let metadata = thread.metadata.get_or_insert_default();
            let mut object = metadata.get(&namespace).and_then(RawObject::from_raw).unwrap_or_default();
            let entries: Vec<String> =
                entries.iter().map(|(sequence, value)| format!("\"{sequence}\":{value}")).collect();
            let actions = RawJson::from_text(format!("{{{}}}", entries.join(","))).unwrap_or_default();
            object.insert("actions", actions);
            metadata.insert(namespace, RawJson::from_value(&object).unwrap_or_default());
        }
        thread
    }
}
