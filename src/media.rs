//! Images, documents, audio and video as Python classes: content blocks with helpers for files, bytes and base64.
//!
//! Spec: UPP-1.2 §3, §8.

use std::path::PathBuf;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::types::{PyDict, PyType};

use super::bridge::coroutine::Coroutine;
use super::bridge::gc::GcRoots;
use super::bridge::gil;
use super::content::{binary, block_from, source};
use super::convert::json::read_argument;
use super::data::{DataClass, levels};
use super::to_python::{ToPython, data_class};
use crate::error::{OrRaise as _, required, wrong_type};
use turntree_core::json::Extra;
use turntree_core::message::content::{
    AudioBlock, ContentBlock, DocumentBlock, DocumentSource, ImageBlock, ImageSource, VideoBlock,
};
use turntree_core::message::files::{MediaError, MediaKind};
use turntree_core::message::media::Binary;
use turntree_core::runtime;

/// The methods that all four classes share: reading a file, and the block in messages.
macro_rules! media_methods {
    (
        $class:ident;
        fn from_path($($signature:tt)*)($($argument:ident: $type:ty),+) $read:block
    ) => {
        #[pymethods]
        impl $class {
            /// Read a file. The extension determines the media type, else the first bytes.
            #[classmethod]
            #[pyo3(signature = ($($signature)*))]
            fn from_path(
                _class: &Bound<'_, PyType>,
                py: Python<'_>,
                $($argument: $type),+
            ) -> PyResult<Py<PyAny>> {
                wrap::<Self>(py, py.detach(move || $read))
            }

            /// As `from_path`, without blocking the event loop.
            #[classmethod]
            #[pyo3(signature = ($($signature)*))]
            fn from_path_async(_class: &Bound<'_, PyType>, $($argument: $type),+) -> Coroutine {
                reading::<Self>(move || $read)
            }

            /// Create the object from a content block: an instance of this class, or a dict with its `type`.
            #[classmethod]
            fn from_block(
                _class: &Bound<'_, PyType>,
                py: Python<'_>,
                block: &Bound<'_, PyAny>,
            ) -> PyResult<Py<PyAny>> {
                match block_from(block, "block")? {
                    ContentBlock::$class(block) => Self::wrap(py, Arc::new(*block)),
                    other => Err(PyTypeError::new_err(format!("block must be of type {}, not {}", Self::KIND, other.kind()))),
                }
            }

            /// Return the content block for a message: this object.
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
            /// The source as a dict, by the specification's names.
            #[getter]
            fn source<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                source(slf.py(), &Self::of(slf)?.source)
            }

            /// Return the data as base64 text.
            fn to_base64(slf: &Bound<'_, Self>) -> PyResult<String> {
                Self::of(slf)?.to_base64().map(Into::into).or_raise(slf.py())
            }

            /// Return the data; plain text as UTF-8.
            fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                Self::of(slf)?.to_bytes().or_raise(slf.py())?.to_python(slf.py())
            }

            /// Return the URL.
            fn to_url(slf: &Bound<'_, Self>) -> PyResult<String> {
                Self::of(slf)?.to_url().map(str::to_owned).or_raise(slf.py())
            }
        }
    )+};
}

