//! The floor: the cost of a Rust HTTP client without a library, for the cases of the comparison.
//!
//! reqwest on a current-thread runtime; every body is parsed into a `serde_json::Value`, each event of a
//! stream separately. No messages, no events, no Python. Speaks the protocol of `benches/python/worker.py`:
//! `floor <case> <url>` reads lines `{"iterations": n}` and prints CPU and wall time for each.

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn Error>>;

#[derive(Deserialize)]
struct Order {
    iterations: u32,
}

struct Floor {
    client: reqwest::Client,
    url: String,
    /// The messages before the prompt.
    history: Vec<Value>,
}

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().ok_or("usage: floor <case> <url>")?;
    let url = arguments.next().ok_or("usage: floor <case> <url>")?;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
    let history = case.strip_prefix("history_").map_or(Ok(0), str::parse)?;
    let floor = Floor { client, url: format!("{url}/chat/completions"), history: messages(history) };

    let mut stdout = std::io::stdout();
    match runtime.block_on(floor.run(&case)) {
        Ok(()) => writeln!(stdout, "{}", json!({"ready": true}))?,
        Err(error) => {
            writeln!(stdout, "{}", json!({"error": error.to_string()}))?;
            return Ok(());
        }
    }
    for line in std::io::stdin().lock().lines() {
        let order: Order = serde_json::from_str(&line?)?;
        let (wall, cpu) = (Instant::now(), cpu_time());
        for _ in 0..order.iterations {
            runtime.block_on(floor.run(&case))?;
        }
        let (cpu, wall) = (cpu_time().saturating_sub(cpu), wall.elapsed());
        let answer = json!({"cpu": cpu.as_secs_f64(), "wall": wall.as_secs_f64()});
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(())
}

impl Floor {
    async fn run(&self, case: &str) -> Fallible<()> {
        match case {
            "plain" | "history_10" | "history_100" | "history_1000" => {
                self.ask(&json!({"model": "plain", "messages": &self.history})).await.map(drop)
            }
            "tool" => self.round_trip().await,
            "stream" => self.stream("stream-500").await,
            "stream_paced" => self.stream("stream-500-paced").await,
            _ => Err("not supported".into()),
        }
    }

    async fn ask(&self, body: &Value) -> Fallible<Value> {
        let response = self.send(body).await?;
        Ok(serde_json::from_slice(&response.bytes().await?)?)
    }

    async fn send(&self, body: &Value) -> Fallible<reqwest::Response> {
        let request = self.client.post(&self.url).header("content-type", "application/json");
        let request = request.header("authorization", "Bearer x").body(serde_json::to_vec(body)?);
        Ok(request.send().await?.error_for_status()?)
    }

    async fn round_trip(&self) -> Fallible<()> {
        let mut messages = vec![json!({"role": "user", "content": "What is 2 + 3?"})];
        let first = self.ask(&json!({"model": "tool", "messages": messages, "tools": tools()})).await?;
        let message = first.pointer("/choices/0/message").ok_or("no message")?.clone();
        let id = message.pointer("/tool_calls/0/id").cloned().ok_or("no call")?;
        messages.push(message);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "5"}));
        let second = self.ask(&json!({"model": "tool", "messages": messages, "tools": tools()})).await?;
        second.pointer("/choices/0/message/content").map(drop).ok_or_else(|| "no answer".into())
    }

    async fn stream(&self, model: &str) -> Fallible<()> {
        let body = json!({"model": model, "stream": true, "messages": &self.history});
        let mut response = self.send(&body).await?;
        let (mut buffer, mut deltas) = (Vec::new(), 0);
        while let Some(chunk) = response.chunk().await? {
            buffer.extend_from_slice(&chunk);
            let mut start = 0;
            while let Some(length) = buffer.get(start..).and_then(find_end) {
                let event = buffer.get(start..start + length).unwrap_or_default();
                start += length + 2;
                let data = event.strip_prefix(b"data: ").unwrap_or_default();
                if data != b"[DONE]" {
                    let chunk: Value = serde_json::from_slice(data)?;
                    let content = chunk.pointer("/choices/0/delta/content").and_then(Value::as_str);
                    deltas += usize::from(content.is_some_and(|content| !content.is_empty()));
                }
            }
            buffer.drain(..start);
        }
        if deltas == 500 { Ok(()) } else { Err(format!("{deltas} deltas").into()) }
    }
}

fn find_end(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\n\n")
}

/// The messages of `benches/python/cases.py`, and the prompt.
fn messages(count: usize) -> Vec<Value> {
    let past = (0..count).map(|number| {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": format!("{number:06} ").repeat(28)})
    });
    past.chain([json!({"role": "user", "content": "What is the capital of France?"})]).collect()
}

fn tools() -> Value {
    json!([{"type": "function", "function": {
        "name": "add", "description": "Add two integers.",
        "parameters": {
            "type": "object", "required": ["a", "b"], "additionalProperties": false,
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
    }}])
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
