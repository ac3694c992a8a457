//! Writes requests. Everything is borrowed from the request and written once.

use std::borrow::Cow;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::metadata::{StoredCall, StoredMetadata, StoredOrderEntry};
use super::options::{Documents, Media, ResponsesOptions};
use super::tools::{write_format, write_tools};
use crate::dialects::common::{
    BlockLocation, BodyWriter, Concatenated, DataUrl, MediaBytes, ResultContent, ResultPart, Unsupported,
    answer_text, audio_format, file_id, stream_options, system_text,
};
use crate::error::UppError;
use crate::provenance::ModelIdentity;
use crate::request::ModelRequest;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::content::DocumentBlock;
use turntree_core::message::{
    Body, ContentBlock, DocumentSource, ImageSource, Message, ToolCall, ToolResult,
};

/// The longest id that the vendor accepts.
const LONGEST_ID: usize = 64;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Id<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a RawValue>,
    },
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Id<'a>>,
        call_id: &'a str,
        name: &'a str,
        arguments: Arguments<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a RawValue>,
    },
    FunctionCallOutput {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        call_id: &'a str,
        output: ResultContent<'a>,
    },
    /// Encrypted reasoning, unchanged.
    #[serde(untagged)]
    Reasoning(Typed),
    /// A generated image, with its data restored.
    #[serde(untagged)]
    Image(Drawn<'a>),
    /// An item of an earlier response, unchanged.
    #[serde(untagged)]
    Verbatim(&'a RawValue),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Id<'a> {
    Vendors(&'a RawValue),
    Ours(String),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'a> {
    /// JSON in a string, as the vendor sent it.
    Vendors(&'a RawValue),
    Json(&'a str),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Joined(Concatenated<'static, std::vec::IntoIter<&'a str>>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText {
        text: &'a str,
    },
    InputImage {
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<Url<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<Cow<'static, str>>,
    },
    InputAudio {
        input_audio: Sound<'a>,
    },
    InputVideo {
        #[serde(skip_serializing_if = "Option::is_none")]
        video: Option<DataUrl<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        video_url: Option<DataUrl<'a>>,
    },
    InputFile {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<DataUrl<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
    },
    OutputText {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<[(); 0]>,
    },
}

#[derive(Serialize)]
struct Sound<'a> {
    data: MediaBytes<'a>,
    format: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Url<'a> {
    Url(&'a str),
    Data(DataUrl<'a>),
}

/// A reasoning item from its members.
struct Typed(RawObject);

impl Serialize for Typed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "reasoning")?;
        let members = self.0.iter().filter(|(key, _)| *key != "type");
        members.into_iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

struct Drawn<'a> {
    item: RawObject,
    data: MediaBytes<'a>,
}

impl Serialize for Drawn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.item.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.serialize_entry("result", &self.data)?;
        map.end()
    }
}

/// Writes the body of a request.
pub(super) fn encode(
    options: &ResponsesOptions,
    model_id: &str,
    request: &ModelRequest,
    streaming: bool,
) -> Result<Vec<u8>, UppError> {
    let mut body = BodyWriter::new(&options.endpoint.provider, &request.params);
    body.member("model", model_id)?;
    let items = input(options, model_id, request)?;
    match items.as_slice() {
        // A single user message without a list.
        [Item::Message { role: "user", content: Content::Text(text), .. }] => body.member("input", text)?,
        items => body.member("input", items)?,
    }
    write_tools(&mut body, options, request)?;
    if let Some(structure) = request.structure.as_deref() {
        write_format(&mut body, options, request, structure)?;
    }
    if streaming {
        body.member("stream", &true)?;
        if options.stream_options {
            body.member("stream_options", &stream_options(&request.params))?;
        }
    } else {
        body.reserve("stream");
    }
    Ok(body.finish())
}

fn input<'a>(
    options: &ResponsesOptions,
    model_id: &str,
    request: &'a ModelRequest,
) -> Result<Vec<Item<'a>>, UppError> {
    let mut items = Vec::with_capacity(request.messages.len() + 1);
    if let Some(system) = request.system.as_deref() {
        let text = system_text(&options.endpoint.provider, system)?;
        if !text.is_empty() {
            items.push(message_item("system", Content::Text(text)));
        }
    }
    let producer = ModelIdentity { provider: &options.endpoint.provider, model_id };
    // Items that the vendor has not stored cannot be referenced by id.
    let is_stored = request.params.get("store").is_none_or(|store| store.get() != "false");
    for (place, message) in request.messages.iter().enumerate() {
        match &message.body {
            Body::User { content } => {
                items.push(message_item("user", user(options, place, message, content)?));
            }
            Body::Assistant { .. } => {
                let stored_metadata = StoredMetadata::of(message, producer);
                let assistant = Assistant::new(
                    options,
                    message,
                    stored_metadata,
                    is_stored && !options.reasoning_needs_content,
                );
                items.extend(assistant.into_items());
            }
            Body::ToolResult { results } => {
                for (index, result) in results.iter().enumerate() {
                    let output = tool_output(options, index, result);
                    let provider = &options.endpoint.provider;
                    items.push(output.map_err(|kind| kind.at(provider, place, message, result))?);
                }
            }
        }
    }
    Ok(items)
}