/// A class that always holds its data. The options are attributes, and arguments of all constructors.
macro_rules! binary_media {
    (
        $(#[doc = $doc:literal])*
        $class:ident as $name:literal over $block:ident, type $kind:literal such as $mime_type:literal;
        options($($signature:tt)+) { $( $(#[doc = $option_doc:literal])* $option:ident: $type:ty, )+ }
    ) => {
        data_class! {
            $(#[doc = $doc])*
            $class as $name in "turntree.upp" over $block, type $kind, inside BLOCK {
                /// The bytes of the file.
                data,
                #[doc = concat!("The media type, such as `", $mime_type, "`.")]
                mime_type,
                $( $(#[doc = $option_doc])* $option, )+
                /// Size of the data in bytes.
                size = |block| block.data.as_slice().len(),
            }

            #[new]
            #[pyo3(signature = (data, mime_type, $($signature)+))]
            fn new(data: &Bound<'_, PyAny>, mime_type: String, $($option: $type),+) -> PyResult<PyClassInitializer<Self>> {
                Ok(Self::holding(Self::block(binary(data, "data")?, mime_type, $($option),+)))
            }

            /// Create the object from the bytes of a file.
            #[classmethod]
            #[pyo3(signature = (data, mime_type, $($signature)+))]
            fn from_bytes(_class: &Bound<'_, PyType>, data: &Bound<'_, PyAny>, mime_type: String, $($option: $type),+) -> PyResult<Py<Self>> {
                Py::new(data.py(), Self::holding(Self::block(binary(data, "data")?, mime_type, $($option),+)))
            }

            /// Create the object from base64 text.
            #[classmethod]
            #[pyo3(signature = (data, mime_type, $($signature)+))]
            fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: &str, mime_type: String, $($option: $type),+) -> PyResult<Py<PyAny>> {
                let data = Binary::from_base64(data).map_err(MediaError::from);
                wrap::<Self>(py, data.map(|data| Self::block(data, mime_type, $($option),+)))
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

        impl $class {
            fn block(data: Binary, mime_type: String, $($option: $type),+) -> $block {
                $block { data, mime_type, $($option,)+ extra: Extra::new() }
            }
        }

        media_methods! {
            $class;
            fn from_path(path, $($signature)+)(path: PathBuf, $($option: $type),+) {
                MediaKind::$class.read(&path).map(|(data, mime_type)| Self::block(data, mime_type, $($option),+))
            }
        }
    };
}

data_class! {
    /// An image. Usually created by one of the class methods.
    ///
    /// Spec: UPP-1.2 §3 and §8.
    Image as "Image" in "turntree.upp" over ImageBlock, type "image", inside BLOCK {
        /// The media type, such as `image/png`.
        mime_type,
        /// Width in pixels, or None.
        width,
        /// Height in pixels, or None.
        height,
        /// Whether the data is in the block, not at a URL.
        has_data = ImageBlock::has_data,
    }

    #[new]
    #[pyo3(
        signature = (source = None, mime_type = None, width = None, height = None),
        text_signature = "(source, mime_type, width=None, height=None)"
    )]
    fn new(
        source: Option<&Bound<'_, PyAny>>,
        mime_type: Option<String>,
        width: Option<u32>,
        height: Option<u32>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let call = "Image.from_path(path), Image.from_url(url) or Image.from_bytes(data, mime_type)";
        let source = required(source, "Image", "source and mime_type", call)?;
        let mime_type = required(mime_type, "Image", "source and mime_type", call)?;
        let source: ImageSource = source_from(source, &["base64", "url", "bytes"])?;
        Ok(Self::holding(ImageBlock { width, height, ..ImageBlock::new(source, mime_type) }))
    }

    /// Create an image from a URL. It is not fetched; a ``data:`` URL is decoded.
    #[classmethod]
    #[pyo3(signature = (url, mime_type = None))]
    fn from_url(_class: &Bound<'_, PyType>, py: Python<'_>, url: String, mime_type: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, ImageBlock::from_url(url, mime_type))
    }

    /// Create an image from bytes.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(ImageBlock::from_bytes(binary(data, "data")?, mime_type)))
    }

    /// Create an image from base64 text.
    #[classmethod]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: String, mime_type: String) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, ImageBlock::from_base64(data, mime_type))
    }

    /// Return the data as a ``data:`` URL.
    fn to_data_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_data_url().or_raise(slf.py())
    }
}

media_methods! {
    Image;
    fn from_path(path)(path: PathBuf) { ImageBlock::from_path(&path) }
}
source_methods!(Image, Document);

data_class! {
    /// A document: PDF or plain text. Allowed in user messages only. Usually created by one of the class
    /// methods.
    ///
    /// Spec: UPP-1.2 §3 and §8.
    Document as "Document" in "turntree.upp" over DocumentBlock, type "document" {
        /// The media type: `application/pdf` or `text/plain`.
        mime_type,
        /// The title that the model sees, or None.
        title,
        /// Whether the data is in the block, not at a URL.
        has_data = DocumentBlock::has_data,
        /// True for a PDF.
        is_pdf = DocumentBlock::is_pdf,
        /// True for plain text.
        is_text = DocumentBlock::is_text,
    }

    #[new]
    #[pyo3(
        signature = (source = None, mime_type = None, title = None),
        text_signature = "(source, mime_type, title=None)"
    )]
    fn new(
        source: Option<&Bound<'_, PyAny>>,
        mime_type: Option<String>,
        title: Option<String>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let call = "Document.from_path(path), Document.from_url(url) or Document.from_text(text)";
        let source = required(source, "Document", "source and mime_type", call)?;
        let mime_type = required(mime_type, "Document", "source and mime_type", call)?;
        let source: DocumentSource = source_from(source, &["base64", "url", "text"])?;
        Ok(Self::holding(DocumentBlock::new(source, mime_type, title)))
    }

    /// Create a document from the URL of a PDF. It is not fetched; a ``data:`` URL is decoded.
    #[classmethod]
    #[pyo3(signature = (url, title = None))]
    fn from_url(_class: &Bound<'_, PyType>, py: Python<'_>, url: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, DocumentBlock::from_url(url, title))
    }

    /// Create a document from plain text.
    #[classmethod]
    #[pyo3(signature = (text, title = None))]
    fn from_text(_class: &Bound<'_, PyType>, py: Python<'_>, text: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(DocumentBlock::from_text(text, title)))
    }

    /// Create a document from base64 text.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, title = None))]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: String, mime_type: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, DocumentBlock::from_base64(data, mime_type, title))
    }

    /// Create a document from bytes.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, title = None))]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        wrap::<Self>(py, Ok(DocumentBlock::from_bytes(&binary(data, "data")?, mime_type, title)))
    }

    /// Return the text.
    fn to_text(slf: &Bound<'_, Self>) -> PyResult<String> {
        Self::of(slf)?.to_text().map(str::to_owned).or_raise(slf.py())
    }
}

