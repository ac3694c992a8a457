//! The assembler: chunks in, a message out. Server and client use the same algorithm.
//!
//! It follows the real client in all details: a part never moves, an output prefers a call of the current step, and
//! metadata is merged deeply.
//!
//! Spec: UI message stream, §4, §5.

use std::collections::HashMap;

use super::chunk::Chunk;
use super::merge_metadata::MergedMetadata;
use super::message::{DYNAMIC_TOOL, Optional, STEP_START, UiMessage, UiPart};
use super::part_index::PartIndex;
use super::tool_update::{StreamedCall, ToolUpdate};
use turntree_core::json::{RawJson, RawObject};

/// The maximum number of bytes of arguments that late deltas repeat in other steps. Decision P38.
const REPEATED_BYTES: usize = 16 << 20;

/// Assembles the chunks of a stream into a message. A chunk costs its own size, not that of the message.
#[derive(Debug, Clone)]
pub struct Assembler {
    message: UiMessage,
    metadata: MergedMetadata,
    /// True if [`Self::metadata`] has changed since the last read of the message.
    metadata_changed: bool,
    texts: HashMap<String, usize>,
    reasonings: HashMap<String, usize>,
    inputs: HashMap<String, StreamedCall>,
    /// Calls with new arguments that are not yet in their parts.
    grown: Vec<String>,
    /// Bytes of arguments that were written to more than one part.
    repeated: usize,
    /// The index of the first part of the current step.
    step: usize,
    index: PartIndex,
}

impl Default for Assembler {
    fn default() -> Self {
        Self::new(UiMessage::assistant(""))
    }
}

impl Assembler {
    /// Continues a message. A new message has no parts.
    pub fn new(message: UiMessage) -> Self {
        let step =
            message.parts.iter().rposition(|part| part.kind == STEP_START).map_or(0, |index| index + 1);
        let streaming = |(index, part): (usize, &UiPart)| {
            let id = part.tool_call_id.as_ref().filter(|_| part.is_tool() && part.is("input-streaming"))?;
            Some((id.clone(), StreamedCall::of(index, part)))
        };
        Self {
            inputs: message.parts.iter().enumerate().skip(step).filter_map(streaming).collect(),
            index: PartIndex::of(&message.parts),
            metadata: MergedMetadata::new(message.metadata.0.clone()),
            metadata_changed: false,
            texts: HashMap::new(),
            reasonings: HashMap::new(),
            grown: Vec::new(),
            repeated: 0,
            step,
            message,
        }
    }

    /// The message so far. Takes time in proportion to the arguments that grew since the last call.
    pub fn message(&mut self) -> &UiMessage {
        for id in std::mem::take(&mut self.grown) {
            let Some(input) = self.inputs.get_mut(&id) else { continue };
            input.is_listed = false;
            settle(&mut self.message.parts, input);
        }
        if std::mem::take(&mut self.metadata_changed) {
            self.message.metadata.0 = self.metadata.value();
        }
        &self.message
    }

    /// The last part. Its arguments may lack the latest deltas.
    pub(super) fn last_part(&self) -> Option<&UiPart> {
        self.message.parts.last()
    }

    /// The final message.
    pub fn into_message(mut self) -> UiMessage {
        self.message();
        self.message
    }

