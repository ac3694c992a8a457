//! Code that the vendor ran: the calls of its code tools and their results, which are blocks of their own.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dialects::borrowed_text::BorrowedText;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::CodeExecutionBlock;

/// A call of a tool that the vendor runs.
#[derive(Debug)]
pub(super) struct ServerCall {
    pub(super) id: String,
    name: String,
    input: RawJson,
}

impl ServerCall {
    /// The kind of its blocks.
    pub(super) const KIND: &'static str = "server_tool_use";

    /// Reads a block of this kind; its input may have arrived in pieces.
    pub(super) fn read(block: &str, pieces: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Call<'a> {
            #[serde(borrow)]
            id: BorrowedText<'a>,
            #[serde(borrow)]
            name: BorrowedText<'a>,
            #[serde(default)]
            input: RawJson,
        }
        let call: Call<'_> = serde_json::from_str(block).ok()?;
        let input = RawJson::from_embedded(pieces).unwrap_or(call.input);
        Some(Self { id: call.id.owned(), name: call.name.owned(), input })
    }

    /// The code and its language.
    fn code(&self) -> (Option<String>, Option<String>) {
        #[derive(Deserialize, Default)]
        struct Input {
            #[serde(default)]
            code: Option<String>,
            #[serde(default)]
            command: Option<String>,
            #[serde(default)]
            path: Option<String>,
            #[serde(default)]
            file_text: Option<String>,
        }
        let input: Input = self.input.to().unwrap_or_default();
        let language = match self.name.as_str() {
            "code_execution" => Some("python".to_owned()),
            "bash_code_execution" => Some("bash".to_owned()),
            _ => None,
        };
        let action = input.command.map(|command| match &input.path {
            Some(path) => format!("{command} {path}"),
            None => command,
        });
        let lines = [action, input.file_text].into_iter().flatten().collect::<Vec<_>>().join("\n");
        (input.code.or_else(|| (!lines.is_empty()).then_some(lines)), language)
    }
}

/// True for results of code tools.
pub(super) fn is_result(kind: &str) -> bool {
    matches!(
        kind,
        "code_execution_tool_result"
            | "bash_code_execution_tool_result"
            | "text_editor_code_execution_tool_result"
    )
}

/// The id of the call that a result answers.
pub(super) fn call_id(result: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Answered<'a> {
        #[serde(borrow)]
        tool_use_id: BorrowedText<'a>,
    }
    serde_json::from_str::<Answered<'_>>(result).ok().map(|result| result.tool_use_id.owned())
}

/// The block of a result.
pub(super) fn block_of(result: &str, call: Option<&ServerCall>) -> CodeExecutionBlock {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    #[derive(Deserialize, Default)]
    struct Output {
        #[serde(default)]
        stdout: Option<String>,
        #[serde(default)]
        stderr: Option<String>,
        #[serde(default)]
        return_code: Option<i64>,
        /// A text for views of files, a list of files for programs.
        #[serde(default)]
        content: Option<RawJson>,
        /// The changed lines of a file.
        #[serde(default)]
        lines: Option<Vec<String>>,
        #[serde(default)]
        error_code: Option<String>,
        #[serde(default)]
        error_message: Option<String>,
    }
    let (code, language) = call.map(ServerCall::code).unwrap_or_default();
    let read = serde_json::from_str::<Block<'_>>(result).ok();
    let output: Output =
        read.and_then(|block| serde_json::from_str(block.content.get()).ok()).unwrap_or_default();
    let is_error = output.error_code.is_some() || output.return_code.is_some_and(|code| code != 0);
    let viewed = output.content.as_ref().and_then(RawJson::as_string);
    let lines = output.lines.map(|lines| lines.join("\n"));
    let texts = [output.stdout, viewed, lines, output.stderr, output.error_message.or(output.error_code)];
    let texts: Vec<String> = texts.into_iter().flatten().filter(|text| !text.is_empty()).collect();
    CodeExecutionBlock {
        code,
        language,
        output: Some(texts.join("\n")),
        is_error: is_error.then_some(true),
        extra: Extra::new(),
    }
}
