//! Options of conversions from Python arguments.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyValueError;

use super::actions::timestamp_from;
use super::agents::AgentConfig;
use crate::data::{DataClass, extract};
use turntree_thread_protocol::bulk::{Framing, OnFailure};
use turntree_thread_protocol::convert::pydantic_ai::{
    CombineText, Others, OthersRole, ProfileKind, SystemPrompts, ToolVisibility, ViewOptions,
};
use turntree_thread_protocol::convert::vercel_ui::{
    ExportOptions, LIMITS, Sdk, SidecarLevel, Turns, UiImportOptions,
};
use turntree_thread_protocol::document::AgentConfig as CoreAgentConfig;

/// An option that Python passes as one of several strings.
pub(super) trait NamedOption: Clone + 'static {
    /// The strings and their meanings.
    const NAMES: &'static [(&'static str, Self)];
}

macro_rules! named_options {
    ($($option:ty { $($name:literal => $value:ident),+ $(,)? })+) => {
        $(impl NamedOption for $option {
            const NAMES: &'static [(&'static str, Self)] = &[$(($name, Self::$value)),+];
        })+
    };
}

named_options! {
    ProfileKind { "full" => Full, "portable" => Portable }
    CombineText { "adjacent" => Adjacent, "response" => Response }
    Others { "prefix" => Prefix, "hide" => Hide }
    OthersRole { "user" => User, "assistant" => Assistant }
    SystemPrompts { "include" => Include, "config" => Config, "omit" => Omit }
    ToolVisibility { "hide" => Hide, "summarize" => Summarize, "show" => Show }
    SidecarLevel { "none" => None, "portable" => Portable, "full" => Full }
    Turns { "all" => All, "last" => Last }
    OnFailure { "raise" => Stop, "skip" => Skip }
    Framing { "lines" => Lines, "whole" => Whole, "auto" => Auto }
}

/// The meaning of a string.
///
/// # Errors
/// `ValueError` naming the argument and its strings.
pub(super) fn choose<T: NamedOption>(argument: &str, name: &str) -> PyResult<T> {
    T::NAMES.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()).ok_or_else(|| {
        let names: Vec<_> = T::NAMES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        PyValueError::new_err(format!("{argument} must be {}, not \"{name}\"", names.join(" or ")))
    })
}

/// A value of its own from an instance of the class or from plain data.
///
/// # Errors
/// As [`extract`].
pub(super) fn owned<C: DataClass<Value: Clone>>(value: &Bound<'_, PyAny>, what: &str) -> PyResult<C::Value> {
    extract::<C>(value, what).map(Arc::unwrap_or_clone)
}

/// The `agent` of an import.
pub(super) fn agent_from(agent: Option<&Bound<'_, PyAny>>) -> PyResult<Option<CoreAgentConfig>> {
    agent.map(|agent| owned::<AgentConfig>(agent, "agent")).transpose()
}

/// Options of a view.
///
/// # Errors
/// `ValueError` naming the argument.
pub(super) fn view(
    agent_id: Option<String>,
    others: &str,
    tool_visibility: &str,
    others_role: &str,
    attribution: &str,
    system_prompts: &str,
) -> PyResult<ViewOptions> {
    Ok(ViewOptions {
        agent_id,
        others: choose("others", others)?,
        others_role: choose("others_role", others_role)?,
        attribution: attribution.to_owned(),
        tool_visibility: choose("tool_visibility", tool_visibility)?,
        system_prompts: choose("system_prompts", system_prompts)?,
        ..ViewOptions::default()
    })
}

/// Options of an import from the Vercel AI SDK.
///
/// # Errors
/// `ValueError` or `TypeError` naming the argument.
pub(super) fn ui_import(
    agent: Option<&Bound<'_, PyAny>>,
    thread_id: Option<String>,
    chat_id: Option<String>,
    title: Option<String>,
    timestamp: Option<&Bound<'_, PyAny>>,
    profile: &str,
    sidecar: &str,
) -> PyResult<UiImportOptions> {
    Ok(UiImportOptions {
        agent: agent_from(agent)?,
        thread_id,
        chat_id,
        title,
        timestamp: timestamp.map(|time| timestamp_from(time, "timestamp")).transpose()?,
        profile: choose("profile", profile)?,
        sidecar: choose("sidecar", sidecar)?,
        limits: LIMITS,
    })
}

/// Options of an export to the Vercel AI SDK.
///
/// # Errors
/// `ValueError` naming the argument.
pub(super) fn ui_export(
    sdk: u32,
    sidecar: &str,
    turns: &str,
    dynamic_tools: bool,
) -> PyResult<ExportOptions> {
    let sdk = match sdk {
        5 => Sdk::V5,
        6 => Sdk::V6,
        7 => Sdk::V7,
        other => return Err(PyValueError::new_err(format!("sdk must be 5, 6 or 7, not {other}"))),
    };
    let (sidecar, turns) = (choose("sidecar", sidecar)?, choose("turns", turns)?);
    Ok(ExportOptions { sdk, sidecar, turns, dynamic_tools, adapt: false })
}
