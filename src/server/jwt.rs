//! `JwtAuthenticator`: JSON Web Tokens with the keys of their issuer, checked without Python.

use std::sync::Arc;
use std::time::Duration;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::PyString;
use serde_json::Value;

use crate::bridge::coroutine::Coroutine;
use crate::bridge::gc::GcRoots;
use crate::bridge::gil;
use crate::convert::json::json_to_python;
use crate::convert::text::text_of;
use crate::error::{OrRaise as _, value_error, wrong_type};
use turntree_server::{Authenticator as _, JwtAlgorithm, JwtAuthenticator, JwtConfig};

/// The algorithms by the names of RFC 7518.
const ALGORITHMS: [(&str, JwtAlgorithm); 9] = [
    ("RS256", JwtAlgorithm::Rs256),
    ("RS384", JwtAlgorithm::Rs384),
    ("RS512", JwtAlgorithm::Rs512),
    ("PS256", JwtAlgorithm::Ps256),
    ("PS384", JwtAlgorithm::Ps384),
    ("PS512", JwtAlgorithm::Ps512),
    ("ES256", JwtAlgorithm::Es256),
    ("ES384", JwtAlgorithm::Es384),
    ("EdDSA", JwtAlgorithm::EdDsa),
];

/// Accepts JSON Web Tokens of one issuer, as the argument ``auth`` of a server. The principal is the claim ``sub``.
///
/// Tokens are checked without Python, with the keys that the issuer publishes. The signature, ``exp``, ``nbf``, ``iss``
/// and ``aud`` are checked; a token without ``exp``, ``iss``, ``aud`` or ``sub`` is refused. The keys are fetched with the
/// first token, and again when they are old or a token names an unknown one. Requests are answered with 503 while there
/// are no keys.
#[pyclass(frozen, module = "turntree.uaip", name = "JwtAuthenticator")]
pub(crate) struct PyJwtAuthenticator {
    native: Arc<JwtAuthenticator>,
    description: String,
}

impl PyJwtAuthenticator {
    pub(crate) fn native(&self) -> &Arc<JwtAuthenticator> {
        &self.native
    }
}

#[pymethods]
impl PyJwtAuthenticator {
    #[new]
    #[pyo3(signature = (jwks_url, *, issuer, audience, algorithms = None, leeway = 60.0, max_age = 600.0))]
    fn new(
        jwks_url: String,
        issuer: String,
        audience: &Bound<'_, PyAny>,
        algorithms: Option<Vec<String>>,
        leeway: f64,
        max_age: f64,
    ) -> PyResult<Self> {
        let mut config = JwtConfig::new(jwks_url, issuer, "");
        config.audiences = if audience.is_instance_of::<PyString>() {
            vec![text_of(audience, "audience")?]
        } else {
            let wrong = |error: PyErr| {
                let is_type = error.is_instance_of::<PyTypeError>(audience.py());
                if is_type { wrong_type(audience, "audience", "a str or a list of str") } else { error }
            };
            text_of(audience, "audience").map_err(wrong)?
        };
        if let Some(names) = algorithms {
            config.algorithms = names.iter().map(|name| algorithm(name)).collect::<PyResult<_>>()?;
        }
        config.leeway = seconds("leeway", leeway)?;
        config.max_age = seconds("max_age", max_age)?;
        let description = format!(
            "JwtAuthenticator({:?}, issuer={:?}, audience={:?})",
            config.jwks_url, config.issuer, config.audiences
        );
        Ok(Self { native: Arc::new(JwtAuthenticator::new(config).map_err(value_error)?), description })
    }

    /// Return the claims of a token, or None if it is not valid.
    ///
    /// Raises RuntimeError if it cannot be checked, because there are no keys.
    fn __call__(&self, token: String) -> Coroutine {
        let native = Arc::clone(&self.native);
        Coroutine::new("JwtAuthenticator", GcRoots::default(), async move {
            let principal = native.authenticate(&token).await.or_raise_held()?;
            gil::require_held(|py| match principal {
                Some(principal) => json_to_python(py, &Value::Object(principal.claims().clone()).to_string()),
                None => Ok(py.None()),
            })
        })
    }

    fn __repr__(&self) -> &str {
        &self.description
    }
}

fn algorithm(name: &str) -> PyResult<JwtAlgorithm> {
    let found = ALGORITHMS.iter().find(|(known, _)| *known == name);
    found.map(|(_, algorithm)| *algorithm).ok_or_else(|| {
        let known = ALGORITHMS.map(|(known, _)| known).join(", ");
        PyValueError::new_err(format!(
            "algorithms: \"{name}\" is unknown, or has a secret that the issuer cannot publish; the algorithms are {known}"
        ))
    })
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("{name} must be a number of seconds from 0, not {value}")))
}
