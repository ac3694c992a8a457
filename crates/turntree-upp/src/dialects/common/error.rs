//! Maps vendors' errors to the twelve codes.
//!
//! Spec: UPP-1.2 §12

use std::sync::Arc;

use serde::Deserialize;

use crate::error::{ErrorCode, UppError, VendorReport};
use turntree_core::json::RawJson;

/// Bodies that are not JSON appear in the message if they are shorter than this.
const SHOWN_BODY: usize = 200;

/// Text that a gateway passes on appears in the message if it is shorter than this.
const SHOWN_UPSTREAM: usize = 500;

/// Maximum depth of error wrappers: vendors use two, a gateway adds one.
const DEEPEST_WRAPPER: u8 = 4;

/// An error that a vendor reports in a body or inside a stream.
///
/// Reads every shape in use: `{"error": {…}}`, `{"error": {"error": {…}}}`, `{"error": "text"}`, the members without a
/// wrapper, `detail`, `errors`, and a list of one such object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorError {
    /// The message.
    pub message: Option<String>,
    /// The `type`, such as `rate_limit_error`.
    pub kind: Option<String>,
    /// The `code`, such as `context_length_exceeded`; numbers become strings.
    pub code: Option<String>,
    /// The `param`: the member of the request that the vendor refuses.
    pub param: Option<String>,
}

#[derive(Deserialize, Default)]
struct Members {
    #[serde(default)]
    error: Option<RawJson>,
    #[serde(default, alias = "Message")]
    message: Option<RawJson>,
    #[serde(default)]
    msg: Option<RawJson>,
    #[serde(default)]
    detail: Option<RawJson>,
    /// The explanation of an error of OAuth.
    #[serde(default)]
    error_description: Option<RawJson>,
    /// A list of errors, of gateways.
    #[serde(default)]
    errors: Option<RawJson>,
    /// `error` in objects of vLLM.
    #[serde(default)]
    object: Option<RawJson>,
    #[serde(default, rename = "type")]
    kind: Option<RawJson>,
    #[serde(default)]
    code: Option<RawJson>,
    #[serde(default)]
    param: Option<RawJson>,
    #[serde(default)]
    status: Option<RawJson>,
    #[serde(default)]
    metadata: Option<RawJson>,
}

/// What a gateway reports about the vendor behind it.
#[derive(Deserialize, Default)]
struct Upstream {
    /// The vendor's own body, as text.
    #[serde(default)]
    raw: Option<RawJson>,
    /// Present if a moderation stopped the request.
    #[serde(default)]
    flagged_input: Option<RawJson>,
}

impl Upstream {
    fn message(&self, wrappers: u8) -> Option<String> {
        let message = self.raw.as_ref().and_then(text)?;
        let vendors = RawJson::from_embedded(&message);
        let vendors = vendors.and_then(|raw| VendorError::of_json_within(&raw, wrappers).message);
        vendors.or_else(|| Some(message).filter(|message| message.chars().count() < SHOWN_UPSTREAM))
    }
}

impl VendorError {
    /// Reads a body. A body that is not a JSON object becomes the message if it is short.
    pub fn of_body(body: &str) -> Self {
        let trimmed = without_byte_order_mark(body).trim();
        let mut error =
            serde_json::from_str::<RawJson>(trimmed).map(|raw| Self::of_json(&raw)).unwrap_or_default();
        let is_page = trimmed.starts_with('<');
        if error.message.is_none() && !trimmed.is_empty() && !is_page && trimmed.chars().count() < SHOWN_BODY
        {
            error.message = Some(trimmed.to_owned());
        }
        error
    }

    /// Reads an error object, or an object that contains one.
    pub fn of_json(raw: &RawJson) -> Self {
        Self::of_json_within(raw, DEEPEST_WRAPPER)
    }

