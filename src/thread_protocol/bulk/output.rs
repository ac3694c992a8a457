//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::BulkError;

/// A file that gets its name when it is whole; dropped before that, it leaves nothing behind.
///
/// It is written beside its place, so that naming it is one step of the file system. What is there already is replaced
/// only if that was asked for, also when it came to be there in the meantime.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: Option<File>,
    overwrite: bool,
}

impl OutputFile {
    /// Begins a file.
    ///
    /// # Errors
    /// [`BulkError::Exists`]; [`BulkError::Io`] where the directory cannot be written to.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, BulkError> {
        let name = path.display().to_string();
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(BulkError::Exists { name });
        }
        if path.is_dir() {
            let error = io::Error::new(io::ErrorKind::IsADirectory, "is a directory; name a file in it");
            return Err(BulkError::io(name, error));
        }
        let own = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let unfinished = path.with_file_name(format!(".{own}.{:016x}.unfinished", fastrand::u64(..)));
        let file = OpenOptions::new().write(true).create_new(true).open(&unfinished);
        let file = file.map_err(|error| BulkError::io(name, error))?;
        Ok(Self { path: path.to_owned(), unfinished, file: Some(file), overwrite })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`BulkError::Exists`]; [`BulkError::Io`].
    pub fn finish(mut self) -> Result<(), BulkError> {
        let name = self.path.display().to_string();
        drop(self.file.take());
        if !self.overwrite {
            match fs::hard_link(&self.unfinished, &self.path) {
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
        fs::rename(&self.unfinished, &self.path).map_err(|error| BulkError::io(name, error))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // Renamed, it is not there any more; nothing else can be done about one that stays.
        let _gone = fs::remove_file(&self.unfinished);
    }
}
