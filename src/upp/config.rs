//! Reads provider configurations from keyword arguments and dicts.
//!
//! Spec: UPP-1.2 §9.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::intern;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyMapping, PyString};

use super::keys::keys_from;
use super::replay::Replay;
use super::retry::{seconds, strategy_from};
use super::transport::{signer_from, transport_from};
use crate::bridge::callbacks::Callbacks;
use crate::bridge::gc::garbage_collected;
use crate::bridge::gil::lock;
use crate::convert::text::text_of;
use crate::error::wrong_type;
use turntree_core::http::{CaCertificates, Http2, Proxy};
use turntree_core::secret::Secret;
use turntree_upp::ProviderConfig as CoreConfig;

/// Names of all options in Python.
const OPTIONS: [&str; 19] = [
    "api_key",
    "auth",
    "base_url",
    "timeout",
    "connect_timeout",
    "idle_timeout",
    "total_timeout",
    "headers",
    "api_version",
    "max_retries",
    "retry_strategy",
    "retry_after_max",
    "max_concurrency",
    "max_connections",
    "http2",
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
        let (base, mut held) =
            base.map_or_else(|| Ok(Default::default()), |base| config_named(base, "base"))?;
        let (config, more) =
            options.map_or_else(|| Ok(Default::default()), |given| from_items(given.as_any()))?;
        held.functions.extend(more.functions);
        held.objects.extend(more.objects);
        Ok(Self { config: config.over(&base), held })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        repr_of(py, &self.config)
    }
}

garbage_collected!(ProviderConfig: held);

/// The options that are set, as arguments. Keys, values of headers and other objects are not shown.
fn repr_of(py: Python<'_>, config: &CoreConfig) -> PyResult<String> {
    let seconds = |time: Option<Duration>| time.map(|time| format!("{:?}", time.as_secs_f64()));
    let text = |text: Option<&str>| {
        text.map(|text| PyString::new(py, text).repr().map(|text| text.to_string())).transpose()
    };
    let hidden = |is_set: bool, sign: &str| is_set.then(|| sign.to_owned());
    let count = |count: Option<NonZeroUsize>| count.map(|count| count.to_string());
    let names: Vec<&str> = config.headers.iter().map(|(name, _)| name.as_str()).collect();
    let headers = if names.is_empty() { None } else { Some(PyList::new(py, names)?.repr()?.to_string()) };
    let options = [
        ("api_key", hidden(config.api_key.is_some(), "***")),
        ("auth", hidden(config.auth.is_some() || config.signer.is_some(), "***")),
        ("base_url", text(config.shown_base_url().as_deref())?),
        ("timeout", seconds(config.timeout)),
        ("connect_timeout", seconds(config.connect_timeout)),
        ("idle_timeout", seconds(config.idle_timeout)),
        ("total_timeout", seconds(config.total_timeout)),
        ("headers", headers),
        ("api_version", text(config.api_version.as_deref())?),
        ("max_retries", config.max_retries.map(|retries| retries.to_string())),
        ("retry_strategy", hidden(config.retry_strategy.is_some(), "...")),
        ("retry_after_max", seconds(config.retry_after_max)),
        ("max_concurrency", count(config.max_concurrency)),
        ("max_connections", count(config.max_connections)),
        ("http2", hidden(config.http2.is_some(), "...")),
        ("proxy", hidden(config.proxy.is_some(), "...")),
        ("ca_certificates", hidden(config.ca_certificates.is_some(), "...")),
        (
            "strict_schemas",
            config.strict_schemas.map(|is_strict| if is_strict { "True" } else { "False" }.to_owned()),
        ),
        ("transport", hidden(config.transport.is_some(), "...")),
    ];
    let shown = options.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    Ok(format!("ProviderConfig({})", shown.collect::<Vec<_>>().join(", ")))
}

/// Reads a configuration from an object or a dict, with keys in snake_case or camelCase. Also returns the Python objects
/// that it holds, for the garbage collector.
///
/// # Errors
/// `TypeError` for an option that is unknown or has the wrong type; the message names it.
pub(crate) fn config_from(value: &Bound<'_, PyAny>) -> PyResult<(CoreConfig, Callbacks)> {
    config_named(value, "config")
}

