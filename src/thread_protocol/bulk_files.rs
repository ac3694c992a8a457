//! File objects of Python that are read and written, and files that Python writes whole or not at all.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::{PyByteArray, PyBytes};

use super::bulk::called;
use crate::error::OrRaise as _;
use turntree_thread_protocol::bulk::OutputFile;

/// A binary file object that is read.
pub(super) struct Source(Py<PyAny>);

impl Source {
    pub(super) fn new(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        // `read1` returns the available bytes; `read` of a pipe waits for the requested number.
        let method = file.getattr("read1").or_else(|_| file.getattr("read"));
        method.map(|method| Self(method.unbind())).map_err(|_| {
            PyTypeError::new_err("source must be a path or a binary file object with a read method")
        })
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        called(|py| {
            // A signal that arrived while Rust was running does not interrupt the read: check before it may wait.
            py.check_signals()?;
            let answer = self.0.bind(py).call1((buffer.len(),))?;
            let wrong = || {
                let found = answer.get_type().name().map(|name| name.to_string()).unwrap_or_default();
                PyTypeError::new_err(format!(
                    "source.read returned {found}, not bytes; open the file in binary mode"
                ))
            };
            let mut copied = |bytes: &[u8]| {
                let target = buffer
                    .get_mut(..bytes.len())
                    .ok_or_else(|| PyValueError::new_err("source.read returned more bytes than requested"))?;
                target.copy_from_slice(bytes);
                Ok(bytes.len())
            };
            if let Ok(bytes) = answer.cast::<PyBytes>() {
                return copied(bytes.as_bytes());
            }
            copied(&answer.cast::<PyByteArray>().map_err(|_| wrong())?.to_vec())
        })
        .map_err(io::Error::other)
    }
}

/// A binary file object that is written.
pub(super) struct Sink(Py<PyAny>);

impl Sink {
    pub(super) fn new(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        if file.hasattr("write")? {
            return Ok(Self(file.clone().unbind()));
        }
        Err(PyTypeError::new_err("target must be a path or a binary file object with a write method"))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        called(|py| {
            let answer = self.0.bind(py).call_method1("write", (PyBytes::new(py, bytes),))?;
            // A raw file may write fewer bytes and returns their number; a buffered one may return None.
            Ok(answer.extract::<usize>().unwrap_or(bytes.len()).min(bytes.len()))
        })
        .map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        called(|py| {
            let file = self.0.bind(py);
            if file.hasattr("flush")? { file.call_method0("flush").map(drop) } else { Ok(()) }
        })
        .map_err(io::Error::other)
    }
}

/// A file that writers in Python write: under a temporary name until it is complete.
#[pyclass(frozen, name = "_UnfinishedFile", module = "turntree._core")]
pub(super) struct UnfinishedFile {
    output: Mutex<Option<OutputFile>>,
    place: PathBuf,
}

#[pymethods]
impl UnfinishedFile {
    #[new]
    fn new(py: Python<'_>, target: PathBuf, overwrite: bool) -> PyResult<Self> {
        let output = py.detach(move || OutputFile::create(&target, overwrite)).or_raise(py)?;
        let place = output.place().to_owned();
        Ok(Self { output: Mutex::new(Some(output)), place })
    }

    /// The path to open and write to.
    #[getter]
    fn place(&self) -> PathBuf {
        self.place.clone()
    }

    /// Rename the file to its target; with `durable`, after it is synced to disk.
    fn finish(&self, py: Python<'_>, durable: bool) -> PyResult<()> {
        let Some(output) = self.take() else { return Ok(()) };
        py.detach(|| output.finish_with_name(durable)).or_raise(py)
    }

    /// Remove the temporary file, unless it was renamed.
    fn discard(&self) {
        drop(self.take());
    }
}

impl UnfinishedFile {
    fn take(&self) -> Option<OutputFile> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
