//! Tools and structured output, which depend on each other and on the model's generation.
//!
//! Spec: UPP-1.2 §10.5, §19.4

use std::borrow::Cow;

use serde::Serialize;

use super::params::Params;
use super::{JSON_RESPONSE, SIGNING_GENERATION, generation, schema};
use crate::dialects::common::BodyWriter;
use crate::error::UppError;
use crate::request::ModelRequest;
use turntree_core::json::{RawJson, RawObject};

#[derive(Serialize)]
struct Declarations<'a> {
    #[serde(rename = "functionDeclarations")]
    declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    #[serde(rename = "parametersJsonSchema")]
    parameters: Cow<'a, RawJson>,
}

/// Functions, provider tools from `params.tools`, and the tool configuration.
pub(super) struct Tools<'a> {
    declared: Option<Declarations<'a>>,
    native: Vec<RawJson>,
    config: Option<RawJson>,
    /// True if the structured output is a tool call.
    is_answer: bool,
}

impl<'a> Tools<'a> {
    /// Second-generation models do not support a schema together with tools; for them the structured output is a tool
    /// call.
    pub(super) fn new(
        provider: &str,
        model_id: &str,
        request: &'a ModelRequest,
        params: &mut Params,
    ) -> Result<Self, UppError> {
        let native = match params.take("tools", "tools") {
            None => Vec::new(),
            Some(tools) => tools.to().map_err(|_| {
                UppError::invalid_request(provider, "params.tools: expected a list of provider tools")
            })?,
        };
        let mut declarations: Vec<Declaration<'a>> = request
            .tools
            .iter()
            .map(|tool| Declaration {
                name: &tool.name,
                description: &tool.description,
                parameters: schema::accepted(&tool.parameters),
            })
            .collect();
        let mut config = params.take("toolConfig", "tool_config");
        let is_old = generation(model_id).is_some_and(|number| number < SIGNING_GENERATION);
        let structure = request.structure.as_deref().filter(|_| is_old && !declarations.is_empty());
        if let Some(structure) = structure {
            if request.tools.iter().any(|tool| tool.name == JSON_RESPONSE) {
                return Err(UppError::invalid_request(
                    provider,
                    format!("tools: \"{JSON_RESPONSE}\" is reserved for structured output; rename the tool"),
                ));
            }
            declarations.push(Declaration {
                name: JSON_RESPONSE,
                description: "Gives the final answer. You must use this tool to answer: its arguments are the answer, \
                              in the required structure.",
                parameters: schema::accepted(structure),
            });
            config = Some(calling_config(config.as_ref()));
        }
        Ok(Self {
            declared: (!declarations.is_empty()).then_some(Declarations { declarations }),
            native,
            config,
            is_answer: structure.is_some(),
        })
    }

    pub(super) fn write(&self, body: &mut BodyWriter<'_>) -> Result<(), UppError> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Tool<'a> {
            Own(&'a Declarations<'a>),
            Native(&'a RawJson),
        }
        let own = self.declared.iter().map(Tool::Own);
        let tools: Vec<Tool<'_>> = own.chain(self.native.iter().map(Tool::Native)).collect();
        if !tools.is_empty() {
            body.member("tools", &tools)?;
        }
        if let Some(config) = &self.config {
            body.member("toolConfig", config)?;
        }
        Ok(())
    }
}

/// Requires a call of any tool and preserves other configuration.
fn calling_config(config: Option<&RawJson>) -> RawJson {
    let mut config = config.and_then(RawObject::from_raw).unwrap_or_default();
    config.remove("function_calling_config");
    let mode: RawObject = [("mode", RawJson::from_str_value("ANY"))].into_iter().collect();
    config.insert("functionCallingConfig", RawJson::from_value(&mode).unwrap_or_default());
    RawJson::from_value(&config).unwrap_or_default()
}

/// `generationConfig`: the caller's, with the format of the structured output.
pub(super) fn generation_config(
    provider: &str,
    request: &ModelRequest,
    tools: &Tools<'_>,
    params: &mut Params,
) -> Result<RawObject, UppError> {
    if let Some(structure) = request.structure.as_deref() {
        if !structure.is_object() {
            let message = "structure: a JSON Schema is an object with \"type\": \"object\"";
            return Err(UppError::invalid_request(provider, message));
        }
        params.clear_structure();
        if !tools.is_answer {
            params.generation.insert("responseMimeType", RawJson::from_str_value("application/json"));
            params.generation.insert("responseJsonSchema", schema::accepted(structure).into_owned());
        }
    }
    Ok(std::mem::take(&mut params.generation))
}
