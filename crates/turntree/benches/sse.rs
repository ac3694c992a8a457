//! Speed of decoding event streams: many small deltas, and one large event.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use turntree::core::sse::{Decoder, Event, SseError};

/// Largest number of bytes of one read from a socket.
const CHUNK: usize = 16 * 1024;

/// A delta as providers send it, about 150 bytes.
const DELTA: &str = "data: {\"id\":\"chatcmpl-8f2a61c0\",\"object\":\"chat.completion.chunk\",\"model\":\"m-large\",\
                     \"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"}}]}\n\n";

fn named_delta() -> String {
    format!("event: content_block_delta\n{DELTA}")
}

fn big_event() -> String {
    format!("data: {}\n\n", "iVBORw0KGgoAAAANSUhEUgAA".repeat(43_691))
}

fn decode(bytes: &[u8], chunk: usize) -> usize {
    let mut decoder = Decoder::default();
    let mut total = 0;
    let mut count = |event: Event<'_>| {
        total += black_box(&event).data.len();
        Ok::<_, SseError>(())
    };
    for piece in bytes.chunks(chunk) {
        if decoder.push(piece, &mut count).is_err() {
            break;
        }
    }
    total
}

fn benchmark(criterion: &mut Criterion) {
    let cases = [
        ("deltas", DELTA.repeat(7000), CHUNK),
        ("named deltas", named_delta().repeat(6000), CHUNK),
        ("deltas one a chunk", DELTA.repeat(7000), DELTA.len()),
        ("deltas in 50-byte chunks", DELTA.repeat(7000), 50),
        ("big events", big_event(), CHUNK),
    ];
    let mut group = criterion.benchmark_group("sse");
    for (name, text, chunk) in cases {
        group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap_or_default()));
        group.bench_function(name, |bencher| bencher.iter(|| decode(black_box(text.as_bytes()), chunk)));
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
