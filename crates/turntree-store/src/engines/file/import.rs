//! Sessions that are created together.
//!
//! They are written to a folder `imports/ID`. When all are on disk, the file `turntree-import.json` is written, which names
//! that folder: from then on the import is done. What remains is to move the folders of the sessions to their places. If
//! the process ends before that, the next operation of any process does it. Without that file, a folder `imports/ID`
//! whose process has ended is removed.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use turntree_core::ids::{IdSource as _, RandomIds};

use super::folder::{Access, Folder, Lock, create_folder, shard, sync_folder, write_file};
use super::sessions::{Sessions, remove_folder, write_blobs, write_records};
use crate::batch::Batch;
use crate::engine::Replace;
use crate::error::StoreError;

/// The file that says that an import is done.
pub(super) const DONE: &str = "turntree-import.json";

/// The folder of imports.
const IMPORTS: &str = "imports";

/// Held while sessions are written to `imports`, so that no other process removes them.
const WRITING: &str = "import-writing";

/// Held while the sessions of an import are moved to their places.
const MOVING: &str = "import-moving";

#[derive(Serialize, Deserialize)]
struct Done {
    import: String,
}

/// A folder that is removed when it is dropped. After the import it does not exist.
struct Staging {
    id: String,
    path: PathBuf,
    _lock: Lock,
}

impl Drop for Staging {
    fn drop(&mut self) {
        // An error: the next process removes it.
        let _ = remove_folder(&self.path);
        let _ = self.path.parent().map(fs::remove_dir);
    }
}

impl Sessions {
    /// Creates sessions, all or none.
    pub(super) fn create_all(&self, batch: &mut dyn Batch) -> Result<(), StoreError> {
        self.folder.prepare(Access::Write)?;
        let staging = self.folder.new_staging()?;
        let mut ids = Vec::new();
        while let Some(log) = batch.next_log()? {
            log.validate()?;
            self.stage(&staging.path, &log)?;
            ids.push(log.info.id);
        }
        let synced = sync_folder(&staging.path).and_then(|()| sync_folder(&self.folder.path.join(IMPORTS)));
        synced.map_err(|error| self.folder.write_error(&staging.path, &error))?;
        let mut shards: Vec<u8> = ids.iter().map(|id| shard(id)).collect();
        shards.sort_unstable();
        shards.dedup();
        // In order, so that two imports do not wait for each other.
        let locks: Result<Vec<Lock>, StoreError> =
            shards.into_iter().map(|shard| self.folder.lock_shard(shard, Access::Write)).collect();
        let _locks = locks?;
        let _moving = self.folder.lock_named(MOVING, Access::Write)?;
        self.folder.move_imported()?;
        for session in ids {
            if self.head_now(&session)?.is_some() {
                return Err(StoreError::Exists { store: self.name(), session });
            }
        }
        self.folder.mark_done(&staging.id)?;
        self.folder.move_imported()
    }

    fn stage(&self, staging: &Path, log: &Replace) -> Result<(), StoreError> {
        let session = staging.join(super::folder::name(&log.info.id));
        let bytes = write_records(log, None)?;
        let write = || -> io::Result<()> {
            create_folder(&session)?;
            write_blobs(&session, &log.blobs)?;
            write_file(&session.join(super::sessions::LOG), &bytes)?;
            sync_folder(&session)
        };
        write().map_err(|error| self.folder.write_error(&session, &error))
    }
}

impl Folder {
    fn new_staging(&self) -> Result<Staging, StoreError> {
        let lock = self.lock_named(WRITING, Access::Read)?;
        let id = RandomIds.uuid().to_string();
        let imports = self.path.join(IMPORTS);
        let path = imports.join(&id);
        let created = create_folder(&imports).and_then(|()| fs::create_dir(&path));
        created.map_err(|error| self.write_error(&path, &error))?;
        Ok(Staging { id, path, _lock: lock })
    }

    fn mark_done(&self, id: &str) -> Result<(), StoreError> {
        let path = self.path.join(DONE);
        let write = || -> io::Result<()> {
            let new = path.with_extension("new");
            write_file(&new, &serde_json::to_vec(&Done { import: id.to_owned() })?)?;
            fs::rename(&new, &path)?;
            sync_folder(&self.path)
        };
        write().map_err(|error| self.write_error(&path, &error))
    }

    /// Finishes an import that is done, if there is one. Waits for the process that does it.
    pub(super) fn finish_import(&self) -> Result<(), StoreError> {
        let _moving = self.lock_named(MOVING, Access::Write).map_err(unfinished)?;
        self.move_imported().map_err(unfinished)
    }

    /// Moves the sessions of an import that is done to their places. Requires the lock.
    fn move_imported(&self) -> Result<(), StoreError> {
        let done = self.path.join(DONE);
        let bytes = match fs::read(&done) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.read_error(&done, &error)),
        };
        let Done { import } = serde_json::from_slice(&bytes).map_err(|error| StoreError::Failed {
            store: self.name.clone(),
            reason: format!("\"{}\" is damaged: {error}", done.display()),
        })?;
        let staging = self.path.join(IMPORTS).join(&import);
        let sessions = self.sessions();
        let move_all = || -> io::Result<()> {
            for entry in read_folder(&staging)? {
                let target = sessions.join(&entry);
                // What a crash has left of a first append. There is no session: it was looked for under the locks, and
                // none is created as long as the import is not finished.
                remove_folder(&target)?;
                fs::rename(staging.join(&entry), target)?;
            }
            sync_folder(&sessions)?;
            remove_folder(&staging)?;
            fs::remove_file(&done)?;
            sync_folder(&self.path)
        };
        move_all().map_err(|error| self.write_error(&staging, &error))
    }

    /// Removes what an import has left whose process has ended.
    pub(super) fn remove_unfinished_imports(&self) {
        let imports = self.path.join(IMPORTS);
        if !imports.exists() {
            return;
        }
        // An error: an import is running, or the store cannot be written.
        if let Some(_lock) = self.try_lock_named(WRITING) {
            let _ = remove_folder(&imports);
        }
    }
}

/// The error of a process that may only read.
fn unfinished(error: StoreError) -> StoreError {
    match error {
        StoreError::ReadOnly { store, reason } => {
            let reason = format!(
                "an import has to be finished first: open the store once as a user who can write it ({reason})"
            );
            StoreError::ReadOnly { store, reason }
        }
        error => error,
    }
}

/// The names in a folder; none if it does not exist.
fn read_folder(path: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| entry.map(|entry| entry.file_name())).collect(),
    }
}
