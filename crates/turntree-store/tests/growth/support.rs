//! Sessions in SQLite whose model keeps nothing of its requests.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use futures_util::future::{BoxFuture, ready};
use turntree_agents::host::{FunctionHost, RunContext};
use turntree_agents::session::{
    CheckpointInterval, SaveInterval, Session, SessionOptions, SessionSnapshot, SessionStore,
};
use turntree_agents::{Agent, AgentOptions, Strategy, Tool};
use turntree_core::ids::RandomIds;
use turntree_core::json::{Extra, RawJson};
use turntree_core::limits::Limits;
use turntree_core::message::{
    Body, ContentBlock, Message, MessageKind, TokenUsage, ToolCall, ToolDefinition,
};
use turntree_core::time::SystemClock;
use turntree_store::engines::sqlite::{SqliteEngine, SqliteOptions};
use turntree_store::journal_store::JournalStore;
use turntree_upp::{Capabilities, Model, ModelRequest, ModelResponse, ModelStream, StopReason, UppError};

/// What the turns of a session contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turns {
    /// A question and an answer, each of 1 000 bytes.
    Text,
    /// 9 steps with two tool calls each, and then an answer.
    Tools,
    /// 100 steps with two tool calls each, and then an answer.
    ManyTools,
}

impl Turns {
    /// The first word of a question, and the steps with tool calls before its answer.
    fn word_and_rounds(self) -> (&'static str, usize) {
        match self {
            Self::Text => ("", 0),
            Self::Tools => ("Tools ", 9),
            Self::ManyTools => ("ManyTools ", 100),
        }
    }

    fn rounds_of(question: &str) -> usize {
        let kinds = [Self::Tools, Self::ManyTools].map(Self::word_and_rounds);
        kinds.iter().find(|(word, _)| question.starts_with(word)).map_or(0, |(_, rounds)| *rounds)
    }
}

/// Calls tools if the question asks for it.
#[derive(Debug)]
struct TestModel;

impl Model for TestModel {
    fn model_id(&self) -> &'static str {
        "test"
    }

    fn provider(&self) -> &'static str {
        "test"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn complete(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse, UppError>> {
        let length = request.messages.len();
        let from_end = request.messages.iter().rev().position(|message| message.kind() == MessageKind::User);
        let steps = from_end.unwrap() / 2;
        let question = request.messages[length - 1 - from_end.unwrap()].text();
        let body = if steps < Turns::rounds_of(&question) {
            let calls = (0..2).map(|number| call(format!("call_{length:06}_{number}")));
            Body::Assistant { content: Vec::new(), tool_calls: Some(calls.collect()) }
        } else {
            Body::Assistant { content: vec![ContentBlock::text(text_of(length))], tool_calls: None }
        };
        let message = Arc::new(Message::new(body, &RandomIds, &SystemClock));
        let usage = TokenUsage::of_call(1, 1);
        Box::pin(ready(Ok(ModelResponse { message, usage, stop_reason: StopReason::EndTurn, data: None })))
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        Box::pin(futures_util::stream::empty())
    }
}

fn call(id: String) -> ToolCall {
    let arguments = RawJson::from_value(&["an argument of a tool call"]).unwrap();
    ToolCall { tool_call_id: id, tool_name: "lookup".to_owned(), arguments, extra: Extra::new() }
}

/// Returns a text of 1 000 bytes.
fn text_of(number: usize) -> String {
    format!("{number:07} ").repeat(125)
}

fn agent() -> Agent {
    let definition = ToolDefinition {
        name: "lookup".into(),
        description: String::new(),
        parameters: RawJson::empty_object(),
        metadata: None,
        extra: Extra::new(),
    };
    let result = || ready(Ok(RawJson::from_str_value(&text_of(0))));
    let options = AgentOptions {
        model: Some(Arc::new(TestModel)),
        tools: vec![Tool::new(definition).with_function(move |_| result())],
        strategy: Some(Strategy::loop_(200)),
        ..AgentOptions::default()
    };
    Agent::new(options, &RandomIds)
}

/// A store with one session.
pub(crate) struct Stored {
    folder: PathBuf,
    store: Arc<JournalStore>,
    agent: Agent,
}

impl Stored {
    /// Creates a store, in memory: what is measured is not the disk.
    pub(crate) fn new() -> Self {
        static COUNTER: AtomicUsize = AtomicUsize::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("turntree-growth-{}-{number}", std::process::id());
        let folder = PathBuf::from("/dev/shm").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let engine = SqliteEngine::open(folder.join("s.db"), SqliteOptions::default()).unwrap();
        Self { folder, store: Arc::new(JournalStore::new(Arc::new(engine))), agent: agent() }
    }

    fn options(&self) -> SessionOptions {
        SessionOptions {
            persistence: Some(Arc::clone(&self.store) as _),
            save_interval: SaveInterval::Tool,
            ..SessionOptions::default()
        }
    }

    /// Returns a new session after some turns.
    pub(crate) fn run(&self, turns: usize, kind: Turns) -> Session {
        let options = SessionOptions { id: Some("s".into()), ..self.options() };
        let session = Session::new(self.agent.clone(), options).unwrap();
        self.continue_with(&session, turns, kind);
        session
    }

    /// Adds turns.
    pub(crate) fn continue_with(&self, session: &Session, turns: usize, kind: Turns) {
        let context = RunContext::new(Arc::new(FunctionHost::new(Arc::clone(self.agent.tools()))));
        for turn in 0..turns {
            let (word, _) = kind.word_and_rounds();
            block_on(session.run(word.to_owned() + &text_of(turn), context.clone())).unwrap();
        }
    }

    /// Returns a new session after some turns that is not stored.
    pub(crate) fn run_without_store(
        &self,
        turns: usize,
        kind: Turns,
        interval: CheckpointInterval,
    ) -> Session {
        let options = SessionOptions { interval, ..SessionOptions::default() };
        let session = Session::new(self.agent.clone(), options).unwrap();
        self.continue_with(&session, turns, kind);
        session
    }

    /// Returns the session that a document contains.
    pub(crate) fn read_json(&self, document: &str) -> Session {
        let snapshot = SessionSnapshot::from_json(document, &Limits::default()).unwrap();
        Session::from_snapshot(snapshot, self.agent.clone(), SessionOptions::default())
    }

    /// Returns the session as the store has it.
    pub(crate) fn load(&self) -> Session {
        let loaded = block_on(self.store.load("s")).unwrap().unwrap();
        let options = SessionOptions { saved: loaded.saved, ..self.options() };
        Session::from_snapshot(loaded.snapshot, self.agent.clone(), options)
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the CPU time of all threads of this process, in nanoseconds.
#[expect(unsafe_code, reason = "the standard library has no clock of CPU time")]
pub(crate) fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

/// Returns how many bytes this process has passed to `write`.
pub(crate) fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