/// As [`config_from`], for an argument with this name.
fn config_named(value: &Bound<'_, PyAny>, what: &str) -> PyResult<(CoreConfig, Callbacks)> {
    if value.is_none() {
        return Ok(Default::default());
    }
    if let Ok(config) = value.cast::<ProviderConfig>() {
        let held = Callbacks { objects: vec![value.clone().unbind()], ..Callbacks::default() };
        return Ok((config.get().config.clone(), held));
    }
    if value.cast::<PyMapping>().is_err() {
        return Err(wrong_type(value, what, "a ProviderConfig or a dict"));
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
        "max_concurrency" | "maxConcurrency" => {
            config.max_concurrency = Some(count(value, "max_concurrency", "requests")?)
        }
        "max_connections" | "maxConnections" => {
            config.max_connections = Some(count(value, "max_connections", "connections")?);
        }
        "http2" => config.http2 = Some(versions(value)?),
        "strict_schemas" | "strictSchemas" => {
            let strict = value.extract();
            config.strict_schemas = Some(strict.map_err(|_| wrong_type(value, "strict_schemas", "a bool"))?);
        }
        "proxy" => config.proxy = Some(proxy(value)?),
        "transport" => set_transport(config, held, value)?,
        "auth" => set_auth(config, held, value)?,
        "max_retries" | "maxRetries" => config.max_retries = Some(retries(value)?),
        other => return Err(unknown(value.py(), other)?),
    }
    Ok(())
}

/// Reads a recording, or a transport of the application.
fn set_transport(config: &mut CoreConfig, held: &mut Callbacks, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(replay) = value.cast::<Replay>() {
        held.objects.push(value.clone().unbind());
        config.transport = Some(Arc::new(replay.get().core().clone()));
        return Ok(());
    }
    let (transport, function) = transport_from(value)?;
    held.functions.push(function);
    config.transport = Some(Arc::new(transport));
    Ok(())
}

/// Reads a token, a function that returns one, or a signer.
fn set_auth(config: &mut CoreConfig, held: &mut Callbacks, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let signs = value.getattr_opt("sign")?.is_some_and(|sign| sign.is_callable());
    if signs && !value.is_instance_of::<PyString>() {
        let (signer, function) = signer_from(value)?;
        held.functions.push(function);
        config.signer = Some(Arc::new(signer));
        return Ok(());
    }
    let source = value.py().import("turntree.upp._auth")?.getattr("token_source")?.call1((value,))?;
    config.auth = Some(keys_from(&source, held)?);
    Ok(())
}

/// Reads a number of retries from 0.
fn retries(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let number: Option<u32> = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
    number.ok_or_else(|| PyTypeError::new_err("max_retries must be a whole number of retries from 0"))
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
    let end = if hint.is_empty() { "." } else { "" };
    Ok(PyTypeError::new_err(format!("unknown option \"{name}\"{hint}{end} Known are {known}")))
}

/// Reads a positive number.
fn count(value: &Bound<'_, PyAny>, name: &str, unit: &str) -> PyResult<NonZeroUsize> {
    // True and false are integers in Python.
    let number: Option<usize> = value.extract().ok().filter(|_| !value.is_instance_of::<PyBool>());
    let number = number
        .ok_or_else(|| PyTypeError::new_err(format!("{name} must be a whole number of {unit} from 1")))?;
    NonZeroUsize::new(number)
        .ok_or_else(|| PyValueError::new_err(format!("{name} must be 1 at least, not 0")))
}

/// Reads which versions of HTTP are used: `True`, `False` or "only".
fn versions(value: &Bound<'_, PyAny>) -> PyResult<Http2> {
    if let Ok(negotiated) = value.cast::<PyBool>() {
        return Ok(if negotiated.is_true() { Http2::Negotiated } else { Http2::Disabled });
    }
    match value.cast::<PyString>() {
        Ok(name) if name.to_str()? == "only" => Ok(Http2::PriorKnowledge),
        Ok(_) => Err(PyValueError::new_err("http2 must be True, False or \"only\"")),
        Err(_) => Err(wrong_type(value, "http2", "True, False or \"only\"")),
    }
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
    text_of(text, what)
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
