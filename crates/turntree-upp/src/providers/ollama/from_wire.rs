//! Answers, whole and line by line. A whole answer is read as a stream of one line, so that the two cannot differ.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::PROVIDER;
use crate::dialect::{Sources, StreamDecoder};
use crate::dialects::common::{
    Answer, Count, Few, Text, VendorError, cut_short, data_of, new_call_id, read_body, read_line,
};
use crate::error::UppError;
use crate::request::{ModelRequest, ModelResponse, StopReason};
use turntree_core::ids::IdSource;
use turntree_core::json::{Extra, RawJson, RawObject};
use turntree_core::message::fold::{Fold, arguments_of};
use turntree_core::message::{StreamEvent, TokenUsage, ToolCall};

/// Where the text goes; thinking and calls take the next free index from 1 (UPP-1.2 §11.1).
const TEXT: u32 = 0;

/// What every line tells, and the last word on it counts.
const TOLD: [&str; 3] = ["model", "created_at", "done_reason"];

/// What the last line tells of the run, copied into the namespace as it is.
const DURATIONS: [&str; 4] = ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"];

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    created_at: Text<'a>,
    #[serde(borrow, default)]
    message: Option<Said<'a>>,
    #[serde(default)]
    done: bool,
    #[serde(borrow, default)]
    done_reason: Text<'a>,
    #[serde(borrow, default)]
    total_duration: Option<&'a RawValue>,
    #[serde(borrow, default)]
    load_duration: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt_eval_duration: Option<&'a RawValue>,
    #[serde(borrow, default)]
    eval_duration: Option<&'a RawValue>,
    #[serde(default)]
    prompt_eval_count: Option<Count>,
    #[serde(default)]
    eval_count: Option<Count>,
    #[serde(default)]
    logprobs: Option<Vec<RawJson>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    tool_calls: Option<Few<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    /// Newer servers give one.
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

impl Function<'_> {
    /// An object; some models' templates give its text.
    fn arguments(&self) -> Cow<'_, str> {
        match self.arguments.map(RawValue::get) {
            None | Some("null") => Cow::Borrowed("{}"),
            Some(text) if text.starts_with('"') => {
                serde_json::from_str::<String>(text).unwrap_or_default().into()
            }
            Some(object) => Cow::Borrowed(object),
        }
    }
}

/// Reads the body of a whole answer.
pub(super) fn response(
    body: &str,
    request: &ModelRequest,
    sources: Sources<'_>,
) -> Result<ModelResponse, UppError> {
    let line: Line<'_> = read_body(PROVIDER, body)?;
    let mut run = Run::new(request.structure.is_some());
    run.line(line, sources.ids, &mut Vec::new())?;
    if run.is_empty() {
        return Err(UppError::invalid_response(PROVIDER, "ollama answered without a message"));
    }
    Ok(run.into_response(sources))
}

/// One stream in the making.
pub(super) struct OllamaStream {
    run: Run,
    ids: Arc<dyn IdSource>,
}

impl OllamaStream {
    pub(super) fn new(ids: Arc<dyn IdSource>, is_structured: bool) -> Self {
        Self { run: Run::new(is_structured), ids }
    }
}

impl StreamDecoder for OllamaStream {
    fn frame(
        &mut self,
        _event: Option<&str>,
        data: &str,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        let line: Line<'_> = read_line(PROVIDER, data)?;
        self.run.line(line, &*self.ids, events)
    }

    fn is_over(&self) -> bool {
        self.run.is_done
    }