media_methods! {
    Document;
    fn from_path(path, title = None)(path: PathBuf, title: Option<String>) { DocumentBlock::from_path(&path, title) }
}

binary_media! {
    /// Audio.
    ///
    /// Spec: UPP-1.2 §3 and §8.
    Audio as "Audio" over AudioBlock, type "audio" such as "audio/wav";
    options(duration = None) {
        /// Length in seconds, or None.
        duration: Option<f64>,
    }
}

binary_media! {
    /// A video.
    ///
    /// Spec: UPP-1.2 §3 and §8.
    Video as "Video" over VideoBlock, type "video" such as "video/mp4";
    options(*, duration = None, width = None, height = None) {
        /// Length in seconds, or None.
        duration: Option<f64>,
        /// Width in pixels, or None.
        width: Option<u32>,
        /// Height in pixels, or None.
        height: Option<u32>,
    }
}

fn wrap<C: DataClass>(py: Python<'_>, block: Result<C::Value, MediaError>) -> PyResult<Py<PyAny>> {
    C::wrap(py, Arc::new(block.or_raise(py)?))
}

/// Reads a file in a thread for blocking work.
fn reading<C: DataClass>(read: impl FnOnce() -> Result<C::Value, MediaError> + Send + 'static) -> Coroutine {
    let task = runtime::spawn_blocking(read);
    Coroutine::new("from_path_async", GcRoots::default(), async move {
        let read = task.await.map_err(|error| PyOSError::new_err(error.to_string()))?;
        gil::require_held(|py| wrap::<C>(py, read))
    })
}

/// A source from the dict of the specification.
fn source_from<T: serde::de::DeserializeOwned>(value: &Bound<'_, PyAny>, kinds: &[&str]) -> PyResult<T> {
    let kind = value.cast::<PyDict>().ok().and_then(|dict| dict.get_item("type").ok().flatten());
    let kind = kind.and_then(|kind| kind.extract::<String>().ok()).unwrap_or_default();
    if !kinds.contains(&kind.as_str()) {
        let rule = format!("a dict whose \"type\" is one of {}", kinds.join(", "));
        return Err(if value.is_instance_of::<PyDict>() {
            PyTypeError::new_err(format!("source must be {rule}"))
        } else {
            wrong_type(value, "source", &rule)
        });
    }
    read_argument(value, "source", levels::SOURCE)
}
