//! `OpenAI`. UPP-1.2 §19.2; its Chat Completions are in [`super::openai_chat`].

use crate::upp::dialects::responses::{ResponsesDialect, ResponsesOptions};

/// `openai(model)`: `https://api.openai.com/v1/responses`, key in `OPENAI_API_KEY`.
pub const fn openai() -> ResponsesDialect {
    ResponsesDialect::new(ResponsesOptions::OPENAI)
}
