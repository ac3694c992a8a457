//! Bulk conversion: files, file objects and columns, with callbacks on the calling thread only.

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::prelude::*;
use pyo3::exceptions::{PyFileExistsError, PyOSError, PyTypeError, PyValueError};
use pyo3::types::{PyBytes, PyString};

use super::bulk_files::{Sink, Source};
use super::error::detail;
use super::options::choose;
use super::saved::SOURCES;
use crate::bridge::gil;
use crate::convert::json::{document_raw, text_or_bytes};
use crate::convert::text::text_of;
use crate::error::{OrRaise as _, ToException, build, class, value_error};
use crate::python_exception::Raised;
use crate::to_python::{ToPython, data_class};
use turntree_thread_protocol::bulk::{
    BulkError, DocumentIssue as CoreIssue, FilePair, Format, Observer, ObserverError, OnFailure, Options,
    Report as CoreReport, Settings, Task, files, format, lines, lines_to_file, open, size_of_file,
};
use turntree_thread_protocol::convert::pydantic_ai::ImportOptions;

data_class! {
    /// An error or a rule violation of one document; ``str()`` returns it as one line.
    DocumentIssue as "DocumentIssue" in "turntree.thread_protocol" over CoreIssue {
        /// The file, or None.
        path,
        /// The line of the file, from 1, or None.
        line,
        /// The row of the column, from 0, or None.
        row,
        /// JSON pointer into the document; empty for the whole document.
        pointer,
        /// The name of the rule, such as "json_truncated".
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

/// The error for a name that is not that of a format.
fn unknown_format(what: &str, name: &str, known: &[&'static str]) -> PyErr {
    PyValueError::new_err(format!("{what} must be one of {}, not \"{name}\"", known.join(", ")))
}

/// The format of a name, for writing.
fn target(name: &str) -> PyResult<&'static Format> {
    let format = format::named(name).filter(|format| format.write.is_some());
    format.ok_or_else(|| unknown_format("to", name, &format::writable()))
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
            Some(name) => Task::Convert(target(name)?),
            None => Task::Validate,
        };
        let profile = choose("profile", self.profile)?;
        let jobs = self.jobs.map(|jobs| {
            let refuse = || PyValueError::new_err("jobs must be at least 1, or None for one a core");
            NonZeroUsize::new(jobs).ok_or_else(refuse)
        });
        let import = ImportOptions { profile, ..ImportOptions::default() };
        let settings = Settings { import, sources: SOURCES, ..Settings::default() };
        let source = |name: &str| {
            settings.source(name).ok_or_else(|| unknown_format("from_", name, &settings.readable()))
        };
        let from = self.from_.map(source).transpose()?;
        Ok(Options { from, settings, jobs: jobs.transpose()?, ..Options::new(task) })
    }
}

/// What to do about documents that fail.
enum OnError {
    Always(OnFailure),
    Call(Py<PyAny>),
}

/// The callbacks of the caller. Runs on the calling thread.
pub(super) struct Callbacks {
    on_error: OnError,
    progress: Option<Py<PyAny>>,
}

impl Callbacks {
    /// Callbacks from arguments.
    ///
    /// # Errors
    /// `ValueError` or `TypeError` naming the argument.
    pub(super) fn new(on_error: &Bound<'_, PyAny>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let on_error = if let Ok(name) = on_error.cast::<PyString>() {
            OnError::Always(choose("on_error", text_of(name, "on_error")?)?)
        } else if on_error.is_callable() {
            OnError::Call(on_error.clone().unbind())
        } else {
            let message = "on_error must be \"raise\", \"skip\" or a function (issue, text)";
            return Err(PyTypeError::new_err(message));
        };
        if progress.is_some_and(|progress| !progress.is_callable()) {
            return Err(PyTypeError::new_err("progress must be None or a function of one Report"));
        }
        Ok(Self { on_error, progress: progress.map(|progress| progress.clone().unbind()) })
    }
}

/// Runs a callback of the caller. The conversion raises its exceptions unchanged.
pub(super) fn called<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, ObserverError> {
    let result =
        gil::if_held(|py| work(py).map_err(|error| Box::new(Raised::new(py, error)) as ObserverError));
    result.unwrap_or_else(|| Err("the interpreter is shutting down".into()))
}