const fn message_item<'a>(role: &'static str, content: Content<'a>) -> Item<'a> {
    Item::Message { role, content, id: None, status: None, phase: None }
}

fn user<'a>(
    options: &ResponsesOptions,
    message_place: usize,
    message: &'a Message,
    content: &'a [ContentBlock],
) -> Result<Content<'a>, UppError> {
    if let [ContentBlock::Text(block)] = content {
        return Ok(Content::Text(block.text.as_str().into()));
    }
    let parts = content.iter().enumerate().map(|(place, block)| {
        part(options, block).ok_or_else(|| {
            let remedy = match options.documents {
                Documents::None if !options.capabilities.image_input => "send text",
                Documents::None => "send text or images",
                Documents::Pdf => "send text, images, or PDF documents as base64 or a URL",
                Documents::Any if options.capabilities.audio_input => {
                    "send text, images, documents, sound or film"
                }
                Documents::Any => "send text, images or documents",
            };
            let location =
                BlockLocation { provider: &options.endpoint.provider, message: message_place, block: place };
            location.unsupported(message, block, remedy)
        })
    });
    parts.collect::<Result<_, _>>().map(Content::Parts)
}

fn part<'a>(options: &ResponsesOptions, block: &'a ContentBlock) -> Option<Part<'a>> {
    match block {
        ContentBlock::Text(block) => Some(Part::InputText { text: &block.text }),
        ContentBlock::Image(block) if options.capabilities.image_input => {
            let mime_type = &block.mime_type;
            let chosen = block.extra.get("detail").and_then(RawJson::as_string).map(Cow::Owned);
            let detail = chosen.or_else(|| options.image_detail.map(Cow::Borrowed));
            let image_url = match &block.source {
                ImageSource::Unknown(source) => {
                    let file_id = Some(file_id(source)?);
                    return Some(Part::InputImage { image_url: None, file_id, detail });
                }
                ImageSource::Url(source) => Url::Url(&source.url),
                other => Url::Data(DataUrl { mime_type, data: MediaBytes::of_image(other)? }),
            };
            Some(Part::InputImage { image_url: Some(image_url), file_id: None, detail })
        }
        ContentBlock::Document(block) => document(options, block),
        ContentBlock::Audio(block) if options.capabilities.audio_input => {
            let (mime_type, data) = (&block.mime_type, MediaBytes::Bytes(block.data.as_slice()));
            let format = audio_format(mime_type);
            Some(match options.media {
                Media::Parts => Part::InputAudio { input_audio: Sound { data, format } },
                Media::Files => Part::InputFile {
                    filename: Some(format!("audio.{format}").into()),
                    file_data: Some(DataUrl { mime_type, data }),
                    file_url: None,
                    file_id: None,
                },
            })
        }
        ContentBlock::Video(block) if options.capabilities.video_input => {
            let data = MediaBytes::Bytes(block.data.as_slice());
            let url = Some(DataUrl { mime_type: &block.mime_type, data });
            Some(match options.media {
                Media::Parts => Part::InputVideo { video: None, video_url: url },
                Media::Files => Part::InputVideo { video: url, video_url: None },
            })
        }
        _ => None,
    }
}

