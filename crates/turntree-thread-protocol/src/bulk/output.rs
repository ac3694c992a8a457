//! Files that are there whole or not at all.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::error::BulkError;

/// Most characters of a file's own name in the name that it has until it is whole: names of files are short.
const OWN: usize = 40;

/// A file that gets its name when it is whole; dropped before that, it leaves nothing behind.
///
/// It is written beside its place, so that naming it is one step of the file system. What is there already is replaced
/// only if that was asked for, also when it came to be there in the meantime; the new file may be read by whom the old
/// one could. A link leads to the file that is replaced. A device or a named pipe is no file: it is written to as it is.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// Its name until it is whole; `None` for what is no file.
    unfinished: Option<PathBuf>,
    file: Option<File>,
    overwrite: bool,
    background_sync: Option<BackgroundSync>,
}

impl OutputFile {
    /// Begins a file.
    ///
    /// # Errors
    /// [`BulkError::Exists`]; [`BulkError::Io`] where the directory cannot be written to.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, BulkError> {
        let name = path.display().to_string();
        let failed = |error| BulkError::io(name.clone(), error);
        let there = path.metadata().ok();
        if there.as_ref().is_some_and(Metadata::is_dir) {
            let error = io::Error::new(io::ErrorKind::IsADirectory, "is a directory; name a file in it");
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
        // A link that leads nowhere is replaced itself.
        let path = path.canonicalize().ok().filter(|_| path.is_symlink()).unwrap_or(path.to_owned());
        let own: String = path.file_name().unwrap_or_default().to_string_lossy().chars().take(OWN).collect();
        let unfinished = path.with_file_name(format!(".{own}.{:016x}.unfinished", fastrand::u64(..)));
        let file = OpenOptions::new().write(true).create_new(true).open(&unfinished).map_err(failed)?;
        let output =
            Self { path, unfinished: Some(unfinished), file: Some(file), overwrite, background_sync: None };
        if let (Some(there), Some(file)) = (there, &output.file) {
            // Before there is anything in it that others should not read.
            file.set_permissions(there.permissions()).map_err(failed)?;
        }
        Ok(output)
    }

    /// Where its bytes go.
    pub fn place(&self) -> &Path {
        self.unfinished.as_deref().unwrap_or(&self.path)
    }

    /// Has what is written brought to the disk while more is written, so that [`Self::finish`] waits for the rest only.
    pub fn sync_behind(&mut self) {
        let file = self.file.as_ref().filter(|_| self.unfinished.is_some());
        self.background_sync = file.and_then(|file| file.try_clone().ok()).and_then(BackgroundSync::new);
    }

    /// Gives the file its name. With `durable`, what was written is on the disk before that: after a power cut the name
    /// has all of it or does not exist. [`sync_directory`] then makes sure of the name.
    ///
    /// # Errors
    /// [`BulkError::Exists`]; [`BulkError::Io`].
    pub fn finish(mut self, durable: bool) -> Result<(), BulkError> {
        let name = self.path.display().to_string();
        let Some(unfinished) = &self.unfinished else { return Ok(()) };
        // The system tells of a failure once, to whom it was that asked.
        let synced = self.background_sync.take().map_or(Ok(()), BackgroundSync::end);
        if let Some(file) = self.file.take().filter(|_| durable) {
            let synced = synced.and_then(|()| supported(file.sync_all()));
            synced.map_err(|error| BulkError::io(&name, error))?;
        }
        if !self.overwrite {
            match fs::hard_link(unfinished, &self.path) {
                // The other name is removed by the drop.
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(BulkError::Exists { name });
                }
                // A file system without links.
                Err(_) if self.path.symlink_metadata().is_ok() => return Err(BulkError::Exists { name }),
                Err(_) => {}
            }
        }
        fs::rename(unfinished, &self.path).map_err(|error| BulkError::io(name, error))
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
        // Renamed, it is not there any more; nothing else can be done about one that stays.
        let _gone = self.unfinished.as_ref().map(fs::remove_file);
    }
}

/// How much is written before it is brought to the disk.
const SYNC_BYTES: usize = 16 << 20;

/// A thread that brings a file to the disk while it grows.
#[derive(Debug)]
struct BackgroundSync {
    /// Bytes that nobody was receiver about.
    unsynced: usize,
    sender: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl BackgroundSync {
    /// `None` where no thread can be had: the whole file is then brought to the disk at its end.
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
            // Full: it is at work, and will be again. Disconnected: it failed, and `end` says how.
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

/// Makes sure that the names in the directory of a file are on the disk.
///
/// # Errors
/// [`BulkError::Io`].
pub fn sync_directory(of: &Path) -> Result<(), BulkError> {
    let parent = of.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Elsewhere directories are not opened, and names are the file system's affair.
    if cfg!(unix) {
        let synced = File::open(parent).and_then(|directory| directory.sync_all());
        supported(synced).map_err(|error| BulkError::io(parent.display().to_string(), error))?;
    }
    Ok(())
}

/// File systems that know of no disk say so; that is no failure.
fn supported(synced: io::Result<()>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    synced.or_else(|error| match error.kind() {
        InvalidInput | Unsupported | PermissionDenied => Ok(()),
        _ => Err(error),
    })
}
