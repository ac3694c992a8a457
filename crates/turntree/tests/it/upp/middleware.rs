//! Middleware around model calls: order of hooks, outcomes, changed events, persistence, publish and subscribe. UPP-1.2 §17.

use std::sync::{Arc, Mutex};

use futures_util::future::{pending, ready};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;
use turntree::core::ids::RandomIds;
use turntree::core::json::{RawJson, RawObject};
use turntree::core::time::SystemClock;
use turntree::message::message::History;
use turntree::message::{Message, StreamEvent, Thread, TokenUsage, Turn};
use turntree::upp::middleware::context::CalledModel;
use turntree::upp::middleware::hooks::HookFuture;
use turntree::upp::middleware::turn_start::TURN_START;
use turntree::upp::middleware::{
    CallContext, Emitted, Hooks, Level, Logging, MemoryPubsub, Middleware, MiddlewareStack, Persistence,
    PersistenceAdapter, Pubsub, Request, StateValue,
};
use turntree::upp::{ErrorCode, ModelRequest, UppError};

type Log = Arc<Mutex<Vec<String>>>;

/// Records its hooks; fails in the hook `fails_in`.
#[derive(Debug)]
struct Recorder {
    name: &'static str,
    log: Log,
    fails_in: Option<&'static str>,
}

impl Recorder {
    fn note<'a>(&self, hook: &'static str) -> HookFuture<'a> {
        self.log.lock().unwrap().push(format!("{} {hook}", self.name));
        let fails = self.fails_in == Some(hook);
        Box::pin(ready(if fails { Err(UppError::invalid_request("test", hook)) } else { Ok(()) }))
    }
}

impl Middleware for Recorder {
    fn on_start<'a>(&'a self, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("start")
    }
    fn on_request<'a>(&'a self, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("request")
    }
    fn on_response<'a>(&'a self, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("response")
    }
    fn on_turn<'a>(&'a self, _: &'a Arc<Turn>, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("turn")
    }
    fn on_end<'a>(&'a self, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("end")
    }
    fn on_error<'a>(&'a self, _: &'a UppError, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("error")
    }
    fn on_abort<'a>(&'a self, _: &'a UppError, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("abort")
    }
    fn on_stream_end<'a>(&'a self, _: &'a Arc<CallContext>) -> HookFuture<'a> {
        self.note("stream_end")
    }
}

fn recorders(fails_in: Option<&'static str>) -> (MiddlewareStack, Log) {
    let log = Log::default();
    let recorder = |name| -> Arc<dyn Middleware> {
        Arc::new(Recorder { name, log: Arc::clone(&log), fails_in: fails_in.filter(|_| name == "a") })
    };
    ([recorder("a"), recorder("b")].into_iter().collect(), log)
}

fn take_log(log: &Log) -> String {
    std::mem::take(&mut *log.lock().unwrap()).join(", ")
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text, &RandomIds, &SystemClock))
}

fn assistant(text: &str) -> Arc<Message> {
    Arc::new(Message::assistant(text, &RandomIds, &SystemClock))
}

fn turn(messages: Vec<Arc<Message>>) -> Arc<Turn> {
    Arc::new(Turn::new(messages, Vec::new(), TokenUsage::of_call(1, 1), 1, None).unwrap())
}

fn call(streaming: bool, history: &[Arc<Message>], inputs: &[Arc<Message>]) -> Arc<CallContext> {
    let called = CalledModel {
        modality: turntree::upp::Modality::Llm,
        model_id: "m".into(),
        provider: "test".into(),
        streaming,
    };
    let messages: History = history.iter().chain(inputs).map(Arc::clone).collect();
    let request = ModelRequest { messages, ..ModelRequest::default() };
    Arc::new(CallContext::llm(called, request, history.len(), Arc::new(SystemClock)))
}

async fn make(chain: &MiddlewareStack, context: &Arc<CallContext>) -> Result<Arc<Turn>, UppError> {
    chain.call(context, None, || ready(Ok(turn(vec![user("hi"), assistant("hello")])))).await
}

