//! A transport that signs requests.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderValue};
use reqsign_aws_v4::Credential;
use reqsign_core::Signer;
use sha2::{Digest as _, Sha256};
use turntree_core::http::{
    Credentials, HttpRequest, PreparedRequest, Transport, TransportError, TransportFuture, TransportLayer,
};

use super::credentials::AwsCredentials;
use super::platform::context;
use crate::dialects::common::hex;

const CONTENT_HASH: &str = "x-amz-content-sha256";

/// Signs requests for a service in a region. A request with an `Authorization` header is sent as it is.
///
/// Credentials are looked up for the first request and again before they expire. Each attempt has its own signature,
/// since a signature is valid for some minutes only.
#[derive(Debug, Clone)]
pub struct AwsSigning {
    signer: Arc<Signer<Credential>>,
}

impl AwsSigning {
    /// A layer that signs for a service, such as `bedrock`.
    pub fn new(service: &str, region: &str, credentials: &AwsCredentials) -> Self {
        Self { signer: Arc::new(credentials.signer(context(), service, region)) }
    }
}

impl TransportLayer for AwsSigning {
    fn layer(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Signed { inner, signer: Arc::clone(&self.signer) })
    }
}

#[derive(Debug)]
struct Signed {
    inner: Arc<dyn Transport>,
    signer: Arc<Signer<Credential>>,
}

impl Transport for Signed {
    fn send(&self, mut request: PreparedRequest) -> TransportFuture {
        if request.headers.contains_key(AUTHORIZATION) {
            return self.inner.send(request);
        }
        let (inner, signer) = (Arc::clone(&self.inner), Arc::clone(&self.signer));
        Box::pin(async move {
            sign(&signer, &mut request).await?;
            inner.send(request).await
        })
    }

    fn credentials(&self, request: &HttpRequest) -> Credentials {
        self.inner.credentials(request)
    }
}

/// Adds the signature and what belongs to it: date, hash of the body and session token.
async fn sign(signer: &Signer<Credential>, request: &mut PreparedRequest) -> Result<(), TransportError> {
    let wrong = |error: &dyn std::fmt::Display| TransportError::Rejected {
        message: format!("the request cannot be signed: {error}; check the base URL"),
    };
    // The signature is over the path encoded once more, and the signer expects the path encoded once.
    let mut url = request.url.clone();
    url.set_path(&request.url.path().replace('%', "%25"));
    let mut unsigned = http::Request::builder().method(request.method.clone()).uri(url.as_str());
    let hash = hex(&Sha256::digest(&request.body));
    let hash = HeaderValue::try_from(hash).map_err(|error| wrong(&error))?;
    unsigned = unsigned.header(CONTENT_HASH, hash);
    if let Some(kind) = request.headers.get(http::header::CONTENT_TYPE) {
        unsigned = unsigned.header(http::header::CONTENT_TYPE, kind);
    }
    let (mut head, ()) = unsigned.body(()).map_err(|error| wrong(&error))?.into_parts();
    signer.sign(&mut head, None).await.map_err(|error| TransportError::Unsigned {
        message: format!(
            "no usable credentials of AWS: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or \
             AWS_BEARER_TOKEN_BEDROCK, or give the machine a role"
        ),
    })?;
    for (name, mut value) in head.headers.into_iter().filter_map(|(name, value)| Some((name?, value))) {
        if name == http::header::HOST {
            continue;
        }
        value.set_sensitive(true);
        request.headers.insert(name, value);
    }
    Ok(())
}
