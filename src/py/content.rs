//! Content blocks as Python classes. UPP-1.2 §3 and §8.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString, PyType};

use super::convert::json::{document_raw, limits};
use super::data::{Data, DataClass};
use super::show::{Show, data_class};
use crate::core::json::Extra;
use crate::message::content::{
    AudioBlock, Base64Source, BinaryBlock, BytesSource, ContentBlock, DocumentBlock, DocumentSource,
    ImageBlock, ImageSource, ReasoningBlock, TextBlock, TextSource, Unknown, UrlSource, VideoBlock,
};
use crate::message::media::Binary;

data_class! {
    /// Plain text. UPP-1.2 §3.
    Text as "Text" in "turntree.upp" over TextBlock {
        /// The text.
        text,
    }

    #[new]
    fn new(text: String) -> PyClassInitializer<Self> {
        Self::holding(TextBlock { text, extra: Extra::new() })
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "text";
}

data_class! {
    /// What a model thought before it answered. UPP-1.2 §3.
    Reasoning as "Reasoning" in "turntree.upp" over ReasoningBlock {
        /// The thought.
        text,
    }

    #[new]
    fn new(text: String) -> PyClassInitializer<Self> {
        Self::holding(ReasoningBlock { text, extra: Extra::new() })
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "reasoning";
}

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

    /// Refers to a picture that somebody serves; the extension tells the media type if it is not given.
    #[classmethod]
    #[pyo3(signature = (url, mime_type = None))]
    fn from_url(_class: &Bound<'_, PyType>, py: Python<'_>, url: String, mime_type: Option<String>) -> PyResult<Py<PyAny>> {
        let mime_type = mime_type.unwrap_or_else(|| image_type(&url).to_owned());
        let source = ImageSource::Url(UrlSource { url, extra: Extra::new() });
        Self::wrap(py, Arc::new(ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() }))
    }

    /// Takes a picture that is in memory.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String) -> PyResult<Py<PyAny>> {
        let source = ImageSource::Bytes(BytesSource { data: binary(data, "data")?, extra: Extra::new() });
        Self::wrap(py, Arc::new(ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() }))
    }

    /// Takes a picture that is base64 text.
    #[classmethod]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: String, mime_type: String) -> PyResult<Py<PyAny>> {
        Binary::from_base64(&data).map_err(|error| PyValueError::new_err(format!("data: {error}")))?;
        let source = ImageSource::Base64(Base64Source { data, extra: Extra::new() });
        Self::wrap(py, Arc::new(ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() }))
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "image";

    /// Whether the data is here, not at a URL.
    #[getter]
    fn has_data(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(Self::of(slf)?.source.to_base64().is_some())
    }

    /// The source as a dict: base64, url or bytes.
    #[getter]
    fn source<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        source(slf.py(), &Self::of(slf)?.source)
    }

    /// The data as base64 text; `ValueError` for an image at a URL.
    fn to_base64(slf: &Bound<'_, Self>) -> PyResult<String> {
        let data = Self::of(slf)?.source.to_base64();
        data.map(std::borrow::Cow::into_owned).ok_or_else(|| no_data("image", "to_base64"))
    }

    /// The data; `ValueError` for an image at a URL.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let data = Binary::from_base64(&Self::to_base64(slf)?);
        data.map_err(|error| PyValueError::new_err(error.to_string()))?.show(slf.py())
    }

    /// The data as a `data:` URL; `ValueError` for an image at a URL.
    fn to_data_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("data:{};base64,{}", Self::of(slf)?.mime_type, Self::to_base64(slf)?))
    }

    /// The URL; `ValueError` for an image that has none.
    fn to_url(slf: &Bound<'_, Self>) -> PyResult<String> {
        match &Self::of(slf)?.source {
            ImageSource::Url(source) => Ok(source.url.clone()),
            _ => Err(PyValueError::new_err("the image has no URL; use to_data_url")),
        }
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

    /// Refers to a PDF that somebody serves.
    #[classmethod]
    #[pyo3(signature = (url, title = None))]
    fn from_url(_class: &Bound<'_, PyType>, py: Python<'_>, url: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(PyValueError::new_err(format!("url: \"{url}\" is not an http or https URL")));
        }
        let source = DocumentSource::Url(UrlSource { url, extra: Extra::new() });
        document(py, source, "application/pdf".to_owned(), title)
    }

    /// Takes a document that is plain text.
    #[classmethod]
    #[pyo3(signature = (text, title = None))]
    fn from_text(_class: &Bound<'_, PyType>, py: Python<'_>, text: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        let source = DocumentSource::Text(TextSource { data: text, extra: Extra::new() });
        document(py, source, "text/plain".to_owned(), title)
    }

    /// Takes a document that is base64 text.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, title = None))]
    fn from_base64(_class: &Bound<'_, PyType>, py: Python<'_>, data: String, mime_type: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        Binary::from_base64(&data).map_err(|error| PyValueError::new_err(format!("data: {error}")))?;
        let source = DocumentSource::Base64(Base64Source { data, extra: Extra::new() });
        document(py, source, mime_type, title)
    }

    /// Takes a document that is in memory.
    #[classmethod]
    #[pyo3(signature = (data, mime_type, title = None))]
    fn from_bytes(_class: &Bound<'_, PyType>, py: Python<'_>, data: &Bound<'_, PyAny>, mime_type: String, title: Option<String>) -> PyResult<Py<PyAny>> {
        let data = binary(data, "data")?.to_base64();
        document(py, DocumentSource::Base64(Base64Source { data, extra: Extra::new() }), mime_type, title)
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "document";

    /// The source as a dict: base64, url or text.
    #[getter]
    fn source<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        source(slf.py(), &Self::of(slf)?.source)
    }

    /// Whether it is a PDF.
    #[getter]
    fn is_pdf(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(Self::of(slf)?.mime_type == "application/pdf")
    }

    /// Whether it is plain text.
    #[getter]
    fn is_text(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Ok(Self::of(slf)?.mime_type == "text/plain")
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
        Ok(Self::holding(AudioBlock { data: binary(data, "data")?, mime_type, duration, extra: Extra::new() }))
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "audio";
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
        let data = binary(data, "data")?;
        Ok(Self::holding(VideoBlock { data, mime_type, duration, width, height, extra: Extra::new() }))
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "video";
}

