//! Sessions: the order of events, and laws over random interleavings of the client and the agent.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree_core::ids::CountingIds;
use turntree_core::time::{FixedClock, Timestamp};
use turntree_uamp::service::PaymentRefusal;
use turntree_uamp::session::{PaymentOutcome, SessionSettings, ToolOutcome, WaitsFor};
use turntree_uamp::types::{Capabilities, ErrorCode, ErrorDetails, ToolCall, UsageStats};
use turntree_uamp::{AgentOutput, ClientEvent, Effect, EventLimits, SessionConfig, SessionCore};

fn open(config: Value) -> (SessionCore, Vec<Effect>) {
    open_with(config, false)
}

/// A session, perhaps with a gate that decides about payments.
fn open_with(config: Value, has_payment_gate: bool) -> (SessionCore, Vec<Effect>) {
    let capabilities =
        Capabilities { id: "m".to_owned(), provider: "us".to_owned(), ..Capabilities::default() };
    let config: SessionConfig = serde_json::from_value(config).unwrap();
    let clock = FixedClock(Timestamp::from_microseconds(1_704_067_200_000_000));
    SessionCore::new(SessionSettings {
        id: "s1".to_owned(),
        agent: config.agent.clone(),
        chat: None,
        config,
        capabilities,
        client_capabilities: None,
        is_resumed: false,
        seq: 0,
        has_payment_gate,
        payment_token: None,
        token_expires_at: None,
        signer: None,
        ids: Arc::new(CountingIds::default()),
        clock: Arc::new(clock),
    })
}

fn on(core: &mut SessionCore, event: &Value) -> Vec<Effect> {
    core.on(ClientEvent::parse(&event.to_string(), &EventLimits::default()).unwrap())
}

fn sent(effects: &[Effect]) -> Vec<Value> {
    let event = |effect: &Effect| match effect {
        Effect::Send(event) => Some(serde_json::to_value(event).unwrap()),
        _ => None,
    };
    effects.iter().filter_map(event).collect()
}

fn kinds(effects: &[Effect]) -> Vec<String> {
    sent(effects).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

fn call(id: &str) -> AgentOutput {
    let (name, arguments) = ("locate".to_owned(), "{}".to_owned());
    AgentOutput::ClientToolCall(ToolCall { id: id.to_owned(), name, arguments, ..ToolCall::default() })
}

fn usage(tokens: u64) -> AgentOutput {
    AgentOutput::Usage(Box::new(UsageStats { output_tokens: Some(tokens), ..UsageStats::default() }))
}

#[test]
fn a_session_is_announced_without_its_token() {
    let (_, effects) = open(json!({"agent": "guide", "token": "secret"}));
    let events = sent(&effects);

    assert_eq!(kinds(&effects), ["session.created", "capabilities"]);
    assert_eq!(events[0]["session"]["created_at"], 1_704_067_200);
    assert_eq!(events[0]["agent"], "guide");
    assert_eq!((&events[0]["seq"], &events[1]["seq"]), (&json!(1), &json!(2)));
    assert_eq!(events[1]["session_id"], "s1");
    assert!(!events[0].to_string().contains("secret"));
}

#[test]
fn text_becomes_a_response_whose_deltas_are_its_output() {
    let (mut core, _) = open(json!({"response_format": {"type": "json_object"}}));
    assert_eq!(on(&mut core, &json!({"type": "input.text", "text": "Where is Oulu?"})), []);
    let effects = on(&mut core, &json!({"type": "response.create"}));

    assert_eq!(kinds(&effects), ["response.created"]);
    let Some(Effect::Start(request)) = effects.get(1) else { panic!("{effects:?}") };
    assert_eq!(request.messages[0].content.as_deref(), Some("Where is Oulu?"));
    assert!(request.response_format.is_some());
    let id = request.response_id.clone();
    core.on_output(&id, AgentOutput::Text("In ".to_owned()));
    core.on_output(&id, usage(2));
    core.on_output(&id, AgentOutput::Text("Finland.".to_owned()));
    core.on_output(&id, usage(3));
    let done = sent(&core.on_output(&id, AgentOutput::Done)).remove(0);
    assert_eq!(done["response"]["output"], json!([{"type": "text", "text": "In Finland."}]));
    assert_eq!(done["response"]["usage"]["output_tokens"], 5);
    assert_eq!(core.on_output(&id, AgentOutput::Text("late".to_owned())), []);
}

#[test]
fn every_kind_of_output_has_its_event_with_the_id_of_the_response() {
    let (mut core, _) = open(json!({}));
    on(&mut core, &json!({"type": "response.create"}));
    let id = core.active_response().unwrap().to_owned();
    let text = || "a".to_owned();
    let result = ToolOutcome { call_id: "k1".to_owned(), result: "1".to_owned(), is_error: false };
    let progress = AgentOutput::ToolProgress { call_id: "k1".to_owned(), text: text() };
    let outputs = [AgentOutput::Thinking(text()), AgentOutput::Audio("AAAA".to_owned())].into_iter().chain([
        AgentOutput::Transcript(text()),
        progress,
        AgentOutput::ServerToolResult(result),
    ]);
    let events: Vec<Value> = outputs.flat_map(|output| sent(&core.on_output(&id, output))).collect();
    let done = sent(&core.on_output(&id, AgentOutput::Done));

    let kinds: Vec<&str> = events.iter().chain(&done).map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "thinking",
            "audio.delta",
            "transcript.delta",
            "response.delta",
            "response.delta",
            "tool.call_done",
            "transcript.done",
            "audio.done",
            "response.done",
        ]
    );
    assert!(events.iter().chain(&done).all(|event| event["response_id"] == id.as_str()));
    assert_eq!(events[0]["is_delta"], true);
    assert_eq!(events[3]["delta"]["tool_progress"], json!({"call_id": "k1", "text": "a"}));
    assert_eq!(events[4]["delta"]["tool_result"]["call_id"], "k1");
    assert_eq!(done[0]["transcript"], "a");
}

