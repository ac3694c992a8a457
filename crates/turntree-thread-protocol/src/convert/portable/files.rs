//! Files of content parts: their location and the data of `system.tp.file`.

use crate::content::ContentPart;
use turntree_core::json::{RawJson, RawObject};

/// Pairs of names: a member of a UI part, and the same member in `system.tp.*`.
pub(in crate::convert) type Names = &'static [(&'static str, &'static str)];

/// Members of `file` parts and of `system.tp.file`.
pub(in crate::convert) const FILE: Names =
    &[("mediaType", "media_type"), ("url", "url"), ("filename", "filename")];
/// Members of `source-url` parts and of `system.tp.source_url`.
pub(in crate::convert) const SOURCE_URL: Names =
    &[("sourceId", "source_id"), ("url", "url"), ("title", "title")];
/// Members of `source-document` parts and of `system.tp.source_document`.
pub(in crate::convert) const SOURCE_DOCUMENT: Names =
    &[("sourceId", "source_id"), ("mediaType", "media_type"), ("title", "title"), ("filename", "filename")];
/// Members of the approval of a tool part and of `system.tp.approval`.
pub(in crate::convert) const APPROVAL: Names = &[
    ("id", "approval_id"),
    ("approved", "approved"),
    ("requestReason", "request_reason"),
    ("reason", "reason"),
    ("isAutomatic", "is_automatic"),
];

/// The fields that all kinds of files share.
pub(in crate::convert) struct FileDescription<'p> {
    pub url: Option<&'p str>,
    pub base64: Option<&'p str>,
    pub file_id: Option<&'p str>,
    pub provider: Option<&'p str>,
    pub media_type: &'p str,
    pub name: Option<&'p str>,
}

impl<'p> FileDescription<'p> {
    pub(in crate::convert) fn of(part: &'p ContentPart) -> Option<Self> {
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

    pub(in crate::convert) fn url(&self) -> Option<String> {
        let inline = || Some(format!("data:{};base64,{}", self.media_type, self.base64?));
        self.url.map(str::to_owned).or_else(inline)
    }
}

/// The URL of a file, or a data URL for inline data; `None` for a file that only a provider stores.
pub(in crate::convert) fn url_of(part: &ContentPart) -> Option<String> {
    FileDescription::of(part)?.url()
}

/// The data of `system.tp.file` for a file; `null` where it has no URL.
pub(in crate::convert) fn file_data(part: &ContentPart) -> RawJson {
    let Some(file) = FileDescription::of(part) else { return RawJson::default() };
    let Some(url) = file.url() else { return RawJson::default() };
    let mut data = RawObject::new();
    data.insert("media_type", RawJson::from_str_value(file.media_type));
    data.insert("url", RawJson::from_str_value(&url));
    if let Some(name) = file.name {
        data.insert("filename", RawJson::from_str_value(name));
    }
    RawJson::from_value(&data).unwrap_or_default()
}
