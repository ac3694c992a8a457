//! Requests, written straight into bytes. UPP-1.2 §19.3.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::{ChatOptions, Documents};
use crate::core::json::{RawJson, RawObject};
use crate::message::content::{ContentBlock, DocumentBlock};
use crate::message::message::History;
use crate::message::{Body, DocumentSource, ImageSource, Message, ToolCall, ToolDefinition, ToolResult};
use crate::upp::dialects::common::{
    BodyWriter, Concatenated, DataUrl, MediaBytes, Place, ResultText, StructureSchema, system_text, tool_fact,
};
use crate::upp::error::UppError;
use crate::upp::request::ModelRequest;

/// The name under which a structured answer is asked for.
const STRUCTURE_NAME: &str = "json_response";

/// Writes the body of a request.
pub(super) fn body(
    options: &ChatOptions,
    model_id: &str,
    request: &ModelRequest,
    streaming: bool,
) -> Result<Vec<u8>, UppError> {
    let provider = &*options.provider;
    check(options, &request.messages)?;
    let system = request.system.as_deref().map(|system| system_text(provider, system)).transpose()?;

    let mut body = BodyWriter::new(provider, &request.params);
    body.member("model", model_id)?;
    body.member(
        "messages",
        &Conversation { system: system.as_deref(), history: &request.messages, options },
    )?;
    if !request.tools.is_empty() {
        body.member("tools", &Tools { tools: &request.tools, provider })?;
    }
    if let Some(structure) = &request.structure {
        body.member(
            "response_format",
            &ResponseFormat {
                kind: "json_schema",
                json_schema: Format(StructureSchema::new(provider, structure)?),
            },
        )?;
    }
    if streaming {
        body.member("stream", &true)?;
        if options.stream_options {
            body.member("stream_options", &stream_options(&request.params))?;
        }
    } else {
        body.reserve("stream");
        body.reserve("stream_options");
    }
    Ok(body.finish())
}

/// The caller's stream options, with usage asked for: without it a stream does not tell what it cost.
fn stream_options(params: &RawObject) -> RawObject {
    let mut options = params.get("stream_options").and_then(RawObject::from_raw).unwrap_or_default();
    options.insert("include_usage", RawJson::from_value(&true).unwrap_or_default());
    options
}

/// Finds content that the wire cannot take, before anything is written.
fn check(options: &ChatOptions, history: &History) -> Result<(), UppError> {
    let provider = &*options.provider;
    for (message_place, message) in history.iter().enumerate() {
        for (block_place, block) in message.content().iter().enumerate() {
            let remedy = match &message.body {
                Body::User { .. } => refused_from_user(options, block),
                Body::Assistant { .. } => refused_from_assistant(block),
                Body::ToolResult { .. } => None,
            };
            if let Some(remedy) = remedy {
                let place = Place { provider, message: message_place, block: block_place };
                return Err(place.unsupported(message, block, remedy));
            }
        }
    }
    Ok(())
}

/// Why a block of a user cannot be sent, in the form of what to do about it.
fn refused_from_user(options: &ChatOptions, block: &ContentBlock) -> Option<&'static str> {
    const REMEDY: &str = "send text, an image or a document instead";
    match block {
        ContentBlock::Text(_) => None,
        ContentBlock::Image(image) => match image.source {
            ImageSource::Unknown(_) => Some("give the image as base64, bytes or a URL"),
            _ => None,
        },
        ContentBlock::Document(document) => match (options.documents, &document.source) {
            (_, DocumentSource::Unknown(_)) => Some("give the document as base64, a URL or text"),
            (Documents::PdfData, DocumentSource::Base64(_)) if document.mime_type == "application/pdf" => {
                None
            }
            (Documents::PdfData, _) => {
                Some("give the document as a PDF in base64, or its text as a text block")
            }
            (Documents::Any, _) => None,
        },
        ContentBlock::Audio(_) if options.capabilities.audio_input => None,
        ContentBlock::Video(_) if options.capabilities.video_input => None,
        _ => Some(REMEDY),
    }
}

fn refused_from_assistant(block: &ContentBlock) -> Option<&'static str> {
    match block {
        ContentBlock::Text(_) | ContentBlock::Reasoning(_) => None,
        _ => Some("assistant messages hold text and tool calls here; move it into a user message"),
    }
}

struct Conversation<'a> {
    system: Option<&'a str>,
    history: &'a History,
    options: &'a ChatOptions,
}

impl Serialize for Conversation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        if let Some(system) = self.system {
            messages.serialize_element(&Said { role: "system", content: system })?;
        }
        for message in self.history {
            match &message.body {
                Body::User { content } => {
                    messages.serialize_element(&Said { role: "user", content: UserContent(content) })?;
                }
                Body::Assistant { .. } => {
                    messages.serialize_element(&Assistant { message, options: self.options })?;
                }
                Body::ToolResult { results } => {
                    for result in results {
                        messages.serialize_element(&Returned::new(result))?;
                    }
                }
            }
        }
        messages.end()
    }
}

#[derive(Serialize)]
struct Said<C> {
    role: &'static str,
    content: C,
}

#[derive(Serialize)]
struct Returned<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: ResultText<'a>,
}

impl<'a> Returned<'a> {
    fn new(result: &'a ToolResult) -> Self {
        Self { role: "tool", tool_call_id: &result.tool_call_id, content: ResultText(&result.result) }
    }
}

/// One text as a string, anything else as parts.
struct UserContent<'a>(&'a [ContentBlock]);

impl Serialize for UserContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            [] => serializer.serialize_str(""),
            [ContentBlock::Text(block)] => serializer.serialize_str(&block.text),
            blocks => serializer.collect_seq(blocks.iter().map(Part)),
        }
    }
}

