//! Any bytes as a Pydantic AI history: whatever is accepted comes back, byte for byte where Pydantic could have spelled
//! it and token by token otherwise.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turntree::core::json::same_tokens;
use turntree::core::limits::Limits;
use turntree::thread_protocol::Thread;
use turntree::thread_protocol::convert::pydantic_ai::{
    CombineText, ImportOptions, ProfileKind, ViewOptions, from_pydantic_ai_json,
};

fuzz_target!(|bytes: &[u8]| {
    let combine_text = if bytes.len() % 2 == 0 { CombineText::Adjacent } else { CombineText::Response };
    let options = ImportOptions { combine_text, ..ImportOptions::default() };
    let Ok(thread) = from_pydantic_ai_json(bytes, &options) else { return };
    let written = thread.to_json();
    let read = Thread::from_json(&written, &Limits::default()).expect("what was written can be read");
    let back = read.to_pydantic_ai_json(&ViewOptions::default()).expect("what was imported can be exported");
    let (back, history) = (String::from_utf8(back).expect("UTF-8"), std::str::from_utf8(bytes).expect("UTF-8"));
    assert!(back == history || same_tokens(&back, history));
    let portable = ImportOptions { profile: ProfileKind::Portable, ..options };
    let thread = from_pydantic_ai_json(bytes, &portable).expect("accepted once");
    assert!(thread.actions.iter().all(|action| action.metadata().is_none()));
});
