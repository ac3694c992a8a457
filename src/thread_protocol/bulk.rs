//! Bulk conversion: files, file objects and columns, with callbacks on the calling thread only.

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use pyo3::exceptions::{PyFileExistsError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::bulk_files::{Sink, Source};
use super::pydantic_ai::choose;
use crate::bridge::gil;
use crate::convert::json::document_raw;
use crate::python_exception::Raised;
use crate::to_python::{ToPython, data_class};
use turntree_thread_protocol::bulk::{
    BulkError, DocumentIssue as CoreIssue, FilePair, Format, Framing, Observer, ObserverError, OnFailure,
    Options, OutputFile, Report as CoreReport, Settings, Task, files, format, lines, open, size_of_file,
    sync_directory,
};
use turntree_thread_protocol::convert::pydantic_ai::{ImportOptions, ProfileKind};

data_class! {
    /// One document that could not be converted, or one rule that it breaks.
    DocumentIssue as "DocumentIssue" in "turntree.thread_protocol" over CoreIssue {
        /// The file, or None.
        path,
        /// The line of the file, from 1, or None.
        line,
        /// The row of the column, from 0, or None.
        row,
        /// Where in the document, as a JSON pointer; empty for the whole.
        pointer,
        /// The name of the rule.
        rule,
        /// Description of the problem and its remedy.
        message,
        /// `error` or `warning`.
        severity,
    }

    /// Place and message on one line.
    fn __str__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(Self::of(slf)?.to_string())
    }
}

data_class! {
    /// Statistics and errors of a bulk conversion.
    Report as "Report" in "turntree.thread_protocol" over CoreReport {
        /// Documents that were converted.
        documents,
        /// Documents that failed.
        failed,
        /// Bytes of all documents that were read, after decompression.
        bytes_in,
        /// Bytes of all documents that were written, before compression.
        bytes_out,
        /// The first thousand errors, in order.
        errors,
        /// Wall-clock time.
        seconds,
    }
}

/// The format of a name, for reading or for writing.
fn format_of(what: &str, name: &str, known: &[&'static str]) -> PyResult<&'static Format> {
    format::named(name).filter(|format| known.contains(&format.name)).ok_or_else(|| {
        PyValueError::new_err(format!("{what} must be one of {}, not \"{name}\"", known.join(", ")))
    })
}

/// The arguments that all conversions have.
pub(super) struct Arguments<'a> {
    pub(super) from_: Option<&'a str>,
    pub(super) to: Option<&'a str>,
    pub(super) jobs: Option<usize>,
    pub(super) profile: &'a str,
}

impl Arguments<'_> {
    /// What they mean.
    ///
    /// # Errors
    /// `ValueError` naming the argument.
    pub(super) fn options(&self) -> PyResult<Options> {
        let task = match self.to {
            Some(name) => Task::Convert(format_of("to", name, &format::writable())?),
            None => Task::Validate,
        };
        let profiles = [("full", ProfileKind::Full), ("portable", ProfileKind::Portable)];
        let import = ImportOptions {
            profile: choose("profile", self.profile, &profiles)?,
            ..ImportOptions::default()
        };
        let from = self.from_.map(|name| format_of("from_", name, &format::readable())).transpose()?;
        let jobs = match self.jobs.map(NonZeroUsize::new) {
            Some(None) => {
                return Err(PyValueError::new_err("jobs must be at least 1, or None for one a core"));
            }
            Some(jobs) => jobs,
            None => None,
        };
        let settings = Settings { import, ..Settings::default() };
        Ok(Options { from, settings, jobs, ..Options::new(task) })
    }
}

/// What to do about documents that fail.
enum OnError {
    Raise,
    Skip,
    Call(Py<PyAny>),
}

/// The callbacks of the caller. Runs on the calling thread.
pub(super) struct Watcher {
    on_error: OnError,
    progress: Option<Py<PyAny>>,
}

