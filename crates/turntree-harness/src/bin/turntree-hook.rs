//! The hook program of the harness layer: `turntree-hook [EVENT] --harness claude < event`.
//!
//! It reads one event of a coding-agent harness, decides, and replies in the form of that harness. Exit 2 blocks. It replies
//! within 8 seconds: harnesses wait longer, and let a call run when they give up.

use std::io::{ErrorKind, Read, Write, copy, sink, stderr, stdin, stdout};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use turntree_core::runtime::environment;
use turntree_harness::hooks::pipeline::MAX_EVENT;
use turntree_harness::hooks::{HookReply, Invocation, handle, late};

/// The longest time of one event.
const DEADLINE: Duration = Duration::from_secs(8);

/// The most bytes that are read of an event that is too large: a harness may fail if it cannot write all of it.
const MAX_READ: u64 = 256 * 1024 * 1024;

/// What was read of the event, shared with the thread that waits.
type Input = Arc<Mutex<Vec<u8>>>;

#[derive(Clone, Debug)]
struct Arguments {
    harness: String,
    event: Option<String>,
}

impl Arguments {
    fn invocation(&self) -> Invocation<'_> {
        Invocation { harness: &self.harness, event: self.event.as_deref() }
    }
}

fn main() -> ExitCode {
    // The message of a panic would be taken for the reason of a block.
    std::panic::set_hook(Box::new(|_| {}));
    let arguments = arguments(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()));
    let reply = reply(&arguments);
    let written = stdout()
        .write_all(reply.stdout.as_bytes())
        .and_then(|()| stderr().write_all(reply.stderr.as_bytes()));
    // A reply that cannot be written must not count as consent.
    let exit = if written.is_err() { 2 } else { reply.exit };
    ExitCode::from(u8::try_from(exit).unwrap_or(2))
}

/// The reply of a worker, or that of the fail table when the time is over.
fn reply(arguments: &Arguments) -> HookReply {
    let input = Input::default();
    let (sender, receiver) = channel();
    let (own, shared) = (arguments.clone(), Arc::clone(&input));
    let _worker = thread::spawn(move || {
        read(&shared);
        let bytes = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cwd = std::env::current_dir().unwrap_or_default();
        let _ = sender.send(handle(own.invocation(), &bytes, &cwd));
    });
    receiver.recv_timeout(deadline()).unwrap_or_else(|_| {
        let bytes = input.lock().unwrap_or_else(PoisonError::into_inner);
        late(arguments.invocation(), &bytes)
    })
}

/// The environment can only shorten the time: an agent can set it, and what is late is blocked.
fn deadline() -> Duration {
    let named = environment("TURNTREE_HOOK_DEADLINE_MS").and_then(|text| text.parse().ok());
    named.map_or(DEADLINE, |milliseconds| Duration::from_millis(milliseconds).min(DEADLINE))
}

/// Words that are no option are the event. One that does not exist is refused as the fail table says, and so are options
/// that do not exist.
fn arguments(mut words: impl Iterator<Item = String>) -> Arguments {
    let mut harness = "claude".to_owned();
    let mut event: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix("--harness") {
            Some("") => harness = words.next().unwrap_or_default(),
            Some(name) if name.starts_with('=') => name.trim_start_matches('=').clone_into(&mut harness),
            Some(_) | None => event.push(word),
        }
    }
    Arguments { harness, event: Some(event.join(" ")).filter(|event| !event.is_empty()) }
}

/// Reads the event, as much as is handled. An event that cannot be read to its end is handled as one that is cut off.
fn read(input: &Input) {
    let mut stdin = stdin().lock();
    let mut buffer = vec![0; 64 * 1024];
    let mut length = 0;
    while length <= MAX_EVENT {
        match stdin.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                let mut bytes = input.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
                length = bytes.len();
            }
        }
    }
    let _ = copy(&mut stdin.take(MAX_READ), &mut sink());
}
