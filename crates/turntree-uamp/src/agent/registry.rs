//! The agents of a server, by name.

use std::fmt;
use std::sync::Arc;

use turntree_agents::Agent;
use turntree_upp::Capabilities as ModelCapabilities;

use super::host::AgentHost;
use crate::types::{Capabilities, Modality, ToolCapabilities};

/// The name of an agent that has none.
const UNNAMED: &str = "agent";

/// An agent that a server offers.
#[derive(Clone)]
pub struct ServedAgent {
    name: Arc<str>,
    agent: Agent,
    host: Arc<dyn AgentHost>,
    description: Option<Arc<str>>,
}

impl ServedAgent {
    /// An agent with the application behind it. Its name is its path; an agent without a name is `agent`.
    pub fn new(agent: Agent, host: Arc<dyn AgentHost>) -> Self {
        let name = agent.options().name.clone().unwrap_or_else(|| UNNAMED.into());
        Self { name, agent, host, description: None }
    }

    /// Sets what the agent does, for discovery.
    #[must_use]
    pub fn with_description(self, description: impl Into<Arc<str>>) -> Self {
        Self { description: Some(description.into()), ..self }
    }

    /// The name.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What the agent does.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The agent.
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The application behind the agent.
    pub const fn host(&self) -> &Arc<dyn AgentHost> {
        &self.host
    }

    /// What the agent can do.
    pub fn capabilities(&self) -> Capabilities {
        let model = self.agent.options().model.as_ref();
        let features = model.map_or(ModelCapabilities::TEXT, |model| model.capabilities());
        let mut modalities = vec![Modality::Text];
        let media = [
            (features.image_input, Modality::Image),
            (features.audio_input, Modality::Audio),
            (features.video_input, Modality::Video),
            (features.document_input, Modality::File),
        ];
        modalities.extend(media.into_iter().filter(|(has, _)| *has).map(|(_, modality)| modality));
        let tools = ToolCapabilities {
            supports_tools: Some(true),
            supports_parallel_tools: Some(true),
            supports_streaming_tools: Some(true),
            ..ToolCapabilities::default()
        };
        Capabilities {
            id: self.name.to_string(),
            provider: "turntree".to_owned(),
            modalities,
            supports_streaming: true,
            supports_thinking: true,
            supports_caching: false,
            tools: Some(tools),
            ..Capabilities::default()
        }
    }
}

impl fmt::Debug for ServedAgent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServedAgent").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why agents cannot be served together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// There are no agents.
    #[error("there are no agents to serve; pass at least one")]
    Empty,
    /// Two agents have one name.
    #[error("two agents are named \"{name}\"; give them different names: the name is the path of an agent")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A name cannot be a part of a URL.
    #[error("the agent's name \"{name}\" cannot be a path; use 1 to 128 printable characters without \"/\"")]
    InvalidName {
        /// The name.
        name: String,
    },
}

/// The agents of a server. Cloning shares them.
#[derive(Debug, Clone)]
pub struct AgentRegistry {
    agents: Arc<[Arc<ServedAgent>]>,
}

impl AgentRegistry {
    /// The agents in the order in which they are listed.
    ///
    /// # Errors
    /// There are none, two have one name, or a name cannot be a path.
    pub fn new(agents: impl IntoIterator<Item = ServedAgent>) -> Result<Self, RegistryError> {
        let agents: Arc<[Arc<ServedAgent>]> = agents.into_iter().map(Arc::new).collect();
        if agents.is_empty() {
            return Err(RegistryError::Empty);
        }
        for (index, agent) in agents.iter().enumerate() {
            let name = agent.name();
            if !is_path_segment(name) {
                return Err(RegistryError::InvalidName { name: name.to_string() });
            }
            if agents.iter().take(index).any(|other| other.name() == name) {
                return Err(RegistryError::DuplicateName { name: name.to_string() });
            }
        }
        Ok(Self { agents })
    }

    /// All agents.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ServedAgent>> {
        self.agents.iter()
    }

    /// The agent with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ServedAgent>> {
        self.agents.iter().find(|agent| **agent.name() == *name)
    }

    /// The only agent, if there is one: it is also served at the root.
    pub fn only(&self) -> Option<&Arc<ServedAgent>> {
        match &*self.agents {
            [agent] => Some(agent),
            _ => None,
        }
    }

    /// The names, for error messages.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.agents.iter().map(|agent| format!("\"{}\"", agent.name())).collect();
        names.join(", ")
    }
}

/// One segment of a path, when it is percent-encoded.
fn is_path_segment(name: &str) -> bool {
    let has_length = (1..=128).contains(&name.chars().count());
    has_length && name != "." && name != ".." && !name.chars().any(|char| char == '/' || char.is_control())
}
