//! Speed of decoding streamed responses, by vendor: from the bytes of the body to typed events and the response.
//!
//! The path is the one that runs in the task which reads the socket ([`ResponseReader`]), fed in pieces as a socket returns
//! them. `bodies.rs` generates the bodies; with `TURNTREE_CORPUS` set, recorded ones are measured too.

mod bodies;
mod recorded;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use turntree::core::ids::RandomIds;
use turntree::core::time::SystemClock;
use turntree::upp::dialect::Dialect;
use turntree::upp::providers::{
    anthropic::anthropic, deepseek::deepseek, google::google, groq::groq, mistral::mistral,
    moonshot::moonshot, ollama::ollama, openai::openai, openai_chat::openai_chat, openrouter::openrouter,
};
use turntree::upp::response_reader::ResponseReader;
use turntree::upp::{ModelEvent, ModelRequest, ProviderConfig};

/// A small read from a socket, and a large one.
const PIECES: [usize; 2] = [4 * 1024, 16 * 1024];

/// One vendor: its dialect, a generated body, and the folder of its recorded bodies.
struct Case {
    name: &'static str,
    dialect: Box<dyn Dialect>,
    body: String,
    recorded: Option<&'static str>,
}

fn case(
    name: &'static str,
    dialect: impl Dialect,
    body: String,
    recorded: impl Into<Option<&'static str>>,
) -> Case {
    Case { name, dialect: Box::new(dialect), body, recorded: recorded.into() }
}

fn cases() -> Vec<Case> {
    let config = ProviderConfig::default();
    vec![
        case("openai chat", openai_chat(), bodies::chat(), "openai.chat_completions"),
        case("openai chat, short", openai_chat(), bodies::shortest_chat(), None),
        case("openai responses", openai(), bodies::responses(), "openai.responses"),
        case("anthropic", anthropic::<&str>(&[], &config), bodies::messages(), "anthropic.messages"),
        case("google", google(&config), bodies::gemini(), "google.generate_content"),
        case("ollama", ollama(), bodies::ollama(), None),
        case("openrouter", openrouter(), bodies::openrouter(), "openrouter.chat_completions"),
        case("groq", groq(), bodies::chat(), "groq.chat_completions"),
        case("mistral", mistral(), bodies::chat(), None),
        case("deepseek", deepseek(), bodies::chat_with_reasoning(), None),
        case("moonshot", moonshot(), bodies::chat_with_reasoning(), "zai.chat_completions"),
    ]
}

/// Decodes a body in pieces; returns the number of events, or `None` after an error.
fn read(dialect: &dyn Dialect, request: &ModelRequest, body: &[u8], piece: usize) -> Option<usize> {
    let mut reader = ResponseReader::new(dialect, request, Arc::new(RandomIds), Arc::new(SystemClock));
    let (mut out, mut events, mut is_done) = (Vec::new(), 0, false);
    for piece in body.chunks(piece) {
        is_done = reader.push(piece, &mut out).ok()?;
        events += out.drain(..).map(black_box).count();
        if is_done {
            break;
        }
    }
    if !is_done {
        reader.end(&mut out).ok()?;
    }
    let has_response = is_done || matches!(out.last(), Some(ModelEvent::Done(_)));
    events += out.drain(..).map(black_box).count();
    has_response.then_some(events)
}

fn benchmark(criterion: &mut Criterion) {
    let request = ModelRequest::default();
    let mut group = criterion.benchmark_group("decode");
    for Case { name, dialect, body, recorded } in cases() {
        let generated = vec![body];
        let recorded = recorded.map(recorded::bodies).unwrap_or_default();
        for (kind, mut bodies) in [("generated", generated), ("recorded", recorded)] {
            let is_read = |body: &String| read(&*dialect, &request, body.as_bytes(), PIECES[0]).is_some();
            if kind == "generated" {
                assert!(bodies.iter().all(is_read), "{name}: a generated body is not read to its end");
            }
            // Recorded errors and truncated responses end early.
            bodies.retain(is_read);
            let bytes: usize = bodies.iter().map(String::len).sum();
            group.throughput(Throughput::Bytes(u64::try_from(bytes).unwrap_or_default()));
            for piece in PIECES.into_iter().filter(|_| !bodies.is_empty()) {
                group.bench_function(format!("{name}/{kind}/{piece}"), |bencher| {
                    bencher.iter(|| {
                        let read =
                            |body: &String| read(&*dialect, &request, black_box(body.as_bytes()), piece);
                        bodies.iter().filter_map(read).sum::<usize>()
                    })
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
