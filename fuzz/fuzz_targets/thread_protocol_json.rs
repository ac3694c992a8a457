//! Any bytes as a ThreadProtocol document: reading, checking, writing and the canonical form neither panic nor disagree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turntree::core::limits::Limits;
use turntree::thread_protocol::Thread;
use turntree::thread_protocol::convert::pydantic_ai::ViewOptions;

fuzz_target!(|bytes: &[u8]| {
    let Ok(thread) = Thread::from_json(bytes, &Limits::default()) else { return };
    let _ = thread.validate();
    let _ = thread.usage();
    let _ = thread.core().with_hoisted_metadata();
    let written = thread.to_json();
    let read = Thread::from_json(&written, &Limits::default()).expect("what was written can be read");
    assert_eq!(read.to_json(), written);
    assert_eq!(read.canonical_json(), thread.canonical_json());
    let options = ViewOptions { limits: Limits { bytes: 1 << 24, ..Limits::default() }, ..ViewOptions::default() };
    let _ = thread.to_pydantic_ai_json(&options);
    if let Some((id, _)) = thread.agents.iter().next() {
        let _ = thread.to_pydantic_ai_json(&ViewOptions { agent_id: Some(id.to_owned()), ..options });
    }
});
