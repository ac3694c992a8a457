//! `payment_gate=`: a Python object that decides about payments.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::types::{PyDict, PyTuple};
use serde::Deserialize;

use crate::bridge::callbacks::PyCallback;
use crate::bridge::gil;
use crate::convert::json::{json_to_python, to_raw};
use crate::error::{value_error, wrong_type};
use crate::server::access_log;
use crate::server::event_loop::ServerLoop;
use turntree_core::json::RawJson;
use turntree_uamp::payments::{PaymentGate, PaymentReceipt, PaymentRefusal, PaymentRequest};
use turntree_uamp::types::{Number, Payment, PaymentErrorCode, PaymentRequirements};

/// The methods of a gate.
#[derive(Clone)]
pub(super) struct GateMethods {
    required: Arc<PyCallback>,
    submit: Arc<PyCallback>,
}

impl GateMethods {
    /// Reads the argument `payment_gate`.
    ///
    /// # Errors
    /// `TypeError` for an object without the methods `required` and `submit`.
    pub(super) fn new(gate: &Bound<'_, PyAny>) -> PyResult<Self> {
        let method = |name: &str| {
            let found = gate.getattr_opt(name)?.filter(Bound::is_callable);
            let found = found.ok_or_else(|| {
                let class = gate.get_type();
                PyTypeError::new_err(format!(
                    "payment_gate must have the methods required(request) and submit(payment, request); {class} has \
                     no {name}"
                ))
            })?;
            PyCallback::patient(&found)
        };
        Ok(Self { required: method("required")?, submit: method("submit")? })
    }

    /// What the garbage collector sees.
    pub(super) fn callbacks(&self) -> [Arc<PyCallback>; 2] {
        [Arc::clone(&self.required), Arc::clone(&self.submit)]
    }
}

/// Calls the methods of a gate: async ones on the server's loop, others in a thread.
pub(super) struct PyPaymentGate {
    methods: GateMethods,
    server_loop: ServerLoop,
}

impl PyPaymentGate {
    pub(super) const fn new(methods: GateMethods, server_loop: ServerLoop) -> Self {
        Self { methods, server_loop }
    }

    /// Calls a method on the thread of the event loop, and reads what it returns.
    async fn call<T: Send + 'static>(
        &self,
        method: &Arc<PyCallback>,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>> + Send + 'static,
        read: fn(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, PaymentRefusal> {
        let (method, server_loop) = (Arc::clone(method), self.server_loop.clone());
        let call = async move {
            let call = gil::require_held(|py| method.call_from(py, arguments(py)?, &server_loop.caller(py)?));
            let value = match call {
                Ok(call) => call.await,
                Err(error) => Err(error),
            };
            let outcome = gil::require_held(|py| {
                let read = value.and_then(|value| read(value.bind(py)));
                Ok(read.map_err(|error| refusal_of(py, &error)))
            });
            outcome.unwrap_or_else(|_| Err(unavailable()))
        };
        let closed = || Err(unavailable());
        self.server_loop.run("payment_gate", call).await.unwrap_or_else(closed)
    }
}

impl fmt::Debug for PyPaymentGate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PyPaymentGate").finish_non_exhaustive()
    }
}

impl PaymentGate for PyPaymentGate {
    fn required<'a>(
        &'a self,
        request: &'a PaymentRequest,
    ) -> BoxFuture<'a, Result<Option<PaymentRequirements>, PaymentRefusal>> {
        let request = request.clone();
        Box::pin(async move {
            let arguments =
                move |py: Python<'_>| Ok(PyTuple::new(py, [request_to_python(py, &request)?])?.unbind());
            let required = self.call(&self.methods.required, arguments, requirements_of).await;
            // Without requirements there is nothing that the client could pay.
            required.map_err(|refusal| PaymentRefusal { can_retry: false, ..refusal })
        })
    }

    fn submit<'a>(
        &'a self,
        payment: Payment,
        request: &'a PaymentRequest,
    ) -> BoxFuture<'a, Result<PaymentReceipt, PaymentRefusal>> {
        let request = request.clone();
        Box::pin(async move {
            let arguments = move |py: Python<'_>| {
                let text = turntree_core::json::write(&payment).map_err(value_error)?;
                let payment = json_to_python(py, &text)?.into_bound(py);
                Ok(PyTuple::new(py, [payment, request_to_python(py, &request)?])?.unbind())
            };
            self.call(&self.methods.submit, arguments, receipt_of).await
        })
    }
}

