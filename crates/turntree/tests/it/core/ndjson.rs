//! Newline-delimited JSON.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use turntree::core::ndjson::{Decoder, NdjsonError};

fn deterministic() -> Config {
    Config { rng_seed: RngSeed::Fixed(7), failure_persistence: None, cases: 512, ..Config::default() }
}

fn decode_pieces<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> Result<Vec<String>, NdjsonError> {
    let mut decoder = Decoder::with_limit(limit);
    let mut lines = Vec::new();
    let mut collect = |line: &str| {
        lines.push(line.to_owned());
        Ok::<_, NdjsonError>(())
    };
    for piece in pieces {
        decoder.push(piece, &mut collect)?;
    }
    decoder.finish(&mut collect)?;
    Ok(lines)
}

#[test]
fn lines_end_at_lf_crlf_or_the_end_of_the_stream() {
    assert_eq!(decode_pieces([b"{}\r\n \n[1]\n\n2".as_slice()], 64).unwrap(), ["{}", "[1]", "2"]);
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(decode_pieces(["\u{feff}1\n".as_bytes()], 64).unwrap(), ["1"]);
}

#[test]
fn a_line_that_is_not_utf8_is_an_error_with_the_line_number() {
    assert_eq!(decode_pieces([b"1\n\n\"\xff\"\n".as_slice()], 64), Err(NdjsonError::NotUtf8 { line: 3 }));
}

#[test]
fn a_line_past_the_limit_poisons_the_decoder() {
    let mut decoder = Decoder::with_limit(4);
    let ignore = |_: &str| Ok::<_, NdjsonError>(());

    assert_eq!(decoder.push(b"1\n1234", ignore), Ok(()));
    assert_eq!(decoder.push(b"5", ignore), Err(NdjsonError::TooLarge { line: 2, limit: 4 }));
    assert_eq!(decoder.push(b"\n", ignore), Err(NdjsonError::Poisoned));
}

proptest! {
    #![proptest_config(deterministic())]

    #[test]
    fn decode_is_independent_of_chunking(
        text in "[{}1\" \r\n\n\n\u{feff}é😀]{0,40}",
        limit in prop::sample::select(vec![4_usize, 1024]),
    ) {
        let whole = decode_pieces([text.as_bytes()], limit);

        for split in 0..=text.len() {
            let (left, right) = text.as_bytes().split_at(split);
            prop_assert_eq!(&decode_pieces([left, right], limit), &whole, "split at {}", split);
        }
        prop_assert_eq!(&decode_pieces(text.as_bytes().chunks(1), limit), &whole);
    }
}