#[tokio::test]
async fn hooks_run_in_order_before_the_call_and_in_reverse_order_after_it() {
    let (chain, log) = recorders(None);

    make(&chain, &call(false, &[], &[user("hi")])).await.unwrap();

    let expected = "a start, b start, a request, b request, \
                    b response, a response, b turn, a turn, b end, a end";
    assert_eq!(take_log(&log), expected);
}

#[tokio::test]
async fn on_stream_end_runs_before_on_response() {
    let (chain, log) = recorders(None);

    make(&chain, &call(true, &[], &[user("hi")])).await.unwrap();

    assert!(take_log(&log).contains("b request, a stream_end, b stream_end, b response"));
}

#[tokio::test]
async fn a_failing_hook_fails_the_call_and_calls_every_on_error_once() {
    for hook in ["start", "request", "response", "turn", "end", "stream_end"] {
        let (chain, log) = recorders(Some(hook));

        let error = make(&chain, &call(true, &[], &[user("hi")])).await.unwrap_err();

        assert_eq!(error.message, hook);
        let log = take_log(&log);
        assert!(log.ends_with("a error, b error"), "{hook}: {log}");
        assert_eq!(log.matches("error").count(), 2, "{hook}: {log}");
        assert!(!log.contains("abort"));
    }
}

#[tokio::test]
async fn failures_of_on_error_are_ignored() {
    let (chain, log) = recorders(Some("error"));
    let context = call(false, &[], &[user("hi")]);
    let failing = || ready(Err::<Arc<Turn>, _>(UppError::new(ErrorCode::RateLimited, "test", "slow down")));

    let error = chain.call(&context, None, failing).await.unwrap_err();

    assert_eq!(error.code, ErrorCode::RateLimited);
    assert_eq!(take_log(&log), "a start, b start, a request, b request, a error, b error");
    assert!(context.end_time().is_some());
}

#[tokio::test]
async fn a_cancelled_stream_calls_on_abort_and_a_cancelled_generate_calls_on_error() {
    for (streaming, ending) in [(true, "a abort, b abort"), (false, "a error, b error")] {
        let (chain, log) = recorders(None);
        let context = call(streaming, &[], &[user("hi")]);
        let cancelled = || ready(Err::<Arc<Turn>, _>(UppError::cancelled("test")));

        let error = chain.call(&context, None, cancelled).await.unwrap_err();

        assert_eq!(error.code, ErrorCode::Cancelled);
        assert_eq!(take_log(&log), format!("a start, b start, a request, b request, {ending}"));
    }
}

#[tokio::test]
async fn a_dropped_call_calls_its_final_hook_once() {
    for (streaming, ending) in [(true, "a abort, b abort"), (false, "a error, b error")] {
        let (chain, log) = recorders(None);
        let context = call(streaming, &[], &[user("hi")]);
        {
            let made = chain.call(&context, None, pending::<Result<Arc<Turn>, UppError>>);
            assert!(Box::pin(made).as_mut().now_or_never().is_none());
        }

        assert_eq!(take_log(&log), format!("a start, b start, a request, b request, {ending}"));
    }
}

#[tokio::test]
async fn a_call_that_is_never_polled_calls_no_hooks() {
    let (chain, log) = recorders(None);
    let context = call(true, &[], &[user("hi")]);

    drop(chain.call(&context, None, pending::<Result<Arc<Turn>, UppError>>));

    assert_eq!(take_log(&log), "");
}

#[tokio::test]
async fn a_cancellation_interrupts_on_request() {
    #[derive(Debug)]
    struct PendingRequest;
    impl Middleware for PendingRequest {
        fn on_request<'a>(&'a self, _: &'a Arc<CallContext>) -> HookFuture<'a> {
            Box::pin(pending())
        }
    }
    let chain: MiddlewareStack = [Arc::new(PendingRequest) as Arc<dyn Middleware>].into_iter().collect();
    let (context, token) = (call(true, &[], &[]), CancellationToken::new());
    let made = chain.call(&context, Some(&token), pending::<Result<Arc<Turn>, UppError>>);

    let (outcome, ()) = futures_util::future::join(made, async { token.cancel() }).await;

    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
}

