//! Spans of runs: every span ends once, inside its parent. UAP-1.0 §8.4.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use futures_util::{FutureExt as _, StreamExt as _};
use proptest::prelude::*;
use turntree::agents::host::{HookSet, HostError, RunContext};
use turntree::core::telemetry::{AttributeValue, Operation, Outcome, Span, Tracer};
use turntree::upp::telemetry::ModelOutcome;
use turntree::upp::{ErrorCode, UppError};

use crate::support::agents::{Answer, ScriptModel, TestHost, agent, block_on};

/// The start or the end of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    begins: bool,
    number: usize,
    name: String,
    parent: Option<usize>,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct RecordingTracer {
    events: Arc<Mutex<Vec<Event>>>,
    count: AtomicUsize,
}

#[derive(Debug)]
struct RecordingSpan {
    events: Arc<Mutex<Vec<Event>>>,
    begun: Event,
}

impl Tracer for RecordingTracer {
    fn start(&self, operation: &dyn Operation, parent: Option<&Arc<dyn Span>>) -> Arc<dyn Span> {
        let parent = parent.and_then(|parent| {
            let parent: &dyn std::any::Any = &**parent;
            parent.downcast_ref::<RecordingSpan>().map(|parent| parent.begun.number)
        });
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let begun =
            Event { begins: true, number, name: operation.name().into_owned(), parent, failure: None };
        self.events.lock().unwrap().push(begun.clone());
        Arc::new(RecordingSpan { events: Arc::clone(&self.events), begun })
    }
}

impl Span for RecordingSpan {
    fn end(&self, outcome: &dyn Outcome) {
        let failure = outcome.failure().map(|failure| failure.kind.to_owned());
        self.events.lock().unwrap().push(Event { begins: false, failure, ..self.begun.clone() });
    }
}

fn traced_context(host: TestHost) -> (RunContext, Arc<Mutex<Vec<Event>>>) {
    let recorder = RecordingTracer::default();
    let events = Arc::clone(&recorder.events);
    (RunContext::new(Arc::new(TestHost { tracer: Some(Arc::new(recorder)), ..host })), events)
}

/// Depth and name of each span, in the order of their starts.
fn outline(events: &[Event]) -> Vec<(usize, String)> {
    let begun: Vec<&Event> = events.iter().filter(|event| event.begins).collect();
    let depth = |event: &Event| {
        let above = std::iter::successors(event.parent, |number| begun[*number].parent);
        above.count()
    };
    begun.iter().map(|event| (depth(event), event.name.clone())).collect()
}

fn ends(events: &[Event]) -> Vec<(String, Option<String>)> {
    events
        .iter()
        .filter(|event| !event.begins)
        .map(|event| (event.name.clone(), event.failure.clone()))
        .collect()
}

/// Fails unless every span ends once, after its children, and starts while its parent is open.
fn assert_nested(events: &[Event]) {
    let mut open: Vec<usize> = Vec::new();
    for event in events {
        if event.begins {
            assert!(event.parent.is_none_or(|parent| open.contains(&parent)), "{event:?} in {events:?}");
            open.push(event.number);
        } else {
            let place = open.iter().position(|number| *number == event.number);
            open.remove(place.unwrap_or_else(|| panic!("{event:?} ended twice in {events:?}")));
            let inside =
                |number: &usize| events.iter().any(|e| e.number == *number && e.parent == Some(event.number));
            assert!(!open.iter().any(inside), "{event:?} ended before its children: {events:?}");
        }
    }
    assert!(open.is_empty(), "{open:?} never ended in {events:?}");
}

#[test]
fn a_run_is_a_tree_of_spans() {
    let model = ScriptModel::new([Answer::calls(&["echo", "fail", "missing"]), Answer::text("Done.")]);
    let (context, events) = traced_context(TestHost::with_hooks());

    block_on(agent(Arc::new(model), 5).run("Go", context)).unwrap();

    let events = events.lock().unwrap();
    let expected = [
        (0, "invoke_agent"),
        (1, "step 1"),
        (2, "chat script"),
        (2, "execute_tool echo"),
        (2, "execute_tool fail"),
        (2, "execute_tool missing"),
        (1, "step 2"),
        (2, "chat script"),
    ];
    assert_eq!(outline(&events), expected.map(|(depth, name)| (depth, name.to_owned())));
    assert_nested(&events);
    let failed: Vec<_> = ends(&events).into_iter().filter(|(_, failure)| failure.is_some()).collect();
    let failed: Vec<&str> = failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(failed, ["execute_tool missing", "execute_tool fail"]);
}

