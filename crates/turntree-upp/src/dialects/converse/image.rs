//! Images of responses.

use serde::Deserialize;

use turntree_core::json::Extra;
use turntree_core::message::ImageSource;
use turntree_core::message::content::{Base64Source, ImageBlock};

/// An image as the vendor writes it.
#[derive(Deserialize)]
pub(super) struct Image {
    #[serde(default)]
    format: Option<String>,
    #[serde(default)]
    source: Option<ImageBytes>,
}

#[derive(Deserialize)]
struct ImageBytes {
    #[serde(default)]
    bytes: Option<String>,
}

impl Image {
    /// The image, if the response contains its data.
    pub(super) fn into_block(self) -> Option<ImageBlock> {
        let data = self.source?.bytes.filter(|data| !data.is_empty())?;
        Some(image_block(self.format.as_deref(), data))
    }
}

/// An image block with these data.
pub(super) fn image_block(format: Option<&str>, data: String) -> ImageBlock {
    ImageBlock {
        source: ImageSource::Base64(Base64Source { data, extra: Extra::new() }),
        mime_type: format!("image/{}", format.unwrap_or("png")),
        width: None,
        height: None,
        extra: Extra::new(),
    }
}
