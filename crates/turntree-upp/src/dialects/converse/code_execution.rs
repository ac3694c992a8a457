//! Code that the vendor ran: calls of Nova's code interpreter and their results, which are blocks of their own. Images
//! that the code made follow its block.

use serde::Deserialize;

use super::image::Image;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::CodeExecutionBlock;
use turntree_core::message::content::ImageBlock;

/// The type of the results.
const RESULT: &str = "nova_code_interpreter_result";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    #[serde(default)]
    tool_use: Option<Call>,
    #[serde(default)]
    tool_result: Option<Ran>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    #[serde(default)]
    tool_use_id: String,
    #[serde(default)]
    input: RawJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ran {
    #[serde(default)]
    tool_use_id: String,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    content: Vec<Part>,
}

/// The output: an object, or its JSON in a text; or an image.
#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    image: Option<Image>,
    #[serde(default)]
    json: Option<RawJson>,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Output {
    #[serde(default)]
    std_out: Option<String>,
    #[serde(default)]
    std_err: Option<String>,
    #[serde(default)]
    exit_code: Option<i64>,
    #[serde(default)]
    is_error: Option<bool>,
}

impl Part {
    fn read(self) -> Output {
        let from_text = |text: String| {
            let read = serde_json::from_str(&text).ok();
            read.unwrap_or_else(|| Output { std_out: Some(text), ..Output::default() })
        };
        let from_json = self.json.and_then(|json| json.to().ok());
        from_json.or_else(|| self.text.map(from_text)).unwrap_or_default()
    }
}

impl Call {
    fn code(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Input {
            #[serde(alias = "snippet")]
            code: String,
        }
        self.input.to::<Input>().ok().map(|input| input.code)
    }
}

/// True for a block with the result of code.
pub(super) fn is_result(block: &str) -> bool {
    result_of(block).is_some()
}

fn result_of(block: &str) -> Option<Ran> {
    // Most blocks are something else, and parsing is dearer than looking.
    let ran =
        block.contains(RESULT).then(|| serde_json::from_str::<Block>(block).ok()?.tool_result).flatten();
    ran.filter(|ran| ran.kind.as_deref() == Some(RESULT))
}

/// The images of a result; none for other blocks.
pub(super) fn images_of(result: &str) -> impl Iterator<Item = ImageBlock> {
    let parts = result_of(result).map(|ran| ran.content).unwrap_or_default();
    parts.into_iter().filter_map(|part| part.image?.into_block())
}

/// The block of a result, with the code of its call among the blocks before it; `None` for other blocks.
pub(super) fn block_of(
    result: &str,
    earlier: impl IntoIterator<Item = impl AsRef<str>>,
) -> Option<CodeExecutionBlock> {
    let ran = result_of(result)?;
    let call = earlier.into_iter().find_map(|block| {
        let call = serde_json::from_str::<Block>(block.as_ref()).ok()?.tool_use?;
        (call.tool_use_id == ran.tool_use_id).then_some(call)
    });
    let mut is_error = ran.status.as_deref() == Some("error");
    let mut texts = Vec::new();
    for output in ran.content.into_iter().map(Part::read) {
        is_error |= output.is_error.unwrap_or(false) || output.exit_code.is_some_and(|code| code != 0);
        texts.extend([output.std_out, output.std_err].into_iter().flatten().filter(|text| !text.is_empty()));
    }
    Some(CodeExecutionBlock {
        code: call.as_ref().and_then(Call::code),
        language: Some("python".to_owned()),
        output: Some(texts.join("\n")),
        is_error: is_error.then_some(true),
        extra: Extra::new(),
    })
}
