//! Text and files of messages: UI parts as content parts, and back; and the facts whose names both sides know.

use super::Sdk;
use super::message::UiPart;
use crate::content::{
    AudioContent, ContentPart, FileContent, ImageContent, MessageContent, TextContent, VideoContent,
};
use turntree_core::json::{RawJson, RawObject};

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
        "file" => Some(of_file(part)),
        _ => None,
    }
}

fn of_file(part: &UiPart) -> ContentPart {
    let (media_type, name) = (part.media_type.clone(), part.filename.clone());
    let url = part.url.as_deref().unwrap_or_default();
    let inline = media_type
        .as_deref()
        .and_then(|media_type| url.strip_prefix("data:")?.strip_prefix(media_type)?.strip_prefix(";base64,"));
    let (provider, file_id) = reference(part).unzip();
    let (url, base64) = match inline {
        Some(data) => (None, Some(data.to_owned())),
        // Clients of 7 leave it empty where a provider keeps the file.
        None if url.is_empty() && file_id.is_some() => (None, None),
        None => (Some(url.to_owned()), None),
    };
    let family =
        media_type.as_deref().and_then(|media_type| media_type.split('/').next()).unwrap_or_default();
    macro_rules! file {
        ($variant:ident($class:ident)) => {
            ContentPart::$variant($class {
                url,
                base64,
                media_type,
                name,
                file_id,
                provider,
                ..$class::default()
            })
        };
    }
    match family {
        "image" => file!(Image(ImageContent)),
        "audio" => file!(Audio(AudioContent)),
        "video" => file!(Video(VideoContent)),
        _ => file!(File(FileContent)),
    }
}

/// The member in which clients of 7 say which providers keep a file, and under which ids.
const REFERENCE: &str = "providerReference";

/// Who keeps the file of a part, and its id there: the first of them by name.
fn reference(part: &UiPart) -> Option<(String, String)> {
    let kept = RawObject::from_raw(part.extra.get(REFERENCE)?)?;
    let ids = kept.iter().filter_map(|(provider, id)| Some((provider.to_owned(), id.as_string()?)));
    ids.min()
}

/// What every kind of file says.
struct Described<'p> {
    url: Option<&'p str>,
    base64: Option<&'p str>,
    file_id: Option<&'p str>,
    provider: Option<&'p str>,
    media_type: &'p str,
    name: Option<&'p str>,
}

impl<'p> Described<'p> {
    fn of(part: &'p ContentPart) -> Option<Self> {
        macro_rules! file {
            ($file:ident, $media_type:literal) => {
                Some(Self {
                    url: $file.url.as_deref(),
                    base64: $file.base64.as_deref(),
                    file_id: $file.file_id.as_deref(),
                    provider: $file.provider.as_deref(),
                    media_type: $file.media_type.as_deref().unwrap_or($media_type),
                    name: $file.name.as_deref(),
                })
            };
        }
        match part {
            ContentPart::Image(file) => file!(file, "image/png"),
            ContentPart::Audio(file) => file!(file, "audio/wav"),
            ContentPart::Video(file) => file!(file, "video/mp4"),
            ContentPart::File(file) => file!(file, "application/octet-stream"),
            ContentPart::Text(_) | ContentPart::Unknown(_) => None,
        }
    }

    fn url(&self) -> Option<String> {
        let inline = || Some(format!("data:{};base64,{}", self.media_type, self.base64?));
        self.url.map(str::to_owned).or_else(inline)
    }

    fn part(&self, url: String) -> UiPart {
        UiPart {
            url: Some(url),
            media_type: Some(self.media_type.to_owned()),
            filename: self.name.map(str::to_owned),
            ..UiPart::of("file")
        }
    }
}

/// The URL of a file, a data URL if it is inline; `None` where only a provider can say what it is.
pub(super) fn url_of(part: &ContentPart) -> Option<String> {
    Described::of(part)?.url()
}

/// A content part as the part of a message; `None` where a client could not show it.
pub(super) fn to_part(part: &ContentPart) -> Option<UiPart> {
    if let ContentPart::Text(TextContent { text, .. }) = part {
        return Some(UiPart { text: Some(text.clone()), ..UiPart::of("text") });
    }
    let file = Described::of(part)?;
    Some(file.part(file.url()?))
}

/// A file that a provider keeps as the part of a message for clients of 7; `None` where nobody says who keeps it.
fn referring(part: &ContentPart) -> Option<UiPart> {
    let file = Described::of(part)?;
    let kept: RawObject = [(file.provider?, RawJson::from_str_value(file.file_id?))].into_iter().collect();
    let mut part = file.part(String::new());
    part.extra.insert(REFERENCE, RawJson::from_value(&kept).ok()?);
    Some(part)
}

/// A file as the data of `system.tp.file`.
pub(in super::super) fn file_data(part: &ContentPart) -> RawJson {
    to_part(part).map(|part| fields(&part, FILE)).unwrap_or_default()
}

/// The parts of what a user says.
pub(super) fn to_parts(content: &MessageContent, sdk: Sdk) -> Vec<UiPart> {
    let referring = |part| if sdk == Sdk::V7 { referring(part) } else { None };
    match content {
        MessageContent::Text(text) => vec![UiPart { text: Some(text.clone()), ..UiPart::of("text") }],
        MessageContent::Parts(parts) => {
            parts.iter().filter_map(|part| to_part(part).or_else(|| referring(part))).collect()
        }
    }
}
