//! The hook program of the harness layer: `turntree-hook --harness claude < event`.
//!
//! It reads one event of a coding-agent harness, decides, and replies in the form of that harness. Exit 2 blocks. It replies
//! within 8 seconds: harnesses wait longer, and let a call run when they give up.

use std::io::{Read, Write, stderr, stdin, stdout};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use turntree_core::runtime::environment;
use turntree_harness::hooks::{HookReply, handle, late, pipeline::MAX_EVENT};

/// The longest time of one event.
const DEADLINE: Duration = Duration::from_secs(8);

enum Progress {
    Read(Vec<u8>),
    Done(HookReply),
}

fn main() -> ExitCode {
    // The message of a panic would be taken for the reason of a block.
    std::panic::set_hook(Box::new(|_| {}));
    let harness = harness(std::env::args().skip(1).collect());
    let (sender, receiver) = channel();
    let name = harness.clone();
    let _worker = thread::spawn(move || {
        let bytes = read();
        let _ = sender.send(Progress::Read(bytes.clone()));
        let cwd = std::env::current_dir().unwrap_or_default();
        let _ = sender.send(Progress::Done(handle(&name, &bytes, &cwd)));
    });
    let reply = wait(&harness, &receiver);
    let written = stdout()
        .write_all(reply.stdout.as_bytes())
        .and_then(|()| stderr().write_all(reply.stderr.as_bytes()));
    // A reply that cannot be written must not count as consent.
    let exit = if written.is_err() { 2 } else { reply.exit };
    ExitCode::from(u8::try_from(exit).unwrap_or(2))
}

/// The reply of the worker, or that of the fail table when the time is over.
fn wait(harness: &str, receiver: &Receiver<Progress>) -> HookReply {
    let end = Instant::now() + deadline();
    let mut bytes = Vec::new();
    loop {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Progress::Read(read)) => bytes = read,
            Ok(Progress::Done(reply)) => return reply,
            Err(_) => return late(harness, &bytes),
        }
    }
}

/// The environment can only shorten the time: an agent can set it, and what is late is blocked.
fn deadline() -> Duration {
    let named = environment("TURNTREE_HOOK_DEADLINE_MS").and_then(|text| text.parse().ok());
    named.map_or(DEADLINE, |milliseconds| Duration::from_millis(milliseconds).min(DEADLINE))
}

fn harness(arguments: Vec<String>) -> String {
    let mut arguments = arguments.into_iter();
    // Other words name the event, for harnesses that do not send its name.
    while let Some(argument) = arguments.next() {
        if argument == "--harness" {
            return arguments.next().unwrap_or_default();
        }
    }
    "claude".to_owned()
}

fn read() -> Vec<u8> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_EVENT).unwrap_or(u64::MAX).saturating_add(1);
    if stdin().lock().take(limit).read_to_end(&mut bytes).is_err() {
        bytes.clear();
    }
    bytes
}
