//! Stores sessions that are given one by one, all or none of them.

use std::collections::HashSet;
use std::sync::Arc;

use crate::batch::{Batch, Spool};
use crate::engine::Replace;
use crate::error::StoreError;
use crate::journal_store::{JournalStore, log_of};
use turntree_agents::session::SessionSnapshot;

/// Collects sessions in a temporary file until [`Importer::commit`] stores them. Nothing is stored if it is dropped.
#[derive(Debug)]
pub struct Importer {
    store: JournalStore,
    spool: Spool,
    ids: HashSet<Arc<str>>,
}

impl JournalStore {
    /// Begins an import.
    ///
    /// # Errors
    /// [`StoreError::ExportFile`] if there can be no temporary file.
    pub fn importer(&self) -> Result<Importer, StoreError> {
        Ok(Importer { store: self.clone(), spool: Spool::new()?, ids: HashSet::new() })
    }
}

impl Importer {
    /// Adds a session. Blocks: it writes a file.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the import has the session already, or if it cannot be written as JSON;
    /// [`StoreError::ExportFile`] if the temporary file cannot be written.
    pub fn add(&mut self, snapshot: SessionSnapshot) -> Result<(), StoreError> {
        let id = Arc::clone(&snapshot.id);
        if self.ids.contains(&id) {
            return Err(StoreError::Invalid(format!("the session {id:?} is imported twice")));
        }
        let log = log_of(snapshot, None)?;
        self.spool.add(&log)?;
        self.ids.insert(id);
        Ok(())
    }

    /// Stores the sessions, all or none, and returns the ids of those that it has left out: with `skips_existing`, those
    /// that the store has.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the store has one of the sessions; those of the engine.
    pub async fn commit(self, skips_existing: bool) -> Result<Vec<Arc<str>>, StoreError> {
        let Self { store, spool, .. } = self;
        let engine = store.engine();
        if !skips_existing {
            engine.create_all(Box::new(spool)).await?;
            return Ok(Vec::new());
        }
        let (mut skipped, mut spool) = (Vec::new(), spool);
        loop {
            let batch = Without { spool: spool.reopened()?, skipped: skipped.clone() };
            match engine.create_all(Box::new(batch)).await {
                // Each session is skipped once, so this ends.
                Err(StoreError::Exists { session, .. }) if !skipped.contains(&session) => {
                    skipped.push(session)
                }
                Err(error) => return Err(error),
                Ok(()) => return Ok(skipped),
            }
        }
    }
}

/// A batch without some of its sessions.
#[derive(Debug)]
struct Without {
    spool: Spool,
    skipped: Vec<Arc<str>>,
}

impl Batch for Without {
    fn rewind(&mut self) -> Result<(), StoreError> {
        self.spool.rewind()
    }

    fn next_log(&mut self) -> Result<Option<Replace>, StoreError> {
        while let Some(log) = self.spool.next_log()? {
            if !self.skipped.contains(&log.info.id) {
                return Ok(Some(log));
            }
        }
        Ok(None)
    }
}
