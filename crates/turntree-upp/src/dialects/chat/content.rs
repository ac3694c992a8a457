//! The content of user messages, and which of it a host supports.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::{ChatOptions, Documents};
use crate::dialects::common::{DataUrl, MediaBytes, audio_format, file_id};
use turntree_core::json::RawJson;
use turntree_core::message::content::{ContentBlock, DocumentBlock, ImageBlock};
use turntree_core::message::{DocumentSource, ImageSource};

/// The remedy if a host does not support a block of a user; `None` if it does.
pub(super) fn refused_from_user(options: &ChatOptions, block: &ContentBlock) -> Option<&'static str> {
    match block {
        ContentBlock::Text(_) => None,
        ContentBlock::Image(image) if options.capabilities.image_input => match image.source {
            ImageSource::Unknown(_) => Some("give the image as base64, bytes or a URL"),
            _ => None,
        },
        ContentBlock::Document(document) => refused_document(options.documents, document),
        ContentBlock::Audio(_) if options.capabilities.audio_input => None,
        ContentBlock::Video(_) if options.capabilities.video_input => None,
        _ => Some(what_is_taken(options)),
    }
}

fn refused_document(documents: Documents, document: &DocumentBlock) -> Option<&'static str> {
    match (documents, &document.source) {
        (Documents::None, _) => Some("send its text as a text block instead"),
        (Documents::PdfData | Documents::Any, DocumentSource::Unknown(source))
            if file_id(source).is_some() =>
        {
            None
        }
        (_, DocumentSource::Unknown(_)) => Some("give the document as base64, a URL or text"),
        (Documents::PdfData, DocumentSource::Base64(_)) if document.mime_type == "application/pdf" => None,
        (Documents::PdfData, _) => Some("give the document as a PDF in base64, or its text as a text block"),
        (Documents::Any | Documents::Links, DocumentSource::Text(source)) if source.data.is_empty() => {
            Some("give the document a text that is not empty")
        }
        (Documents::Any | Documents::Links, _) => None,
    }
}

const fn what_is_taken(options: &ChatOptions) -> &'static str {
    match (options.capabilities.image_input, options.documents) {
        (false, _) => "send text instead",
        (true, Documents::None) => "send text or an image instead",
        (true, _) => "send text, an image or a document instead",
    }
}

/// A single text as a string; anything else, or a text with a cache mark, as parts.
pub(super) struct UserContent<'a> {
    pub(super) blocks: &'a [ContentBlock],
    pub(super) documents: Documents,
    pub(super) cache_control: Option<RawJson>,
}

impl Serialize for UserContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.blocks, &self.cache_control) {
            ([], _) => return serializer.serialize_str(""),
            ([ContentBlock::Text(block)], None) => return serializer.serialize_str(&block.text),
            _ => {}
        }
        let last_text = self.blocks.iter().rposition(|block| block.as_text().is_some());
        let mut parts = serializer.serialize_seq(Some(self.blocks.len()))?;
        for (place, block) in self.blocks.iter().enumerate() {
            let cache_control = self.cache_control.as_ref().filter(|_| Some(place) == last_text);
            parts.serialize_element(&Part { block, documents: self.documents, cache_control })?;
        }
        parts.end()
    }
}

struct Part<'a> {
    block: &'a ContentBlock,
    documents: Documents,
    cache_control: Option<&'a RawJson>,
}

/// Writes `{"type": kind, name: value}`.
fn part<S: Serializer, T: Serialize + ?Sized>(
    serializer: S,
    kind: &'static str,
    name: &'static str,
    value: &T,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("type", kind)?;
    map.serialize_entry(name, value)?;
    map.end()
}

#[derive(Serialize)]
struct Url<T> {
    url: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<RawJson>,
}

impl<T> Url<T> {
    const fn new(url: T) -> Self {
        Self { url, detail: None }
    }
}

