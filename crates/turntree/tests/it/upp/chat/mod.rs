//! Chat Completions without sockets: requests, responses, streams and errors. Spec: UPP-1.2 §19.3.

use std::sync::Arc;

use turntree::core::ids::CountingIds;
use turntree::upp::dialects::chat::ChatDialect;
use turntree::upp::providers::openai_chat::openai_chat;
use turntree::upp::providers::openai_compatible::openai_compatible;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../../../tests/data/upp/chat/", $name))
    };
}

mod errors;
mod request;
mod response;

fn openai() -> ChatDialect {
    openai_chat().with_ids(Arc::new(CountingIds::default()))
}

fn host() -> ChatDialect {
    openai_compatible("http://localhost:8000/v1").with_ids(Arc::new(CountingIds::default()))
}
