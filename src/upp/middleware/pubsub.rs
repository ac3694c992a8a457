//! Publishes streams to subscribers in this process.

use std::sync::Arc;

use crate::prelude::*;
use futures_util::StreamExt as _;

use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::{GcRoots, garbage_collected};
use crate::bridge::gil;
use crate::bridge::stream::{BlockingEvents, PyEventStream};
use crate::bridge::sync;
use crate::error::{OrRaise, ToException as _};
use crate::records::wrap_turn;
use crate::to_python::ToPython;
use turntree_core::message::StreamEvent;
use turntree_upp::middleware::{MemoryPubsub as CorePubsub, Subscription as CoreSubscription};

/// Streams of this process in memory. Subscribers share the events.
#[pyclass(frozen, module = "turntree.upp.middleware")]
pub(crate) struct MemoryPubsub(CorePubsub);

impl MemoryPubsub {
    pub(super) const fn core(&self) -> &CorePubsub {
        &self.0
    }
}

#[pymethods]
impl MemoryPubsub {
    #[new]
    #[pyo3(signature = (*, max_streams = 1000))]
    fn new(max_streams: usize) -> Self {
        Self(CorePubsub::new(max_streams))
    }

    /// Maximum number of streams in memory. Running streams are never removed.
    #[getter]
    fn max_streams(&self) -> usize {
        self.0.max_streams()
    }

    /// Whether a stream with this id has started and is in memory.
    fn exists(&self, stream_id: &str) -> bool {
        self.0.exists(stream_id)
    }

    /// Remove a finished stream and return whether there was one.
    fn remove(&self, stream_id: &str) -> bool {
        self.0.remove(stream_id)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("MemoryPubsub(max_streams={}, streams={})", self.0.max_streams(), self.0.len())
    }

    /// Subscribe to a stream.
    fn _subscribe(&self, py: Python<'_>, stream_id: &str) -> PyResult<SubscriptionCore> {
        SubscriptionCore::new(py, self.0.subscribe(stream_id))
    }
}

/// The native half of ``turntree.upp.middleware.Subscription``.
#[pyclass(frozen, name = "SubscriptionCore", module = "turntree._core")]
pub(crate) struct SubscriptionCore {
    events: Py<PyEventStream>,
    /// Waits for the end; reads no events.
    end: CoreSubscription,
}

impl SubscriptionCore {
    fn new(py: Python<'_>, subscription: CoreSubscription) -> PyResult<Self> {
        let end = subscription.again();
        let source = subscription.map(OrRaise::or_raise_held);
        let show =
            |py: Python<'_>, event: Arc<StreamEvent>| (*event).clone().to_python(py).map(Bound::unbind);
        let events = PyEventStream::new(py, source, show, GcRoots::default())?;
        Ok(Self { events: Py::new(py, events)?, end })
    }

    fn turn_of(&self) -> impl Future<Output = PyResult<Py<PyAny>>> + Send + use<> {
        let end = self.end.turn();
        async move {
            let ended = end.await;
            gil::require_held(|py| match ended {
                Ok(Some(turn)) => wrap_turn(py, turn),
                Ok(None) => Ok(py.None()),
                Err(error) => Err(error.to_exception(py)),
            })
        }
    }
}

#[pymethods]
impl SubscriptionCore {
    /// The asynchronous iterator over events; always the same object.
    #[getter]
    fn events(&self, py: Python<'_>) -> Py<PyEventStream> {
        self.events.clone_ref(py)
    }

    /// Return the synchronous iterator over the same events.
    fn blocking(&self, py: Python<'_>) -> BlockingEvents {
        PyEventStream::blocking(self.events.clone_ref(py))
    }

    /// Return a coroutine that waits for the end and returns the turn.
    fn turn(slf: &Bound<'_, Self>) -> Coroutine {
        let turn = slf.get().turn_of();
        Coroutine::new("turn", GcRoots::new([slf.clone().into_any().unbind()]), turn)
    }

    /// Wait for the turn on this thread.
    fn turn_sync(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        sync::run_sync(py, self.turn_of())
    }
}

garbage_collected!(SubscriptionCore: events);
