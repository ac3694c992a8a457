//! Errors of `turntree-upp` as Python exceptions, and back.

use std::error::Error;
use std::sync::{Arc, OnceLock};

use crate::prelude::*;
use pyo3::intern;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{IntoPyDict as _, PyDict};

use crate::bridge::gc::Collect;
use crate::bridge::gil;
use crate::error::{ToException, build, class};
use crate::python_exception::Raised;
use turntree_core::http::{HostFailure, HttpError};
use turntree_upp::{ErrorCode, UppError};

/// Cause of a `UppError`.
type Cause = Arc<dyn Error + Send + Sync>;

/// Converts errors of the layer above, such as session errors; returns `None` for others.
type Converter = fn(Python<'_>, &UppError) -> Option<PyErr>;

static CONVERTER: OnceLock<Converter> = OnceLock::new();

/// Registers the converter of the layer above. Called once, when the module is imported.
pub(crate) fn register_converter(converter: Converter) {
    let _ = CONVERTER.set(converter);
}

/// The exception of a failed call or run.
///
/// An exception that the application raised comes back as the same object; any other error becomes
/// `turntree.upp.UPPError` or the class that the layer above converts it to.
impl ToException for UppError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        if let Some(exception) = CONVERTER.get().and_then(|convert| convert(py, self)) {
            return exception;
        }
        match raised_by_host(self).or_else(|| raised_by_retry_strategy(self)) {
            Some(raised) => raised.error(py),
            None => build(upp_error(py, self, self.cause.as_ref(), None)),
        }
    }
}

/// The exception of a failed call or run.
pub(crate) fn to_exception(py: Python<'_>, error: &UppError) -> PyErr {
    error.to_exception(py)
}

/// The exception of the application that an error carries.
pub(crate) fn raised_by_host(error: &UppError) -> Option<&Raised> {
    error.host.as_deref()?.downcast_ref()
}

/// The exception that an error carries.
impl Collect for UppError {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        raised_by_host(self).map_or(Ok(()), |raised| raised.traverse(visit))
    }
}

/// An exception of the application's code as an error of the core.
pub(crate) fn to_host_failure(error: PyErr) -> HostFailure {
    let mut error = Some(error);
    let kept = gil::if_held(|py| error.take().map(|error| HostFailure::new(Raised::new(py, error))));
    kept.flatten().unwrap_or_else(|| {
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        HostFailure::new(std::io::Error::other(text))
    })
}

/// The exception of the application's own retry strategy, which is raised unchanged.
fn raised_by_retry_strategy(error: &UppError) -> Option<&Raised> {
    match error.cause.as_deref().and_then(|cause| cause.downcast_ref::<HttpError>()) {
        Some(HttpError::Host(failure)) => failure.downcast_ref(),
        _ => None,
    }
}

/// The exception of the application's code among the causes of an error.
fn raised_among<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a Raised> {
    let mut cause = Some(cause);
    while let Some(error) = cause {
        let host = || error.downcast_ref::<UppError>()?.host.as_deref()?.downcast_ref();
        if let Some(raised) = error.downcast_ref().or_else(host) {
            return Some(raised);
        }
        cause = error.source();
    }
    None
}

/// `turntree.upp.UPPError` with this cause; `partial` is the turn of a run that failed midway.
pub(crate) fn upp_error<'py>(
    py: Python<'py>,
    error: &UppError,
    cause: Option<&Cause>,
    partial: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = PyDict::new(py);
    options.set_item("provider", &error.provider)?;
    options.set_item("modality", error.modality.as_str())?;
    options.set_item("status_code", error.status_code)?;
    options.set_item("retry_after", error.retry_after)?;
    options.set_item("request_id", error.request_id.as_deref())?;
    if let Some(report) = &error.report {
        options.set_item("body", report.body.as_deref())?;
        options.set_item("vendor_code", report.vendor_code.as_deref())?;
        options.set_item("param", report.param.as_deref())?;
        if !report.headers.is_empty() {
            options.set_item("headers", report.headers.iter().cloned().into_py_dict(py)?)?;
        }
    }
    let raised = cause.and_then(|cause| raised_among(&**cause)).map(|raised| raised.value(py));
    match raised {
        Some(raised) => options.set_item("cause", raised)?,
        None => options.set_item("cause", cause.map(ToString::to_string))?,
    }
    options.set_item("partial", partial)?;
    let exception = class(py, "UPPError")?.call((&error.message, error.code.as_str()), Some(&options))?;
    if let Some(raised) = raised {
        exception.setattr(intern!(py, "__cause__"), raised)?;
    }
    Ok(exception)
}

/// Whether an exception is a `UPPError`.
pub(crate) fn is_upp_error(py: Python<'_>, raised: &PyErr) -> bool {
    class(py, "UPPError").is_ok_and(|class| raised.value(py).is_instance(&class).unwrap_or(false))
}

/// A Python exception as the error of a model, with the fields of a `UPPError`. Raised again as the same object.
pub(crate) fn from_exception(py: Python<'_>, raised: PyErr) -> UppError {
    let value = raised.value(py);
    let text =
        |name: &str| value.getattr(name).ok().and_then(|field| field.str().ok()).map(|text| text.to_string());
    let is_upp = is_upp_error(py, &raised);
    let code = if is_upp { text("code") } else { None };
    let code = ErrorCode::ALL.into_iter().find(|known| Some(known.as_str()) == code.as_deref());
    let message = if is_upp { text("message") } else { None };
    let message = message.unwrap_or_else(|| raised.to_string());
    let provider = if is_upp { text("provider") } else { None };
    let mut error =
        UppError::new(code.unwrap_or(ErrorCode::ProviderError), provider.unwrap_or_default(), message);
    error.status_code = value.getattr("status_code").ok().and_then(|status| status.extract().ok());
    error.host = Some(Arc::new(Raised::new(py, raised)));
    error
}
