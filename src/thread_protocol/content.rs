//! Content parts and attachments.
//!
//! Spec: ThreadProtocol 1.0.0, "Content Types".

use std::sync::Arc;

use crate::convert::text::text_of;
use crate::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::convert::error::of_plain;
use crate::convert::json::{document_raw, json_to_python};
use crate::data::{Data, levels};
use crate::error::{OrRaise as _, wrong_type};
use crate::to_python::{ToPython, data_class};
use turntree_core::json::{self, Extra};
use turntree_core::limits::Limits;
use turntree_core::message::media::Binary;
use turntree_thread_protocol::{ContentPart, MessageContent, content as core};

data_class! {
    /// A text.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Content Types".
    TextContent as "TextContent" in "turntree.thread_protocol" over core::TextContent, inside CONTENT {
        /// The text.
        text,
    }

    #[new]
    fn new(text: String) -> PyClassInitializer<Self> {
        Self::holding(core::TextContent { text, extra: Extra::new() })
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "text";
}

/// Defines the class of one medium; the members are named after it.
macro_rules! media_class {
    (
        $(#[doc = $doc:literal])*
        $class:ident as $name:literal, $kind:literal { $url:ident, $base64:ident }
    ) => {
        data_class! {
            $(#[doc = $doc])*
            $class as $name in "turntree.thread_protocol" over core::$class, inside CONTENT {
        /// Id of the file at the provider.
        file_id,
        /// The provider that stores the file, such as `openai`.
        provider,
        /// Media type, such as `image/png`.
        media_type,
        /// File name.
        name,
    }

            #[new]
            #[pyo3(signature = (
                *, $url = None, $base64 = None, file_id = None, provider = None, media_type = None, name = None
            ))]
            fn new(
                $url: Option<String>,
                $base64: Option<&Bound<'_, PyAny>>,
                file_id: Option<String>,
                provider: Option<String>,
                media_type: Option<String>,
                name: Option<String>,
            ) -> PyResult<PyClassInitializer<Self>> {
                let base64 = $base64.map(|data| base64_text(data, stringify!($base64))).transpose()?;
                Ok(Self::holding(core::$class {
                    url: $url, base64, file_id, provider, media_type, name, extra: Extra::new(),
                }))
            }

            #[classattr]
            #[pyo3(name = "type")]
            const KIND: &'static str = $kind;

            /// URL of the data.
            #[getter]
            fn $url<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                Self::of(slf)?.url.to_python(slf.py())
            }

            /// The data as base64, standard alphabet with padding.
            #[getter]
            fn $base64<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                Self::of(slf)?.base64.to_python(slf.py())
            }
        }
    };
}

media_class! {
    /// An image: a URL, inline data, or a file stored by a provider.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Content Types".
    ImageContent as "ImageContent", "image" { image_url, image_base64 }
}

media_class! {
    /// A file other than an image, audio or a video.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Content Types".
    FileContent as "FileContent", "file" { file_url, file_base64 }
}

media_class! {
    /// Audio: a URL, inline data, or a file stored by a provider.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Content Types".
    AudioContent as "AudioContent", "audio" { audio_url, audio_base64 }
}

media_class! {
    /// A video: a URL, inline data, or a file stored by a provider.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Content Types".
    VideoContent as "VideoContent", "video" { video_url, video_base64 }
}

data_class! {
    /// An attachment of a user message.
    ///
    /// Spec: ThreadProtocol 1.0.0, "Content Types".
    Attachment as "Attachment" in "turntree.thread_protocol" over core::Attachment, inside CONTENT {
        /// File name.
        name,
        /// URL of the data.
        url,
        /// The data as base64, standard alphabet with padding.
        data,
        /// Media type.
        media_type,
        /// Size in bytes.
        size_bytes,
    }

    #[new]
    #[pyo3(signature = (name, *, media_type, url = None, data = None, size_bytes = None))]
    fn new(
        name: String,
        media_type: String,
        url: Option<String>,
        data: Option<&Bound<'_, PyAny>>,
        size_bytes: Option<u64>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let data = data.map(|data| base64_text(data, "data")).transpose()?;
        Ok(Self::holding(core::Attachment { name, url, data, media_type, size_bytes, extra: Extra::new() }))
    }
}

/// Base64 text as it is, or the base64 of bytes.
fn base64_text(value: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    if value.is_instance_of::<PyString>() {
        return text_of(value, what);
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Binary::new(bytes.as_bytes().to_vec()).to_base64());
    }
    Err(wrong_type(value, what, "base64 text or bytes"))
}

impl ToPython for ContentPart {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Text(part) => part.to_python(py),
            Self::Image(part) => part.to_python(py),
            Self::File(part) => part.to_python(py),
            Self::Audio(part) => part.to_python(py),
            Self::Video(part) => part.to_python(py),
            Self::Unknown(_) => {
                Ok(json_to_python(py, &serde_json::to_string(self).or_raise(py)?)?.into_bound(py))
            }
        }
    }
}

impl ToPython for MessageContent {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Text(text) => text.to_python(py),
            Self::Parts(parts) => parts.to_python(py),
        }
    }
}

/// Content from a text, or a list of texts, content parts and dicts.
///
/// # Errors
/// `TypeError` naming the argument and the place; `turntree.ValidationError` for a dict that is not a part.
pub(super) fn content_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<MessageContent> {
    if value.is_instance_of::<PyString>() {
        return text_of(value, what).map(MessageContent::Text);
    }
    let items = super::lists::items_of(value, what)
        .map_err(|_| wrong_type(value, what, "a str or a list of content parts"))?;
    let parts = items.enumerate().map(|(index, item)| part_from(&item?, &format!("{what}[{index}]")));
    parts.collect::<PyResult<Vec<_>>>().map(MessageContent::Parts)
}

fn part_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<ContentPart> {
    if value.is_instance_of::<PyString>() {
        return Ok(ContentPart::text(text_of::<&str>(value, what)?));
    }
    let refuse = || wrong_type(value, what, "a content part, a str or a dict");
    if let Ok(data) = value.cast::<Data>() {
        let data = data.get();
        return (data.share().map(Arc::unwrap_or_clone).map(ContentPart::Text))
            .or_else(|| data.share().map(Arc::unwrap_or_clone).map(ContentPart::Image))
            .or_else(|| data.share().map(Arc::unwrap_or_clone).map(ContentPart::File))
            .or_else(|| data.share().map(Arc::unwrap_or_clone).map(ContentPart::Audio))
            .or_else(|| data.share().map(Arc::unwrap_or_clone).map(ContentPart::Video))
            .ok_or_else(refuse);
    }
    if !value.is_instance_of::<PyDict>() {
        return Err(refuse());
    }
    let raw = document_raw(value, what)?;
    json::parse(raw.get(), &Limits::of_part(levels::CONTENT))
        .map_err(of_plain)
        .or_raise_in(value.py(), raw.get())
}
