//! Certificates of authorities that the system does not know: companies' own, and those of tests.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use reqwest::Certificate;

use super::error::HttpError;

/// A bundle is a few hundred kilobytes; more is another file by mistake.
const MAX_BUNDLE: u64 = 16 * 1024 * 1024;

/// Certificates that are trusted beside those of the system. Checked when made; cloning shares them.
///
/// Without them, the system's store is asked, and on Linux `SSL_CERT_FILE` and `SSL_CERT_DIR` name another one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CaCertificates(Bytes);

impl CaCertificates {
    /// Takes one certificate or many in PEM, as in `-----BEGIN CERTIFICATE-----`.
    ///
    /// # Errors
    /// [`HttpError::Request`] when there is none, or one that does not parse.
    pub fn from_pem(pem: impl Into<Bytes>) -> Result<Self, HttpError> {
        let certificates = Self(pem.into());
        let count = certificates.certificates()?.len();
        if count == 0 {
            return Err(wrong("hold none; give them in PEM, beginning with -----BEGIN CERTIFICATE-----"));
        }
        // The builder alone looks inside a certificate.
        let builder = reqwest::Client::builder().no_proxy().tls_certs_only(certificates.certificates()?);
        super::client::install_tls();
        builder.build().map_err(|_| wrong("do not parse; check that the bundle is whole"))?;
        Ok(certificates)
    }

    /// Reads a PEM file. Blocks while it reads.
    ///
    /// # Errors
    /// [`HttpError::Request`] as [`CaCertificates::from_pem`], and when the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, HttpError> {
        let unreadable =
            |why: &dyn fmt::Display| wrong(&format!("cannot be read from {}: {why}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| unreadable(&error))?.len();
        if size > MAX_BUNDLE {
            return Err(unreadable(&format!("{size} bytes are no bundle of certificates")));
        }
        Self::from_pem(std::fs::read(path).map_err(|error| unreadable(&error))?)
    }

    pub(super) fn certificates(&self) -> Result<Vec<Certificate>, HttpError> {
        Certificate::from_pem_bundle(&self.0).map_err(|_| wrong("do not parse; give them in PEM"))
    }
}

impl fmt::Debug for CaCertificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CaCertificates({} bytes)", self.0.len())
    }
}

fn wrong(why: &str) -> HttpError {
    HttpError::Request { message: format!("the CA certificates {why}") }
}
