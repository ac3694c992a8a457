//! Text and files of messages: UI parts as content parts, and back; and the facts whose names both sides know.

use super::message::UiPart;
use crate::core::json::{RawJson, RawObject};
use crate::thread_protocol::content::{
    AudioContent, ContentPart, FileContent, ImageContent, MessageContent, TextContent, VideoContent,
};

/// Names of members of UI parts, and what they are called in `system.tp.*`.
pub(super) type Names = &'static [(&'static str, &'static str)];

/// `file` and `system.tp.file`.
pub(super) const FILE: Names = &[("mediaType", "media_type"), ("url", "url"), ("filename", "filename")];
/// `source-url` and `system.tp.source_url`.
pub(super) const SOURCE_URL: Names = &[("sourceId", "source_id"), ("url", "url"), ("title", "title")];
/// `source-document` and `system.tp.source_document`.
pub(super) const SOURCE_DOCUMENT: Names =
    &[("sourceId", "source_id"), ("mediaType", "media_type"), ("title", "title"), ("filename", "filename")];
/// The approval of a tool part and `system.tp.approval`.
pub(super) const APPROVAL: Names = &[
    ("id", "approval_id"),
    ("approved", "approved"),
    ("requestReason", "request_reason"),
    ("reason", "reason"),
    ("isAutomatic", "is_automatic"),
];

/// The named members of a part as the data of a system action.
pub(super) fn fields(part: &UiPart, names: Names) -> RawJson {
    let members =
        RawJson::from_value(part).ok().and_then(|part| RawObject::from_raw(&part)).unwrap_or_default();
    let fields: RawObject =
        names.iter().filter_map(|(key, name)| Some((*name, members.get(key)?.clone()))).collect();
    RawJson::from_value(&fields).unwrap_or_default()
}

/// A text or a file of a message; `None` for any other part.
pub(super) fn of_part(part: &UiPart) -> Option<ContentPart> {
    match part.kind.as_str() {
        "text" => Some(ContentPart::text(part.text.clone().unwrap_or_default())),
        "file" => Some(of_file(
            part.url.as_deref().unwrap_or_default(),
            part.media_type.clone(),
            part.filename.clone(),
        )),
        _ => None,
    }
}

fn of_file(url: &str, media_type: Option<String>, name: Option<String>) -> ContentPart {
    let inline = media_type
        .as_deref()
        .and_then(|media_type| url.strip_prefix("data:")?.strip_prefix(media_type)?.strip_prefix(";base64,"));
    let (url, base64) = match inline {
        Some(data) => (None, Some(data.to_owned())),
        None => (Some(url.to_owned()), None),
    };
    let family =
        media_type.as_deref().and_then(|media_type| media_type.split('/').next()).unwrap_or_default();
    match family {
        "image" => {
            ContentPart::Image(ImageContent { url, base64, media_type, name, ..ImageContent::default() })
        }
        "audio" => {
            ContentPart::Audio(AudioContent { url, base64, media_type, name, ..AudioContent::default() })
        }
        "video" => {
            ContentPart::Video(VideoContent { url, base64, media_type, name, ..VideoContent::default() })
        }
        _ => ContentPart::File(FileContent { url, base64, media_type, name, ..FileContent::default() }),
    }
}

/// The URL of a file, a data URL if it is inline; `None` where only a provider can say what it is.
pub(super) fn url_of(part: &ContentPart) -> Option<String> {
    let (url, base64, media_type, fallback) = match part {
        ContentPart::Image(part) => (&part.url, &part.base64, &part.media_type, "image/png"),
        ContentPart::Audio(part) => (&part.url, &part.base64, &part.media_type, "audio/wav"),
        ContentPart::Video(part) => (&part.url, &part.base64, &part.media_type, "video/mp4"),
        ContentPart::File(part) => (&part.url, &part.base64, &part.media_type, "application/octet-stream"),
        ContentPart::Text(_) | ContentPart::Unknown(_) => return None,
    };
    match (url, base64) {
        (Some(url), _) => Some(url.clone()),
        (None, Some(data)) => {
            Some(format!("data:{};base64,{data}", media_type.as_deref().unwrap_or(fallback)))
        }
        (None, None) => None,
    }
}

/// A content part as the part of a message; `None` where a client could not show it.
pub(super) fn to_part(part: &ContentPart) -> Option<UiPart> {
    if let ContentPart::Text(TextContent { text, .. }) = part {
        return Some(UiPart { text: Some(text.clone()), ..UiPart::of("text") });
    }
    let (media_type, name, fallback) = match part {
        ContentPart::Image(part) => (&part.media_type, &part.name, "image/png"),
        ContentPart::Audio(part) => (&part.media_type, &part.name, "audio/wav"),
        ContentPart::Video(part) => (&part.media_type, &part.name, "video/mp4"),
        ContentPart::File(part) => (&part.media_type, &part.name, "application/octet-stream"),
        ContentPart::Text(_) | ContentPart::Unknown(_) => return None,
    };
    Some(UiPart {
        url: Some(url_of(part)?),
        media_type: Some(media_type.clone().unwrap_or_else(|| fallback.to_owned())),
        filename: name.clone(),
        ..UiPart::of("file")
    })
}

/// A file as the data of `system.tp.file`.
pub(in super::super) fn file_data(part: &ContentPart) -> RawJson {
    to_part(part).map(|part| fields(&part, FILE)).unwrap_or_default()
}

/// The parts of a message's content.
pub(super) fn to_parts(content: &MessageContent) -> Vec<UiPart> {
    match content {
        MessageContent::Text(text) => vec![UiPart { text: Some(text.clone()), ..UiPart::of("text") }],
        MessageContent::Parts(parts) => parts.iter().filter_map(to_part).collect(),
    }
}
