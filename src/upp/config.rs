//! Reads provider configurations from keyword arguments and dicts.
//!
//! Spec: UPP-1.2 §9.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyString};

use super::keys::keys_from;
use super::replay::Replay;
use super::retry::{seconds, strategy_from};
use crate::bridge::callbacks::Callbacks;
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil::lock;
use crate::error::wrong_type;
use turntree_core::http::{CaCertificates, Proxy};
use turntree_core::secret::Secret;
use turntree_upp::ProviderConfig as CoreConfig;

/// Names of all options in Python.
const OPTIONS: [&str; 15] = [
    "api_key",
    "base_url",
    "timeout",
    "connect_timeout",
    "idle_timeout",
    "total_timeout",
    "headers",
    "api_version",
    "retry_strategy",
    "retry_after_max",
    "max_concurrency",
    "proxy",
    "ca_certificates",
    "strict_schemas",
    "transport",
];

/// Configuration of a provider. Times are in seconds; missing options have the provider's defaults.
///
/// An agent's configuration overrides the configuration of its model. A repr never contains a key or the
/// value of a header.
///
/// Spec: UPP-1.2 §9.
#[pyclass(frozen, module = "turntree.upp")]
pub(crate) struct ProviderConfig {
    config: CoreConfig,
    held: Callbacks,
}

#[pymethods]
impl ProviderConfig {
    #[new]
    #[pyo3(signature = (base = None, /, **options))]
    fn new(base: Option<&Bound<'_, PyAny>>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (base, mut held) = base.map_or_else(|| Ok(Default::default()), config_from)?;
        let (config, more) =
            options.map_or_else(|| Ok(Default::default()), |given| from_items(given.as_any()))?;
        held.functions.extend(more.functions);
        held.objects.extend(more.objects);
        Ok(Self { config: config.over(&base), held })
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.config)
    }
}

garbage_collected!(ProviderConfig: held);

/// Reads a configuration from an object or a dict, with keys in snake_case or camelCase. Also returns the Python objects
/// that it holds, for the garbage collector.
///
/// # Errors
/// `TypeError` for an option that is unknown or has the wrong type; the message names it.
pub(crate) fn config_from(value: &Bound<'_, PyAny>) -> PyResult<(CoreConfig, Callbacks)> {
    if value.is_none() {
        return Ok(Default::default());
    }
    if let Ok(config) = value.cast::<ProviderConfig>() {
        let held = Callbacks { objects: vec![value.clone().unbind()], ..Callbacks::default() };
        return Ok((config.get().config.clone(), held));
    }
    if value.cast::<PyMapping>().is_err() {
        return Err(wrong_type(value, "config", "a ProviderConfig or a dict"));
    }
    from_items(value)
}

/// Reads a configuration from a mapping.
fn from_items(options: &Bound<'_, PyAny>) -> PyResult<(CoreConfig, Callbacks)> {
    let (mut config, mut held) = (CoreConfig::default(), Callbacks::default());
    for (name, value) in items(options)? {
        let name = text(&name, "the name of an option")?;
        if !value.is_none() {
            set(&mut config, &mut held, &name, &value)?;
        }
    }
    Ok((config, held))
}

fn set(config: &mut CoreConfig, held: &mut Callbacks, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "api_key" | "apiKey" => config.api_key = Some(keys_from(value, held)?),
        "base_url" | "baseUrl" => config.base_url = Some(url(value)?),
        "timeout" => config.timeout = Some(time(value, "timeout")?),
        "connect_timeout" | "connectTimeout" => {
            config.connect_timeout = Some(time(value, "connect_timeout")?)
        }
        "idle_timeout" | "idleTimeout" => config.idle_timeout = Some(time(value, "idle_timeout")?),
        "api_version" | "apiVersion" => config.api_version = Some(text(value, "api_version")?),
        "retry_strategy" | "retryStrategy" => config.retry_strategy = Some(strategy_from(value, held)?),
        "retry_after_max" | "retryAfterMaxSeconds" => {
            config.retry_after_max = Some(time(value, "retry_after_max")?);
        }
        "ca_certificates" | "caCertificates" => config.ca_certificates = Some(authorities(value)?),
        "headers" => set_headers(config, value)?,
        "total_timeout" | "totalTimeout" => config.total_timeout = Some(time(value, "total_timeout")?),
        "max_concurrency" | "maxConcurrency" => config.max_concurrency = Some(count(value)?),
        "strict_schemas" | "strictSchemas" => {
            let strict = value.extract();
            config.strict_schemas = Some(strict.map_err(|_| wrong_type(value, "strict_schemas", "a bool"))?);
        }
        "proxy" => config.proxy = Some(proxy(value)?),
        "transport" => {
            let replay = value.cast::<Replay>().map_err(|_| {
                let found = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
                PyTypeError::new_err(format!("transport must be a replay(\"…\"), not {found}"))
            })?;
            held.objects.push(value.clone().unbind());
            config.transport = Some(Arc::new(replay.get().core().clone()));
        }
        other => return Err(unknown(value.py(), other)?),
    }
    Ok(())
}

