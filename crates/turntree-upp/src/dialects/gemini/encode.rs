//! Writes requests. Everything is borrowed from the request and written once.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::metadata::{Signatures, StoredMetadata, StoredOrderEntry};
use super::params::Params;
use super::tools::{Tools, generation_config};
use super::{SIGNING_GENERATION, generation};
use crate::dialects::common::{
    BlockLocation, BodyWriter, MediaBytes, ResultPart, refuse_choices, result_parts,
};
use crate::error::UppError;
use crate::provenance::ModelIdentity;
use crate::request::{ModelRequest, System};
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{
    Body, ContentBlock, DocumentSource, ImageSource, Message, ToolCall, ToolResult,
};

/// Accepted by the vendor instead of a signature, for a call that another model made.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

/// The prefix of call ids that other implementations of UPP create: `google_toolcall:{place}:{name}`.
const MADE_UP_ID: &str = "google_toolcall:";

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Known {
        #[serde(flatten)]
        data: Data<'a>,
        #[serde(rename = "thoughtSignature", skip_serializing_if = "Option::is_none")]
        signature: Option<Signature<'a>>,
    },
    /// A part of an earlier response, unchanged.
    Verbatim(&'a RawValue),
    /// A part of an earlier response without another model's signature.
    Unsigned(RawObject),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Data<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        thought: bool,
    },
    Inline {
        #[serde(rename = "inlineData")]
        inline: Inline<'a>,
    },
    File {
        #[serde(rename = "fileData")]
        file: File<'a>,
    },
    Call {
        #[serde(rename = "functionCall")]
        call: Call<'a>,
    },
    Response {
        #[serde(rename = "functionResponse")]
        response: ToolReturn<'a>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inline<'a> {
    mime_type: &'a str,
    data: MediaBytes<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    mime_type: &'a str,
    file_uri: &'a str,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    args: &'a RawJson,
}

#[derive(Serialize)]
struct ToolReturn<'a> {
    id: &'a str,
    name: &'a str,
    response: Wrapped<'a>,
    /// Media beside the response, for models that take them there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<RawJson>,
}

/// A tool result as an object, which the vendor requires.
#[derive(Serialize)]
#[serde(untagged)]
enum Wrapped<'a> {
    Object(&'a RawJson),
    Other { result: &'a RawJson },
    Text { result: String },
}

#[derive(Serialize, Clone, Copy)]
#[serde(untagged)]
enum Signature<'a> {
    Vendor(&'a RawValue),
    Foreign(&'static str),
}

impl<'a> Part<'a> {
    const fn new(data: Data<'a>) -> Self {
        Self::Known { data, signature: None }
    }

    const fn text(text: &'a str) -> Self {
        Self::new(Data::Text { text, thought: false })
    }

    fn is_empty_text(&self) -> bool {
        matches!(self, Self::Known { data: Data::Text { text: "", .. }, signature: None })
    }

    fn signed(self, signature: Option<Signature<'a>>) -> Self {
        match (self, signature) {
            (Self::Known { data, .. }, Some(signature)) => Self::Known { data, signature: Some(signature) },
            (part, _) => part,
        }
    }
}

/// Writes the body of a request.
pub(super) fn encode(provider: &str, model_id: &str, request: &ModelRequest) -> Result<Vec<u8>, UppError> {
    let mut params = Params::split(provider, &request.params)?;
    let tools = Tools::new(provider, model_id, request, &mut params)?;
    let config = generation_config(provider, request, &tools, &mut params)?;
    let encoder = Encoder {
        producer: ModelIdentity { provider, model_id },
        signs_calls: generation(model_id).is_some_and(|number| number >= SIGNING_GENERATION),
        messages: &request.messages,
    };
    refuse_choices(provider, &config, "candidateCount")?;
    let mut body = BodyWriter::new(provider, &params.top);
    body.member("contents", &encoder.contents()?)?;
    if let Some(parts) = system_parts(provider, request.system.as_deref())? {
        let parts: Vec<Part<'_>> = parts.iter().map(|text| Part::text(text)).collect();
        body.member("systemInstruction", &Instruction { parts })?;
    }
    if !config.is_empty() {
        body.member("generationConfig", &config)?;
    }
    tools.write(&mut body)?;
    Ok(body.finish())
}

/// The texts of the system prompt; empty if there are none.
fn system_parts<'a>(
    provider: &str,
    system: Option<&'a System>,
) -> Result<Option<Vec<Cow<'a, str>>>, UppError> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Block {
        Text(String),
        Object { text: String },
    }
    let texts: Vec<Cow<'a, str>> = match system {
        None => return Ok(None),
        Some(System::Text(text)) => vec![text.as_str().into()],
        Some(System::Blocks(blocks)) => {
            let blocks: Vec<Block> = blocks.to().map_err(|_| {
                UppError::invalid_request(provider, "system: each block needs a \"text\" that is a string")
            })?;
            let texts = blocks.into_iter().map(|block| match block {
                Block::Text(text) | Block::Object { text } => text.into(),
            });
            texts.collect()
        }
    };
    let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    Ok((!texts.is_empty()).then_some(texts))
}

