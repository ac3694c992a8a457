//! Combines the parts of a response into events and a message.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::code_execution;
use super::metadata::{CandidateMetadata, FunctionCallMetadata, OrderEntry, ResponseMetadata};
use super::{DecodeContext, JSON_RESPONSE};
use crate::dialect::Sources;
use crate::dialects::borrowed_text::BorrowedText;
use crate::dialects::common::{Count, data_of, new_call_id};
use crate::error::UppError;
use crate::request::{ModelResponse, StopReason};
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::content::{AudioBlock, Base64Source, ImageBlock, VideoBlock};
use turntree_core::message::event::DataDelta;
use turntree_core::message::media::Binary;
use turntree_core::message::{
    Body, CodeExecutionBlock, ContentBlock, Delta, ImageSource, Message, StreamEvent, TokenUsage, ToolCall,
};

/// One part of any known kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<BorrowedText<'a>>,
    #[serde(default)]
    thought: Option<bool>,
    #[serde(borrow, default)]
    thought_signature: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    function_call: Option<FunctionCall<'a>>,
    #[serde(borrow, default)]
    inline_data: Option<InlineData<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCall<'a> {
    #[serde(borrow, default)]
    id: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    name: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(borrow, default)]
    partial_args: Option<&'a RawValue>,
    #[serde(default)]
    will_continue: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    #[serde(borrow, default)]
    mime_type: Option<BorrowedText<'a>>,
    #[serde(borrow, default)]
    data: Option<BorrowedText<'a>>,
}

/// The vendor's token counts.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage {
    #[serde(default)]
    prompt_token_count: Count,
    #[serde(default)]
    tool_use_prompt_token_count: Count,
    #[serde(default)]
    candidates_token_count: Count,
    #[serde(default)]
    thoughts_token_count: Count,
    #[serde(default)]
    cached_content_token_count: Count,
    #[serde(default)]
    total_token_count: Count,
    #[serde(default)]
    prompt_tokens_details: Audio,
    #[serde(default)]
    tool_use_prompt_tokens_details: Audio,
    #[serde(default)]
    candidates_tokens_details: Audio,
}

/// The audio tokens in a list of counts by modality.
#[derive(Debug, Default, Clone, Copy)]
struct Audio(u64);

impl<'de> Deserialize<'de> for Audio {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Counted<'a> {
            #[serde(borrow, default)]
            modality: Option<BorrowedText<'a>>,
            #[serde(default)]
            token_count: Count,
        }
        let counted: Vec<Counted<'de>> = Option::<&'de RawValue>::deserialize(deserializer)?
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        let audio = counted
            .iter()
            .filter(|counted| counted.modality.as_ref().is_some_and(|modality| modality.as_str() == "AUDIO"));
        Ok(Self(audio.fold(0, |sum, counted| sum.saturating_add(counted.token_count.0))))
    }
}

impl Usage {
    /// Tool use counts as input and thoughts as output, so that both add up to the vendor's total.
    fn into_usage(self) -> TokenUsage {
        let read = self.prompt_token_count.0.saturating_add(self.tool_use_prompt_token_count.0);
        let written = self.candidates_token_count.0.saturating_add(self.thoughts_token_count.0);
        let counted = TokenUsage::of_call(read, written);
        let total_tokens = match self.total_token_count.0 {
            0 => counted.total_tokens,
            reported => reported,
        };
        let sounds =
            [self.prompt_tokens_details, self.tool_use_prompt_tokens_details, self.candidates_tokens_details];
        let audio = sounds.iter().fold(0, |sum: u64, audio| sum.saturating_add(audio.0));
        TokenUsage {
            total_tokens,
            cache_read_tokens: self.cached_content_token_count.0,
            reasoning_tokens: self.thoughts_token_count.if_any(),
            audio_tokens: Count(audio).if_any(),
            ..counted
        }
    }
}

/// Values of the response as a whole.
#[derive(Default)]
pub(super) struct Head {
    pub(super) model: Option<String>,
    pub(super) finish_reason: Option<String>,
    /// Why the prompt was blocked.
    pub(super) block_reason: Option<String>,
    pub(super) reported: CandidateMetadata,
    pub(super) usage: Usage,
}

/// A text with the vendor's signatures and the byte offset at which each of them ends.
#[derive(Default)]
struct SignedText {
    text: String,
    signatures: Vec<(usize, String)>,
}

struct SignedCall {
    call: ToolCall,
    /// True if the vendor sent the id.
    has_own_id: bool,
    signature: Option<String>,
}

