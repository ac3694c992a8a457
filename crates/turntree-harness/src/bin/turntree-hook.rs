//! The hook program of the harness layer: `turntree-hook --harness claude < event`.
//!
//! It reads one event of a coding-agent harness, decides, and replies in the form of that harness. Exit 2 blocks.

use std::io::{Read, Write, stderr, stdin, stdout};
use std::process::ExitCode;

use turntree_harness::hooks::{HookReply, handle, pipeline::MAX_EVENT};

fn main() -> ExitCode {
    // The message of a panic would be taken for the reason of a block.
    std::panic::set_hook(Box::new(|_| {}));
    let reply = run(std::env::args().skip(1).collect());
    let written = stdout()
        .write_all(reply.stdout.as_bytes())
        .and_then(|()| stderr().write_all(reply.stderr.as_bytes()));
    // A reply that cannot be written must not count as consent.
    let exit = if written.is_err() { 2 } else { reply.exit };
    ExitCode::from(u8::try_from(exit).unwrap_or(2))
}

fn run(arguments: Vec<String>) -> HookReply {
    let mut arguments = arguments.into_iter();
    let mut harness = String::from("claude");
    while let Some(argument) = arguments.next() {
        // Other words name the event, for harnesses that do not send its name.
        if argument == "--harness" {
            harness = arguments.next().unwrap_or_default();
        }
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_EVENT).unwrap_or(u64::MAX).saturating_add(1);
    if stdin().lock().take(limit).read_to_end(&mut bytes).is_err() {
        bytes.clear();
    }
    let cwd = std::env::current_dir().unwrap_or_default();
    handle(&harness, &bytes, &cwd)
}