struct Encoder<'a> {
    producer: ModelIdentity<'a>,
    /// True if the model requires a signature on the first call of each step, whichever model made it.
    signs_calls: bool,
    messages: &'a History,
}

impl<'a> Encoder<'a> {
    fn contents(&self) -> Result<Vec<Content<'a>>, UppError> {
        self.messages.iter().enumerate().map(|(place, message)| self.content(place, message)).collect()
    }

    fn content(&self, place: usize, message: &'a Message) -> Result<Content<'a>, UppError> {
        let (role, mut parts) = match &message.body {
            Body::User { content } => {
                let parts = content.iter().enumerate().map(|(block_place, block)| {
                    media_part(block).filter(|_| !matches!(block, ContentBlock::Reasoning(_))).ok_or_else(
                        || {
                            let provider = self.producer.provider;
                            let location = BlockLocation { provider, message: place, block: block_place };
                            location.unsupported(
                                message,
                                block,
                                "send text, images, documents, audio or video",
                            )
                        },
                    )
                });
                ("user", parts.collect::<Result<Vec<_>, _>>()?)
            }
            Body::Assistant { content, tool_calls } => {
                ("model", self.assistant(message, content, tool_calls.as_deref().unwrap_or_default()))
            }
            Body::ToolResult { results } => {
                let (mut parts, mut media) = (Vec::with_capacity(results.len()), Vec::new());
                for result in results {
                    parts.push(self.tool_result(place, result, &mut media)?);
                }
                // The responses come first; the vendor refuses them after other parts.
                parts.extend(
                    media.into_iter().filter_map(|part| RawObject::from_raw(&part)).map(Part::Unsigned),
                );
                ("user", parts)
            }
        };
        if parts.len() > 1 {
            parts.retain(|part| !part.is_empty_text());
        }
        if parts.is_empty() {
            parts.push(Part::text(""));
        }
        Ok(Content { role, parts })
    }

    /// The parts of an assistant message: in the vendor's order if it is known and still matches, else texts and
    /// media, then calls.
    ///
    /// Thoughts are sent back only with a signature of this vendor.
    fn assistant(
        &self,
        message: &'a Message,
        content: &'a [ContentBlock],
        calls: &'a [ToolCall],
    ) -> Vec<Part<'a>> {
        let stored_metadata = StoredMetadata::of(message, self.producer);
        let signatures: Vec<Option<Signature<'a>>> = calls
            .iter()
            .enumerate()
            .map(|(place, call)| stored_metadata.call_signature(place, call).map(Signature::Vendor))
            .collect();
        let is_foreign = self.signs_calls && signatures.iter().all(Option::is_none);
        let foreign = std::iter::once(is_foreign.then_some(Signature::Foreign(FOREIGN_CALL)));
        let call_parts = calls.iter().zip(signatures).zip(foreign.chain(std::iter::repeat(None))).map(
            |((call, signature), foreign)| {
                let call = Call::from(call);
                Part::new(Data::Call { call }).signed(signature.or(foreign))
            },
        );

        let blocks = AssistantBlocks::of(content);
        let counts = [blocks.thoughts.len(), blocks.texts.len(), blocks.media.len(), calls.len()];
        let Some(order) = stored_metadata.order(counts) else {
            let parts = plain_parts(content, stored_metadata.text_signature());
            return parts.into_iter().chain(call_parts).collect();
        };
        blocks.parts_in(order, call_parts, stored_metadata.is_foreign())
    }

    /// A result. Models before the third generation take its media only beside the results, in `media`.
    fn tool_result(
        &self,
        place: usize,
        result: &'a ToolResult,
        media: &mut Vec<RawJson>,
    ) -> Result<Part<'a>, UppError> {
        let id = result.tool_call_id.as_str();
        let name = self.tool_name(place, id).ok_or_else(|| {
            UppError::invalid_request(
                self.producer.provider,
                format!(
                    "messages[{place}]: no earlier tool call has the id \"{id}\"; keep the assistant's message with \
                     the call before its result"
                ),
            )
        })?;
        if let Some(output) = result_parts(&result.result) {
            let (texts, mut parts) = split(&output);
            if !self.signs_calls {
                media.append(&mut parts);
            }
            let response = Wrapped::Text { result: texts };
            return Ok(Part::new(Data::Response { response: ToolReturn { id, name, response, parts } }));
        }
        let response = if result.result.is_object() {
            Wrapped::Object(&result.result)
        } else {
            Wrapped::Other { result: &result.result }
        };
        Ok(Part::new(Data::Response { response: ToolReturn { id, name, response, parts: Vec::new() } }))
    }

    /// The tool name of the nearest call before `place` with this id.
    fn tool_name(&self, place: usize, id: &'a str) -> Option<&'a str> {
        let earlier = self.messages.iter().take(place).rev();
        let call = earlier.flat_map(|message| message.tool_calls()).find(|call| call.tool_call_id == id);
        let made_up = || id.strip_prefix(MADE_UP_ID)?.split_once(':').map(|(_, name)| name);
        call.map(|call| call.tool_name.as_str()).or_else(made_up)
    }
}