enum Block {
    Thought(SignedText),
    Text(SignedText),
    Media {
        block: ContentBlock,
        signature: Option<String>,
    },
    Call(SignedCall),
    /// The structured output, which arrived as a tool call.
    Answer {
        id: String,
        args: RawJson,
    },
    /// A kind of part that UPP does not define, and the block of the code that ran.
    Verbatim {
        part: RawJson,
        shown: Option<CodeExecutionBlock>,
    },
}

/// A response so far. Blocks are in the vendor's order; their positions are the indices of events.
#[derive(Default)]
pub(super) struct Assembly {
    blocks: Vec<Block>,
}

impl Assembly {
    /// Adds the next part and its events.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidResponse`](crate::ErrorCode::InvalidResponse) for media that are not base64, and for calls
    /// that arrive in pieces, which were not requested.
    pub(super) fn add(
        &mut self,
        raw: &RawValue,
        context: &DecodeContext,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        let part: Part<'_> = serde_json::from_str(raw.get()).map_err(|error| context.broken(error))?;
        let is_thought = part.thought.unwrap_or_default();
        let signature =
            part.thought_signature.map(BorrowedText::owned).filter(|signature| !signature.is_empty());
        match part {
            Part { function_call: Some(call), .. } => self.call(call, signature, context, events),
            Part { inline_data: Some(data), .. } if !is_thought => {
                self.media(raw, &data, signature, context, events)
            }
            // A draft image of the model's reasoning.
            Part { inline_data: Some(_), .. } if signature.is_none() => Ok(()),
            Part { text: Some(text), inline_data: None, .. } => {
                self.add_text(text.as_str(), is_thought, signature, context, events);
                Ok(())
            }
            _ if raw.get() == "{}" => Ok(()),
            _ => {
                self.verbatim(raw.into(), events);
                Ok(())
            }
        }
    }

    fn next_index(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Appends to the last block if it is of the same kind, since the vendor splits texts anywhere.
    fn add_text(
        &mut self,
        piece: &str,
        is_thought: bool,
        signature: Option<String>,
        context: &DecodeContext,
        events: &mut Vec<StreamEvent>,
    ) {
        let goes_on = match self.blocks.last() {
            Some(Block::Thought(_)) => is_thought,
            Some(Block::Text(_)) => !is_thought,
            _ => false,
        };
        if !goes_on {
            match (piece.is_empty(), signature) {
                (true, None) => return,
                // A signature without a text, before or after another kind of part.
                (true, Some(signature)) => return self.verbatim(signed_nothing(&signature), events),
                (false, signature) => {
                    let text = SignedText::default();
                    self.blocks.push(if is_thought { Block::Thought(text) } else { Block::Text(text) });
                    return self.add_text(piece, is_thought, signature, context, events);
                }
            }
        }
        let index = self.next_index().saturating_sub(1);
        let Some(Block::Thought(text) | Block::Text(text)) = self.blocks.last_mut() else { return };
        text.text.push_str(piece);
        text.signatures.extend(signature.map(|signature| (text.text.len(), signature)));
        if piece.is_empty() {
            return;
        }
        if is_thought {
            events.push(StreamEvent::reasoning(index, piece));
        } else {
            text_events(index, piece, context, events);
        }
    }

    fn call(
        &mut self,
        call: FunctionCall<'_>,
        signature: Option<String>,
        context: &DecodeContext,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        if call.partial_args.is_some() || call.will_continue == Some(true) {
            return Err(context.broken(
                "the arguments of a call come in pieces; leave out toolConfig.functionCallingConfig.\
                 streamFunctionCallArguments",
            ));
        }
        let index = self.next_index();
        let args = call.args.map(RawJson::from).filter(RawJson::is_object);
        let args = args.unwrap_or_else(RawJson::empty_object);
        let name = call.name.map(BorrowedText::owned).unwrap_or_default();
        let own_id = call.id.map(BorrowedText::owned).filter(|id| !id.is_empty());
        let has_own_id = own_id.is_some();
        let id = own_id.unwrap_or_else(|| new_call_id(&*context.ids));
        if context.is_answered_by_tool && name == JSON_RESPONSE {
            text_events(index, args.get(), context, events);
            self.blocks.push(Block::Answer { id, args });
            return Ok(());
        }
        events.push(StreamEvent::tool_call(index, id.as_str().into(), name.as_str().into(), args.get()));
        let call = ToolCall { tool_call_id: id, tool_name: name, arguments: args, extra: Extra::new() };
        self.blocks.push(Block::Call(SignedCall { call, has_own_id, signature }));
        Ok(())
    }

    fn media(
        &mut self,
        raw: &RawValue,
        inline: &InlineData<'_>,
        signature: Option<String>,
        context: &DecodeContext,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        let mime_type = inline.mime_type.as_ref().map_or("", BorrowedText::as_str);
        let base64 = inline.data.as_ref().map_or("", BorrowedText::as_str);
        let index = self.next_index();
        let kind = mime_type.split('/').next().unwrap_or_default();
        if !matches!(kind, "image" | "audio" | "video") {
            self.verbatim(raw.into(), events);
            return Ok(());
        }
        if kind == "image" {
            // Stored as base64; only stream events need the bytes.
            if let Ok(data) = Binary::from_base64(base64) {
                events.push(StreamEvent::new(index, Delta::Image(DataDelta { data, extra: Extra::new() })));
            }
            let source = Base64Source { data: base64.to_owned(), extra: Extra::new() };
            let source = ImageSource::Base64(source);
            let mime_type = mime_type.to_owned();
            let block = ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() };
            self.blocks.push(Block::Media { block: block.into(), signature });
            return Ok(());
        }
        let data = Binary::from_base64(base64).map_err(|error| context.broken(error))?;
        let delta = DataDelta { data: data.clone(), extra: Extra::new() };
        let mime_type = mime_type.to_owned();
        let (delta, block) = if kind == "audio" {
            let block = AudioBlock { data, mime_type, duration: None, extra: Extra::new() };
            (Delta::Audio(delta), ContentBlock::from(block))
        } else {
            let (duration, width, height) = (None, None, None);
            let block = VideoBlock { data, mime_type, duration, width, height, extra: Extra::new() };
            (Delta::Video(delta), ContentBlock::from(block))
        };
        if let (
            ContentBlock::Audio(piece),
            None,
            Some(Block::Media { block: ContentBlock::Audio(sound), .. }),
        ) = (&block, &signature, self.blocks.last_mut())
            && is_more_of(piece, sound)
        {
            sound.data = Binary::new([sound.data.as_slice(), piece.data.as_slice()].concat());
            events.push(StreamEvent::new(index.saturating_sub(1), delta));
            return Ok(());
        }
        events.push(StreamEvent::new(index, delta));
        self.blocks.push(Block::Media { block, signature });
        Ok(())
    }

