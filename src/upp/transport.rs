//! Transports of the application: an object with `send` answers the requests of a model.
//!
//! The Python half (`turntree.upp._transport`) awaits `send` and hands the response over through a [`TransportCall`], on the
//! thread of the event loop. The threads that read the response take it from channels, so they never need the GIL.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::prelude::*;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::types::PyBytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::error::to_host_failure;
use super::request_guard;
use crate::bridge::call::Call;
use crate::bridge::callbacks::PyCallback;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil::{self, lock};
use crate::error::value_error;
use crate::python_exception::Raised;
use turntree_core::http::{
    Credentials, HeaderMap, HeaderName, HeaderValue, HostFailure, HttpRequest, PreparedRequest, ResponseBody,
    StatusCode, Transport, TransportError, TransportFuture, TransportLayer, TransportResponse,
};
use turntree_core::runtime;

/// How many chunks of a body may wait for their reader. The application's function waits when there are more.
const WAITING_CHUNKS: usize = 64;

/// Names and values of headers.
type Headers = Vec<(String, String)>;

/// Sends the requests of a model through a function of the application.
pub(super) struct PythonTransport {
    function: Arc<PyCallback>,
    credentials: Credentials,
}

impl PythonTransport {
    pub(super) const fn new(function: Arc<PyCallback>, credentials: Credentials) -> Self {
        Self { function, credentials }
    }
}

impl fmt::Debug for PythonTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Transport(..)")
    }
}

impl TransportLayer for PythonTransport {
    fn layer(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        // What a signer passes on reaches the model's transport, which has the guard.
        let inner = match self.credentials {
            Credentials::Unused => inner,
            _ => request_guard::guarded(inner),
        };
        Arc::new(LayeredTransport {
            function: Arc::clone(&self.function),
            credentials: self.credentials,
            inner,
        })
    }
}

struct LayeredTransport {
    function: Arc<PyCallback>,
    credentials: Credentials,
    inner: Arc<dyn Transport>,
}

impl fmt::Debug for LayeredTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Transport(..)")
    }
}

impl Transport for LayeredTransport {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let (head, answered) = oneshot::channel();
        let (pieces, arriving) = mpsc::unbounded_channel();
        let call = TransportCall {
            request,
            inner: Arc::clone(&self.inner),
            head: Mutex::new(Some(head)),
            pieces,
            room: Arc::new(Semaphore::new(WAITING_CHUNKS)),
        };
        let started = gil::require_held(|py| self.function.call(py, (call,).into_pyobject(py)?.unbind()));
        let call = match started {
            Ok(call) => Running::start(call),
            Err(error) => {
                let failure = TransportError::Host(to_host_failure(error));
                return Box::pin(std::future::ready(Err(failure)));
            }
        };
        Box::pin(answer(call, answered, arriving))
    }

    fn credentials(&self, _request: &HttpRequest) -> Credentials {
        self.credentials
    }
}

/// A call of the application's function.
struct Running(Option<Call>);

impl Running {
    /// Starts the call. Afterwards any thread may poll it.
    fn start(call: Call) -> Self {
        let mut running = Self(Some(call));
        let _ = running.poll(&mut Context::from_waker(Waker::noop()));
        running
    }

    /// Ready when the function has returned. What it returns or raises is known from its `TransportCall`.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(call) = &mut self.0 else { return Poll::Ready(()) };
        let result = Pin::new(call).poll(context);
        if result.is_ready() {
            self.0 = None;
        }
        result.map(drop)
    }
}

/// A part of a body.
enum Piece {
    /// It has room until it is read.
    Chunk(Bytes, OwnedSemaphorePermit),
    /// The rest is this body.
    Forwarded(ResponseBody),
    Failed(TransportError),
    End,
}

type Head = Result<(StatusCode, HeaderMap), TransportError>;