    /// Reads a body that is not the response of a model; `None` if it reports no error.
    ///
    /// Servers and gateways report errors in the forms of [`Self::of_body`] also with a status of success.
    pub fn reported(body: &str) -> Option<Self> {
        let body = without_byte_order_mark(body).trim();
        let raw = serde_json::from_str::<RawJson>(body).ok()?;
        let first = if raw.is_array() { raw.to::<Vec<RawJson>>().ok()?.into_iter().next()? } else { raw };
        let members: Members = first.to().ok()?;
        let is_word = |value: &RawJson| value.is_string() && text(value).is_some();
        let is_present =
            |value: &RawJson| !matches!(value.get(), "null" | "false" | "0" | "{}" | "[]" | "\"\"");
        let is_marked = |value: Option<&RawJson>| value.and_then(text).is_some_and(|text| text == "error");
        let reports =
            [&members.error, &members.errors, &members.detail].into_iter().flatten().any(is_present)
                || [&members.message, &members.msg].into_iter().flatten().any(is_word)
                || is_marked(members.object.as_ref())
                || is_marked(members.kind.as_ref());
        let error = reports.then(|| Self::of_json(&first))?;
        (error.message.is_some() || error.vendor_code().is_some()).then_some(error)
    }

    fn of_json_within(raw: &RawJson, wrappers: u8) -> Self {
        let Some(wrappers) = wrappers.checked_sub(1) else { return Self::default() };
        if raw.is_array() {
            let first = raw.to::<Vec<RawJson>>().ok().and_then(|errors| errors.into_iter().next());
            return first.map(|error| Self::of_json_within(&error, wrappers)).unwrap_or_default();
        }
        if raw.is_string() {
            return Self { message: raw.as_string(), ..Self::default() };
        }
        let members: Members = raw.to().unwrap_or_default();
        let upstream: Upstream = members.metadata.and_then(|raw| raw.to().ok()).unwrap_or_default();
        let moderated = upstream.flagged_input.as_ref().map(|_| "moderation_error".to_owned());
        let reported = [&members.message, &members.msg].into_iter().flatten().find_map(text);
        // Some vendors use a list of validation errors as the message.
        let wrapped = || members.message.as_ref().filter(|message| message.is_object());
        let reported =
            reported.or_else(|| wrapped().and_then(|raw| Self::of_json_within(raw, wrappers).message));
        let outer = Self {
            message: match (reported, upstream.message(wrappers)) {
                (Some(reported), Some(upstream)) if !reported.contains(&upstream) => {
                    Some(format!("{reported}: {upstream}"))
                }
                (reported, upstream) => reported.or(upstream),
            },
            kind: members.kind.as_ref().and_then(text).filter(|kind| kind != "error").or(moderated).or_else(
                || {
                    // Google's code is the number of the HTTP status, which proxies use for other failures too.
                    members.status.as_ref().and_then(text).filter(|status| status == "DEADLINE_EXCEEDED")
                },
            ),
            code: members.code.as_ref().and_then(text).or_else(|| members.status.as_ref().and_then(text)),
            param: members.param.as_ref().and_then(text),
        };
        let mut details = [members.detail, members.error_description].into_iter().flatten();
        let detail = details.find(|detail| !detail.is_null()).map(|detail| detail_text(&detail));
        let inner = match (members.error, members.errors) {
            (Some(error), _) if error.is_string() => {
                let explained = outer.message.as_ref().or(detail.as_ref());
                Self { message: error.as_string().map(|error| joined(error, explained)), ..Self::default() }
            }
            (Some(error), _) if error.is_object() => Self::of_json_within(&error, wrappers),
            (_, Some(errors)) if outer.message.is_none() => Self::of_json_within(&errors, wrappers),
            _ => Self::default(),
        };
        Self {
            message: inner.message.or(outer.message).or(detail),
            kind: inner.kind.or(outer.kind),
            code: inner.code.or(outer.code),
            param: inner.param.or(outer.param),
        }
    }

