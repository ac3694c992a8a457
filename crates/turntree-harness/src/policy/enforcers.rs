//! Programs that decide: `PROGRAM … --operation TOOL --args JSON`, exit 0 allows, exit 2 denies.

use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::action::Action;
use super::context::Context;
use super::program_output::{Kept, Output};
use super::user::UserRule;

/// The most bytes of a reply.
const MAX_REPLY: usize = 64 * 1024;

/// What a program says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The action may go on.
    Allowed,
    /// It must not; the reason may be empty.
    Denied(String),
    /// The program failed, gave no verdict or took too long.
    Failed(String),
}

/// Asks the program of a rule. It runs in the main working tree.
pub fn ask(rule: &UserRule, action: &Action, context: &Context<'_>) -> Verdict {
    let Some((program, arguments)) = rule.enforcer.split_first() else { return Verdict::Allowed };
    let mut command = Command::new(program);
    command.args(arguments).arg("--operation").arg(action.tool());
    command.arg("--args").arg(action.facts().to_string()).current_dir(&context.project.root);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => wait(child, Duration::from_millis(rule.timeout_ms)),
        Err(error) => Verdict::Failed(format!("{program}: {error}")),
    }
}

fn wait(mut child: Child, timeout: Duration) -> Verdict {
    let end = Instant::now() + timeout;
    let failed = |error: io::Error| Verdict::Failed(error.to_string());
    let mut output = match Output::of(&mut child, MAX_REPLY) {
        Ok(output) => output,
        Err(error) => return failed(error),
    };
    let code = loop {
        output.read();
        match child.try_wait() {
            Ok(Some(status)) => break status.code(),
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Verdict::Failed(format!("it took longer than {} ms", timeout.as_millis()));
            }
            Err(error) => return failed(error),
        }
    };
    verdict(code, &output.end())
}

/// The exit status decides. A reply that contradicts it, `{"allowed": false}` at exit 0, denies.
fn verdict(code: Option<i32>, output: &Kept) -> Verdict {
    let reply: Value = serde_json::from_slice(&output.bytes).unwrap_or(Value::Null);
    let reason = reply.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    let allowed = reply.get("allowed").and_then(Value::as_bool);
    match (code, allowed) {
        (Some(0), _) if output.is_cut => Verdict::Failed(format!("it wrote more than {MAX_REPLY} bytes")),
        (Some(0), Some(true) | None) => Verdict::Allowed,
        (Some(0), Some(false)) | (Some(2), _) => Verdict::Denied(reason),
        (Some(code), _) => Verdict::Failed(format!("it ended with status {code}")),
        (None, _) => Verdict::Failed("it was killed".to_owned()),
    }
}