async fn answer(
    mut call: Running,
    mut answered: oneshot::Receiver<Head>,
    arriving: mpsc::UnboundedReceiver<Piece>,
) -> Result<TransportResponse, TransportError> {
    let head = poll_fn(|context| {
        if let Poll::Ready(head) = Pin::new(&mut answered).poll(context) {
            return Poll::Ready(head.ok());
        }
        match call.poll(context) {
            // The function may have answered just before it returned.
            Poll::Ready(()) => Poll::Ready(answered.try_recv().ok()),
            Poll::Pending => Poll::Pending,
        }
    });
    let (status, headers) = head.await.unwrap_or_else(|| Err(stopped("without a response")))?;
    let body = PythonBody { call, arriving, forwarded: None, is_over: false };
    let mut response = TransportResponse::new(ResponseBody::new(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

fn stopped(when: &str) -> TransportError {
    TransportError::Network {
        message: format!("the transport of the application stopped {when}"),
        source: None,
    }
}

/// A body that the application's function delivers. Dropping it cancels the function.
struct PythonBody {
    call: Running,
    arriving: mpsc::UnboundedReceiver<Piece>,
    forwarded: Option<ResponseBody>,
    is_over: bool,
}

impl Stream for PythonBody {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        if let Some(forwarded) = &mut this.forwarded {
            return forwarded.poll_next_unpin(context);
        }
        let piece = match this.arriving.poll_recv(context) {
            Poll::Ready(piece) => piece,
            Poll::Pending => {
                let _ = this.call.poll(context);
                return Poll::Pending;
            }
        };
        this.is_over = !matches!(piece, Some(Piece::Chunk(..) | Piece::Forwarded(_)));
        Poll::Ready(match piece {
            Some(Piece::Chunk(chunk, room)) => {
                drop(room);
                Some(Ok(chunk))
            }
            Some(Piece::Forwarded(mut body)) => {
                let first = body.poll_next_unpin(context);
                this.forwarded = Some(body);
                return first;
            }
            Some(Piece::Failed(error)) => Some(Err(error)),
            Some(Piece::End) => None,
            None => Some(Err(stopped("in the middle of a body"))),
        })
    }
}

/// One request, as the Python half of a transport receives it.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct TransportCall {
    request: PreparedRequest,
    inner: Arc<dyn Transport>,
    head: Mutex<Option<oneshot::Sender<Head>>>,
    /// Unbounded: chunks wait for `room`, and other pieces are few.
    pieces: mpsc::UnboundedSender<Piece>,
    room: Arc<Semaphore>,
}

impl TransportCall {
    /// Sends a piece. Nobody receives it if the request was dropped.
    fn send_piece(&self, piece: Piece) {
        drop(self.pieces.send(piece));
    }
}

#[pymethods]
impl TransportCall {
    /// The method.
    #[getter]
    fn method(&self) -> &str {
        self.request.method.as_str()
    }

    /// The URL.
    #[getter]
    fn url(&self) -> &str {
        self.request.url.as_str()
    }

    /// Names and values of the headers, secrets included.
    #[getter]
    fn headers(&self) -> Headers {
        pairs(&self.request.headers)
    }

    /// The body.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.request.body)
    }

    /// Send a request over the network and return its response.
    fn send(
        slf: &Bound<'_, Self>,
        method: &str,
        url: &str,
        headers: Headers,
        body: Vec<u8>,
    ) -> PyResult<Coroutine> {
        let call = slf.get();
        let mut request = call.request.clone();
        request.method = method.parse().map_err(value_error)?;
        request.url = url.parse().map_err(|error| PyValueError::new_err(format!("url: {error}")))?;
        request.headers = header_map(headers, true)?;
        request.body = body.into();
        let inner = Arc::clone(&call.inner);
        let roots = GcRoots::new([slf.clone().into_any().unbind()]);
        Ok(Coroutine::new("send", roots, async move {
            let sent = runtime::spawn(inner.send(request)).await;
            let sent = sent.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            let (head, body) = sent.map_err(|error| exception_of(&error))?.into_parts();
            let body = Arc::new(tokio::sync::Mutex::new(Some(body)));
            Ok(NetworkResponse { status: head.status.as_u16(), headers: head.headers, body })
        }))
    }

    /// Begin the response.
    fn respond(&self, status: u16, headers: Headers) -> PyResult<()> {
        let status = StatusCode::from_u16(status)
            .map_err(|_| PyValueError::new_err(format!("status must be 100 to 999, not {status}")))?;
        let headers = header_map(headers, false)?;
        if let Some(head) = lock(&self.head).take() {
            let _ = head.send(Ok((status, headers)));
        }
        Ok(())
    }

    /// Add a chunk of the body when there is room for it. Return False if nobody reads it any more.
    fn push(slf: &Bound<'_, Self>, chunk: Vec<u8>) -> Coroutine {
        let (pieces, room) = (slf.get().pieces.clone(), Arc::clone(&slf.get().room));
        let roots = GcRoots::new([slf.clone().into_any().unbind()]);
        Coroutine::new("push", roots, async move {
            // The semaphore is never closed: a reader who goes away frees the room of what waits.
            let Ok(permit) = room.acquire_owned().await else { return Ok(false) };
            Ok(pieces.send(Piece::Chunk(chunk.into(), permit)).is_ok())
        })
    }

    /// Take the rest of the body from a response of the network.
    fn forward(&self, response: &NetworkResponse) -> PyResult<()> {
        self.send_piece(Piece::Forwarded(response.take()?));
        Ok(())
    }

    /// End the body.
    fn end(&self) {
        self.send_piece(Piece::End);
    }

    /// Fail with an exception, before or after the response has begun.
    fn fail(&self, exception: &Bound<'_, PyAny>) {
        let py = exception.py();
        let is_timeout = exception.is_instance_of::<PyTimeoutError>();
        let is_network = exception.is_instance_of::<PyConnectionError>();
        let message = exception.str().map(|text| text.to_string()).unwrap_or_default();
        let raised = PyErr::from_value(exception.clone());
        let error = match () {
            () if is_timeout => TransportError::HeadersTimeout,
            () if is_network => {
                TransportError::Network { message, source: Some(Box::new(Raised::new(py, raised))) }
            }
            () => TransportError::Host(HostFailure::new(Raised::new(py, raised))),
        };
        match lock(&self.head).take() {
            Some(head) => drop(head.send(Err(error))),
            None => self.send_piece(Piece::Failed(error)),
        }
    }
}