/// A document, by its data, its URL or the id of its file.
fn document<'a>(options: &ResponsesOptions, block: &'a DocumentBlock) -> Option<Part<'a>> {
    let is_pdf = block.mime_type == "application/pdf";
    let is_read = match options.documents {
        Documents::None => false,
        Documents::Pdf => is_pdf,
        Documents::Any => true,
    };
    let mime_type = &block.mime_type;
    let unnamed = if is_pdf { "document.pdf" } else { "document.txt" };
    let name = block.title.as_deref().unwrap_or(unnamed);
    let file = |data| {
        let file_data = Some(DataUrl { mime_type, data });
        let filename = Some(name.into());
        Some(Part::InputFile { filename, file_data, file_url: None, file_id: None })
    };
    let (filename, file_data) = (None, None);
    match &block.source {
        DocumentSource::Unknown(source) if options.documents != Documents::None => {
            let file_id = Some(file_id(source)?);
            Some(Part::InputFile { filename, file_data, file_url: None, file_id })
        }
        _ if !is_read => None,
        DocumentSource::Url(source) => {
            let file_url = Some(source.url.as_str());
            Some(Part::InputFile { filename, file_data, file_url, file_id: None })
        }
        DocumentSource::Text(_) if options.documents != Documents::Any => None,
        DocumentSource::Text(source) => file(MediaBytes::Bytes(source.data.as_bytes())),
        other => file(MediaBytes::of_document(other)?),
    }
}

/// The contents of one assistant message, by kind.
struct Assistant<'a> {
    stored_metadata: StoredMetadata<'a>,
    reasoning: Vec<RawObject>,
    texts: Vec<&'a str>,
    images: Vec<MediaBytes<'a>>,
    calls: &'a [ToolCall],
    message_id: &'a str,
    joins_texts: bool,
    items_need_ids: bool,
    names_reasoning: bool,
}

impl<'a> Assistant<'a> {
    /// `names_reasoning`: true if reasoning may be sent by its id only.
    fn new(
        options: &ResponsesOptions,
        message: &'a Message,
        stored_metadata: StoredMetadata<'a>,
        names_reasoning: bool,
    ) -> Self {
        let content = message.content();
        let images = content.iter().filter_map(|block| match block {
            ContentBlock::Image(block) => MediaBytes::of_image(&block.source),
            _ => None,
        });
        Self {
            reasoning: stored_metadata.reasoning(),
            texts: content.iter().filter_map(answer_text).collect(),
            images: images.collect(),
            calls: message.tool_calls(),
            message_id: &message.id,
            joins_texts: options.joins_texts,
            items_need_ids: options.items_need_ids,
            names_reasoning,
            stored_metadata,
        }
    }