#[test]
fn the_agent_continues_when_the_client_has_run_all_tools() {
    let (mut core, _) = open(json!({}));
    on(&mut core, &json!({"type": "response.create"}));
    let id = core.active_response().unwrap().to_owned();
    assert_eq!(kinds(&core.on_output(&id, call("k1"))), ["tool.call"]);
    core.on_output(&id, call("k2"));

    let result = |call: &str| json!({"type": "tool.result", "call_id": call, "result": "1"});
    assert_eq!(on(&mut core, &result("k2")), []);
    assert_eq!(sent(&on(&mut core, &result("k2")))[0]["error"]["code"], "unknown_call_id");
    let effects = on(&mut core, &result("k1"));
    let Some(Effect::Resume { response_id, results }) = effects.first() else { panic!("{effects:?}") };
    assert_eq!(*response_id, id);
    assert_eq!(results.iter().map(|result| result.call_id.as_str()).collect::<Vec<_>>(), ["k1", "k2"]);
}

#[test]
fn cancellation_keeps_the_partial_output() {
    let (mut core, _) = open(json!({}));
    on(&mut core, &json!({"type": "response.create"}));
    let id = core.active_response().unwrap().to_owned();
    core.on_output(&id, AgentOutput::Text("Ou".to_owned()));

    assert_eq!(
        sent(&on(&mut core, &json!({"type": "response.cancel", "response_id": "other"})))[0]["error"]["code"],
        "response_not_active"
    );
    let effects = on(&mut core, &json!({"type": "response.cancel"}));
    assert_eq!(effects[0], Effect::Cancel { response_id: id });
    assert_eq!(sent(&effects)[0]["partial_output"], json!([{"type": "text", "text": "Ou"}]));
}

#[test]
fn a_second_response_is_refused_and_the_first_goes_on() {
    let (mut core, _) = open(json!({}));
    on(&mut core, &json!({"type": "response.create"}));
    let id = core.active_response().unwrap().to_owned();

    let error = sent(&on(&mut core, &json!({"type": "response.create", "event_id": "e9"}))).remove(0);
    assert_eq!(error["error"]["code"], "response_in_progress");
    assert_eq!(error["error"]["details"]["active_response_id"], json!(id));
    assert_eq!((&error["reply_to"], error.get("response_id")), (&json!("e9"), None));
    assert_eq!(kinds(&core.on_output(&id, AgentOutput::Done)), ["response.done"]);
}

