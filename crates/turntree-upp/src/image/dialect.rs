//! Vendors' image formats without I/O, and the model that uses one over HTTP.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryFutureExt as _};

use super::{ImageCapabilities, ImageEvent, ImageModel, ImageRequest, ImageResult, ImageSteps};
use crate::config::ProviderConfig;
use crate::dialect::Dialect;
use crate::dialects::common::END_OF_STREAM;
use crate::error::{Modality, UppError};
use crate::http_model::{ApiRequest, HttpModel, StreamError};
use crate::provider::Model as _;
use crate::response_reader::Frames;
use crate::result_stream::Step;
use turntree_core::http::{BodyDecoder, Flow, TransportLayer};
use turntree_core::sse;

/// The largest event of a stream. A 4096 × 4096 image in base64 is smaller.
const MAX_EVENT: usize = 128 * 1024 * 1024;

/// The body of a request.
#[derive(Debug, Clone)]
pub struct ImageBody {
    /// The media type.
    pub content_type: String,
    /// The bytes.
    pub bytes: Bytes,
}

impl ImageBody {
    /// A JSON body.
    pub fn json(bytes: Vec<u8>) -> Self {
        Self { content_type: "application/json".to_owned(), bytes: bytes.into() }
    }
}

/// A vendor's format of images. Name, URL, key and errors are those of its [`Dialect`].
pub trait ImageDialect: Send + Sync + fmt::Debug + 'static {
    /// What a model supports.
    fn capabilities(&self, model_id: &str) -> ImageCapabilities;

    /// The path under the vendor's prefix, with its leading slash.
    fn path(&self, model_id: &str, request: &ImageRequest) -> String;

    /// Writes the body of a request; it is an edit if it has a source.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for content that the vendor does not support.
    fn encode(&self, model_id: &str, request: &ImageRequest, streaming: bool) -> Result<ImageBody, UppError>;

    /// Reads the body of a response.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidResponse`](crate::ErrorCode::InvalidResponse) if the body does not follow the vendor's
    /// format; the vendor's own error if the body reports one.
    fn decode(&self, body: &str, request: &ImageRequest) -> Result<ImageResult, UppError>;

    /// Creates the decoder of one stream; `None` if the vendor has no streams.
    fn stream_decoder(&self, _request: &ImageRequest) -> Option<Box<dyn ImageDecoder>> {
        None
    }
}

/// Decodes one stream of server-sent events.
pub trait ImageDecoder: Send {
    /// Decodes the data of one event and appends its events.
    ///
    /// # Errors
    /// An error that the vendor reports inside the stream;
    /// [`ErrorCode::InvalidResponse`](crate::ErrorCode::InvalidResponse) for an event that does not follow the
    /// vendor's format.
    fn frame(&mut self, data: &str, events: &mut Vec<ImageEvent>) -> Result<(), UppError>;

    /// Ends the stream and returns all images.
    ///
    /// # Errors
    /// If no image was finished.
    fn finish(self: Box<Self>) -> Result<ImageResult, UppError>;
}

/// An image model behind a vendor's HTTP API. Clones share everything.
#[derive(Debug, Clone)]
pub struct HttpImageModel {
    vendor: HttpModel,
    wire: Arc<dyn ImageDialect>,
}

impl HttpImageModel {
    /// Creates a model of a vendor.
    pub fn new(
        vendor: Arc<dyn Dialect>,
        wire: Arc<dyn ImageDialect>,
        model_id: impl Into<Arc<str>>,
        config: ProviderConfig,
    ) -> Self {
        Self { vendor: HttpModel::new(vendor, model_id, config), wire }
    }

    /// Wraps or replaces the HTTP transport.
    #[must_use]
    pub fn with_transport(self, transport: Arc<dyn TransportLayer>) -> Self {
        Self { vendor: self.vendor.with_transport(transport), ..self }
    }

    /// The configuration.
    pub fn config(&self) -> &ProviderConfig {
        self.vendor.config()
    }

    fn ask(&self, request: &ImageRequest, streaming: bool) -> Result<ApiRequest, UppError> {
        let model_id = self.vendor.model_id();
        let ImageBody { content_type, bytes } = self.wire.encode(model_id, request, streaming)?;
        Ok(ApiRequest { path: self.wire.path(model_id, request), content_type, body: bytes })
    }

    async fn call(self, request: ImageRequest) -> Result<ImageResult, UppError> {
        let ask = self.ask(&request, false)?;
        self.vendor.exchange(ask, |body| self.wire.decode(body, &request)).await
    }

    async fn open(
        self,
        request: ImageRequest,
    ) -> Result<
        impl futures_util::Stream<Item = Result<Step<ImageEvent, ImageResult>, UppError>> + Send,
        UppError,
    > {
        let provider = self.vendor.provider().to_owned();
        let decoder = self.wire.stream_decoder(&request).ok_or_else(|| {
            let message = format!("Provider '{provider}' does not support image streaming");
            UppError::invalid_request(&provider, message)
        })?;
        let reader = Reader {
            provider: provider.into(),
            frames: Frames::Events(sse::Decoder::with_limit(MAX_EVENT)),
            decoder: Some(decoder),
            events: Vec::new(),
        };
        let ask = self.ask(&request, true)?;
        self.vendor.listen(ask, reader).await
    }
}

impl ImageModel for HttpImageModel {
    fn model_id(&self) -> &str {
        self.vendor.model_id()
    }

    fn provider(&self) -> &str {
        self.vendor.provider()
    }

    fn capabilities(&self) -> ImageCapabilities {
        self.wire.capabilities(self.vendor.model_id())
    }

    fn generate(&self, request: ImageRequest) -> BoxFuture<'static, Result<ImageResult, UppError>> {
        let call = self.clone().call(request);
        Box::pin(async move { call.await.map_err(|error| error.with_modality(Modality::Image)) })
    }

    fn stream(&self, request: ImageRequest) -> ImageSteps {
        let steps = self.clone().open(request).try_flatten_stream();
        Box::pin(steps.map(|step| step.map_err(|error| error.with_modality(Modality::Image))))
    }
}

/// Decodes a body: bytes in, steps out.
struct Reader {
    provider: Box<str>,
    frames: Frames,
    /// `None` after the end.
    decoder: Option<Box<dyn ImageDecoder>>,
    events: Vec<ImageEvent>,
}

type ImageStep = Step<ImageEvent, ImageResult>;

impl Reader {
    fn read(&mut self, bytes: Option<&[u8]>, out: &mut Vec<ImageStep>) -> Result<(), StreamError> {
        let Self { provider, frames, decoder, events } = self;
        let Some(decoder) = decoder else { return Ok(()) };
        let result = frames.feed(bytes, |_, data| {
            if data.trim() == END_OF_STREAM {
                return Ok(());
            }
            Ok(decoder.frame(data, events)?)
        });
        out.extend(events.drain(..).map(Step::Event));
        Ok(result.map_err(|failure| failure.of(provider))?)
    }
}

impl BodyDecoder for Reader {
    type Item = ImageStep;
    type Error = StreamError;

    fn decode(&mut self, bytes: &Bytes, out: &mut Vec<ImageStep>) -> Result<Flow, StreamError> {
        self.read(Some(bytes), out)?;
        Ok(Flow::Continue)
    }

    fn finish(&mut self, out: &mut Vec<ImageStep>) -> Result<(), StreamError> {
        self.read(None, out)?;
        if let Some(decoder) = self.decoder.take() {
            out.push(Step::Done(Arc::new(decoder.finish()?)));
        }
        Ok(())
    }
}
