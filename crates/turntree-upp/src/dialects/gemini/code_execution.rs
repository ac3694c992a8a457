//! Code that the vendor ran: the parts `executableCode` and `codeExecutionResult`.

use serde::Deserialize;

use turntree_core::json::Extra;
use turntree_core::message::CodeExecutionBlock;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    executable_code: Option<Executable>,
    #[serde(default)]
    code_execution_result: Option<Ran>,
}

#[derive(Deserialize, Default)]
struct Executable {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    code: Option<String>,
}

#[derive(Deserialize, Default)]
struct Ran {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    outcome: Option<String>,
    #[serde(default)]
    output: Option<String>,
}

/// True for a part with the result of code.
pub(super) fn is_code_result(part: &str) -> bool {
    result_of(part).is_some()
}

fn result_of(part: &str) -> Option<Ran> {
    // Most parts are something else, and parsing is dearer than looking.
    let is_result = part.contains("codeExecutionResult");
    is_result.then(|| serde_json::from_str::<Part>(part).ok()?.code_execution_result).flatten()
}

/// The block of a result, with the code of the parts before it; `None` for other parts.
pub(super) fn block_of<'p>(
    part: &str,
    earlier: impl DoubleEndedIterator<Item = &'p str>,
) -> Option<CodeExecutionBlock> {
    let ran = result_of(part)?;
    let code = earlier.rev().find_map(|part| {
        let code = serde_json::from_str::<Part>(part).ok()?.executable_code?;
        let is_other = matches!((&code.id, &ran.id), (Some(one), Some(other)) if one != other);
        (!is_other).then_some(code)
    });
    let code = code.unwrap_or_default();
    let is_error =
        ran.outcome.is_some_and(|outcome| !matches!(outcome.as_str(), "OUTCOME_OK" | "OUTCOME_UNSPECIFIED"));
    let language = code.language.filter(|language| language != "LANGUAGE_UNSPECIFIED");
    Some(CodeExecutionBlock {
        code: code.code,
        language: language.map(|language| language.to_ascii_lowercase()),
        output: Some(ran.output.unwrap_or_default()),
        is_error: is_error.then_some(true),
        extra: Extra::new(),
    })
}
