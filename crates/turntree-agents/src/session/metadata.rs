//! The metadata of a session: stored in the session, or in an object of the application.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::host::error::HostError;
use crate::session::error::SessionError;
use crate::session::reserved::RESERVED;
use turntree_core::json::RawObject;

/// The metadata of a session. They are read whenever the session is written, so the application may change them in
/// place.
pub trait SessionMetadata: Send + Sync + fmt::Debug {
    /// Returns the current metadata.
    ///
    /// # Errors
    /// If they cannot be written as JSON.
    fn read(&self) -> Result<RawObject, HostError>;
}

impl SessionMetadata for Mutex<RawObject> {
    fn read(&self) -> Result<RawObject, HostError> {
        Ok(self.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Returns the metadata, or an error if they have the key that turntree writes.
pub(super) fn checked(metadata: &dyn SessionMetadata) -> Result<RawObject, SessionError> {
    let metadata = metadata.read().map_err(SessionError::Metadata)?;
    if metadata.get(RESERVED).is_some() {
        let message = format!("the key \"{RESERVED}\" is reserved for the session; remove it");
        return Err(SessionError::Metadata(HostError::raised("ValueError", message)));
    }
    Ok(metadata)
}
