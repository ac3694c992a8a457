//! Writes requests. Everything is borrowed from the request and written once.

use std::borrow::Cow;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::metadata::{StoredMetadata, StoredOrderEntry};
use super::{JSON_RESPONSE, MessagesDialect, MessagesOptions, Structure, VERTEX_VERSION};
use crate::dialects::common::{
    BlockLocation, BodyWriter, MediaBytes, ResultContent, ResultPart, StructureSchema, Unsupported,
    answer_text, file_id, system_text, tool_metadata_value,
};
use crate::error::UppError;
use crate::provenance::ModelIdentity;
use crate::request::{ModelRequest, System};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::{
    Body, ContentBlock, DocumentSource, ImageSource, Message, ToolCall, ToolDefinition, ToolResult,
};

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a RawValue,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        /// What the model is told about the document, without being cited.
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<&'a RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<&'a RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: &'a RawJson,
        #[serde(skip_serializing_if = "Option::is_none")]
        caller: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: ResultContent<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    /// A block of an earlier response, unchanged.
    #[serde(untagged)]
    Verbatim(&'a RawValue),
}

impl<'a> Block<'a> {
    const fn text(text: &'a str) -> Self {
        Self::Text { text, citations: None, cache_control: None }
    }

    /// Sets a cache mark. Thinking blocks cannot have one.
    const fn mark(&mut self, mark: &'a RawValue) {
        match self {
            Self::Text { cache_control, .. }
            | Self::Image { cache_control, .. }
            | Self::Document { cache_control, .. }
            | Self::ToolUse { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => *cache_control = Some(mark),
            Self::Thinking { .. } | Self::Verbatim(_) => {}
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: MediaBytes<'a> },
    Url { url: &'a str },
    Text { media_type: &'a str, data: &'a str },
    File { file_id: String },
}

/// Writes the body of a request.
pub(super) fn encode(
    wire: &MessagesDialect,
    model_id: &str,
    request: &ModelRequest,
    streaming: bool,
) -> Result<Vec<u8>, UppError> {
    let provider = wire.options.provider;
    let mut body = BodyWriter::new(provider, &request.params);
    if wire.is_vertex {
        body.member("anthropic_version", VERTEX_VERSION)?;
    } else {
        body.member("model", model_id)?;
    }
    write_system(&mut body, &wire.options, request)?;
    let turns = request.messages.iter().enumerate();
    let turns = turns.map(|(place, message)| turn(&wire.options, model_id, place, message));
    let turns = turns.filter(|turn| turn.as_ref().map_or(true, |turn| !turn.content.is_empty()));
    body.member("messages", &turns.collect::<Result<Vec<_>, _>>()?)?;
    write_tools(&mut body, wire, request)?;
    if streaming {
        body.member("stream", &true)?;
    } else {
        body.reserve("stream");
    }
    Ok(body.finish())
}

/// The system prompt: its blocks if the vendor supports cache marks, else one text (UPP-1.2 §19.0).
fn write_system(
    body: &mut BodyWriter<'_>,
    options: &MessagesOptions,
    request: &ModelRequest,
) -> Result<(), UppError> {
    #[derive(Deserialize)]
    struct TextBlock {
        #[serde(rename = "type")]
        kind: String,
        #[serde(rename = "text")]
        _text: String,
    }
    match request.system.as_deref() {
        None => Ok(()),
        Some(System::Blocks(blocks)) if options.cache_control => {
            let read: Result<Vec<TextBlock>, _> = blocks.to();
            match read {
                Ok(read) if read.is_empty() => Ok(()),
                Ok(read) if read.iter().all(|block| block.kind == "text") => body.member("system", blocks),
                _ => Err(UppError::invalid_request(
                    options.provider,
                    "system: each block needs \"type\": \"text\" and a \"text\" that is a string",
                )),
            }
        }
        Some(system) => match system_text(options.provider, system)? {
            text if text.is_empty() => Ok(()),
            text => body.member("system", &text),
        },
    }
}

fn turn<'a>(
    options: &MessagesOptions,
    model_id: &str,
    place: usize,
    message: &'a Message,
) -> Result<WireMessage<'a>, UppError> {
    let stored_metadata = StoredMetadata::of(message, ModelIdentity { provider: options.provider, model_id });
    let (role, mut content) = match &message.body {
        Body::User { content } => ("user", user(options, place, message, content)?),
        Body::Assistant { content, tool_calls } => {
            ("assistant", assistant(&stored_metadata, content, tool_calls.as_deref().unwrap_or_default()))
        }
        Body::ToolResult { results } => {
            let results = results.iter().map(|result| {
                tool_result(options, result).map_err(|kind| kind.at(options.provider, place, message, result))
            });
            ("user", results.collect::<Result<_, _>>()?)
        }
    };
    if content.is_empty() && role == "assistant" && options.fills_empty_answers {
        content.push(Block::text(""));
    }
    if let (true, Some(mark), Some(last)) =
        (options.cache_control, stored_metadata.cache_control, content.last_mut())
    {
        last.mark(mark);
    }
    Ok(WireMessage { role, content })
}

fn user<'a>(
    options: &MessagesOptions,
    message_place: usize,
    message: &'a Message,
    content: &'a [ContentBlock],
) -> Result<Vec<Block<'a>>, UppError> {
    let blocks = content.iter().enumerate().map(|(place, block)| {
        user_block(options, block).ok_or_else(|| {
            let location = BlockLocation { provider: options.provider, message: message_place, block: place };
            let remedy =
                if options.documents { "send text, images or documents" } else { "send text or images" };
            location.unsupported(message, block, remedy)
        })
    });
    blocks.collect()
}

