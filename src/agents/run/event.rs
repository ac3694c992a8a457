//! What a listener hears of a run. UAP-1.0 §12.2, decisions A54, A55, A104.

use std::sync::Arc;

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use crate::core::json::tagged::CowStr;
use crate::core::json::{RawJson, RawObject, json_object};
use crate::message::{StreamEvent, TokenUsage, ToolCall, ToolResult};

/// One event of a streamed run.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentStreamEvent {
    /// Of the agent: `source` is `uap`.
    Uap(UapEvent),
    /// Of the model or a tool, unchanged: `source` is `upp`.
    Upp(StreamEvent),
}

/// An event of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct UapEvent {
    /// The step, from 1.
    pub step: u32,
    /// The agent.
    pub agent_id: Arc<str>,
    /// What happened.
    pub data: UapData,
}

json_object! {
    /// A step begins.
    #[derive(Debug, Clone, PartialEq)]
    pub struct StepStart {
        /// The step, from 1.
        pub step_number: u32 = "stepNumber",
        /// The step's id.
        pub step_id: Option<Arc<str>> = "stepId",
        /// The step of the plan that it carries out, where the strategy makes plans.
        pub plan_step_id: Option<Arc<str>> = "planStepId",
    }
}

json_object! {
    /// A step has ended.
    #[derive(Debug, Clone, PartialEq)]
    pub struct StepEnd {
        /// The step, from 1.
        pub step_number: u32 = "stepNumber",
        /// The step's id.
        pub step_id: Option<Arc<str>> = "stepId",
        /// As in [`StepStart`].
        pub plan_step_id: Option<Arc<str>> = "planStepId",
        /// Tokens of this step alone.
        pub usage: TokenUsage = "usage", default,
    }
}

json_object! {
    /// What a model thought.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Reasoning {
        /// Its words.
        pub text: String = "text",
    }
}

json_object! {
    /// Tools that the model wants called.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ActionTaken {
        /// The calls.
        pub tool_calls: Vec<ToolCall> = "toolCalls",
    }
}

json_object! {
    /// What the tools gave back.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Observation {
        /// One result a call, in the order of the calls.
        pub results: Vec<ToolResult> = "results",
    }
}

json_object! {
    /// A checkpoint was made.
    #[derive(Debug, Clone, PartialEq)]
    pub struct CheckpointMade {
        /// Its id.
        pub checkpoint_id: String = "checkpointId",
    }
}

macro_rules! data {
    ($( $(#[$meta:meta])* $variant:ident($type:ty) = $kind:literal, )*) => {
        /// What happened, by type.
        #[derive(Debug, Clone, PartialEq)]
        pub enum UapData {
            $( $(#[$meta])* $variant($type), )*
            /// A type this version does not know.
            Unknown {
                /// Its name.
                kind: Box<str>,
                /// Its data.
                data: RawObject,
            },
        }

        impl UapData {
            /// Every type of UAP-1.0, in the order of its table.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// Its name in JSON.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $kind, )*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// Its data as JSON.
            ///
            /// # Errors
            /// As [`RawJson::from_value`].
            pub fn to_raw(&self) -> Result<RawJson, serde_json::Error> {
                match self {
                    $( Self::$variant(data) => RawJson::from_value(data), )*
                    Self::Unknown { data, .. } => RawJson::from_value(data),
                }
            }

            fn read(kind: &str, data: &RawJson) -> Result<Self, serde_json::Error> {
                Ok(match kind {
                    $( $kind => Self::$variant(data.to()?), )*
                    _ => Self::Unknown { kind: kind.into(), data: data.to()? },
                })
            }
        }
    };
}

data! {
    /// A step begins.
    StepStart(StepStart) = "step_start",
    /// A step has ended.
    StepEnd(StepEnd) = "step_end",
    /// What a model thought.
    Reasoning(Reasoning) = "reasoning",
    /// Tools that the model wants called.
    Action(ActionTaken) = "action",
    /// What the tools gave back.
    Observation(Observation) = "observation",
    /// A checkpoint was made.
    Checkpoint(CheckpointMade) = "checkpoint",
}

impl Serialize for UapEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("type", self.data.kind())?;
        map.serialize_entry("step", &self.step)?;
        map.serialize_entry("agentId", &self.agent_id)?;
        map.serialize_entry("data", &self.data.to_raw().map_err(serde::ser::Error::custom)?)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for UapEvent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = UapEvent;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an agent event")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UapEvent, A::Error> {
                let (mut kind, mut step, mut agent_id) = (None, None, None);
                let mut data = RawJson::empty_object();
                while let Some(key) = map.next_key::<CowStr<'de>>()? {
                    match key.as_str() {
                        "type" => kind = Some(map.next_value::<CowStr<'de>>()?),
                        "step" => step = Some(map.next_value()?),
                        "agentId" => agent_id = Some(map.next_value::<Arc<str>>()?),
                        "data" => data = map.next_value()?,
                        _ => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                let kind = kind.ok_or_else(|| A::Error::missing_field("type"))?;
                Ok(UapEvent {
                    step: step.ok_or_else(|| A::Error::missing_field("step"))?,
                    agent_id: agent_id.ok_or_else(|| A::Error::missing_field("agentId"))?,
                    data: UapData::read(kind.as_str(), &data).map_err(A::Error::custom)?,
                })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl AgentStreamEvent {
    /// `uap` or `upp`.
    pub const fn source(&self) -> &'static str {
        match self {
            Self::Uap(_) => "uap",
            Self::Upp(_) => "upp",
        }
    }

    /// The agent's event.
    pub const fn as_uap(&self) -> Option<&UapEvent> {
        match self {
            Self::Uap(event) => Some(event),
            Self::Upp(_) => None,
        }
    }

    /// The model's or the tool's event.
    pub const fn as_upp(&self) -> Option<&StreamEvent> {
        match self {
            Self::Upp(event) => Some(event),
            Self::Uap(_) => None,
        }
    }
}

/// `{"source": "uap", "uap": {…}}` or `{"source": "upp", "upp": {…}}`.
impl Serialize for AgentStreamEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("source", self.source())?;
        match self {
            Self::Uap(event) => map.serialize_entry("uap", event)?,
            Self::Upp(event) => map.serialize_entry("upp", event)?,
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for AgentStreamEvent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Members {
            source: String,
            uap: Option<UapEvent>,
            upp: Option<StreamEvent>,
        }
        let members = Members::deserialize(deserializer)?;
        match (members.source.as_str(), members.uap, members.upp) {
            ("uap", Some(event), _) => Ok(Self::Uap(event)),
            ("upp", _, Some(event)) => Ok(Self::Upp(event)),
            ("uap" | "upp", _, _) => Err(D::Error::custom("the event of the source is missing")),
            (other, _, _) => Err(D::Error::custom(format_args!("unknown source: {other}; use uap or upp"))),
        }
    }
}
