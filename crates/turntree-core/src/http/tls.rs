//! Additional certificate authorities, for private networks and tests, and the TLS provider.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::error::HttpError;

/// Maximum size of a bundle. Real ones are a few hundred kilobytes.
const MAX_BUNDLE: u64 = 16 * 1024 * 1024;

/// Certificates of authorities that are trusted in addition to the system's. Cloning shares them.
///
/// Without them, the system's store is used; on Linux the environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// replace it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CaCertificates(Bytes);

impl CaCertificates {
    /// Takes one or more certificates in PEM (`-----BEGIN CERTIFICATE-----`) and checks them.
    ///
    /// # Errors
    /// [`HttpError::Request`] if there is no certificate, or one that does not parse.
    pub fn from_pem(pem: impl Into<Bytes>) -> Result<Self, HttpError> {
        let certificates = Self(pem.into());
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&certificates.0) {
            let certificate = certificate.map_err(|_| invalid("do not parse; give them in PEM"))?;
            store.add(certificate).map_err(|_| invalid("do not parse; check that the bundle is complete"))?;
        }
        if store.is_empty() {
            return Err(invalid(
                "contain no certificate; give them in PEM, beginning with -----BEGIN CERTIFICATE-----",
            ));
        }
        Ok(certificates)
    }

    /// Reads a PEM file. Blocks while it reads.
    ///
    /// # Errors
    /// [`HttpError::Request`] as [`CaCertificates::from_pem`], and if the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, HttpError> {
        let unreadable =
            |why: &dyn fmt::Display| invalid(&format!("cannot be read from {}: {why}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| unreadable(&error))?.len();
        if size > MAX_BUNDLE {
            return Err(unreadable(&format!("{size} bytes are too many for a bundle of certificates")));
        }
        Self::from_pem(std::fs::read(path).map_err(|error| unreadable(&error))?)
    }

    /// The PEM text.
    pub(super) fn pem(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CaCertificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CaCertificates({} bytes)", self.0.len())
    }
}

/// Selects `ring` as the process's TLS provider. If the process has one already, that one is used.
pub(super) fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An error about the certificates: `why` is the rest of the sentence.
pub(super) fn invalid(why: &str) -> HttpError {
    HttpError::Request { message: format!("the CA certificates {why}") }
}
