//! The events of a streamed run.
//!
//! Spec: UAP-1.0 §12.2; decisions A54, A55, A104

use std::sync::Arc;

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::types::plan_step::PlanStep;
use turntree_core::json::schema::{Definitions, JsonSchema};
use turntree_core::json::tagged::CowStr;
use turntree_core::json::{RawJson, RawObject, json_object};
use turntree_core::message::{StreamEvent, TokenUsage, ToolCall, ToolResult};

/// One event of a streamed run.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentStreamEvent {
    /// An event of the agent: `source` is `uap`.
    Uap(UapEvent),
    /// An event of the model or a tool, unchanged: `source` is `upp`.
    Upp(StreamEvent),
    /// An event of a sub-agent, at any depth; only if the stream includes them (decision A60).
    SubAgent(Box<SubAgentEvent>),
}

/// An event of an agent that runs as a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct SubAgentEvent {
    /// The run of the sub-agent.
    pub run: Arc<SubAgentRun>,
    /// The event as a consumer of that run's stream receives it: [`AgentStreamEvent::Uap`] or [`AgentStreamEvent::Upp`].
    pub event: AgentStreamEvent,
}

json_object! {
    /// One run of an agent that serves as a tool.
///
/// Spec: UAP-1.0 §8.4
    #[derive(Debug, Clone, PartialEq)]
    pub struct SubAgentRun {
        /// The agent.
        pub agent_id: Arc<str> = "agentId",
        /// The run.
        pub turn_id: Arc<str> = "turnId",
        /// The calling agent; `None` in a call of a bare model.
        pub parent_agent_id: Option<Arc<str>> = "parentAgentId",
        /// The calling run; `None` in a call of a bare model.
        pub parent_turn_id: Option<Arc<str>> = "parentTurnId",
        /// The name of the tool.
        pub tool_name: Arc<str> = "toolName",
        /// The call.
        pub tool_call_id: Arc<str> = "toolCallId",
        /// The number of runs that contain this one, from 1.
        pub depth: u32 = "depth",
    }
}

/// An event of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct UapEvent {
    /// The step, from 1.
    pub step: u32,
    /// The agent.
    pub agent_id: Arc<str>,
    /// The type and the data of the event.
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
        /// The id of the plan step that is executed, if the strategy makes plans.
        pub plan_step_id: Option<Arc<str>> = "planStepId",
        /// The plan, if the strategy makes plans.
        pub plan: Option<Vec<PlanStep>> = "plan",
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
        /// As in [`StepStart`].
        pub plan: Option<Vec<PlanStep>> = "plan",
        /// Token usage of this step.
        pub usage: TokenUsage = "usage", default,
    }
}

json_object! {
    /// The model has reasoned.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Reasoning {
        /// The text of the reasoning.
        pub text: String = "text",
    }
}

json_object! {
    /// The model calls tools.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ActionTaken {
        /// The calls.
        pub tool_calls: Vec<ToolCall> = "toolCalls",
    }
}

json_object! {
    /// The tools have returned.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Observation {
        /// One result for each call, in the order of the calls.
        pub results: Vec<ToolResult> = "results",
    }
}

json_object! {
    /// A checkpoint was created.
    #[derive(Debug, Clone, PartialEq)]
    pub struct CheckpointMade {
        /// The id of the checkpoint.
        pub checkpoint_id: String = "checkpointId",
    }
}

