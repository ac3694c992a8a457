//! Content blocks as Python classes; those of media are in [`super::media`].
//!
//! Spec: UPP-1.2 §3.

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyString};

use super::convert::json::{read_argument, to_raw_object};
use super::data::{Data, levels};
use super::to_python::{ToPython, data_class};
use crate::convert::text::text_of;
use crate::error::{OrRaise as _, required, required_text, wrong_type};
use crate::message::check_not_foreign;
use turntree_core::json::Extra;
use turntree_core::message::content::{
    AudioBlock, BinaryBlock, CodeExecutionBlock, ContentBlock, DocumentBlock, ImageBlock, ReasoningBlock,
    TextBlock, VideoBlock,
};
use turntree_core::message::media::Binary;

data_class! {
    /// Plain text.
    ///
    /// Spec: UPP-1.2 §3.
    Text as "Text" in "turntree.upp" over TextBlock, type "text", inside BLOCK {
        /// The text.
        text,
    }

    #[new]
    #[pyo3(signature = (text = None), text_signature = "(text)")]
    fn new(text: Option<&Bound<'_, PyAny>>) -> PyResult<PyClassInitializer<Self>> {
        let text = required_text(required(text, "Text", "text", "Text(\"…\")")?, "Text()", "text")?;
        Ok(Self::holding(TextBlock { text, extra: Extra::new() }))
    }
}

data_class! {
    /// Reasoning of a model, in assistant messages only.
    ///
    /// Spec: UPP-1.2 §3.
    Reasoning as "Reasoning" in "turntree.upp" over ReasoningBlock, type "reasoning", inside BLOCK {
        /// The reasoning.
        text,
    }

    #[new]
    #[pyo3(signature = (text = None), text_signature = "(text)")]
    fn new(text: Option<&Bound<'_, PyAny>>) -> PyResult<PyClassInitializer<Self>> {
        let text = required_text(required(text, "Reasoning", "text", "Reasoning(\"…\")")?, "Reasoning()", "text")?;
        Ok(Self::holding(ReasoningBlock { text, extra: Extra::new() }))
    }
}

data_class! {
    /// Data of any other type. Allowed in user messages only.
    ///
    /// Spec: UPP-1.2 §3.
    BinaryData as "Binary" in "turntree.upp" over BinaryBlock, type "binary", inside BLOCK {
        /// The bytes.
        data,
        /// The media type, such as `application/zip`.
        mime_type,
        /// Metadata of the data, a dict, or None.
        metadata,
    }

    #[new]
    #[pyo3(signature = (data, mime_type, metadata = None))]
    fn new(
        data: &Bound<'_, PyAny>,
        mime_type: String,
        metadata: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let metadata = metadata.map(|metadata| to_raw_object(metadata, "metadata")).transpose()?;
        Ok(Self::holding(BinaryBlock { data: binary(data, "data")?, mime_type, metadata, extra: Extra::new() }))
    }
}

data_class! {
    /// Code that a vendor ran for the model, and its output. In assistant messages only.
    ///
    /// ``message.text`` and ``turn.text`` do not contain it. The vendor receives its own parts again with the next
    /// request, other vendors a text. UPP-1.2 does not define this block.
    CodeExecution as "CodeExecution" in "turntree.upp" over CodeExecutionBlock, type "code_execution", inside BLOCK {
        /// The code or command; None if the vendor does not report it.
        code,
        /// The language, such as `python` or `bash`; None if it is not known.
        language,
        /// What the code wrote, errors included; None if the vendor does not report it.
        output,
        /// Whether the code failed; None if it did not.
        is_error,
    }

    #[new]
    #[pyo3(signature = (code = None, output = None, *, language = None, is_error = None))]
    fn new(
        code: Option<String>,
        output: Option<String>,
        language: Option<String>,
        is_error: Option<bool>,
    ) -> PyClassInitializer<Self> {
        Self::holding(CodeExecutionBlock { code, language, output, is_error, extra: Extra::new() })
    }
}

/// The variants of [`ContentBlock`] that have a class.
macro_rules! block_classes {
    ($($variant:ident: $block:ty),+) => {
        impl ToPython for ContentBlock {
            fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                match self {
                    $( Self::$variant(block) => block.to_python(py), )+
                    Self::Unknown(_) => source(py, self),
                }
            }
        }

        /// The value of a handle, if it is a block.
        fn block_of(data: &Data) -> Option<ContentBlock> {
            $( if let Some(block) = data.value::<$block>() {
                return Some(block.clone().into());
            } )+
            None
        }
    };
}

block_classes! {
    Text: TextBlock, Reasoning: ReasoningBlock, Image: ImageBlock, Document: DocumentBlock, Audio: AudioBlock,
    Video: VideoBlock, Binary: BinaryBlock, CodeExecution: CodeExecutionBlock
}

/// A value as plain Python data.
pub(crate) fn source<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).or_raise(py)?;
    Ok(super::convert::json::json_to_python(py, &text)?.into_bound(py))
}

/// Bytes from `bytes` or `bytearray`.
pub(crate) fn binary(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Binary> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Binary::new(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Binary::new(bytes.to_vec()));
    }
    let class = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("{what} must be bytes, not {class}; decode base64 before")))
}

/// An image from an instance or a dict.
pub(crate) fn image_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<ImageBlock> {
    match block_from(value, what)? {
        ContentBlock::Image(block) => Ok(*block),
        other => {
            let kind = other.kind();
            Err(PyTypeError::new_err(format!("{what} must be an Image, not a block of type {kind}")))
        }
    }
}

/// A content block from an instance, a text or a dict.
pub(crate) fn block_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<ContentBlock> {
    if value.is_instance_of::<PyString>() {
        return Ok(ContentBlock::text(text_of::<&str>(value, what)?));
    }
    if let Ok(data) = value.cast::<Data>() {
        return block_of(data.get())
            .ok_or_else(|| PyTypeError::new_err(format!("{what} must be a content block, a str or a dict")));
    }
    check_not_foreign(value, what)?;
    check_block_not_foreign(value, what)?;
    if !value.is_instance_of::<PyDict>() {
        return Err(wrong_type(value, what, "a content block, a str or a dict"));
    }
    read_argument(value, what, levels::BLOCK)
}

/// Content blocks from a text, or from a list of texts, blocks and dicts.
pub(crate) fn content_from(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<ContentBlock>> {
    if value.is_instance_of::<PyString>() {
        return Ok(vec![ContentBlock::text(text_of::<&str>(value, what)?)]);
    }
    let items = value.try_iter().map_err(|_| wrong_type(value, what, "a str or a list of content blocks"))?;
    items.enumerate().map(|(place, item)| block_from(&item?, &format!("{what}[{place}]"))).collect()
}

/// Refuses parts of messages of OpenAI's API, which would be blocks of unknown types.
fn check_block_not_foreign(value: &Bound<'_, PyAny>, what: &str) -> PyResult<()> {
    let Ok(dict) = value.cast::<PyDict>() else { return Ok(()) };
    let Some(kind) = dict.get_item("type")?.and_then(|kind| kind.extract::<String>().ok()) else {
        return Ok(());
    };
    let remedy = match kind.as_str() {
        "image_url" | "input_image" => "write turntree.upp.Image.from_url(\"https://…\")",
        "input_text" | "output_text" => "write the text itself",
        "input_audio" => "write turntree.upp.Audio(data, \"audio/wav\")",
        "input_file" => "write turntree.upp.Document.from_path(\"…\")",
        _ => return Ok(()),
    };
    Err(PyTypeError::new_err(format!("{what} is a block in the form of OpenAI's API; {remedy}")))
}
