//! Opens or creates the file of a store.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::busy;
use super::failure::{Failure, SqliteFailure};
use super::options::SqliteOptions;
use super::schema::Schema;
use crate::engine::Synchronous;
use crate::engine::TIMEOUT;
use crate::error::StoreError;

/// Where the file is and how it is opened.
#[derive(Debug)]
pub(super) struct Config {
    /// For messages, with the path as the application wrote it.
    pub(super) name: Arc<str>,
    /// Absolute: SQLite reads `file:…` as a URI, and the folder of the process may change.
    path: PathBuf,
    options: SqliteOptions,
    schema: &'static Schema,
}

/// A file that was opened.
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// Whether the connection does not notice what others write. It must not be used for more than one operation.
    pub(super) is_immutable: bool,
}

impl Config {
    /// Checks what can be checked without opening the file.
    pub(super) fn new(
        path: &Path,
        options: SqliteOptions,
        schema: &'static Schema,
    ) -> Result<Self, StoreError> {
        let name: Arc<str> = format!("{} \"{}\"", schema.name, path.display()).into();
        let failed = |reason: String| StoreError::Failed { store: Arc::clone(&name), reason };
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            let text = path.display();
            return Err(StoreError::Invalid(format!(
                "path: expected the path of a file, got \"{text}\"; use the memory store to store nothing on disk"
            )));
        }
        let absolute = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
        match fs::metadata(&absolute) {
            Ok(metadata) if metadata.is_dir() => return Err(failed("the path is a folder".to_owned())),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = absolute.parent().unwrap_or(&absolute);
                if !folder.is_dir() {
                    return Err(failed(format!("the folder \"{}\" does not exist", folder.display())));
                }
                if !options.create || options.read_only {
                    return Err(failed("the file does not exist".to_owned()));
                }
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        Ok(Self { name, path: absolute, options, schema })
    }

    /// The absolute path of the file.
    #[cfg(target_os = "linux")]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file, creates it or migrates it to the newest schema.
    pub(super) fn open(&self) -> Result<Opened, Failure> {
        let (connection, is_immutable) = self.connect()?;
        Ok(Opened { connection: self.prepare(connection)?, is_immutable })
    }

    fn prepare(&self, connection: Connection) -> Result<Connection, Failure> {
        let is_read_only = connection.is_readonly("main")?;
        // In one transaction: another user may be writing the schema, and a part of it looks like another application's.
        let version = self.version(&*connection.unchecked_transaction()?)?;
        if !is_read_only {
            self.prepare_file(&connection, version)?;
        }
        self.configure(&connection)?;
        if version == Some(self.schema.newest_version()) {
            return Ok(connection);
        }
        if is_read_only {
            let reason = "it has an older schema or none; open it for writing once".to_owned();
            return Err(StoreError::ReadOnly { store: Arc::clone(&self.name), reason }.into());
        }
        self.migrate(connection)
    }

    /// Returns a connection, and whether it takes the file for one that nobody changes.
    fn connect(&self) -> Result<(Connection, bool), Failure> {
        let mode = match (self.options.read_only, self.options.create) {
            (true, _) => OpenFlags::SQLITE_OPEN_READ_ONLY,
            (false, true) => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            (false, false) => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        // One thread uses the connection.
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection =
            Connection::open_with_flags(&self.path, flags).map_err(|error| self.not_opened(error))?;
        busy::install(&mut connection, self.options.timeout.min(TIMEOUT))?;
        let Err(error) = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) else {
            return Ok((connection, false));
        };
        let failure = SqliteFailure::from(error);
        // A file in WAL mode in a folder that this user cannot write: the index of the log cannot be made.
        let is_without_index =
            failure.is_read_only() || (failure.is_not_opened() && connection.is_readonly("main")?);
        if !is_without_index {
            return Err(Failure::Sqlite(failure));
        }
        let log = self.beside("-wal");
        if log.exists() {
            let reason = format!(
                "the entries in \"{}\" cannot be read without writing to the folder ({}); open the store once as a user \
                 who can write there",
                log.display(),
                failure.message()
            );
            return Err(StoreError::ReadOnly { store: Arc::clone(&self.name), reason }.into());
        }
        // Without a log the file has everything.
        let uri = format!("file:{}?immutable=1", percent_encode(&self.path));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Ok((Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?, true))
    }

