//! The agent and the rest of a path.
//!
//! Every wire is served at the root, below `/v1`, and below `/agents/{name}`.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::site::Site;
use crate::agent::ServedAgent;

/// Where a request goes.
#[derive(Debug, Clone)]
pub struct Route {
    /// The agent that the path names.
    pub agent: Option<Arc<ServedAgent>>,
    /// The path before that of the wire, without `/v1`: `""` or `/agents/{name}`.
    pub base: Arc<str>,
    /// The path of the wire: `""` or `/chat/completions`, without a slash at the end.
    pub path: Arc<str>,
}

/// No agent has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent \"{name}\"; the agents are {known}")]
pub struct UnknownAgent {
    /// The name; empty if the request names no agent.
    pub name: String,
    /// The names that the server has.
    pub known: String,
}

impl Route {
    /// Reads a path.
    ///
    /// # Errors
    /// It names an agent that the server does not have.
    pub fn of_path(site: &Site, path: &str) -> Result<Self, UnknownAgent> {
        let (segment, base, rest) = parts(path);
        let agent = match segment {
            None => None,
            Some(segment) => {
                let name = percent_decode_str(segment).decode_utf8_lossy();
                Some(Arc::clone(site.agents.get(&name).ok_or_else(|| unknown(site, &name))?))
            }
        };
        Ok(Self { agent, base: base.into(), path: path_of_wire(rest).into() })
    }

    /// Reads a path whose agent the server does not have.
    pub(super) fn without_agent(path: &str) -> Self {
        let (_, base, rest) = parts(path);
        Self { agent: None, base: base.into(), path: path_of_wire(rest).into() }
    }

    /// The agent of a request: that of the path, else the named one, else the only one of the server. A name that is
    /// given must be that of an agent also if the path names one.
    ///
    /// # Errors
    /// No agent has the name, or there are several agents and the request names none.
    pub fn agent<'a>(
        &'a self,
        site: &'a Site,
        name: Option<&str>,
    ) -> Result<&'a Arc<ServedAgent>, UnknownAgent> {
        let of_path = self.agent.as_ref().or_else(|| site.agents.only());
        match name {
            Some(name) => match of_path {
                Some(agent) if **agent.name() == *name => Ok(agent),
                Some(_) if self.agent.is_some() => Err(unknown(site, name)),
                _ => site.agents.get(name).ok_or_else(|| unknown(site, name)),
            },
            None => of_path.ok_or_else(|| unknown(site, "")),
        }
    }

    /// The agents that a request at this path can see: that of the path, or all.
    pub fn agents(&self, site: &Site) -> Vec<Arc<ServedAgent>> {
        match &self.agent {
            Some(agent) => vec![Arc::clone(agent)],
            None => site.agents.iter().cloned().collect(),
        }
    }
}

/// The agent's name as it is in a path, the path with the name, and the rest.
fn parts(path: &str) -> (Option<&str>, &str, &str) {
    let Some(rest) = path.strip_prefix("/agents/") else { return (None, "", path) };
    let end = rest.find('/').unwrap_or(rest.len());
    let (segment, rest) = rest.split_at(end);
    (Some(segment), path.get(.."/agents/".len() + end).unwrap_or_default(), rest)
}

fn path_of_wire(rest: &str) -> &str {
    let rest = match rest.strip_prefix("/v1") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => rest,
    };
    rest.strip_suffix('/').unwrap_or(rest)
}

fn unknown(site: &Site, name: &str) -> UnknownAgent {
    // The name is a part of errors, and as long as the client likes.
    UnknownAgent { name: name.chars().take(128).collect(), known: site.agents.names() }
}
