//! Maps vendors' errors to the twelve codes.
//!
//! Spec: UPP-1.2 §12

use std::sync::Arc;

use serde::Deserialize;

use crate::error::{ErrorCode, UppError, VendorReport};
use turntree_core::json::{Extra, RawJson, RawObject};

/// Bodies that are not JSON appear in the message if they are shorter than this.
const SHOWN_BODY: usize = 200;

/// Text that a gateway passes on appears in the message if it is shorter than this.
const SHOWN_UPSTREAM: usize = 500;

/// Maximum depth of error wrappers: vendors use two, a gateway adds one.
const DEEPEST_WRAPPER: u8 = 4;

/// An error that a vendor reports in a body or inside a stream.
///
/// Reads every shape in use: `{"error": {…}}`, `{"error": {"error": {…}}}`, `{"error": "text"}`, the members without a
/// wrapper, `detail`, `errors`, other names of these members, and a list of one such object.
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

/// The names of each part of an error, in the order in which they count. Vendors, gateways and frameworks use one each.
mod names {
    pub(super) const MESSAGE: &[&str] = &[
        "message",
        "Message",
        "msg",
        "error_message",
        "errorMessage",
        "error_msg",
        "status_msg",
        "faultstring",
    ];
    /// They explain an error of OAuth and of RFC 9457, and count if nothing else has a message.
    pub(super) const DETAIL: &[&str] = &["detail", "error_description", "description", "reason", "title"];
    /// Errors within: of Apigee and `MiniMax` the last two.
    pub(super) const WRAPPER: &[&str] = &["error", "fault", "base_resp"];
    /// A list of errors, of gateways; or lists by the member of the request.
    pub(super) const LIST: &[&str] = &["errors"];
    pub(super) const KIND: &[&str] = &["type", "__type", "error_type", "errorType"];
    pub(super) const CODE: &[&str] =
        &["code", "error_code", "errorCode", "errorcode", "status_code", "status"];
    pub(super) const PARAM: &[&str] = &["param"];
}

/// The members of an object that may be an error.
#[derive(Default)]
struct Members(RawObject);

impl Members {
    fn of(raw: &RawJson) -> Self {
        Self(raw.to().unwrap_or_default())
    }

    /// The values of the members with one of the names, in the order of the names.
    fn all<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a RawJson> {
        names.iter().filter_map(|name| self.0.get(name)).filter(|value| !value.is_null())
    }

    fn first(&self, names: &[&str]) -> Option<&RawJson> {
        names.iter().filter_map(|name| self.0.get(name)).find(|value| !value.is_null())
    }

    /// The first text or number.
    fn text(&self, names: &[&str]) -> Option<String> {
        self.all(names).find_map(text)
    }

    /// The type: that of Amazon has a name space. `error` says nothing more.
    fn kind(&self) -> Option<String> {
        let kind = self.text(names::KIND)?;
        let own = kind.rsplit_once('#').map_or(kind.as_str(), |(_, own)| own);
        (own != "error").then(|| own.to_owned())
    }

    fn code(&self) -> Option<String> {
        self.all(names::CODE).filter_map(text).find(|code| code != "error")
    }

    /// The message, with that of a vendor behind a gateway. Some vendors use a list of validation errors as the message.
    fn message(&self, upstream: &Upstream, wrappers: u8) -> Option<String> {
        let wrapped = || self.first(&["message"]).filter(|message| message.is_object());
        let reported =
            self.text(names::MESSAGE).or_else(|| VendorError::of_json_within(wrapped()?, wrappers).message);
        match (reported, upstream.message(wrappers)) {
            (Some(reported), Some(upstream)) if !reported.contains(&upstream) => {
                Some(format!("{reported}: {upstream}"))
            }
            (reported, upstream) => reported.or(upstream),
        }
    }

    /// What explains the error, after the title of RFC 9457.
    fn detail(&self, wrappers: u8) -> Option<String> {
        let detail = self.first(names::DETAIL)?;
        let within = || VendorError::of_json_within(detail, wrappers).message;
        let detail = detail.is_object().then(within).flatten().unwrap_or_else(|| detail_text(detail));
        match self.text(&["title"]) {
            Some(title) => Some(joined(title, Some(&detail))),
            None => Some(detail).filter(|detail| !detail.trim().is_empty()),
        }
    }