/// Duplicates text deltas and drops `message_stop`.
#[derive(Debug)]
struct Doubling;

impl Middleware for Doubling {
    fn hooks(&self) -> Hooks {
        Hooks::STREAM_EVENT
    }
    fn on_stream_event(&self, event: StreamEvent, _: &Arc<CallContext>) -> Result<Emitted, UppError> {
        Ok(match event.delta.kind() {
            "text_delta" => Emitted::Many(vec![event.clone(), event]),
            "message_stop" => Emitted::Nothing,
            _ => Emitted::One(event),
        })
    }
}

#[test]
fn each_middleware_receives_the_events_of_the_one_before() {
    let chain: MiddlewareStack = (0..2).map(|_| Arc::new(Doubling) as Arc<dyn Middleware>).collect();
    let context = call(true, &[], &[]);
    let count = |event| chain.stream_event(event, &context).unwrap().into_iter().count();

    assert_eq!(count(StreamEvent::text(0, "x")), 4);
    assert_eq!(count(StreamEvent::message_stop()), 0);
    assert_eq!(count(StreamEvent::message_start()), 1);
}

#[test]
fn an_empty_stack_passes_events_unchanged() {
    let event = StreamEvent::text(0, "x");

    let emitted = MiddlewareStack::default().stream_event(event.clone(), &call(true, &[], &[])).unwrap();

    assert_eq!(emitted, Emitted::One(event));
    assert!(<MiddlewareStack>::default().is_empty());
}

fn set_messages(context: &CallContext, messages: &[Arc<Message>]) -> usize {
    let messages: History = messages.iter().map(Arc::clone).collect();
    let request = context.llm_request().unwrap();
    context.set_request(Request::Llm(ModelRequest { messages: messages.clone(), ..request }));
    context.turn_start(&messages)
}

#[test]
fn the_start_of_the_turn_is_found_after_changes_of_the_messages() {
    let (old, older) = ([user("1"), assistant("2")], [user("-1"), assistant("0")]);
    let input = user("3");
    let context = || call(false, &old, std::slice::from_ref(&input));
    let (fresh, hint) = (user("hint"), |context: &CallContext, at: &str| {
        context.state.insert(TURN_START, StateValue::Json(RawJson::from_text(at.to_owned()).unwrap()));
    });

    let untouched = context();
    assert_eq!(untouched.turn_start(&untouched.llm_request().unwrap().messages), 2);
    let prepended: Vec<_> = older.iter().chain(&old).chain([&input]).cloned().collect();
    assert_eq!(set_messages(&context(), &prepended), 4);
    assert_eq!(set_messages(&context(), &[old[1].clone(), input.clone()]), 1, "cut short");
    assert_eq!(set_messages(&context(), &[old[1].clone(), fresh.clone(), input.clone()]), 1, "with a hint");
    assert_eq!(set_messages(&context(), &[fresh.clone(), input.clone()]), 1, "summarised");
    assert_eq!(set_messages(&context(), &[fresh.clone(), fresh.clone()]), 1, "all replaced");
    let hinted = context();
    hint(&hinted, "0");
    assert_eq!(set_messages(&hinted, &[fresh.clone(), input.clone()]), 0, "with a turn start hint");
    let hinted = context();
    hint(&hinted, "99");
    assert_eq!(set_messages(&hinted, &[fresh, input.clone()]), 2, "with an invalid turn start hint");
    let alone = call(false, &[], std::slice::from_ref(&input));
    alone.add_history(older.iter().cloned());
    let stored: Vec<_> = older.iter().chain([&input]).cloned().collect();
    assert_eq!(set_messages(&alone, &stored), 2, "from a store");
}

/// A store in memory that fails while `fails` is set.
#[derive(Default)]
struct MemoryStore {
    thread: Mutex<Option<Thread>>,
    saves: Mutex<usize>,
    fails: std::sync::atomic::AtomicBool,
}

