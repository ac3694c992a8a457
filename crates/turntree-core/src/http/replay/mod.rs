//! Exchanges that are recorded in a file, and played from it instead of the network.
//!
//! A [`Replay`] stands where the socket would: retries, limits, decompressed bodies, chunks, event streams and errors
//! run as in life. What is recorded holds no credentials (see `redact`); what is played needs none.
//!
//! | file | what |
//! |---|---|
//! | `file` | the format of a recording, read and written |
//! | `asked` | a request as it is recorded and compared |
//! | `differ` | whether two requests are the same, and where they are not |
//! | `redact` | what never reaches a file |
//! | `shared` | one file that several recorders write |
//! | `slot` | one exchange while it is recorded |
//! | `played` | one exchange while it is played |

mod asked;
mod differ;
mod file;
mod played;
mod redact;
mod shared;
mod slot;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use self::asked::Asked;
use self::differ::{Difference, Ignored};
pub use self::file::ReplayError;
use self::file::{Recorded, Recording};
pub(super) use self::played::{Cut, Played};
use self::shared::Share;
pub(super) use self::slot::Slot;
use super::error::{HostFailure, HttpError};
use super::request::HttpRequest;
use crate::runtime;

/// How long [`Replay::save`] waits for answers that are being read to their end.
const SAVE_PATIENCE: Duration = Duration::from_secs(2);

/// Differences that an error names.
const SHOWN_DIFFERENCES: usize = 5;

/// What a recording is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Plays; what is not recorded is an error. Nothing touches the network.
    #[default]
    Replay,
    /// Sends everything and records it anew; what the file held when it was opened is replaced.
    Record,
    /// Plays what is recorded, sends and adds what is not.
    Auto,
}

/// Changes an exchange, as JSON of the file's format, before it is compared or written.
///
/// Called on the thread that polls the request with `{"request": …}` alone, and on the thread that saves with all.
///
/// # Errors
/// What it failed with; a request that it failed on comes out with that very failure.
pub type RedactionHook = Arc<dyn Fn(Value) -> Result<Value, HostFailure> + Send + Sync>;

/// Options of a [`Replay`].
#[derive(Clone, Default)]
pub struct ReplayOptions {
    /// What it is used for.
    pub mode: Mode,
    /// JSON pointers into request bodies that are not compared; `*` stands for any one key or index.
    pub ignore: Vec<String>,
    /// Whether the last exchange that matches is played again when all of them have been played.
    pub repeat: bool,
    /// Takes out what only the caller knows to be secret. With it, nothing is written before [`Replay::save`].
    pub redact: Option<RedactionHook>,
}

impl fmt::Debug for ReplayOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ReplayOptions")
            .field("mode", &self.mode)
            .field("ignore", &self.ignore)
            .field("repeat", &self.repeat)
            .finish_non_exhaustive()
    }
}

/// A recording in use. Cloning shares it; equal only to itself and its clones.
///
/// Exchanges are played in the order in which they were recorded: the first that has not been played and whose method,
/// URL and body are those of the request.
#[derive(Clone)]
pub struct Replay(Arc<Inner>);

struct Inner {
    path: PathBuf,
    options: ReplayOptions,
    ignored: Ignored,
    state: Mutex<State>,
    /// Rung when an exchange is recorded to its end.
    recorded: Condvar,
    /// What of the file is ours. Held while it is written, so that the newest state is written last.
    writing: Mutex<Share>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    /// Something is recorded that is not in the file.
    is_dirty: bool,
    /// Why the last write in the background failed.
    failed: Option<ReplayError>,
}

/// One exchange of the file, or one that will be.
struct Entry {
    exchange: Recorded,
    plays: usize,
    /// It is being recorded.
    is_open: bool,
    /// It was recorded here and is not from the file.
    is_ours: bool,
}

/// An exchange that has not been played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unused {
    /// Its place in the file, from 0.
    pub index: usize,
    /// The method.
    pub method: String,
    /// The URL as recorded.
    pub url: String,
}

/// Where the answer of an attempt comes from.
pub(super) enum Source {
    /// The network.
    Network,
    /// The network, and it is recorded.
    Recording(Slot),
    /// A recording.
    Recorded(Box<Played>),
}

