//! `llm()`: capability checks, inputs, the tool loop, streams, structured output. UPP-1.2 §10 and §11.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;
use turntree::agents::host::{Approval, HookSet, HostError, RunContext};
use turntree::agents::types::partial_turn;
use turntree::agents::{Llm, LlmOptions, LlmStream, Structure, ToolUseStrategy};
use turntree::core::ids::CountingIds;
use turntree::core::json::canonical::normalize;
use turntree::message::message::History;
use turntree::message::{ContentBlock, Delta, Message, MessageKind, Turn};
use turntree::upp::{Capabilities, ErrorCode, Input, UppError};

use crate::support::agents::{
    Answer, ScriptModel, TestHost, block_on, clock, one_round, raw, records, tool, tool_results,
};

const CITY: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"people":{"type":"integer","minimum":1}},"required":["name"]}"#;

fn options(model: ScriptModel) -> LlmOptions {
    LlmOptions {
        tools: ["echo", "fail", "slow", "never"].map(tool).into(),
        ..LlmOptions::new(Arc::new(model))
    }
}

fn llm(script: &[Answer]) -> Llm {
    Llm::new(options(ScriptModel::new(script.to_vec())), &CountingIds::default()).unwrap()
}

fn structured(script: &[Answer], schema: &str, repair: bool) -> Llm {
    let options = LlmOptions {
        structure: Some(Arc::new(raw(schema))),
        structure_repair: repair,
        ..options(ScriptModel::new(script.to_vec()))
    };
    Llm::new(options, &CountingIds::default()).unwrap()
}

fn context(host: &Arc<TestHost>) -> RunContext {
    RunContext::new(Arc::clone(host) as _)
}

fn host() -> Arc<TestHost> {
    Arc::new(TestHost::default())
}

fn generate(llm: &Llm, host: &Arc<TestHost>) -> Result<Arc<Turn>, UppError> {
    block_on(llm.generate(History::new(), ["Hello".into()], context(host)))
}

fn stream(llm: &Llm, host: &Arc<TestHost>) -> LlmStream {
    llm.stream(History::new(), ["Hello".into()], context(host)).unwrap()
}

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::user(text, &CountingIds::default(), &clock()))
}

fn kinds(turn: &Turn) -> Vec<&str> {
    turn.messages.iter().map(|message| message.kind().as_str()).collect()
}

#[test]
fn unsupported_features_are_refused_at_construction_and_streaming_at_the_call() {
    let bare = || ScriptModel {
        capabilities: Capabilities {
            streaming: false,
            tools: false,
            structured_output: false,
            ..Capabilities::TEXT
        },
        ..ScriptModel::new([Answer::text("Hi.")])
    };
    let ids = CountingIds::default();
    let plain = LlmOptions::new(Arc::new(bare()));
    let structure = LlmOptions { structure: Some(Arc::new(raw(CITY))), ..plain.clone() };

    let built = Llm::new(plain, &ids).unwrap();
    let errors = [
        Llm::new(options(bare()), &ids).unwrap_err(),
        Llm::new(structure, &ids).unwrap_err(),
        built.stream(History::new(), ["Hello".into()], context(&host())).unwrap_err(),
    ];

    let words = errors.map(|error| {
        assert_eq!(error.code, ErrorCode::InvalidRequest);
        error.message
    });
    assert!(words[0].ends_with("does not support tools"));
    assert!(words[1].ends_with("does not support structured output"));
    assert!(words[2].ends_with("does not support streaming"));
}

#[test]
fn adjacent_texts_and_blocks_become_one_message_and_messages_are_unchanged() {
    let llm = llm(&[Answer::text("Hi.")]);
    let own = user("own");
    let inputs: [Input; 4] =
        ["Look:".into(), ContentBlock::text("this").into(), Arc::clone(&own).into(), "And?".into()];

    let turn = block_on(llm.generate(History::new(), inputs, context(&host()))).unwrap();

    assert_eq!(kinds(&turn), ["user", "user", "user", "assistant"]);
    assert_eq!(turn.messages[0].content().len(), 2);
    assert!(Arc::ptr_eq(&turn.messages[1], &own));
}