impl PersistenceAdapter for MemoryStore {
    fn id(&self) -> &'static str {
        "store"
    }
    fn load(&self) -> futures_util::future::BoxFuture<'_, Result<Option<Thread>, UppError>> {
        Box::pin(ready(Ok(self.thread.lock().unwrap().clone())))
    }
    fn save(&self, thread: Thread) -> futures_util::future::BoxFuture<'_, Result<(), UppError>> {
        if self.fails.load(std::sync::atomic::Ordering::Relaxed) {
            return Box::pin(ready(Err(UppError::new(ErrorCode::Timeout, "", "the disk is full"))));
        }
        *self.saves.lock().unwrap() += 1;
        *self.thread.lock().unwrap() = Some(thread);
        Box::pin(ready(Ok(())))
    }
}

/// A call that returns `answer` for any input.
async fn talk(chain: &MiddlewareStack, input: &str, answer: &str) -> Result<Arc<Turn>, UppError> {
    let context = call(false, &[], &[user(input)]);
    let answer = assistant(answer);
    let asked = Arc::clone(&context);
    let work = || async move {
        let messages = asked.llm_request().unwrap().messages;
        let start = asked.turn_start(&messages);
        Ok(turn(messages.iter().skip(start).cloned().chain([answer]).collect()))
    };
    chain.call(&context, None, work).await
}

#[tokio::test]
async fn a_conversation_continues_from_the_store() {
    let store = Arc::new(MemoryStore::default());
    let adapter = Arc::clone(&store) as Arc<dyn PersistenceAdapter>;
    let chain: MiddlewareStack =
        [Arc::new(Persistence::new(adapter)) as Arc<dyn Middleware>].into_iter().collect();

    talk(&chain, "one", "1").await.unwrap();
    let second = talk(&chain, "two", "2").await.unwrap();

    let texts =
        |messages: Vec<Arc<Message>>| messages.iter().map(|message| message.text()).collect::<Vec<_>>();
    assert_eq!(texts(second.messages.clone()), ["two", "2"]);
    let thread = store.thread.lock().unwrap().clone().unwrap();
    assert_eq!(texts(thread.messages.iter().cloned().collect()), ["one", "1", "two", "2"]);
    assert_eq!(thread.id, "store");
}

#[tokio::test]
async fn a_failing_save_fails_the_call_and_leaves_the_store_unchanged() {
    let store = Arc::new(MemoryStore::default());
    let adapter = Arc::clone(&store) as Arc<dyn PersistenceAdapter>;
    let chain: MiddlewareStack =
        [Arc::new(Persistence::new(adapter)) as Arc<dyn Middleware>].into_iter().collect();
    talk(&chain, "one", "1").await.unwrap();
    store.fails.store(true, std::sync::atomic::Ordering::Relaxed);

    let error = talk(&chain, "two", "2").await.unwrap_err();

    assert!(error.message.contains("could not save \"store\": the disk is full"), "{error}");
    assert_eq!(store.thread.lock().unwrap().as_ref().unwrap().messages.len(), 2);
}

fn publishing(adapter: &MemoryPubsub, id: &str) -> MiddlewareStack {
    let pubsub = Pubsub::new(adapter.clone(), Some(id.into()));
    [Arc::new(pubsub) as Arc<dyn Middleware>].into_iter().collect()
}

/// A call that streams these texts.
async fn stream_texts(chain: &MiddlewareStack, texts: &[&str]) -> Result<Arc<Turn>, UppError> {
    let context = call(true, &[], &[user("hi")]);
    let work = || async {
        for text in texts {
            chain.stream_event(StreamEvent::text(0, *text), &context)?;
            tokio::task::yield_now().await;
        }
        Ok(turn(vec![assistant(&texts.concat())]))
    };
    chain.call(&context, None, work).await
}

