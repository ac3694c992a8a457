#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| turntree_fuzz::event_stream(bytes));
