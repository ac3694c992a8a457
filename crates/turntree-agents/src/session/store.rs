//! The port through which sessions are saved and loaded.
//!
//! Spec: UAP-1.0 §14.2.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::session::interval::SaveInterval;
use crate::session::json::SessionSnapshot;
use crate::session::key::key_of;
use turntree_core::computation::offloaded;
use turntree_core::json;
use turntree_core::limits::Limits;
use turntree_core::persistence::{PersistenceAdapter, PersistenceError, PersistenceErrorKind};

/// What a store remembers of a session that it has saved or loaded, to recognize changes by other writers. Opaque for the
/// session.
pub type SavedState = Box<dyn Any + Send + Sync>;

/// Reads what a store remembers as a session, which may take long; `None` if the store does not remember it. Any thread may
/// call it.
pub type SavedSnapshot = Box<dyn FnOnce() -> Option<SessionSnapshot> + Send>;

/// A session that was loaded.
#[derive(Debug)]
pub struct LoadedSession {
    /// The session.
    pub snapshot: SessionSnapshot,
    /// What the store remembers.
    pub saved: Option<SavedState>,
}

/// Stores sessions.
///
/// # Cancel safety
/// Any future may be dropped at any point. The stored session is then the old one or the new one. The next call of
/// [`Self::save`] with the same state finds out which.
pub trait SessionStore: Send + Sync + fmt::Debug {
    /// Saves a session. `saved` is what the store remembers of it; `None` for a session that the store does not have.
    ///
    /// # Errors
    /// [`PersistenceErrorKind::Conflict`] if another writer has changed or deleted the session since it was saved or loaded
    /// here. Otherwise the session cannot be stored.
    fn save<'a>(
        &'a self,
        snapshot: SessionSnapshot,
        saved: &'a mut Option<SavedState>,
    ) -> BoxFuture<'a, Result<(), PersistenceError>>;

    /// Loads a session; `None` if the store does not have it.
    ///
    /// # Errors
    /// [`PersistenceErrorKind::Corrupt`] if the stored session is invalid. Otherwise the store cannot be read.
    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<LoadedSession>, PersistenceError>>;

    /// Returns what reads the session as it was saved or loaded last.
    fn saved_snapshot(&self, saved: &SavedState) -> SavedSnapshot;

    /// When sessions are saved if the application does not say: after every tool for stores whose cost depends only on what
    /// is new, otherwise at the end of a run.
    fn default_save_interval(&self) -> SaveInterval {
        SaveInterval::Tool
    }
}

/// Stores each session as one text: its JSON.
#[derive(Debug)]
pub struct KeyValueStore(Arc<dyn PersistenceAdapter>);

/// What the adapter has. Only for adapters that compare it.
#[derive(Default)]
struct SavedText {
    /// The text that was loaded or stored last; `None` if there was none.
    stored: Option<Arc<str>>,
    /// A text that may or may not be stored: the call failed or was cancelled.
    pending: Option<Arc<str>>,
}

impl KeyValueStore {
    /// Stores sessions through an adapter.
    pub fn new(adapter: Arc<dyn PersistenceAdapter>) -> Self {
        Self(adapter)
    }

    async fn save_text(
        &self,
        id: &str,
        text: String,
        saved: &mut Option<SavedState>,
    ) -> Result<(), PersistenceError> {
        let key = key_of(id);
        if !self.0.compares() {
            return self.0.save(key, text).await;
        }
        if !saved.as_ref().is_some_and(|saved| saved.is::<SavedText>()) {
            *saved = Some(Box::new(SavedText::default()));
        }
        let Some(known) = saved.as_mut().and_then(|saved| saved.downcast_mut::<SavedText>()) else {
            return Ok(());
        };
        if let Some(pending) = &known.pending {
            let found = self.0.load(key.clone()).await?;
            if found.as_deref() == Some(&**pending) {
                known.stored = Some(Arc::clone(pending));
            }
            known.pending = None;
        }
        let new: Arc<str> = text.as_str().into();
        known.pending = Some(Arc::clone(&new));
        let expected = known.stored.as_deref().map(str::to_owned);
        let is_stored = self.0.compare_and_save(key, expected, text).await?;
        known.pending = None;
        if is_stored {
            known.stored = Some(new);
            return Ok(());
        }
        let message = "it was changed or deleted by another writer since it was loaded or saved here";
        Err(PersistenceError { kind: PersistenceErrorKind::Conflict, ..PersistenceError::new(message) })
    }
}

impl SessionStore for KeyValueStore {
    fn save<'a>(
        &'a self,
        snapshot: SessionSnapshot,
        saved: &'a mut Option<SavedState>,
    ) -> BoxFuture<'a, Result<(), PersistenceError>> {
        Box::pin(async move {
            let id = Arc::clone(&snapshot.id);
            let bytes = snapshot.size_hint();
            let text = offloaded(bytes, move || json::write(&snapshot)).await;
            let text = text.map_err(|error| PersistenceError::new(error.to_string()))?;
            let text = text.map_err(|error| PersistenceError::new(error.to_string()))?;
            self.save_text(&id, text, saved).await
        })
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<LoadedSession>, PersistenceError>> {
        Box::pin(async move {
            let Some(text) = self.0.load(key_of(id)).await? else { return Ok(None) };
            let corrupt = |reason: String| PersistenceError {
                kind: PersistenceErrorKind::Corrupt,
                ..PersistenceError::new(format!("session \"{id}\" cannot be read: {reason}"))
            };
            let read =
                offloaded(text.len(), move || (SessionSnapshot::from_json(&text, &Limits::default()), text));
            let (snapshot, text) = read.await.map_err(|error| PersistenceError::new(error.to_string()))?;
            let snapshot = snapshot.map_err(|error| corrupt(error.to_string()))?;
            if *snapshot.id != *id {
                return Err(corrupt(format!("/id: the store returned the session \"{}\"", snapshot.id)));
            }
            let known = SavedText { stored: Some(text.into()), pending: None };
            let saved = self.0.compares().then(|| Box::new(known) as SavedState);
            Ok(Some(LoadedSession { snapshot, saved }))
        })
    }

    fn saved_snapshot(&self, saved: &SavedState) -> SavedSnapshot {
        let stored = saved.downcast_ref::<SavedText>().and_then(|saved| saved.stored.clone());
        Box::new(move || SessionSnapshot::from_json(&stored?, &Limits::default()).ok())
    }

    fn default_save_interval(&self) -> SaveInterval {
        SaveInterval::Turn
    }
}
