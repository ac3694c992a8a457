//! Where the metadata of a session lives: in the session, or wherever the application holds it.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::host::host::HostError;
use crate::session::checkpoint::json::RESERVED;
use crate::session::error::SessionError;
use turntree_core::json::RawObject;

/// The metadata of a session: read whenever the session is written, so that the application may change them in place.
pub trait SessionMetadata: Send + Sync + fmt::Debug {
    /// The metadata as they are now.
    ///
    /// # Errors
    /// When they have no JSON.
    fn read(&self) -> Result<RawObject, HostError>;
}

impl SessionMetadata for Mutex<RawObject> {
    fn read(&self) -> Result<RawObject, HostError> {
        Ok(self.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// The metadata, unless they have the member that turntree writes.
pub(super) fn checked(metadata: &dyn SessionMetadata) -> Result<RawObject, SessionError> {
    let metadata = metadata.read().map_err(SessionError::Metadata)?;
    if metadata.get(RESERVED).is_some() {
        let words = format!("\"{RESERVED}\" is kept by the session; take it out");
        return Err(SessionError::Metadata(HostError::raised("ValueError", words)));
    }
    Ok(metadata)
}
