//! How to reach a provider, from keyword arguments or from a dict. UPP-1.2 §9.

use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict, PyString};

use super::held::Held;
use super::keys::keys_from;
use super::retry::{seconds, strategy_from};
use crate::core::http::CaCertificates;
use crate::core::secret::Secret;
use crate::upp::ProviderConfig as CoreConfig;

/// Options of a provider, beside the model's own parameters. Times are seconds. Shows no key, ever.
#[pyclass(frozen, module = "turntree.upp")]
pub(crate) struct ProviderConfig {
    config: CoreConfig,
    held: Held,
}

#[pymethods]
impl ProviderConfig {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (config, held) = options.map_or_else(|| Ok(Default::default()), from_dict)?;
        Ok(Self { config, held })
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.config)
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature that pyo3 calls")]
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.held.traverse(&visit)
    }

    fn __clear__(&self) {
        self.held.clear();
    }
}

/// A configuration from an object or a dict, keys as Python or as the specification spells them; and what the
/// collector must see of it.
///
/// # Errors
/// `TypeError` naming an option that is unknown or of the wrong type.
pub(crate) fn config_from(value: &Bound<'_, PyAny>) -> PyResult<(CoreConfig, Held)> {
    if value.is_none() {
        return Ok(Default::default());
    }
    if let Ok(config) = value.cast::<ProviderConfig>() {
        let held = Held { objects: vec![value.clone().unbind()], ..Held::default() };
        return Ok((config.get().config.clone(), held));
    }
    let dict = value.cast::<PyDict>().map_err(|_| {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("config must be a ProviderConfig or a dict, not {found}"))
    })?;
    from_dict(dict)
}

fn from_dict(options: &Bound<'_, PyDict>) -> PyResult<(CoreConfig, Held)> {
    let (mut config, mut held) = (CoreConfig::default(), Held::default());
    for (name, value) in options.iter() {
        let name: String = name.extract()?;
        if !value.is_none() {
            set(&mut config, &mut held, &name, &value)?;
        }
    }
    Ok((config, held))
}

fn set(config: &mut CoreConfig, held: &mut Held, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "api_key" | "apiKey" => config.api_key = Some(keys_from(value, held)?),
        "base_url" | "baseUrl" => config.base_url = Some(url(value)?),
        "timeout" => config.timeout = Some(time(value, "timeout")?),
        "connect_timeout" | "connectTimeout" => {
            config.connect_timeout = Some(time(value, "connect_timeout")?)
        }
        "idle_timeout" | "idleTimeout" => config.idle_timeout = Some(time(value, "idle_timeout")?),
        "api_version" | "apiVersion" => config.api_version = Some(text(value, "api_version")?),
        "retry_strategy" | "retryStrategy" => config.retry_strategy = Some(strategy_from(value)?),
        "retry_after_max" | "retryAfterMaxSeconds" => {
            config.retry_after_max = Some(time(value, "retry_after_max")?);
        }
        "ca_certificates" | "caCertificates" => config.ca_certificates = Some(authorities(value)?),
        "headers" => set_headers(config, value)?,
        other => {
            let message = format!(
                "unknown option \"{other}\"; known are api_key, base_url, timeout, connect_timeout, idle_timeout, \
                 headers, api_version, retry_strategy, retry_after_max and ca_certificates"
            );
            return Err(PyTypeError::new_err(message));
        }
    }
    Ok(())
}

fn set_headers(config: &mut CoreConfig, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let headers =
        value.cast::<PyDict>().map_err(|_| PyTypeError::new_err("headers must be a dict of str"))?;
    for (name, value) in headers.iter() {
        let name = text(&name, "a header's name")?;
        let value = if value.is_none() {
            None
        } else {
            Some(Secret::from(text(&value, &format!("headers[\"{name}\"]"))?))
        };
        config.headers.push((name, value));
    }
    Ok(())
}

/// A text.
///
/// # Errors
/// `TypeError` naming it.
pub(crate) fn text(value: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("{what} must be a str, not {found}"))
    })?;
    Ok(text.to_str()?.to_owned())
}

fn url(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let url = text(value, "base_url")?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#'])) {
        return Ok(url);
    }
    Err(PyValueError::new_err("base_url must be an http or https URL as https://host/v1"))
}

/// Certificates of authorities: PEM as bytes, or the path of a file.
fn authorities(value: &Bound<'_, PyAny>) -> PyResult<CaCertificates> {
    let authorities = if let Ok(pem) = value.cast::<PyBytes>() {
        CaCertificates::from_pem(pem.as_bytes().to_vec())
    } else {
        let path: PathBuf = value.extract().map_err(|_| {
            let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
            PyTypeError::new_err(format!("ca_certificates must be a path or bytes in PEM, not {found}"))
        })?;
        value.py().detach(|| CaCertificates::from_file(&path))
    };
    authorities.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn time(value: &Bound<'_, PyAny>, what: &str) -> PyResult<std::time::Duration> {
    let number: f64 = value.extract().map_err(|_| {
        let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("{what} must be a number of seconds, not {found}"))
    })?;
    seconds(number, what)
}
