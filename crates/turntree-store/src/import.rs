//! Reads the file of an export into a store; see [`export`](crate::export).

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::batch::Spool;
use crate::digest::Digest;
use crate::engine::{Entry, Replace};
use crate::error::StoreError;
use crate::export::{Counts, FORMAT, FirstLine, LastLine, SessionLine, VERSION, blocking};
use crate::journal_store::{JournalStore, info_of};
use crate::progress::Progress;
use crate::record;
use turntree_agents::session::id::is_session_id;
use turntree_agents::session::journal::Journal;

/// The line of an entry.
#[derive(Debug, Deserialize)]
struct EntryLine<'a> {
    digest: String,
    #[serde(borrow)]
    entry: &'a RawValue,
}

impl JournalStore {
    /// Stores the sessions of an export, all or none, and returns their number. The whole file is checked first. Only one
    /// session is in memory at a time; what will be stored is in a temporary file without a name meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if the store has one of the sessions; [`StoreError::ExportLine`] if the file is damaged, cut
    /// off, or something else; [`StoreError::ExportFile`] if it or the temporary file cannot be used; those of the engine.
    pub async fn load_export(&self, path: &Path) -> Result<u64, StoreError> {
        let (name, progress) = (path.to_owned(), self.progress().cloned());
        let mut input = blocking(path, move || Input::open(&name, progress)).await?;
        let mut known: HashSet<Arc<str>> = HashSet::new();
        let mut spool = Spool::new()?;
        loop {
            let (next, log) = read_session(path, input).await?;
            input = next;
            let Some(log) = log else { break };
            let id = Arc::clone(&log.info.id);
            if self.engine().head(&id).await?.is_some() {
                return Err(StoreError::Exists { store: self.engine().name(), session: id });
            }
            if !known.insert(Arc::clone(&id)) {
                return Err(input.error(path, format!("the session {id:?} is in the file twice")));
            }
            spool = blocking(path, move || Ok(spool.add(&log).map(|()| spool))).await??;
        }
        self.engine().create_all(Box::new(spool)).await?;
        Ok(u64::try_from(known.len()).unwrap_or(u64::MAX))
    }
}

/// Reads the next session; `None` after the last one.
async fn read_session(path: &Path, mut input: Input) -> Result<(Input, Option<Replace>), StoreError> {
    let (input, read) = blocking(path, move || {
        let read = input.next_session();
        Ok((input, read))
    })
    .await?;
    match read {
        Ok(replace) => Ok((input, replace)),
        Err(ReadError::Io(error)) => {
            Err(StoreError::ExportFile { path: path.display().to_string(), reason: error.to_string() })
        }
        Err(ReadError::Content(reason)) => Err(input.error(path, reason)),
    }
}

