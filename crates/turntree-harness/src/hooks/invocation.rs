//! How a hook was called: for which harness, and for which event.

use super::adapter::Adapter;
use super::event::EventKind;

/// The call of a hook: `turntree-hook EVENT --harness NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invocation<'a> {
    /// The name of the harness.
    pub harness: &'a str,
    /// The argument that names the event, for events that do not.
    pub event: Option<&'a str>,
}

impl<'a> From<&'a str> for Invocation<'a> {
    fn from(harness: &'a str) -> Self {
        Self { harness, event: None }
    }
}

impl<'a> From<&'a String> for Invocation<'a> {
    fn from(harness: &'a String) -> Self {
        Self::from(harness.as_str())
    }
}

/// The names of events that every harness takes as an argument.
const NAMES: &[&str] = &[
    "session-start",
    "prompt",
    "pre-tool",
    "post-tool",
    "pre-compact",
    "post-compact",
    "stop",
    "session-end",
];

/// A kind of event, and the name that a harness has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) kind: EventKind,
    pub(super) name: String,
}

impl Named {
    /// The event with a name of the harness.
    pub(super) fn of(adapter: &Adapter, name: &str) -> Self {
        let kind = adapter.events.iter().find(|(own, _)| own == name);
        Self { kind: kind.map_or(EventKind::Other, |(_, kind)| EventKind::of(kind)), name: name.to_owned() }
    }

    /// The event that an argument names: a name of the harness, or one of [`NAMES`], with `-` or `_`.
    ///
    /// # Errors
    /// What is wrong with the argument.
    pub(super) fn from_argument(adapter: &Adapter, argument: &str) -> Result<Self, String> {
        if adapter.events.iter().any(|(own, _)| own == argument) {
            return Ok(Self::of(adapter, argument));
        }
        let wanted = match argument.replace('-', "_").as_str() {
            "user_prompt" => "prompt".to_owned(),
            other => other.to_owned(),
        };
        match EventKind::of(&wanted) {
            EventKind::Other => Err(format!("no event \"{argument}\"; expected one of {}", NAMES.join(", "))),
            kind => {
                // The first name of a kind is the one without arguments of its own.
                let own = adapter.events.iter().find(|(_, kind)| *kind == wanted);
                Ok(Self { kind, name: own.map_or(wanted, |(name, _)| name.clone()) })
            }
        }
    }

    pub(super) fn is_tool_call(&self) -> bool {
        self.kind == EventKind::PreTool
    }
}