    /// The items: in the vendor's order if it is known and still matches, else reasoning, text, calls.
    fn into_items(mut self) -> Vec<Item<'a>> {
        let (reasoning, texts) = (self.reasoning.len(), self.texts.len());
        let order = self.stored_metadata.order(reasoning, texts, self.images.len(), self.calls.len());
        let mut sealed = std::mem::take(&mut self.reasoning).into_iter();
        let Some(order) = order else {
            let mut items: Vec<Item<'a>> = sealed
                .filter(|item| self.is_sendable(item))
                .map(|item| Item::Reasoning(Typed(item)))
                .collect();
            items.extend(self.message(&self.texts, None, None));
            items.extend(self.calls.iter().map(|call| self.call(call)));
            return items;
        };
        let mut texts = self.texts.iter().copied();
        let mut images = self.images.iter().copied();
        let mut calls = self.calls.iter();
        let items = order.into_iter().filter_map(|entry| match entry {
            StoredOrderEntry::Reasoning => {
                sealed.next().filter(|item| self.is_sendable(item)).map(|item| Item::Reasoning(Typed(item)))
            }
            StoredOrderEntry::Message { id, phase, texts: count } => {
                let texts: Vec<&str> = texts.by_ref().take(count).collect();
                let id = id.filter(|_| !self.stored_metadata.is_foreign());
                self.message(&texts, id, phase)
            }
            StoredOrderEntry::Call => calls.next().map(|call| self.call(call)),
            StoredOrderEntry::Image(item) => {
                let (item, data) = (serde_json::from_str(item.get()).ok()?, images.next()?);
                (!self.stored_metadata.is_foreign()).then_some(Item::Image(Drawn { item, data }))
            }
            StoredOrderEntry::Verbatim { item, is_call, is_shown } => {
                let code = is_shown.then(|| texts.next()).flatten();
                if is_call && self.stored_metadata.is_foreign() {
                    self.message(code.as_slice(), None, None)
                } else {
                    Some(Item::Verbatim(item))
                }
            }
        });
        items.collect()
    }

    fn is_sendable(&self, reasoning: &RawObject) -> bool {
        let has_content = reasoning.get("encrypted_content").is_some_and(RawJson::is_string);
        !self.stored_metadata.is_foreign() && (self.names_reasoning || has_content)
    }

    fn message(
        &self,
        texts: &[&'a str],
        id: Option<&'a RawValue>,
        phase: Option<&'a RawValue>,
    ) -> Option<Item<'a>> {
        let texts: Vec<&'a str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            return None;
        }
        let annotations = self.items_need_ids.then_some([]);
        let content = if self.joins_texts {
            Content::Joined(Concatenated { texts: texts.into_iter(), separator: "\n\n" })
        } else {
            let parts = texts.into_iter().map(|text| Part::OutputText { text, annotations });
            Content::Parts(parts.collect())
        };
        let ours = || self.items_need_ids.then(|| Id::Ours(self.message_id.to_owned()));
        let status = self.items_need_ids.then_some("completed");
        Some(Item::Message {
            role: "assistant",
            content,
            id: id.map(Id::Vendors).or_else(ours),
            status,
            phase,
        })
    }

    fn call(&self, call: &'a ToolCall) -> Item<'a> {
        let written = self.stored_metadata.call(&call.tool_call_id);
        let id = match written {
            Some(written) if !self.stored_metadata.is_foreign() => written.id.map(Id::Vendors),
            _ => item_id(&call.tool_call_id).map(Id::Ours),
        };
        let arguments = written.and_then(|written| written.arguments);
        Item::FunctionCall {
            id,
            call_id: &call.tool_call_id,
            name: &call.tool_name,
            arguments: arguments.map_or(Arguments::Json(call.arguments.get()), Arguments::Vendors),
            namespace: written.and_then(|written: &StoredCall<'a>| written.namespace),
        }
    }
}

/// The item id for a call of another vendor; `None` if the vendor would refuse it.
fn item_id(call_id: &str) -> Option<String> {
    let is_taken = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let taken = call_id.chars().map(|character| if is_taken(character) { character } else { '_' });
    let id: String = "fc_".chars().chain(taken).collect();
    (id.len() <= LONGEST_ID).then_some(id)
}

fn tool_output<'a>(
    options: &ResponsesOptions,
    place: usize,
    result: &'a ToolResult,
) -> Result<Item<'a>, Unsupported> {
    let output = ResultContent::new(result, |output| {
        let written = match output {
            ResultPart::Text(text) => Part::InputText { text },
            ResultPart::Media(block) => {
                part(options, block).ok_or("return text, or media that a user may send to this model")?
            }
        };
        Ok(RawJson::from_value(&written).unwrap_or_default())
    })?;
    Ok(Item::FunctionCallOutput {
        id: options.items_need_ids.then(|| format!("fco_{}_{place}", result.tool_call_id)),
        call_id: &result.tool_call_id,
        output,
    })
}
