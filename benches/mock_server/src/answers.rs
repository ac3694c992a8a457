//! Precomputed answers, and the selection of one of them.

use std::sync::Arc;

use bytes::Bytes;

use crate::body::Body;
use crate::request::Asked;
use crate::{chat, responses};

/// Which API a request speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Api {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
}

/// What the model says, whatever the API.
#[derive(Debug)]
pub(crate) enum Says {
    /// A text, in the pieces it streams in.
    Text(Vec<String>),
    /// A call of `add(a=2, b=3)`.
    ToolCall,
}

/// The arguments of the tool call, in the pieces they stream in.
pub(crate) const ARGUMENTS: [&str; 4] = ["{\"a\":", "2,", "\"b\":", "3}"];

/// One answer in every form it can be asked for.
#[derive(Debug)]
pub(crate) struct Forms {
    /// The whole document.
    pub(crate) json: Bytes,
    /// The stream.
    pub(crate) events: Arc<[Bytes]>,
    /// The stream with a usage event, where that is the client's choice.
    pub(crate) events_with_usage: Arc<[Bytes]>,
}

/// All answers of one API.
#[derive(Debug)]
struct Shelf {
    plain: Forms,
    tool_call: Forms,
    tool_text: Forms,
    long: Forms,
    long_paced: Forms,
}

/// All answers.
#[derive(Debug)]
pub(crate) struct Answers {
    chat: Shelf,
    responses: Shelf,
}

impl Answers {
    /// Computes every body.
    pub(crate) fn precompute() -> Self {
        Self { chat: Shelf::fill(chat::forms), responses: Shelf::fill(responses::forms) }
    }

    /// The body for a request; `None` when no model has that name.
    pub(crate) fn find(&self, api: Api, asked: &Asked<'_>) -> Option<Body> {
        let shelf = match api {
            Api::Chat => &self.chat,
            Api::Responses => &self.responses,
        };
        let forms = match asked.model.as_ref() {
            "plain" => &shelf.plain,
            "tool" if asked.has_tool_result() => &shelf.tool_text,
            "tool" => &shelf.tool_call,
            "stream-500" => &shelf.long,
            "stream-500-paced" => &shelf.long_paced,
            _ => return None,
        };
        if !asked.stream {
            return Some(Body::Json(Some(forms.json.clone())));
        }
        let events = if asked.wants_usage() { &forms.events_with_usage } else { &forms.events };
        Some(if asked.model.ends_with("-paced") { Body::paced_events(events) } else { Body::events(events) })
    }
}

impl Shelf {
    fn fill(forms: fn(&str, &Says) -> Forms) -> Self {
        let words = |text: &str| Says::Text(text.split_inclusive(' ').map(str::to_owned).collect());
        let long = Says::Text((0..500).map(|number| format!("word{number} ")).collect());
        Self {
            plain: forms("plain", &words("Paris is the capital of France.")),
            tool_call: forms("tool", &Says::ToolCall),
            tool_text: forms("tool", &words("2 + 3 = 5")),
            long: forms("stream-500", &long),
            long_paced: forms("stream-500-paced", &long),
        }
    }
}
