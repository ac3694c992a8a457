//! Server-sent events: WHATWG HTML §9.2 and the leniency of UPP-1.2 §13.4.

use std::borrow::Cow;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use turntree::core::sse::{Decoder, Event, SseError};

/// The same cases on every run.
fn deterministic() -> Config {
    Config { rng_seed: RngSeed::Fixed(7), failure_persistence: None, cases: 512, ..Config::default() }
}

fn decode_pieces<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> Result<Vec<Event<'static>>, SseError> {
    let mut decoder = Decoder::with_limit(limit);
    let mut events = Vec::new();
    let mut collect = |event: Event<'_>| {
        events.push(event.into_owned());
        Ok::<_, SseError>(())
    };
    for piece in pieces {
        decoder.push(piece, &mut collect)?;
    }
    decoder.finish(&mut collect)?;
    Ok(events)
}

fn decode(text: impl AsRef<[u8]>) -> Vec<Event<'static>> {
    decode_pieces([text.as_ref()], 1024).unwrap()
}

fn data(text: impl AsRef<[u8]>) -> Vec<String> {
    decode(text).into_iter().map(|event| event.data.into_owned()).collect()
}

fn event(event: Option<&'static str>, data: &'static str) -> Event<'static> {
    Event { event: event.map(Cow::Borrowed), data: Cow::Borrowed(data), ..Event::default() }
}

#[test]
fn lf_cr_and_crlf_end_lines() {
    for end in ["\n", "\r", "\r\n"] {
        let text = ["event: a", "data: 1", "", "data: 2", "", ""].join(end);

        assert_eq!(decode(text), [event(Some("a"), "1"), event(None, "2")], "{end:?}");
    }
}

#[test]
fn data_lines_are_joined_without_one_leading_space() {
    assert_eq!(data("data:a\ndata: b\ndata:  c\ndata\ndata:\n\n"), ["a\nb\n c\n\n"]);
}

#[test]
fn an_event_without_data_is_not_reported() {
    assert_eq!(decode("event: ping\n\ndata\n\n: comment\n\nunknown: x\n\n"), [event(None, "")]);
}

#[test]
fn comments_and_unknown_fields_are_skipped() {
    assert_eq!(data(": hello\n:\ndata: 1\n: in between\nfoo: bar\ndata: 2\n\n"), ["1\n2"]);
}

#[test]
fn a_byte_order_mark_is_skipped_only_at_the_start() {
    assert_eq!(data("\u{feff}data: 1\n\n\u{feff}data: 2\n\n"), ["1"]);
    assert_eq!(data("\u{feff}\ndata: 1\n\n"), ["1"]);
}

#[test]
fn a_bare_json_line_counts_as_data() {
    assert_eq!(data("{\"a\": 1}\n\n[1,\n\ndata: x\n{\n\n"), ["{\"a\": 1}", "[1,", "x\n{"]);
}

#[test]
fn an_unterminated_event_is_reported_at_the_end() {
    assert_eq!(data("data: 1\n\ndata: 2"), ["1", "2"]);
    assert_eq!(data("data: 1\n\ndata: 2\r"), ["1", "2"]);
}

#[test]
fn invalid_utf8_is_replaced_and_the_event_is_marked_damaged() {
    assert_eq!(data(b"data: a\xff\xe2\x82\n\ndata: ok\n\n"), ["a\u{fffd}\u{fffd}", "ok"]);
    let mut damaged = Vec::new();
    let stream = b"data: a\xff\n\ndata: \xef\xbf\xbd\n\ndata: b\ndata: \xff\n\nevent: \xff\ndata: c\n\n";
    Decoder::default()
        .push(stream, |event| {
            damaged.push(event.is_damaged);
            Ok::<_, SseError>(())
        })
        .unwrap();
    assert_eq!(
        damaged,
        [true, false, true, false],
        "only for invalid bytes in the data, not for U+FFFD in the text"
    );
}

#[test]
fn the_done_marker_is_ordinary_data() {
    assert_eq!(data("data: [DONE]\n\n"), ["[DONE]"]);
}

#[test]
fn ids_and_reconnection_times_persist() {
    let mut decoder = Decoder::default();
    let mut ids = Vec::new();

    decoder
        .push(b"id: 7\nretry: 1500\n\ndata: a\n\nid: 8\nretry: soon\ndata: b\n\nid: x\0y\n\n", |event| {
            ids.push(event.id.map(Cow::into_owned));
            Ok::<_, SseError>(())
        })
        .unwrap();

    assert_eq!(ids, [None, Some("8".to_owned())]);
    assert_eq!(decoder.last_event_id(), "8");
    assert_eq!(decoder.retry(), Some(Duration::from_millis(1500)));
}

