//! Agent cards: what an agent is, and by which interface it is called.

use serde_json::Value;

use super::error::A2aClientError;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// 1.0
    V1,
    /// 0.3
    V03,
}

impl ProtocolVersion {
    /// The value of the header `A2A-Version`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V03 => "0.3",
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut numbers = text.split('.');
        match (numbers.next(), numbers.next()) {
            (Some("1"), _) => Some(Self::V1),
            (Some("0"), Some("2" | "3")) => Some(Self::V03),
            _ => None,
        }
    }
}

/// How an agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The URL of JSON-RPC.
    pub url: String,
    /// The version.
    pub version: ProtocolVersion,
    /// The tenant that each request names.
    pub tenant: Option<String>,
}

/// An agent card, of any version.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentCard {
    /// The interface that is used: version 1.0 if the agent offers it.
    pub interface: Interface,
    /// True if the agent streams.
    pub is_streaming: bool,
    /// The whole card.
    pub json: Value,
}

impl AgentCard {
    /// Reads a card.
    ///
    /// # Errors
    /// It is not a card, or has no interface that this client speaks.
    pub fn read(url: &str, body: &[u8]) -> Result<Self, A2aClientError> {
        let wrong = |reason: String| A2aClientError::Card { url: url.to_owned(), reason };
        let json: Value = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        if !json.get("name").is_some_and(Value::is_string) {
            return Err(wrong("the document has no name".to_owned()));
        }
        let interface =
            interface_of(&json).ok_or_else(|| A2aClientError::Interface { found: names(&json) })?;
        let is_streaming = json.pointer("/capabilities/streaming").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { interface, is_streaming, json })
    }
}

/// The interfaces of a card, of both versions: URL, binding, version, tenant.
fn interfaces(card: &Value) -> Vec<(String, String, String, Option<String>)> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let list = |name: &str| card.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut found: Vec<_> = list("supportedInterfaces")
        .filter_map(|item| {
            let version = text(item, "protocolVersion").unwrap_or_else(|| "1.0".to_owned());
            let tenant = text(item, "tenant").filter(|tenant| !tenant.is_empty());
            Some((text(item, "url")?, text(item, "protocolBinding")?, version, tenant))
        })
        .collect();
    let version = text(card, "protocolVersion").unwrap_or_else(|| "0.3".to_owned());
    if let Some(url) = text(card, "url") {
        let binding = text(card, "preferredTransport").unwrap_or_else(|| "JSONRPC".to_owned());
        found.push((url, binding, version.clone(), None));
    }
    found.extend(
        list("additionalInterfaces")
            .filter_map(|item| Some((text(item, "url")?, text(item, "transport")?, version.clone(), None))),
    );
    found
}

fn interface_of(card: &Value) -> Option<Interface> {
    let usable: Vec<Interface> = interfaces(card)
        .into_iter()
        .filter(|(_, binding, ..)| binding == "JSONRPC")
        .filter_map(|(url, _, version, tenant)| {
            Some(Interface { url, version: ProtocolVersion::of_text(&version)?, tenant })
        })
        .collect();
    let newest = usable.iter().position(|interface| interface.version == ProtocolVersion::V1);
    usable.into_iter().nth(newest.unwrap_or(0))
}

fn names(card: &Value) -> String {
    let names: Vec<String> =
        interfaces(card).into_iter().map(|(_, binding, version, _)| format!("{binding} {version}")).collect();
    if names.is_empty() { "no interface".to_owned() } else { names.join(", ") }
}
