//! OpenAI's images format (generations, edits, streams of previews), which xAI supports too.
//!
//! Spec: UPP-1.2 §16

use bytes::Bytes;

use super::common::{BodyWriter, VendorError, cut_short, read_body, read_frame};
use super::embeddings::{metadata_members, namespaced};
use crate::error::UppError;
use crate::image::dialect::ImageBody;
use crate::image::{
    GeneratedImage, ImageCapabilities, ImageComplete, ImageDecoder, ImageDialect, ImageEvent, ImagePreview,
    ImageRequest, ImageResult, ImageUsage,
};
use turntree_core::http::Multipart;
use turntree_core::json::{Extra, RawJson, RawObject, json_object};
use turntree_core::message::content::{Base64Source, ImageBlock, ImageSource, UrlSource};
use turntree_core::message::files;
use turntree_core::message::media::Binary;

/// The differences between hosts of this format.
#[derive(Debug, Clone, Copy)]
pub struct ImagesOptions {
    /// The provider's name: in errors, and as the namespace of metadata.
    pub provider: &'static str,
    /// What a model supports.
    pub capabilities: fn(model_id: &str) -> ImageCapabilities,
    /// The default media type of images.
    pub media_type: &'static str,
}

/// The images dialect of one host.
#[derive(Debug, Clone, Copy)]
pub struct ImagesDialect(ImagesOptions);

impl ImagesDialect {
    /// Creates the dialect of a host.
    pub const fn new(options: ImagesOptions) -> Self {
        Self(options)
    }

    fn context(&self, request: &ImageRequest) -> DecodeContext {
        let format = request.params.get("output_format").and_then(RawJson::as_string);
        DecodeContext { provider: self.0.provider, media_type: self.0.media_type, format }
    }
}

impl ImageDialect for ImagesDialect {
    fn capabilities(&self, model_id: &str) -> ImageCapabilities {
        (self.0.capabilities)(model_id)
    }

    fn path(&self, _model_id: &str, request: &ImageRequest) -> String {
        let operation = if request.source.is_some() { "edits" } else { "generations" };
        format!("/images/{operation}")
    }

    fn encode(&self, model_id: &str, request: &ImageRequest, streaming: bool) -> Result<ImageBody, UppError> {
        if request.source.is_some() {
            return form(self.0.provider, model_id, request);
        }
        let mut body = BodyWriter::new(self.0.provider, &request.params);
        body.member("model", model_id)?;
        body.member("prompt", &*request.prompt)?;
        if streaming {
            body.member("stream", &true)?;
        } else {
            body.reserve("stream");
        }
        Ok(ImageBody::json(body.finish()))
    }

    fn decode(&self, body: &str, request: &ImageRequest) -> Result<ImageResult, UppError> {
        let context = self.context(request);
        let answer: ResponseBody = read_body(context.provider, body)?;
        let Some(data) = answer.data.filter(|data| !data.is_empty()) else {
            return Err(context.no_images(&answer.extra));
        };
        let format = answer.extra.get("output_format").and_then(RawJson::as_string);
        let context = DecodeContext { format: format.or(context.format), ..context };
        let images = data.into_iter().enumerate().map(|(place, item)| context.image(place, item));
        let images = images.collect::<Result<Vec<_>, _>>()?;
        let usage = usage(images.len(), answer.usage.as_ref());
        let metadata = namespaced(context.provider, metadata_members(&answer.extra, &["object"]));
        Ok(ImageResult { images, metadata, usage: Some(usage), extra: Extra::new() })
    }

    fn stream_decoder(&self, request: &ImageRequest) -> Option<Box<dyn ImageDecoder>> {
        Some(Box::new(Decoder { context: self.context(request), result: ImageResult::default() }))
    }
}

/// The body of an edit: a multipart form with the images. Parameters become fields; lists become repeated fields.
fn form(provider: &str, model_id: &str, request: &ImageRequest) -> Result<ImageBody, UppError> {
    const OWNED: [&str; 5] = ["model", "prompt", "image", "mask", "stream"];
    let mut form = Multipart::default().text("model", model_id).text("prompt", &*request.prompt);
    if let Some(source) = &request.source {
        let (name, bytes) = upload(provider, "image", &source.image)?;
        form = form.file("image", &name, &source.image.mime_type, bytes);
        if let Some(mask) = &source.mask {
            let (name, bytes) = upload(provider, "mask", mask)?;
            form = form.file("mask", &name, &mask.mime_type, bytes);
        }
    }
    for (name, value) in
        request.params.iter().filter(|(name, value)| !OWNED.contains(name) && !value.is_null())
    {
        let items = value.is_array().then(|| value.to::<Vec<RawJson>>().ok()).flatten();
        form = match items {
            Some(items) => {
                let name = format!("{name}[]");
                items.iter().fold(form, |form, item| {
                    form.text(&name, turntree_core::message::content::raw_as_text(item))
                })
            }
            None => form.text(name, turntree_core::message::content::raw_as_text(value)),
        };
    }
    let (content_type, bytes) = form.finish();
    Ok(ImageBody { content_type, bytes })
}

