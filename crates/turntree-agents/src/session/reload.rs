//! Takes over what another writer has saved.

use std::sync::Arc;

use crate::session::error::{SAVE_A_COPY, SessionError};
use crate::session::json::SessionSnapshot;
use crate::session::rebase::{is_same_run, rebase};
use crate::session::session::Session;
use crate::session::store::{LoadedSession, SavedSnapshot};
use turntree_core::computation::offloaded;
use turntree_core::json::RawObject;
use turntree_core::persistence::{PersistenceError, PersistenceErrorKind};

impl Session {
    /// Replaces the state of the session by that of the store, after earlier runs have ended. Changes that were not saved
    /// are lost. Returns the stored metadata, which the caller puts into its own.
    ///
    /// # Errors
    /// [`SessionError::NotLoaded`], also if the store does not have the session any more.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn reload(&self) -> Result<RawObject, SessionError> {
        self.take_over(false).await
    }

    /// Replaces the state of the session by that of the store, and adds what this session has in addition to the state
    /// that it saved or loaded last: messages that were added to a node that another writer has extended too are on a
    /// branch of it, which becomes current. The session is not saved. Returns its metadata.
    ///
    /// # Errors
    /// As for [`Self::reload`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn rebase(&self) -> Result<RawObject, SessionError> {
        self.take_over(true).await
    }

    async fn take_over(&self, rebases: bool) -> Result<RawObject, SessionError> {
        let missing = |message: &str| {
            let kind = PersistenceErrorKind::Conflict;
            self.not_loaded(PersistenceError { kind, ..PersistenceError::new(message) })
        };
        let Some(store) = &self.persistence else {
            return Err(missing("it has no store"));
        };
        let _lock = Arc::clone(&self.shared.run_lock).lock_owned().await;
        let mut saved = self.shared.saved.lock().await;
        let Some(LoadedSession { snapshot: theirs, saved: remembered }) =
            store.load(self.id()).await.map_err(|error| self.not_loaded(error))?
        else {
            return Err(missing(&format!("it was deleted from its store{SAVE_A_COPY}")));
        };
        let merged = if rebases {
            let base = saved.as_ref().map(|saved| store.saved_snapshot(saved));
            self.rebased(base, theirs).await?
        } else {
            theirs
        };
        *saved = remembered;
        Ok(self.replace_state(merged))
    }

    /// Returns the state of the store with the changes of this session, also those that are made meanwhile.
    async fn rebased(
        &self,
        base: Option<SavedSnapshot>,
        theirs: SessionSnapshot,
    ) -> Result<SessionSnapshot, SessionError> {
        let ours = Arc::new(self.snapshot()?);
        let bytes = ours.size_hint().max(theirs.size_hint());
        let (ids, clock) = (Arc::clone(&self.shared.ids), Arc::clone(&self.shared.clock));
        let (first, stored) = (Arc::clone(&ours), theirs.clone());
        let work = move || {
            let base = base.and_then(|read| read());
            let merged = rebase(base.as_ref(), &first, stored, &*ids, &*clock);
            (merged, base)
        };
        let (merged, base) = offloaded(bytes, work)
            .await
            .map_err(|error| self.not_loaded(PersistenceError::new(error.to_string())))?;
        let now = self.snapshot()?;
        if is_same_state(&now, &ours) {
            return merged.map_err(SessionError::Tree);
        }
        // It has changed meanwhile, which is rare: merged here, so that nothing changes while it is replaced.
        rebase(base.as_ref(), &now, theirs, &*self.shared.ids, &*self.shared.clock)
            .map_err(SessionError::Tree)
    }

    fn not_loaded(&self, error: PersistenceError) -> SessionError {
        SessionError::NotLoaded { id: Arc::clone(self.id()), error }
    }

    /// Replaces everything but the id and the agent. Returns the metadata.
    fn replace_state(&self, snapshot: SessionSnapshot) -> RawObject {
        let shared = &self.shared;
        let mut state = shared.state();
        state.sub_agents = snapshot.unfinished.as_ref().map(|run| run.sub_agents.clone()).unwrap_or_default();
        state.unsent_events.clear();
        state.checkpoints = snapshot.checkpoints;
        state.current = snapshot.current;
        state.unfinished = snapshot.unfinished;
        state.updated_at = snapshot.updated_at;
        state.last_current_node = snapshot.tree.current().id.clone();
        *shared.tree.lock() = snapshot.tree;
        shared.middleware_state.replace_all(snapshot.middleware);
        snapshot.metadata
    }
}

/// True if a session has not changed between two snapshots. Compares what is cheap to compare first.
fn is_same_state(one: &SessionSnapshot, other: &SessionSnapshot) -> bool {
    one.updated_at == other.updated_at
        && one.tree.is_unchanged_clone_of(&other.tree)
        && one.current == other.current
        && one.checkpoints.len() == other.checkpoints.len()
        && one.middleware == other.middleware
        && one.metadata == other.metadata
        && match (&one.unfinished, &other.unfinished) {
            (Some(one), Some(other)) => is_same_run(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
}