#[test]
fn a_failure_is_recorded_in_every_enclosing_span() {
    let error = UppError::new(ErrorCode::RateLimited, "scripted", "too fast");
    let (context, events) = traced_context(TestHost::default());

    let agent = agent(Arc::new(ScriptModel::failing([Err(error)])), 5);
    block_on(agent.run("Go", context)).unwrap_err();

    let failure = Some("RATE_LIMITED".to_owned());
    let expected = ["chat script", "step 1", "invoke_agent"].map(|name| (name.to_owned(), failure.clone()));
    assert_eq!(ends(&events.lock().unwrap()), expected);
}

#[test]
fn input_tokens_of_anthropic_include_cache_reads_and_writes() {
    let mut response = Answer::text("Hi.").response(1);
    (response.usage.cache_read_tokens, response.usage.cache_write_tokens) = (30, 5);
    let input = |provider: &'static str| {
        let outcome = ModelOutcome { response: &response, provider };
        let attributes = outcome.attributes();
        match attributes.into_iter().find(|(name, _)| *name == "gen_ai.usage.input_tokens").unwrap().1 {
            AttributeValue::Int(tokens) => tokens,
            other => panic!("{other:?} is not an integer"),
        }
    };

    assert_eq!(input("anthropic"), 45);
    assert_eq!(input("openai"), 10);
}

fn answers() -> impl Strategy<Value = Vec<Answer>> {
    let tools = prop::sample::subsequence(vec!["echo", "fail", "slow", "never", "guarded", "missing"], 0..4);
    prop::collection::vec(tools, 0..4).prop_map(|rounds| {
        let rounds = rounds.into_iter().filter(|tools| !tools.is_empty());
        rounds.map(|tools| Answer::calls(&tools)).chain([Answer::text("That is all.")]).collect()
    })
}

/// Whether the host has hooks, and which of them fails.
fn hooks() -> impl Strategy<Value = (bool, Option<&'static str>)> {
    let names = ["on_step_start", "on_before_call", "approve", "on_step_end", "on_tool_error", "checkpoint"];
    (any::<bool>(), prop::option::of(prop::sample::select(names.to_vec())))
}

fn host((hooks, failing): (bool, Option<&'static str>)) -> TestHost {
    TestHost {
        hooks: if hooks { HookSet::all() } else { HookSet::empty() },
        failures: failing.map(|name| (name, HostError::raised("ValueError", "no"))).into_iter().collect(),
        ..TestHost::default()
    }
}

proptest! {
    #[test]
    fn every_span_ends_wherever_the_run_is_dropped(script in answers(), hooks in hooks(), polls in 0usize..120) {
        let (context, events) = traced_context(host(hooks));
        let agent = agent(Arc::new(ScriptModel::new(script)), 3);
        let mut run = Box::pin(agent.run("Go", context));
        let mut waker = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            if run.poll_unpin(&mut waker).is_ready() {
                break;
            }
        }
        drop(run);

        assert_nested(&events.lock().unwrap());
    }

    #[test]
    fn every_span_ends_wherever_a_stream_is_aborted_or_dropped(
        script in answers(),
        hooks in hooks(),
        polls in 0usize..120,
        aborts in any::<bool>(),
    ) {
        let (context, events) = traced_context(host(hooks));
        let mut stream = agent(Arc::new(ScriptModel::new(script)), 3).stream("Go", context).unwrap();
        let mut waker = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            let _polled = stream.poll_next_unpin(&mut waker);
        }
        if aborts {
            stream.abort();
            block_on(stream.turn()).ok();
        }
        drop(stream);

        let events = events.lock().unwrap();
        assert_nested(&events);
        if aborts && events.iter().any(|event| event.begins) {
            let cancelled = ends(&events).into_iter().filter(|(_, failure)| failure.as_deref() == Some("CANCELLED"));
            prop_assert_eq!(cancelled.count(), 0);
        }
    }
}
