//! Folding of stream events: deltas of any size, with interleaved blocks, give the original message.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use turntree::core::json::{Extra, RawJson, parse};
use turntree::core::limits::Limits;
use turntree::message::content::{BytesSource, ImageBlock};
use turntree::message::event::DataDelta;
use turntree::message::fold::{Fold, Folded};
use turntree::message::media::Binary;
use turntree::message::{ContentBlock, Delta, ImageSource, StreamEvent, ToolCall};

use crate::core::json::generators::{binary, object, raw};

fn deterministic() -> Config {
    Config { rng_seed: RngSeed::Fixed(7), failure_persistence: None, cases: 256, ..Config::default() }
}

/// A block of a message that can be streamed.
#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Reasoning(String),
    Image(Binary),
    Call(ToolCall),
}

fn part() -> impl Strategy<Value = Part> {
    let words = || "[a-zé😀\"\\\\\u{0}]{1,12}";
    prop_oneof![
        words().prop_map(Part::Text),
        words().prop_map(Part::Reasoning),
        binary().prop_map(Part::Image),
        ("[a-z]{0,3}", "[a-z]{0,3}", object()).prop_map(|(tool_call_id, tool_name, arguments)| Part::Call(
            ToolCall {
                tool_call_id,
                tool_name,
                arguments: RawJson::from_value(&arguments).unwrap(),
                extra: Extra::new(),
            }
        )),
    ]
}

/// The expected message: reasoning first.
fn message_of(parts: &[Part]) -> Folded {
    let reasoning = parts.iter().filter_map(|part| match part {
        Part::Reasoning(text) => Some(ContentBlock::reasoning(text)),
        _ => None,
    });
    let rest = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(ContentBlock::text(text)),
        Part::Image(data) => Some(image(data.clone())),
        _ => None,
    });
    let calls = parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call.clone()),
        _ => None,
    });
    Folded { content: reasoning.chain(rest).collect(), tool_calls: calls.collect() }
}

fn image(data: Binary) -> ContentBlock {
    let mime_type = match data.as_slice() {
        [0xff, 0xd8, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', ..] => "image/webp",
        _ => "image/png",
    };
    let source = ImageSource::Bytes(BytesSource { data, extra: Extra::new() });
    let mime_type = mime_type.to_owned();
    ImageBlock { source, mime_type, width: None, height: None, extra: Extra::new() }.into()
}

/// Cuts a text between random characters; pieces may be empty.
fn cut(text: &str, random: &mut fastrand::Rng) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in text.chars() {
        if random.u8(0..3) == 0 {
            pieces.push(String::new());
        }
        pieces.last_mut().unwrap().push(character);
    }
    pieces
}

/// The deltas of one block.
fn split(part: &Part, index: u32, random: &mut fastrand::Rng) -> Vec<StreamEvent> {
    match part {
        Part::Text(text) => {
            cut(text, random).into_iter().map(|piece| StreamEvent::text(index, piece)).collect()
        }
        Part::Reasoning(text) => {
            cut(text, random).into_iter().map(|piece| StreamEvent::reasoning(index, piece)).collect()
        }
        Part::Image(data) => {
            let (left, right) = data.as_slice().split_at(random.usize(0..=data.as_slice().len()));
            let piece = |data: &[u8]| DataDelta { data: Binary::new(data.to_vec()), extra: Extra::new() };
            [left, right].map(|data| StreamEvent::new(index, Delta::Image(piece(data)))).into()
        }
        Part::Call(call) => {
            let piece = |piece| {
                StreamEvent::tool_call(index, (*call.tool_call_id).into(), (*call.tool_name).into(), piece)
            };
            cut(call.arguments.get(), random).into_iter().map(piece).collect()
        }
    }
}

/// The events of a message: indexes with gaps, interleaved blocks, and events without content between them.
fn stream_of(parts: &[Part], random: &mut fastrand::Rng) -> Vec<StreamEvent> {
    let mut index = 0;
    let mut queues = Vec::new();
    for part in parts {
        index += random.u32(1..1000);
        let mut events = split(part, index, random);
        events.reverse();
        queues.push(events);
    }
    let mut stream = vec![StreamEvent::message_start()];
    while !queues.is_empty() {
        let place = random.usize(0..queues.len());
        match queues[place].pop() {
            Some(event) => stream.push(event),
            None => drop(queues.swap_remove(place)),
        }
        if random.u8(0..8) == 0 {
            let noise = [
                StreamEvent::block_start(index),
                StreamEvent::block_stop(0),
                StreamEvent::object(index, "{"),
                StreamEvent::new(
                    index,
                    Delta::Unknown {
                        kind: "new".into(),
                        delta: [("x", RawJson::default())].into_iter().collect(),
                    },
                ),
            ];
            stream.push(noise[random.usize(0..noise.len())].clone());
        }
    }
    stream.push(StreamEvent::message_stop());
    stream
}

fn fold<'a>(events: impl IntoIterator<Item = &'a StreamEvent>) -> Folded {
    let mut fold = Fold::default();
    for event in events {
        fold.push(event);
    }
    fold.finish()
}

proptest! {
    #![proptest_config(deterministic())]

    #[test]
    fn folding_split_events_gives_the_message(parts in prop::collection::vec(part(), 0..6), seed in any::<u64>()) {
        let stream = stream_of(&parts, &mut fastrand::Rng::with_seed(seed));

        prop_assert_eq!(fold(&stream), message_of(&parts));
    }

    #[test]
    fn events_fold_to_the_same_message_after_a_json_round_trip(parts in prop::collection::vec(part(), 0..4), seed in any::<u64>()) {
        let stream = stream_of(&parts, &mut fastrand::Rng::with_seed(seed));
        let written: Vec<String> = stream.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let again: Vec<StreamEvent> = written.iter().map(|text| parse(text, &Limits::default()).unwrap()).collect();

        prop_assert_eq!(fold(&again), message_of(&parts));
    }

    #[test]
    fn a_truncated_stream_folds_to_a_valid_partial_message(parts in prop::collection::vec(part(), 0..4), seed in any::<u64>()) {
        let stream = stream_of(&parts, &mut fastrand::Rng::with_seed(seed));
        let whole: String = message_of(&parts).content.iter().filter_map(ContentBlock::as_text).collect();
        for end in 0..stream.len() {
            let folded = fold(&stream[..end]);
            let texts = folded.content.iter().filter_map(ContentBlock::as_text);
            prop_assert!(texts.map(str::len).sum::<usize>() <= whole.len());
            prop_assert!(folded.tool_calls.iter().all(|call| call.arguments.is_object()));
        }
    }

    #[test]
    fn arguments_that_are_not_an_object_become_an_empty_object(value in raw()) {
        let arguments = turntree::message::fold::arguments_of(value.get().to_owned());
        prop_assert_eq!(arguments.get(), if value.is_object() { value.get() } else { "{}" });
    }
}
