//! Provider tools: tools that the vendor runs itself, or has trained its models on.
//!
//! Requests ask for them in `params.tools`, in the vendor's format. To appear next to functions in `tools`, such a
//! tool carries its definition in its metadata: `{provider: {"native": {…}}}`. [`settle`] moves the definition into
//! the parameters for the provider that owns the tool, and refuses it for any other provider.
//!
//! Spec: UPP-1.2 §19.1–§19.8

use std::borrow::Cow;
use std::sync::Arc;

use super::error::UppError;
use super::request::ModelRequest;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::ToolDefinition;

/// The metadata member with the vendor's definition.
pub const MARK: &str = "native";

const TOOLS: &str = "tools";

/// A provider tool for `tools`. `definition` is sent to the vendor as it is.
///
/// ```
/// use turntree_core::json::RawJson;
/// use turntree_upp::provider_tools;
///
/// let words = RawJson::from_text(r#"{"type":"web_search_20250305","name":"web_search"}"#.to_owned())?;
/// let search = provider_tools::tool("anthropic", "web_search", words);
/// assert!(provider_tools::is_native(&search));
/// # Ok::<_, serde_json::Error>(())
/// ```
pub fn tool(provider: &str, name: &str, definition: RawJson) -> ToolDefinition {
    let members: RawObject = [(MARK, definition)].into_iter().collect();
    let members = RawJson::from_value(&members).unwrap_or_default();
    ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawJson::empty_object(),
        metadata: Some([(provider, members)].into_iter().collect()),
        extra: Extra::new(),
    }
}

/// True if a tool is a provider tool.
pub fn is_native(tool: &ToolDefinition) -> bool {
    owners(tool).next().is_some()
}

/// The vendors that own a tool, each with its definition.
fn owners(tool: &ToolDefinition) -> impl Iterator<Item = (&str, RawJson)> {
    let namespaces = tool.metadata.iter().flat_map(RawObject::iter);
    namespaces.filter_map(|(provider, members)| Some((provider, RawObject::from_raw(members)?.remove(MARK)?)))
}

/// Moves provider tools from `tools` to the parameters, where dialects expect them.
///
/// `takes_native_tools` is true if the provider's API supports provider tools.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for a tool of another provider, for an API without
/// provider tools, and if `params.tools` is not a list.
pub fn settle<'a>(
    request: &'a ModelRequest,
    provider: &str,
    takes_native_tools: bool,
) -> Result<Cow<'a, ModelRequest>, UppError> {
    if !request.tools.iter().any(is_native) {
        return Ok(Cow::Borrowed(request));
    }
    let mut native: Vec<RawJson> = match request.params.get(TOOLS).filter(|tools| !tools.is_null()) {
        None => Vec::new(),
        Some(tools) => tools.to().map_err(|_| {
            UppError::invalid_request(provider, "params.tools: expected a list of provider tools")
        })?,
    };
    let mut functions = Vec::new();
    // Vertex AI runs the tools of Google's models.
    let vendor = if provider == "vertex" { "google" } else { provider };
    for tool in &*request.tools {
        let owners: Vec<(&str, RawJson)> = owners(tool).collect();
        let own = owners.iter().find(|(owner, _)| *owner == vendor && takes_native_tools);
        match own {
            Some((_, definition)) => native.push(definition.clone()),
            None if owners.is_empty() => functions.push(tool.clone()),
            None => return Err(not_owned(provider, tool, &owners)),
        }
    }
    let mut params = (*request.params).clone();
    params.insert(TOOLS, RawJson::from_value(&native).unwrap_or_default());
    Ok(Cow::Owned(ModelRequest { params: Arc::new(params), tools: functions.into(), ..request.clone() }))
}

fn not_owned(provider: &str, tool: &ToolDefinition, owners: &[(&str, RawJson)]) -> UppError {
    let owners: Vec<&str> = owners.iter().map(|(owner, _)| *owner).collect();
    let (name, owners) = (&tool.name, owners.join(" or "));
    let message = format!(
        "tools: \"{name}\" is a tool of {owners}'s own, which this API of {provider} does not run; \
         ask a model of {owners}, or give a function of that name"
    );
    UppError::invalid_request(provider, message)
}