fn user_block<'a>(options: &MessagesOptions, block: &'a ContentBlock) -> Option<Block<'a>> {
    match block {
        ContentBlock::Text(block) => Some(Block::text(&block.text)),
        ContentBlock::Image(block) => {
            let source = match &block.source {
                ImageSource::Url(source) => Source::Url { url: &source.url },
                ImageSource::Unknown(source) => Source::File { file_id: file_id(source)? },
                other => Source::Base64 { media_type: &block.mime_type, data: MediaBytes::of_image(other)? },
            };
            Some(Block::Image { source, cache_control: None })
        }
        ContentBlock::Document(block) if options.documents => {
            let media_type = &block.mime_type;
            let source = match &block.source {
                DocumentSource::Url(source) => Source::Url { url: &source.url },
                DocumentSource::Text(source) => Source::Text { media_type, data: &source.data },
                DocumentSource::Unknown(source) => Source::File { file_id: file_id(source)? },
                other @ DocumentSource::Base64(_) => {
                    Source::Base64 { media_type, data: MediaBytes::of_document(other)? }
                }
            };
            Some(Block::Document {
                source,
                title: block.title.as_deref(),
                context: block.extra.get("context"),
                citations: block.extra.get("citations"),
                cache_control: None,
            })
        }
        _ => None,
    }
}

/// The blocks of an assistant message: in the vendor's order if it is known and still matches, else thinking, text,
/// calls.
///
/// Thinking without a signature of this vendor is omitted, since the vendor refuses it; so are empty texts.
fn assistant<'a>(
    stored_metadata: &StoredMetadata<'a>,
    content: &'a [ContentBlock],
    calls: &'a [ToolCall],
) -> Vec<Block<'a>> {
    let thinking = content.iter().filter_map(|block| match block {
        ContentBlock::Reasoning(block) => Some(block.text.as_str()),
        _ => None,
    });
    let thinking: Vec<&str> = thinking.collect();
    let texts: Vec<&str> = content.iter().filter_map(answer_text).collect();
    let mut signed = thinking.iter().enumerate().map(|(place, text)| {
        let signature = stored_metadata.signature(place).filter(|_| !text.is_empty());
        signature.map(|signature| Block::Thinking { thinking: text, signature })
    });
    let mut calls_left = calls.iter();
    let Some(order) = stored_metadata.order(thinking.len(), texts.len(), calls.len()) else {
        let texts = texts.iter().filter(|text| !text.is_empty()).map(|text| Block::text(text));
        return signed.flatten().chain(texts).chain(calls_left.map(|call| tool_use(call, None))).collect();
    };
    let mut texts = texts.into_iter();
    let blocks = order.into_iter().filter_map(|entry| match entry {
        StoredOrderEntry::Thinking => signed.next().flatten(),
        StoredOrderEntry::Text(citations) => {
            texts.next().map(|text| Block::Text { text, citations, cache_control: None })
        }
        StoredOrderEntry::ToolUse(caller) => calls_left.next().map(|call| tool_use(call, caller)),
        StoredOrderEntry::Verbatim { block, shown } => {
            if shown {
                texts.next();
            }
            Some(Block::Verbatim(block))
        }
    });
    blocks.filter(|block| !matches!(block, Block::Text { text: "", .. })).collect()
}

fn tool_use<'a>(call: &'a ToolCall, caller: Option<&'a RawValue>) -> Block<'a> {
    Block::ToolUse {
        id: wire_id(&call.tool_call_id),
        name: &call.tool_name,
        input: &call.arguments,
        caller,
        cache_control: None,
    }
}

fn tool_result<'a>(options: &MessagesOptions, result: &'a ToolResult) -> Result<Block<'a>, Unsupported> {
    let content = ResultContent::new(result, |part| {
        let block = match part {
            ResultPart::Text(text) => Block::text(text),
            ResultPart::Media(block) => user_block(options, block).ok_or(if options.documents {
                "return text, images or documents"
            } else {
                "return text or images"
            })?,
        };
        Ok(RawJson::from_value(&block).unwrap_or_default())
    })?;
    Ok(Block::ToolResult {
        tool_use_id: wire_id(&result.tool_call_id),
        content,
        is_error: result.is_error,
        cache_control: None,
    })
}

/// A call id in the characters that the vendor accepts: letters, digits, `_` and `-`.
fn wire_id(id: &str) -> Cow<'_, str> {
    let is_taken = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if id.chars().all(is_taken) {
        return Cow::Borrowed(id);
    }
    id.chars().map(|character| if is_taken(character) { character } else { '_' }).collect()
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<RawJson>,
}