/// A `turntree.uamp.PaymentRequest`.
fn request_to_python<'py>(py: Python<'py>, request: &PaymentRequest) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import(intern!(py, "turntree.uamp._payments"))?.getattr(intern!(py, "PaymentRequest"))?;
    let members = PyDict::new(py);
    members.set_item(intern!(py, "agent"), &*request.agent)?;
    let principal = request.principal.as_ref();
    members.set_item(intern!(py, "principal"), principal.map(turntree_server::Principal::id))?;
    let claims = principal.map(|principal| serde_json::to_string(principal.claims())).transpose();
    let claims = claims.map_err(value_error)?.unwrap_or_else(|| "{}".to_owned());
    members.set_item(intern!(py, "claims"), json_to_python(py, &claims)?)?;
    members.set_item(intern!(py, "session_id"), request.session_id.as_deref())?;
    members.set_item(intern!(py, "response_id"), &*request.response_id)?;
    members.set_item(intern!(py, "payment_token"), request.payment_token.as_deref())?;
    class.call((), Some(&members))
}

/// What `required` returns: None, or the requirements.
fn requirements_of(value: &Bound<'_, PyAny>) -> PyResult<Option<PaymentRequirements>> {
    if value.is_none() {
        return Ok(None);
    }
    let expected = "None, or a dict with amount and currency";
    let raw = object_of(value, "the result of payment_gate.required()", expected)?;
    raw.to().map(Some).map_err(|error| value_error(format!("the result of payment_gate.required(): {error}")))
}

/// The members of what `submit` returns.
#[derive(Deserialize)]
struct Receipt {
    payment_id: Option<String>,
    balance_remaining: Option<String>,
    currency: Option<String>,
    expires_at: Option<Number>,
}

/// What `submit` returns: None, or the receipt.
fn receipt_of(value: &Bound<'_, PyAny>) -> PyResult<PaymentReceipt> {
    if value.is_none() {
        return Ok(PaymentReceipt::default());
    }
    let expected = "None, or a dict with payment_id, balance_remaining, currency and expires_at";
    let raw = object_of(value, "the result of payment_gate.submit()", expected)?;
    let receipt: Receipt =
        raw.to().map_err(|error| value_error(format!("the result of payment_gate.submit(): {error}")))?;
    let Receipt { payment_id, balance_remaining, currency, expires_at } = receipt;
    Ok(PaymentReceipt { payment_id, balance_remaining, currency, expires_at })
}

fn object_of(value: &Bound<'_, PyAny>, what: &str, expected: &str) -> PyResult<RawJson> {
    let raw = to_raw(value, what)?;
    if raw.is_object() { Ok(raw) } else { Err(wrong_type(value, what, expected)) }
}

/// The refusal of a `PaymentError`. Any other exception is a fault of the application: it is logged.
fn refusal_of(py: Python<'_>, error: &PyErr) -> PaymentRefusal {
    read_refusal(py, error).unwrap_or_else(|_| {
        access_log::exception(py, "the payment gate failed; the payment is refused", error);
        unavailable()
    })
}

fn read_refusal(py: Python<'_>, error: &PyErr) -> PyResult<PaymentRefusal> {
    let class = py.import(intern!(py, "turntree.uamp._payments"))?.getattr(intern!(py, "PaymentError"))?;
    let value = error.value(py);
    if !value.is_instance(&class)? {
        return Err(PyTypeError::new_err("not a PaymentError"));
    }
    let code: String = value.getattr(intern!(py, "code"))?.extract()?;
    Ok(PaymentRefusal {
        code: code.as_str().into(),
        message: value.getattr(intern!(py, "message"))?.extract()?,
        can_retry: value.getattr(intern!(py, "can_retry"))?.extract()?,
        balance_required: value.getattr(intern!(py, "balance_required"))?.extract()?,
        balance_current: value.getattr(intern!(py, "balance_current"))?.extract()?,
    })
}

fn unavailable() -> PaymentRefusal {
    PaymentRefusal {
        code: PaymentErrorCode::PaymentFailed,
        message: "the payment could not be checked; try again later".to_owned(),
        can_retry: true,
        ..PaymentRefusal::default()
    }
}