#[test]
fn a_history_without_input_is_continued_and_an_empty_call_is_refused() {
    let llm = llm(&[Answer::text("Hi.")]);
    let history: History = [user("before")].into_iter().collect();

    let turn = block_on(llm.generate(history.clone(), [], context(&host()))).unwrap();
    let nothing = block_on(llm.generate(History::new(), [], context(&host()))).unwrap_err();

    assert_eq!(kinds(&turn), ["assistant"]);
    assert_eq!(history.len(), 1);
    assert_eq!(nothing.code, ErrorCode::InvalidRequest);
}

#[test]
fn an_llm_calls_tool_hooks_and_no_step_hooks() {
    let host = Arc::new(TestHost { hooks: HookSet::TOOL_CALL, ..TestHost::default() });

    let turn = generate(&llm(&one_round("echo")), &host).unwrap();

    assert_eq!(kinds(&turn), ["user", "assistant", "tool_result", "assistant"]);
    assert_eq!(host.log(), ["on_tool_call call-1-0", "run call-1-0"]);
}

#[test]
fn the_iteration_limit_counts_rounds_and_its_error_carries_the_turn() {
    for (limit, calls, fails) in [(0, 1, false), (1, 2, true), (2, 3, true)] {
        let script = vec![Answer::calls(&["echo"]); 5];
        let options = LlmOptions {
            tool_strategy: ToolUseStrategy { max_iterations: Some(limit) },
            ..options(ScriptModel::new(script))
        };
        let llm = Llm::new(options, &CountingIds::default()).unwrap();

        let outcome = generate(&llm, &host());

        match outcome {
            Ok(turn) => {
                assert!(!fails && turn.response().has_tool_calls() && turn.tool_executions.is_empty())
            }
            Err(error) => {
                assert_eq!(error.code, ErrorCode::InvalidRequest);
                assert_eq!(partial_turn(&error).unwrap().turn.cycles, calls, "M = {limit}");
            }
        }
    }
}

#[test]
fn a_failing_approval_handler_fails_the_call_after_the_other_tools_finish() {
    let host = Arc::new(TestHost {
        failures: vec![("approve", HostError::raised("Lost", "no approver"))],
        ..TestHost::default()
    });
    let options = LlmOptions {
        tools: vec![tool("guarded").with_approval(), tool("slow")],
        ..LlmOptions::new(Arc::new(ScriptModel::new([Answer::calls(&["guarded", "slow"])])))
    };
    let llm = Llm::new(options, &CountingIds::default()).unwrap();

    let error = generate(&llm, &host).unwrap_err();

    assert!(error.message.contains("no approver"));
    assert_eq!(records(&partial_turn(&error).unwrap().turn).len(), 1);
    assert_eq!(host.dropped_tools.load(Ordering::Relaxed), 0);
}