/// Functions, then provider tools from `params.tools`.
struct Tools<'a> {
    tools: Vec<Tool<'a>>,
    native: Vec<RawJson>,
}

impl Serialize for Tools<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.tools.len() + self.native.len()))?;
        self.tools.iter().try_for_each(|tool| list.serialize_element(tool))?;
        self.native.iter().try_for_each(|tool| list.serialize_element(tool))?;
        list.end()
    }
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a RawObject,
}

/// Writes `tools`, `tool_choice` and `output_format`, which depend on each other (UPP-1.2 §10.5).
fn write_tools(
    body: &mut BodyWriter<'_>,
    wire: &MessagesDialect,
    request: &ModelRequest,
) -> Result<(), UppError> {
    let provider = wire.options.provider;
    let mut tools: Vec<Tool<'_>> = request.tools.iter().map(|tool| own_tool(&wire.options, tool)).collect();
    let native = native_tools(provider, &request.params)?;
    let has_tools = !tools.is_empty() || !native.is_empty();
    let form = wire.structure(request);
    let is_answered_by_tool = match request.structure.as_deref() {
        Some(structure) if form != Structure::Tool => {
            let structure = StructureSchema::new(provider, structure, request.strict)?;
            let format = OutputFormat { kind: "json_schema", schema: &structure.schema };
            write_format(body, &request.params, form, &format)?;
            false
        }
        Some(structure) => {
            tools.push(answer_tool(provider, request, structure)?);
            true
        }
        None => false,
    };
    if is_answered_by_tool {
        body.member("tool_choice", &answer_choice(has_tools, &request.params))?;
    } else if has_tools && request.params.get("tool_choice").is_none() {
        body.member("tool_choice", &ToolChoice { kind: "auto", ..ToolChoice::default() })?;
    }
    if has_tools || is_answered_by_tool {
        body.member("tools", &Tools { tools, native })?;
    }
    Ok(())
}

/// Writes the schema that the vendor enforces, and preserves the caller's other members of `output_config`.
fn write_format(
    body: &mut BodyWriter<'_>,
    params: &RawObject,
    form: Structure,
    format: &OutputFormat<'_>,
) -> Result<(), UppError> {
    if form == Structure::Beta {
        return body.member("output_format", format);
    }
    let mut config = params.get("output_config").and_then(RawObject::from_raw).unwrap_or_default();
    config.insert("format", RawJson::from_value(format).unwrap_or_default());
    body.member("output_config", &config)
}

fn own_tool<'a>(options: &MessagesOptions, tool: &'a ToolDefinition) -> Tool<'a> {
    let mark = || tool_metadata_value(tool, options.provider, "cache_control");
    Tool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.parameters,
        cache_control: options.cache_control.then(mark).flatten(),
    }
}

fn native_tools(provider: &str, params: &RawObject) -> Result<Vec<RawJson>, UppError> {
    match params.get("tools") {
        None => Ok(Vec::new()),
        Some(tools) if tools.is_null() => Ok(Vec::new()),
        Some(tools) => tools.to().map_err(|_| {
            UppError::invalid_request(provider, "params.tools: expected a list of provider tools")
        }),
    }
}

/// The tool whose input is the structured output.
fn answer_tool<'a>(
    provider: &str,
    request: &ModelRequest,
    structure: &'a RawJson,
) -> Result<Tool<'a>, UppError> {
    if request.tools.iter().any(|tool| tool.name == JSON_RESPONSE) {
        return Err(UppError::invalid_request(
            provider,
            format!("tools: \"{JSON_RESPONSE}\" is reserved for structured output; rename the tool"),
        ));
    }
    Ok(Tool {
        name: JSON_RESPONSE,
        description: "Gives the final answer. You must use this tool to answer: its input is the answer, in the \
                      required structure.",
        input_schema: structure,
        cache_control: None,
    })
}

#[derive(Serialize, Default)]
struct ToolChoice {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

/// The tool choice that leads to structured output and still allows other tools.
fn answer_choice(has_tools: bool, params: &RawObject) -> ToolChoice {
    #[derive(Deserialize, Default)]
    struct Thinking {
        #[serde(rename = "type")]
        kind: String,
    }
    #[derive(Deserialize, Default)]
    struct Chosen {
        #[serde(default)]
        disable_parallel_tool_use: Option<bool>,
    }
    let thinking: Thinking = params.get("thinking").and_then(|raw| raw.to().ok()).unwrap_or_default();
    let chosen: Chosen = params.get("tool_choice").and_then(|raw| raw.to().ok()).unwrap_or_default();
    // The vendor refuses a forced tool call together with thinking.
    let is_thinking = !matches!(thinking.kind.as_str(), "" | "disabled");
    let (kind, name) = match (is_thinking, has_tools) {
        (true, _) => ("auto", None),
        (false, true) => ("any", None),
        (false, false) => ("tool", Some(JSON_RESPONSE)),
    };
    ToolChoice { kind, name, disable_parallel_tool_use: chosen.disable_parallel_tool_use }
}
