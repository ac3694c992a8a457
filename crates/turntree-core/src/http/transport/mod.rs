//! The transport port: sends one prepared request and returns its response.
//!
//! The HTTP client knows only [`Transport`]. [`ReqwestTransport`] sends requests over the network. The transports of
//! [`cassette`](super::cassette) record and play exchanges around another transport. Applications and tests implement
//! the trait to answer requests in process.

mod channel;
mod connecting;
mod connections;
mod reqwest;

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{BoxFuture, poll_fn};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, stream};

use super::error::HostFailure;
use super::request::{HttpRequest, PreparedRequest};

pub use self::reqwest::ReqwestTransport;

/// The response of a transport; the body is read as it arrives.
pub type TransportResponse = ::http::Response<ResponseBody>;

/// The future of a response.
pub type TransportFuture = BoxFuture<'static, Result<TransportResponse, TransportError>>;

/// Sends requests.
///
/// ```
/// use turntree_core::http::{ResponseBody, HttpClient, HttpConfig, PreparedRequest, Transport, TransportFuture};
/// use turntree_core::http::TransportResponse;
///
/// /// Answers every request in process.
/// #[derive(Debug)]
/// struct Pong;
///
/// impl Transport for Pong {
///     fn send(&self, request: PreparedRequest) -> TransportFuture {
///         Box::pin(async move { Ok(TransportResponse::new(ResponseBody::from(request.body))) })
///     }
/// }
///
/// let client = HttpClient::new(std::sync::Arc::new(Pong), &HttpConfig::default());
/// ```
pub trait Transport: fmt::Debug + Send + Sync {
    /// Sends a request. The future resolves when the response's headers are there.
    ///
    /// `send` itself is called on the thread that polls the request, in the order of the requests; it must not block.
    /// The client polls the returned future in a background task on the tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future or the response's body aborts the request.
    fn send(&self, request: PreparedRequest) -> TransportFuture;

    /// Whether a request needs credentials. The client calls it before it looks for an API key. Default:
    /// [`Credentials::Required`].
    fn credentials(&self, _request: &HttpRequest) -> Credentials {
        Credentials::Required
    }
}

impl<T: Transport + ?Sized> Transport for Arc<T> {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        (**self).send(request)
    }

    fn credentials(&self, request: &HttpRequest) -> Credentials {
        (**self).credentials(request)
    }
}

/// Composes a transport around another one, as `tower::Layer` does for services.
pub trait TransportLayer: fmt::Debug + Send + Sync {
    /// Wraps the transport of a client.
    fn layer(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport>;

    /// False while the layer returns the transport unchanged. Default: true.
    fn is_active(&self) -> bool {
        true
    }
}

/// Replaces the transport of a client.
#[derive(Debug, Clone)]
pub struct ReplaceTransport(pub Arc<dyn Transport>);

impl TransportLayer for ReplaceTransport {
    fn layer(&self, _inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::clone(&self.0)
    }
}

/// Whether a request needs an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Credentials {
    /// A request without a key is an error.
    Required,
    /// The key is sent if there is one; a failure to get it counts as none.
    Optional,
    /// The key is sent if there is one.
    IfFound,
    /// The key is not looked up.
    Unused,
}

/// Why a transport has no response, or why a body ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No connection within the connect timeout.
    #[error("no connection within the connect timeout")]
    ConnectTimeout,
    /// No response headers within the header timeout.
    #[error("no response headers within the header timeout")]
    HeadersTimeout,
    /// The connection failed or ended in the middle of a message.
    #[error("{message}")]
    Network {
        /// What happened, from the outermost cause to the innermost; without the URL, which may contain a key.
        message: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The transport did not send the request, and a retry cannot help.
    #[error("{message}")]
    Rejected {
        /// The reason and the remedy.
        message: String,
    },
    /// The request cannot be signed, because there are no credentials.
    #[error("{message}")]
    Unsigned {
        /// The reason and the remedy.
        message: String,
    },
    /// Code of the application failed.
    #[error(transparent)]
    Host(#[from] HostFailure),
}

/// The body of a response: chunks as they arrive.
pub struct ResponseBody {
    chunks: Chunks,
    length: Option<u64>,
}

enum Chunks {
    Plain(BoxStream<'static, Result<Bytes, TransportError>>),
    Closing(Pin<Box<dyn ClosingStream>>),
}

/// Chunks of a body whose end can fail for a reason other than the network, for example because a recording is not
/// written.
pub(in crate::http) trait ClosingStream:
    Stream<Item = Result<Bytes, TransportError>> + Send
{
    /// Ends the body, early or after its last chunk, and waits for the work that belongs to its end. Returns its error
    /// once.
    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), TransportError>>;
}

impl ResponseBody {
    /// A body of these chunks.
    pub fn new(chunks: impl Stream<Item = Result<Bytes, TransportError>> + Send + 'static) -> Self {
        Self { chunks: Chunks::Plain(chunks.boxed()), length: None }
    }

    /// A body whose end can fail.
    pub(in crate::http) fn closing(chunks: impl ClosingStream + 'static) -> Self {
        Self { chunks: Chunks::Closing(Box::pin(chunks)), length: None }
    }

    /// True if [`ResponseBody::close`] can fail.
    pub(in crate::http) const fn can_fail_to_close(&self) -> bool {
        matches!(self.chunks, Chunks::Closing(_))
    }

    /// Ends the body, early or after its last chunk, and waits for the work that belongs to its end.
    ///
    /// # Errors
    /// The error of that work.
    pub(in crate::http) async fn close(mut self) -> Result<(), TransportError> {
        match &mut self.chunks {
            Chunks::Plain(_) => Ok(()),
            Chunks::Closing(chunks) => poll_fn(|context| chunks.as_mut().poll_close(context)).await,
        }
    }

    /// Sets the number of bytes in advance.
    #[must_use]
    pub fn with_length(self, length: Option<u64>) -> Self {
        Self { length, ..self }
    }

    /// The number of bytes, if known in advance.
    pub const fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Stream for ResponseBody {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.chunks {
            Chunks::Plain(chunks) => chunks.as_mut().poll_next(context),
            Chunks::Closing(chunks) => chunks.as_mut().poll_next(context),
        }
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        let length = u64::try_from(bytes.len()).ok();
        let chunk = (!bytes.is_empty()).then_some(Ok(bytes));
        Self::new(stream::iter(chunk)).with_length(length)
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseBody").field("length", &self.length).finish_non_exhaustive()
    }
}