data_class! {
    /// Any other data. In user messages only. UPP-1.2 §3.
    BinaryData as "Binary" in "turntree.upp" over BinaryBlock {
        /// The bytes.
        data,
        /// The media type, as `application/zip`.
        mime_type,
        /// Facts about the data, where given.
        metadata,
    }

    #[new]
    #[pyo3(signature = (data, mime_type, metadata = None))]
    fn new(
        data: &Bound<'_, PyAny>,
        mime_type: String,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let metadata = metadata.map(|metadata| super::convert::json::to_raw_object(metadata, "metadata")).transpose()?;
        Ok(Self::holding(BinaryBlock { data: binary(data, "data")?, mime_type, metadata, extra: Extra::new() }))
    }

    #[classattr]
    #[pyo3(name = "type")]
    const KIND: &'static str = "binary";
}

impl Show for ContentBlock {
    fn show<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Text(block) => block.show(py),
            Self::Reasoning(block) => block.show(py),
            Self::Image(block) => block.show(py),
            Self::Document(block) => block.show(py),
            Self::Audio(block) => block.show(py),
            Self::Video(block) => block.show(py),
            Self::Binary(block) => block.show(py),
            Self::Unknown(Unknown { .. }) => source(py, self),
        }
    }
}

fn source<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| super::error::serialization(py, &error))?;
    Ok(super::convert::json::to_python(py, &text)?.into_bound(py))
}

fn document(
    py: Python<'_>,
    source: DocumentSource,
    mime_type: String,
    title: Option<String>,
) -> PyResult<Py<PyAny>> {
    Document::wrap(py, Arc::new(DocumentBlock { source, mime_type, title, extra: Extra::new() }))
}

fn no_data(what: &str, method: &str) -> PyErr {
    PyValueError::new_err(format!("the {what} is at a URL and has no data here; fetch it before {method}"))
}

fn image_type(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "bmp" => "image/bmp",
        "ico" => "image/x-icon",
        _ => "application/octet-stream",
    }
}

fn binary(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Binary> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Binary::new(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Binary::new(bytes.to_vec()));
    }
    let found = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("{what} must be bytes, not {found}; decode base64 before")))
}

/// One block from a handle, a text or a dict.
pub(crate) fn block_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<ContentBlock> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(ContentBlock::text(text.to_str()?));
    }
    if let Ok(data) = value.cast::<Data>() {
        let data = data.get();
        let known = data
            .value::<TextBlock>()
            .map(|block| block.clone().into())
            .or_else(|| data.value::<ReasoningBlock>().map(|block| block.clone().into()))
            .or_else(|| data.value::<ImageBlock>().map(|block| block.clone().into()))
            .or_else(|| data.value::<DocumentBlock>().map(|block| block.clone().into()))
            .or_else(|| data.value::<AudioBlock>().map(|block| block.clone().into()))
            .or_else(|| data.value::<VideoBlock>().map(|block| block.clone().into()))
            .or_else(|| data.value::<BinaryBlock>().map(|block| block.clone().into()));
        return known
            .ok_or_else(|| PyTypeError::new_err(format!("{what} must be a content block, a str or a dict")));
    }
    parse_block(value, what)
}

fn parse_block(value: &Bound<'_, PyAny>, what: &str) -> PyResult<ContentBlock> {
    if !value.is_instance_of::<PyDict>() {
        let found = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{what} must be a content block, a str or a dict, not {found}"
        )));
    }
    let raw = document_raw(value, what)?;
    crate::core::json::parse(raw.get(), &limits())
        .map_err(|error| super::error::argument(value.py(), &error, what, raw.get()))
}

/// Content from a text, or a list of texts, blocks and dicts.
pub(crate) fn content_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<ContentBlock>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(vec![ContentBlock::text(text.to_str()?)]);
    }
    let items = value.try_iter().map_err(|_| {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("{what} must be a str or a list of content blocks, not {found}"))
    })?;
    items.enumerate().map(|(place, item)| block_from(&item?, &format!("{what}[{place}]"))).collect()
}