/// The data of an image, and a file name by its type.
fn upload(provider: &str, what: &str, image: &ImageBlock) -> Result<(String, Bytes), UppError> {
    let wrong = |message: String| UppError::invalid_request(provider, format!("{what}: {message}"));
    let bytes = match &image.source {
        ImageSource::Bytes(source) => source.data.clone(),
        ImageSource::Base64(source) => {
            Binary::from_base64(&source.data).map_err(|error| wrong(error.to_string()))?
        }
        ImageSource::Url(_) | ImageSource::Unknown(_) => {
            return Err(wrong("its data is at a URL; download it and pass the bytes".to_owned()));
        }
    };
    let extension = match image.mime_type.as_str() {
        "image/jpeg" => "jpg",
        "image/webp" => "webp",
        _ => "png",
    };
    Ok((format!("{what}.{extension}"), bytes.into_bytes()))
}

json_object! {
    #[derive(Debug)]
    struct ResponseBody {
        /// The images.
        pub data: Option<Vec<Item>> = "data",
        /// The usage.
        pub usage: Option<RawObject> = "usage",
    }
}

json_object! {
    #[derive(Debug)]
    struct Item {
        /// The image in base64.
        pub b64_json: Option<String> = "b64_json",
        /// The URL of the image.
        pub url: Option<String> = "url",
    }
}

json_object! {
    #[derive(Debug)]
    struct Frame {
        /// The type of the event.
        pub kind: Option<String> = "type",
        /// The image in base64.
        pub b64_json: Option<String> = "b64_json",
        /// The URL of the image.
        pub url: Option<String> = "url",
        /// The number of the preview.
        pub partial_image_index: Option<u32> = "partial_image_index",
        /// The usage.
        pub usage: Option<RawObject> = "usage",
    }
}

/// The properties of the request that the decoder needs.
#[derive(Debug, Clone)]
struct DecodeContext {
    provider: &'static str,
    media_type: &'static str,
    /// `png`, `jpeg` or `webp`, as request or response state it.
    format: Option<String>,
}

impl DecodeContext {
    fn image(&self, place: usize, item: Item) -> Result<GeneratedImage, UppError> {
        let image = self.block(item.b64_json, item.url).ok_or_else(|| {
            let message = format!("data[{place}]: expected b64_json or url");
            UppError::invalid_response(self.provider, message)
        })?;
        let metadata = namespaced(self.provider, metadata_members(&item.extra, &[]));
        Ok(GeneratedImage { metadata, ..GeneratedImage::new(image) })
    }

    fn block(&self, data: Option<String>, url: Option<String>) -> Option<ImageBlock> {
        let (source, mime_type) = match (data, url) {
            (Some(data), _) => {
                let mime_type = files::sniff_base64(&data).map_or_else(|| self.stated(), str::to_owned);
                (ImageSource::Base64(Base64Source { data, extra: Extra::new() }), mime_type)
            }
            (None, Some(url)) => {
                let mime_type =
                    files::MediaKind::Image.media_type(&url).map_or_else(|| self.stated(), str::to_owned);
                (ImageSource::Url(UrlSource { url, extra: Extra::new() }), mime_type)
            }
            (None, None) => return None,
        };
        Some(ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() })
    }

    fn stated(&self) -> String {
        self.format.as_ref().map_or_else(|| self.media_type.to_owned(), |format| format!("image/{format}"))
    }

    fn no_images(&self, members: &Extra) -> UppError {
        if members.get("error").is_some() {
            return VendorError::of_members(members).into_error(self.provider);
        }
        let message = format!("the response of {} has no images", self.provider);
        UppError::invalid_response(self.provider, message)
    }
}

fn usage(images: usize, reported: Option<&RawObject>) -> ImageUsage {
    let count = |name: &str| reported.and_then(|usage| usage.get(name)?.to::<u64>().ok());
    ImageUsage {
        images_generated: Some(images as u64),
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cost: reported.and_then(|usage| usage.get("cost")?.to::<f64>().ok()),
        extra: Extra::new(),
    }
}

/// Decodes one stream of previews.
struct Decoder {
    context: DecodeContext,
    result: ImageResult,
}

impl ImageDecoder for Decoder {
    fn frame(&mut self, data: &str, events: &mut Vec<ImageEvent>) -> Result<(), UppError> {
        let Some(frame) = read_frame::<Frame>(self.context.provider, data)? else { return Ok(()) };
        let kind = frame.kind.as_deref().unwrap_or_default();
        let format = frame.extra.get("output_format").and_then(RawJson::as_string);
        self.context.format = format.or_else(|| self.context.format.take());
        let is_preview = kind.ends_with(".partial_image");
        if kind == "error" || frame.extra.get("error").is_some() {
            return Err(VendorError::of_body(data).into_error(self.context.provider));
        }
        if !is_preview && !kind.ends_with(".completed") {
            return Ok(());
        }
        let image = self.context.block(frame.b64_json, frame.url).ok_or_else(|| {
            UppError::invalid_response(self.context.provider, format!("the event {kind} has no image"))
        })?;
        let metadata = namespaced(self.context.provider, metadata_members(&frame.extra, &[]));
        if is_preview {
            let index = frame.partial_image_index.unwrap_or_default();
            events.push(ImagePreview { image, index, metadata, extra: Extra::new() }.into());
            return Ok(());
        }
        let index = u32::try_from(self.result.images.len()).unwrap_or(u32::MAX);
        let image = GeneratedImage { metadata, ..GeneratedImage::new(image) };
        self.result.images.push(image.clone());
        self.result.usage = Some(usage(self.result.images.len(), frame.usage.as_ref()));
        events.push(ImageComplete { image, index, extra: Extra::new() }.into());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ImageResult, UppError> {
        if self.result.images.is_empty() {
            return Err(cut_short(self.context.provider));
        }
        Ok(self.result)
    }
}