#[test]
fn an_event_within_one_chunk_is_not_copied() {
    let chunk = b"data: {\"text\":\"hello\"}\n\n";
    let mut decoder = Decoder::default();

    let visited = decoder.push(chunk, |event| {
        assert!(matches!(event.data, Cow::Borrowed(text) if chunk.as_ptr_range().contains(&text.as_ptr())));
        Ok::<_, SseError>(())
    });

    assert_eq!(visited, Ok(()));
}

#[test]
fn an_event_past_the_limit_poisons_the_decoder() {
    let mut decoder = Decoder::with_limit(16);
    let ignore = |_: Event<'_>| Ok::<_, SseError>(());

    assert_eq!(decoder.push(b"data: 0123456789", ignore), Ok(()));
    assert_eq!(decoder.push(b"x", ignore), Err(SseError::TooLarge { limit: 16 }));
    assert_eq!(decoder.push(b"\n\n", ignore), Err(SseError::Poisoned));
    assert_eq!(decoder.finish(ignore), Err(SseError::Poisoned));
}

#[test]
fn comments_do_not_count_towards_the_limit() {
    let mut decoder = Decoder::with_limit(16);

    for _ in 0..1000 {
        decoder.push(b": collect-al", |_| Ok::<_, SseError>(())).unwrap();
        decoder.push(b"ive\n", |_| Ok::<_, SseError>(())).unwrap();
    }
    let mut texts = Vec::new();
    decoder
        .push(b"data: 1\n\n", |event| {
            texts.push(event.data.into_owned());
            Ok::<_, SseError>(())
        })
        .unwrap();

    assert_eq!(texts, ["1"]);
}

#[test]
fn an_error_of_the_visitor_is_returned_and_poisons_the_decoder() {
    #[derive(Debug, PartialEq)]
    enum Stop {
        Enough,
        Decoder(SseError),
    }
    impl From<SseError> for Stop {
        fn from(error: SseError) -> Self {
            Self::Decoder(error)
        }
    }
    let mut decoder = Decoder::default();

    assert_eq!(decoder.push(b"data: 1\n\ndata: 2\n\n", |_| Err(Stop::Enough)), Err(Stop::Enough));
    assert_eq!(decoder.push(b"", |_| Ok(())), Err(Stop::Decoder(SseError::Poisoned)));
}

/// Bytes from the tokens of the format.
fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        b"data".as_slice(),
        b"data:",
        b"data: ",
        b"event: ",
        b"id: ",
        b"retry: ",
        b"12",
        b":",
        b" ",
        b"\n",
        b"\n",
        b"\n",
        b"\r",
        b"\r",
        b"\r\n",
        b"\r\n",
        b"\n\n",
        b"{",
        b"[",
        b"x",
        b"\xEF\xBB\xBF",
        b"\xEF",
        b"\xF0\x9F\x98\x80",
        b"\xFF",
        b"\0",
        b"caf\xC3\xA9",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

fn line() -> impl Strategy<Value = String> {
    "[^\r\n]{0,12}"
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    let data = prop::collection::vec(line(), 1..4).prop_map(|lines| lines.join("\n"));
    let name = prop::option::of("[^\r\n]{1,12}");
    let id = prop::option::of("[^\r\n\0]{0,12}");
    (name, data, id, prop::option::of(0_u64..100_000)).prop_map(|(name, data, id, retry)| Event {
        event: name.map(Cow::Owned),
        data: Cow::Owned(data),
        id: id.map(Cow::Owned),
        retry: retry.map(Duration::from_millis),
        ..Event::default()
    })
}

proptest! {
    #![proptest_config(deterministic())]

    #[test]
    fn decode_is_independent_of_chunking(bytes in stream_bytes(), limit in prop::sample::select(vec![4_usize, 12, 1024])) {
        let whole = decode_pieces([bytes.as_slice()], limit);

        for split in 0..=bytes.len() {
            let (left, right) = bytes.split_at(split);
            prop_assert_eq!(&decode_pieces([left, right], limit), &whole, "split at {}", split);
        }
        for size in 1..=4 {
            prop_assert_eq!(&decode_pieces(bytes.chunks(size), limit), &whole, "chunks of {}", size);
        }
    }

    #[test]
    fn encoded_events_decode_to_the_same_events(events in prop::collection::vec(any_event(), 0..5)) {
        let mut bytes = Vec::new();
        for event in &events {
            event.encode(&mut bytes);
        }

        prop_assert_eq!(decode(bytes), events);
    }

    #[test]
    fn events_of_any_bytes_are_within_the_limit(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        match decode_pieces(bytes.chunks(7), 64) {
            // An invalid byte becomes a replacement character of three bytes.
            Ok(events) => prop_assert!(events.iter().all(|event| event.data.len() <= 3 * 64)),
            Err(error) => prop_assert_eq!(error, SseError::TooLarge { limit: 64 }),
        }
    }
}