#[derive(Serialize)]
struct Sound<'a> {
    data: MediaBytes<'a>,
    format: &'a str,
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.block {
            ContentBlock::Text(block) => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", &block.text)?;
                if let Some(cache_control) = self.cache_control {
                    map.serialize_entry("cache_control", cache_control)?;
                }
                map.end()
            }
            ContentBlock::Image(block) => Picture(block).serialize(serializer),
            ContentBlock::Document(block) if self.documents == Documents::Links => link(serializer, block),
            ContentBlock::Document(block) => document(serializer, block),
            ContentBlock::Audio(block) => {
                let data = MediaBytes::Bytes(block.data.as_slice());
                let sound = Sound { data, format: audio_format(&block.mime_type) };
                part(serializer, "input_audio", "input_audio", &sound)
            }
            ContentBlock::Video(block) => {
                let data = MediaBytes::Bytes(block.data.as_slice());
                let url = DataUrl { mime_type: &block.mime_type, data };
                part(serializer, "video_url", "video_url", &Url::new(url))
            }
            ContentBlock::Reasoning(_)
            | ContentBlock::Binary(_)
            | ContentBlock::CodeExecution(_)
            | ContentBlock::Unknown(_) => Err(unchecked()),
        }
    }
}

/// An image of a user or an assistant.
pub(super) struct Picture<'a>(pub(super) &'a ImageBlock);

impl Serialize for Picture<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(block) = self;
        let detail = block.extra.get("detail").filter(|detail| detail.is_string()).cloned();
        match (&block.source, MediaBytes::of_image(&block.source)) {
            (ImageSource::Url(source), _) => {
                part(serializer, "image_url", "image_url", &Url { url: &source.url, detail })
            }
            (_, Some(data)) => {
                let url = DataUrl { mime_type: &block.mime_type, data };
                part(serializer, "image_url", "image_url", &Url { url, detail })
            }
            _ => Err(unchecked()),
        }
    }
}

/// Reached only if the check has missed a block.
fn unchecked<E: serde::ser::Error>() -> E {
    E::custom("a content block of this kind cannot be sent")
}

fn document<S: Serializer>(serializer: S, block: &DocumentBlock) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct File<'a> {
        filename: &'a str,
        file_data: DataUrl<'a>,
    }
    #[derive(Serialize)]
    struct Served<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        file_url: &'a str,
    }
    #[derive(Serialize)]
    struct Kept {
        file_id: String,
    }
    match &block.source {
        DocumentSource::Base64(source) => {
            let file_data = DataUrl { mime_type: &block.mime_type, data: MediaBytes::Base64(&source.data) };
            let filename = block.title.as_deref().unwrap_or("document.pdf");
            part(serializer, "file", "file", &File { filename, file_data })
        }
        DocumentSource::Url(source) => {
            let filename = block.title.as_deref();
            part(serializer, "file", "file", &Served { filename, file_url: &source.url })
        }
        DocumentSource::Text(source) => inline(serializer, block, &source.data),
        DocumentSource::Unknown(source) => match file_id(source) {
            Some(file_id) => part(serializer, "file", "file", &Kept { file_id }),
            None => Err(unchecked()),
        },
    }
}

/// A document as a link or a data URL.
fn link<S: Serializer>(serializer: S, block: &DocumentBlock) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Address<'a> {
        Url(&'a str),
        Data(DataUrl<'a>),
    }
    #[derive(Serialize)]
    struct Link<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        document_url: Address<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        document_name: Option<&'a str>,
    }
    let document_url = match &block.source {
        DocumentSource::Base64(source) => {
            let data = MediaBytes::Base64(&source.data);
            Address::Data(DataUrl { mime_type: &block.mime_type, data })
        }
        DocumentSource::Url(source) => Address::Url(&source.url),
        DocumentSource::Text(source) => return inline(serializer, block, &source.data),
        DocumentSource::Unknown(_) => return Err(unchecked()),
    };
    Link { kind: "document_url", document_url, document_name: block.title.as_deref() }.serialize(serializer)
}

/// A plain text document, sent as text.
fn inline<S: Serializer>(serializer: S, block: &DocumentBlock, text: &str) -> Result<S::Ok, S::Error> {
    let title = block.title.as_deref().unwrap_or("document");
    part(serializer, "text", "text", &format_args!("[Document: {title}]\n{text}"))
}