    fn finish(
        self: Box<Self>,
        sources: Sources<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<ModelResponse, UppError> {
        if !self.run.is_done {
            return Err(cut_short(PROVIDER));
        }
        events.push(StreamEvent::message_stop());
        Ok(self.run.into_response(sources))
    }
}

/// What a run of the model has brought so far.
struct Run {
    is_structured: bool,
    is_started: bool,
    is_done: bool,
    fold: Fold,
    text: String,
    thinking: String,
    /// The block of the thinking.
    reasoning: Option<u32>,
    /// How many blocks other than the text there are.
    blocks: u32,
    tool_calls: Vec<ToolCall>,
    facts: RawObject,
    /// The last words on [`TOLD`]; `facts` has their places.
    told: [String; TOLD.len()],
    logprobs: Vec<RawJson>,
    usage: TokenUsage,
}

impl Run {
    fn new(is_structured: bool) -> Self {
        Self {
            is_structured,
            is_started: false,
            is_done: false,
            fold: Fold::default(),
            text: String::new(),
            thinking: String::new(),
            reasoning: None,
            blocks: 0,
            tool_calls: Vec::new(),
            facts: RawObject::new(),
            told: Default::default(),
            logprobs: Vec::new(),
            usage: TokenUsage::default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.fold.is_empty() && self.tool_calls.is_empty() && !self.is_done
    }

    fn line(
        &mut self,
        line: Line<'_>,
        ids: &dyn IdSource,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), UppError> {
        if let Some(error) = line.error.map(RawValue::get).filter(|error| *error != "null") {
            let told = RawJson::from_text(format!("{{\"error\":{error}}}")).unwrap_or_default();
            return Err(VendorError::of_json(&told).into_error(PROVIDER));
        }
        if !std::mem::replace(&mut self.is_started, true) {
            events.push(StreamEvent::message_start());
        }
        if let Some(said) = &line.message {
            self.said(said, ids, events);
        }
        self.learn(line);
        Ok(())
    }

    fn said(&mut self, said: &Said<'_>, ids: &dyn IdSource, events: &mut Vec<StreamEvent>) {
        let thinking = said.thinking.as_str();
        if !thinking.is_empty() {
            let index = *self.reasoning.get_or_insert_with(|| {
                self.blocks += 1;
                self.blocks
            });
            self.thinking.push_str(thinking);
            self.fold.reasoning(index, thinking);
            events.push(StreamEvent::reasoning(index, thinking));
        }
        let text = said.content.as_str();
        if !text.is_empty() {
            self.fold.text(TEXT, text);
            events.push(StreamEvent::text(TEXT, text));
            if self.is_structured {
                self.text.push_str(text);
                events.push(StreamEvent::object(TEXT, text));
            }
        }
        let named = |call: &&Call<'_>| !call.function.name.is_empty();
        for call in said.tool_calls.iter().flatten().filter(named) {
            self.call(call, ids, events);
        }
    }

    fn call(&mut self, call: &Call<'_>, ids: &dyn IdSource, events: &mut Vec<StreamEvent>) {
        let id: Arc<str> = match call.id.as_str() {
            "" => new_call_id(ids).into(),
            id => id.into(),
        };
        let name = call.function.name.as_str();
        let arguments = arguments_of(call.function.arguments().into_owned());
        self.blocks += 1;
        events.push(StreamEvent::tool_call(self.blocks, Arc::clone(&id), name.into(), arguments.get()));
        self.tool_calls.push(ToolCall {
            tool_call_id: id.to_string(),
            tool_name: name.to_owned(),
            arguments,
            extra: Extra::new(),
        });
    }

    fn learn(&mut self, line: Line<'_>) {
        let told = [&line.model, &line.created_at, &line.done_reason];
        for ((name, known), told) in TOLD.into_iter().zip(&mut self.told).zip(told) {
            if !told.is_empty() {
                if known.is_empty() {
                    self.facts.insert(name, RawJson::default());
                }
                told.as_str().clone_into(known);
            }
        }
        let durations =
            [line.total_duration, line.load_duration, line.prompt_eval_duration, line.eval_duration];
        for (name, duration) in DURATIONS.into_iter().zip(durations) {
            if let Some(duration) = duration.and_then(|raw| RawJson::from_text(raw.get().to_owned()).ok()) {
                self.facts.insert(name, duration);
            }
        }
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            let counts = (line.prompt_eval_count.unwrap_or_default(), line.eval_count.unwrap_or_default());
            self.usage = TokenUsage::of_call(counts.0.0, counts.1.0);
        }
        self.logprobs.extend(line.logprobs.into_iter().flatten());
        self.is_done |= line.done;
    }

    fn into_response(mut self, sources: Sources<'_>) -> ModelResponse {
        for (name, told) in TOLD.into_iter().zip(&self.told).filter(|(_, told)| !told.is_empty()) {
            self.facts.insert(name, RawJson::from_str_value(told));
        }
        if !self.thinking.is_empty() {
            self.facts.insert("thinking", RawJson::from_str_value(&self.thinking));
        }
        if !self.logprobs.is_empty() {
            self.facts.insert("logprobs", RawJson::from_value(&self.logprobs).unwrap_or_default());
        }
        let [.., done_reason] = &self.told;
        let stop_reason = match done_reason.as_str() {
            "length" => StopReason::MaxTokens,
            _ if !self.tool_calls.is_empty() => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        };
        let answer = Answer {
            id: String::new(),
            content: self.fold.finish().content,
            tool_calls: self.tool_calls,
            facts: self.facts,
            usage: self.usage,
            stop_reason,
            data: self.is_structured.then(|| data_of(&self.text)).flatten(),
        };
        answer.into_response(PROVIDER, sources)
    }
}
