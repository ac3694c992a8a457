//! Actions that a stream sends beside the parts of a response: they follow the results of its tool calls.

use std::collections::HashMap;
use std::sync::Arc;

use crate::action::Action;

/// A chunk of the stream that is no part of the history.
#[derive(Debug)]
pub(in crate::convert) struct DeferredAction {
    pub action: Action,
    /// Data parts: their id.
    pub id: Option<String>,
}

impl DeferredAction {
    pub(in crate::convert) const fn new(action: Action) -> Self {
        Self { action, id: None }
    }
}

/// The deferred actions of a response, and where data parts with an id stand in the thread.
#[derive(Debug, Default)]
pub(in crate::convert) struct DeferredActions {
    /// Actions that wait for the results of the response.
    waiting: Vec<DeferredAction>,
    /// The index of each data action with an id, by type and id: a later value replaces it.
    data: HashMap<(String, String), usize>,
}

impl DeferredActions {
    /// Starts a new user turn: data ids of the last one are not replaced any more.
    pub(in crate::convert) fn begin_turn(&mut self) {
        self.data.clear();
    }

    /// What comes when the results of the response are there.
    pub(in crate::convert) fn defer(&mut self, actions: impl IntoIterator<Item = DeferredAction>) {
        self.waiting.extend(actions);
    }

    /// What waited.
    pub(in crate::convert) fn take(&mut self) -> Vec<DeferredAction> {
        std::mem::take(&mut self.waiting)
    }

    /// The action of a deferred that takes no earlier one's place. `actions` are those of the thread so far.
    pub(in crate::convert) fn insert(
        &mut self,
        deferred: DeferredAction,
        actions: &mut [Arc<Action>],
    ) -> Option<Action> {
        let Some(id) = deferred.id else { return Some(deferred.action) };
        let key = (deferred.action.action_type().to_owned(), id);
        let before = self.data.get(&key).and_then(|index| actions.get_mut(*index)).map(Arc::make_mut);
        if let Some(Action::System(before)) = before {
            if let Action::System(now) = deferred.action {
                before.data = now.data;
            }
            return None;
        }
        self.data.insert(key, actions.len());
        Some(deferred.action)
    }
}