impl Replay {
    /// Opens a recording. Blocks while it reads.
    ///
    /// # Errors
    /// [`ReplayError`] when the file is to be played and is missing, or is none of ours; when a pointer to ignore is none.
    pub fn open(path: impl Into<PathBuf>, options: ReplayOptions) -> Result<Self, ReplayError> {
        let path = path.into();
        let ignored = Ignored::new(&options.ignore)?;
        let (recording, share) = match options.mode {
            Mode::Replay => (file::read(&path)?, Share::default()),
            Mode::Auto if path.exists() => {
                let recording = file::read(&path)?;
                (recording.clone(), Share::adding(recording))
            }
            Mode::Auto => (Recording::default(), Share::default()),
            Mode::Record => (Recording::default(), Share::replacing(&path)),
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

    /// What it is used for.
    pub fn mode(&self) -> Mode {
        self.0.options.mode
    }

    /// Exchanges that are recorded.
    pub fn len(&self) -> usize {
        self.state().entries.iter().filter(|entry| !entry.is_open).count()
    }

    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Answers that were played since the beginning or the last [`Replay::rewind`].
    pub fn played(&self) -> usize {
        self.state().entries.iter().map(|entry| entry.plays).sum()
    }

    /// The exchanges that were not played, in their order; those that were recorded by this very object count as played.
    pub fn unused(&self) -> Vec<Unused> {
        let state = self.state();
        let unused = state.entries.iter().enumerate().filter(|(_, entry)| !entry.is_open && entry.plays == 0);
        let unused = unused.map(|(index, entry)| {
            let request = &entry.exchange.request;
            Unused { index, method: request.method.clone(), url: request.url.clone() }
        });
        unused.collect()
    }

    /// Plays from the first exchange again.
    pub fn rewind(&self) {
        self.state().entries.iter_mut().for_each(|entry| entry.plays = 0);
    }

    /// Writes what was recorded, after a moment for answers that are being read. Blocks. Does nothing when the file
    /// is up to date.
    ///
    /// # Errors
    /// [`ReplayError`] when the file cannot be written or the redaction hook fails; what was there stays.
    pub fn save(&self) -> Result<(), ReplayError> {
        if self.mode() == Mode::Replay {
            return Ok(());
        }
        let is_busy = |state: &mut State| state.entries.iter().any(|entry| entry.is_open);
        let waited = self.0.recorded.wait_timeout_while(self.state(), SAVE_PATIENCE, is_busy);
        let failed = waited.unwrap_or_else(PoisonError::into_inner).0.failed.take();
        let written = self.write();
        // A write that works now makes up for one that did not.
        written.map_err(|error| failed.unwrap_or(error))
    }

    /// Whether a request will be answered without the network, and so needs no key.
    pub fn plays(&self, request: &HttpRequest) -> bool {
        match self.mode() {
            Mode::Replay => true,
            Mode::Record => false,
            Mode::Auto => self
                .asked(Asked::of_http(request))
                .is_ok_and(|asked| self.find(&self.state(), &asked).is_some()),
        }
    }

    /// What a request is answered with.
    ///
    /// # Errors
    /// [`HttpError::Replay`] when it is not recorded and must not be sent.
    pub(super) fn source(&self, request: &reqwest::Request) -> Result<Source, HttpError> {
        let asked = self.asked(Asked::of(request))?;
        let mut state = self.state();
        if self.mode() != Mode::Record
            && let Some(index) = self.find(&state, &asked)
            && let Some(entry) = state.entries.get_mut(index)
        {
            entry.plays += 1;
            return Ok(Source::Recorded(Box::new(Played::new(&entry.exchange))));
        }
        if self.mode() == Mode::Replay {
            return Err(HttpError::Replay { message: self.unmatched(&state, &asked) });
        }
        let Asked { request, secrets } = asked;
        let exchange = Recorded { request, ..Recorded::default() };
        state.entries.push(Entry { exchange, plays: 1, is_open: true, is_ours: true });
        let index = state.entries.len() - 1;
        drop(state);
        Ok(Source::Recording(Slot::new(self.clone(), index, secrets)))
    }

    /// A request as the hook lets it be seen.
    fn asked(&self, asked: Asked) -> Result<Asked, HttpError> {
        let Some(hook) = &self.0.options.redact else { return Ok(asked) };
        let exchange = Recorded { request: asked.request, ..Recorded::default() };
        let changed = redact::with_hook(hook, &exchange, &self.0.path);
        let changed = changed.map_err(|error| match error {
            ReplayError::Hook { failure, .. } => HttpError::Host(failure),
            other => HttpError::Replay { message: other.to_string() },
        })?;
        Ok(Asked { request: changed.request, secrets: asked.secrets })
    }

    fn find(&self, state: &State, asked: &Asked) -> Option<usize> {
        let matches = |entry: &&Entry| {
            !entry.is_open && differ::is_same(&entry.exchange.request, &asked.request, &self.0.ignored)
        };
        let next = state.entries.iter().position(|entry| entry.plays == 0 && matches(&entry));
        next.or_else(|| {
            let again =
                self.0.options.repeat.then(|| state.entries.iter().rposition(|entry| matches(&entry)));
            again.flatten()
        })
    }

    /// The words of an error: what was asked, and what comes nearest.
    fn unmatched(&self, state: &State, asked: &Asked) -> String {
        let request = &asked.request;
        let beginning = format!(
            "no recorded exchange matches {} {} in {} ({} recorded, {} of them unused)",
            request.method,
            request.url,
            self.0.path.display(),
            state.entries.len(),
            state.entries.iter().filter(|entry| entry.plays == 0).count(),
        );
        let differences = |entry: &Entry| -> Vec<Difference> {
            differ::differences(&entry.exchange.request, request, &self.0.ignored)
        };
        let candidates = state.entries.iter().enumerate().filter(|(_, entry)| !entry.is_open);
        let candidates = candidates.map(|(index, entry)| (index, entry.plays, differences(entry)));
        let nearest =
            candidates.min_by_key(|(_, plays, differences)| (differ::distance(differences), *plays));
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

    /// An exchange is recorded to its end.
    fn close(&self, index: usize, finish: impl FnOnce(&mut Recorded)) {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(index) {
            finish(&mut entry.exchange);
            entry.is_open = false;
        }
        state.is_dirty = true;
        drop(state);
        self.0.recorded.notify_all();
        if self.0.options.redact.is_some() {
            // The hook may belong to the host language, which this thread must not enter.
            return;
        }
        let replay = self.clone();
        let writing = runtime::spawn_blocking(move || {
            if let Err(error) = replay.write() {
                replay.state().failed = Some(error);
            }
        });
        writing.detach();
    }

    fn write(&self) -> Result<(), ReplayError> {
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

    fn hooked(&self, exchanges: Vec<Recorded>) -> Result<Vec<Recorded>, ReplayError> {
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

impl fmt::Debug for Replay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Replay({}, {:?})", self.0.path.display(), self.mode())
    }
}

impl PartialEq for Replay {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Replay {}

impl Hash for Replay {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
