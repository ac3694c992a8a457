//! Certificate authorities, the TLS provider, and TLS for protocols other than HTTP.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

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
        certificates.roots()?;
        Ok(certificates)
    }

    fn roots(&self) -> Result<RootCertStore, HttpError> {
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.0) {
            let certificate = certificate.map_err(|_| invalid("do not parse; give them in PEM"))?;
            store.add(certificate).map_err(|_| invalid("do not parse; check that the bundle is complete"))?;
        }
        if store.is_empty() {
            return Err(invalid(
                "contain no certificate; give them in PEM, beginning with -----BEGIN CERTIFICATE-----",
            ));
        }
        Ok(store)
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
    pub fn pem(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CaCertificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CaCertificates({} bytes)", self.0.len())
    }
}

/// Which servers a TLS connection of [`client_config`] trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTrust {
    /// Any server. The connection is encrypted, but a man in the middle is not noticed.
    Any,
    /// Servers with a certificate of these authorities, whatever name it has.
    Authority(CaCertificates),
    /// Servers with a certificate for their name, of these authorities or, without them, of the system's.
    AuthorityAndName(Option<CaCertificates>),
}

/// Makes the TLS configuration for a client of a protocol other than HTTP. `protocol` is the name for ALPN.
///
/// Reads the system's certificates if `trust` needs them, and blocks while it does.
///
/// # Errors
/// [`HttpError::Request`] if there are no certificate authorities.
pub fn client_config(trust: ServerTrust, protocol: &[u8]) -> Result<rustls::ClientConfig, HttpError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let failed = |error: &dyn fmt::Display| invalid(&format!("cannot be used: {error}"));
    let from_roots = |certificates: &CaCertificates| {
        WebPkiServerVerifier::builder_with_provider(Arc::new(certificates.roots()?), Arc::clone(&provider))
            .build()
            .map_err(|error| failed(&error))
    };
    let chain: Option<Arc<dyn ServerCertVerifier>> = match &trust {
        ServerTrust::Any => None,
        ServerTrust::Authority(certificates) | ServerTrust::AuthorityAndName(Some(certificates)) => {
            Some(from_roots(certificates)?)
        }
        ServerTrust::AuthorityAndName(None) => {
            Some(Arc::new(Verifier::new(Arc::clone(&provider)).map_err(|error| failed(&error))?))
        }
    };
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .dangerous();
    let verifier: Arc<dyn ServerCertVerifier> = match (trust, chain) {
        (ServerTrust::AuthorityAndName(_), Some(chain)) => chain,
        (_, chain) => Arc::new(AnyName { provider, chain }),
    };
    let mut config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// Verifies the chain of a certificate, if one is given, but not its name. The signatures of the handshake are always
/// verified.
#[derive(Debug)]
struct AnyName {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<dyn ServerCertVerifier>>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is the last thing that the verifier checks.
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Selects `ring` as the process's TLS provider. If the process has one already, that one is used.
pub fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An error about the certificates: `why` is the rest of the sentence.
pub(super) fn invalid(why: &str) -> HttpError {
    HttpError::Request { message: format!("the CA certificates {why}") }
}
