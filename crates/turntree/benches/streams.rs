//! A thousand concurrent streams in one process: memory for each stream, threads, and delay of a delta.
//!
//! ```sh
//! cargo bench --bench streams                      # 1 000 streams of 500 deltas, one every 40 ms
//! STREAMS=100 DELTAS=50 INTERVAL_MS=10 cargo bench --bench streams
//! ```
//!
//! The first argument makes this program the server. The limit of open files (`ulimit -n`) must exceed the number of
//! streams.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use turntree::core::ids::RandomIds;
use turntree::core::time::SystemClock;
use turntree::message::{Delta, Message};
use turntree::upp::http_model::HttpModel;
use turntree::upp::providers::openai_compatible::openai_compatible;
use turntree::upp::{Model as _, ModelEvent, ModelRequest, ProviderConfig};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SERVE: &str = "serve";

/// Maximum gap in milliseconds; longer gaps count as this.
const LONGEST_GAP: usize = 10_000;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

struct Load {
    streams: usize,
    deltas: usize,
    interval: Duration,
}

impl Load {
    fn from_environment() -> Self {
        let number = |name: &str, default: usize| {
            std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
        };
        let interval = u64::try_from(number("INTERVAL_MS", 40)).unwrap_or(40);
        Self {
            streams: number("STREAMS", 1000),
            deltas: number("DELTAS", 500),
            interval: Duration::from_millis(interval),
        }
    }
}

fn main() -> Result<(), Failure> {
    let load = Load::from_environment();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    if std::env::args().nth(1).as_deref() == Some(SERVE) {
        return runtime.block_on(serve(load));
    }
    let mut server = Command::new(std::env::current_exe()?).arg(SERVE).stdout(Stdio::piped()).spawn()?;
    let mut address = String::new();
    let read_result = server.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut address));
    let result = match read_result.transpose() {
        Ok(_) => runtime.block_on(measure(address.trim(), &load)),
        Err(error) => Err(error.into()),
    };
    server.kill()?;
    server.wait()?;
    result
}

/// Counters of all consumers.
struct Counts {
    events: AtomicU64,
    /// The number of gaps between deltas for each duration in milliseconds.
    gaps: Vec<AtomicU64>,
}

async fn measure(address: &str, load: &Load) -> Result<(), Failure> {
    let dialect = Arc::new(openai_compatible(format!("http://{address}/v1")));
    let model = Arc::new(HttpModel::new(dialect, "m", ProviderConfig::default()));
    let gaps = (0..=LONGEST_GAP).map(|_| AtomicU64::new(0)).collect();
    let counts = Arc::new(Counts { events: AtomicU64::new(0), gaps });
    consume(Arc::clone(&model), Arc::clone(&counts)).await?;
    let (memory, threads, start) = (process("RssAnon:")?, process("Threads:")?, Instant::now());

    let streams: Vec<_> =
        (0..load.streams).map(|_| tokio::spawn(consume(Arc::clone(&model), Arc::clone(&counts)))).collect();
    let (mut most_memory, mut most_threads) = (memory, threads);
    while streams.iter().any(|stream| !stream.is_finished()) {
        tokio::time::sleep(Duration::from_millis(250)).await;
        most_memory = most_memory.max(process("RssAnon:")?);
        most_threads = most_threads.max(process("Threads:")?);
    }
    for stream in streams {
        stream.await??;
    }

    let seconds = start.elapsed().as_secs_f64();
    let each = (most_memory - memory) / u64::try_from(load.streams)?.max(1);
    let mut out = io::stdout();
    writeln!(out, "{} streams of {} deltas, one every {:?}", load.streams, load.deltas, load.interval)?;
    writeln!(
        out,
        "time       {seconds:.1} s; paced for {:.1} s",
        (load.interval * u32::try_from(load.deltas)?).as_secs_f64()
    )?;
    writeln!(out, "memory     {each} KiB a stream at most, {most_memory} KiB in all")?;
    writeln!(out, "threads    {threads} before, {most_threads} at most")?;
    for share in [500, 990, 999, 1000] {
        writeln!(out, "gap        {share:4} of 1000 within {} ms", counts.quantile(share))?;
    }
    Ok(())
}

async fn consume(model: Arc<HttpModel>, counts: Arc<Counts>) -> Result<(), Failure> {
    let hello = Arc::new(Message::user("Hello", &RandomIds, &SystemClock));
    let request = ModelRequest { messages: [hello].into_iter().collect(), ..ModelRequest::default() };
    let mut stream = model.stream(request);
    let mut last: Option<Instant> = None;
    while let Some(event) = stream.next().await {
        if let ModelEvent::Event(event) = event?
            && matches!(event.delta, Delta::Text(_))
        {
            let now = Instant::now();
            if let Some(last) = last.replace(now) {
                let gap = usize::try_from((now - last).as_millis()).unwrap_or(LONGEST_GAP);
                counts.events.fetch_add(1, Ordering::Relaxed);
                if let Some(count) = counts.gaps.get(gap.min(LONGEST_GAP)) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
    Ok(())
}

impl Counts {
    /// A quantile of the gaps in milliseconds; `per_mille` is 500 for the median.
    fn quantile(&self, per_mille: u64) -> usize {
        let target = self.events.load(Ordering::Relaxed) * per_mille / 1000;
        let mut seen = 0;
        self.gaps
            .iter()
            .position(|count| {
                seen += count.load(Ordering::Relaxed);
                seen >= target
            })
            .unwrap_or(LONGEST_GAP)
    }
}

/// A number of `/proc/self/status`: the threads, or the KiB of anonymous memory.
fn process(name: &str) -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such number in /proc")?;
    Ok(line.split_whitespace().next().ok_or("an empty line in /proc")?.parse()?)
}

async fn serve(load: Load) -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    let load = Arc::new(load);
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(answer(socket, Arc::clone(&load)));
    }
}

async fn answer(mut socket: TcpStream, load: Arc<Load>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    // One read contains the whole request, because requests are shorter and the client waits for the response.
    let mut request = vec![0; 4096];
    while socket.read(&mut request).await? > 0 {
        socket.write_all(HEAD.as_bytes()).await?;
        let mut timer = tokio::time::interval(load.interval);
        for place in 0..=load.deltas {
            timer.tick().await;
            let (delta, reason) =
                if place < load.deltas { ("{\"content\":\" token\"}", "null") } else { ("{}", "\"stop\"") };
            let event = format!(
                "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\
                 \"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
            );
            socket.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await?;
        }
        socket.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n").await?;
    }
    Ok(())
}
