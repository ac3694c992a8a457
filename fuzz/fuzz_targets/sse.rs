//! Any bytes in any chunking: no panic, and the same events as in one piece.

#![no_main]

use libfuzzer_sys::fuzz_target;
use turntree::core::sse::{Decoder, Event, SseError};

/// Small, so that the limit is met as well.
const LIMIT: usize = 64;

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event<'static>>, SseError> {
    let mut decoder = Decoder::with_limit(LIMIT);
    let mut events = Vec::new();
    let mut keep = |event: Event<'_>| {
        events.push(event.into_owned());
        Ok::<_, SseError>(())
    };
    for piece in pieces {
        decoder.push(piece, &mut keep)?;
    }
    decoder.finish(&mut keep)?;
    Ok(events)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = decode([bytes]);

    assert_eq!(decode(bytes.chunks(usize::from(size).max(1))), whole);
});
