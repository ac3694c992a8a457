//! The ordered list of middlewares around a call. Models and agents share it.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Waker};

use bitflags::Flags;
use futures_util::future::BoxFuture;
use turntree_core::runtime;

use super::hooks::Middleware;

/// Runs the hooks that are left when a call is dropped before its end.
pub trait CleanupExecutor: Send + Sync {
    /// Runs `cleanup` to completion.
    fn execute(&self, cleanup: BoxFuture<'static, ()>);
}

/// A middleware trait whose implementations declare the hooks that they implement.
pub trait DeclaresHooks {
    /// The set of hooks, as bit flags.
    type Hooks: Flags + Copy + Default;

    /// The hooks that this middleware implements. The others are never called.
    fn declared_hooks(&self) -> Self::Hooks;
}

/// Middlewares in order; the first one is the outermost. `M` is the trait object of the middleware.
///
/// An empty stack allocates nothing, and its calls run without any hook.
pub struct MiddlewareStack<M: DeclaresHooks + ?Sized = dyn Middleware> {
    list: Option<Arc<[Arc<M>]>>,
    /// The union of the hooks of all middlewares.
    hooks: M::Hooks,
    cleanup: Option<Arc<dyn CleanupExecutor>>,
}

impl<M: DeclaresHooks + ?Sized> Clone for MiddlewareStack<M> {
    fn clone(&self) -> Self {
        Self { list: self.list.clone(), hooks: self.hooks, cleanup: self.cleanup.clone() }
    }
}

impl<M: DeclaresHooks + ?Sized> Default for MiddlewareStack<M> {
    fn default() -> Self {
        Self { list: None, hooks: M::Hooks::default(), cleanup: None }
    }
}

impl<M: DeclaresHooks + fmt::Debug + ?Sized> fmt::Debug for MiddlewareStack<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.list()).finish()
    }
}

impl<M: DeclaresHooks + ?Sized> FromIterator<Arc<M>> for MiddlewareStack<M> {
    fn from_iter<I: IntoIterator<Item = Arc<M>>>(middlewares: I) -> Self {
        let list: Arc<[_]> = middlewares.into_iter().collect();
        let hooks =
            list.iter().fold(M::Hooks::empty(), |hooks, middleware| hooks.union(middleware.declared_hooks()));
        Self { list: (!list.is_empty()).then_some(list), hooks, cleanup: None }
    }
}

impl<M: DeclaresHooks + ?Sized> MiddlewareStack<M> {
    /// Sets the executor of the hooks that remain when a call is dropped. By default a task of [`runtime`] runs them.
    #[must_use]
    pub fn with_cleanup(self, executor: Arc<dyn CleanupExecutor>) -> Self {
        Self { cleanup: Some(executor), ..self }
    }

    /// True if the stack has no middleware.
    pub const fn is_empty(&self) -> bool {
        self.list.is_none()
    }

    /// True if the middlewares together implement all of `hooks`.
    pub fn has(&self, hooks: M::Hooks) -> bool {
        self.hooks.contains(hooks)
    }

    /// The middlewares, outermost first.
    pub fn list(&self) -> &[Arc<M>] {
        self.list.as_deref().unwrap_or_default()
    }

    /// The middlewares that implement `hooks`, outermost first.
    pub fn with_hooks(&self, hooks: M::Hooks) -> impl DoubleEndedIterator<Item = &Arc<M>> {
        self.list().iter().filter(move |middleware| middleware.declared_hooks().contains(hooks))
    }

    /// Runs the hooks that remain after a call was dropped: with the executor of the stack if it has one, otherwise at
    /// once where they do not wait, and in a background task where they do.
    pub fn clean_up(&self, mut cleanup: BoxFuture<'static, ()>) {
        if let Some(executor) = &self.cleanup {
            return executor.execute(cleanup);
        }
        if cleanup.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            runtime::spawn(cleanup).detach();
        }
    }
}
