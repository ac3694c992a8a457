//! ACP over two byte streams, one message a line: the standard streams of a process that an editor has started.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use turntree_core::runtime;

use super::connection::Connection;
use super::json_rpc::{MAX_MESSAGE, Malformed};
use super::outbox::Outbox;
use crate::agent::ServedAgent;
use crate::service::Site;

/// How many lines wait while a message is taken.
const CAPACITY: usize = 8;

/// How long the last messages may take when the client does not read them.
const FAREWELL: Duration = Duration::from_secs(2);

/// A line of the client.
enum Line {
    Text(Vec<u8>),
    TooLong,
}

/// Serves an agent until the input ends or `stop` is cancelled. Prompts that run are then cancelled, and their tools end
/// before this returns.
///
/// The streams are read and written on threads for blocking work. A read that waits for the client keeps its thread until
/// the input ends; the process can exit without it.
///
/// # Cancel safety
/// Dropping the future cancels the prompts, and does not wait for their tools.
pub async fn serve(
    site: Arc<Site>,
    agent: Arc<ServedAgent>,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    stop: CancellationToken,
) {
    let (outbox, messages) = Outbox::one();
    let connection = Closing(Connection::new(site, agent, None, outbox));
    let (sender, mut lines) = mpsc::channel(CAPACITY);
    // Detached: a read cannot be interrupted.
    runtime::spawn_blocking(move || read_lines(input, &sender)).detach();
    let writer = runtime::spawn_blocking(move || write_lines(output, messages));
    let taking = async {
        while let Some(line) = lines.recv().await {
            match line {
                Line::Text(text) => connection.0.receive_bytes(&text).await,
                Line::TooLong => connection.0.refuse(&Malformed::too_large()).await,
            }
        }
    };
    let _ended = select(pin!(taking), pin!(stop.cancelled())).await;
    connection.0.close();
    connection.0.idle().await;
    drop(connection);
    // The messages that are in the queue are written, if the client reads them.
    drop(select(pin!(writer), pin!(runtime::sleep(FAREWELL))).await);
}

/// Closes a connection when it is dropped.
struct Closing(Connection);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Reads lines until the input ends. Empty lines are left out.
fn read_lines(input: impl Read, lines: &mpsc::Sender<Line>) {
    let mut input = BufReader::new(input);
    loop {
        match read_line(&mut input) {
            Ok(None) => return,
            Ok(Some(Line::Text(text))) if text.trim_ascii().is_empty() => {}
            Ok(Some(line)) => {
                if lines.blocking_send(line).is_err() {
                    return;
                }
            }
            Err(error) => {
                log::error!("ACP: the input cannot be read: {error}");
                return;
            }
        }
    }
}

/// Reads one line; `None` at the end of the input.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    // One byte more than a message may have shows that the line is too long.
    let read = input.by_ref().take(MAX_MESSAGE as u64 + 1).read_until(b'\n', &mut line)?;
    if read == 0 {
        return Ok(None);
    }
    if line.len() <= MAX_MESSAGE || line.ends_with(b"\n") {
        return Ok(Some(Line::Text(line)));
    }
    drop(line);
    skip_line(input)?;
    Ok(Some(Line::TooLong))
}

/// Skips the rest of a line.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let length = buffer.len();
        let end = buffer.iter().position(|byte| *byte == b'\n');
        if length == 0 {
            return Ok(());
        }
        input.consume(end.map_or(length, |end| end + 1));
        if end.is_some() {
            return Ok(());
        }
    }
}

/// Writes messages until the connection has ended, or the client does not read any more.
fn write_lines(mut output: impl Write, mut messages: mpsc::Receiver<String>) {
    while let Some(mut message) = messages.blocking_recv() {
        // JSON has no line breaks of its own: they are escaped in strings.
        message.push('\n');
        let written = output.write_all(message.as_bytes()).and_then(|()| output.flush());
        if let Err(error) = written {
            log::debug!("ACP: the output cannot be written: {error}");
            return;
        }
    }
}
