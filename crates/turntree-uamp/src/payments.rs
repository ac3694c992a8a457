//! The port to what decides about payments.
//!
//! Spec: UAMP-1.0 §7.2

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use turntree_server::Principal;

use crate::types::{Number, Payment, PaymentErrorCode, PaymentRequirements};

/// The response that may have to be paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRequest {
    /// The name of the agent.
    pub agent: Arc<str>,
    /// Who asks for the response.
    pub principal: Option<Principal>,
    /// The session, if the protocol has sessions.
    pub session_id: Option<Arc<str>>,
    /// The response.
    pub response_id: Arc<str>,
    /// The payment token that the client sent before it was asked to pay.
    pub payment_token: Option<Arc<str>>,
}

/// A payment that was accepted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PaymentReceipt {
    /// The id of the payment.
    pub payment_id: Option<String>,
    /// What remains of the client's balance, as a decimal number.
    pub balance_remaining: Option<String>,
    /// The currency of the balance.
    pub currency: Option<String>,
    /// When the balance expires, in seconds since 1970.
    pub expires_at: Option<Number>,
}

/// A payment that was refused.
#[derive(Debug, Clone, Default, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct PaymentRefusal {
    /// Why.
    pub code: PaymentErrorCode,
    /// What went wrong and what helps, for people.
    pub message: String,
    /// True if another payment can succeed: the response waits for it. Otherwise the response fails.
    pub can_retry: bool,
    /// The balance that is necessary, as a decimal number.
    pub balance_required: Option<String>,
    /// The balance of the client, as a decimal number.
    pub balance_current: Option<String>,
}

/// Decides whether responses must be paid, and checks payments.
///
/// # Cancel safety
/// The futures are dropped when the client cancels the response.
pub trait PaymentGate: fmt::Debug + Send + Sync + 'static {
    /// What must be paid before the agent starts; `None` for a response that is free or that the request's token pays.
    ///
    /// # Errors
    /// The response cannot be paid: it fails.
    fn required<'a>(
        &'a self,
        request: &'a PaymentRequest,
    ) -> BoxFuture<'a, Result<Option<PaymentRequirements>, PaymentRefusal>>;

    /// Checks a payment.
    ///
    /// # Errors
    /// The payment is refused.
    fn submit<'a>(
        &'a self,
        payment: Payment,
        request: &'a PaymentRequest,
    ) -> BoxFuture<'a, Result<PaymentReceipt, PaymentRefusal>>;
}
