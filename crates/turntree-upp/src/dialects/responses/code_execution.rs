//! Code that the vendor ran: items of the code interpreter.

use serde::Deserialize;

use crate::dialects::borrowed_text::BorrowedText;
use turntree_core::json::Extra;
use turntree_core::message::CodeExecutionBlock;

/// The type of the items.
pub(super) const CODE_INTERPRETER_CALL: &str = "code_interpreter_call";

/// The block of an item; `None` for items of other types. The vendor reports outputs only if `include` asks for them.
pub(super) fn block_of(item: &str) -> Option<CodeExecutionBlock> {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow, rename = "type")]
        kind: BorrowedText<'a>,
        #[serde(default)]
        code: Option<String>,
        #[serde(default)]
        outputs: Option<Vec<Output>>,
        #[serde(default)]
        status: Option<String>,
    }
    #[derive(Deserialize)]
    struct Output {
        #[serde(default)]
        logs: Option<String>,
        /// An image.
        #[serde(default)]
        url: Option<String>,
    }
    let item: Item<'_> = serde_json::from_str(item).ok()?;
    if item.kind.as_str() != CODE_INTERPRETER_CALL {
        return None;
    }
    let is_remote = |url: &String| !url.starts_with("data:");
    let output = item.outputs.map(|outputs| {
        let texts =
            outputs.into_iter().filter_map(|output| output.logs.or_else(|| output.url.filter(is_remote)));
        texts.collect::<Vec<_>>().join("\n")
    });
    Some(CodeExecutionBlock {
        code: item.code,
        language: Some("python".to_owned()),
        output,
        is_error: (item.status.as_deref() == Some("failed")).then_some(true),
        extra: Extra::new(),
    })
}
