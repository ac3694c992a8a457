//! Agent cards: what an agent can do and where it is served.
//!
//! The card of 1.0 has the members of 0.3 too, because clients of 0.3 read the same path.
//!
//! Spec: A2A 1.0; UAMP-1.0 §9

use serde_json::{Value, json};

use crate::agent::ServedAgent;
use crate::types::Modality;

/// The extension under which the card has the capabilities of UAMP.
const CAPABILITIES: &str = "https://uamp.dev/extensions/capabilities/v1";

/// The card of 1.0. `url` is that of the agent, without a slash at the end.
pub fn card(agent: &ServedAgent, url: &str, is_protected: bool) -> Value {
    let endpoint = format!("{url}/a2a");
    let interface = |binding: &str, version: &str| json!({ "url": endpoint, "protocolBinding": binding, "protocolVersion": version });
    let mut card = json!({
        "name": &**agent.name(),
        "description": description(agent),
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": [
            interface("JSONRPC", "1.0"), interface("HTTP+JSON", "1.0"), interface("JSONRPC", "0.3"),
        ],
        "capabilities": {
            "streaming": true,
            "pushNotifications": true,
            "extendedAgentCard": false,
            "extensions": [{
                "uri": CAPABILITIES,
                "description": "What the agent can do, as UAMP says it.",
                "required": false,
                "params": agent.capabilities(),
            }],
        },
        "defaultInputModes": input_modes(agent),
        "defaultOutputModes": ["text/plain"],
        "skills": skills(agent),
        "url": endpoint,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
    });
    if is_protected && let Some(members) = card.as_object_mut() {
        let scheme = json!({ "httpAuthSecurityScheme": { "scheme": "Bearer" } });
        members.insert("securitySchemes".to_owned(), json!({ "bearer": scheme }));
        let requirement = json!({ "schemes": { "bearer": { "list": [] } } });
        members.insert("securityRequirements".to_owned(), json!([requirement]));
    }
    card
}

/// The card of 0.3.
pub fn card_v03(agent: &ServedAgent, url: &str, is_protected: bool) -> Value {
    let mut card = json!({
        "name": &**agent.name(),
        "description": description(agent),
        "version": env!("CARGO_PKG_VERSION"),
        "protocolVersion": "0.3.0",
        "url": format!("{url}/a2a"),
        "preferredTransport": "JSONRPC",
        "capabilities": { "streaming": true, "pushNotifications": true, "stateTransitionHistory": false },
        "modelCapabilities": agent.capabilities(),
        "defaultInputModes": input_modes(agent),
        "defaultOutputModes": ["text/plain"],
        "skills": skills(agent),
    });
    if is_protected && let Some(members) = card.as_object_mut() {
        let scheme = json!({ "type": "http", "scheme": "bearer" });
        members.insert("securitySchemes".to_owned(), json!({ "bearer": scheme }));
        members.insert("security".to_owned(), json!([{ "bearer": [] }]));
    }
    card
}

fn description(agent: &ServedAgent) -> String {
    agent.description().map_or_else(|| format!("The agent {}.", agent.name()), str::to_owned)
}

fn skills(agent: &ServedAgent) -> Value {
    json!([{
        "id": &**agent.name(), "name": &**agent.name(), "description": description(agent), "tags": ["chat"],
    }])
}

fn input_modes(agent: &ServedAgent) -> Vec<&'static str> {
    let mut modes = vec!["text/plain", "application/json"];
    for modality in agent.capabilities().modalities {
        match modality {
            Modality::Image => modes.push("image/*"),
            Modality::Audio => modes.push("audio/*"),
            Modality::Video => modes.push("video/*"),
            Modality::File => modes.push("application/pdf"),
            _ => {}
        }
    }
    modes
}
