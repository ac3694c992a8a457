//! Calls of a vendor's other APIs: counts of tokens, files, batches.

use crate::prelude::*;
use pyo3::exceptions::PyTypeError;

use super::model::ModelReference;
use super::recorded::write_response;
use super::request::ModelRequest;
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::error::{OrRaise as _, value_error};
use turntree_upp::http_model::{ApiCall, HttpModel};

/// A model of a vendor's HTTP API, for requests that are not model calls.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct VendorApi(HttpModel);

#[pymethods]
impl VendorApi {
    #[new]
    fn new(model: &Bound<'_, ModelReference>, config: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (config, _held) = super::config::config_from(config)?;
        match model.get().http_model(&config) {
            Some(model) => Ok(Self(model)),
            None => Err(PyTypeError::new_err("the model has no HTTP API")),
        }
    }

    /// Send a request with the key and the headers of the model and return the body of the response.
    fn call(
        slf: &Bound<'_, Self>,
        method: &str,
        path: String,
        body: Vec<u8>,
        content_type: String,
        headers: Vec<(String, String)>,
        root: String,
    ) -> PyResult<Coroutine> {
        let method = method.parse().map_err(value_error)?;
        let call = ApiCall { method, path, body: body.into(), content_type, headers, root };
        let model = slf.get().0.clone();
        Ok(Coroutine::new("call", GcRoots::new([slf.clone().into_any().unbind()]), async move {
            let body = model.call_api(call).await.or_raise_held()?;
            crate::bridge::gil::require_held(|py| {
                Ok(pyo3::types::PyBytes::new(py, &body).into_any().unbind())
            })
        }))
    }

    /// Path of the model's calls under the base URL.
    #[getter]
    fn path(&self) -> String {
        self.0.path()
    }

    /// Return the body that the model sends for a request, as JSON text.
    fn body(&self, request: &Bound<'_, ModelRequest>) -> PyResult<String> {
        let body = self.0.body(&request.get().0).or_raise(request.py())?;
        String::from_utf8(body).map_err(value_error)
    }

    /// Return a response of the vendor as the JSON text of a response.
    fn read(&self, request: &Bound<'_, ModelRequest>, body: &str) -> PyResult<String> {
        let py = request.py();
        let response = self.0.read(&request.get().0, body).or_raise(py)?;
        write_response(py, &response)
    }
}

/// Sign data with an RSA key by RS256. The key is PKCS#8 in DER.
#[pyfunction]
pub(crate) fn sign_rs256(key: &[u8], data: &[u8]) -> PyResult<Vec<u8>> {
    let refused = |()| {
        pyo3::exceptions::PyValueError::new_err("the private key is not an RSA key of 2048 bits or more")
    };
    let key = ring::signature::RsaKeyPair::from_pkcs8(key).map_err(|_| refused(()))?;
    let mut signature = vec![0; key.public().modulus_len()];
    let random = ring::rand::SystemRandom::new();
    key.sign(&ring::signature::RSA_PKCS1_SHA256, &random, data, &mut signature).map_err(|_| refused(()))?;
    Ok(signature)
}