impl Watcher {
    /// Callbacks from arguments.
    ///
    /// # Errors
    /// `ValueError` or `TypeError` naming the argument.
    pub(super) fn new(on_error: &Bound<'_, PyAny>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let refuse =
            || PyTypeError::new_err("on_error must be \"raise\", \"skip\" or a function (issue, text)");
        let on_error = if let Ok(word) = on_error.cast::<PyString>() {
            let words = [("raise", false), ("skip", true)];
            if choose("on_error", word.to_str()?, &words)? { OnError::Skip } else { OnError::Raise }
        } else if on_error.is_callable() {
            OnError::Call(on_error.clone().unbind())
        } else {
            return Err(refuse());
        };
        let progress = progress.filter(|progress| !progress.is_none());
        if progress.is_some_and(|progress| !progress.is_callable()) {
            return Err(PyTypeError::new_err("progress must be None or a function of one Report"));
        }
        Ok(Self { on_error, progress: progress.map(|progress| progress.clone().unbind()) })
    }

    fn calls(&self) -> bool {
        matches!(self.on_error, OnError::Call(_))
    }
}

/// Runs a callback of the caller. The conversion raises its exceptions unchanged.
pub(super) fn called<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, ObserverError> {
    let held = gil::if_held(|py| work(py).map_err(|error| Box::new(Raised::new(py, error)) as ObserverError));
    held.unwrap_or_else(|| Err("the interpreter is shutting down".into()))
}

impl Observer for Watcher {
    fn tick(&mut self, so_far: &CoreReport) -> Result<(), ObserverError> {
        called(|py| {
            py.check_signals()?;
            match &self.progress {
                Some(progress) => progress.call1(py, (so_far.to_python(py)?,)).map(drop),
                None => Ok(()),
            }
        })
    }

    fn failed(&mut self, error: &CoreIssue, text: &[u8]) -> Result<OnFailure, ObserverError> {
        match &self.on_error {
            OnError::Raise => Ok(OnFailure::Stop),
            OnError::Skip => Ok(OnFailure::Skip),
            OnError::Call(function) => called(|py| {
                let answer = function.bind(py).call1((error.to_python(py)?, PyBytes::new(py, text)))?;
                verdict(&answer)
            }),
        }
    }
}

/// Interprets the return value of an `on_error` function.
fn verdict(answer: &Bound<'_, PyAny>) -> PyResult<OnFailure> {
    if answer.is_none() {
        return Ok(OnFailure::Skip);
    }
    let bytes = if let Ok(text) = answer.cast::<PyString>() {
        text.to_str()?.as_bytes().to_vec()
    } else if let Ok(bytes) = answer.cast::<PyBytes>() {
        bytes.as_bytes().to_vec()
    } else {
        document_raw(answer, "the answer of on_error")?.get().as_bytes().to_vec()
    };
    if bytes.contains(&b'\n') {
        return Err(PyValueError::new_err(
            "the answer of on_error must be one line; write JSON without indent",
        ));
    }
    Ok(OnFailure::Replace(bytes))
}

/// The exception of a conversion that ended early.
pub(super) fn raised(py: Python<'_>, error: BulkError) -> PyErr {
    match error {
        BulkError::Document(issue) => invalid(py, &issue).map_or_else(|error| error, PyErr::from_value),
        BulkError::Stopped(stop) => match stop.downcast_ref::<Raised>() {
            Some(raised) => raised.error(py),
            None => PyValueError::new_err(stop.to_string()),
        },
        BulkError::Io { name, source } => {
            if let Some(raised) = source.get_ref().and_then(|inner| inner.downcast_ref::<Raised>()) {
                return raised.error(py);
            }
            match source.raw_os_error() {
                // The subclass follows from the number.
                Some(number) => os_error(py, number, &source, &name),
                None => PyOSError::new_err(format!("{name}: {source}")),
            }
        }
        error @ BulkError::Exists { .. } => PyFileExistsError::new_err(error.to_string()),
        error => PyValueError::new_err(error.to_string()),
    }
}

fn os_error(py: Python<'_>, number: i32, source: &io::Error, name: &str) -> PyErr {
    let text = source.to_string();
    let words = text.split(" (os error").next().unwrap_or_default().to_owned();
    let exception = py.get_type::<PyOSError>().call1((number, words, name));
    exception.map_or_else(|error| error, PyErr::from_value)
}

