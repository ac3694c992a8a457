//! Round-trip metadata of actions, grouped by source message. When one action of a message changes, the metadata of the
//! whole message is removed, because it is only valid as a whole.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;

use super::action::Action;
use super::document::{Actions, Thread};
use turntree_core::json::{RawJson, RawObject};

/// Returns the source message of each action in one namespace; `None` for actions without a source message.
type MessageIndexer = fn(&Actions) -> Vec<Option<usize>>;

/// The namespaces of round-trip metadata, with their indexers.
const NAMESPACES: &[(&str, MessageIndexer)] =
    &[(PYDANTIC_AI, pydantic_ai_messages), (TURNTREE, turntree_messages), ("ui", ui_messages)];

/// The namespace of Pydantic AI.
pub(super) const PYDANTIC_AI: &str = "pydantic_ai";

/// The namespace of turntree's own messages.
pub(super) const TURNTREE: &str = "turntree";

/// True if a thread was made from a history: its metadata, or that of an action, has the namespace of an import.
pub(super) fn has_history(thread: &Thread) -> bool {
    let namespaces = [PYDANTIC_AI, TURNTREE];
    let of_thread = thread.metadata.as_ref();
    let is_imported = |metadata: &RawObject| {
        namespaces.iter().any(|namespace| metadata.get(namespace).is_some_and(RawJson::is_object))
    };
    of_thread.is_some_and(is_imported)
        || thread.actions.iter().any(|action| action.metadata().is_some_and(is_imported))
}

/// Removes the round-trip metadata of every message that has a touched action.
pub(super) fn remove_of_messages(actions: &mut Actions, touched: impl Fn(usize) -> bool) {
    for (namespace, messages) in NAMESPACES {
        let messages = messages(actions);
        let gone: HashSet<usize> = messages
            .iter()
            .enumerate()
            .filter(|(position, _)| touched(*position))
            .filter_map(|(_, message)| *message)
            .collect();
        if gone.is_empty() {
            continue;
        }
        for (entry, message) in actions.0.iter_mut().zip(messages) {
            if message.is_some_and(|message| gone.contains(&message)) && retained(entry, namespace).is_some()
            {
                remove_namespace(Arc::make_mut(entry), namespace);
            }
        }
    }
}

/// Removes one namespace from the metadata of an action.
pub(super) fn remove_namespace(action: &mut Action, namespace: &str) {
    let Some(mut metadata) = action.metadata_mut().take() else { return };
    metadata.remove(namespace);
    *action.metadata_mut() = (!metadata.is_empty()).then_some(metadata);
}

fn retained<'a>(action: &'a Action, namespace: &str) -> Option<&'a RawJson> {
    action.metadata()?.get(namespace)
}

/// Groups actions by the message number in their metadata; `true` marks the first action of a message.
fn numbered(actions: &Actions, read: impl Fn(&Action) -> Option<(u64, bool)>) -> Vec<Option<usize>> {
    let mut last: Option<(u64, usize)> = None;
    let message = |(position, action): (usize, &Arc<Action>)| {
        let (number, begins) = read(action)?;
        let message = match last {
            Some((of_last, message)) if of_last == number && !begins => message,
            _ => position,
        };
        last = Some((number, message));
        Some(message)
    };
    actions.iter().enumerate().map(message).collect()
}

fn pydantic_ai_messages(actions: &Actions) -> Vec<Option<usize>> {
    #[derive(Deserialize)]
    struct Envelope {
        m: Option<u64>,
        message: Option<Message>,
    }
    #[derive(Deserialize)]
    struct Message {
        #[serde(default)]
        index: u64,
    }
    numbered(actions, |action| {
        let envelope: Envelope = retained(action, PYDANTIC_AI)?.to().ok()?;
        match envelope.message {
            Some(message) => Some((message.index, true)),
            None => envelope.m.map(|number| (number, false)),
        }
    })
}

fn turntree_messages(actions: &Actions) -> Vec<Option<usize>> {
    #[derive(Deserialize)]
    struct Envelope {
        m: u64,
        id: Option<serde::de::IgnoredAny>,
    }
    numbered(actions, |action| {
        let envelope: Envelope = retained(action, TURNTREE)?.to().ok()?;
        Some((envelope.m, envelope.id.is_some()))
    })
}

/// The first action of a message stores the number of its actions.
fn ui_messages(actions: &Actions) -> Vec<Option<usize>> {
    #[derive(Deserialize)]
    struct Residue {
        actions: usize,
    }
    let mut run = None;
    let message = |(position, action): (usize, &Arc<Action>)| {
        if let Some(residue) = retained(action, "ui").and_then(|retained| retained.to::<Residue>().ok()) {
            run = Some((position, position.saturating_add(residue.actions)));
        }
        run.filter(|(_, end)| position < *end).map(|(first, _)| first)
    };
    actions.iter().enumerate().map(message).collect()
}

/// True if the action only stores what one side needs for a round trip. Clients neither see nor create such actions.
pub(super) fn is_private_action(action: &Action) -> bool {
    is_private(action.action_type())
}

/// As [`is_private_action`], for an action type.
pub(super) fn is_private(action_type: &str) -> bool {
    action_type.starts_with("system.pydantic_ai.") || action_type.starts_with("system.ui.")
}
