//! Pictures, documents, sounds and films as Python classes: blocks of messages with the helpers of UPP-1.2 §8.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{
    PyFileNotFoundError, PyIsADirectoryError, PyOSError, PyPermissionError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::bridge::coroutine::Coroutine;
use super::bridge::gc::GcRoots;
use super::bridge::gil;
use super::content::{binary, block_from, source};
use super::convert::json::{limits, to_raw};
use super::data::DataClass;
use super::to_python::{ToPython, data_class};
use turntree_core::message::content::{
    AudioBlock, ContentBlock, DocumentBlock, DocumentSource, ImageBlock, ImageSource, VideoBlock,
};
use turntree_core::message::files::MediaError;
use turntree_core::message::media::Binary;
use turntree_core::runtime;

data_class! {
    /// A picture. UPP-1.2 §3 and §8.
    Image as "Image" in "turntree.upp" over ImageBlock {
        /// The media type, as `image/png`.
        mime_type,
        /// Pixels across, where known.
        width,
        /// Pixels down, where known.
        height,
    }

    #[new]
    #[pyo3(signature = (source, mime_type, width = None, height = None))]
    fn new(
        source: &Bound<'_, PyAny>,
        mime_type: String,
        width: Option<u32>,
        height: Option<u32>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let source: ImageSource = source_from(source, &["base64", "url", "bytes"])?;
        Ok(Self::holding(ImageBlock { width, height, ..ImageBlock::new(source, mime_type) }))
    }

    /// Reads a picture from a file; the extension tells the media type, else the first bytes do.
    #[classmethod]
    fn from_path(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, py.detach(move || ImageBlock::from_path(&path)))
    }

    /// As `from_path`, without keeping the event loop waiting.
    #[classmethod]
    fn from_path_async(_class: &Bound<'_, PyType>, path: PathBuf) -> Coroutine {
        reading::<Self>(move || ImageBlock::from_path(&path))
    }

    /// Refers to a picture that somebody serves; the extension tells the media type if it is not given. The data of a
    /// `data:` URL is taken out of it.
    #[classmethod]
    #[pyo3(signature = (url, mime_type = None))]
    fn from_url(_class: &Bound<'_, PyType>, py: Python<'_>, url: String, mime_type: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, ImageBlock::from_url(url, mime_type))
    }

    /// Takes a picture that is in memory.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(ImageBlock::from_bytes(binary(data, "data")?, mime_type)))
    }

    /// Takes a picture that is base64 text.
    #[classmethod]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: String, mime_type: String) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, ImageBlock::from_base64(data, mime_type))
    }

    /// Takes a block, as it stands in messages: an `Image`, or a dict with `"type": "image"`.
    #[classmethod]
    fn from_block(_class: &Bound<'_, PyType>, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match block_from(block, "block")? {
            ContentBlock::Image(block) => Self::wrap(py, Arc::new(block)),
            other => Err(wrong_block("image", &other)),
        }
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "image";

    /// Whether the data is here, not at a URL.
    #[getter]
    fn has_data(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(Self::of(slf)?.has_data())
    }

    /// The source as a dict: base64, url or bytes.
    #[getter]
    fn source<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        source(slf.py(), &Self::of(slf)?.source)
    }

    /// The data as base64 text; `ValueError` for an image at a URL.
    fn to_base64(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_base64().map_err(raised)
    }

    /// The data; `ValueError` for an image at a URL.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::of(slf)?.to_bytes().map_err(raised)?.to_python(slf.py())
    }

    /// The data as a `data:` URL; `ValueError` for an image at a URL.
    fn to_data_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_data_url().map_err(raised)
    }

    /// The URL; `ValueError` for an image that has none.
    fn to_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_url().map(str::to_owned).map_err(raised)
    }

    /// The block that stands in messages: itself.
    fn to_block(slf: Py<Self>) -> Py<Self> {
        slf
    }
}

