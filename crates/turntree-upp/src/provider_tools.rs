//! Tools that a vendor owns: it runs them itself, or has trained its models on them. UPP-1.2 §19.1–19.8.
//!
//! They are asked for among the parameters (`params.tools`), in the vendor's own words. To stand beside functions in
//! `tools`, such a tool carries those words in its metadata: `{provider: {"native": {…}}}`. [`settle`] moves them into
//! the parameters where the provider that is asked is the one that owns them, and refuses them anywhere else.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::UppError;
use super::request::ModelRequest;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::ToolDefinition;

/// Under which name the vendor's words are kept.
pub const MARK: &str = "native";

const TOOLS: &str = "tools";

/// A vendor's own tool, to stand in `tools`. `definition` is what the vendor wants to read.
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
    let facts: RawObject = [(MARK, definition)].into_iter().collect();
    let facts = RawJson::from_value(&facts).unwrap_or_default();
    ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawJson::empty_object(),
        metadata: Some([(provider, facts)].into_iter().collect()),
        extra: Extra::new(),
    }
}

/// Whether a tool is some vendor's own.
pub fn is_native(tool: &ToolDefinition) -> bool {
    owners(tool).next().is_some()
}

/// The vendors that own a tool, each with its words for it.
fn owners(tool: &ToolDefinition) -> impl Iterator<Item = (&str, RawJson)> {
    let namespaces = tool.metadata.iter().flat_map(RawObject::iter);
    namespaces.filter_map(|(provider, facts)| Some((provider, RawObject::from_raw(facts)?.remove(MARK)?)))
}

/// The request with the vendor's own tools among its parameters, as dialects read them.
///
/// `takes_native_tools` tells whether the provider's API has tools of its own at all.
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) for a tool that somebody else owns, or an API
/// that has none; and for `params.tools` that is no list.
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
            UppError::invalid_request(provider, "params.tools: a list of the vendor's own tools is needed")
        })?,
    };
    let mut functions = Vec::new();
    for tool in &*request.tools {
        let owners: Vec<(&str, RawJson)> = owners(tool).collect();
        let own = owners.iter().find(|(owner, _)| *owner == provider && takes_native_tools);
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
