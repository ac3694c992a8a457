//! Reduced forms of a thread: its core, and a form with the metadata of actions hoisted to the thread. Decision 2.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::document::Thread;
use super::roundtrip_metadata::is_private_action;
use turntree_core::json::{RawJson, RawObject};

impl Thread {
    /// The thread without metadata and without actions that only one side stores for round trips. Actions are
    /// renumbered.
    #[must_use]
    pub fn core(&self) -> Self {
        // The actions are shared until one changes.
        self.clone().into_core()
    }

    /// As [`Self::core`], without a copy of the thread.
    #[must_use]
    pub fn into_core(mut self) -> Self {
        self.metadata = None;
        for agent in self.agents.values_mut() {
            // The reference pointed into the removed metadata.
            agent.config_ref =
                agent.config_ref.take().filter(|reference| !reference.starts_with("#/metadata/"));
        }
        let retained = self.actions.0.into_iter().filter(|action| !is_private_action(action));
        self.actions.0 = retained
            .zip(1_u64..)
            .map(|(mut action, sequence)| {
                if action.sequence() != sequence || action.metadata().is_some() {
                    let own = Arc::make_mut(&mut action);
                    own.set_sequence(sequence);
                    *own.metadata_mut() = None;
                }
                action
            })
            .collect();
        self
    }

    /// The thread with the metadata of its actions moved to `metadata.<namespace>.actions["<sequence>"]`, for readers
    /// that accept only members that the specification defines.
    ///
    /// Existing entries are preserved. If the thread's metadata uses a namespace for something else, its metadata stays
    /// in the actions.
    #[must_use]
    pub fn with_hoisted_metadata(&self) -> Self {
        self.unhoisted().hoisted(|_| true)
    }

    /// The thread with all hoisted metadata moved back to its actions; the inverse of [`Self::with_hoisted_metadata`].
    /// Entries without a matching action stay in the thread.
    pub(super) fn unhoisted(&self) -> Cow<'_, Self> {
        let tables = self.hoisted_tables();
        if tables.is_empty() {
            return Cow::Borrowed(self);
        }
        let sequences: HashSet<u64> = self.actions.iter().map(|action| action.sequence()).collect();
        let mut thread = self.clone();
        let mut metadata = thread.metadata.take().unwrap_or_default();
        let mut lowered: HashMap<u64, Vec<(String, RawJson)>> = HashMap::new();
        for (namespace, table) in tables {
            let mut rest = Vec::new();
            for (key, value) in table.iter() {
                match key.parse().ok().filter(|sequence| sequences.contains(sequence)) {
                    Some(sequence) => {
                        lowered.entry(sequence).or_default().push((namespace.clone(), value.clone()));
                    }
                    None => rest.push((key.to_owned(), value.clone())),
                }
            }
            let mut object = metadata.get(&namespace).and_then(RawObject::from_raw).unwrap_or_default();
            object.remove("actions");
            if !rest.is_empty() {
                let rest: RawObject = rest.into_iter().collect();
                object.insert("actions", RawJson::from_value(&rest).unwrap_or_default());
            }
            if object.is_empty() {
                metadata.remove(&namespace);
            } else {
                metadata.insert(namespace, RawJson::from_value(&object).unwrap_or_default());
            }
        }
        thread.metadata = (!metadata.is_empty()).then_some(metadata);
        for entry in &mut thread.actions.0 {
            let Some(retained) = lowered.remove(&entry.sequence()) else { continue };
            let metadata = Arc::make_mut(entry).metadata_mut().get_or_insert_default();
            for (namespace, value) in retained {
                // The action's own metadata is newer.
                if metadata.get(&namespace).is_none() {
                    metadata.insert(namespace, value);
                }
            }
        }
        Cow::Owned(thread)
    }

    /// The namespaces that have hoisted metadata of actions.
    pub(super) fn hoisted_namespaces(&self) -> HashSet<String> {
        let tables = self.hoisted_tables().into_iter().filter(|(_, table)| !table.is_empty());
        tables.map(|(namespace, _)| namespace).collect()
    }

    /// Hoisted metadata: one table per namespace, keyed by sequence.
    fn hoisted_tables(&self) -> Vec<(String, RawObject)> {
        let is_sequence = |(key, _): (&str, &RawJson)| key.parse::<u64>().is_ok();
        let table_in = |(namespace, value): (&str, &RawJson)| {
            // Cheap check first: most namespaces have no table, and some are long.
            let object = value.get().contains("\"actions\"").then(|| RawObject::from_raw(value)).flatten()?;
            let table = RawObject::from_raw(object.get("actions")?)?;
            let is_ours = table.iter().all(is_sequence);
            is_ours.then(|| (namespace.to_owned(), table))
        };
        self.metadata.iter().flat_map(RawObject::iter).filter_map(table_in).collect()
    }

    /// The thread with the metadata of the selected namespaces hoisted.
    pub(super) fn hoisted(&self, which: impl Fn(&str) -> bool) -> Self {
        let mut thread = self.clone();
        let tables: HashMap<String, RawObject> = self.hoisted_tables().into_iter().collect();
        let is_taken = |(namespace, value): &(&str, &RawJson)| {
            let object = RawObject::from_raw(value);
            !tables.contains_key(*namespace) && object.is_none_or(|object| object.get("actions").is_some())
        };
        let metadata = self.metadata.iter().flat_map(RawObject::iter);
        let taken: HashSet<&str> = metadata.filter(is_taken).map(|(namespace, _)| namespace).collect();
        let moves = |namespace: &str| which(namespace) && !taken.contains(namespace);
        let mut hoisted: BTreeMap<String, Vec<(String, RawJson)>> = BTreeMap::new();
        for entry in &mut thread.actions.0 {
            let any = |metadata: &RawObject| metadata.iter().any(|(namespace, _)| moves(namespace));
            if !entry.metadata().is_some_and(any) {
                continue;
            }
            let action = Arc::make_mut(entry);
            let sequence = action.sequence().to_string();
            let mut stays = RawObject::new();
            for (namespace, value) in action.metadata_mut().take().unwrap_or_default().iter() {
                if moves(namespace) {
                    hoisted.entry(namespace.to_owned()).or_default().push((sequence.clone(), value.clone()));
                } else {
                    stays.insert(namespace, value.clone());
                }
            }
            *action.metadata_mut() = (!stays.is_empty()).then_some(stays);
        }
        for (namespace, entries) in hoisted {
            let metadata = thread.metadata.get_or_insert_default();
            let mut object = metadata.get(&namespace).and_then(RawObject::from_raw).unwrap_or_default();
            let known = tables.get(&namespace).into_iter().flat_map(RawObject::iter);
            let known = known.map(|(key, value)| (key.to_owned(), value.clone()));
            let table: RawObject = known.chain(entries).collect();
            object.insert("actions", RawJson::from_value(&table).unwrap_or_default());
            metadata.insert(namespace, RawJson::from_value(&object).unwrap_or_default());
        }
        thread
    }
}