#[test]
fn a_session_may_queue_responses_or_replace_the_active_one() {
    let (mut core, _) = open(json!({"extensions": {"uamp": {"on_concurrent": "queue"}}}));
    on(&mut core, &json!({"type": "response.create"}));
    let first = core.active_response().unwrap().to_owned();
    for _ in 0..16 {
        assert_eq!(on(&mut core, &json!({"type": "response.create"})), []);
    }
    assert_eq!(kinds(&on(&mut core, &json!({"type": "response.create"}))), ["response.error"]);
    assert_eq!(kinds(&core.on_output(&first, AgentOutput::Done)), ["response.done", "response.created"]);
    assert_eq!(kinds(&on(&mut core, &json!({"type": "session.end"}))), ["response.cancelled", "session.end"]);

    let (mut core, _) = open(json!({"extensions": {"uamp": {"on_concurrent": "supersede"}}}));
    on(&mut core, &json!({"type": "response.create"}));
    let effects = on(&mut core, &json!({"type": "response.create"}));
    assert_eq!(kinds(&effects), ["response.cancelled", "response.created"]);
}

#[test]
fn an_end_cancels_the_response_and_closes_the_session() {
    let (mut core, _) = open(json!({}));
    on(&mut core, &json!({"type": "response.create"}));
    let effects = on(&mut core, &json!({"type": "session.end", "reason": "user_left"}));

    assert_eq!(kinds(&effects), ["response.cancelled", "session.end"]);
    assert_eq!(effects.last(), Some(&Effect::Close));
    assert!(core.is_closed());
    assert_eq!(on(&mut core, &json!({"type": "response.create"})), []);
}

#[test]
fn messages_replace_the_conversation_and_include_the_text_once() {
    let (mut core, _) = open(json!({}));
    on(&mut core, &json!({"type": "input.text", "text": "old"}));
    on(
        &mut core,
        &json!({"type": "input.text", "text": "new", "messages": [{"role": "user", "content": "new"}]}),
    );
    on(&mut core, &json!({"type": "input.image", "image": "AAAA"}));
    let effects = on(&mut core, &json!({"type": "response.create"}));

    let Some(Effect::Start(request)) = effects.get(1) else { panic!("{effects:?}") };
    assert!(request.replaces);
    let messages = serde_json::to_value(&request.messages).unwrap();
    assert_eq!(messages[0], json!({"role": "user", "content": "new"}));
    assert_eq!(messages[1]["content_items"][0]["type"], "image");
    assert!(messages[1]["content_items"][0]["content_id"].is_string());
    assert_eq!(messages.as_array().unwrap().len(), 2);
}

#[test]
fn a_start_carries_what_is_new_and_the_instructions_of_the_operator() {
    let (mut core, _) = open(json!({"instructions": "of the session"}));
    on(&mut core, &json!({"type": "input.text", "text": "Be brief.", "role": "system"}));
    let mut starts = Vec::new();
    for text in ["one", "two"] {
        on(&mut core, &json!({"type": "input.text", "text": text}));
        let effects = on(&mut core, &json!({"type": "response.create"}));
        let Some(Effect::Start(request)) = effects.get(1) else { panic!("{effects:?}") };
        starts.push(request.clone());
        core.on_output(&request.response_id, AgentOutput::Done);
    }

    let texts = |index: usize| -> Vec<String> {
        let contents = starts[index].messages.iter().map(|message| message.content.clone().unwrap());
        contents.collect()
    };
    assert_eq!(texts(0), ["Be brief.", "one"]);
    assert_eq!(texts(1), ["Be brief.", "two"]);
    assert_eq!((starts[1].replaces, starts[1].instructions.as_deref()), (false, Some("of the session")));
}

#[test]
fn time_limits_end_the_response_or_the_session() {
    let (mut core, _) = open(json!({}));
    on(&mut core, &json!({"type": "response.create"}));
    let id = core.active_response().unwrap().to_owned();
    core.on_output(&id, call("k1"));
    assert_eq!(core.waits_for(), WaitsFor::ToolResults);
    assert_eq!(core.on_timeout(WaitsFor::Client), []);
    let effects = core.on_timeout(WaitsFor::ToolResults);
    assert_eq!(effects[0], Effect::Cancel { response_id: id });
    assert_eq!(sent(&effects)[0]["error"]["code"], "tool_timeout");

    let effects = core.on_timeout(WaitsFor::Client);
    assert_eq!(kinds(&effects), ["session.error", "session.end"]);
    assert!(core.is_closed());
}

