//! Content items: the parts of messages and of output.
//!
//! Spec: UAMP-1.0 §8.4.2

use turntree_core::json::union::tagged_union;

use super::media::Media;
use super::number::Number;
use super::session::AudioFormat;

text_enum! {
    /// How closely a model looks at an image.
    ImageDetail {
        /// The model chooses.
        Auto = "auto",
        /// Few tokens.
        Low = "low",
        /// Many tokens.
        High = "high",
    }
}

object! {
    /// Text.
    TextContent {
        tag "type" = "text",
        /// The text.
        pub text: String = "text",
    }
}

object! {
    /// An image.
    ImageContent {
        tag "type" = "image",
        /// The data.
        pub image: Media = "image",
        /// `jpeg`, `png`, `webp` or `gif`.
        pub format: Option<String> = "format",
        /// How closely the model looks at it.
        pub detail: Option<ImageDetail> = "detail",
        /// A description for people who cannot see the image.
        pub alt_text: Option<String> = "alt_text",
        /// The id by which other agents refer to the content.
        pub content_id: Option<String> = "content_id",
    }
}

object! {
    /// Audio.
    AudioContent {
        tag "type" = "audio",
        /// The data.
        pub audio: Media = "audio",
        /// The format.
        pub format: Option<AudioFormat> = "format",
        /// The duration in milliseconds.
        pub duration_ms: Option<Number> = "duration_ms",
        /// The id by which other agents refer to the content.
        pub content_id: Option<String> = "content_id",
    }
}

object! {
    /// A video.
    VideoContent {
        tag "type" = "video",
        /// The data.
        pub video: Media = "video",
        /// `mp4` or `webm`.
        pub format: Option<String> = "format",
        /// The duration in milliseconds.
        pub duration_ms: Option<Number> = "duration_ms",
        /// The URL of a still image.
        pub thumbnail: Option<String> = "thumbnail",
        /// The id by which other agents refer to the content.
        pub content_id: Option<String> = "content_id",
    }
}

object! {
    /// A file.
    FileContent {
        tag "type" = "file",
        /// The data.
        pub file: Media = "file",
        /// The name of the file.
        pub filename: String = "filename",
        /// The media type.
        pub mime_type: String = "mime_type",
        /// The size in bytes.
        pub size_bytes: Option<Number> = "size_bytes",
        /// The id by which other agents refer to the content.
        pub content_id: Option<String> = "content_id",
    }
}

object! {
    /// A call of a tool.
    ToolCall {
        /// The id of the call.
        pub id: String = "id",
        /// The name of the tool.
        pub name: String = "name",
        /// The arguments as JSON text; in a delta, a piece of it.
        pub arguments: String = "arguments",
    }
}

object! {
    /// A call of a tool, as a content item.
    ToolCallContent {
        tag "type" = "tool_call",
        /// The call.
        pub tool_call: ToolCall = "tool_call",
    }
}

object! {
    /// The result of a call.
    ToolResult {
        /// The id of the call.
        pub call_id: String = "call_id",
        /// The result as JSON text.
        pub result: String = "result",
        /// True if the tool failed.
        pub is_error: Option<bool> = "is_error",
        /// Media that the tool returned.
        pub content_items: Option<Vec<ContentItem>> = "content_items",
    }
}

object! {
    /// The result of a call, as a content item.
    ToolResultContent {
        tag "type" = "tool_result",
        /// The result.
        pub tool_result: ToolResult = "tool_result",
    }
}

tagged_union! {
    /// A content item.
    pub enum ContentItem by "type" {
        /// Text.
        Text(TextContent) = "text",
        /// An image.
        Image(ImageContent, boxed) = "image",
        /// Audio.
        Audio(AudioContent, boxed) = "audio",
        /// A video.
        Video(VideoContent, boxed) = "video",
        /// A file.
        File(FileContent, boxed) = "file",
        /// A call of a tool.
        ToolCall(ToolCallContent, boxed) = "tool_call",
        /// The result of a call.
        ToolResult(ToolResultContent, boxed) = "tool_result",
    }
}

impl ContentItem {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), ..TextContent::default() })
    }

    /// The media of an image, of audio, of a video or of a file.
    pub fn media(&self) -> Option<&Media> {
        match self {
            Self::Image(item) => Some(&item.image),
            Self::Audio(item) => Some(&item.audio),
            Self::Video(item) => Some(&item.video),
            Self::File(item) => Some(&item.file),
            Self::Text(_) | Self::ToolCall(_) | Self::ToolResult(_) | Self::Unknown(_) => None,
        }
    }

    /// The id by which other agents refer to the content.
    pub fn content_id(&self) -> Option<&str> {
        match self {
            Self::Image(item) => item.content_id.as_deref(),
            Self::Audio(item) => item.content_id.as_deref(),
            Self::Video(item) => item.content_id.as_deref(),
            Self::File(item) => item.content_id.as_deref(),
            Self::Text(_) | Self::ToolCall(_) | Self::ToolResult(_) | Self::Unknown(_) => None,
        }
    }

    /// Gives media without an id the one in its URL, or a new one. Other items have no id.
    ///
    /// Spec: UAMP-1.0 §8.5.4
    pub fn assign_content_id(&mut self, new_id: impl FnOnce() -> String) {
        if self.content_id().is_some() {
            return;
        }
        let Some(media) = self.media() else { return };
        let id = media.content_id().map_or_else(new_id, str::to_owned);
        match self {
            Self::Image(item) => item.content_id = Some(id),
            Self::Audio(item) => item.content_id = Some(id),
            Self::Video(item) => item.content_id = Some(id),
            Self::File(item) => item.content_id = Some(id),
            Self::Text(_) | Self::ToolCall(_) | Self::ToolResult(_) | Self::Unknown(_) => {}
        }
    }
}