    /// The code of the error. The status decides; without one the vendor's type does, and an unknown type is
    /// [`ErrorCode::ProviderError`].
    pub fn code(&self, status: Option<u16>) -> ErrorCode {
        let kinds = || [self.code.as_deref(), self.kind.as_deref()].into_iter().flatten();
        let by_kind = kinds().find_map(code_of_kind);
        let by_kind = if self.is_about_policy() { Some(ErrorCode::ContentFiltered) } else { by_kind };
        let by_words = self.message.as_deref().is_some_and(is_about_context_length);
        let Some(status) = status else {
            let by_status = || kinds().find_map(|code| code.parse().ok()).map(code_of_status);
            return match by_kind.or_else(by_status) {
                None | Some(ErrorCode::InvalidRequest) if by_words => ErrorCode::ContextLengthExceeded,
                other => other.unwrap_or(ErrorCode::ProviderError),
            };
        };
        match (status, by_kind) {
            (400 | 422, Some(code))
                if code != ErrorCode::ProviderError && code != ErrorCode::InvalidRequest =>
            {
                code
            }
            (400 | 422, _) if by_words => ErrorCode::ContextLengthExceeded,
            (403, _) if self.is_about_quota() => ErrorCode::QuotaExceeded,
            (403 | 429, Some(ErrorCode::QuotaExceeded)) => ErrorCode::QuotaExceeded,
            (403, Some(ErrorCode::ContentFiltered)) => ErrorCode::ContentFiltered,
            // The limit of tokens per minute is smaller than the request.
            (413, Some(ErrorCode::RateLimited)) => ErrorCode::RateLimited,
            (504, Some(ErrorCode::Timeout)) => ErrorCode::Timeout,
            _ => code_of_status(status),
        }
    }

    /// Code and message of an error status.
    pub fn of_status(status: u16, body: &str) -> (ErrorCode, String) {
        let error = Self::of_body(body);
        let code = error.code(Some(status));
        (code, error.message.unwrap_or_else(|| status_text(status)))
    }

    /// Converts an error inside a stream or a successful response.
    pub fn into_error(self, provider: &str) -> UppError {
        let code = self.code(None);
        let report =
            VendorReport { vendor_code: self.vendor_code(), param: self.param, ..VendorReport::default() };
        let kind = self.kind.or(self.code);
        let message = self.message.unwrap_or_else(|| match kind {
            Some(kind) => format!("{provider} reported an error: {kind}"),
            None => format!("{provider} reported an unknown error"),
        });
        let has_report = report.vendor_code.is_some() || report.param.is_some();
        UppError { report: has_report.then(|| Arc::new(report)), ..UppError::new(code, provider, message) }
    }

    /// The vendor's code of the error, else its type.
    pub fn vendor_code(&self) -> Option<String> {
        self.code.clone().or_else(|| self.kind.clone())
    }

    /// True if the body of a 404 says that a path does not exist, and nothing about a model. A document that was cut off may
    /// have said anything.
    pub fn is_about_address(body: &str) -> bool {
        let body = without_byte_order_mark(body).trim();
        let is_cut = body.starts_with(['{', '[']) && serde_json::from_str::<RawJson>(body).is_err();
        !is_cut && !Self::of_body(body).is_about_model()
    }

    fn is_about_model(&self) -> bool {
        let is_named =
            self.message.as_deref().is_some_and(|message| message.to_ascii_lowercase().contains("model"));
        let kinds = [self.code.as_deref(), self.kind.as_deref()];
        is_named
            || kinds.into_iter().flatten().any(|kind| code_of_kind(kind) == Some(ErrorCode::ModelNotFound))
    }

    /// `invalid_prompt` is the code of prompts against the usage policy, and of requests with a wrong form.
    fn is_about_policy(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        self.code.as_deref() == Some("invalid_prompt")
            && (message.contains("flagged") || message.contains("usage policy"))
    }

    fn is_about_quota(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        ["quota", "billing", "credit", "insufficient balance", "spending limit"]
            .iter()
            .any(|sign| message.contains(sign))
    }
}

fn text(raw: &RawJson) -> Option<String> {
    let is_scalar = !raw.is_null() && !raw.is_object() && !raw.is_array();
    let text = if raw.is_string() { raw.as_string() } else { is_scalar.then(|| raw.get().to_owned()) };
    text.filter(|text| !text.trim().is_empty())
}

/// The text without the mark that some servers write before it. RFC 8259 §8.1 permits to ignore it.
pub fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A short text such as the name of an error, and what explains it.
fn joined(error: String, explained: Option<&String>) -> String {
    match explained {
        Some(explained) if error.trim().is_empty() || explained.contains(&error) => explained.clone(),
        Some(explained) if !error.contains(explained) => format!("{error}: {explained}"),
        _ => error,
    }
}

/// `detail` is a text, or a list of validation errors: `[{"loc": […], "msg": "…"}]`.
fn detail_text(detail: &RawJson) -> String {
    #[derive(Deserialize)]
    struct Finding {
        msg: String,
    }
    if let Ok(findings) = detail.to::<Vec<Finding>>() {
        return findings.into_iter().map(|finding| finding.msg).collect::<Vec<_>>().join("; ");
    }
    turntree_core::message::content::raw_as_text(detail)
}

