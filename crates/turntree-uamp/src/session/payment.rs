//! Payments of responses, and time limits.
//!
//! Spec: UAMP-1.0 §7.2

use super::core::SessionCore;
use super::effect::{Effect, PaymentOutcome, WaitsFor};
use super::stream::{Active, Stage};
use crate::event::{PaymentAccepted, PaymentBalance, PaymentError, PaymentRequired, PaymentSubmit};
use crate::payments::{PaymentReceipt, PaymentRefusal};
use crate::types::{ErrorCode, ErrorDetails};

impl SessionCore {
    /// Takes the decision of the payment gate. A decision about a response that has ended has no effect.
    pub fn on_payment(&mut self, response_id: &str, outcome: PaymentOutcome) -> Vec<Effect> {
        let Some(mut active) = self.active.take_if(|active| active.id == response_id) else {
            return Vec::new();
        };
        let stage = std::mem::replace(&mut active.stage, Stage::Running);
        let (Stage::CheckingPayment(request) | Stage::AwaitingPayment(request)) = stage else {
            self.active = Some(active);
            return Vec::new();
        };
        let id = Some(active.id.clone());
        let effects = match outcome {
            PaymentOutcome::NotRequired => vec![Effect::Start(request)],
            PaymentOutcome::Required(requirements) => {
                active.stage = Stage::AwaitingPayment(request);
                let required = PaymentRequired {
                    response_id: id,
                    requirements: *requirements,
                    ..PaymentRequired::default()
                };
                vec![self.send(required)]
            }
            PaymentOutcome::Accepted(receipt) => {
                let accepted = self.send(accepted(id, &receipt));
                active.receipt = Some(receipt);
                vec![accepted, Effect::Start(request)]
            }
            PaymentOutcome::Refused(refusal) => {
                let refused = self.send(refused(id, &refusal));
                if !refusal.can_retry {
                    let error = ErrorDetails::new(ErrorCode::PaymentRequired, refusal.message);
                    let mut effects = vec![refused];
                    effects.extend(self.fail(&mut active, error));
                    return self.start_waiting(effects);
                }
                active.stage = Stage::AwaitingPayment(request);
                vec![refused]
            }
        };
        self.active = Some(active);
        effects
    }

    pub(super) fn submit(&mut self, submit: PaymentSubmit, reply_to: Option<String>) -> Vec<Effect> {
        let waiting = self.active.as_mut().filter(|active| matches!(active.stage, Stage::AwaitingPayment(_)));
        let Some(active) = waiting else {
            let message = "no response waits for a payment".to_owned();
            return vec![self.response_error(ErrorCode::ResponseNotActive, message, reply_to)];
        };
        // A second payment is refused while the first one is checked.
        let stage = std::mem::replace(&mut active.stage, Stage::Running);
        if let Stage::AwaitingPayment(request) = stage {
            active.stage = Stage::CheckingPayment(request);
        }
        vec![Effect::SubmitPayment { response_id: active.id.clone(), payment: Box::new(submit.payment) }]
    }

    /// What the session waits for.
    pub fn waits_for(&self) -> WaitsFor {
        match &self.active {
            None => WaitsFor::Client,
            Some(active) => match active.stage {
                Stage::AwaitingPayment(_) => WaitsFor::Payment,
                Stage::Running if active.calls.iter().any(|(_, result)| result.is_none()) => {
                    WaitsFor::ToolResults
                }
                Stage::Running | Stage::CheckingPayment(_) => WaitsFor::Agent,
            },
        }
    }

    /// Takes the end of a time limit for what the session waits for. [`WaitsFor::Agent`] has none here: models and tools
    /// have their own.
    pub fn on_timeout(&mut self, waits_for: WaitsFor) -> Vec<Effect> {
        if self.is_closed() || self.waits_for() != waits_for {
            return Vec::new();
        }
        let (code, message) = match waits_for {
            WaitsFor::Agent => return Vec::new(),
            WaitsFor::Client => {
                let message = "the session was idle for too long; create a new one".to_owned();
                let mut effects = vec![self.session_error(ErrorCode::Timeout, message, None)];
                effects.extend(self.end(Some("timeout")));
                return effects;
            }
            WaitsFor::ToolResults => {
                (ErrorCode::ToolTimeout, "the results of the client's tools did not arrive in time")
            }
            WaitsFor::Payment => (ErrorCode::PaymentTimeout, "the payment did not arrive in time"),
        };
        let Some(mut active) = self.active.take() else { return Vec::new() };
        let mut effects = vec![Effect::Cancel { response_id: active.id.clone() }];
        effects.extend(self.fail(&mut active, ErrorDetails::new(code, message)));
        self.start_waiting(effects)
    }

    /// The balance after a response that was paid.
    pub(super) fn balance(&mut self, active: &mut Active) -> Option<Effect> {
        let receipt = active.receipt.take()?;
        let balance = PaymentBalance {
            balance: receipt.balance_remaining?,
            currency: receipt.currency,
            expires_at: receipt.expires_at,
            ..PaymentBalance::default()
        };
        Some(self.send(balance))
    }
}

fn accepted(response_id: Option<String>, receipt: &PaymentReceipt) -> PaymentAccepted {
    PaymentAccepted {
        response_id,
        payment_id: receipt.payment_id.clone(),
        balance_remaining: receipt.balance_remaining.clone(),
        expires_at: receipt.expires_at.clone(),
        ..PaymentAccepted::default()
    }
}

fn refused(response_id: Option<String>, refusal: &PaymentRefusal) -> PaymentError {
    PaymentError {
        response_id,
        code: refusal.code.clone(),
        message: refusal.message.clone(),
        balance_required: refusal.balance_required.clone(),
        balance_current: refusal.balance_current.clone(),
        can_retry: Some(refusal.can_retry),
        ..PaymentError::default()
    }
}
