//! UAMP messages as messages of UPP.
//!
//! Spec: UAMP-1.0 §8.5; UPP-1.2 §3–4

use turntree_core::ids::IdSource;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::content::{
    AudioBlock, Base64Source, BinaryBlock, DocumentBlock, DocumentSource, ImageBlock, ImageSource, UrlSource,
    VideoBlock,
};
use turntree_core::message::media::Binary;
use turntree_core::message::message::Body;
use turntree_core::message::{ContentBlock, Message as UppMessage, ToolCall as UppToolCall, ToolResult};
use turntree_core::time::Clock;

use crate::error::UampError;
use crate::types::{
    AudioContent, ContentItem, FileContent, ImageContent, Media, MediaUrl, Message, Role, ToolDefinition,
    VideoContent,
};

/// Messages of UAMP, converted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConvertedMessages {
    /// The texts of messages with the role `system`, in their order: instructions for the run.
    pub instructions: Vec<String>,
    /// The other messages. Results of tools in a row are one message.
    pub messages: Vec<UppMessage>,
}

/// Converts messages. Content without a counterpart in UPP is left out: tool results inside of content items of users,
/// and items of unknown types.
///
/// # Errors
/// Media that is not base64 or not a URL that a model can read, and arguments of calls that are not JSON objects.
pub fn messages_to_upp(
    messages: &[Message],
    ids: &dyn IdSource,
    clock: &dyn Clock,
) -> Result<ConvertedMessages, UampError> {
    let mut converted = ConvertedMessages::default();
    for (index, message) in messages.iter().enumerate() {
        let place = || format!("/messages/{index}");
        match &message.role {
            Role::System => converted.instructions.push(text_of(message)),
            Role::Tool => add_results(&mut converted.messages, tool_results(message), ids, clock),
            Role::Assistant => {
                let (body, results) = assistant(message).map_err(|error| error.inside(&place()))?;
                if let Some(body) = body {
                    converted.messages.push(UppMessage::new(body, ids, clock));
                }
                add_results(&mut converted.messages, results, ids, clock);
            }
            Role::User | Role::Other(_) => {
                let content = user_content(message).map_err(|error| error.inside(&place()))?;
                converted.messages.push(UppMessage::new(Body::User { content }, ids, clock));
            }
        }
    }
    Ok(converted)
}

/// Adds results to the last message, if that has results too.
fn add_results(
    messages: &mut Vec<UppMessage>,
    results: Vec<ToolResult>,
    ids: &dyn IdSource,
    clock: &dyn Clock,
) {
    if results.is_empty() {
        return;
    }
    match messages.last_mut().map(|message| &mut message.body) {
        Some(Body::ToolResult { results: last }) => last.extend(results),
        _ => messages.push(UppMessage::tool_results(results, ids, clock)),
    }
}

