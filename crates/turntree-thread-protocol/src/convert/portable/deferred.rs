//! Deferred actions: data, sources and files that a stream sends beside a response follow the results of its tool
//! calls.

use std::collections::HashMap;
use std::sync::Arc;

use crate::action::Action;

/// An action that waits for the results of its response.
#[derive(Debug)]
pub(in crate::convert) struct DeferredAction {
    pub action: Action,
    /// The id of a data part.
    pub id: Option<String>,
}

impl DeferredAction {
    pub(in crate::convert) const fn new(action: Action) -> Self {
        Self { action, id: None }
    }
}

/// The deferred actions of a response, and the locations of data actions with an id.
#[derive(Debug, Default)]
pub(in crate::convert) struct DeferredActions {
    /// Actions that wait for the results of the response.
    waiting: Vec<DeferredAction>,
    /// The index of each data action with an id, by type and id. A later value replaces it.
    data: HashMap<(String, String), usize>,
}

impl DeferredActions {
    /// Starts a new user turn: later data never replaces data of the previous turn.
    pub(in crate::convert) fn begin_turn(&mut self) {
        self.data.clear();
    }

    /// Adds actions that follow the results of the response.
    pub(in crate::convert) fn defer(&mut self, actions: impl IntoIterator<Item = DeferredAction>) {
        self.waiting.extend(actions);
    }

    /// Removes and returns the waiting actions.
    pub(in crate::convert) fn take(&mut self) -> Vec<DeferredAction> {
        std::mem::take(&mut self.waiting)
    }

    /// Returns the action to append; `None` if it replaced the data of an earlier action. `actions` are the actions of
    /// the thread so far.
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
