//! Takes the connections that reqwest makes: it knows proxies, names, certificates and the negotiation of the version.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::Connection;
use tower_layer::Layer;
use tower_service::Service;

use super::connections::Place;

tokio::task_local! {
    /// The request that is being sent. A connection is made by the future of its request.
    static VISIT: Weak<Visit>;
}

/// The bytes of a connection.
pub(super) trait Wire: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Wire for T {}

/// A request for which a connection is made.
pub(super) struct Visit {
    place: Place,
    made: Mutex<Option<Made>>,
}

/// A connection, and what was negotiated.
pub(super) struct Made {
    pub(super) wire: Box<dyn Wire>,
    pub(super) is_http2: bool,
}

impl Visit {
    pub(super) fn new(place: Place) -> Arc<Self> {
        Arc::new(Self { place, made: Mutex::default() })
    }

    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// The connection that was taken from reqwest.
    pub(super) fn take(&self) -> Option<Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The place, when reqwest has no part in the request any more.
    pub(super) fn into_place(self: Arc<Self>) -> Option<Place> {
        Arc::into_inner(self).map(|visit| visit.place)
    }

    /// Runs the future of reqwest that makes the connection.
    pub(super) fn run<F: Future>(self: &Arc<Self>, work: F) -> impl Future<Output = F::Output> {
        VISIT.scope(Arc::downgrade(self), work)
    }
}

/// Reqwest's connection is used without reqwest.
#[derive(Debug, thiserror::Error)]
#[error("the connection was taken")]
struct Taken;

/// Takes connections from reqwest, except those on which a proxy forwards plain HTTP: the form of requests differs there.
#[derive(Debug, Clone, Copy)]
pub(super) struct TakeConnections {
    /// True if connections without negotiation have HTTP/2.
    pub(super) is_http2: bool,
}

impl<S> Layer<S> for TakeConnections {
    type Service = Connector<S>;

    fn layer(&self, inner: S) -> Connector<S> {
        Connector { inner, layer: *self }
    }
}

/// A connector whose connections are taken.
#[derive(Debug, Clone)]
pub(super) struct Connector<S> {
    inner: S,
    layer: TakeConnections,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<S, R> Service<R> for Connector<S>
where
    S: Service<R, Error = BoxError>,
    S::Response: Connection + Wire + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let is_http2 = self.layer.is_http2;
        let visit = VISIT.try_with(Weak::clone).unwrap_or_default();
        let connecting = self.inner.call(request);
        Box::pin(async move {
            let wire = connecting.await?;
            let connected = wire.connected();
            let Some(visit) = visit.upgrade() else { return Ok(wire) };
            if connected.is_proxied() {
                visit.place.occupies();
                return Ok(wire);
            }
            let made = Made { wire: Box::new(wire), is_http2: is_http2 || connected.is_negotiated_h2() };
            *visit.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            Err(Taken.into())
        })
    }
}
