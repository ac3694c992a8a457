//! Images with Imagen's `:predict`.
//!
//! Spec: UPP-1.2 §16

use crate::dialects::common::{BodyWriter, VendorError, read_body};
use crate::dialects::embeddings::{metadata_members, namespaced};
use crate::error::{ErrorCode, UppError};
use crate::image::dialect::ImageBody;
use crate::image::{GeneratedImage, ImageCapabilities, ImageDialect, ImageRequest, ImageResult, ImageUsage};
use turntree_core::json::{Extra, RawObject, json_object};
use turntree_core::message::content::{Base64Source, ImageBlock, ImageSource};

use super::embedding::resource;

/// The image dialect.
#[derive(Debug, Clone, Copy)]
pub struct Imagen {
    /// The provider's name.
    pub provider: &'static str,
}

json_object! {
    #[derive(Debug)]
    struct ResponseBody {
        /// The images.
        pub predictions: Option<Vec<Prediction>> = "predictions",
    }
}

json_object! {
    #[derive(Debug)]
    struct Prediction {
        /// The image in base64.
        pub data: Option<String> = "bytesBase64Encoded",
        /// The media type.
        pub mime_type: Option<String> = "mimeType",
        /// Why the image was filtered.
        pub filtered: Option<String> = "raiFilteredReason",
    }
}

impl ImageDialect for Imagen {
    fn capabilities(&self, _model_id: &str) -> ImageCapabilities {
        ImageCapabilities { generate: true, streaming: false, edit: false, max_images: Some(4) }
    }

    fn path(&self, model_id: &str, _request: &ImageRequest) -> String {
        format!("/{}:predict", resource(model_id))
    }

    fn encode(
        &self,
        _model_id: &str,
        request: &ImageRequest,
        _streaming: bool,
    ) -> Result<ImageBody, UppError> {
        let no_params = RawObject::new();
        let mut body = BodyWriter::new(self.provider, &no_params);
        body.member("instances", &[serde_json::json!({ "prompt": &*request.prompt })])?;
        body.member("parameters", &*request.params)?;
        Ok(ImageBody::json(body.finish()))
    }

    fn decode(&self, body: &str, _request: &ImageRequest) -> Result<ImageResult, UppError> {
        let answer: ResponseBody = read_body(self.provider, body)?;
        if answer.extra.get("error").is_some() {
            return Err(VendorError::of_members(&answer.extra).into_error(self.provider));
        }
        let (mut images, mut reason) = (Vec::new(), None);
        for prediction in answer.predictions.unwrap_or_default() {
            let Some(data) = prediction.data else {
                reason = reason.or(prediction.filtered);
                continue;
            };
            let image = ImageBlock {
                source: ImageSource::Base64(Base64Source { data, extra: Extra::new() }),
                mime_type: prediction.mime_type.unwrap_or_else(|| "image/png".to_owned()),
                width: None,
                height: None,
                extra: Extra::new(),
            };
            let metadata = namespaced(self.provider, metadata_members(&prediction.extra, &[]));
            images.push(GeneratedImage { metadata, ..GeneratedImage::new(image) });
        }
        match (images.is_empty(), reason) {
            (false, _) => Ok(ImageResult {
                usage: Some(ImageUsage {
                    images_generated: Some(images.len() as u64),
                    ..ImageUsage::default()
                }),
                images,
                metadata: namespaced(self.provider, metadata_members(&answer.extra, &[])),
                extra: Extra::new(),
            }),
            (true, Some(reason)) => Err(UppError::new(ErrorCode::ContentFiltered, self.provider, reason)),
            (true, None) => {
                let message = "the response has no images; change the prompt, or send the request again";
                Err(UppError::new(ErrorCode::ProviderError, self.provider, message))
            }
        }
    }
}
