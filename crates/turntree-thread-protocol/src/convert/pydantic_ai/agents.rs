//! The agents of a history. Pydantic AI does not record them. Decision 11.

use std::fmt;
use std::sync::Arc;

use super::model::ModelMessage;
use crate::convert::portable::named_agent;
use crate::document::AgentConfig;

/// Selects the agent of a response.
type ChooseAgent = dyn Fn(&ModelMessage<'_>) -> Option<AgentConfig> + Send + Sync;

/// Determines the agents of a history.
#[derive(Clone, Default)]
pub enum AgentSource {
    /// `metadata["agent"]` of the message; by default one agent named `assistant`.
    #[default]
    Default,
    /// One agent for all responses.
    One(AgentConfig),
    /// One agent per run, by run id. Other runs as [`Self::Default`].
    ByRun(Vec<(String, AgentConfig)>),
    /// A function that selects the agent of each response; `None` as [`Self::Default`].
    Choose(Arc<ChooseAgent>),
}

impl fmt::Debug for AgentSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("Default"),
            Self::One(agent) => formatter.debug_tuple("One").field(agent).finish(),
            Self::ByRun(runs) => formatter.debug_tuple("ByRun").field(runs).finish(),
            Self::Choose(_) => formatter.write_str("Choose(..)"),
        }
    }
}

impl AgentSource {
    /// The agent of a response; `None` for the default agent.
    pub fn choose(&self, message: &ModelMessage<'_>) -> Option<AgentConfig> {
        let chosen = match self {
            Self::One(agent) => return Some(agent.clone()),
            Self::Default => None,
            Self::ByRun(runs) => message
                .text("run_id")
                .and_then(|id| runs.iter().find(|(run, _)| *run == id))
                .map(|(_, agent)| agent.clone()),
            Self::Choose(choose) => choose(message),
        };
        chosen.or_else(|| named_in_metadata(message))
    }
}

/// The agent in the metadata of the message.
fn named_in_metadata(message: &ModelMessage<'_>) -> Option<AgentConfig> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        agent: Option<String>,
    }
    let metadata = message.members.get("metadata").filter(|value| value.is_object())?;
    let name = serde_json::from_str::<Metadata>(&metadata.to_json()).ok()?.agent?;
    Some(named_agent(&name, &name))
}
