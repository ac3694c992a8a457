//! Code that the vendor ran: items of `executed_tools`, which Groq's compound and `gpt-oss` models report.
//!
//! The API takes no such member in requests: the next request has code and output as a text.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::completion::ChatMessage;
use super::{ChatOptions, Member};
use crate::dialects::common::{BoundedVec, MOST_ITEMS};
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::{CodeExecutionBlock, ContentBlock, StreamEvent};

/// A tool that the vendor ran. Hosts send members that do not apply as `null`.
#[derive(Deserialize)]
struct Tool {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, rename = "type")]
    kind: RawJson,
    #[serde(default)]
    name: RawJson,
    #[serde(default)]
    arguments: RawJson,
    #[serde(default)]
    output: RawJson,
    #[serde(default)]
    code_results: RawJson,
}

/// One run of code.
struct Run {
    index: Option<u64>,
    code: CodeExecutionBlock,
}

impl Tool {
    /// The run of code; `None` for other tools, such as a search.
    fn run(self) -> Option<Run> {
        let is_code_tool = |name: &RawJson| {
            let name = name.as_string();
            matches!(name.as_deref(), Some("python" | "code_interpreter" | "code_execution"))
        };
        let results = texts(&self.code_results);
        if !is_code_tool(&self.kind) && !is_code_tool(&self.name) && results.is_none() {
            return None;
        }
        let output = self.output.as_string().filter(|output| !output.is_empty()).or(results);
        let code = CodeExecutionBlock {
            code: code(&self.arguments),
            language: Some("python".to_owned()),
            output,
            is_error: None,
            extra: Extra::new(),
        };
        Some(Run { index: self.index, code })
    }
}

/// The code of a call: `{"code": …}` as JSON in a string, or the code itself.
fn code(arguments: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct Arguments {
        code: String,
    }
    let text = arguments.as_string();
    let written = text.as_deref().unwrap_or(arguments.get());
    let named = serde_json::from_str::<Arguments>(written).ok().map(|arguments| arguments.code);
    named.or(text).filter(|code| !code.is_empty())
}

/// The texts of `code_results`; `None` if there are no results. Charts remain in the metadata.
fn texts(results: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct Ran {
        #[serde(default)]
        text: Option<String>,
    }
    let results: BoundedVec<Ran> = results.to().ok()?;
    let texts: Vec<String> = results.into_iter().filter_map(|ran| ran.text).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// The runs in a message or a piece of one, for hosts that report them.
fn runs(options: &ChatOptions, received: &ChatMessage<'_>) -> Vec<Run> {
    let reported =
        received.executed_tools.filter(|_| options.metadata_members.contains(&Member::ExecutedTools));
    let tools =
        reported.map(RawValue::get).and_then(|text| serde_json::from_str::<BoundedVec<RawJson>>(text).ok());
    let tools = tools.unwrap_or_default().into_iter();
    tools.filter_map(|tool| tool.to::<Tool>().ok()?.run()).collect()
}

/// The blocks of a whole message.
pub(super) fn blocks(
    options: &ChatOptions,
    received: &ChatMessage<'_>,
) -> impl Iterator<Item = ContentBlock> {
    runs(options, received).into_iter().map(|run| run.code.into())
}

/// The runs of a stream, which reports a call first and later the same item with its output.
#[derive(Default)]
pub(super) struct StreamedRuns {
    runs: Vec<StreamedRun>,
}

struct StreamedRun {
    run: Run,
    /// The index of the block, once its event was sent.
    block: Option<u32>,
}

impl StreamedRuns {
    /// Takes a piece of the message. A run has its event when its output has arrived.
    pub(super) fn update(
        &mut self,
        options: &ChatOptions,
        received: &ChatMessage<'_>,
        mut next_block: impl FnMut() -> u32,
        events: &mut Vec<StreamEvent>,
    ) {
        for run in runs(options, received) {
            let is_same = |known: &&mut StreamedRun| {
                known.run.index == run.index
                    && (known.block.is_none() || known.run.code.code == run.code.code)
            };
            let has_room = self.runs.len() < MOST_ITEMS;
            match self.runs.iter_mut().rfind(is_same) {
                Some(StreamedRun { block: Some(_), .. }) => {}
                Some(known) => known.run = run,
                None if has_room => self.runs.push(StreamedRun { run, block: None }),
                None => {}
            }
        }
        let complete = self.runs.iter_mut().filter(|known| known.run.code.output.is_some());
        send(complete, &mut next_block, events);
    }

    /// Sends the runs without an output, and returns the blocks.
    pub(super) fn finish(
        mut self,
        mut next_block: impl FnMut() -> u32,
        events: &mut Vec<StreamEvent>,
    ) -> Vec<ContentBlock> {
        send(self.runs.iter_mut(), &mut next_block, events);
        self.runs.into_iter().map(|known| known.run.code.into()).collect()
    }
}

fn send<'r>(
    runs: impl Iterator<Item = &'r mut StreamedRun>,
    next_block: &mut impl FnMut() -> u32,
    events: &mut Vec<StreamEvent>,
) {
    for known in runs.filter(|known| known.block.is_none()) {
        let index = *known.block.insert(next_block());
        events.push(StreamEvent::code_execution(index, &known.run.code));
    }
}
