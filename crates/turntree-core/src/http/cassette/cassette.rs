//! An open cassette: its exchanges, which of them were played, and when they are written.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::file::{self, CassetteError, Recorded, RecordedRequest, Recording};
use super::lock::FileShare;
use super::matcher::{self, Difference, IgnoredPointers};
use super::redact::{self, RedactionHook};
use super::request::RequestRecord;
use crate::http::transport::TransportError;
use crate::runtime::{self, Task};

/// Maximum time that [`Cassette::save`] waits for responses that are still being read.
const SAVE_PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of differences in an error message.
const SHOWN_DIFFERENCES: usize = 5;

/// Whether a cassette plays, records, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CassetteMode {
    /// Plays. A request that is not recorded is an error. The network is not used.
    #[default]
    Replay,
    /// Sends and records all requests. The recording replaces the exchanges that were in the file when it was opened.
    Record,
    /// Plays recorded requests; sends and adds the others.
    Auto,
}

/// Options of a [`Cassette`].
#[derive(Clone, Default)]
pub struct CassetteOptions {
    /// The mode.
    pub mode: CassetteMode,
    /// JSON pointers into request bodies that are not compared; `*` matches any one key or index.
    pub ignore: Vec<String>,
    /// Plays the last matching exchange again when all matching exchanges have been played.
    pub repeat: bool,
    /// Removes application-specific secrets. With a hook, the file is written only by [`Cassette::save`].
    pub redact: Option<RedactionHook>,
}

impl fmt::Debug for CassetteOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CassetteOptions")
            .field("mode", &self.mode)
            .field("ignore", &self.ignore)
            .field("repeat", &self.repeat)
            .finish_non_exhaustive()
    }
}

/// An open cassette. Cloning shares it; it is equal only to its clones.
///
/// Plays the first exchange that has not been played and whose method, URL and body match the request.
#[derive(Clone)]
pub struct Cassette(Arc<Inner>);

struct Inner {
    path: PathBuf,
    options: CassetteOptions,
    ignored: IgnoredPointers,
    state: Mutex<State>,
    /// Notified when an exchange is completely recorded.
    recorded: Condvar,
    /// The exchanges in the file that belong to this cassette. Locked during a write, so that the newest state is written
    /// last.
    writing: Mutex<FileShare>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// True if an exchange is not in the file yet.
    is_dirty: bool,
    /// The error of the last write in the background.
    failed: Option<CassetteError>,
}

/// One exchange, from the file or recorded now.
struct Entry {
    exchange: Recorded,
    plays: usize,
    /// True while it is being recorded.
    is_open: bool,
    /// True if it was recorded by this cassette, not read from the file.
    is_ours: bool,
}

/// An exchange that has not been played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedExchange {
    /// The index in the file, from 0.
    pub index: usize,
    /// The method.
    pub method: String,
    /// The URL as recorded.
    pub url: String,
}

