//! Takes over what another writer has saved.

use std::sync::Arc;

use crate::session::error::{SAVE_A_COPY, SessionError};
use crate::session::json::SessionSnapshot;
use crate::session::rebase::rebase;
use crate::session::session::Session;
use crate::session::store::LoadedSession;
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
        self.take_over(|_, _, theirs| Ok(theirs)).await
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
        self.take_over(|base, ours, theirs| {
            let (ids, clock) = (&*self.shared.ids, &*self.shared.clock);
            rebase(base().as_ref(), &ours, theirs, ids, clock).map_err(SessionError::Tree)
        })
        .await
    }

    async fn take_over(
        &self,
        merge: impl FnOnce(
            &dyn Fn() -> Option<SessionSnapshot>,
            SessionSnapshot,
            SessionSnapshot,
        ) -> Result<SessionSnapshot, SessionError>,
    ) -> Result<RawObject, SessionError> {
        let failed = |error| SessionError::NotLoaded { id: Arc::clone(self.id()), error };
        let missing = |message: &str| {
            let kind = PersistenceErrorKind::Conflict;
            failed(PersistenceError { kind, ..PersistenceError::new(message) })
        };
        let Some(store) = &self.persistence else {
            return Err(missing("it has no store"));
        };
        let _lock = Arc::clone(&self.shared.run_lock).lock_owned().await;
        let mut saved = self.shared.saved.lock().await;
        let Some(LoadedSession { snapshot: theirs, saved: remembered }) =
            store.load(self.id()).await.map_err(failed)?
        else {
            return Err(missing(&format!("it was deleted from its store{SAVE_A_COPY}")));
        };
        let base = || saved.as_ref().and_then(|saved| store.saved_snapshot(saved));
        let merged = merge(&base, self.snapshot()?, theirs)?;
        *saved = remembered;
        Ok(self.replace_state(merged))
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