async fn receive(adapter: &MemoryPubsub, id: &str) -> (String, Result<Option<Arc<Turn>>, UppError>) {
    let mut subscription = adapter.subscribe(id);
    let mut text = String::new();
    while let Some(event) = subscription.next().await {
        match event {
            Ok(event) => {
                if let turntree::message::Delta::Text(delta) = &event.delta {
                    text.push_str(&delta.text);
                }
            }
            Err(error) => return (text, Err(error)),
        }
    }
    (text, subscription.turn().await)
}

#[tokio::test]
async fn subscribers_before_during_and_after_a_stream_receive_the_same_events() {
    let adapter = MemoryPubsub::default();
    let chain = publishing(&adapter, "s");

    let before = tokio::spawn({
        let adapter = adapter.clone();
        async move { receive(&adapter, "s").await }
    });
    tokio::task::yield_now().await;
    let during = async {
        tokio::task::yield_now().await;
        receive(&adapter, "s").await
    };
    let (published, during) =
        futures_util::future::join(stream_texts(&chain, &["a", "b", "c"]), during).await;
    let after = receive(&adapter, "s").await;

    for (text, end) in [before.await.unwrap(), during, after] {
        assert_eq!(text, "abc");
        assert_eq!(end.unwrap().unwrap(), published.as_ref().unwrap().clone());
    }
}

#[tokio::test]
async fn subscribers_of_a_dropped_stream_receive_its_events_and_a_cancelled_error() {
    let adapter = MemoryPubsub::default();
    let chain = publishing(&adapter, "s");
    let context = call(true, &[], &[user("hi")]);
    {
        let work = || async {
            chain.stream_event(StreamEvent::text(0, "half"), &context)?;
            pending::<Result<Arc<Turn>, UppError>>().await
        };
        let mut running = Box::pin(chain.call(&context, None, work));
        assert!(running.as_mut().now_or_never().is_none());
    }

    let (text, end) = receive(&adapter, "s").await;

    assert_eq!(text, "half");
    assert_eq!(end.unwrap_err().code, ErrorCode::Cancelled);
}

#[tokio::test]
async fn the_oldest_finished_streams_are_evicted() {
    let adapter = MemoryPubsub::new(2);
    let reading = adapter.subscribe("0");

    for id in ["0", "1", "2"] {
        stream_texts(&publishing(&adapter, id), &["x"]).await.unwrap();
    }

    assert!(!adapter.exists("0") && adapter.exists("1") && adapter.exists("2"));
    assert_eq!(reading.count().await, 1, "who reads an evicted stream reads it to its end");
    assert!(adapter.remove("1") && !adapter.remove("1"));
    assert_eq!(adapter.len(), 1);
}

#[tokio::test]
async fn the_id_of_a_running_stream_is_reserved_and_of_a_finished_one_reusable() {
    let adapter = MemoryPubsub::default();
    let chain = publishing(&adapter, "s");
    let context = call(true, &[], &[user("hi")]);
    let mut running = Box::pin(chain.call(&context, None, pending::<Result<Arc<Turn>, UppError>>));
    assert!(running.as_mut().now_or_never().is_none());

    let refused = stream_texts(&chain, &["x"]).await.unwrap_err();
    drop(running);

    assert!(refused.message.contains("a stream \"s\" is running already"), "{refused}");
    stream_texts(&chain, &["y"]).await.unwrap();
    assert_eq!(receive(&adapter, "s").await.0, "y");
}

#[tokio::test]
async fn logging_omits_content_unless_configured() {
    for contents in [false, true] {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&lines);
        let write = move |level: Level, message: &str, data: &RawObject| {
            let data = serde_json::to_string(data).unwrap();
            sink.lock().unwrap().push(format!("{} {message} {data}", level.as_str()));
        };
        let mut logging = Logging::new(Arc::new(write));
        (logging.level, logging.contents) = (Level::Debug, contents);
        let chain: MiddlewareStack = [Arc::new(logging) as Arc<dyn Middleware>].into_iter().collect();

        talk(&chain, "a secret", "another").await.unwrap();

        let lines = lines.lock().unwrap().join("\n");
        assert!(lines.contains("info [turntree] llm test/m starts"), "{lines}");
        assert_eq!(lines.contains("a secret"), contents);
    }
}
