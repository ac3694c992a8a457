//! Signs of life: a lock that the process of an agent holds, that process itself, or the time when it was seen.
//!
//! A lock and a process tell at once that an agent has crashed. The time tells it after a while.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use sha2::{Digest, Sha256};
use turntree_store::engines::sqlite::Failure;

use crate::error::HarnessError;

/// A process, told apart from a later one of the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its number.
    pub pid: i64,
    /// When it started, in ticks since the machine did.
    pub start: i64,
    /// The machine and its namespace of processes.
    pub host: String,
}

/// What is stored of an agent about its life.
#[derive(Debug, Clone)]
pub(crate) struct Signs {
    pub id: String,
    pub process: Option<Process>,
    /// Whether the process was seen twice: a helper that has ended at the next event says nothing.
    pub is_confirmed: bool,
    pub is_active: bool,
    pub last_seen_at: i64,
}

/// The columns of `agent` that [`signs_of`] reads.
pub(crate) const COLUMNS: &str =
    "agent.id, agent.pid, agent.pid_start, agent.host, agent.confirmed, agent.status, agent.last_seen_at";

/// Reads the columns, from the one with this number.
pub(crate) fn signs_of(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Signs> {
    let process = match (row.get(first + 1)?, row.get(first + 2)?, row.get(first + 3)?) {
        (Some(pid), Some(start), Some(host)) => Some(Process { pid, start, host }),
        _ => None,
    };
    let status: String = row.get(first + 5)?;
    Ok(Signs {
        id: row.get(first)?,
        process,
        is_confirmed: row.get(first + 4)?,
        is_active: status == "active",
        last_seen_at: row.get(first + 6)?,
    })
}

impl Process {
    /// This process. `None` where the system does not say.
    pub(crate) fn own() -> Option<Self> {
        Self::of(i64::from(std::process::id()))
    }

    /// The process that runs the hooks: the nearest one above this one that is not a shell.
    pub(crate) fn of_harness() -> Option<Self> {
        let mut pid = i64::from(std::process::id());
        for _ in 0..6 {
            pid = stat(pid)?.parent;
            let stat = stat(pid)?;
            if pid > 1 && !matches!(stat.name.as_str(), "sh" | "bash" | "dash" | "zsh" | "busybox" | "env") {
                return Self::of(pid);
            }
        }
        None
    }

    fn of(pid: i64) -> Option<Self> {
        Some(Self { pid, start: stat(pid)?.start, host: host()? })
    }

    /// Whether it still runs. `None` if that cannot be known here.
    pub(crate) fn runs(&self) -> Option<bool> {
        if host()? != self.host {
            return None;
        }
        Some(stat(self.pid).is_some_and(|stat| stat.start == self.start && stat.state != 'Z'))
    }
}

struct Stat {
    name: String,
    state: char,
    parent: i64,
    start: i64,
}

fn stat(pid: i64) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    Some(Stat {
        name,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

fn host() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// The lock of an agent. The system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct AgentLock {
    file: File,
    path: PathBuf,
}

impl AgentLock {
    /// Takes the lock of an agent. `None` if another process has it.
    ///
    /// # Errors
    /// [`HarnessError::System`] if the file cannot be made.
    pub fn take(state_folder: &Path, agent: &str) -> Result<Option<Self>, HarnessError> {
        let path = lock_path(state_folder, agent);
        let folder = state_folder.join("agents");
        std::fs::create_dir_all(&folder).map_err(|error| HarnessError::system(folder.display(), error))?;
        let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(|error| HarnessError::system(path.display(), error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file, path })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(HarnessError::system(path.display(), error)),
        }
    }

    /// Removes a lock that a process of the same agent has left behind.
    pub fn forget(state_folder: &Path, agent: &str) {
        if lock_is_held(state_folder, agent) == Some(false) {
            let _ = std::fs::remove_file(lock_path(state_folder, agent));
        }
    }

    /// Ends the lock and its file: the agent has left.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
        drop(self.file);
    }
}

fn lock_path(state_folder: &Path, agent: &str) -> PathBuf {
    let digest = Sha256::digest(agent.as_bytes());
    let name = crate::state::hex(digest.get(..12).unwrap_or_default());
    state_folder.join("agents").join(format!("{name}.lock"))
}

/// Whether a process holds the lock of an agent. `None` if the agent has none.
fn lock_is_held(state_folder: &Path, agent: &str) -> Option<bool> {
    let file = OpenOptions::new().write(true).open(lock_path(state_folder, agent)).ok()?;
    match file.try_lock() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// Whether an agent counts as alive: it is active, and has its lock, its process, or was seen after `oldest`.
pub(crate) fn is_live(signs: &Signs, state_folder: &Path, oldest: i64) -> bool {
    signs.is_active && is_gone(signs, state_folder).map_or(signs.last_seen_at >= oldest, |gone| !gone)
}

/// Whether the process of an agent has ended. `None` if only time can tell.
pub(crate) fn is_gone(signs: &Signs, state_folder: &Path) -> Option<bool> {
    if let Some(is_held) = lock_is_held(state_folder, &signs.id) {
        return Some(!is_held);
    }
    signs.process.as_ref().filter(|_| signs.is_confirmed)?.runs().map(|runs| !runs)
}

/// Releases what an agent has whose process has ended. False if it has not, or if that is not known.
pub(crate) fn reap(
    connection: &Connection,
    state_folder: &Path,
    agent: &str,
    now: i64,
) -> Result<bool, Failure> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM agent WHERE id = ?1"))?;
    let mut rows = statement.query([agent])?;
    let Some(row) = rows.next()? else { return Ok(false) };
    let signs = signs_of(row, 0)?;
    if !signs.is_active || is_gone(&signs, state_folder) != Some(true) {
        return Ok(false);
    }
    end(connection, agent, now)?;
    crate::state::record(connection, now, "agent.gone", agent, agent, &serde_json::json!({}))?;
    Ok(true)
}

/// Ends an agent: its announcements are done, its claims are released.
pub(crate) fn end(connection: &Connection, agent: &str, now: i64) -> Result<(), Failure> {
    let statements = [
        "UPDATE agent SET status = 'completed', last_seen_at = ?2 WHERE id = ?1",
        "UPDATE announcement SET done_at = ?2 WHERE agent = ?1 AND done_at IS NULL",
        "UPDATE claim SET released_at = ?2 WHERE owner = ?1 AND released_at IS NULL",
    ];
    for statement in statements {
        connection.prepare_cached(statement)?.execute((agent, now))?;
    }
    Ok(())
}