/// The code of an HTTP error status.
pub const fn code_of_status(status: u16) -> ErrorCode {
    match status {
        401 | 403 => ErrorCode::AuthenticationFailed,
        402 => ErrorCode::QuotaExceeded,
        404 => ErrorCode::ModelNotFound,
        408 => ErrorCode::Timeout,
        413 => ErrorCode::ContextLengthExceeded,
        429 => ErrorCode::RateLimited,
        451 => ErrorCode::ContentFiltered,
        400 | 409 | 422 => ErrorCode::InvalidRequest,
        _ => ErrorCode::ProviderError,
    }
}

/// The error types and error codes of vendors, in lower case.
const KINDS: [(ErrorCode, &[&str]); 9] = [
    (
        ErrorCode::AuthenticationFailed,
        &[
            "authentication_error",
            "permission_error",
            "permission_denied",
            "unauthenticated",
            "invalid_api_key",
            "unauthorized",
            "invalid_authentication_error",
            "permission_denied_error",
            "wrong_api_key",
            "account_deactivated",
        ],
    ),
    (
        ErrorCode::RateLimited,
        &[
            "rate_limit_error",
            "rate_limit_exceeded",
            "rate_limited",
            "too_many_requests",
            "resource_exhausted",
            "rate_limit_reached_error",
            "tokens",
            "requests",
        ],
    ),
    (
        ErrorCode::ContextLengthExceeded,
        &[
            "context_length_exceeded",
            "request_too_large",
            "string_above_max_length",
            "context_window_exceeded",
        ],
    ),
    (
        ErrorCode::ModelNotFound,
        &[
            "model_not_found",
            "not_found_error",
            "not_found",
            "resource_not_found_error",
            "invalid_model",
            "model_decommissioned",
            "model_deprecated",
        ],
    ),
    (
        ErrorCode::InvalidRequest,
        &[
            "invalid_request_error",
            "invalid_request",
            "invalid_argument",
            "failed_precondition",
            "bad_request",
            "badrequesterror",
            "invalid_prompt",
            "tool_use_failed",
            "json_validate_failed",
        ],
    ),
    (
        ErrorCode::ContentFiltered,
        &[
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
            "content_filtered",
            "moderation_error",
            "safety",
        ],
    ),
    (
        ErrorCode::QuotaExceeded,
        &[
            "insufficient_quota",
            "billing_error",
            "billing_hard_limit_reached",
            "quota_exceeded",
            "insufficient_balance",
            "exceeded_current_quota_error",
        ],
    ),
    (ErrorCode::Timeout, &["timeout_error", "timeout", "deadline_exceeded", "request_timeout"]),
    (
        ErrorCode::ProviderError,
        &[
            "api_error",
            "overloaded_error",
            "engine_overloaded_error",
            "server_error",
            "internal_error",
            "internal",
            "unavailable",
            "service_unavailable",
            "internal_server_error",
        ],
    ),
];

/// The code of a vendor's error type or error code; `None` if it is unknown.
pub fn code_of_kind(kind: &str) -> Option<ErrorCode> {
    let kind = kind.to_ascii_lowercase();
    KINDS.iter().find(|(_, kinds)| kinds.contains(&kind.as_str())).map(|(code, _)| *code)
}

/// Matches the message, for vendors without a code for this error.
fn is_about_context_length(message: &str) -> bool {
    const SIGNS: [&str; 15] = [
        "context length",
        "context_length",
        "context window",
        "context size",
        "context limit",
        "maximum prompt length",
        "maximum context",
        "prompt is too long",
        "prompt too long",
        "input is too long",
        "too many tokens",
        "token count exceeds",
        "tokens exceeds the",
        "exceed the maximum number of tokens",
        "reduce the length of the messages",
    ];
    let text = message.to_ascii_lowercase();
    SIGNS.iter().any(|sign| text.contains(sign))
        || (text.contains("input token count") && text.contains("exceeds"))
}

fn status_text(status: u16) -> String {
    let reason = match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Payload Too Large",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => return format!("HTTP {status}"),
    };
    format!("HTTP {status}: {reason}")
}