#[test]
fn too_much_input_is_refused_before_it_is_kept() {
    let (mut core, _) = open(json!({}));
    let image = json!({"type": "input.image", "image": "A".repeat(12 << 20)});
    assert_eq!(on(&mut core, &image), []);
    assert_eq!(on(&mut core, &image), []);
    assert_eq!(sent(&on(&mut core, &image))[0]["error"]["code"], "invalid_event");
    on(&mut core, &json!({"type": "response.create"}));
    assert_eq!(on(&mut core, &image), []);
}

#[test]
fn events_that_do_not_concern_the_conversation_are_answered() {
    let (mut core, _) = open(json!({"extensions": {"uamp": {"auto_response": true}}}));
    let answer = |core: &mut SessionCore, event: Value| sent(&on(core, &event));

    assert_eq!(answer(&mut core, json!({"type": "ping", "event_id": "p"}))[0]["reply_to"], "p");
    assert_eq!(answer(&mut core, json!({"type": "capabilities.query"}))[0]["capabilities"]["id"], "m");
    assert_eq!(
        answer(&mut core, json!({"type": "capabilities.query", "model": "x"}))[0]["error"]["code"],
        "model_not_found"
    );
    assert_eq!(
        answer(&mut core, json!({"type": "voice.invite", "call_id": "v"}))[0]["type"],
        "voice.decline"
    );
    assert_eq!(
        answer(&mut core, json!({"type": "session.update", "session": {"instructions": "x"}}))[0]["type"],
        "session.updated"
    );
    assert!(answer(&mut core, json!({"type": "system.stop"})).is_empty());
    assert!(answer(&mut core, json!({"type": "new.event"})).is_empty());
    assert!(matches!(
        on(&mut core, &json!({"type": "input.typing", "is_typing": true}))[..],
        [Effect::Broadcast(_)]
    ));
    assert_eq!(answer(&mut core, json!({"type": "input.text", "text": "Hi"}))[0]["type"], "response.created");
}

#[derive(Debug, Clone)]
enum Step {
    Client(Value),
    Agent(AgentOutput),
    Payment(PaymentOutcome),
}

