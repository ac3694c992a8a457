//! Media of other protocols as content items, and content items as media.

use crate::types::{AudioContent, AudioFormat, ContentItem, FileContent, ImageContent, Media, VideoContent};

/// The data of media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// An absolute URL, or a `data:` URL.
    Url(String),
    /// Base64 text.
    Base64(String),
}

impl Source {
    fn into_media(self, mime_type: &str) -> Media {
        match self {
            Self::Url(url) => Media::from_url(url),
            // As a URL, because base64 text that begins with "/" is read as a path.
            Self::Base64(data) => Media::from_url(format!("data:{mime_type};base64,{data}")),
        }
    }

    fn of_media(media: &Media) -> Self {
        match media.url() {
            Some(url) => match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
                Some((_, data)) => Self::Base64(data.to_owned()),
                None => Self::Url(url.to_owned()),
            },
            None => Self::Base64(media.base64().unwrap_or_default().to_owned()),
        }
    }
}

/// Media of another protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MediaPart {
    /// The media type, for example `image/png`.
    pub(super) mime_type: String,
    /// The data.
    pub(super) source: Source,
    /// The name of the file.
    pub(super) filename: Option<String>,
}

impl MediaPart {
    /// The content item of the media. Its kind follows from the media type.
    pub(super) fn into_item(self) -> ContentItem {
        let Self { mime_type, source, filename } = self;
        let mime_type = if mime_type.is_empty() { "application/octet-stream".to_owned() } else { mime_type };
        let media = source.into_media(&mime_type);
        match mime_type.split_once('/') {
            Some(("image", format)) => ContentItem::Image(Box::new(ImageContent {
                image: media,
                format: Some(format.to_owned()),
                ..ImageContent::default()
            })),
            Some(("audio", format)) => ContentItem::Audio(Box::new(AudioContent {
                audio: media,
                format: Some(format.into()),
                ..AudioContent::default()
            })),
            Some(("video", format)) => ContentItem::Video(Box::new(VideoContent {
                video: media,
                format: Some(format.to_owned()),
                ..VideoContent::default()
            })),
            _ => ContentItem::File(Box::new(FileContent {
                file: media,
                filename: filename.unwrap_or_default(),
                mime_type,
                ..FileContent::default()
            })),
        }
    }

    /// The media of a content item; `None` for text and calls.
    pub(super) fn of_item(item: &ContentItem) -> Option<Self> {
        let part = |kind: &str, format: Option<&str>, fallback: &str, media: &Media| Self {
            mime_type: format!("{kind}/{}", format.unwrap_or(fallback)),
            source: Source::of_media(media),
            filename: None,
        };
        Some(match item {
            ContentItem::Image(item) => part("image", item.format.as_deref(), "png", &item.image),
            ContentItem::Audio(item) => {
                part("audio", item.format.as_ref().map(AudioFormat::as_str), "wav", &item.audio)
            }
            ContentItem::Video(item) => part("video", item.format.as_deref(), "mp4", &item.video),
            ContentItem::File(item) => Self {
                mime_type: item.mime_type.clone(),
                source: Source::of_media(&item.file),
                filename: Some(item.filename.clone()).filter(|name| !name.is_empty()),
            },
            ContentItem::Text(_)
            | ContentItem::ToolCall(_)
            | ContentItem::ToolResult(_)
            | ContentItem::Unknown(_) => return None,
        })
    }
}
