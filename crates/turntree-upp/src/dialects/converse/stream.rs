//! Reads the events of streamed responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::assembly::{Head, Part, Usage, assemble};
use super::code_execution;
use super::image::image_block;
use super::{DecodeContext, PROVIDER, broken, reported_error};
use crate::dialect::{Sources, StreamDecoder};
use crate::dialects::common::{cut_short, if_readable};
use crate::error::UppError;
use crate::request::ModelResponse;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::event::{DataDelta, Delta as EventDelta};
use turntree_core::message::fold::arguments_of;
use turntree_core::message::media::Binary;
use turntree_core::message::{ImageSource, StreamEvent};

/// The members of all events.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Frame {
    content_block_index: u32,
    start: Option<Start>,
    delta: Option<Delta>,
    stop_reason: Option<String>,
    additional_model_response_fields: Option<RawJson>,
    #[serde(deserialize_with = "if_readable")]
    usage: Option<Usage>,
    trace: Option<RawJson>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Start {
    tool_use: Option<ToolUseStart>,
    tool_result: Option<RawObject>,
    image: Option<ImageStart>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ToolUseStart {
    tool_use_id: String,
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ImageStart {
    format: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Delta {
    text: Option<String>,
    tool_use: Option<ToolUseDelta>,
    tool_result: Option<Vec<RawJson>>,
    reasoning_content: Option<ReasoningDelta>,
    citation: Option<RawJson>,
    image: Option<ImageDelta>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ToolUseDelta {
    input: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ReasoningDelta {
    text: Option<String>,
    signature: Option<String>,
    redacted_content: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ImageDelta {
    source: Option<ImageBytes>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ImageBytes {
    bytes: Option<String>,
}

/// A block of the response, as far as it has arrived.
enum Open {
    Text {
        text: String,
        citations: Vec<RawJson>,
    },
    Reasoning {
        text: String,
        signature: String,
    },
    /// Reasoning that the vendor has encrypted.
    Redacted(String),
    Call {
        id: Arc<str>,
        name: Arc<str>,
        json: String,
        is_announced: bool,
    },
    /// A call that the vendor runs itself.
    ServerCall {
        start: RawObject,
        json: String,
    },
    ServerResult {
        start: RawObject,
        content: Vec<RawJson>,
    },
    Image {
        format: Option<String>,
        data: String,
    },
}

/// Decodes one stream.
pub(super) struct Decoder {
    context: DecodeContext,
    blocks: BTreeMap<u32, Open>,
    head: Head,
    is_started: bool,
    is_stopped: bool,
    is_over: bool,
}

impl Decoder {
    pub(super) fn new(context: DecodeContext) -> Self {
        Self {
            context,
            blocks: BTreeMap::new(),
            head: Head::default(),
            is_started: false,
            is_stopped: false,
            is_over: false,
        }
    }

    fn event(&mut self, name: &str, data: &str, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if name.ends_with("Exception") || name == "error" {
            return Err(reported_error(name, data));
        }
        let is_known = matches!(
            name,
            "messageStart"
                | "contentBlockStart"
                | "contentBlockDelta"
                | "contentBlockStop"
                | "messageStop"
                | "metadata"
        );
        if !is_known {
            return Ok(());
        }
        let frame: Frame = serde_json::from_str(data).map_err(broken)?;
        if !std::mem::replace(&mut self.is_started, true) {
            events.push(StreamEvent::message_start());
        }
        let index = frame.content_block_index;
        match name {
            "contentBlockStart" => self.start(index, frame.start.unwrap_or_default(), events),
            "contentBlockDelta" => self.delta(index, frame.delta.unwrap_or_default(), events),
            "contentBlockStop" => self.stop(index, events),
            "messageStop" => {
                self.head.stop_reason = frame.stop_reason;
                self.head.additional =
                    frame.additional_model_response_fields.filter(|fields| !fields.is_null());
                if !std::mem::replace(&mut self.is_stopped, true) {
                    events.push(StreamEvent::message_stop());
                }
            }
            "metadata" => {
                self.head.usage = frame.usage.unwrap_or_default();
                self.head.trace = frame.trace.filter(|trace| !trace.is_null());
                self.is_over = self.is_stopped;
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: u32, start: Start, events: &mut Vec<StreamEvent>) {
        let open = match start {
            Start { tool_use: Some(call), .. } if call.kind.is_some() => {
                let members = [
                    ("toolUseId", call.tool_use_id),
                    ("name", call.name),
                    ("type", call.kind.unwrap_or_default()),
                ];
                let start = members.into_iter().map(|(name, text)| (name, RawJson::from_str_value(&text)));
                Open::ServerCall { start: start.collect(), json: String::new() }
            }
            Start { tool_use: Some(call), .. } => Open::Call {
                id: call.tool_use_id.into(),
                name: call.name.into(),
                json: String::new(),
                is_announced: false,
            },
            Start { tool_result: Some(start), .. } => Open::ServerResult { start, content: Vec::new() },
            Start { image: Some(image), .. } => Open::Image { format: image.format, data: String::new() },
            Start { .. } => return,
        };
        self.blocks.insert(index, open);
        events.push(StreamEvent::block_start(index));
    }

    fn delta(&mut self, index: u32, delta: Delta, events: &mut Vec<StreamEvent>) {
        let context = self.context;
        // Blocks of text and reasoning have no start.
        let open = self.blocks.entry(index).or_insert_with(|| {
            events.push(StreamEvent::block_start(index));
            match &delta.reasoning_content {
                Some(ReasoningDelta { redacted_content: Some(_), .. }) => Open::Redacted(String::new()),
                Some(_) => Open::Reasoning { text: String::new(), signature: String::new() },
                None => Open::Text { text: String::new(), citations: Vec::new() },
            }
        });
        match (open, delta) {
            (Open::Text { text, .. }, Delta { text: Some(piece), .. }) => {
                text.push_str(&piece);
                say(context, index, &piece, events);
            }
            (Open::Text { citations, .. }, Delta { citation: Some(citation), .. }) => {
                citations.push(citation)
            }
            (Open::Reasoning { text, signature }, Delta { reasoning_content: Some(piece), .. }) => {
                signature.push_str(piece.signature.as_deref().unwrap_or_default());
                if let Some(piece) = piece.text.filter(|piece| !piece.is_empty()) {
                    text.push_str(&piece);
                    events.push(StreamEvent::reasoning(index, piece));
                }
            }
            (Open::Redacted(data), Delta { reasoning_content: Some(piece), .. }) => {
                data.push_str(piece.redacted_content.as_deref().unwrap_or_default());
            }
            (Open::Call { id, name, json, is_announced }, Delta { tool_use: Some(piece), .. }) => {
                json.push_str(&piece.input);
                *is_announced = true;
                if context.is_answer(name) {
                    say(context, index, &piece.input, events);
                } else {
                    events.push(StreamEvent::tool_call(index, Arc::clone(id), Arc::clone(name), piece.input));
                }
            }
            (Open::ServerCall { json, .. }, Delta { tool_use: Some(piece), .. }) => {
                json.push_str(&piece.input)
            }
            (Open::ServerResult { content, .. }, Delta { tool_result: Some(mut parts), .. }) => {
                content.append(&mut parts);
            }
            (Open::Image { data, .. }, Delta { image: Some(ImageDelta { source: Some(source) }), .. }) => {
                let piece = source.bytes.unwrap_or_default();
                events.extend(image_event(index, &piece));
                data.push_str(&piece);
            }
            _ => {}
        }
    }

    fn stop(&mut self, index: u32, events: &mut Vec<StreamEvent>) {
        if let Some(Open::Call { id, name, json, is_announced: false }) = self.blocks.get_mut(&index)
            && !self.context.is_answer(name)
        {
            "{}".clone_into(json);
            events.push(StreamEvent::tool_call(index, Arc::clone(id), Arc::clone(name), "{}"));
        }
        let Some(stopped) = self.blocks.get(&index) else { return };
        if let Open::ServerResult { .. } = stopped
            && let Some(result) = stopped.verbatim()
        {
            let earlier = self.blocks.values().filter_map(Open::verbatim);
            let ran = code_execution::block_of(result.get(), earlier.map(|block| block.get().to_owned()));
            events.extend(ran.map(|block| StreamEvent::code_execution(index, &block)));
            let images = code_execution::images_of(result.get());
            events.extend(images.filter_map(|image| match &image.source {
                ImageSource::Base64(source) => image_event(index, &source.data),
                _ => None,
            }));
        }
        events.push(StreamEvent::block_stop(index));
    }
}

/// A piece of an image; none if it is not base64.
fn image_event(index: u32, data: &str) -> Option<StreamEvent> {
    let data = Binary::from_base64(data).ok()?;
    Some(StreamEvent::new(index, EventDelta::Image(DataDelta { data, ..DataDelta::default() })))
}

/// A piece of the answer: text, or the structured output.
fn say(context: DecodeContext, index: u32, piece: &str, events: &mut Vec<StreamEvent>) {
    if piece.is_empty() {
        return;
    }
    events.push(StreamEvent::text(index, piece));
    if context.structure != super::Structure::None {
        events.push(StreamEvent::object(index, piece));
    }
}

impl Open {
    /// The block as the whole response has it, if the vendor runs the tool itself.
    fn verbatim(&self) -> Option<RawJson> {
        let (kind, mut members, name, value) = match self {
            Self::ServerCall { start, json } => {
                ("toolUse", start.clone(), "input", arguments_of(json.clone()))
            }
            Self::ServerResult { start, content } => {
                ("toolResult", start.clone(), "content", RawJson::from_value(content).unwrap_or_default())
            }
            _ => return None,
        };
        members.insert(name, value);
        let block: RawObject = [(kind, RawJson::from_value(&members).ok()?)].into_iter().collect();
        RawJson::from_value(&block).ok()
    }

    fn into_part(self, context: DecodeContext) -> Part {
        match self {
            Self::Text { text, citations } => {
                let citations = (!citations.is_empty()).then(|| RawJson::from_value(&citations).ok());
                Part::Text { text, citations: citations.flatten() }
            }
            Self::Reasoning { text, signature } => {
                Part::Reasoning { text, signature: Some(signature).filter(|text| !text.is_empty()) }
            }
            Self::Redacted(data) => {
                let block = format!(
                    r#"{{"reasoningContent":{{"redactedContent":{}}}}}"#,
                    RawJson::from_str_value(&data).get()
                );
                Part::Verbatim(RawJson::from_text(block).unwrap_or_default())
            }
            // A truncated structured output is not returned as data, but its text is preserved.
            Self::Call { name, json, .. }
                if context.is_answer(&name) && serde_json::from_str::<&RawValue>(&json).is_err() =>
            {
                Part::Text { text: json, citations: None }
            }
            Self::Call { id, name, json, .. } => {
                Part::ToolUse { id: id.to_string(), name: name.to_string(), input: arguments_of(json) }
            }
            Self::ServerCall { .. } | Self::ServerResult { .. } => {
                Part::Verbatim(self.verbatim().unwrap_or_default())
            }
            Self::Image { format, data } => Part::Media(image_block(format.as_deref(), data).into()),
        }
    }
}

impl StreamDecoder for Decoder {
    fn frame(
        &mut self,
        event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        if self.is_over {
            return Ok(());
        }
        if let Some(name) = event {
            return self.event(name, data, events);
        }
        // An event as the vendor's SDKs show it: an object whose only member has its name.
        let object: RawObject = serde_json::from_str(data).map_err(broken)?;
        match object.iter().next() {
            Some((name, value)) => self.event(name, value.get(), events),
            None => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        _events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError> {
        if !self.is_stopped {
            return Err(cut_short(PROVIDER));
        }
        let context = self.context;
        let parts = self.blocks.into_values().map(|open| open.into_part(context));
        Ok(assemble(parts, self.head, context, sources))
    }
}
