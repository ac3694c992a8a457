//! Settings that mean the same for every vendor, such as `max_tokens`, and their form in the words of each vendor.
//!
//! Settings travel among the parameters of a request, with the prefix [`PREFIX`], so that those of a run replace those
//! of its agent by name. [`settle`] replaces them by the vendor's own parameters. A vendor's parameter that the caller
//! has set takes precedence.
//!
//! | file | content |
//! |---|---|
//! | `table` | which words each vendor uses, as data |
//! | `place` | writes a value at its place in the parameters |
//!
//! Spec: UPP-1.2 §10

mod place;
mod table;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::error::UppError;
use crate::request::ModelRequest;
use place::Parameters;
use turntree_core::json::{RawJson, RawObject};

pub use table::{Caching, Choice, Reasoning, SettingsTable};

/// The prefix of settings among the parameters of a request.
pub const PREFIX: &str = "turntree:";

/// The names of the settings.
pub const NAMES: [&str; 13] = [
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "reasoning",
    "parallel_tool_calls",
    "tool_choice",
    "service_tier",
    "cache",
    "timeout",
    "on_refusal",
    "raw",
];

/// What happens with an answer that the model or a filter refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRefusal {
    /// The call fails.
    Raise,
    /// The turn is returned; its stop reason tells that it was refused.
    Return,
}

impl OnRefusal {
    /// The choice among the parameters of a request.
    pub fn of_params(params: &RawObject) -> Option<Self> {
        match setting(params, "on_refusal")?.as_string().as_deref() {
            Some("raise") => Some(Self::Raise),
            Some("return") => Some(Self::Return),
            _ => None,
        }
    }
}

/// A setting that a vendor does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedSetting {
    /// The name of the setting.
    pub name: String,
    /// The provider that is called.
    pub provider: String,
    /// Why, or what is done instead.
    pub reason: &'static str,
}

/// Receives settings that vendors do not have, for warnings.
pub trait SettingObserver: Send + Sync + 'static {
    /// Called for each setting of a request that is not sent.
    fn unsupported(&self, setting: &UnsupportedSetting);
}

static OBSERVER: OnceLock<Box<dyn SettingObserver>> = OnceLock::new();

/// Sets the observer, once for the whole process.
///
/// # Errors
/// Returns the observer if another one is set already.
pub fn set_setting_observer(observer: Box<dyn SettingObserver>) -> Result<(), Box<dyn SettingObserver>> {
    OBSERVER.set(observer)
}

/// The value of a setting among parameters.
pub fn setting<'p>(params: &'p RawObject, name: &str) -> Option<&'p RawJson> {
    let of_name = |(key, _): &(&str, &RawJson)| key.strip_prefix(PREFIX) == Some(name);
    params.iter().find(of_name).map(|(_, value)| value).filter(|value| !value.is_null())
}

/// The timeout of the call in seconds, if a setting has one.
pub fn timeout(params: &RawObject) -> Option<f64> {
    setting(params, "timeout")?.to().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0)
}

/// The request with a parameter that the vendor requires, unless the caller has set it.
pub fn with_required<'a>(
    request: Cow<'a, ModelRequest>,
    required: Option<(&'static str, u64)>,
) -> Cow<'a, ModelRequest> {
    let Some((name, value)) = required else { return request };
    if request.params.get(name).is_some_and(|value| !value.is_null()) {
        return request;
    }
    let mut params = RawObject::clone(&request.params);
    params.insert(name, RawJson::from_value(&value).unwrap_or_default());
    Cow::Owned(ModelRequest { params: Arc::new(params), ..request.into_owned() })
}

/// Replaces the settings of a request by the vendor's parameters.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) if a setting has a value of a wrong type.
pub fn settle<'a>(
    request: &'a ModelRequest,
    provider: &str,
    model_id: &str,
    table: &SettingsTable,
) -> Result<Cow<'a, ModelRequest>, UppError> {
    if !request.params.iter().any(|(name, _)| name.starts_with(PREFIX)) {
        return Ok(Cow::Borrowed(request));
    }
    let own = request.params.iter().filter(|(name, _)| !name.starts_with(PREFIX));
    let own: RawObject = own.map(|(name, value)| (name, value.clone())).collect();
    let mut parameters = Parameters::new(provider, model_id, own, !request.tools.is_empty());
    for name in NAMES {
        if let Some(value) = setting(&request.params, name) {
            parameters.set(table, name, value)?;
        }
    }
    let (params, unsupported) = parameters.finish(table);
    if let Some(observer) = OBSERVER.get() {
        for setting in &unsupported {
            observer.unsupported(setting);
        }
    }
    Ok(Cow::Owned(ModelRequest { params: Arc::new(params), ..request.clone() }))
}
