//! Texts and files: UI parts to content parts, and back.

use super::message::UiPart;
use super::options::Sdk;
use crate::content::{
    AudioContent, ContentPart, FileContent, ImageContent, MessageContent, TextContent, VideoContent,
};
use crate::convert::portable::{FileDescription, Names};
use turntree_core::json::{RawJson, RawObject};

/// The named members of a part, as the data of a system action.
pub(super) fn fields(part: &UiPart, names: Names) -> RawJson {
    let members =
        RawJson::from_value(part).ok().and_then(|part| RawObject::from_raw(&part)).unwrap_or_default();
    let fields: RawObject =
        names.iter().filter_map(|(key, name)| Some((*name, members.get(key)?.clone()))).collect();
    RawJson::from_value(&fields).unwrap_or_default()
}

/// The content part of a text or file part; `None` for other parts.
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
        // Major 7 leaves it empty if a provider stores the file.
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

/// The member of major 7 with the ids of a file at its providers.
pub(super) const REFERENCE: &str = "providerReference";

/// The provider of the file and the file's id there; the first provider by name.
fn reference(part: &UiPart) -> Option<(String, String)> {
    let retained = RawObject::from_raw(part.extra.get(REFERENCE)?)?;
    let ids = retained.iter().filter_map(|(provider, id)| Some((provider.to_owned(), id.as_string()?)));
    ids.min()
}

/// Creates a file part with a URL.
fn file_part(file: &FileDescription<'_>, url: String) -> UiPart {
    UiPart {
        url: Some(url),
        media_type: Some(file.media_type.to_owned()),
        filename: file.name.map(str::to_owned),
        ..UiPart::of("file")
    }
}

/// The UI part of a content part; `None` if a client cannot show it.
pub(super) fn to_part(part: &ContentPart) -> Option<UiPart> {
    if let ContentPart::Text(TextContent { text, .. }) = part {
        return Some(UiPart { text: Some(text.clone()), ..UiPart::of("text") });
    }
    let file = FileDescription::of(part)?;
    Some(file_part(&file, file.url()?))
}

/// The UI part of a file at a provider, for major 7; `None` if the provider is unknown.
fn referring(part: &ContentPart) -> Option<UiPart> {
    let file = FileDescription::of(part)?;
    let retained: RawObject =
        [(file.provider?, RawJson::from_str_value(file.file_id?))].into_iter().collect();
    let mut part = file_part(&file, String::new());
    part.extra.insert(REFERENCE, RawJson::from_value(&retained).ok()?);
    Some(part)
}

/// The UI parts of a user message.
pub(super) fn to_parts(content: &MessageContent, sdk: Sdk) -> Vec<UiPart> {
    let referring = |part| if sdk == Sdk::V7 { referring(part) } else { None };
    match content {
        MessageContent::Text(text) => vec![UiPart { text: Some(text.clone()), ..UiPart::of("text") }],
        MessageContent::Parts(parts) => {
            parts.iter().filter_map(|part| to_part(part).or_else(|| referring(part))).collect()
        }
    }
}
