//! Payments.
//!
//! Spec: UAMP-1.0 §7.2

use turntree_core::json::RawJson;

use super::number::Number;

text_enum! {
    /// How a payment is made.
    PaymentSchemeKind {
        /// A token of the platform.
        Token = "token",
        /// A cryptocurrency.
        Crypto = "crypto",
        /// A card.
        Card = "card",
        /// Agent Payments Protocol.
        Ap2 = "ap2",
    }
}

object! {
    /// A way to pay.
    PaymentScheme {
        /// How.
        pub scheme: PaymentSchemeKind = "scheme",
        /// The network.
        pub network: Option<String> = "network",
        /// The address of the recipient.
        pub address: Option<String> = "address",
        /// The smallest amount.
        pub min_amount: Option<String> = "min_amount",
        /// The largest amount.
        pub max_amount: Option<String> = "max_amount",
    }
}

object! {
    /// What Agent Payments Protocol needs.
    AgentPaymentsProtocol {
        /// The mandate.
        pub mandate_uri: Option<String> = "mandate_uri",
        /// The types of credentials.
        pub credential_types: Option<Vec<String>> = "credential_types",
        /// The session of the checkout.
        pub checkout_session_uri: Option<String> = "checkout_session_uri",
    }
}

object! {
    /// What must be paid.
    PaymentRequirements {
        /// The amount as a decimal number.
        pub amount: String = "amount",
        /// The currency.
        pub currency: String = "currency",
        /// The ways to pay.
        pub schemes: Vec<PaymentScheme> = "schemes", default,
        /// When the offer ends, in seconds since 1970.
        pub expires_at: Option<Number> = "expires_at",
        /// What for.
        pub reason: Option<String> = "reason",
        /// What Agent Payments Protocol needs.
        pub ap2: Option<AgentPaymentsProtocol> = "ap2",
    }
}

object! {
    /// A payment of a client.
    Payment {
        /// How.
        pub scheme: PaymentSchemeKind = "scheme",
        /// The network.
        pub network: Option<String> = "network",
        /// The token.
        pub token: Option<String> = "token",
        /// The amount as a decimal number.
        pub amount: Option<String> = "amount",
        /// The proof of a payment that was made elsewhere.
        pub proof: Option<RawJson> = "proof",
        /// The credential of Agent Payments Protocol.
        pub ap2_credential: Option<RawJson> = "ap2_credential",
    }
}

text_enum! {
    /// Why a payment is refused.
    PaymentErrorCode {
        /// The payment could not be made.
        PaymentFailed = "payment_failed",
        /// There is not enough money.
        InsufficientBalance = "insufficient_balance",
        /// The token has expired.
        TokenExpired = "token_expired",
        /// The token is not valid.
        TokenInvalid = "token_invalid",
        /// Too many payments.
        RateLimited = "rate_limited",
        /// The mandate was revoked.
        MandateRevoked = "mandate_revoked",
    }
}