data_class! {
    /// A document: PDF or plain text. UPP-1.2 §3 and §8.
    Document as "Document" in "turntree.upp" over DocumentBlock {
        /// The media type: `application/pdf` or `text/plain`.
        mime_type,
        /// Its title, shown to the model.
        title,
    }

    #[new]
    #[pyo3(signature = (source, mime_type, title = None))]
    fn new(source: &Bound<'_, PyAny>, mime_type: String, title: Option<String>) -> PyResult<PyClassInitializer<Self>> {
        let source: DocumentSource = source_from(source, &["base64", "url", "text"])?;
        Ok(Self::holding(DocumentBlock::new(source, mime_type, title)))
    }

    /// Reads a document from a file; its data is base64, also that of a text.
    #[classmethod]
    #[pyo3(signature = (path, title = None))]
    fn from_path(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, py.detach(move || DocumentBlock::from_path(&path, title)))
    }

    /// As `from_path`, without keeping the event loop waiting.
    #[classmethod]
    #[pyo3(signature = (path, title = None))]
    fn from_path_async(_class: &Bound<'_, PyType>, path: PathBuf, title: Option<String>) -> Coroutine {
        reading::<Self>(move || DocumentBlock::from_path(&path, title))
    }

    /// Refers to a PDF that somebody serves over http or https. The data of a `data:` URL is taken out of it.
    #[classmethod]
    #[pyo3(signature = (url, title = None))]
    fn from_url(_class: &Bound<'_, PyType>, py: Python<'_>, url: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, DocumentBlock::from_url(url, title))
    }

    /// Takes a document that is plain text.
    #[classmethod]
    #[pyo3(signature = (text, title = None))]
    fn from_text(_class: &Bound<'_, PyType>, py: Python<'_>, text: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(DocumentBlock::from_text(text, title)))
    }

    /// Takes a document that is base64 text.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, title = None))]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: String, mime_type: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, DocumentBlock::from_base64(data, mime_type, title))
    }

    /// Takes a document that is in memory.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, title = None))]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(DocumentBlock::from_bytes(&binary(data, "data")?, mime_type, title)))
    }

    /// Takes a block, as it stands in messages: a `Document`, or a dict with `"type": "document"`.
    #[classmethod]
    fn from_block(_class: &Bound<'_, PyType>, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match block_from(block, "block")? {
            ContentBlock::Document(block) => Self::wrap(py, Arc::new(block)),
            other => Err(wrong_block("document", &other)),
        }
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "document";

    /// Whether the data is here, not at a URL.
    #[getter]
    fn has_data(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(Self::of(slf)?.has_data())
    }

    /// The source as a dict: base64, url or text.
    #[getter]
    fn source<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        source(slf.py(), &Self::of(slf)?.source)
    }

    /// Whether it is a PDF.
    #[getter]
    fn is_pdf(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(Self::of(slf)?.is_pdf())
    }

    /// Whether it is plain text.
    #[getter]
    fn is_text(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(Self::of(slf)?.is_text())
    }

    /// The data as base64 text; `ValueError` for a document that is text, or at a URL.
    fn to_base64(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_base64().map(str::to_owned).map_err(raised)
    }

    /// The data, a text as UTF-8; `ValueError` for a document at a URL.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::of(slf)?.to_bytes().map_err(raised)?.to_python(slf.py())
    }

    /// The text; `ValueError` for a document that was not given as text.
    fn to_text(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_text().map(str::to_owned).map_err(raised)
    }

    /// The URL; `ValueError` for a document that has none.
    fn to_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_url().map(str::to_owned).map_err(raised)
    }

    /// The block that stands in messages: itself.
    fn to_block(slf: Py<Self>) -> Py<Self> {
        slf
    }
}