/// The texts of a result, and its media as parts.
fn split(output: &[ResultPart]) -> (String, Vec<RawJson>) {
    let (mut texts, mut parts) = (Vec::new(), Vec::new());
    for part in output {
        match part {
            ResultPart::Text(text) => texts.push(text.clone()),
            ResultPart::Media(block) => {
                texts.push(format!("[{}]", block.kind()));
                parts.extend(media_part(block).and_then(|part| RawJson::from_value(&part).ok()));
            }
        }
    }
    (texts.join("\n"), parts)
}

impl<'a> From<&'a ToolCall> for Call<'a> {
    fn from(call: &'a ToolCall) -> Self {
        Self { id: &call.tool_call_id, name: &call.tool_name, args: &call.arguments }
    }
}

impl Part<'_> {
    const fn is_signed(&self) -> bool {
        matches!(self, Self::Known { signature: Some(_), .. })
    }
}

/// The content of an assistant message, by kind.
#[derive(Default)]
struct AssistantBlocks<'a> {
    thoughts: Vec<&'a str>,
    texts: Vec<&'a str>,
    media: Vec<Part<'a>>,
}

impl<'a> AssistantBlocks<'a> {
    fn of(content: &'a [ContentBlock]) -> Self {
        let mut blocks = Self::default();
        for block in content {
            match block {
                ContentBlock::Reasoning(block) => blocks.thoughts.push(&block.text),
                ContentBlock::Text(block) => blocks.texts.push(&block.text),
                // The vendor's own parts are sent in its place.
                ContentBlock::CodeExecution(_) => blocks.texts.push(""),
                _ => blocks.media.extend(media_part(block)),
            }
        }
        blocks
    }