fn invalid<'py>(py: Python<'py>, issue: &CoreIssue) -> PyResult<Bound<'py, PyAny>> {
    let detail = PyDict::new(py);
    detail.set_item("loc", super::error::location(py, &issue.pointer)?)?;
    detail.set_item("pointer", &issue.pointer)?;
    detail.set_item("type", &issue.rule)?;
    detail.set_item("msg", &issue.message)?;
    detail.set_item("input", py.None())?;
    let class = py.import("turntree.exceptions")?.getattr("ValidationError")?;
    class.call1((issue.to_string(), PyList::new(py, [detail])?))
}

/// Runs a conversion with the GIL released; callbacks take it back.
pub(super) fn released<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, BulkError> + Send,
) -> PyResult<T> {
    gil::mark_held(py, || py.detach(work)).map_err(|error| raised(py, error))
}

/// Converts, or with `to=None` validates, the documents of one file or file object.
#[pyfunction]
#[pyo3(signature = (
    source, target, *, from_, to, jobs, on_error, progress, profile, framing, gzip, overwrite, durable, name,
    max_bytes
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(super) fn _convert_lines<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    from_: Option<&str>,
    to: Option<&str>,
    jobs: Option<usize>,
    on_error: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
    profile: &str,
    framing: &str,
    gzip: bool,
    overwrite: bool,
    durable: bool,
    name: Option<PathBuf>,
    max_bytes: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut options = Arguments { from_, to, jobs, profile }.options()?;
    let framings = [("lines", Framing::Lines), ("whole", Framing::Whole), ("auto", Framing::Auto)];
    options.framing = choose("framing", framing, &framings)?;
    options.gzip = gzip;
    // Names of files need not be UTF-8.
    options.name = name.map(|name| name.display().to_string());
    if let Some(max_bytes) = max_bytes {
        options.settings.import.limits.bytes = max_bytes;
    }
    let mut watcher = Watcher::new(on_error, progress)?;
    options.keeps_text = watcher.calls();
    let mut reader: Box<dyn Read + Send> = match source.extract::<PathBuf>() {
        Ok(path) => {
            options.size = size_of_file(&path);
            py.detach(|| open(&path)).map_err(|error| raised(py, error))?
        }
        Err(_) => Box::new(Source::new(source)?),
    };
    let report = if to.is_none() {
        released(py, || lines(&mut reader, &mut io::sink(), &options, &mut watcher))?
    } else if let Ok(path) = target.extract::<PathBuf>() {
        options.output = Some(path.display().to_string());
        released(py, || {
            let mut file = OutputFile::create(&path, overwrite)?;
            if durable {
                file.sync_behind();
            }
            let report = lines(&mut reader, &mut file, &options, &mut watcher)?;
            file.finish(durable)?;
            if durable {
                sync_directory(&path)?;
            }
            Ok(report)
        })?
    } else {
        let mut sink = Sink::new(target)?;
        released(py, || lines(&mut reader, &mut sink, &options, &mut watcher))?
    };
    report.to_python(py)
}

/// Converts, or with `to=None` validates, files of one document each: `(source, target, overwrite, gzip)`.
#[pyfunction]
#[pyo3(signature = (pairs, *, from_, to, jobs, on_error, progress, profile, durable))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(super) fn _convert_files<'py>(
    py: Python<'py>,
    pairs: Vec<(PathBuf, PathBuf, bool, bool)>,
    from_: Option<&str>,
    to: Option<&str>,
    jobs: Option<usize>,
    on_error: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
    profile: &str,
    durable: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options { durable, ..Arguments { from_, to, jobs, profile }.options()? };
    let pairs: Vec<_> = pairs
        .into_iter()
        .map(|(source, target, overwrite, gzip)| FilePair { source, target, overwrite, gzip })
        .collect();
    let mut watcher = Watcher::new(on_error, progress)?;
    released(py, || files(&pairs, &options, &mut watcher))?.to_python(py)
}

/// The names of the formats that can be read, and of those that can be written.
#[pyfunction]
pub(super) fn _formats() -> (Vec<&'static str>, Vec<&'static str>) {
    (format::readable(), format::writable())
}
