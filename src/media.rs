//! Images, documents, audio and video as Python classes: content blocks with helpers for files, bytes and base64.
//!
//! Spec: UPP-1.2 §3, §8.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::bridge::coroutine::Coroutine;
use super::bridge::gc::GcRoots;
use super::bridge::gil;
use super::content::{binary, block_from, source};
use super::convert::json::{limits, to_raw};
use super::data::DataClass;
use super::to_python::{ToPython, data_class};
use crate::error::OrRaise as _;
use turntree_core::message::content::{
    AudioBlock, ContentBlock, DocumentBlock, DocumentSource, ImageBlock, ImageSource, VideoBlock,
};
use turntree_core::message::files::MediaError;
use turntree_core::message::media::Binary;
use turntree_core::runtime;

/// The methods that all four classes share: reading a file, and the block in messages.
macro_rules! media_methods {
    (
        $class:ident, $kind:literal, $variant:ident;
        fn from_path($($signature:tt)*)($($argument:ident: $type:ty),+) $read:block
    ) => {
        #[pymethods]
        impl $class {
            #[classattr]
            #[pyo3(name = "type")]
            const KIND: &'static str = $kind;

            /// Reads a file. The extension decides the media type, or the first bytes if it is unknown.
            #[classmethod]
            #[pyo3(signature = ($($signature)*))]
            fn from_path(
                _class: &Bound<'_, PyType>,
                py: Python<'_>,
                $($argument: $type),+
            ) -> PyResult<Py<PyAny>> {
                wrap::<Self>(py, py.detach(move || $read))
            }

            /// As `from_path`, in a thread: the event loop goes on.
            #[classmethod]
            #[pyo3(signature = ($($signature)*))]
            fn from_path_async(_class: &Bound<'_, PyType>, $($argument: $type),+) -> Coroutine {
                reading::<Self>(move || $read)
            }

            #[doc = concat!("Takes a content block: an instance of this class, or a dict with `\"type\": \"", $kind, "\"`.")]
            #[classmethod]
            fn from_block(
                _class: &Bound<'_, PyType>,
                py: Python<'_>,
                block: &Bound<'_, PyAny>,
            ) -> PyResult<Py<PyAny>> {
                match block_from(block, "block")? {
                    ContentBlock::$variant(block) => Self::wrap(py, Arc::new(block)),
                    other => Err(wrong_block($kind, &other)),
                }
            }

            /// The content block for a message: this object.
            fn to_block(slf: Py<Self>) -> Py<Self> {
                slf
            }
        }
    };
}

/// The methods of classes whose data may be at a URL.
macro_rules! source_methods {
    ($($class:ident),+) => {$(
        #[pymethods]
        impl $class {
            /// Whether the data is in the block, not at a URL.
            #[getter]
            fn has_data(slf: &Bound<'_, Self>) -> PyResult<bool> {
                Ok(Self::of(slf)?.has_data())
            }

            /// The source as a dict, by the specification's names.
            #[getter]
            fn source<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                source(slf.py(), &Self::of(slf)?.source)
            }

            /// The data as base64 text. Raises `ValueError` if the source is a URL or plain text.
            fn to_base64(slf: &Bound<'_, Self>) -> PyResult<String> {
                Self::of(slf)?.to_base64().map(Into::into).or_raise(slf.py())
            }

            /// The data, plain text as UTF-8. Raises `ValueError` if the source is a URL.
            fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                Self::of(slf)?.to_bytes().or_raise(slf.py())?.to_python(slf.py())
            }

            /// The URL. Raises `ValueError` if the source is not a URL.
            fn to_url(slf: &Bound<'_, Self>) -> PyResult<String> {
                Self::of(slf)?.to_url().map(str::to_owned).or_raise(slf.py())
            }
        }
    )+};
}

/// The methods of classes that always hold their data.
macro_rules! binary_methods {
    ($($class:ident),+) => {$(
        #[pymethods]
        impl $class {
            /// Size of the data in bytes.
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
        }
    )+};
}

data_class! {
    /// An image.
    ///
    /// Spec: UPP-1.2 §3, §8.
    Image as "Image" in "turntree.upp" over ImageBlock {
        /// The media type, such as `image/png`.
        mime_type,
        /// Width in pixels, or None.
        width,
        /// Height in pixels, or None.
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

    /// Refers to an image at a URL. The extension decides the media type if it is not given. A `data:` URL is decoded.
    #[classmethod]
    #[pyo3(signature = (url, mime_type = None))]
    fn from_url(_class: &Bound<'_, PyType>, py: Python<'_>, url: String, mime_type: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, ImageBlock::from_url(url, mime_type))
    }

    /// Takes the bytes of an image.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(ImageBlock::from_bytes(binary(data, "data")?, mime_type)))
    }

    /// Takes an image as base64 text.
    #[classmethod]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: String, mime_type: String) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, ImageBlock::from_base64(data, mime_type))
    }

    /// The data as a `data:` URL. Raises `ValueError` if the source is a URL.
    fn to_data_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_data_url().or_raise(slf.py())
    }
}

