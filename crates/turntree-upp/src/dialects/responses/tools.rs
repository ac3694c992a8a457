//! Writes tools and structured output, with the schemas that the vendor enforces.

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::options::ResponsesOptions;
use crate::dialects::common::{BodyWriter, StructureSchema, tool_metadata_value};
use crate::error::UppError;
use crate::request::ModelRequest;
use crate::structured_output::closed_for_tool;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::ToolDefinition;

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawJson,
    strict: RawJson,
}

/// Functions, then provider tools from `params.tools`.
struct Tools<'a> {
    ours: &'a [ToolDefinition],
    native: Vec<RawJson>,
    provider: &'a str,
    /// False if the caller wants no schema to be enforced.
    enforced: bool,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.ours.len() + self.native.len()))?;
        for tool in self.ours {
            let chosen = tool_metadata_value(tool, self.provider, "strict");
            let closed =
                (chosen.is_none() && self.enforced).then(|| closed_for_tool(&tool.parameters)).flatten();
            list.serialize_element(&Tool {
                kind: "function",
                name: &tool.name,
                description: &tool.description,
                parameters: closed.as_ref().unwrap_or(&tool.parameters),
                // Without the member the vendor requires optional arguments too.
                strict: chosen.or_else(|| RawJson::from_value(&closed.is_some()).ok()).unwrap_or_default(),
            })?;
        }
        self.native.iter().try_for_each(|tool| list.serialize_element(tool))?;
        list.end()
    }
}

/// Writes `tools`: functions, and the caller's provider tools.
pub(super) fn write_tools(
    body: &mut BodyWriter<'_>,
    options: &ResponsesOptions,
    request: &ModelRequest,
) -> Result<(), UppError> {
    if request.tools.is_empty() {
        return Ok(());
    }
    let native = match request.params.get("tools").filter(|tools| !tools.is_null()) {
        Some(tools) if options.native_tools => tools.to().map_err(|_| {
            let message = "params.tools: expected a list of provider tools";
            UppError::invalid_request(options.endpoint.provider.as_ref(), message)
        })?,
        _ => Vec::new(),
    };
    body.member(
        "tools",
        &Tools {
            ours: &request.tools,
            native,
            provider: &options.endpoint.provider,
            enforced: request.strict != Some(false),
        },
    )
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a RawJson>,
    schema: &'a RawObject,
    strict: bool,
}

/// Writes `text.format`, and preserves the caller's other members of `text`.
pub(super) fn write_format(
    body: &mut BodyWriter<'_>,
    options: &ResponsesOptions,
    request: &ModelRequest,
    structure: &RawJson,
) -> Result<(), UppError> {
    let structure = StructureSchema::new(&options.endpoint.provider, structure, request.strict)?;
    let format = Format {
        kind: "json_schema",
        name: "json_response",
        description: structure.description.as_ref(),
        schema: &structure.schema,
        strict: structure.strict,
    };
    let format = RawJson::from_value(&format).map_err(|error| {
        UppError::invalid_request(options.endpoint.provider.as_ref(), format!("structure: {error}"))
    })?;
    let mut text = request.params.get("text").and_then(RawObject::from_raw).unwrap_or_default();
    text.insert("format", format);
    body.member("text", &text)
}
