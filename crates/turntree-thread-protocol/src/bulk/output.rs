//! Atomic output files.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::error::BulkError;

/// The maximum number of characters of the file name in its temporary name; file systems limit names.
const OWN: usize = 40;

/// A file that appears under its name when it is complete. Dropping it earlier removes it.
///
/// The temporary file is in the same directory, so the rename is atomic. An existing file is only replaced if
/// `overwrite` is set, even if it was created in the meantime. The new file has the permissions of the old one. A
/// symbolic link leads to the file to replace. Devices and named pipes are written to directly.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// The temporary name; `None` for devices and pipes.
    unfinished: Option<PathBuf>,
    file: Option<File>,
    overwrite: bool,
    background_sync: Option<BackgroundSync>,
}

impl OutputFile {
    /// Creates a file.
    ///
    /// # Errors
    /// [`BulkError::Exists`]; [`BulkError::Io`] if the directory cannot be written to.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, BulkError> {
        let name = path.display().to_string();
        let failed = |error| BulkError::io(name.clone(), error);
        let there = path.metadata().ok();
        if there.as_ref().is_some_and(Metadata::is_dir) {
            let error = io::Error::new(io::ErrorKind::IsADirectory, "is a directory; pass a file");
            return Err(failed(error));
        }
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let file = OpenOptions::new().write(true).open(path).map_err(failed)?;
            let path = path.to_owned();
            return Ok(Self { path, unfinished: None, file: Some(file), overwrite, background_sync: None });
        }
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(BulkError::Exists { name });
        }
        // A dangling link is replaced itself.
        let path = path.canonicalize().ok().filter(|_| path.is_symlink()).unwrap_or(path.to_owned());
        let own: String = path.file_name().unwrap_or_default().to_string_lossy().chars().take(OWN).collect();
        let unfinished = path.with_file_name(format!(".{own}.{:016x}.unfinished", fastrand::u64(..)));
        let file = OpenOptions::new().write(true).create_new(true).open(&unfinished).map_err(failed)?;
        let output =
            Self { path, unfinished: Some(unfinished), file: Some(file), overwrite, background_sync: None };
        if let (Some(there), Some(file)) = (there, &output.file) {
            // Set the permissions before writing any content.
            file.set_permissions(there.permissions()).map_err(failed)?;
        }
        Ok(output)
    }

    /// The path that receives the bytes.
    pub fn place(&self) -> &Path {
        self.unfinished.as_deref().unwrap_or(&self.path)
    }

    /// Syncs to disk in the background while more is written, so that [`Self::finish`] only waits for the rest.
    pub fn sync_behind(&mut self) {
        let file = self.file.as_ref().filter(|_| self.unfinished.is_some());
        self.background_sync = file.and_then(|file| file.try_clone().ok()).and_then(BackgroundSync::new);
    }

    /// Renames the file to its final name. With `durable`, the content is synced before, so after a power failure the
    /// file is complete or does not exist. Call [`sync_directory`] to sync the name as well.
    ///
    /// # Errors
    /// [`BulkError::Exists`]; [`BulkError::Io`].
    pub fn finish(mut self, durable: bool) -> Result<(), BulkError> {
        let name = self.path.display().to_string();
        let Some(unfinished) = &self.unfinished else { return Ok(()) };
        // The system reports a failed sync only once, to the caller of the sync.
        let synced = self.background_sync.take().map_or(Ok(()), BackgroundSync::end);
        if let Some(file) = self.file.take().filter(|_| durable) {
            let synced = synced.and_then(|()| supported(file.sync_all()));
            synced.map_err(|error| BulkError::io(&name, error))?;
        }
        if !self.overwrite {
            match fs::hard_link(unfinished, &self.path) {
                // `drop` removes the temporary name.
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(BulkError::Exists { name });
                }
                // The file system has no hard links.
                Err(_) if self.path.symlink_metadata().is_ok() => return Err(BulkError::Exists { name }),
                Err(_) => {}
            }
        }
        fs::rename(unfinished, &self.path).map_err(|error| BulkError::io(name, error))
    }

    /// As [`Self::finish`]; with `durable`, the name is synced as well.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn finish_with_name(self, durable: bool) -> Result<(), BulkError> {
        let path = self.path.clone();
        self.finish(durable)?;
        if durable { sync_directory(&path) } else { Ok(()) }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else { return Ok(bytes.len()) };
        let written = file.write(bytes)?;
        if let Some(behind) = &mut self.background_sync {
            behind.wrote(written);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // After the rename there is nothing to remove. Other errors cannot be handled here.
        let _gone = self.unfinished.as_ref().map(fs::remove_file);
    }
}

/// The number of bytes between background syncs.
const SYNC_BYTES: usize = 16 << 20;

/// A thread that syncs a growing file to disk.
#[derive(Debug)]
struct BackgroundSync {
    /// Bytes since the last sync request.
    unsynced: usize,
    sender: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl BackgroundSync {
    /// `None` if no thread can be started: the whole file is then synced at the end.
    fn new(file: File) -> Option<Self> {
        let (sender, receiver) = sync_channel(1);
        let sync = move || receiver.iter().try_for_each(|()| supported(file.sync_data()));
        let thread = thread::Builder::new().name("turntree-sync".to_owned()).spawn(sync).ok()?;
        Some(Self { unsynced: 0, sender, thread })
    }

    fn wrote(&mut self, bytes: usize) {
        self.unsynced += bytes;
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            // Full: a sync is already requested. Disconnected: a sync failed, and `end` reports the error.
            let _sent = self.sender.try_send(());
        }
    }

    fn end(self) -> io::Result<()> {
        drop(self.sender);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that syncs the file panicked")))
    }
}

/// Syncs the directory of a file, so that the file's name is on disk.
///
/// # Errors
/// [`BulkError::Io`].
pub fn sync_directory(of: &Path) -> Result<(), BulkError> {
    let parent = of.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Other systems cannot sync directories.
    if cfg!(unix) {
        let synced = File::open(parent).and_then(|directory| directory.sync_all());
        supported(synced).map_err(|error| BulkError::io(parent.display().to_string(), error))?;
    }
    Ok(())
}

/// Ignores the errors of file systems that do not support sync.
fn supported(synced: io::Result<()>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    synced.or_else(|error| match error.kind() {
        InvalidInput | Unsupported | PermissionDenied => Ok(()),
        _ => Err(error),
    })
}
