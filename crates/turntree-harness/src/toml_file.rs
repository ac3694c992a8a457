//! Reading of TOML files.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::HarnessError;

/// Reads the text of a file.
///
/// # Errors
/// [`HarnessError::Invalid`] with the file and the place in it.
pub(crate) fn parse<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, HarnessError> {
    toml::from_str(text)
        .map_err(|error| HarnessError::Invalid(format!("{}: {}", file.display(), error.to_string().trim())))
}
