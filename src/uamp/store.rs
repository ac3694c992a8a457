//! Stores written in Python, for requests on network threads.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;

use crate::agents::persistence::{PyPersistence, native_store};
use crate::bridge::gc::GcRoots;
use crate::server::event_loop::ServerLoop;
use turntree_agents::session::{KeyValueStore, SessionStore};
use turntree_core::persistence::{PersistenceAdapter, PersistenceError};
use turntree_store::Engine;

/// The store of a server's conversations.
#[derive(Clone)]
pub(super) enum ServedStore {
    /// A store of turntree, which needs no Python, and its engine.
    Native(Arc<dyn SessionStore>, Arc<dyn Engine>),
    /// An object with `save`, `load` and `delete`.
    Python(Arc<PyPersistence>),
}

impl ServedStore {
    /// Reads the argument `store`. The object that serves the agents shows `roots` to the garbage collector.
    ///
    /// # Errors
    /// The exceptions of inspecting the store.
    pub(super) fn new(store: &Bound<'_, PyAny>, roots: &GcRoots) -> PyResult<Self> {
        Ok(match native_store(store)? {
            Some(native) => Self::Native(native.get().session_store(), Arc::clone(native.get().engine())),
            None => Self::Python(Arc::new(PyPersistence::on_running_loop(roots, store)?)),
        })
    }

    /// Where protocols keep their records; `None` for a store written in Python.
    pub(super) const fn engine(&self) -> Option<&Arc<dyn Engine>> {
        match self {
            Self::Native(_, engine) => Some(engine),
            Self::Python(_) => None,
        }
    }

    /// The store for the requests of a server.
    pub(super) fn on_loop(&self, server_loop: &ServerLoop) -> Arc<dyn SessionStore> {
        match self {
            Self::Native(store, _) => Arc::clone(store),
            Self::Python(adapter) => {
                let (adapter, server_loop) = (Arc::clone(adapter), server_loop.clone());
                Arc::new(KeyValueStore::new(Arc::new(OnLoop { adapter, server_loop })))
            }
        }
    }
}

/// A store whose methods are called on the event loop of a server.
struct OnLoop {
    adapter: Arc<PyPersistence>,
    server_loop: ServerLoop,
}

impl OnLoop {
    /// Calls a method on the thread of the event loop: it needs the GIL from its start.
    fn call<T: Send + 'static>(
        &self,
        method: impl for<'a> FnOnce(&'a PyPersistence) -> BoxFuture<'a, Result<T, PersistenceError>>
        + Send
        + 'static,
    ) -> BoxFuture<'_, Result<T, PersistenceError>> {
        let adapter = Arc::clone(&self.adapter);
        let work = async move { method(&adapter).await };
        Box::pin(async move {
            let closed = || Err(PersistenceError::new("the event loop of the server is closed"));
            self.server_loop.run("store", work).await.unwrap_or_else(closed)
        })
    }
}

impl fmt::Debug for OnLoop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("OnLoop").field(&self.adapter).finish()
    }
}

impl PersistenceAdapter for OnLoop {
    fn save(&self, key: String, data: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.call(move |adapter| adapter.save(key, data))
    }

    fn compares(&self) -> bool {
        self.adapter.compares()
    }

    fn compare_and_save(
        &self,
        key: String,
        expected: Option<String>,
        data: String,
    ) -> BoxFuture<'_, Result<bool, PersistenceError>> {
        self.call(move |adapter| adapter.compare_and_save(key, expected, data))
    }

    fn load(&self, key: String) -> BoxFuture<'_, Result<Option<String>, PersistenceError>> {
        self.call(move |adapter| adapter.load(key))
    }

    fn delete(&self, key: String) -> BoxFuture<'_, Result<(), PersistenceError>> {
        self.call(move |adapter| adapter.delete(key))
    }
}