/// The text of a message.
fn text_of(message: &Message) -> String {
    if let Some(content) = &message.content {
        return content.clone();
    }
    let items = message.content_items.iter().flatten();
    let texts: Vec<&str> = items
        .filter_map(|item| match item {
            ContentItem::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

fn user_content(message: &Message) -> Result<Vec<ContentBlock>, UampError> {
    match &message.content_items {
        Some(items) if !items.is_empty() => {
            items.iter().filter_map(|item| block_from_item(item).transpose()).collect()
        }
        _ => Ok(vec![ContentBlock::text(message.content.clone().unwrap_or_default())]),
    }
}

/// The body of an agent's message, and the results of tools among its items.
fn assistant(message: &Message) -> Result<(Option<Body>, Vec<ToolResult>), UampError> {
    let (mut content, mut calls, mut results) = (Vec::new(), Vec::new(), Vec::new());
    match &message.content_items {
        Some(items) if !items.is_empty() => {
            for item in items {
                match item {
                    ContentItem::ToolCall(item) => {
                        let call = &item.tool_call;
                        calls.push(tool_call(&call.id, &call.name, &call.arguments)?);
                    }
                    ContentItem::ToolResult(item) => {
                        let result = &item.tool_result;
                        results.push(tool_result(&result.call_id, &result.result, result.is_error));
                    }
                    item => content.extend(block_from_item(item)?),
                }
            }
        }
        _ => {
            let text = message.content.as_deref().filter(|text| !text.is_empty());
            content.extend(text.map(ContentBlock::text));
        }
    }
    for call in message.tool_calls.iter().flatten() {
        let name = call.tool_name().unwrap_or_default();
        if !calls.iter().any(|known| known.tool_call_id == call.id) {
            calls.push(tool_call(&call.id, name, call.tool_arguments())?);
        }
    }
    // A call without a result cannot be sent to a model.
    results.retain(|result| calls.iter().any(|call| call.tool_call_id == result.tool_call_id));
    let tool_calls = (!calls.is_empty()).then_some(calls);
    let is_empty = content.is_empty() && tool_calls.is_none();
    Ok(((!is_empty).then_some(Body::Assistant { content, tool_calls }), results))
}

fn tool_results(message: &Message) -> Vec<ToolResult> {
    let of_items = message.content_items.iter().flatten().filter_map(|item| match item {
        ContentItem::ToolResult(item) => {
            let result = &item.tool_result;
            Some(tool_result(&result.call_id, &result.result, result.is_error))
        }
        _ => None,
    });
    let results: Vec<ToolResult> = of_items.collect();
    match &message.tool_call_id {
        Some(id) if results.is_empty() => vec![tool_result(id, &text_of(message), None)],
        _ => results,
    }
}

fn tool_call(id: &str, name: &str, arguments: &str) -> Result<UppToolCall, UampError> {
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    let arguments = RawJson::from_text(text.to_owned()).ok().filter(RawJson::is_object);
    let arguments = arguments.ok_or_else(|| UampError::InvalidEvent {
        pointer: String::new(),
        reason: format!("the arguments of the call \"{id}\" are not the text of a JSON object"),
    })?;
    Ok(UppToolCall {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        arguments,
        extra: Extra::new(),
    })
}

/// A result. Text that is not JSON is a string.
fn tool_result(call_id: &str, result: &str, is_error: Option<bool>) -> ToolResult {
    let value = RawJson::from_text(result.to_owned()).unwrap_or_else(|_| RawJson::from_str_value(result));
    ToolResult { is_error: Some(is_error.unwrap_or(false)), ..ToolResult::success(call_id, value) }
}

/// A block of UPP; `None` for items without a counterpart.
///
/// # Errors
/// Media that no block can hold.
pub fn block_from_item(item: &ContentItem) -> Result<Option<ContentBlock>, UampError> {
    Ok(Some(match item {
        ContentItem::Text(item) => ContentBlock::text(item.text.clone()),
        ContentItem::Image(item) => image(item)?,
        ContentItem::Audio(item) => {
            let format = item.format.as_ref().map_or("wav", |format| format.as_str());
            let (data, mime_type) = bytes_of(&item.audio, &format!("audio/{format}"))?;
            ContentBlock::Audio(Box::new(AudioBlock { data, mime_type, duration: None, extra: Extra::new() }))
        }
        ContentItem::Video(item) => {
            let format = item.format.as_deref().unwrap_or("mp4");
            let (data, mime_type) = bytes_of(&item.video, &format!("video/{format}"))?;
            let video = VideoBlock {
                data,
                mime_type,
                duration: None,
                width: None,
                height: None,
                extra: Extra::new(),
            };
            ContentBlock::Video(Box::new(video))
        }
        ContentItem::File(item) => file(item)?,
        ContentItem::ToolCall(_) | ContentItem::ToolResult(_) | ContentItem::Unknown(_) => return Ok(None),
    }))
}

fn image(item: &ImageContent) -> Result<ContentBlock, UampError> {
    let format = item.format.as_deref().unwrap_or("png");
    let mime_type = format!("image/{}", if format == "jpg" { "jpeg" } else { format });
    let (source, mime_type) = match data_url(&item.image) {
        Some((mime_type, data)) => (base64_source(data), mime_type.to_owned()),
        None => match item.image.url() {
            Some(url) => {
                check_remote(url)?;
                (ImageSource::Url(UrlSource { url: url.to_owned(), extra: Extra::new() }), mime_type)
            }
            None => (base64_source(item.image.base64().unwrap_or_default()), mime_type),
        },
    };
    let block = ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() };
    Ok(ContentBlock::Image(Box::new(block)))
}

fn base64_source(data: &str) -> ImageSource {
    ImageSource::Base64(Base64Source { data: data.to_owned(), extra: Extra::new() })
}

fn file(item: &FileContent) -> Result<ContentBlock, UampError> {
    let mime_type = item.mime_type.clone();
    let is_document = mime_type == "application/pdf" || mime_type == "text/plain";
    let title = Some(item.filename.clone()).filter(|name| !name.is_empty());
    if let (true, Some(url), None) = (is_document, item.file.url(), data_url(&item.file)) {
        check_remote(url)?;
        let source = DocumentSource::Url(UrlSource { url: url.to_owned(), extra: Extra::new() });
        let block = DocumentBlock { source, mime_type, title, extra: Extra::new() };
        return Ok(ContentBlock::Document(Box::new(block)));
    }
    let (data, mime_type) = bytes_of(&item.file, &mime_type)?;
    if is_document {
        let source = DocumentSource::Base64(Base64Source { data: data.to_base64(), extra: Extra::new() });
        let block = DocumentBlock { source, mime_type, title, extra: Extra::new() };
        return Ok(ContentBlock::Document(Box::new(block)));
    }
    let block = BinaryBlock { data, mime_type, metadata: None, extra: Extra::new() };
    Ok(ContentBlock::Binary(Box::new(block)))
}

/// The bytes of media that is part of the message.
fn bytes_of(media: &Media, mime_type: &str) -> Result<(Binary, String), UampError> {
    let (mime_type, data) = match data_url(media) {
        Some((mime_type, data)) => (mime_type, data),
        None => match media.base64() {
            Some(data) => (mime_type, data),
            None => {
                return Err(invalid(
                    "this kind of media cannot be read from a URL; send it as base64 or as a data: URL",
                ));
            }
        },
    };
    let data =
        Binary::from_base64(data).map_err(|error| invalid(&format!("the media is not base64: {error}")))?;
    Ok((data, mime_type.to_owned()))
}

/// The media type and the base64 text of a `data:` URL.
fn data_url(media: &Media) -> Option<(&str, &str)> {
    let (head, data) = media.url()?.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

fn check_remote(url: &str) -> Result<(), UampError> {
    let is_remote = url.starts_with("https://") || url.starts_with("http://");
    if is_remote {
        Ok(())
    } else {
        Err(invalid("the URL must begin with https: or http:, or be a data: URL"))
    }
}

fn invalid(reason: &str) -> UampError {
    UampError::InvalidEvent { pointer: String::new(), reason: reason.to_owned() }
}

/// The content item of a block that an agent has produced; `None` for blocks without a counterpart.
pub fn item_from_block(block: &ContentBlock) -> Option<ContentItem> {
    Some(match block {
        ContentBlock::Text(block) => ContentItem::text(block.text.clone()),
        ContentBlock::CodeExecution(block) => ContentItem::text(block.to_markdown()),
        ContentBlock::Image(block) => {
            let image = match &block.source {
                ImageSource::Url(source) => {
                    Media::Url(MediaUrl { url: source.url.clone(), ..MediaUrl::default() })
                }
                source => Media::Text(source.to_base64()?.into_owned()),
            };
            let format = block.mime_type.strip_prefix("image/").map(str::to_owned);
            ContentItem::Image(Box::new(ImageContent { image, format, ..ImageContent::default() }))
        }
        ContentBlock::Audio(block) => {
            let audio = Media::Text(block.data.to_base64());
            let format = block.mime_type.strip_prefix("audio/").map(Into::into);
            ContentItem::Audio(Box::new(AudioContent { audio, format, ..AudioContent::default() }))
        }
        ContentBlock::Video(block) => {
            let video = Media::Text(block.data.to_base64());
            let format = block.mime_type.strip_prefix("video/").map(str::to_owned);
            ContentItem::Video(Box::new(VideoContent { video, format, ..VideoContent::default() }))
        }
        ContentBlock::Binary(block) => {
            let file = Media::Text(block.data.to_base64());
            let mime_type = block.mime_type.clone();
            ContentItem::File(Box::new(FileContent { file, mime_type, ..FileContent::default() }))
        }
        ContentBlock::Document(_) | ContentBlock::Reasoning(_) | ContentBlock::Unknown(_) => return None,
    })
}

/// The tools of a client as definitions for a model. Tools of unknown types, which a vendor runs, are left out.
///
/// # Errors
/// A tool has no name, or its parameters are not a JSON object.
pub fn tools_to_upp(
    tools: &[ToolDefinition],
) -> Result<Vec<turntree_core::message::ToolDefinition>, UampError> {
    let functions = tools.iter().filter_map(|tool| match tool {
        ToolDefinition::Function(tool) => Some(&tool.function),
        ToolDefinition::Unknown(_) => None,
    });
    functions
        .map(|function| {
            if function.name.is_empty() {
                return Err(invalid("a tool has no name"));
            }
            let parameters = match &function.parameters {
                Some(schema) if schema.is_object() => schema.clone(),
                Some(_) => {
                    return Err(invalid(&format!(
                        "the parameters of the tool \"{}\" are not an object",
                        function.name
                    )));
                }
                None => {
                    RawJson::from_text(r#"{"type":"object","properties":{}}"#.to_owned()).unwrap_or_default()
                }
            };
            Ok(turntree_core::message::ToolDefinition {
                name: function.name.clone(),
                description: function.description.clone().unwrap_or_default(),
                parameters,
                metadata: None,
                extra: Extra::new(),
            })
        })
        .collect()
}
