//! The errors of the harness layer.

use turntree_store::StoreError;

use crate::policy::decision::Decision;

/// What can go wrong in the harness layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// A policy denies the action.
    #[error("{}", .0.message())]
    PolicyViolation(Box<Decision>),
    /// Another owner has the resource.
    #[error(
        "\"{resource}\" is claimed by \"{holder}\" until {expires_at} (milliseconds since 1970); wait, or ask the holder \
         with `turntree coord send`"
    )]
    ClaimConflict {
        /// The resource.
        resource: String,
        /// Who has it.
        holder: String,
        /// When the claim ends, in milliseconds since 1970.
        expires_at: i64,
    },
    /// Another process holds the lock of the state file.
    #[error("{0}; another process writes the state of the project: try again")]
    StoreBusy(String),
    /// Stored data was changed behind the back of turntree.
    #[error("{0}")]
    IntegrityViolation(String),
    /// An argument, a file or the project is not usable.
    #[error("{0}")]
    Invalid(String),
    /// The state file cannot be used.
    #[error(transparent)]
    Store(StoreError),
    /// The system refused a file operation or a program.
    #[error("{place}: {reason}")]
    System {
        /// The file or the program.
        place: String,
        /// The message of the system.
        reason: String,
    },
}

impl From<StoreError> for HarnessError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable { store, reason } => Self::StoreBusy(format!("{store}: {reason}")),
            StoreError::Corrupt { store, reason, .. } => {
                Self::IntegrityViolation(format!("{store}: {reason}"))
            }
            other => Self::Store(other),
        }
    }
}

impl HarnessError {
    /// The error of a file or a program.
    pub(crate) fn system(place: impl std::fmt::Display, reason: impl std::fmt::Display) -> Self {
        Self::System { place: place.to_string(), reason: reason.to_string() }
    }
}