/// A response of the network, whose body is read as it arrives.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct NetworkResponse {
    status: u16,
    headers: HeaderMap,
    body: Arc<tokio::sync::Mutex<Option<ResponseBody>>>,
}

impl NetworkResponse {
    fn take(&self) -> PyResult<ResponseBody> {
        let taken = self.body.try_lock().ok().and_then(|mut body| body.take());
        taken.ok_or_else(|| PyRuntimeError::new_err("the body of this response was already read"))
    }
}

#[pymethods]
impl NetworkResponse {
    /// The status.
    #[getter]
    const fn status(&self) -> u16 {
        self.status
    }

    /// Names and values of the headers.
    #[getter]
    fn headers(&self) -> Headers {
        pairs(&self.headers)
    }

    /// Return the next chunk of the body, or None at its end.
    fn next_chunk(slf: &Bound<'_, Self>) -> Coroutine {
        let body = Arc::clone(&slf.get().body);
        let roots = GcRoots::new([slf.clone().into_any().unbind()]);
        Coroutine::new("next_chunk", roots, async move {
            let mut body = body.lock().await;
            let Some(open) = body.as_mut() else { return Ok(None) };
            let chunk = match open.next().await {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => return Err(exception_of(&error)),
                None => {
                    *body = None;
                    return Ok(None);
                }
            };
            gil::require_held(|py| Ok(Some(PyBytes::new(py, &chunk).into_any().unbind())))
        })
    }
}

fn pairs(headers: &HeaderMap) -> Headers {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// Headers of a request may be secret; of those of a response, the client knows which ones are.
fn header_map(pairs: Headers, are_secret: bool) -> PyResult<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(pairs.len());
    for (name, value) in pairs {
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| PyValueError::new_err(format!("{name:?} is not the name of a header")))?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| {
            PyValueError::new_err(format!("headers[{name:?}] has line breaks or control characters"))
        })?;
        value.set_sensitive(are_secret);
        headers.append(header, value);
    }
    Ok(headers)
}

/// An error of the network as a Python exception. Passed on by the transport, it becomes the same error again.
fn exception_of(error: &TransportError) -> PyErr {
    let message = error.to_string();
    match error {
        TransportError::ConnectTimeout | TransportError::HeadersTimeout => PyTimeoutError::new_err(message),
        TransportError::Network { .. } => PyConnectionError::new_err(message),
        TransportError::Host(failure) => {
            let raised: Option<&Raised> = failure.downcast_ref();
            let exception = gil::if_held(|py| raised.map(|raised| raised.error(py)));
            exception.flatten().unwrap_or_else(|| PyRuntimeError::new_err(message))
        }
        _ => PyRuntimeError::new_err(message),
    }
}

/// Reads a transport: an object with `send`. Returns the layer and the function, for the garbage collector.
///
/// # Errors
/// `TypeError` for anything else.
pub(super) fn transport_from(value: &Bound<'_, PyAny>) -> PyResult<(PythonTransport, Arc<PyCallback>)> {
    let has_send = value.getattr_opt("send")?.is_some_and(|send| send.is_callable());
    if !has_send || value.is_instance_of::<pyo3::types::PyType>() {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        return Err(PyTypeError::new_err(format!(
            "transport must be a replay(\"…\") or an object with async send(request), not {found}"
        )));
    }
    let function = half(value, "exchange_with")?;
    Ok((PythonTransport::new(Arc::clone(&function), Credentials::IfFound), function))
}

/// Reads a signer: an object with `sign`.
///
/// # Errors
/// The exceptions of the Python half.
pub(super) fn signer_from(value: &Bound<'_, PyAny>) -> PyResult<(PythonTransport, Arc<PyCallback>)> {
    let function = half(value, "signing_with")?;
    Ok((PythonTransport::new(Arc::clone(&function), Credentials::Unused), function))
}

fn half(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Arc<PyCallback>> {
    let function = value.py().import("turntree.upp._transport")?.getattr(name)?.call1((value,))?;
    PyCallback::new(&function)
}