    fn verbatim(&mut self, part: RawJson, events: &mut Vec<StreamEvent>) {
        let earlier = self.blocks.iter().filter_map(|block| match block {
            Block::Verbatim { part, .. } => Some(part.get()),
            _ => None,
        });
        let shown = code_execution::block_of(part.get(), earlier);
        events.extend(shown.iter().map(|block| StreamEvent::code_execution(self.next_index(), block)));
        self.blocks.push(Block::Verbatim { part, shown });
    }

    /// Builds the response.
    pub(super) fn finish(self, head: Head, context: &DecodeContext, sources: Sources<'_>) -> ModelResponse {
        let mut made =
            ResponseBuilder { data: self.data(context), is_plain: true, ..ResponseBuilder::default() };
        for block in self.blocks {
            made.add(block);
        }
        made.into_response(head, context, sources)
    }

    /// The structured output: the arguments of the tool call, else the whole text, else the last text that is JSON.
    fn data(&self, context: &DecodeContext) -> Option<RawJson> {
        if !context.is_structured {
            return None;
        }
        let answer = self.blocks.iter().rev().find_map(|block| match block {
            Block::Answer { args, .. } => Some(args.clone()),
            _ => None,
        });
        let texts: Vec<&str> = self
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect();
        let last = || texts.iter().rev().find_map(|text| data_of(text));
        answer.or_else(|| data_of(&texts.concat())).or_else(last)
    }
}

/// The events of a text, and of the structured output if requested.
fn text_events(index: u32, piece: &str, context: &DecodeContext, events: &mut Vec<StreamEvent>) {
    events.push(StreamEvent::text(index, piece));
    if context.is_structured {
        events.push(StreamEvent::object(index, piece));
    }
}

/// Raw samples continue the last block; any other audio starts a new one.
fn is_more_of(piece: &AudioBlock, sound: &AudioBlock) -> bool {
    let is_bare =
        ["audio/L16", "audio/l16", "audio/pcm"].iter().any(|bare| sound.mime_type.starts_with(bare));
    is_bare && piece.mime_type == sound.mime_type
}

fn signed_nothing(signature: &str) -> RawJson {
    let members = [("text", ""), ("thoughtSignature", signature)];
    let part: RawObject =
        members.into_iter().map(|(name, text)| (name, RawJson::from_str_value(text))).collect();
    RawJson::from_value(&part).unwrap_or_default()
}

