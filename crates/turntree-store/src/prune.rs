//! Removes what old sessions no longer need.

use crate::engine::{SessionInfo, SessionQuery, SessionStatus};
use crate::error::StoreError;
use crate::journal_store::JournalStore;
use crate::walk::all_sessions;
use turntree_core::time::Timestamp;

/// What [`JournalStore::prune`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// The number of sessions that lost old checkpoints or branches.
    pub shortened: u64,
    /// The number of deleted sessions.
    pub deleted: u64,
    /// The number of old sessions that stay as they are: they have a run to resume, or were changed meanwhile.
    pub spared: u64,
    /// The number of removed runs of the queue.
    pub runs: u64,
}

impl JournalStore {
    /// Prunes the sessions that did not change after `before` and have no run to resume. With `keep_heads`, they keep the
    /// messages of the current branch, and lose checkpoints and other branches; otherwise they are deleted. A session that
    /// another writer changes meanwhile is spared. The runs of the queue that are done or failed and did not change after
    /// `before` are removed. It can be repeated after a failure.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for a session that cannot be read; those of the engine.
    pub async fn prune(&self, before: Timestamp, keep_heads: bool) -> Result<Pruned, StoreError> {
        let query = SessionQuery { updated_before: Some(before), ..SessionQuery::default() };
        let mut pruned = Pruned::default();
        for info in all_sessions(&**self.engine(), query).await? {
            self.prune_session(&info, before, keep_heads, &mut pruned).await?;
        }
        if let Some(queue) = self.engine().queue() {
            pruned.runs = queue.prune_runs(before).await?;
        }
        Ok(pruned)
    }

    async fn prune_session(
        &self,
        info: &SessionInfo,
        before: Timestamp,
        keep_heads: bool,
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        if info.status != SessionStatus::Idle {
            pruned.spared += 1;
            return Ok(());
        }
        let Some(read) = self.read_log(&info.id).await? else { return Ok(()) };
        let Some(snapshot) = read.journal.snapshot() else { return Ok(()) };
        if snapshot.unfinished.is_some() || read.info.updated_at > before {
            pruned.spared += 1;
            return Ok(());
        }
        let mut short = snapshot.clone();
        short.tree = snapshot.tree.current_branch();
        short.checkpoints.clear();
        short.current = None;
        let is_short = short.tree.message_count() == snapshot.tree.message_count()
            && short.tree.node_count() == snapshot.tree.node_count()
            && snapshot.checkpoints.is_empty()
            && read.entries == 1;
        if keep_heads && is_short {
            return Ok(());
        }
        // Also before a deletion: a writer that has loaded the session gets a conflict instead of being overwritten.
        match self.replace_log(short, Some(read.head)).await {
            Ok(()) => {}
            Err(StoreError::Conflict { deleted, .. }) => {
                pruned.spared += u64::from(!deleted);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        if keep_heads {
            pruned.shortened += 1;
        } else {
            pruned.deleted += u64::from(self.engine().delete(&info.id).await?);
        }
        Ok(())
    }
}