struct Part<'a>(&'a ContentBlock);

/// `{"type": kind, name: value}`
fn part<S: Serializer, T: Serialize + ?Sized>(
    serializer: S,
    kind: &'static str,
    name: &'static str,
    value: &T,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("type", kind)?;
    map.serialize_entry(name, value)?;
    map.end()
}

#[derive(Serialize)]
struct Url<T> {
    url: T,
}

#[derive(Serialize)]
struct Sound<'a> {
    data: MediaBytes<'a>,
    format: &'a str,
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ContentBlock::Text(block) => part(serializer, "text", "text", &block.text),
            ContentBlock::Image(block) => match (&block.source, MediaBytes::of_image(&block.source)) {
                (ImageSource::Url(source), _) => {
                    part(serializer, "image_url", "image_url", &Url { url: &source.url })
                }
                (_, Some(data)) => {
                    let url = DataUrl { mime_type: &block.mime_type, data };
                    part(serializer, "image_url", "image_url", &Url { url })
                }
                _ => Err(unchecked()),
            },
            ContentBlock::Document(block) => document(serializer, block),
            ContentBlock::Audio(block) => {
                let data = MediaBytes::Bytes(block.data.as_slice());
                let sound = Sound { data, format: audio_format(&block.mime_type) };
                part(serializer, "input_audio", "input_audio", &sound)
            }
            ContentBlock::Video(block) => {
                let data = MediaBytes::Bytes(block.data.as_slice());
                let url = DataUrl { mime_type: &block.mime_type, data };
                part(serializer, "video_url", "video_url", &Url { url })
            }
            ContentBlock::Reasoning(_) | ContentBlock::Binary(_) | ContentBlock::Unknown(_) => {
                Err(unchecked())
            }
        }
    }
}

/// What [`check`] has let through by mistake.
fn unchecked<E: serde::ser::Error>() -> E {
    E::custom("a content block of this kind cannot be sent")
}

fn document<S: Serializer>(serializer: S, block: &DocumentBlock) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct File<'a> {
        filename: &'a str,
        file_data: DataUrl<'a>,
    }
    #[derive(Serialize)]
    struct Served<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        file_url: &'a str,
    }
    match &block.source {
        DocumentSource::Base64(source) => {
            let file_data = DataUrl { mime_type: &block.mime_type, data: MediaBytes::Base64(&source.data) };
            let filename = block.title.as_deref().unwrap_or("document.pdf");
            part(serializer, "file", "file", &File { filename, file_data })
        }
        DocumentSource::Url(source) => {
            let filename = block.title.as_deref();
            part(serializer, "file", "file", &Served { filename, file_url: &source.url })
        }
        DocumentSource::Text(source) => {
            let title = block.title.as_deref().unwrap_or("document");
            part(serializer, "text", "text", &format_args!("[Document: {title}]\n{}", source.data))
        }
        DocumentSource::Unknown(_) => Err(unchecked()),
    }
}

/// The wire names formats where media types have longer names.
fn audio_format(mime_type: &str) -> &str {
    match mime_type.rsplit('/').next().unwrap_or(mime_type) {
        "mpeg" => "mp3",
        "x-wav" | "wave" | "vnd.wave" => "wav",
        format => format,
    }
}

struct Assistant<'a> {
    message: &'a Message,
    options: &'a ChatOptions,
}

impl Serialize for Assistant<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = self.message.content();
        let texts = content.iter().filter_map(ContentBlock::as_text);
        let calls = self.message.tool_calls();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", "assistant")?;
        // `null` is for messages that are nothing but calls; without calls hosts want a text, be it empty.
        if calls.is_empty() || texts.clone().any(|text| !text.is_empty()) {
            map.serialize_entry("content", &Concatenated { texts, separator: "" })?;
        } else {
            map.serialize_entry("content", &())?;
        }
        if let Some(name) = self.options.reasoning_is_sent_as {
            let thoughts = content.iter().filter_map(|block| match block {
                ContentBlock::Reasoning(block) => Some(block.text.as_str()),
                _ => None,
            });
            if thoughts.clone().next().is_some() {
                map.serialize_entry(name, &Concatenated { texts: thoughts, separator: "\n" })?;
            }
        }
        if !calls.is_empty() {
            map.serialize_entry("tool_calls", &Calls(calls))?;
        }
        map.end()
    }
}

struct Calls<'a>(&'a [ToolCall]);

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Call<'a> {
            id: &'a str,
            #[serde(rename = "type")]
            kind: &'static str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a str,
        }
        serializer.collect_seq(self.0.iter().map(|call| Call {
            id: &call.tool_call_id,
            kind: "function",
            function: Function { name: &call.tool_name, arguments: call.arguments.get() },
        }))
    }
}

struct Tools<'a> {
    tools: &'a [ToolDefinition],
    provider: &'a str,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a RawJson,
            #[serde(skip_serializing_if = "Option::is_none")]
            strict: Option<RawJson>,
        }
        #[derive(Serialize)]
        struct Tool<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            function: Function<'a>,
        }
        serializer.collect_seq(self.tools.iter().map(|tool| Tool {
            kind: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.parameters,
                strict: tool_fact(tool, self.provider, "strict"),
            },
        }))
    }
}

#[derive(Serialize)]
struct ResponseFormat {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: Format,
}

/// `{"name", "description"?, "schema", "strict"}`
struct Format(StructureSchema);

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(StructureSchema { description, schema }) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", STRUCTURE_NAME)?;
        if let Some(description) = description {
            map.serialize_entry("description", description)?;
        }
        map.serialize_entry("schema", schema)?;
        map.serialize_entry("strict", &true)?;
        map.end()
    }
}