macro_rules! data {
    ($( $(#[$meta:meta])* $variant:ident($type:ty) = $kind:literal, )*) => {
        /// The data of an event, by type.
        #[derive(Debug, Clone, PartialEq)]
        pub enum UapData {
            $( $(#[$meta])* $variant($type), )*
            /// A type that this version does not define.
            Unknown {
                /// The name of the type.
                kind: Box<str>,
                /// The data.
                data: RawObject,
            },
        }

        impl UapData {
            /// The event types of UAP-1.0, in the order of its table.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The name of the type in JSON.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $kind, )*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            fn schemas(definitions: &mut Definitions) -> Vec<Value> {
                let tag = |kind: &str| json!({ "const": kind, "type": "string" });
                vec![$( event_schema(&tag($kind), &<$type>::schema(definitions)) ),*]
            }

            /// Returns the data as JSON.
            ///
            /// # Errors
            /// As for [`RawJson::from_value`].
            pub fn to_raw(&self) -> Result<RawJson, serde_json::Error> {
                match self {
                    $( Self::$variant(data) => RawJson::from_value(data), )*
                    Self::Unknown { data, .. } => RawJson::from_value(data),
                }
            }

            /// Reads data of a type by its name in JSON.
            ///
            /// # Errors
            /// The data lacks a member of the type, or a member has another type.
            pub fn from_raw(kind: &str, data: &RawJson) -> Result<Self, serde_json::Error> {
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
    /// The model has reasoned.
    Reasoning(Reasoning) = "reasoning",
    /// The model calls tools.
    Action(ActionTaken) = "action",
    /// The tools have returned.
    Observation(Observation) = "observation",
    /// A checkpoint was created.
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
                    data: UapData::from_raw(kind.as_str(), &data).map_err(A::Error::custom)?,
                })
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl JsonSchema for UapEvent {
    fn schema(definitions: &mut Definitions) -> Value {
        definitions.reference("UapEvent", |definitions| {
            let known = UapData::schemas(definitions);
            let other =
                event_schema(&json!({ "type": "string", "not": { "enum": UapData::KINDS } }), &json!({}));
            json!({ "anyOf": [{ "oneOf": known }, other] })
        })
    }
}

fn event_schema(kind: &Value, data: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": kind,
            "step": { "type": "integer", "minimum": 0 },
            "agentId": { "type": "string" },
            "data": data,
        },
        "required": ["type", "step", "agentId"],
    })
}

impl AgentStreamEvent {
    /// `uap` or `upp`.
    pub const fn source(&self) -> &'static str {
        match self {
            Self::Uap(_) => "uap",
            Self::Upp(_) => "upp",
            Self::SubAgent(sub) => match sub.event {
                Self::Uap(_) => "uap",
                _ => "upp",
            },
        }
    }

    /// The run of the sub-agent, for an event of a sub-agent.
    pub fn sub_agent(&self) -> Option<&Arc<SubAgentRun>> {
        match self {
            Self::SubAgent(sub) => Some(&sub.run),
            Self::Uap(_) | Self::Upp(_) => None,
        }
    }

    /// The event of an agent or a sub-agent; `None` for an event of a model or a tool.
    pub fn as_uap(&self) -> Option<&UapEvent> {
        match self {
            Self::Uap(event) => Some(event),
            Self::SubAgent(sub) => sub.event.as_uap(),
            Self::Upp(_) => None,
        }
    }

    /// The event of a model or a tool; `None` for an event of an agent.
    pub fn as_upp(&self) -> Option<&StreamEvent> {
        match self {
            Self::Upp(event) => Some(event),
            Self::SubAgent(sub) => sub.event.as_upp(),
            Self::Uap(_) => None,
        }
    }
}

/// Writes `{"source": "uap", "uap": {…}}` or `{"source": "upp", "upp": {…}}`. Events of sub-agents also have the member
/// `subAgent`.
impl Serialize for AgentStreamEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("source", self.source())?;
        if let Some(event) = self.as_uap() {
            map.serialize_entry("uap", event)?;
        }
        if let Some(event) = self.as_upp() {
            map.serialize_entry("upp", event)?;
        }
        if let Some(run) = self.sub_agent() {
            map.serialize_entry("subAgent", run)?;
        }
        map.end()
    }
}

impl JsonSchema for AgentStreamEvent {
    fn schema(definitions: &mut Definitions) -> Value {
        definitions.reference("AgentStreamEvent", |definitions| {
            let sub_agent = SubAgentRun::schema(definitions);
            let of = |source: &str, event: Value| {
                json!({
                    "type": "object",
                    "properties": {
                        "source": { "const": source, "type": "string" },
                        source: event,
                        "subAgent": sub_agent,
                    },
                    "required": ["source", source],
                })
            };
            let events = [("uap", UapEvent::schema(definitions)), ("upp", StreamEvent::schema(definitions))];
            json!({ "oneOf": events.map(|(source, event)| of(source, event)) })
        })
    }
}

impl<'de> Deserialize<'de> for AgentStreamEvent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members {
            source: String,
            uap: Option<UapEvent>,
            upp: Option<StreamEvent>,
            // Without Python's name, a dump with Python's names would lose the member: it is optional.
            #[serde(alias = "sub_agent")]
            sub_agent: Option<Arc<SubAgentRun>>,
        }
        let members = Members::deserialize(deserializer)?;
        let event = match (members.source.as_str(), members.uap, members.upp) {
            ("uap", Some(event), _) => Self::Uap(event),
            ("upp", _, Some(event)) => Self::Upp(event),
            ("uap" | "upp", _, _) => return Err(D::Error::custom("the event of the source is missing")),
            (other, _, _) => {
                return Err(D::Error::custom(format_args!("unknown source: {other}; use uap or upp")));
            }
        };
        Ok(match members.sub_agent {
            Some(run) => Self::SubAgent(Box::new(SubAgentEvent { run, event })),
            None => event,
        })
    }
}