#[derive(Debug)]
enum ReadError {
    Io(io::Error),
    Content(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<String> for ReadError {
    fn from(reason: String) -> Self {
        Self::Content(reason)
    }
}

/// The file while it is read.
struct Input {
    file: BufReader<File>,
    line: Vec<u8>,
    /// The number of the line, from 1.
    number: u64,
    counts: Counts,
    progress: Option<Arc<Progress>>,
}

impl Input {
    fn open(path: &Path, progress: Option<Arc<Progress>>) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        if let Some(progress) = &progress {
            progress.begin(metadata.len());
        }
        Ok(Self {
            file: BufReader::new(file),
            line: Vec::new(),
            number: 0,
            counts: Counts::default(),
            progress,
        })
    }

    fn error(&self, path: &Path, reason: String) -> StoreError {
        StoreError::ExportLine { path: path.display().to_string(), line: self.number, reason }
    }

    /// Reads a line into `self.line`, without its end.
    fn read_line(&mut self) -> Result<(), ReadError> {
        self.line.clear();
        self.number += 1;
        self.file.read_until(b'\n', &mut self.line)?;
        if let Some(progress) = &self.progress {
            progress.add(self.line.len() as u64);
        }
        if self.line.pop() != Some(b'\n') {
            let reason = "the file is cut off: the line with \"end\" is missing; export it again";
            return Err(reason.to_owned().into());
        }
        Ok(())
    }

    fn parse<T: DeserializeOwned>(&self, expected: &str) -> Result<T, ReadError> {
        let wrong = |_| format!("expected {expected}; the file is damaged, or not an export of turntree");
        Ok(serde_json::from_slice(&self.line).map_err(wrong)?)
    }

    fn next_session(&mut self) -> Result<Option<Replace>, ReadError> {
        if self.number == 0 {
            self.read_first_line()?;
        }
        self.read_line()?;
        if self.line.starts_with(b"{\"end\":") {
            let LastLine { end } = self.parse("the line with \"end\"")?;
            if end != self.counts {
                let found = &self.counts;
                return Err(format!(
                    "sessions or entries are missing or added: the line counts {} and {}, the lines before it are {} and {}",
                    end.sessions, end.entries, found.sessions, found.entries
                )
                .into());
            }
            if !self.file.fill_buf()?.is_empty() {
                return Err("the file goes on after the line with \"end\"".to_owned().into());
            }
            return Ok(None);
        }
        let SessionLine { session, entries } = self.parse("the line of a session")?;
        if !is_session_id(&session.id) {
            return Err(format!("{:?} is not the id of a session", session.id).into());
        }
        self.read_entries(&session.id, entries).map(Some)
    }

    fn read_first_line(&mut self) -> Result<(), ReadError> {
        const EXPECTED: &str = "{\"format\":\"turntree-export\",\"version\":1}";
        self.read_line().map_err(|error| match error {
            ReadError::Content(_) => {
                ReadError::Content(format!("expected {EXPECTED}: it is not an export of turntree"))
            }
            error @ ReadError::Io(_) => error,
        })?;
        let first: FirstLine = self.parse(EXPECTED)?;
        if first.format != FORMAT {
            return Err(format!("expected {EXPECTED}: it is not an export of turntree").into());
        }
        if first.version > VERSION {
            let version = first.version;
            return Err(format!(
                "version {version} is newer than {VERSION}: install a newer version of turntree"
            )
            .into());
        }
        Ok(())
    }

    fn read_entries(&mut self, id: &Arc<str>, count: u64) -> Result<Replace, ReadError> {
        let first = self.number + 1;
        let mut texts: Vec<String> = Vec::new();
        let mut digest = Digest::default();
        for _ in 0..count {
            self.read_line()?;
            let wrong = |_| {
                format!("expected an entry of session {id:?}; the file is damaged, or an entry is missing")
            };
            let EntryLine { digest: written, entry } = serde_json::from_slice(&self.line).map_err(wrong)?;
            digest = Digest::of_entry(digest, id, entry.get().as_bytes());
            if Digest::from_hex(&written) != Some(digest) {
                let reason = format!(
                    "the entry of session {id:?} was changed, moved or damaged: its digest does not match"
                );
                return Err(reason.into());
            }
            texts.push(entry.get().to_owned());
        }
        self.counts.sessions += 1;
        self.counts.entries += count;
        let journal = Journal::read(texts.iter().map(String::as_str)).map_err(|error| {
            self.number = first + u64::try_from(error.entry).unwrap_or_default();
            error.reason
        })?;
        let Some(snapshot) = journal.snapshot() else {
            return Err(format!("session {id:?} has no entries").into());
        };
        if snapshot.id != *id {
            return Err(format!("the entries are those of session {:?}, not {id:?}", snapshot.id).into());
        }
        let (mut entries, mut blobs, mut bytes) = (Vec::with_capacity(texts.len()), Vec::new(), 0_u64);
        let (mut digest, mut addresses) = (Digest::default(), HashSet::new());
        for text in &texts {
            let encoded = record::encode(text);
            digest = Digest::of_entry(digest, id, &encoded.entry);
            entries.push(Entry { digest, data: encoded.entry });
            bytes = bytes.saturating_add(encoded.bytes);
            blobs.extend(encoded.blobs.into_iter().filter(|blob| addresses.insert(blob.address)));
        }
        let info = info_of(snapshot, journal.turns(), bytes);
        Ok(Replace { expected: None, entries, revision: count, blobs, info })
    }
}