    /// The parts in the order of the response. Removes the signatures of verbatim parts if `is_foreign` is true.
    fn parts_in(
        self,
        order: Vec<StoredOrderEntry<'a>>,
        mut calls: impl Iterator<Item = Part<'a>>,
        is_foreign: bool,
    ) -> Vec<Part<'a>> {
        let mut thoughts = self.thoughts.into_iter();
        let mut texts = self.texts.into_iter();
        let mut media = self.media.into_iter();
        let mut parts = Vec::new();
        for entry in order {
            match entry {
                StoredOrderEntry::Thought(signatures) => {
                    let text = thoughts.next().unwrap_or_default();
                    parts.extend(signed_pieces(text, &signatures, true).filter(Part::is_signed));
                }
                StoredOrderEntry::Text(signatures) => {
                    let text = texts.next().unwrap_or_default();
                    parts.extend(signed_pieces(text, &signatures, false));
                }
                StoredOrderEntry::Media(signatures) => {
                    let signature = signatures.first().map(|(_, signature)| Signature::Vendor(signature));
                    parts.extend(media.next().map(|part| part.signed(signature)));
                }
                StoredOrderEntry::Call => parts.extend(calls.next()),
                StoredOrderEntry::Verbatim { part, is_shown } => {
                    if is_shown {
                        texts.next();
                    }
                    parts.push(if is_foreign { unsigned(part) } else { Part::Verbatim(part) });
                }
            }
        }
        parts
    }
}

/// Removes the signature of a provider's part.
fn unsigned(part: &RawValue) -> Part<'_> {
    let Ok(mut members) = serde_json::from_str::<RawObject>(part.get()) else { return Part::Verbatim(part) };
    members.remove("thoughtSignature");
    Part::Unsigned(members)
}

/// Texts and media in order; the signature belongs to the last text.
fn plain_parts<'a>(content: &'a [ContentBlock], signature: Option<&'a RawValue>) -> Vec<Part<'a>> {
    let last_text = content.iter().rposition(|block| block.as_text().is_some_and(|text| !text.is_empty()));
    let parts = content.iter().enumerate().filter_map(|(place, block)| {
        let signature = signature.filter(|_| Some(place) == last_text);
        Some(media_part(block)?.signed(signature.map(Signature::Vendor)))
    });
    parts.filter(|part| !part.is_empty_text()).collect()
}

/// Splits a text where its signatures end.
fn signed_pieces<'a>(
    text: &'a str,
    signatures: &Signatures<'a>,
    thought: bool,
) -> impl Iterator<Item = Part<'a>> + use<'a> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (end, signature) in signatures {
        // In a changed text, the signatures apply to what is left of their range.
        let end = if text.is_char_boundary(*end) { (*end).max(start) } else { text.len() };
        let piece = text.get(start..end).unwrap_or_default();
        pieces
            .push(Part::new(Data::Text { text: piece, thought }).signed(Some(Signature::Vendor(signature))));
        start = end;
    }
    let rest = Part::new(Data::Text { text: text.get(start..).unwrap_or_default(), thought });
    pieces.into_iter().chain(Some(rest).filter(|rest| !rest.is_empty_text()))
}

/// Converts a block into a part; `None` for unsupported blocks and for thoughts.
fn media_part(block: &ContentBlock) -> Option<Part<'_>> {
    let inline = |mime_type, data| Part::new(Data::Inline { inline: Inline { mime_type, data } });
    Some(match block {
        ContentBlock::Text(block) => Part::text(&block.text),
        ContentBlock::Image(block) => match &block.source {
            ImageSource::Url(source) => served(&source.url, &block.mime_type),
            other => inline(&block.mime_type, MediaBytes::of_image(other)?),
        },
        ContentBlock::Document(block) => match &block.source {
            DocumentSource::Url(source) => served(&source.url, &block.mime_type),
            DocumentSource::Text(source) => Part::text(&source.data),
            other => inline(&block.mime_type, MediaBytes::of_document(other)?),
        },
        ContentBlock::Audio(block) => inline(&block.mime_type, MediaBytes::Bytes(block.data.as_slice())),
        ContentBlock::Video(block) => inline(&block.mime_type, MediaBytes::Bytes(block.data.as_slice())),
        ContentBlock::Reasoning(_)
        | ContentBlock::Binary(_)
        | ContentBlock::CodeExecution(_)
        | ContentBlock::Unknown(_) => return None,
    })
}

/// Data at a URL; a `data:` URL is sent inline.
fn served<'a>(url: &'a str, mime_type: &'a str) -> Part<'a> {
    let brought = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
    Part::new(match brought {
        Some((own_type, data)) => {
            let mime_type = if own_type.is_empty() { mime_type } else { own_type };
            Data::Inline { inline: Inline { mime_type, data: MediaBytes::Base64(data) } }
        }
        None => Data::File { file: File { mime_type, file_uri: url } },
    })
}
