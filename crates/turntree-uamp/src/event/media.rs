//! Input other than text.
//!
//! Spec: UAMP-1.0 §5.7–5.10

use crate::types::{
    AudioContent, AudioFormat, ContentItem, FileContent, ImageContent, ImageDetail, Media, VideoContent,
};

event! {
    /// Audio of the user.
    InputAudio = "input.audio" {
        /// The audio as base64.
        pub audio: String = "audio",
        /// The format.
        pub format: AudioFormat = "format",
        /// True for the last piece of a recording.
        pub is_final: Option<bool> = "is_final",
        /// The id by which other agents refer to the content.
        pub content_id: Option<String> = "content_id",
    }
}

event! {
    /// An image.
    InputImage = "input.image" {
        /// The data.
        pub image: Media = "image",
        /// `jpeg`, `png`, `webp` or `gif`.
        pub format: Option<String> = "format",
        /// How closely the model looks at it.
        pub detail: Option<ImageDetail> = "detail",
        /// The id by which other agents refer to the content.
        pub content_id: Option<String> = "content_id",
    }
}

event! {
    /// A video.
    InputVideo = "input.video" {
        /// The data.
        pub video: Media = "video",
        /// `mp4` or `webm`.
        pub format: Option<String> = "format",
        /// The id by which other agents refer to the content.
        pub content_id: Option<String> = "content_id",
    }
}

event! {
    /// A file.
    InputFile = "input.file" {
        /// The data.
        pub file: Media = "file",
        /// The name of the file.
        pub filename: String = "filename",
        /// The media type.
        pub mime_type: String = "mime_type",
        /// The id by which other agents refer to the content.
        pub content_id: Option<String> = "content_id",
    }
}

impl From<InputAudio> for ContentItem {
    fn from(input: InputAudio) -> Self {
        Self::from(AudioContent {
            audio: Media::Text(input.audio),
            format: Some(input.format),
            content_id: input.content_id,
            ..AudioContent::default()
        })
    }
}

impl From<InputImage> for ContentItem {
    fn from(input: InputImage) -> Self {
        Self::from(ImageContent {
            image: input.image,
            format: input.format,
            detail: input.detail,
            content_id: input.content_id,
            ..ImageContent::default()
        })
    }
}

impl From<InputVideo> for ContentItem {
    fn from(input: InputVideo) -> Self {
        Self::from(VideoContent {
            video: input.video,
            format: input.format,
            content_id: input.content_id,
            ..VideoContent::default()
        })
    }
}

impl From<InputFile> for ContentItem {
    fn from(input: InputFile) -> Self {
        Self::from(FileContent {
            file: input.file,
            filename: input.filename,
            mime_type: input.mime_type,
            content_id: input.content_id,
            ..FileContent::default()
        })
    }
}