impl Observer for Callbacks {
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
            OnError::Always(on_failure) => Ok(on_failure.clone()),
            OnError::Call(function) => called(|py| {
                let returned = function.bind(py).call1((error.to_python(py)?, PyBytes::new(py, text)))?;
                on_failure(&returned)
            }),
        }
    }
}

/// Interprets the return value of an `on_error` function.
fn on_failure(returned: &Bound<'_, PyAny>) -> PyResult<OnFailure> {
    if returned.is_none() {
        return Ok(OnFailure::Skip);
    }
    let bytes = match text_or_bytes(returned)? {
        Some(bytes) => bytes.into_owned(),
        None => document_raw(returned, "the answer of on_error")?.get().as_bytes().to_vec(),
    };
    if bytes.contains(&b'\n') {
        return Err(PyValueError::new_err(
            "the answer of on_error must be one line; write JSON without indent",
        ));
    }
    Ok(OnFailure::Replace(bytes))
}

/// The exception of a conversion that ended early. An exception of a callback or a file object is raised unchanged.
impl ToException for BulkError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Document(issue) => build(invalid(py, issue)),
            Self::Stopped(stop) => match stop.downcast_ref::<Raised>() {
                Some(raised) => raised.error(py),
                None => value_error(stop),
            },
            Self::Io { name, source } => {
                if let Some(raised) = source.get_ref().and_then(|inner| inner.downcast_ref::<Raised>()) {
                    return raised.error(py);
                }
                match source.raw_os_error() {
                    Some(number) => os_error(py, number, source, name),
                    None => PyOSError::new_err(format!("{name}: {source}")),
                }
            }
            Self::Exists { .. } => PyFileExistsError::new_err(self.to_string()),
            error => value_error(error),
        }
    }
}

/// The subclass of `OSError` for an error number.
fn os_error(py: Python<'_>, number: i32, source: &io::Error, name: &str) -> PyErr {
    let text = source.to_string();
    let reason = text.split(" (os error").next().unwrap_or_default();
    build(py.get_type::<PyOSError>().call1((number, reason, name)))
}

fn invalid<'py>(py: Python<'py>, issue: &CoreIssue) -> PyResult<Bound<'py, PyAny>> {
    let detail = detail(py, &issue.pointer, &issue.rule, &issue.message)?;
    class(py, "ValidationError")?.call1((issue.to_string(), [detail]))
}

/// Runs a conversion with the GIL released; callbacks take it back.
pub(super) fn released<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, BulkError> + Send,
) -> PyResult<T> {
    gil::mark_held(py, || py.detach(work)).or_raise(py)
}

/// Convert, or with ``to=None`` validate, the documents of one file or file object.
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
    options.framing = choose("framing", framing)?;
    options.gzip = gzip;
    options.durable = durable;
    // Names of files need not be UTF-8.
    options.name = name.map(|name| name.display().to_string());
    if let Some(max_bytes) = max_bytes {
        options.settings.import.limits.bytes = max_bytes;
    }
    let mut callbacks = Callbacks::new(on_error, progress)?;
    options.keeps_text = matches!(callbacks.on_error, OnError::Call(_));
    let mut reader: Box<dyn Read + Send> = match source.extract::<PathBuf>() {
        Ok(path) => {
            options.size = size_of_file(&path);
            py.detach(|| open(&path)).or_raise(py)?
        }
        Err(_) => Box::new(Source::new(source)?),
    };
    let report = if to.is_none() {
        released(py, || lines(&mut reader, &mut io::sink(), &options, &mut callbacks))?
    } else if let Ok(path) = target.extract::<PathBuf>() {
        released(py, || lines_to_file(&mut reader, &path, overwrite, &options, &mut callbacks))?
    } else {
        let mut sink = Sink::new(target)?;
        released(py, || lines(&mut reader, &mut sink, &options, &mut callbacks))?
    };
    report.to_python(py)
}

/// Convert, or with ``to=None`` validate, files of one document each.
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
    let mut callbacks = Callbacks::new(on_error, progress)?;
    released(py, || files(&pairs, &options, &mut callbacks))?.to_python(py)
}

/// Return the names of the formats that can be read, and of those that can be written.
#[pyfunction]
pub(super) fn _formats() -> (Vec<&'static str>, Vec<&'static str>) {
    (Settings { sources: SOURCES, ..Settings::default() }.readable(), format::writable())
}