impl Cassette {
    /// Opens a cassette. Blocks while it reads the file.
    ///
    /// # Errors
    /// [`CassetteError`] if the file is missing and the mode is [`CassetteMode::Replay`], if its format is wrong, or if an
    /// ignored pointer is invalid.
    pub fn open(path: impl Into<PathBuf>, options: CassetteOptions) -> Result<Self, CassetteError> {
        let path = path.into();
        let ignored = IgnoredPointers::new(&options.ignore)?;
        let (recording, share) = match options.mode {
            CassetteMode::Replay => (file::read(&path)?, FileShare::default()),
            CassetteMode::Auto if path.exists() => {
                let recording = file::read(&path)?;
                (recording.clone(), FileShare::adding(recording))
            }
            CassetteMode::Auto => (Recording::default(), FileShare::default()),
            CassetteMode::Record => (Recording::default(), FileShare::replacing(&path)),
        };
        let entry = |exchange| Entry { exchange, plays: 0, is_open: false, is_ours: false };
        let entries = recording.exchanges.into_iter().map(entry);
        let state = State { entries: entries.collect(), ..State::default() };
        Ok(Self(Arc::new(Inner {
            path,
            options,
            ignored,
            state: Mutex::new(state),
            recorded: Condvar::new(),
            writing: Mutex::new(share),
        })))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The mode.
    pub fn mode(&self) -> CassetteMode {
        self.0.options.mode
    }

    /// The number of recorded exchanges.
    pub fn len(&self) -> usize {
        self.state().entries.iter().filter(|entry| !entry.is_open).count()
    }

    /// True if no exchange is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of exchanges played since the start or the last [`Cassette::rewind`].
    pub fn played(&self) -> usize {
        self.state().entries.iter().map(|entry| entry.plays).sum()
    }

    /// The exchanges that were not played, in order. Exchanges that this cassette recorded count as played.
    pub fn unused(&self) -> Vec<UnusedExchange> {
        let state = self.state();
        let unused = state.entries.iter().enumerate().filter(|(_, entry)| !entry.is_open && entry.plays == 0);
        let unused = unused.map(|(index, entry)| {
            let request = &entry.exchange.request;
            UnusedExchange { index, method: request.method.clone(), url: request.url.clone() }
        });
        unused.collect()
    }

    /// Plays from the first exchange again.
    pub fn rewind(&self) {
        self.state().entries.iter_mut().for_each(|entry| entry.plays = 0);
    }

    /// Writes the recorded exchanges. Waits up to 2 seconds for responses that are still being read. Blocks. Does nothing if
    /// the file is up to date.
    ///
    /// # Errors
    /// [`CassetteError`] if the file cannot be written or the redaction hook fails; the file is then unchanged.
    pub fn save(&self) -> Result<(), CassetteError> {
        if self.mode() == CassetteMode::Replay {
            return Ok(());
        }
        let is_busy = |state: &mut State| state.entries.iter().any(|entry| entry.is_open);
        let waited = self.0.recorded.wait_timeout_while(self.state(), SAVE_PATIENCE, is_busy);
        let failed = waited.unwrap_or_else(PoisonError::into_inner).0.failed.take();
        let written = self.write();
        // A successful write makes an earlier failure irrelevant.
        written.map_err(|error| failed.unwrap_or(error))
    }

    /// Applies the redaction hook to a request.
    ///
    /// # Errors
    /// [`TransportError::Host`] with the failure of the hook.
    pub(super) fn redacted(&self, record: RequestRecord) -> Result<RequestRecord, TransportError> {
        let Some(hook) = &self.0.options.redact else { return Ok(record) };
        let exchange = Recorded { request: record.request, ..Recorded::default() };
        let changed = redact::with_hook(hook, &exchange, &self.0.path);
        let changed = changed.map_err(|error| match error {
            CassetteError::Hook { failure, .. } => TransportError::Host(failure),
            other => TransportError::Rejected { message: other.to_string() },
        })?;
        Ok(RequestRecord { request: changed.request, secrets: record.secrets })
    }

    /// True if an exchange matches a request and can be played.
    pub(super) fn can_play(&self, request: &RecordedRequest) -> bool {
        self.find(&self.state(), request).is_some()
    }

    /// Takes the exchange to play for a request, and marks it as played. None if none matches.
    pub(super) fn play(&self, request: &RecordedRequest) -> Option<Recorded> {
        let mut state = self.state();
        let index = self.find(&state, request)?;
        let entry = state.entries.get_mut(index)?;
        entry.plays += 1;
        Some(entry.exchange.clone())
    }

    /// Adds an exchange that is being recorded, and returns its index for [`Cassette::finish`].
    pub(super) fn begin(&self, request: RecordedRequest) -> usize {
        let mut state = self.state();
        let exchange = Recorded { request, ..Recorded::default() };
        state.entries.push(Entry { exchange, plays: 1, is_open: true, is_ours: true });
        state.entries.len() - 1
    }

    /// The error for a request that no exchange matches: names the request, the nearest exchange and the differences.
    pub(super) fn unmatched(&self, request: &RecordedRequest) -> TransportError {
        TransportError::Rejected { message: self.describe_unmatched(&self.state(), request) }
    }

    fn find(&self, state: &State, request: &RecordedRequest) -> Option<usize> {
        let matches = |entry: &&Entry| {
            !entry.is_open && matcher::matches(&entry.exchange.request, request, &self.0.ignored)
        };
        let next = state.entries.iter().position(|entry| entry.plays == 0 && matches(&entry));
        next.or_else(|| {
            let again =
                self.0.options.repeat.then(|| state.entries.iter().rposition(|entry| matches(&entry)));
            again.flatten()
        })
    }

    fn describe_unmatched(&self, state: &State, request: &RecordedRequest) -> String {
        let beginning = format!(
            "no recorded exchange matches {} {} in {} ({} recorded, {} of them unused)",
            request.method,
            request.url,
            self.0.path.display(),
            state.entries.len(),
            state.entries.iter().filter(|entry| entry.plays == 0).count(),
        );
        let differences = |entry: &Entry| -> Vec<Difference> {
            matcher::differences(&entry.exchange.request, request, &self.0.ignored)
        };
        let candidates = state.entries.iter().enumerate().filter(|(_, entry)| !entry.is_open);
        let candidates = candidates.map(|(index, entry)| (index, entry.plays, differences(entry)));
        let nearest =
            candidates.min_by_key(|(_, plays, differences)| (matcher::distance(differences), *plays));
        match nearest {
            None => format!("{beginning}; the recording is empty, make it with mode=\"record\""),
            Some((index, _, differences)) if differences.is_empty() => format!(
                "{beginning}; exchange {index} matches and has been played already: record the further request \
                 with mode=\"auto\", call rewind() before a new round, or allow repeat"
            ),
            Some((index, _, differences)) => {
                let shown = differences.iter().take(SHOWN_DIFFERENCES).map(ToString::to_string);
                let more = differences.len().saturating_sub(SHOWN_DIFFERENCES);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!(
                    "{beginning}; the nearest is exchange {index}, which differs at {}{more}. Record it with \
                     mode=\"auto\" or \"record\", or name what varies in ignore",
                    shown.collect::<Vec<_>>().join(", ")
                )
            }
        }
    }

    /// Completes an exchange that is being recorded, and starts to write the file.
    ///
    /// Returns the write; `None` if only [`Cassette::save`] writes. A failed write is reported by
    /// [`Cassette::take_failure`] too, in case the task is dropped.
    pub(super) fn finish(
        &self,
        index: usize,
        finish: impl FnOnce(&mut Recorded),
    ) -> Option<Task<Result<(), CassetteError>>> {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(index) {
            finish(&mut entry.exchange);
            entry.is_open = false;
        }
        state.is_dirty = true;
        drop(state);
        self.0.recorded.notify_all();
        if self.0.options.redact.is_some() {
            // The hook may belong to the host language, which must not run on this thread.
            return None;
        }
        let cassette = self.clone();
        Some(runtime::spawn_blocking(move || {
            let written = cassette.write();
            cassette.state().failed = written.clone().err();
            written
        }))
    }

    /// The error of the last write, once.
    pub(super) fn take_failure(&self) -> Option<CassetteError> {
        self.state().failed.take()
    }

    fn write(&self) -> Result<(), CassetteError> {
        let mut share = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        if !std::mem::take(&mut state.is_dirty) {
            return Ok(());
        }
        let finished = state.entries.iter().filter(|entry| entry.is_ours && !entry.is_open);
        let exchanges: Vec<Recorded> = finished.map(|entry| entry.exchange.clone()).collect();
        drop(state);
        let written = self.hooked(exchanges).and_then(|exchanges| share.write(&self.0.path, exchanges));
        if written.is_err() {
            self.state().is_dirty = true;
        }
        written
    }

    fn hooked(&self, exchanges: Vec<Recorded>) -> Result<Vec<Recorded>, CassetteError> {
        match &self.0.options.redact {
            Some(hook) => {
                exchanges.iter().map(|exchange| redact::with_hook(hook, exchange, &self.0.path)).collect()
            }
            None => Ok(exchanges),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cassette {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Cassette({}, {:?})", self.0.path.display(), self.mode())
    }
}

impl PartialEq for Cassette {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Cassette {}

impl Hash for Cassette {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