/// Pairs of a mapping, in its order.
fn items<'py>(mapping: &Bound<'py, PyAny>) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    mapping.call_method0(intern!(mapping.py(), "items"))?.try_iter()?.map(|pair| pair?.extract()).collect()
}

/// The error of an unknown option, with the most similar known option.
fn unknown(py: Python<'_>, name: &str) -> PyResult<PyErr> {
    let near: Vec<String> =
        py.import("difflib")?.call_method1("get_close_matches", (name, OPTIONS, 1))?.extract()?;
    let hint = near.first().map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
    let known = OPTIONS.join(", ");
    Ok(PyTypeError::new_err(format!("unknown option \"{name}\"{hint} Known are {known}")))
}

/// Reads a positive number of requests.
fn count(value: &Bound<'_, PyAny>) -> PyResult<NonZeroUsize> {
    let number: usize = value
        .extract()
        .map_err(|_| PyTypeError::new_err("max_concurrency must be a whole number of requests from 1"))?;
    NonZeroUsize::new(number)
        .ok_or_else(|| PyValueError::new_err("max_concurrency must be 1 at least, not 0"))
}

/// Reads the URL of a proxy, or "direct" for no proxy.
fn proxy(value: &Bound<'_, PyAny>) -> PyResult<Proxy> {
    let url = text(value, "proxy")?;
    if url == "direct" {
        return Ok(Proxy::Direct);
    }
    if url.starts_with("http://") || url.starts_with("https://") {
        return Ok(Proxy::Url(Secret::from(url)));
    }
    // The URL may contain a password, so the message omits it.
    Err(PyValueError::new_err("proxy must be an http or https URL as http://host:port, or \"direct\""))
}

/// Warns about an unencrypted URL, once per host.
///
/// # Errors
/// The warning itself, if Python turns warnings into errors.
///
/// Spec: UPP-1.2 §9.
pub(crate) fn warn_of_plain_http(py: Python<'_>, url: &str) -> PyResult<()> {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let Some(rest) = url.trim().strip_prefix("http://") else { return Ok(()) };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback
        || name == "localhost"
        || name.ends_with(".localhost")
        || !lock(&WARNED).insert(host.clone())
    {
        return Ok(());
    }
    let message =
        format!("http://{host} is not encrypted: keys and conversations can be read on the way; use https");
    let message = CString::new(message).map_err(|_| PyValueError::new_err("base_url must not hold NUL"))?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 2)
}

fn set_headers(config: &mut CoreConfig, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if value.cast::<PyMapping>().is_err() {
        return Err(PyTypeError::new_err("headers must be a dict of str"));
    }
    for (name, value) in items(value)? {
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

/// Reads a str.
///
/// # Errors
/// `TypeError` that names the argument.
pub(crate) fn text(value: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| wrong_type(value, what, "a str"))?;
    Ok(text.to_str()?.to_owned())
}

fn url(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let url = text(value, "base_url")?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#'])) {
        warn_of_plain_http(value.py(), &url)?;
        return Ok(url);
    }
    Err(PyValueError::new_err("base_url must be an http or https URL as https://host/v1"))
}

/// Reads the certificates of authorities: PEM as bytes, or the path of a file.
fn authorities(value: &Bound<'_, PyAny>) -> PyResult<CaCertificates> {
    let authorities = if let Ok(pem) = value.cast::<PyBytes>() {
        CaCertificates::from_pem(pem.as_bytes().to_vec())
    } else {
        let path: PathBuf =
            value.extract().map_err(|_| wrong_type(value, "ca_certificates", "a path or bytes in PEM"))?;
        value.py().detach(|| CaCertificates::from_file(&path))
    };
    authorities.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn time(value: &Bound<'_, PyAny>, what: &str) -> PyResult<std::time::Duration> {
    let number: f64 = value.extract().map_err(|_| wrong_type(value, what, "a number of seconds"))?;
    seconds(number, what)
}
