//! Many concurrent streams: memory for each stream, and no thread for each stream.

use std::process::Command;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use turntree::upp::http_model::HttpModel;
use turntree::upp::providers::openai_compatible::openai_compatible;
use turntree::upp::{Model as _, ModelEvent, ModelStream, ProviderConfig};

use crate::support::agents::block_on;
use crate::support::dialect::hello;
use crate::support::server::{Server, Step, chunk, event_stream};

/// The environment variable with the URL of the server, for the child process.
const SERVER_VARIABLE: &str = "TURNTREE_TEST_SERVER";

/// Streams opened before the measurement, so that shared connections, buffers and code are allocated.
const FIRST_STREAMS: usize = 16;
const STREAMS: usize = 256;

/// Deltas that arrive at once, as from a host that resumes after a delay.
const DELTAS: usize = 50;

const BYTES_PER_STREAM: usize = 64 * 1024;

/// The first deltas of a response, without an end.
fn unfinished_response() -> Vec<Step> {
    let delta = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\
                 \"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n";
    vec![event_stream(), chunk(&delta.repeat(DELTAS)), Step::AwaitHangUp]
}

#[test]
fn a_stream_needs_no_thread_and_at_most_64_kib() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(Server::start(vec![unfinished_response(); FIRST_STREAMS + STREAMS]));

    let (_, module) = module_path!().split_once("::").unwrap();
    let test = format!("{module}::measure_in_a_child_process");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &test, "--nocapture"])
        .env(SERVER_VARIABLE, server.url("/v1"))
        .output()
        .unwrap();

    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "the other test of this file runs it, in a process without the server's memory"]
fn measure_in_a_child_process() {
    let url = std::env::var(SERVER_VARIABLE).expect("run by the other test of this file");
    let model = HttpModel::new(Arc::new(openai_compatible(url)), "m", ProviderConfig::default());
    let first = block_on(open(&model, FIRST_STREAMS));
    let (memory, threads) = (process("RssAnon:"), process("Threads:"));

    let more = block_on(open(&model, STREAMS));

    let growth = process("RssAnon:").saturating_sub(memory) * 1024 / STREAMS;
    println!("{growth} bytes a stream");
    assert_eq!(process("Threads:"), threads, "streams started threads");
    assert!(growth <= BYTES_PER_STREAM, "each stream takes {growth} bytes of {BYTES_PER_STREAM}");
    assert!(growth > 256, "{growth} bytes a stream: the measurement failed");
    drop((first, more));
}

/// Opens streams and reads the received events of each.
async fn open(model: &HttpModel, count: usize) -> Vec<ModelStream> {
    let streams = (0..count).map(|_| async {
        let mut stream = model.stream(hello());
        // The start of the message, then the deltas.
        for _ in 0..=DELTAS {
            assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Event(_)))));
        }
        stream
    });
    join_all(streams).await
}

/// A number of `/proc/self/status`: the threads, or the KiB of anonymous memory.
fn process(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
