//! One connection with HTTP/1.1 or HTTP/2: sends a request and reads its response.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::str::FromStr;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::http::header::{CONNECTION, CONTENT_LENGTH, Entry, HOST, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use ::http::uri::Authority;
use ::http::{HeaderValue, Method, Request, Response, Uri};
use bytes::Bytes;
use futures_util::future::select;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{sleep, timeout};
use url::{Position, Url};

use super::connecting::{Made, Wire};
use super::connections::{Place, Watch};
use crate::http::request::PreparedRequest;
use crate::runtime;

/// How long a connection without requests stays open.
const IDLE_TIME: Duration = Duration::from_secs(90);

/// Longest time that the answer to a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that a server may send before the client has read them: per stream, and per connection.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 5 * 1024 * 1024;

/// Maximum size of the headers of a response.
const MAX_HEADERS: u32 = 256 * 1024;

/// The number of streams before the server has said what it permits. No server can say it: the number has 32 bits there.
const UNKNOWN_STREAMS: usize = usize::MAX - 1;

/// Headers that HTTP/2 forbids. RFC 9113 §8.2.2
const CONNECTION_HEADERS: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Sends requests on an HTTP/1.1 connection, one at a time.
pub(super) type Http1Channel = http1::SendRequest<Full<Bytes>>;

/// Sends requests on an HTTP/2 connection. Clones share it.
pub(super) type Http2Channel = h2::client::SendRequest<Bytes>;

/// A connection that serves a request.
#[derive(Debug)]
pub(super) enum Channel {
    Http1(Http1Channel),
    Http2(Http2Channel),
}

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server has not processed the request, so it may be sent again.
    Unprocessed(BoxError),
    Failed(BoxError),
}

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Begins to use a connection that `place` has made. Its use is checked in intervals.
pub(super) async fn open(made: Made, place: &Place, interval: Duration) -> Result<Channel, BoxError> {
    if !made.is_http2 {
        let (channel, connection) = http1::handshake(made.wire).await?;
        place.occupies();
        let watch = place.watch();
        runtime::spawn(async move {
            select(pin!(connection), pin!(stays_in_use(&watch, None, interval))).await;
        })
        .detach();
        return Ok(Channel::Http1(channel));
    }
    let (channel, connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_max_send_streams(UNKNOWN_STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADERS)
        .handshake(TokioIo::new(made.wire))
        .await?;
    place.shares(channel.clone());
    runtime::spawn(run_http2(connection, place.watch(), interval)).detach();
    Ok(Channel::Http2(channel))
}

async fn run_http2(
    mut connection: h2::client::Connection<TokioIo<Box<dyn Wire>>, Bytes>,
    watch: Watch,
    interval: Duration,
) {
    let pings = connection.ping_pong();
    let mut known = UNKNOWN_STREAMS;
    let running = poll_fn(|context| {
        let result = Pin::new(&mut connection).poll(context);
        let permitted = connection.max_concurrent_send_streams();
        if permitted != known {
            known = permitted;
            watch.permits(permitted);
        }
        result.map(drop)
    });
    select(pin!(running), pin!(stays_in_use(&watch, pings, interval))).await;
}

/// Resolves when a connection serves no request for a while, or does not answer to a ping. Only connections that serve
/// requests are pinged: servers close connections of clients that ping without requests. RFC 9113 §6.7
async fn stays_in_use(watch: &Watch, mut pings: Option<h2::PingPong>, interval: Duration) {
    loop {
        sleep(interval).await;
        let Some(is_in_use) = watch.is_in_use(IDLE_TIME) else { return };
        if let Some(pings) = &mut pings
            && is_in_use
            && !matches!(timeout(PING_TIMEOUT.min(interval), pings.ping(h2::Ping::opaque())).await, Ok(Ok(_)))
        {
            return;
        }
    }
}

impl Channel {
    /// Sends a request. The response's body holds `place`.
    pub(super) async fn send(
        self,
        request: &PreparedRequest,
        place: Place,
    ) -> Result<Response<ChannelBody>, Failure> {
        match self {
            Self::Http1(channel) => send_http1(channel, request, place).await,
            Self::Http2(channel) => send_http2(channel, request, place).await,
        }
    }
}

async fn send_http1(
    mut channel: Http1Channel,
    request: &PreparedRequest,
    place: Place,
) -> Result<Response<ChannelBody>, Failure> {
    let mut sent = Request::new(Full::new(request.body.clone()));
    *sent.method_mut() = request.method.clone();
    *sent.uri_mut() = parse(&request.url[Position::BeforePath..Position::AfterQuery])?;
    *sent.headers_mut() = request.headers.clone();
    if let Entry::Vacant(host) = sent.headers_mut().entry(HOST) {
        host.insert(parse(authority(&request.url))?);
    }
    // The previous request may have closed the connection.
    channel.ready().await.map_err(|error| Failure::Unprocessed(error.into()))?;
    let response = channel.try_send_request(sent).await.map_err(|mut error| {
        let is_unsent = error.take_message().is_some();
        let error = error.into_error().into();
        if is_unsent { Failure::Unprocessed(error) } else { Failure::Failed(error) }
    })?;
    Ok(response.map(|body| ChannelBody::new(Source::Http1(body), place, Some(channel))))
}

async fn send_http2(
    channel: Http2Channel,
    request: &PreparedRequest,
    place: Place,
) -> Result<Response<ChannelBody>, Failure> {
    let mut sent = Request::new(());
    *sent.method_mut() = request.method.clone();
    *sent.headers_mut() = request.headers.clone();
    let headers = sent.headers_mut();
    let host = headers.remove(HOST);
    let authority: Authority = match &host {
        Some(host) => parse(host.to_str().unwrap_or_default())?,
        None => parse(authority(&request.url))?,
    };
    for name in CONNECTION_HEADERS {
        headers.remove(name);
    }
    if headers.get(TE).is_some_and(|value| value != "trailers") {
        headers.remove(TE);
    }
    if !request.body.is_empty() || request.method == Method::POST {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(request.body.len()));
    }
    let path: Uri = parse(&request.url[Position::BeforePath..Position::AfterQuery])?;
    let uri = Uri::builder().scheme(request.url.scheme()).authority(authority);
    let uri = uri.path_and_query(path.path_and_query().map_or("/", |path| path.as_str())).build();
    *sent.uri_mut() = uri.map_err(|error| Failure::Failed(error.into()))?;
    let retired = |error: h2::Error| {
        place.retire();
        Failure::Unprocessed(error.into())
    };
    let mut channel = channel.ready().await.map_err(retired)?;
    let is_empty = request.body.is_empty();
    let (response, mut stream) = channel.send_request(sent, is_empty).map_err(retired)?;
    if !is_empty {
        // The response's future has the reason of a failure.
        drop(stream.send_data(request.body.clone(), true));
    }
    let response = response.await.map_err(|error| {
        let is_shutting_down = error.is_go_away();
        if !is_unprocessed(&error) {
            return Failure::Failed(error.into());
        }
        if is_shutting_down {
            place.retire();
        }
        Failure::Unprocessed(error.into())
    })?;
    Ok(response.map(|body| ChannelBody::new(Source::Http2(body), place, None)))
}

