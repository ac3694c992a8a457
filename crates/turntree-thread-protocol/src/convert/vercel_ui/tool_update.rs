//! What one chunk changes of a tool part, and the calls whose arguments still stream.

use super::message::{DYNAMIC_TOOL, Optional, UiPart};
use super::partial_input::PartialInput;

/// Arguments that are arriving, and what was said when they began. A client never forgets them, so that a piece that
/// comes late begins the part anew.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamedCall {
    pub arrived: PartialInput,
    pub part: usize,
    pub name: String,
    pub dynamic: bool,
    pub encoding: Option<String>,
    pub title: Option<String>,
    pub metadata: Optional,
    /// Whether the part shows no text yet: a client that begins a dynamic part with a late piece leaves it out.
    pub hides_text: bool,
}

impl StreamedCall {
    /// Goes on with arguments of which a message holds the beginning.
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
            hides_text: false,
        }
    }

    pub(super) fn is_text(&self) -> bool {
        self.encoding.as_deref() == Some("text")
    }
}

/// What a chunk says about the call of a tool part.
pub(super) struct ToolUpdate<'c> {
    pub name: &'c str,
    pub state: &'static str,
    pub input: Optional,
    pub raw_input: Optional,
    pub output: Optional,
    pub error_text: Option<String>,
    pub preliminary: Option<bool>,
    pub encoding: Option<String>,
    pub title: Option<String>,
    pub metadata: Optional,
    pub is_result: bool,
}