/// Builds the message.
#[derive(Default)]
struct ResponseBuilder {
    reasoning: Vec<ContentBlock>,
    rest: Vec<ContentBlock>,
    calls: Vec<ToolCall>,
    call_parts: Vec<FunctionCallMetadata>,
    order: Vec<OrderEntry>,
    /// True if the order of parts is the default one, which the message already has.
    is_plain: bool,
    rank: u8,
    text_signature: Option<String>,
    data: Option<RawJson>,
    answer_id: Option<String>,
}

impl ResponseBuilder {
    fn add(&mut self, block: Block) {
        match block {
            Block::Thought(text) => {
                self.is_plain &= text.signatures.is_empty();
                self.reasoning.push(ContentBlock::reasoning(text.text));
                self.place(0, entry("thought", text.signatures));
            }
            Block::Text(text) => {
                // Only a single signature at the end of the last text has a member of its own.
                let is_at_end = |(end, _): &(usize, String)| *end == text.text.len();
                self.is_plain &= self.text_signature.is_none()
                    && text.signatures.len() <= 1
                    && text.signatures.iter().all(is_at_end);
                let last = text.signatures.last().map(|(_, signature)| signature.clone());
                self.text_signature = last.or(self.text_signature.take());
                self.rest.push(ContentBlock::text(text.text));
                self.place(1, entry("text", text.signatures));
            }
            Block::Media { block, signature } => {
                self.is_plain &= signature.is_none();
                self.rest.push(block);
                self.place(
                    1,
                    entry("media", signature.map(|signature| (0, signature)).into_iter().collect()),
                );
            }
            Block::Call(SignedCall { call, has_own_id, signature }) => {
                self.call_parts.push(FunctionCallMetadata {
                    id: has_own_id.then(|| call.tool_call_id.clone()),
                    name: call.tool_name.clone(),
                    args: call.arguments.clone(),
                    thought_signature: signature,
                });
                self.calls.push(call);
                self.place(2, OrderEntry::Next("functionCall"));
            }
            Block::Answer { id, args } => {
                self.rest.push(ContentBlock::text(args.get()));
                self.answer_id = Some(id);
                self.place(1, OrderEntry::Next("text"));
            }
            Block::Verbatim { part, shown } => {
                self.is_plain = false;
                self.rest.extend(shown.map(ContentBlock::from));
                self.order.push(OrderEntry::Verbatim { part });
            }
        }
    }

    fn place(&mut self, rank: u8, entry: OrderEntry) {
        self.is_plain &= rank >= self.rank;
        self.rank = rank;
        self.order.push(entry);
    }

    fn into_response(self, head: Head, context: &DecodeContext, sources: Sources<'_>) -> ModelResponse {
        let stop_reason = stop_reason(&head, !self.calls.is_empty(), self.rest.is_empty());
        let members = ResponseMetadata {
            finish_reason: head.finish_reason,
            model: head.model,
            reported: head.reported,
            function_call_parts: self.call_parts,
            thought_signature: self.text_signature,
            json_response_id: self.answer_id,
            parts: (!self.is_plain).then_some(self.order),
        };
        let mut metadata = RawObject::new();
        metadata.insert(context.provider, RawJson::from_value(&members).unwrap_or_default());
        let mut content = self.reasoning;
        content.extend(self.rest);
        let tool_calls = (!self.calls.is_empty()).then_some(self.calls);
        let message = Message {
            id: sources.ids.string(),
            timestamp: sources.clock.now(),
            metadata: Some(metadata),
            body: Body::Assistant { content, tool_calls },
            extra: Extra::new(),
        };
        let usage = head.usage.into_usage();
        ModelResponse { message: Arc::new(message), usage, stop_reason, data: self.data }
    }
}

fn entry(kind: &'static str, signatures: Vec<(usize, String)>) -> OrderEntry {
    if signatures.is_empty() { OrderEntry::Next(kind) } else { OrderEntry::Signed { kind, signatures } }
}

/// UPP-1.2 §19.0, and later reasons. The vendor has no reason for tool calls, so they are detected by their presence. A
/// reason that says nothing, such as `OTHER`, is the end of an answer, and an error if there is none.
fn stop_reason(head: &Head, has_calls: bool, is_empty: bool) -> StopReason {
    match head.finish_reason.as_deref() {
        Some("MAX_TOKENS") => StopReason::MaxTokens,
        Some(
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "LANGUAGE",
        ) => StopReason::ContentFilter,
        None if head.block_reason.is_some() => StopReason::ContentFilter,
        _ if has_calls => StopReason::ToolUse,
        Some("TOOL_USE") => StopReason::ToolUse,
        Some(
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE"
            | "MISSING_THOUGHT_SIGNATURE",
        ) => StopReason::Error,
        Some("STOP") | None => StopReason::EndTurn,
        Some(_) if is_empty => StopReason::Error,
        Some(_) => StopReason::EndTurn,
    }
}
