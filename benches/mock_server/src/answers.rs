//! Precomputed answers, and the selection of one of them.

use std::sync::Arc;

use bytes::Bytes;

use crate::body::Body;
use crate::request::Selection;
use crate::{chat, responses};

/// The API of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Api {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
}

/// The output of the model, for all APIs.
#[derive(Debug)]
pub(crate) enum Output {
    /// A text, split into its deltas.
    Text(Vec<String>),
    /// A call of `add(a=2, b=3)`.
    ToolCall,
}

/// The arguments of the tool call, split into deltas.
pub(crate) const ARGUMENTS: [&str; 4] = ["{\"a\":", "2,", "\"b\":", "3}"];

/// One answer as document and as streams.
#[derive(Debug)]
pub(crate) struct Forms {
    /// The JSON document.
    pub(crate) json: Bytes,
    /// The stream.
    pub(crate) events: Arc<[Bytes]>,
    /// The stream with a usage event, for APIs where the client requests it.
    pub(crate) events_with_usage: Arc<[Bytes]>,
}

/// The answers of one API.
#[derive(Debug)]
struct ApiAnswers {
    plain: Forms,
    tool_call: Forms,
    tool_text: Forms,
    long: Forms,
    long_paced: Forms,
}

/// All answers.
#[derive(Debug)]
pub(crate) struct Answers {
    chat: ApiAnswers,
    responses: ApiAnswers,
}

impl Answers {
    /// Computes every body.
    pub(crate) fn precompute() -> Self {
        Self { chat: ApiAnswers::compute(chat::forms), responses: ApiAnswers::compute(responses::forms) }
    }

    /// The body for a request; `None` for an unknown model.
    pub(crate) fn find(&self, api: Api, selection: &Selection<'_>) -> Option<Body> {
        let answers = match api {
            Api::Chat => &self.chat,
            Api::Responses => &self.responses,
        };
        let forms = match selection.model.as_ref() {
            "plain" => &answers.plain,
            "tool" if selection.has_tool_result() => &answers.tool_text,
            "tool" => &answers.tool_call,
            "stream-500" => &answers.long,
            "stream-500-paced" => &answers.long_paced,
            _ => return None,
        };
        if !selection.stream {
            return Some(Body::Json(Some(forms.json.clone())));
        }
        let events = if selection.wants_usage() { &forms.events_with_usage } else { &forms.events };
        Some(if selection.model.ends_with("-paced") {
            Body::paced_events(events)
        } else {
            Body::events(events)
        })
    }
}

impl ApiAnswers {
    fn compute(forms: fn(&str, &Output) -> Forms) -> Self {
        let words = |text: &str| Output::Text(text.split_inclusive(' ').map(str::to_owned).collect());
        let long = Output::Text((0..500).map(|number| format!("word{number} ")).collect());
        Self {
            plain: forms("plain", &words("Paris is the capital of France.")),
            tool_call: forms("tool", &Output::ToolCall),
            tool_text: forms("tool", &words("2 + 3 = 5")),
            long: forms("stream-500", &long),
            long_paced: forms("stream-500-paced", &long),
        }
    }
}
