//! Events of payments.
//!
//! Spec: UAMP-1.0 §7.2

use crate::types::{Number, Payment, PaymentErrorCode, PaymentRequirements};

event! {
    /// The client pays.
    PaymentSubmit = "payment.submit" {
        /// The payment.
        pub payment: Payment = "payment",
    }
}

event! {
    /// The response waits for a payment.
    PaymentRequired = "payment.required" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// What must be paid.
        pub requirements: PaymentRequirements = "requirements",
    }
}

event! {
    /// The payment is valid.
    PaymentAccepted = "payment.accepted" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// The id of the payment.
        pub payment_id: Option<String> = "payment_id",
        /// What remains, as a decimal number.
        pub balance_remaining: Option<String> = "balance_remaining",
        /// When the balance expires, in seconds since 1970.
        pub expires_at: Option<Number> = "expires_at",
    }
}

event! {
    /// The balance of the client.
    PaymentBalance = "payment.balance" {
        /// The balance as a decimal number.
        pub balance: String = "balance",
        /// The currency.
        pub currency: Option<String> = "currency",
        /// True if the balance is low.
        pub low_balance_warning: Option<bool> = "low_balance_warning",
        /// How many responses remain, about.
        pub estimated_remaining: Option<Number> = "estimated_remaining",
        /// When the balance expires, in seconds since 1970.
        pub expires_at: Option<Number> = "expires_at",
    }
}

event! {
    /// The payment is refused.
    PaymentError = "payment.error" {
        /// The response.
        pub response_id: Option<String> = "response_id",
        /// Why.
        pub code: PaymentErrorCode = "code",
        /// What went wrong and what helps, for people.
        pub message: String = "message",
        /// The balance that is necessary, as a decimal number.
        pub balance_required: Option<String> = "balance_required",
        /// The balance of the client, as a decimal number.
        pub balance_current: Option<String> = "balance_current",
        /// True if another payment can succeed.
        pub can_retry: Option<bool> = "can_retry",
    }
}