data_class! {
    /// A sound. UPP-1.2 §3 and §8.
    Audio as "Audio" in "turntree.upp" over AudioBlock {
        /// The file's bytes.
        data,
        /// The media type, as `audio/wav`.
        mime_type,
        /// Length in seconds, where known.
        duration,
    }

    #[new]
    #[pyo3(signature = (data, mime_type, duration = None))]
    fn new(data: &Bound<'_, PyAny>, mime_type: String, duration: Option<f64>) -> PyResult<PyClassInitializer<Self>> {
        Ok(Self::holding(AudioBlock::new(binary(data, "data")?, mime_type, duration)))
    }

    /// Reads a sound from a file; the extension tells the media type, else the first bytes do.
    #[classmethod]
    #[pyo3(signature = (path, duration = None))]
    fn from_path(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf, duration: Option<f64>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, py.detach(move || AudioBlock::from_path(&path, duration)))
    }

    /// As `from_path`, without keeping the event loop waiting.
    #[classmethod]
    #[pyo3(signature = (path, duration = None))]
    fn from_path_async(_class: &Bound<'_, PyType>, path: PathBuf, duration: Option<f64>) -> Coroutine {
        reading::<Self>(move || AudioBlock::from_path(&path, duration))
    }

    /// Takes a sound that is in memory.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, duration = None))]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String, duration: Option<f64>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(AudioBlock::new(binary(data, "data")?, mime_type, duration)))
    }

    /// Takes a sound that is base64 text.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, duration = None))]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: &str, mime_type: String, duration: Option<f64>) -> PyResult<Py<PyAny>> {
        let data = Binary::from_base64(data).map_err(MediaError::from);
        wrap::<Self>(py, data.map(|data| AudioBlock::new(data, mime_type, duration)))
    }

    /// Takes a block, as it stands in messages: an `Audio`, or a dict with `"type": "audio"`.
    #[classmethod]
    fn from_block(_class: &Bound<'_, PyType>, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match block_from(block, "block")? {
            ContentBlock::Audio(block) => Self::wrap(py, Arc::new(block)),
            other => Err(wrong_block("audio", &other)),
        }
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "audio";

    /// How many bytes.
    #[getter]
    fn size(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Ok(Self::of(slf)?.data.as_slice().len())
    }

    /// The data as base64 text.
    fn to_base64(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(Self::of(slf)?.data.to_base64())
    }

    /// The data as a `data:` URL.
    fn to_data_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(Self::of(slf)?.to_data_url())
    }

    /// The data.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::of(slf)?.data.to_python(slf.py())
    }

    /// The block that stands in messages: itself.
    fn to_block(slf: Py<Self>) -> Py<Self> {
        slf
    }
}

