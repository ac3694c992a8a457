//! Servers that are child processes: messages over standard streams.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{self, ChildStdin, ChildStdout};

use crate::error::McpError;

/// How long a server may run after the end of its input.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The program of a server.
#[derive(Clone)]
pub struct StdioCommand {
    /// The program, a path or a name that is looked for on the `PATH`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Its working directory; that of this process by default.
    pub directory: Option<PathBuf>,
}

/// Hides the values of the environment, which contain keys.
impl fmt::Debug for StdioCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StdioCommand")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("environment", &self.environment.keys())
            .finish_non_exhaustive()
    }
}

impl StdioCommand {
    /// Starts the program. Needs the tokio runtime.
    pub(super) fn start(&self) -> Result<((ChildStdout, ChildStdin), Child), McpError> {
        let failed = |reason: String| McpError::Start { command: self.program.clone(), reason };
        let mut command = process::Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        // Ctrl+C in a terminal and Stop in Jupyter interrupt the group of processes; the server goes on.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let streams = child.stdout.take().zip(child.stdin.take());
        let streams = streams.ok_or_else(|| failed("it has no standard streams".to_owned()))?;
        Ok((streams, Child(child)))
    }
}

/// A running server. Dropping it kills the process.
pub(super) struct Child(process::Child);

impl Child {
    /// Waits for the process, whose input has ended; kills it if it does not end.
    pub(super) async fn end(mut self) {
        if tokio::time::timeout(END_TIMEOUT, self.0.wait()).await.is_err() {
            let _killed = self.0.kill().await;
        }
    }
}