fn payment() -> impl Strategy<Value = PaymentOutcome> {
    let refused = |can_retry| {
        PaymentOutcome::Refused(Box::new(PaymentRefusal { can_retry, ..PaymentRefusal::default() }))
    };
    prop_oneof![
        Just(PaymentOutcome::NotRequired),
        Just(PaymentOutcome::Required(Box::default())),
        Just(PaymentOutcome::Accepted(Box::default())),
        any::<bool>().prop_map(refused),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let outcome =
        |id: u8| ToolOutcome { call_id: format!("k{id}"), result: "1".to_owned(), is_error: id == 0 };
    let client = prop_oneof![
        4 => Just(json!({"type": "response.create"})),
        1 => Just(json!({"type": "response.cancel"})),
        1 => Just(json!({"type": "input.text", "text": "Hi"})),
        2 => (0..3_u8).prop_map(|id| json!({"type": "tool.result", "call_id": format!("k{id}"), "result": "1"})),
        1 => Just(json!({"type": "ping"})),
        1 => Just(json!({"type": "payment.submit", "payment": {"scheme": "token"}})),
    ];
    let agent = prop_oneof![
        4 => "[a-z]{0,3}".prop_map(AgentOutput::Text),
        1 => (0..3_u8).prop_map(|id| call(&format!("k{id}"))),
        1 => (0..3_u8).prop_map(move |id| AgentOutput::ServerToolResult(outcome(id))),
        2 => (0..9_u64).prop_map(usage),
        1 => Just(AgentOutput::Done),
        1 => Just(AgentOutput::Failed(Box::new(ErrorDetails::new(ErrorCode::GenerationError, "x")))),
    ];
    prop_oneof![
        3 => client.prop_map(Step::Client),
        3 => agent.prop_map(Step::Agent),
        1 => payment().prop_map(Step::Payment),
    ]
}

/// What a client has seen of a response.
#[derive(Default)]
struct Seen {
    text: String,
    tokens: u64,
    is_over: bool,
}

fn text_of(items: &Value) -> String {
    items.as_array().unwrap().iter().filter_map(|item| item["text"].as_str()).collect()
}

/// The effects of all steps. A response starts only after the gate has allowed it.
fn play(steps: Vec<Step>, on_concurrent: &str, has_payment_gate: bool) -> Vec<Effect> {
    let config = json!({"extensions": {"uamp": {"on_concurrent": on_concurrent}}});
    let (mut core, mut effects) = open_with(config, has_payment_gate);
    let mut response = String::new();
    for step in steps {
        let mut may_start = !has_payment_gate;
        let new = match step {
            Step::Client(event) => on(&mut core, &event),
            Step::Agent(output) => core.on_output(&response, output),
            Step::Payment(outcome) => {
                let id = core.active_response().unwrap_or_default().to_owned();
                may_start |= matches!(outcome, PaymentOutcome::NotRequired | PaymentOutcome::Accepted(_));
                core.on_payment(&id, outcome)
            }
        };
        for effect in &new {
            if let Effect::Start(request) = effect {
                assert!(may_start, "a response that is not paid has started");
                response.clone_from(&request.response_id);
            }
        }
        effects.extend(new);
    }
    effects.extend(core.end(None));
    effects
}

proptest! {
    #[test]
    fn every_response_is_created_first_and_ends_once_with_the_sum_of_its_deltas(
        steps in prop::collection::vec(step(), 0..60),
        on_concurrent in prop::sample::select(vec!["reject", "queue", "supersede"]),
        has_payment_gate in any::<bool>(),
    ) {
        let effects = play(steps, on_concurrent, has_payment_gate);
        let mut seen: HashMap<String, Seen> = HashMap::new();
        for (index, event) in sent(&effects).into_iter().enumerate() {
            prop_assert_eq!(&event["seq"], index + 1);
            let Some(id) = event["response_id"].as_str() else { continue };
            if event["type"] == "response.created" {
                prop_assert!(seen.values().all(|seen| seen.is_over));
                prop_assert!(seen.insert(id.to_owned(), Seen::default()).is_none());
                continue;
            }
            let response = seen.get_mut(id).expect("created first");
            prop_assert!(!response.is_over);
            match event["type"].as_str().unwrap() {
                "response.delta" if event["delta"]["type"] == "text" => {
                    response.text.push_str(event["delta"]["text"].as_str().unwrap());
                }
                "usage.delta" => response.tokens += event["delta"]["output_tokens"].as_u64().unwrap(),
                "response.done" => {
                    response.is_over = true;
                    prop_assert_eq!(text_of(&event["response"]["output"]), response.text.clone());
                    let tokens = event["response"]["usage"]["output_tokens"].as_u64().unwrap_or(0);
                    prop_assert_eq!(tokens, response.tokens);
                }
                "response.cancelled" => {
                    response.is_over = true;
                    prop_assert_eq!(text_of(&event["partial_output"]), response.text.clone());
                }
                "response.error" => {
                    response.is_over = true;
                    prop_assert_eq!(text_of(&event["error"]["details"]["partial_output"]), response.text.clone());
                }
                _ => {}
            }
        }
        prop_assert!(seen.values().all(|seen| seen.is_over));
    }
}

#[test]
fn a_response_that_fails_at_the_limit_of_the_vendor_announces_it_first() {
    for (details, reset_at) in [(json!({"retry_after": 1.5}), json!(1_704_067_202)), (json!({}), Value::Null)]
    {
        let (mut core, _) = open(json!({}));
        on(&mut core, &json!({"type": "response.create"}));
        let id = core.active_response().unwrap().to_owned();
        let error = ErrorDetails {
            details: turntree_core::json::RawJson::from_value(&details).ok(),
            ..ErrorDetails::new(ErrorCode::RateLimitExceeded, "slow down")
        };
        let effects = core.on_output(&id, AgentOutput::Failed(Box::new(error)));

        assert_eq!(kinds(&effects), ["rate_limit", "response.error"]);
        let limit = &sent(&effects)[0];
        assert_eq!((&limit["session_id"], &limit["remaining"]), (&json!("s1"), &json!(0)));
        assert_eq!((&limit["reset_at"], limit.get("limit")), (&reset_at, None));
    }
}

#[test]
fn a_plan_is_a_thought_in_the_stage_of_planning() {
    let (mut core, _) = open(json!({}));
    on(&mut core, &json!({"type": "response.create"}));
    let id = core.active_response().unwrap().to_owned();

    let thought = sent(&core.on_output(&id, AgentOutput::Planning("1. Look".to_owned()))).remove(0);

    assert_eq!((&thought["type"], &thought["content"]), (&json!("thinking"), &json!("1. Look")));
    assert_eq!((&thought["stage"], &thought["is_delta"]), (&json!("planning"), &json!(false)));
}
