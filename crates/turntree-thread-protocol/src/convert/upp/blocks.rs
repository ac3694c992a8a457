//! Content blocks of UPP to content parts of ThreadProtocol, and back.

use crate::action::UserMessageAction;
use crate::content::{
    Attachment, AudioContent, ContentPart, FileContent, ImageContent, MessageContent, VideoContent,
};
use crate::convert::pydantic_ai::link;
use turntree_core::json::Extra;
use turntree_core::message::content::{
    AudioBlock, Base64Source, BinaryBlock, ContentBlock, DocumentBlock, DocumentSource, ImageBlock,
    ImageSource, TextSource, UrlSource, VideoBlock,
};
use turntree_core::message::media::Binary;

/// The content of blocks: plain text for a single text block, a list of parts otherwise.
pub(super) fn content_of<'b>(blocks: impl ExactSizeIterator<Item = &'b ContentBlock>) -> MessageContent {
    let one = blocks.len() == 1;
    let mut parts: Vec<ContentPart> = blocks.filter_map(part_of).collect();
    match parts.pop() {
        Some(ContentPart::Text(only)) if one => MessageContent::Text(only.text),
        last => {
            parts.extend(last);
            MessageContent::Parts(parts)
        }
    }
}

/// The content part of a block; `None` for reasoning and unknown blocks.
fn part_of(block: &ContentBlock) -> Option<ContentPart> {
    let binary = |data: &Binary| Some(data.to_base64());
    Some(match block {
        ContentBlock::Text(text) => ContentPart::text(&text.text),
        ContentBlock::Image(image) => ContentPart::Image(ImageContent {
            url: match &image.source {
                ImageSource::Url(source) => Some(source.url.clone()),
                _ => None,
            },
            base64: image.source.to_base64().map(std::borrow::Cow::into_owned),
            media_type: Some(image.mime_type.clone()),
            ..ImageContent::default()
        }),
        ContentBlock::Document(document) => {
            let (url, base64) = match &document.source {
                DocumentSource::Url(source) => (Some(source.url.clone()), None),
                DocumentSource::Base64(source) => (None, Some(source.data.clone())),
                DocumentSource::Text(source) => (None, binary(&Binary::new(source.data.clone()))),
                DocumentSource::Unknown(_) => return None,
            };
            ContentPart::File(FileContent {
                url,
                base64,
                media_type: Some(document.mime_type.clone()),
                name: document.title.clone(),
                ..FileContent::default()
            })
        }
        ContentBlock::Audio(audio) => ContentPart::Audio(AudioContent {
            base64: binary(&audio.data),
            media_type: Some(audio.mime_type.clone()),
            ..AudioContent::default()
        }),
        ContentBlock::Video(video) => ContentPart::Video(VideoContent {
            base64: binary(&video.data),
            media_type: Some(video.mime_type.clone()),
            ..VideoContent::default()
        }),
        ContentBlock::Binary(other) => ContentPart::File(FileContent {
            base64: binary(&other.data),
            media_type: Some(other.mime_type.clone()),
            ..FileContent::default()
        }),
        // The message as a whole is stored beside its actions, because a text cannot be converted back.
        ContentBlock::CodeExecution(block) => ContentPart::text(block.to_markdown()),
        ContentBlock::Reasoning(_) | ContentBlock::Unknown(_) => return None,
    })
}

/// The blocks of a user message, including its attachments.
pub(super) fn user_blocks(message: &UserMessageAction) -> Vec<ContentBlock> {
    let attached = message.attachments.iter().flatten().filter_map(Attachment::part);
    let mut blocks = blocks_of(&message.content);
    blocks.extend(attached.map(|part| block_or_link(&part)));
    blocks
}

/// The blocks of a content.
pub(super) fn blocks_of(content: &MessageContent) -> Vec<ContentBlock> {
    match content {
        MessageContent::Text(text) => vec![ContentBlock::text(text)],
        MessageContent::Parts(parts) => parts.iter().map(block_or_link).collect(),
    }
}

/// The block of a content part; a text with a link or its JSON if there is no such block.
fn block_or_link(part: &ContentPart) -> ContentBlock {
    block_of(part).unwrap_or_else(|| ContentBlock::text(link(part)))
}

/// The block of a content part; `None` for unknown parts and files without data.
fn block_of(part: &ContentPart) -> Option<ContentBlock> {
    let extra = Extra::new;
    Some(match part {
        ContentPart::Text(text) => ContentBlock::text(&text.text),
        ContentPart::Image(image) => {
            let source = match (&image.url, &image.base64) {
                (Some(url), _) => ImageSource::Url(UrlSource { url: url.clone(), extra: extra() }),
                (None, Some(data)) => {
                    ImageSource::Base64(Base64Source { data: data.clone(), extra: extra() })
                }
                (None, None) => return None,
            };
            ContentBlock::from(ImageBlock {
                source,
                mime_type: image.media_type.clone().unwrap_or_else(|| "image/png".to_owned()),
                width: None,
                height: None,
                extra: extra(),
            })
        }
        ContentPart::File(file) => return file_block(file),
        ContentPart::Audio(audio) => ContentBlock::from(AudioBlock {
            data: decoded(audio.base64.as_ref())?,
            mime_type: audio.media_type.clone().unwrap_or_else(|| "audio/wav".to_owned()),
            duration: None,
            extra: extra(),
        }),
        ContentPart::Video(video) => ContentBlock::from(VideoBlock {
            data: decoded(video.base64.as_ref())?,
            mime_type: video.media_type.clone().unwrap_or_else(|| "video/mp4".to_owned()),
            duration: None,
            width: None,
            height: None,
            extra: extra(),
        }),
        ContentPart::Unknown(_) => return None,
    })
}

/// The block of a file: a document by URL, PDF or plain text, otherwise binary data.
fn file_block(file: &FileContent) -> Option<ContentBlock> {
    let mime_type = file.media_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
    let source = match (&file.url, &file.base64, &*mime_type) {
        (Some(url), ..) => DocumentSource::Url(UrlSource { url: url.clone(), extra: Extra::new() }),
        (None, Some(data), "application/pdf") => {
            DocumentSource::Base64(Base64Source { data: data.clone(), extra: Extra::new() })
        }
        (None, Some(_), "text/plain") => {
            let text = String::from_utf8(decoded(file.base64.as_ref())?.as_slice().to_vec()).ok()?;
            DocumentSource::Text(TextSource { data: text, extra: Extra::new() })
        }
        _ => {
            let data = decoded(file.base64.as_ref())?;
            return Some(ContentBlock::from(BinaryBlock {
                data,
                mime_type,
                metadata: None,
                extra: Extra::new(),
            }));
        }
    };
    Some(ContentBlock::from(DocumentBlock {
        source,
        mime_type,
        title: file.name.clone(),
        extra: Extra::new(),
    }))
}

/// Decodes base64; `None` if it is missing or malformed.
fn decoded(base64: Option<&String>) -> Option<Binary> {
    Binary::from_base64(base64?).ok()
}
