//! Writes tools, their choice and structured output, which depend on each other.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{JSON_RESPONSE, PROVIDER, models};
use crate::dialects::common::{BodyWriter, StructureSchema, tool_metadata_value};
use crate::error::UppError;
use crate::request::ModelRequest;
use turntree_core::json::{RawJson, RawObject};

const TOOL_CONFIG: &str = "toolConfig";
const TOOL_CHOICE: &str = "toolChoice";
const OUTPUT_CONFIG: &str = "outputConfig";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::enum_variant_names, reason = "the vendor's names")]
enum Tool<'a> {
    ToolSpec(Specification<'a>),
    CachePoint(&'a RawJson),
    #[serde(untagged)]
    Verbatim(RawJson),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Specification<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Schema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<RawJson>,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: &'a RawJson,
}

/// Writes `toolConfig` and `outputConfig`.
pub(super) fn write_tools(
    body: &mut BodyWriter<'_>,
    model_id: &str,
    request: &ModelRequest,
    cache_point: Option<&RawJson>,
) -> Result<(), UppError> {
    let object_schema = RawJson::from_text(r#"{"type":"object"}"#.to_owned()).unwrap_or_default();
    body.reserve("tools");
    let mut config = object(&request.params, TOOL_CONFIG)?;
    let mut tools = own_tools(request);
    tools.extend(native_tools(&request.params)?);
    let has_tools = !tools.is_empty();
    if let (Some(structure), false) = (request.structure.as_deref(), request.strict == Some(true)) {
        if request.tools.iter().any(|tool| tool.name == JSON_RESPONSE) {
            let message =
                format!("tools: \"{JSON_RESPONSE}\" is reserved for structured output; rename the tool");
            return Err(UppError::invalid_request(PROVIDER, message));
        }
        tools.push(answer_tool(structure));
        if let Some(choice) = answer_choice(model_id, has_tools, &request.params) {
            config.insert(TOOL_CHOICE, choice);
        }
    } else if !has_tools {
        // The vendor refuses a history with calls if there are no tools.
        let names: BTreeSet<&str> = request
            .messages
            .iter()
            .flat_map(|message| message.tool_calls())
            .map(|call| call.tool_name.as_str())
            .collect();
        tools.extend(names.into_iter().map(|name| {
            let description = Some("Not available any more.");
            let input_schema = Schema { json: &object_schema };
            Tool::ToolSpec(Specification { name, description, input_schema, strict: None })
        }));
        config.remove(TOOL_CHOICE);
    }
    if tools.is_empty() {
        body.reserve(TOOL_CONFIG);
    } else {
        tools.extend(cache_point.map(Tool::CachePoint));
        let written = RawJson::from_value(&tools)
            .map_err(|error| UppError::invalid_request(PROVIDER, format!("tools: {error}")))?;
        config.insert("tools", written);
        body.member(TOOL_CONFIG, &config)?;
    }
    write_format(body, request)
}

/// Writes the schema that the model enforces, and preserves the caller's other members of `outputConfig`.
fn write_format(body: &mut BodyWriter<'_>, request: &ModelRequest) -> Result<(), UppError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Format {
        #[serde(rename = "type")]
        kind: &'static str,
        structure: Form,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Form {
        json_schema: JsonSchema,
    }
    #[derive(Serialize)]
    struct JsonSchema {
        name: &'static str,
        schema: String,
    }
    let Some(structure) = request.structure.as_deref().filter(|_| request.strict == Some(true)) else {
        return Ok(());
    };
    let structure = StructureSchema::new(PROVIDER, structure, request.strict)?;
    let schema = RawJson::from_value(&structure.schema).unwrap_or_default().get().to_owned();
    let json_schema = JsonSchema { name: JSON_RESPONSE, schema };
    let mut config = object(&request.params, OUTPUT_CONFIG)?;
    let format = Format { kind: "json_schema", structure: Form { json_schema } };
    config.insert("textFormat", RawJson::from_value(&format).unwrap_or_default());
    body.member(OUTPUT_CONFIG, &config)
}

fn object(params: &RawObject, name: &'static str) -> Result<RawObject, UppError> {
    match params.get(name).filter(|value| !value.is_null()) {
        None => Ok(RawObject::new()),
        Some(value) => RawObject::from_raw(value)
            .ok_or_else(|| UppError::invalid_request(PROVIDER, format!("params.{name}: expected an object"))),
    }
}

fn own_tools(request: &ModelRequest) -> Vec<Tool<'_>> {
    let mut tools = Vec::new();
    for tool in &*request.tools {
        tools.push(Tool::ToolSpec(Specification {
            name: &tool.name,
            // The vendor refuses an empty description.
            description: Some(tool.description.as_str()).filter(|text| !text.is_empty()),
            input_schema: Schema { json: &tool.parameters },
            strict: tool_metadata_value(tool, PROVIDER, "strict"),
        }));
        let mark = tool_metadata_value(tool, PROVIDER, "cachePoint");
        let mark = mark.map(|mark| [("cachePoint", mark)].into_iter().collect::<RawObject>());
        tools.extend(mark.and_then(|mark| RawJson::from_value(&mark).ok()).map(Tool::Verbatim));
    }
    tools
}

/// Tools that the vendor runs, such as `{"systemTool": {"name": "nova_grounding"}}`.
fn native_tools(params: &RawObject) -> Result<Vec<Tool<'static>>, UppError> {
    let Some(tools) = params.get("tools").filter(|tools| !tools.is_null()) else { return Ok(Vec::new()) };
    let tools: Vec<RawJson> = tools.to().map_err(|_| {
        UppError::invalid_request(PROVIDER, "params.tools: expected a list of provider tools")
    })?;
    Ok(tools.into_iter().map(Tool::Verbatim).collect())
}

/// The tool whose input is the structured output.
fn answer_tool(structure: &RawJson) -> Tool<'_> {
    let description = "Gives the final answer. You must use this tool to answer: its input is the answer, in the \
                       required structure.";
    let input_schema = Schema { json: structure };
    Tool::ToolSpec(Specification {
        name: JSON_RESPONSE,
        description: Some(description),
        input_schema,
        strict: None,
    })
}

/// The choice that leads to structured output and still allows other tools; `None` for models that cannot be forced.
fn answer_choice(model_id: &str, has_tools: bool, params: &RawObject) -> Option<RawJson> {
    // Models that think cannot be forced.
    let fields = params.get("additionalModelRequestFields").and_then(RawObject::from_raw);
    let is_thinking = fields.is_some_and(|fields| {
        ["thinking", "reasoning_config", "reasoningConfig"]
            .iter()
            .any(|name| fields.get(name).is_some_and(|value| !value.get().contains("\"disabled\"")))
    });
    if is_thinking || !models::can_be_forced(model_id) {
        return None;
    }
    let choice = if has_tools {
        r#"{"any":{}}"#.to_owned()
    } else {
        format!(r#"{{"tool":{{"name":"{JSON_RESPONSE}"}}}}"#)
    };
    RawJson::from_text(choice).ok()
}
