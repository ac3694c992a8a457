//! Updates of tool parts: the changes of one chunk, and the calls whose arguments are streaming.

use super::message::{DYNAMIC_TOOL, Optional, UiPart};
use super::partial_input::PartialInput;

/// A call whose arguments are streaming. It is never removed, so that a late delta starts the part again, as in the
/// client.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamedCall {
    pub arrived: PartialInput,
    pub part: usize,
    pub name: String,
    pub dynamic: bool,
    pub encoding: Option<String>,
    pub title: Option<String>,
    pub metadata: Optional,
    /// True if the part has no `rawInput`: the client leaves it out when a late delta starts a dynamic part, and removes
    /// it with most results.
    pub hides_text: bool,
    /// True if the arguments are not yet in the part.
    pub is_pending: bool,
    /// True if the call waits to be written to its part.
    pub is_listed: bool,
}

impl StreamedCall {
    /// Continues the partial arguments of a part.
    pub(super) fn of(index: usize, part: &UiPart) -> Self {
        let mut arrived = PartialInput::default();
        arrived.push(&part.raw_input.as_string().unwrap_or_default());
        Self {
            arrived,
            part: index,
            name: part.tool().unwrap_or_default().to_owned(),
            dynamic: part.kind == DYNAMIC_TOOL,
            encoding: part.input_encoding.clone(),
            title: part.title.clone(),
            metadata: part.tool_metadata.clone(),
            ..Self::default()
        }
    }

    pub(super) fn is_text(&self) -> bool {
        self.encoding.as_deref() == Some("text")
    }
}

/// The changes of a tool part by one chunk.
pub(super) struct ToolUpdate<'c> {
    pub name: &'c str,
    pub state: &'static str,
    /// The new arguments; `None` if they stay.
    pub input: Option<Optional>,
    pub keeps_raw_input: bool,
    pub output: Optional,
    pub error_text: Option<String>,
    pub preliminary: Option<bool>,
    pub encoding: Option<String>,
    pub title: Option<String>,
    pub metadata: Optional,
    pub is_result: bool,
}