    /// Whether the object says that it is an error, although the status says success.
    fn reports(&self) -> bool {
        let is_word = |value: &RawJson| value.is_string() && text(value).is_some();
        let is_present =
            |value: &RawJson| !matches!(value.get(), "null" | "false" | "0" | "{}" | "[]" | "\"\"");
        let is_marked = |name| self.0.get(name).and_then(text).is_some_and(|text| text == "error");
        let is_failure = |raw: &RawJson| {
            let code = Self::of(raw).text(&["status_code"]);
            code.is_some_and(|code| code != "0")
        };
        self.all(&["error", "errors", "detail", "fault"]).any(is_present)
            || self.all(names::MESSAGE).any(is_word)
            || is_marked("object")
            || is_marked("type")
            || self.0.get("base_resp").is_some_and(is_failure)
    }
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

    /// Reads the members of a body that the response of the modality does not have.
    pub fn of_members(members: &Extra) -> Self {
        let members = members.iter().map(|(name, value)| (name, value.clone())).collect();
        Self::of_object(&Members(members), DEEPEST_WRAPPER)
    }

    /// Reads a body that is not the response of a model; `None` if it reports no error.
    ///
    /// Servers and gateways report errors in the forms of [`Self::of_body`] also with a status of success.
    pub fn reported(body: &str) -> Option<Self> {
        let body = without_byte_order_mark(body).trim();
        let raw = serde_json::from_str::<RawJson>(body).ok()?;
        let first = if raw.is_array() { raw.to::<Vec<RawJson>>().ok()?.into_iter().next()? } else { raw };
        let error = Members::of(&first).reports().then(|| Self::of_json(&first))?;
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
        Self::of_object(&Members::of(raw), wrappers)
    }

    fn of_object(members: &Members, wrappers: u8) -> Self {
        let upstream: Upstream =
            members.first(&["metadata"]).and_then(|raw| raw.to().ok()).unwrap_or_default();
        let moderated = upstream.flagged_input.as_ref().map(|_| "moderation_error".to_owned());
        // Google's code is the number of the HTTP status, which proxies use for other failures too.
        let late = || members.text(&["status"]).filter(|status| status == "DEADLINE_EXCEEDED");
        let outer = Self {
            message: members.message(&upstream, wrappers),
            kind: members.kind().or(moderated).or_else(late),
            code: members.code(),
            param: members.text(names::PARAM),
        };
        let detail = members.detail(wrappers);
        let is_readable = |error: &&RawJson| error.is_string() || error.is_object() || error.is_array();
        let inner = match (members.all(names::WRAPPER).find(is_readable), members.first(names::LIST)) {
            (Some(error), _) if error.is_string() => {
                let explained = outer.message.as_ref().or(detail.as_ref());
                Self { message: error.as_string().map(|error| joined(error, explained)), ..Self::default() }
            }
            (Some(error), _) => Self::of_json_within(error, wrappers),
            (_, Some(errors)) if outer.message.is_none() => Self::of_list(errors, wrappers),
            _ => Self::default(),
        };
        Self {
            message: inner.message.or(outer.message).or(detail),
            kind: inner.kind.or(outer.kind),
            code: inner.code.or(outer.code),
            param: inner.param.or(outer.param),
        }
    }

    /// The first of a list, or of lists by the member of the request.
    fn of_list(errors: &RawJson, wrappers: u8) -> Self {
        if !errors.is_object() {
            return Self::of_json_within(errors, wrappers);
        }
        let members = Members::of(errors);
        let Some((name, list)) = members.0.iter().find(|(_, list)| list.is_array() || list.is_string())
        else {
            return Self::of_json_within(errors, wrappers);
        };
        let error = Self::of_json_within(list, wrappers);
        Self { message: error.message.map(|message| format!("{name}: {message}")), ..error }
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