fn parse<T>(text: &str) -> Result<T, Failure>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    text.parse().map_err(|error: T::Err| Failure::Failed(error.into()))
}

/// Host and port of a URL, without user and password.
fn authority(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

/// Whether an error says that the server has not processed the request. RFC 9113 §8.7
fn is_unprocessed(error: &h2::Error) -> bool {
    error.is_remote()
        && match error.reason() {
            Some(h2::Reason::REFUSED_STREAM) => error.is_reset(),
            Some(h2::Reason::NO_ERROR) => error.is_go_away(),
            _ => false,
        }
}

/// The body of a response. At its end the connection has room for another request.
pub(super) struct ChannelBody {
    source: Source,
    held: Option<(Place, Option<Http1Channel>)>,
}

enum Source {
    Http1(Incoming),
    Http2(h2::RecvStream),
}

impl ChannelBody {
    fn new(source: Source, place: Place, channel: Option<Http1Channel>) -> Self {
        let mut body = Self { source, held: Some((place, channel)) };
        if body.is_end_stream() {
            body.finish();
        }
        body
    }

    fn finish(&mut self) {
        if let Some((place, channel)) = self.held.take() {
            place.finish(channel);
        }
    }
}

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match &mut self.source {
            Source::Http1(body) => {
                ready!(Pin::new(body).poll_frame(context)).map(|frame| frame.map_err(Into::into))
            }
            Source::Http2(stream) => ready!(stream.poll_data(context)).map(|data| match data {
                Ok(data) => {
                    // An error here comes again with the next data.
                    drop(stream.flow_control().release_capacity(data.len()));
                    Ok(Frame::data(data))
                }
                Err(error) => Err(error.into()),
            }),
        };
        if frame.is_none() || self.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Http1(body) => body.is_end_stream(),
            Source::Http2(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Http1(body) => body.size_hint(),
            Source::Http2(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for ChannelBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChannelBody(..)")
    }
}
