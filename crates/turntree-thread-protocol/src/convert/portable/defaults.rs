//! Values that every conversion uses where its input has none: times, titles, ids and the default agent.

use uuid::Uuid;

use crate::action::Action;
use crate::content::MessageContent;
use crate::document::AgentConfig;

/// The time of actions without one: never the current time, so that imports are deterministic.
pub(in crate::convert) const EPOCH: &str = "1970-01-01T00:00:00Z";

/// The maximum number of characters of a derived title.
const TITLE_CHARACTERS: usize = 80;

/// The namespace of all ids that are derived from content.
pub(in crate::convert) fn namespace() -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, b"urn:turntree:thread-protocol")
}

/// The default agent.
pub(in crate::convert) fn assistant() -> AgentConfig {
    named_agent("assistant", "Assistant")
}

/// An agent whose id is derived from its identifier. Its creation time is set from the thread.
pub(in crate::convert) fn named_agent(identifier: &str, name: &str) -> AgentConfig {
    let id = Uuid::new_v5(&namespace(), format!("agent:{identifier}").as_bytes());
    AgentConfig {
        agent_id: id.to_string(),
        agent_identifier: identifier.to_owned(),
        agent_name: name.to_owned(),
        ..AgentConfig::default()
    }
}

/// The default title: the beginning of the first user text.
pub(in crate::convert) fn title<'t>(mut actions: impl Iterator<Item = &'t Action>) -> String {
    let first = actions.find_map(|action| match action {
        Action::UserMessage(message) => Some(&message.content),
        _ => None,
    });
    first.map(MessageContent::text).unwrap_or_default().chars().take(TITLE_CHARACTERS).collect()
}