    /// Tool parts without a result. Their arguments may lack the latest deltas.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = &UiPart> {
        self.index.open_calls().filter_map(|index| self.message.parts.get(index))
    }

    /// Adds the next chunk.
    ///
    /// # Errors
    /// The errors of the real client: a delta of a block that did not start, a result without a call, a missing member.
    /// Unknown types are ignored. A missing result, input or data is accepted, because servers send such chunks,
    /// although clients with schemas reject them.
    pub fn push(&mut self, chunk: &Chunk) -> Result<(), String> {
        match chunk.kind.as_str() {
            "start" => self.start(chunk)?,
            "finish" | "message-metadata" => self.metadata(&chunk.message_metadata)?,
            "start-step" => {
                self.push_part(UiPart::of(STEP_START));
                self.step = self.message.parts.len();
            }
            "finish-step" | "abort" => {}
            "error" => drop(need(chunk.error_text.as_ref(), chunk, "errorText")?),
            "reset-step" => self.reset_step(),
            "text-start" | "reasoning-start" => self.block_start(chunk)?,
            "text-delta" | "text-end" | "reasoning-delta" | "reasoning-end" => self.block_piece(chunk)?,
            "tool-input-start" | "tool-input-delta" | "tool-input-available" | "tool-input-error" => {
                self.tool_input(chunk)?;
            }
            "tool-output-available" | "tool-output-error" => self.tool_output(chunk)?,
            "tool-output-denied" => {
                let index = self.called(chunk)?;
                self.set_state(index, "output-denied");
            }
            "tool-approval-request" => self.approval_request(chunk)?,
            "tool-approval-response" => self.approval_response(chunk)?,
            "source-url" | "source-document" | "file" | "reasoning-file" | "custom" | "steering-message" => {
                self.plain(chunk)?;
            }
            kind if kind.starts_with("data-") => self.data(chunk),
            // Clients without schemas ignore unknown types.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, chunk: &Chunk) -> Result<(), String> {
        if let Some(id) = &chunk.message_id {
            if !self.message.id.is_empty() && *id != self.message.id {
                *self = Self::new(UiMessage::assistant(""));
            }
            self.message.id.clone_from(id);
        }
        self.metadata(&chunk.message_metadata)
    }

    fn metadata(&mut self, metadata: &Optional) -> Result<(), String> {
        let Some(new) = metadata.get().filter(|value| !value.is_null()) else { return Ok(()) };
        self.metadata.merge(new)?;
        self.metadata_changed = true;
        Ok(())
    }

    fn push_part(&mut self, part: UiPart) {
        self.index.add(self.message.parts.len(), &part);
        self.message.parts.push(part);
    }

    fn set_state(&mut self, index: usize, state: &str) {
        let Some(part) = self.message.parts.get_mut(index) else { return };
        part.state = Some(state.to_owned());
        self.index.state_changed(index, part);
    }

    fn reset_step(&mut self) {
        // Streaming arguments of earlier steps do not change any more.
        self.message();
        // A large map that is cleared costs its capacity each time.
        self.texts = HashMap::new();
        self.reasonings = HashMap::new();
        self.inputs = HashMap::new();
        while self.message.parts.len() > self.step
            && let Some(part) = self.message.parts.pop()
        {
            self.index.remove(self.message.parts.len(), &part);
        }
    }

    fn block_start(&mut self, chunk: &Chunk) -> Result<(), String> {
        let id = need(chunk.id.as_ref(), chunk, "id")?;
        let is_reasoning = chunk.kind == "reasoning-start";
        let open = if is_reasoning { &mut self.reasonings } else { &mut self.texts };
        open.insert(id.clone(), self.message.parts.len());
        self.push_part(UiPart {
            id: is_reasoning.then(|| id.clone()),
            text: Some(String::new()),
            state: Some("streaming".to_owned()),
            provider_metadata: chunk.provider_metadata.clone(),
            ..UiPart::of(if is_reasoning { "reasoning" } else { "text" })
        });
        Ok(())
    }

    fn block_piece(&mut self, chunk: &Chunk) -> Result<(), String> {
        let id = need(chunk.id.as_ref(), chunk, "id")?;
        let (what, piece) = chunk.kind.split_once('-').unwrap_or_default();
        let open = if what == "reasoning" { &mut self.reasonings } else { &mut self.texts };
        let index = if piece == "end" { open.remove(id) } else { open.get(id).copied() };
        let part = index.and_then(|index| self.message.parts.get_mut(index)).ok_or_else(|| {
            format!("no open {what} \"{id}\"; send its {what}-start before its {}", chunk.kind)
        })?;
        if piece == "delta" {
            let delta = need(chunk.delta.as_ref(), chunk, "delta")?;
            part.text.get_or_insert_default().push_str(delta);
        } else {
            part.state = Some("done".to_owned());
            if what == "text" {
                replace(&mut part.citations, &chunk.citations);
            }
        }
        replace(&mut part.provider_metadata, &chunk.provider_metadata);
        Ok(())
    }

    fn tool_input(&mut self, chunk: &Chunk) -> Result<(), String> {
        let id = need(chunk.tool_call_id.as_ref(), chunk, "toolCallId")?;
        if chunk.kind == "tool-input-delta" {
            let piece = need(chunk.input_text_delta.as_ref(), chunk, "inputTextDelta")?;
            return self.tool_piece(id, piece);
        }
        let name = need(chunk.tool_name.as_ref(), chunk, "toolName")?;
        let (state, error_text) = match chunk.kind.as_str() {
            "tool-input-start" => ("input-streaming", None),
            "tool-input-available" => ("input-available", None),
            _ => ("output-error", Some(need(chunk.error_text.as_ref(), chunk, "errorText")?.clone())),
        };
        let is_start = state == "input-streaming";
        let of_any_kind = self.in_step(id, None).filter(|_| chunk.kind == "tool-input-error");
        let dynamic = match of_any_kind.and_then(|index| self.message.parts.get(index)) {
            Some(part) => part.kind == DYNAMIC_TOOL,
            None => chunk.dynamic == Some(true),
        };
        let index = self.in_step(id, Some(dynamic));
        let index = index.unwrap_or_else(|| self.new_call(id, dynamic));
        match self.inputs.get_mut(id) {
            Some(input) if input.part == index => input.is_pending = false,
            // The new call replaces the text of the arguments.
            Some(input) if is_start => settle(&mut self.message.parts, input),
            _ => {}
        }
        let update = ToolUpdate {
            name,
            state,
            input: Some(if is_start { Optional(None) } else { chunk.input.clone() }),
            keeps_raw_input: false,
            output: Optional(None),
            error_text,
            preliminary: None,
            encoding: chunk.input_encoding.clone().filter(|_| is_start),
            title: chunk.title.clone().filter(|_| chunk.kind != "tool-input-error"),
            metadata: chunk.tool_metadata.clone(),
            is_result: state == "output-error",
        };
        if is_start {
            let input = StreamedCall {
                part: index,
                name: name.clone(),
                dynamic,
                encoding: update.encoding.clone(),
                title: update.title.clone(),
                metadata: update.metadata.clone(),
                // An entry in `grown` may refer to the call that this one replaces.
                is_listed: self.inputs.get(id).is_some_and(|input| input.is_listed),
                ..StreamedCall::default()
            };
            self.inputs.insert(id.clone(), input);
        }
        self.update(index, chunk, update);
        Ok(())
    }

    /// Appends to the arguments of a call.
    fn tool_piece(&mut self, id: &str, piece: &str) -> Result<(), String> {
        let Some((dynamic, part)) = self.inputs.get(id).map(|input| (input.dynamic, input.part)) else {
            return Err(format!(
                "the input of call \"{id}\" is not streaming; send its tool-input-start first"
            ));
        };
        let index = self.in_step(id, Some(dynamic));
        let arrives =
            |index: &usize| self.message.parts.get(*index).is_some_and(|part| part.is("input-streaming"));
        // While the arguments stream, no other member of the part changes.
        let goes_on = index.filter(arrives) == Some(part);
        let Some(mut input) = self.inputs.remove(id) else { return Ok(()) };
        if !goes_on && index != Some(part) {
            settle(&mut self.message.parts, &mut input);
            // The client writes the whole text to one more part.
            self.repeated = self.repeated.saturating_add(input.arrived.text().len());
            if self.repeated > REPEATED_BYTES {
                return Err(format!(
                    "the arguments of call \"{id}\" continue in too many steps; send a tool-input-start in each step"
                ));
            }
        }
        input.arrived.push(piece);
        input.hides_text = dynamic && index.is_none();
        if !goes_on {
            input.part = index.unwrap_or_else(|| self.new_call(id, dynamic));
            let update = ToolUpdate {
                name: &input.name,
                state: "input-streaming",
                input: Some(Optional(None)),
                keeps_raw_input: false,
                output: Optional(None),
                error_text: None,
                preliminary: None,
                encoding: input.encoding.clone(),
                title: input.title.clone(),
                metadata: input.metadata.clone(),
                is_result: false,
            };
            self.update(input.part, &Chunk::default(), update);
        }
        input.is_pending = true;
        if !std::mem::replace(&mut input.is_listed, true) {
            self.grown.push(id.to_owned());
        }
        self.inputs.insert(id.to_owned(), input);
        Ok(())
    }

    fn tool_output(&mut self, chunk: &Chunk) -> Result<(), String> {
        let index = self.called(chunk)?;
        let is_error = chunk.kind == "tool-output-error";
        let error_text =
            if is_error { Some(need(chunk.error_text.as_ref(), chunk, "errorText")?.clone()) } else { None };
        let Some(part) = self.message.parts.get(index) else { return Ok(()) };
        let name = part.tool().unwrap_or_default().to_owned();
        // The client drops it for dynamic tools.
        let keeps_raw_input = is_error && part.kind != DYNAMIC_TOOL;
        let input = part.tool_call_id.as_ref().and_then(|id| self.inputs.get_mut(id));
        if let Some(input) = input.filter(|input| input.part == index) {
            input.hides_text |= !keeps_raw_input;
        }
        let update = ToolUpdate {
            name: &name,
            state: if is_error { "output-error" } else { "output-available" },
            input: None,
            keeps_raw_input,
            output: if is_error { Optional(None) } else { chunk.output.clone() },
            error_text,
            preliminary: chunk.preliminary.filter(|_| !is_error),
            encoding: None,
            title: None,
            metadata: chunk.tool_metadata.clone(),
            is_result: true,
        };
        self.update(index, chunk, update);
        Ok(())
    }

    /// Applies the changes of a chunk to a tool part.
    fn update(&mut self, index: usize, chunk: &Chunk, update: ToolUpdate<'_>) {
        let Some(part) = self.message.parts.get_mut(index) else { return };
        if part.kind == DYNAMIC_TOOL {
            part.tool_name = Some(update.name.to_owned());
        } else {
            part.kind = format!("tool-{}", update.name);
        }
        part.state = Some(update.state.to_owned());
        self.index.state_changed(index, part);
        if let Some(input) = update.input {
            part.input = input;
        }
        if !update.keeps_raw_input {
            part.raw_input = Optional(None);
        }
        part.output = update.output;
        part.error_text = update.error_text;
        part.preliminary = update.preliminary;
        part.input_encoding = update.encoding;
        part.title = update.title.or(part.title.take());
        if update.metadata.get().is_some() {
            part.tool_metadata = update.metadata;
        }
        part.provider_executed = chunk.provider_executed.or(part.provider_executed);
        let about = if update.is_result {
            &mut part.result_provider_metadata
        } else {
            &mut part.call_provider_metadata
        };
        replace(about, &chunk.provider_metadata);
    }

    fn new_call(&mut self, id: &str, dynamic: bool) -> usize {
        let kind = if dynamic { DYNAMIC_TOOL } else { "tool-" };
        self.push_part(UiPart { tool_call_id: Some(id.to_owned()), ..UiPart::of(kind) });
        self.message.parts.len() - 1
    }

    /// The first part of a call in the current step; with `dynamic`, of this kind.
    fn in_step(&self, id: &str, dynamic: Option<bool>) -> Option<usize> {
        self.index.call_from(self.step, id, dynamic)
    }

    /// The part of the call that a chunk belongs to: in the current step, otherwise the latest.
    fn called(&self, chunk: &Chunk) -> Result<usize, String> {
        let id = need(chunk.tool_call_id.as_ref(), chunk, "toolCallId")?;
        self.in_step(id, None).or_else(|| self.index.last_of_call(id)).ok_or_else(|| {
            format!(
                "no call \"{id}\" in this message; send its tool-input-available before its {}",
                chunk.kind
            )
        })
    }

    fn approval_request(&mut self, chunk: &Chunk) -> Result<(), String> {
        let index = self.called(chunk)?;
        let id = need(chunk.approval_id.as_ref(), chunk, "approvalId")?;
        let mut approval = RawObject::new();
        approval.insert("id", RawJson::from_str_value(id));
        let mut keep = |key: &str, value: Option<RawJson>| {
            if let Some(value) = value {
                approval.insert(key, value);
            }
        };
        let text = |text: &Option<String>| text.as_deref().map(RawJson::from_str_value);
        keep("descriptor", chunk.approval_descriptor.0.clone().filter(|value| !value.is_null()));
        keep("inputSchemaInput", chunk.input_schema_input.0.clone());
        keep("requestReason", text(&chunk.reason));
        let automatic = chunk.is_automatic.filter(|automatic| *automatic);
        keep("isAutomatic", automatic.and_then(|automatic| RawJson::from_value(&automatic).ok()));
        keep("signature", text(&chunk.signature));
        if let Some(part) = self.message.parts.get_mut(index) {
            self.index.approval_removed(index, part);
            self.index.approval_added(index, id);
            part.approval = Some(approval);
        }
        self.set_state(index, "approval-requested");
        Ok(())
    }

    fn approval_response(&mut self, chunk: &Chunk) -> Result<(), String> {
        let id = need(chunk.approval_id.as_ref(), chunk, "approvalId")?;
        let approved = need(chunk.approved.as_ref(), chunk, "approved")?;
        let index = self.index.of_approval(id);
        let part = index.and_then(|index| self.message.parts.get_mut(index)).ok_or_else(|| {
            format!(
                "no approval \"{id}\" was requested in this message; send its tool-approval-request first"
            )
        })?;
        let approval = part.approval.get_or_insert_default();
        approval.insert("approved", RawJson::from_value(approved).unwrap_or_default());
        if let Some(reason) = &chunk.reason {
            approval.insert("reason", RawJson::from_str_value(reason));
        }
        part.provider_executed = chunk.provider_executed.or(part.provider_executed);
        replace(&mut part.call_provider_metadata, &chunk.provider_metadata);
        if let Some(index) = index {
            self.set_state(index, "approval-responded");
        }
        Ok(())
    }

    /// Chunks that become a part unchanged, with the members that the client knows.
    fn plain(&mut self, chunk: &Chunk) -> Result<(), String> {
        let required =
            |member: &Option<String>, name: &str| need(member.as_ref(), chunk, name).cloned().map(Some);
        let bare =
            UiPart { provider_metadata: chunk.provider_metadata.clone(), ..UiPart::of(chunk.kind.clone()) };
        let part = match chunk.kind.as_str() {
            "source-url" => UiPart {
                source_id: required(&chunk.source_id, "sourceId")?,
                url: required(&chunk.url, "url")?,
                title: chunk.title.clone(),
                ..bare
            },
            "source-document" => UiPart {
                source_id: required(&chunk.source_id, "sourceId")?,
                media_type: required(&chunk.media_type, "mediaType")?,
                title: required(&chunk.title, "title")?,
                filename: chunk.filename.clone(),
                ..bare
            },
            "custom" => {
                let mut part = bare;
                let kind = need(chunk.custom_kind.as_ref(), chunk, "kind")?;
                part.extra.insert("kind", RawJson::from_str_value(kind));
                part
            }
            "steering-message" => UiPart {
                id: required(&chunk.id, "id")?,
                parts: Some(need(chunk.parts.as_ref(), chunk, "parts")?.clone()),
                ..UiPart::of(chunk.kind.clone())
            },
            _ => UiPart {
                url: required(&chunk.url, "url")?,
                media_type: required(&chunk.media_type, "mediaType")?,
                ..bare
            },
        };
        self.push_part(part);
        Ok(())
    }

    /// Data of the application: the chunk becomes the part.
    fn data(&mut self, chunk: &Chunk) {
        if chunk.transient == Some(true) {
            return;
        }
        let known = chunk.id.as_ref().and_then(|id| self.index.of_data(&chunk.kind, id));
        if let Some(part) = known.and_then(|index| self.message.parts.get_mut(index)) {
            part.data.clone_from(&chunk.data);
            return;
        }
        // A member with the name of a part's member must have its type.
        let whole = RawJson::from_value(chunk).and_then(|whole| whole.to());
        let part = whole.unwrap_or_else(|_| UiPart {
            id: chunk.id.clone(),
            data: chunk.data.clone(),
            ..UiPart::of(chunk.kind.clone())
        });
        self.push_part(part);
    }
}

/// Writes the arguments so far into the part of a call.
fn settle(parts: &mut [UiPart], input: &mut StreamedCall) {
    if !std::mem::take(&mut input.is_pending) {
        return;
    }
    let Some(part) = parts.get_mut(input.part) else { return };
    let text = RawJson::from_str_value(input.arrived.text());
    part.input = Optional(if input.is_text() { Some(text.clone()) } else { input.arrived.read() });
    part.raw_input = Optional((!input.hides_text).then_some(text));
}

fn need<'c, T>(member: Option<&'c T>, chunk: &Chunk, name: &str) -> Result<&'c T, String> {
    member.ok_or_else(|| missing(chunk, name))
}

fn missing(chunk: &Chunk, name: &str) -> String {
    format!("a {} chunk without \"{name}\"; add it, because the client requires it", chunk.kind)
}

/// Replaces the old value, unless the new one is missing or `null`.
fn replace(old: &mut Optional, new: &Optional) {
    if new.get().is_some_and(|value| !value.is_null()) {
        old.clone_from(new);
    }
}
