//! Payments of responses: a request without a payment that is necessary is refused with 402.
//!
//! Spec: UAMP-1.0 §7.2

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::json;
use turntree_server::Principal;

use super::error::ApiError;
use crate::agent::ServedAgent;
use crate::service::{PaymentRequest, Site};
use crate::types::ErrorCode;

/// The headers that can have the token of a payment.
const HEADERS: [&str; 2] = ["x-payment-token", "x-payment"];

/// The token of a payment: from a header, or from the parameter `payment_token` of the URL.
pub(in crate::wires) fn token(headers: &HeaderMap, query: Option<&str>) -> Option<Arc<str>> {
    let of_header = HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
    if let Some(token) = of_header {
        return Some(token.into());
    }
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, token) = pairs.find(|(name, _)| *name == "payment_token")?;
    Some(percent_decode_str(token).decode_utf8_lossy().into())
}

/// Checks that a response is free or paid.
///
/// # Errors
/// 402: a payment is necessary, or it was refused.
pub(in crate::wires) async fn check(
    site: &Site,
    agent: &ServedAgent,
    principal: Option<&Principal>,
    response_id: &str,
    payment_token: Option<Arc<str>>,
) -> Result<(), ApiError> {
    let Some(gate) = &site.payment_gate else { return Ok(()) };
    let request = PaymentRequest {
        agent: Arc::clone(agent.name()),
        principal: principal.cloned(),
        session_id: None,
        response_id: response_id.into(),
        payment_token,
    };
    let refused = |message: String| ApiError::new(StatusCode::PAYMENT_REQUIRED, message);
    match gate.required(&request).await {
        Ok(None) => Ok(()),
        Ok(Some(requirements)) => {
            let message = "a payment is necessary; send its token in the header X-Payment-Token";
            let error = refused(message.to_owned()).with_code(ErrorCode::PaymentRequired.as_str());
            Err(error.with_details(json!({ "requirements": requirements })))
        }
        Err(refusal) => Err(refused(refusal.message.clone()).with_code(refusal.code.as_str())),
    }
}

/// The token of the payment of a request.
pub(in crate::wires) fn token_of(parts: &Parts) -> Option<Arc<str>> {
    token(&parts.headers, parts.uri.query())
}
