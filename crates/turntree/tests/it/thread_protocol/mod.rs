//! Tests of `turntree-thread-protocol`: documents, conversions and bulk operations.

mod bulk;
mod documents;
mod pydantic_ai;
mod pydantic_ai_corpus;
mod pydantic_ai_laws;
mod pydantic_ai_parts;
mod pydantic_ai_tools;
mod ui_stream_corpus;
mod ui_stream_laws;
mod view;