data_class! {
    /// A film. UPP-1.2 §3 and §8.
    Video as "Video" in "turntree.upp" over VideoBlock {
        /// The file's bytes.
        data,
        /// The media type, as `video/mp4`.
        mime_type,
        /// Length in seconds, where known.
        duration,
        /// Pixels across, where known.
        width,
        /// Pixels down, where known.
        height,
    }

    #[new]
    #[pyo3(signature = (data, mime_type, *, duration = None, width = None, height = None))]
    fn new(
        data: &Bound<'_, PyAny>,
        mime_type: String,
        duration: Option<f64>,
        width: Option<u32>,
        height: Option<u32>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let block = VideoBlock::new(binary(data, "data")?, mime_type);
        Ok(Self::holding(VideoBlock { duration, width, height, ..block }))
    }

    /// Reads a film from a file; the extension tells the media type, else the first bytes do.
    #[classmethod]
    #[pyo3(signature = (path, *, duration = None, width = None, height = None))]
    fn from_path(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: PathBuf,
        duration: Option<f64>,
        width: Option<u32>,
        height: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let block = py.detach(move || VideoBlock::from_path(&path));
        wrap::<Self>(py, block.map(|block| VideoBlock { duration, width, height, ..block }))
    }

    /// As `from_path`, without keeping the event loop waiting.
    #[classmethod]
    #[pyo3(signature = (path, *, duration = None, width = None, height = None))]
    fn from_path_async(
        _class: &Bound<'_, PyType>,
        path: PathBuf,
        duration: Option<f64>,
        width: Option<u32>,
        height: Option<u32>,
    ) -> Coroutine {
        reading::<Self>(move || {
            VideoBlock::from_path(&path).map(|block| VideoBlock { duration, width, height, ..block })
        })
    }

    /// Takes a film that is in memory.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, *, duration = None, width = None, height = None))]
    fn from_bytes(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        mime_type: String,
        duration: Option<f64>,
        width: Option<u32>,
        height: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let block = VideoBlock::new(binary(data, "data")?, mime_type);
        wrap::<Self>(py, Ok(VideoBlock { duration, width, height, ..block }))
    }

    /// Takes a film that is base64 text.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, *, duration = None, width = None, height = None))]
    fn from_base64(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        data: &str,
        mime_type: String,
        duration: Option<f64>,
        width: Option<u32>,
        height: Option<u32>,
    ) -> PyResult<Py<PyAny>> {
        let data = Binary::from_base64(data).map_err(MediaError::from);
        wrap::<Self>(py, data.map(|data| VideoBlock { duration, width, height, ..VideoBlock::new(data, mime_type) }))
    }

    /// Takes a block, as it stands in messages: a `Video`, or a dict with `"type": "video"`.
    #[classmethod]
    fn from_block(_class: &Bound<'_, PyType>, py: Python<'_>, block: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        match block_from(block, "block")? {
            ContentBlock::Video(block) => Self::wrap(py, Arc::new(block)),
            other => Err(wrong_block("video", &other)),
        }
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "video";

    /// How many bytes.
    #[getter]
    fn size(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Ok(Self::of(slf)?.data.as_slice().len())
    }

    /// The data as base64 text.
    fn to_base64(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(Self::of(slf)?.data.to_base64())
    }

    /// The data as a `data:` URL.
    fn to_data_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(Self::of(slf)?.to_data_url())
    }

    /// The data.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::of(slf)?.data.to_python(slf.py())
    }

    /// The block that stands in messages: itself.
    fn to_block(slf: Py<Self>) -> Py<Self> {
        slf
    }
}

fn wrap<C: DataClass>(py: Python<'_>, block: Result<C::Value, MediaError>) -> PyResult<Py<PyAny>> {
    C::wrap(py, Arc::new(block.map_err(raised)?))
}

/// Reads in a thread that is kept for blocking work.
fn reading<C: DataClass>(read: impl FnOnce() -> Result<C::Value, MediaError> + Send + 'static) -> Coroutine {
    let task = runtime::spawn_blocking(read);
    Coroutine::new("from_path_async", GcRoots::default(), async move {
        let read = task.await;
        gil::require_held(|py| wrap::<C>(py, read.map_err(|error| PyOSError::new_err(error.to_string()))?))
    })
}

/// The exception Python's own functions raise where there is one.
fn raised(error: MediaError) -> PyErr {
    let message = error.to_string();
    match error {
        MediaError::NotAFile { is_directory: true, .. } => PyIsADirectoryError::new_err(message),
        MediaError::Unreadable { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => PyFileNotFoundError::new_err(message),
            std::io::ErrorKind::PermissionDenied => PyPermissionError::new_err(message),
            _ => PyOSError::new_err(message),
        },
        _ => PyValueError::new_err(message),
    }
}

fn wrong_block(expected: &str, found: &ContentBlock) -> PyErr {
    PyTypeError::new_err(format!("block must be of type {expected}, not {}", found.kind()))
}

/// A source from the dict of the specification.
fn source_from<T: serde::de::DeserializeOwned>(value: &Bound<'_, PyAny>, kinds: &[&str]) -> PyResult<T> {
    let kind = value.cast::<PyDict>().ok().and_then(|dict| dict.get_item("type").ok().flatten());
    let kind = kind.and_then(|kind| kind.extract::<String>().ok()).unwrap_or_default();
    if !kinds.contains(&kind.as_str()) {
        let message = format!("source must be a dict whose \"type\" is one of {}", kinds.join(", "));
        return Err(PyTypeError::new_err(message));
    }
    let raw = to_raw(value, "source")?;
    turntree_core::json::parse(raw.get(), &limits())
        .map_err(|error| crate::convert::error::argument(value.py(), &error, "source", raw.get()))
}
