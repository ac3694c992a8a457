//! A model's middlewares in Python, and the stack of middlewares for one call.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;

use super::builtin::Middleware;
use super::cleanup::PyCleanupExecutor;
use super::hooks::{Functions, HOOKS, Handle, PyMiddleware};
use crate::bridge::callbacks::Callbacks;
use crate::bridge::gc::{GcRoots, garbage_collected};
use turntree_upp::middleware::{Middleware as CoreMiddleware, MiddlewareStack};

/// The middlewares of a model, in order.
#[pyclass(frozen, name = "MiddlewareChain", module = "turntree._core")]
pub(crate) struct MiddlewareChain {
    entries: Vec<Entry>,
    /// The functions of Python middlewares and the objects of built-in ones.
    held: Callbacks,
}

enum Entry {
    Ours(Arc<dyn CoreMiddleware>),
    Python(Arc<Functions>),
}

#[pymethods]
impl MiddlewareChain {
    #[new]
    fn new(middleware: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut held = Callbacks::default();
        let items = middleware.try_iter().map_err(|_| {
            PyTypeError::new_err("middleware must be a list of middlewares; put a single one into brackets")
        })?;
        let mut entries = Vec::new();
        for (place, item) in items.enumerate() {
            entries.push(entry(&item?, place, &mut held)?);
        }
        Ok(Self { entries, held })
    }

    fn __len__(&self) -> usize {
        self.entries.len()
    }
}

garbage_collected!(MiddlewareChain: held);

fn entry(item: &Bound<'_, PyAny>, place: usize, held: &mut Callbacks) -> PyResult<Entry> {
    if let Ok(ours) = item.cast::<Middleware>() {
        held.objects.push(item.clone().unbind());
        return Ok(Entry::Ours(ours.get().core()));
    }
    let functions = Functions::of(item, held)?;
    if functions.is_empty() {
        let found = item.get_type().name()?;
        let words = format!(
            "middleware[{place}] has none of the hooks; {found} must have one of {}",
            HOOKS.map(|(name, _)| name).join(", ")
        );
        return Err(PyTypeError::new_err(words));
    }
    Ok(Entry::Python(Arc::new(functions)))
}

impl MiddlewareChain {
    /// The middleware stack of one call. `kept` holds the Python objects of its hooks for the duration of the call.
    pub(crate) fn for_call(&self, kept: &GcRoots) -> MiddlewareStack {
        if self.entries.is_empty() {
            return MiddlewareStack::default();
        }
        let handle = Handle::default();
        let middlewares = self.entries.iter().map(|entry| match entry {
            Entry::Ours(ours) => Arc::clone(ours),
            Entry::Python(functions) => Arc::new(PyMiddleware {
                functions: Arc::clone(functions),
                kept: kept.clone(),
                handle: Arc::clone(&handle),
            }) as Arc<dyn CoreMiddleware>,
        });
        middlewares.collect::<MiddlewareStack>().with_cleanup(Arc::new(PyCleanupExecutor))
    }
}