media_methods! {
    Image, "image", Image;
    fn from_path(path)(path: PathBuf) { ImageBlock::from_path(&path) }
}
source_methods!(Image, Document);

data_class! {
    /// A document: PDF or plain text.
    ///
    /// Spec: UPP-1.2 §3, §8.
    Document as "Document" in "turntree.upp" over DocumentBlock {
        /// The media type: `application/pdf` or `text/plain`.
        mime_type,
        /// The title that the model sees, or None.
        title,
    }

    #[new]
    #[pyo3(signature = (source, mime_type, title = None))]
    fn new(source: &Bound<'_, PyAny>, mime_type: String, title: Option<String>) -> PyResult<PyClassInitializer<Self>> {
        let source: DocumentSource = source_from(source, &["base64", "url", "text"])?;
        Ok(Self::holding(DocumentBlock::new(source, mime_type, title)))
    }

    /// Refers to a PDF at an http or https URL. A `data:` URL is decoded.
    #[classmethod]
    #[pyo3(signature = (url, title = None))]
    fn from_url(_class: &Bound<'_, PyType>, py: Python<'_>, url: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, DocumentBlock::from_url(url, title))
    }

    /// Takes a plain text.
    #[classmethod]
    #[pyo3(signature = (text, title = None))]
    fn from_text(_class: &Bound<'_, PyType>, py: Python<'_>, text: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(DocumentBlock::from_text(text, title)))
    }

    /// Takes a document as base64 text.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, title = None))]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: String, mime_type: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, DocumentBlock::from_base64(data, mime_type, title))
    }

    /// Takes the bytes of a document.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, title = None))]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(DocumentBlock::from_bytes(&binary(data, "data")?, mime_type, title)))
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

    /// The text. Raises `ValueError` if the source is not plain text.
    fn to_text(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_text().map(str::to_owned).or_raise(slf.py())
    }
}

media_methods! {
    Document, "document", Document;
    fn from_path(path, title = None)(path: PathBuf, title: Option<String>) { DocumentBlock::from_path(&path, title) }
}

data_class! {
    /// An audio recording.
    ///
    /// Spec: UPP-1.2 §3, §8.
    Audio as "Audio" in "turntree.upp" over AudioBlock {
        /// The bytes of the file.
        data,
        /// The media type, such as `audio/wav`.
        mime_type,
        /// Length in seconds, or None.
        duration,
    }

    #[new]
    #[pyo3(signature = (data, mime_type, duration = None))]
    fn new(data: &Bound<'_, PyAny>, mime_type: String, duration: Option<f64>) -> PyResult<PyClassInitializer<Self>> {
        Ok(Self::holding(AudioBlock::new(binary(data, "data")?, mime_type, duration)))
    }

    /// Takes the bytes of an audio file.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, duration = None))]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String, duration: Option<f64>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(AudioBlock::new(binary(data, "data")?, mime_type, duration)))
    }

    /// Takes an audio file as base64 text.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, duration = None))]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: &str, mime_type: String, duration: Option<f64>) -> PyResult<Py<PyAny>> {
        let data = Binary::from_base64(data).map_err(MediaError::from);
        wrap::<Self>(py, data.map(|data| AudioBlock::new(data, mime_type, duration)))
    }
}

media_methods! {
    Audio, "audio", Audio;
    fn from_path(path, duration = None)(path: PathBuf, duration: Option<f64>) { AudioBlock::from_path(&path, duration) }
}
binary_methods!(Audio, Video);

data_class! {
    /// A video.
    ///
    /// Spec: UPP-1.2 §3, §8.
    Video as "Video" in "turntree.upp" over VideoBlock {
        /// The bytes of the file.
        data,
        /// The media type, such as `video/mp4`.
        mime_type,
        /// Length in seconds, or None.
        duration,
        /// Width in pixels, or None.
        width,
        /// Height in pixels, or None.
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

    /// Takes the bytes of a video file.
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

    /// Takes a video file as base64 text.
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
}

media_methods! {
    Video, "video", Video;
    fn from_path(path, *, duration = None, width = None, height = None)(
        path: PathBuf, duration: Option<f64>, width: Option<u32>, height: Option<u32>
    ) {
        VideoBlock::from_path(&path).map(|block| VideoBlock { duration, width, height, ..block })
    }
}

fn wrap<C: DataClass>(py: Python<'_>, block: Result<C::Value, MediaError>) -> PyResult<Py<PyAny>> {
    C::wrap(py, Arc::new(block.or_raise(py)?))
}

/// Reads a file in a thread for blocking work.
fn reading<C: DataClass>(read: impl FnOnce() -> Result<C::Value, MediaError> + Send + 'static) -> Coroutine {
    let task = runtime::spawn_blocking(read);
    Coroutine::new("from_path_async", GcRoots::default(), async move {
        let read = task.await;
        gil::require_held(|py| wrap::<C>(py, read.map_err(|error| PyOSError::new_err(error.to_string()))?))
    })
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