    /// The error of a file that SQLite cannot open. SQLite does not say why a new file cannot be created.
    fn not_opened(&self, error: rusqlite::Error) -> Failure {
        let failure = SqliteFailure::from(error);
        if failure.is_not_opened() && self.options.create && !self.path.exists() {
            let created = fs::OpenOptions::new().append(true).create(true).open(&self.path);
            if let Err(error) = created
                && matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
            {
                let reason = format!("the file cannot be created: {error}");
                return StoreError::ReadOnly { store: Arc::clone(&self.name), reason }.into();
            }
        }
        Failure::Sqlite(failure)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(suffix);
        path.into()
    }

    /// The version of the schema; `None` if the file is empty.
    fn version(&self, connection: &Connection) -> Result<Option<u64>, Failure> {
        let application: i32 = pragma(connection, "application_id")?;
        let version: i64 = pragma(connection, "user_version")?;
        let tables: u64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if tables == 0 && application == 0 {
            return Ok(None);
        }
        let store = Arc::clone(&self.name);
        if application != self.schema.application_id {
            let reason = "the file is a SQLite database of another application".to_owned();
            return Err(StoreError::Failed { store, reason }.into());
        }
        let (found, supported) = (u64::try_from(version).unwrap_or_default(), self.schema.newest_version());
        if found > supported {
            return Err(StoreError::NewerSchema { store, found, supported }.into());
        }
        Ok(Some(found))
    }

    /// Sets what is stored in the file.
    fn prepare_file(&self, connection: &Connection, version: Option<u64>) -> Result<(), Failure> {
        if version.is_none() {
            // These have an effect before the first page is written.
            connection.pragma_update(None, "page_size", self.schema.page_size)?;
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        // SQLite does not wait for locks when it changes the mode, for example while another process creates the file.
        let deadline = Instant::now() + self.options.timeout.min(TIMEOUT);
        loop {
            let mode = connection
                .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))
                .map_err(SqliteFailure::from);
            match mode {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    let store = Arc::clone(&self.name);
                    let reason =
                        format!("the file system does not support write-ahead logs (mode \"{mode}\")");
                    return Err(StoreError::Failed { store, reason }.into());
                }
                Err(failure) if failure.is_busy() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(failure) => return Err(Failure::Sqlite(failure)),
            }
        }
    }

    /// Sets what belongs to the connection.
    fn configure(&self, connection: &Connection) -> Result<(), Failure> {
        let is_full = self.options.synchronous == Synchronous::Full;
        connection.pragma_update(None, "synchronous", if is_full { "FULL" } else { "NORMAL" })?;
        // macOS: `fsync` alone does not reach the disk.
        connection.pragma_update(None, "fullfsync", is_full)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", self.schema.checkpoint_pages)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, self.schema.keeps_log)?;
        // After a large transaction the log is cut to this number of bytes.
        connection.pragma_update(None, "journal_size_limit", 1_048_576)?;
        // What is deleted is overwritten with zeros.
        connection.pragma_update(None, "secure_delete", true)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(())
    }

    fn migrate(&self, mut connection: Connection) -> Result<Connection, Failure> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have done it in the meantime.
        let version = self.version(&transaction)?;
        if version != Some(self.schema.newest_version()) {
            self.schema.migrate(&transaction, version.unwrap_or_default())?;
        }
        transaction.commit()?;
        Ok(connection)
    }

    /// What tells the files of the database from others at the same paths.
    pub(super) fn identity(&self) -> Identity {
        Identity { database: file_identity(&self.path), log: file_identity(&self.beside("-wal")) }
    }
}

/// What tells the files of a database from others at the same paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    database: Option<(u64, u64)>,
    /// The write-ahead log.
    log: Option<(u64, u64)>,
}

/// The device and the number of a file; `None` if there is no file, or on Windows, which does not remove files that are
/// open.
fn file_identity(path: &Path) -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> Result<T, Failure> {
    Ok(connection.pragma_query_value(None, name, |row| row.get(0))?)
}

/// The path as a part of a URI.
fn percent_encode(path: &Path) -> String {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    path.as_os_str().as_encoded_bytes().iter().map(encode).collect()
}