#[test]
fn a_denied_tool_call_is_recorded_and_the_call_continues() {
    let host = Arc::new(TestHost { approval: Approval::Denied, ..TestHost::default() });
    let script = [Answer::calls(&["guarded"]), Answer::text("Well.")];
    let options = LlmOptions {
        tools: vec![tool("guarded").with_approval()],
        ..LlmOptions::new(Arc::new(ScriptModel::new(script)))
    };
    let llm = Llm::new(options, &CountingIds::default()).unwrap();

    let turn = generate(&llm, &host).unwrap();

    assert_eq!(tool_results(&turn), [r#""Tool execution denied by approval handler""#]);
    assert_eq!(turn.tool_executions[0].approved, Some(false));
}

#[test]
fn a_stream_has_model_and_tool_events_and_the_same_turn_as_generate() {
    let mut stream = stream(&llm(&one_round("echo")), &host());

    let events: Vec<_> =
        block_on(stream.by_ref().map(|event| event.unwrap().delta.kind().to_owned()).collect());

    assert_eq!(events[..4], ["message_start", "tool_call_delta", "message_stop", "tool_execution_start"]);
    let turn = block_on(stream.turn()).unwrap();
    assert_eq!(*turn, *generate(&llm(&one_round("echo")), &host()).unwrap());
}

#[test]
fn an_abort_is_an_error_with_the_partial_turn() {
    for script in
        [vec![Answer::text("one two three")], one_round("never").to_vec(), one_round("echo").to_vec()]
    {
        let events = 3;
        let mut stream = stream(&llm(&script), &host());
        for _ in 0..events {
            block_on(stream.next()).unwrap().unwrap();
        }

        stream.abort();

        let error = block_on(stream.next()).unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::Cancelled);
        assert!(!partial_turn(&error).unwrap().turn.messages.is_empty());
        assert!(block_on(stream.next()).is_none());
        assert_eq!(block_on(stream.turn()).unwrap_err().code, ErrorCode::Cancelled);
    }
}

#[test]
fn an_abort_before_the_start_sends_no_request_and_after_the_end_has_no_effect() {
    let model = Arc::new(ScriptModel::new([Answer::text("Hi.")]));
    let llm = Llm::new(LlmOptions::new(Arc::clone(&model) as _), &CountingIds::default()).unwrap();

    let mut early = stream(&llm, &host());
    early.abort();
    assert_eq!(block_on(early.turn()).unwrap_err().code, ErrorCode::Cancelled);
    assert!(model.requests.lock().unwrap().is_empty());

    let mut late = stream(&llm, &host());
    block_on(late.turn()).unwrap();
    late.abort();
    assert_eq!(block_on(late.turn()).unwrap().response().text(), "Hi.");
}

#[test]
fn a_stream_that_fails_after_its_first_event_returns_its_error_once() {
    let model = ScriptModel::failing([Err(UppError::new(ErrorCode::ProviderError, "scripted", "down"))]);
    let llm = Llm::new(LlmOptions::new(Arc::new(model)), &CountingIds::default()).unwrap();
    let mut stream = stream(&llm, &host());

    assert!(block_on(stream.next()).unwrap().is_ok());
    assert_eq!(block_on(stream.next()).unwrap().unwrap_err().message, "down");
    assert!(block_on(stream.next()).is_none());
    assert_eq!(block_on(stream.turn()).unwrap_err().message, "down");
}

#[test]
fn structured_output_is_validated_against_its_schema() {
    let fits = Answer::text("…").with_data(r#"{"name":"Tokyo","people":14}"#);
    let breaks = Answer::text("…").with_data(r#"{"people":0}"#);

    let turn = generate(&structured(std::slice::from_ref(&fits), CITY, false), &host()).unwrap();
    let error = generate(&structured(std::slice::from_ref(&breaks), CITY, false), &host()).unwrap_err();
    let repaired = generate(&structured(&[breaks, fits.clone()], CITY, true), &host()).unwrap();

    assert_eq!(turn.data, fits.data);
    assert_eq!(error.code, ErrorCode::InvalidResponse);
    assert!(error.message.contains("/people: ") && error.message.contains("(minimum)"), "{error}");
    assert!(error.message.contains("(required)"));
    assert_eq!(partial_turn(&error).unwrap().turn.cycles, 1);
    assert_eq!((repaired.data.clone(), repaired.cycles), (fits.data, 2));
    assert_eq!(kinds(&repaired), ["user", "assistant", "user", "assistant"]);
    assert!(repaired.messages[2].text().contains("/people"));
}

#[test]
fn a_repair_may_call_tools() {
    let fits = Answer::text("…").with_data(r#"{"name":"Tokyo"}"#);
    let script = [Answer::calls(&["echo"]), Answer::text("no"), Answer::calls(&["echo"]), fits.clone()];

    let turn = generate(&structured(&script, CITY, true), &host()).unwrap();

    assert_eq!((turn.cycles, turn.tool_executions.len()), (4, 2));
    assert_eq!(turn.data, fits.data);
}

#[test]
fn an_invalid_schema_is_refused_before_the_first_request() {
    for (schema, words) in [
        (r#"{"type":"objekt"}"#, "objekt"),
        (r#"{"type":"object","$ref":"https://example.com/schema"}"#, "example.com"),
        (r#"{"type":"object","properties":{"a":{"pattern":"("}}}"#, "("),
    ] {
        let llm = structured(&[Answer::text("{}")], schema, false);

        let error = generate(&llm, &host()).unwrap_err();

        assert_eq!(error.code, ErrorCode::InvalidRequest);
        assert!(error.message.starts_with("structure: "), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn a_schema_that_is_not_an_object_is_wrapped_and_the_result_is_unwrapped() {
    let schema = r##"{"type":"array","items":{"$ref":"#/$defs/N"},"$defs":{"N":{"type":"integer"}}}"##;
    let answer = |data: &str| [Answer::text(data).with_data(data)];

    let turn = generate(&structured(&answer(r#"{"value":[1,2]}"#), schema, false), &host()).unwrap();
    let error = generate(&structured(&answer(r#"{"value":["x"]}"#), schema, false), &host()).unwrap_err();

    assert_eq!(turn.data, Some(raw("[1,2]")));
    assert!(error.message.contains("/value/0: "), "{error}");
    let structure = Structure::new(&Arc::new(raw(schema)));
    assert!(structure.is_wrapped());
    let sent: serde_json::Value = structure.schema().to().unwrap();
    assert_eq!(sent["type"], "object");
    assert_eq!(sent["$defs"]["N"]["type"], "integer");
    assert_eq!(sent["properties"]["value"]["items"]["$ref"], "#/$defs/N");
}

#[test]
fn a_recursive_schema_has_an_object_at_its_root() {
    let schema = r##"{"$ref":"#/$defs/Node","$defs":{"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"}}}}}"##;

    let structure = Structure::new(&Arc::new(raw(schema)));

    let sent: serde_json::Value = structure.schema().to().unwrap();
    assert!(!structure.is_wrapped());
    assert_eq!((&sent["type"], sent.get("$ref")), (&"object".into(), None));
    assert!(structure.violations(&raw(r#"{"next":{"next":{}}}"#)).is_empty());
    assert_eq!(structure.violations(&raw(r#"{"next":{"next":1}}"#))[0].pointer, "/next/next");
}

#[test]
fn the_partial_object_grows_with_each_delta_and_resets_with_each_message() {
    let text = r#"{"name": "Tokyo", "people": 14}"#;
    let model = turntree::upp::providers::scripted::Scripted::new(["{\"name\": 1}", text]);
    let options = LlmOptions {
        structure: Some(Arc::new(raw(CITY))),
        structure_repair: true,
        ..LlmOptions::new(Arc::new(model))
    };
    let llm = Llm::new(options, &CountingIds::default()).unwrap();
    let mut stream = stream(&llm, &host());
    let (mut seen, mut texts, mut objects) = (Vec::new(), String::new(), String::new());
    let (mut last, mut changes, mut deltas) = (None, 0, 0);

    assert_eq!(stream.answer().read(), None);
    while let Some(event) = block_on_runtime(stream.next()) {
        match event.unwrap().delta {
            Delta::MessageStart(_) => {
                texts.clear();
                objects.clear();
                assert_eq!(stream.answer().read(), None);
            }
            Delta::Text(delta) => texts.push_str(&delta.text),
            Delta::Object(delta) => {
                objects.push_str(&delta.text);
                assert_eq!(texts, objects);
                deltas += 1;
                seen.push(stream.answer().read().unwrap().value.get().to_owned());
            }
            _ => {}
        }
        for _ in 0..10 {
            let read = stream.answer().read();
            if let Some(read) = &read
                && !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, read))
            {
                changes += 1;
            }
            last = read.or(last);
        }
    }

    assert_eq!(changes, deltas, "a new value exists only after a new delta");
    assert_eq!(*seen.last().unwrap(), normalize(text));
    assert!(seen.iter().any(|value| value == r#"{"name":"Tokyo"}"#), "{seen:?}");
    let turn = block_on_runtime(stream.turn()).unwrap();
    assert_eq!((turn.data.clone(), turn.cycles), (Some(raw(text)), 2));
    assert_eq!(turn.response().kind(), MessageKind::Assistant);
}

fn block_on_runtime<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(future)
}
