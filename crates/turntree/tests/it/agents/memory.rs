//! The middleware `Memory`: windows of a history within limits, estimates of tokens.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;
use turntree::agents::middleware::Memory;
use turntree::agents::middleware::memory::estimate::{count_message, tokens_of};
use turntree::agents::middleware::memory::window::{Limit, cut};
use turntree::core::ids::CountingIds;
use turntree::core::json::Extra;
use turntree::message::message::History;
use turntree::message::{Body, Message, MessageKind, ToolCall, ToolResult};
use turntree::upp::{ModelRequest, UppError};

use super::middleware::{agent_with_middleware, context};
use crate::support::agents::{Answer, ScriptModel, block_on, clock, raw};

#[derive(Debug, Clone)]
enum Exchange {
    User(usize),
    Answer(usize),
    Tools(usize, usize),
    UserBetween(usize),
}

fn any_exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let one = prop_oneof![
        4 => (0..60_usize).prop_map(Exchange::User),
        4 => (0..60_usize).prop_map(Exchange::Answer),
        3 => (1..4_usize, 0..60_usize).prop_map(|(calls, words)| Exchange::Tools(calls, words)),
        1 => (0..9_usize).prop_map(Exchange::UserBetween),
    ];
    proptest::collection::vec(one, 0..30)
}

/// Histories as agents make them; `UserBetween` adds a user message between tool calls and their results.
fn history_of(exchanges: &[Exchange]) -> History {
    let (ids, clock) = (CountingIds::default(), clock());
    let mut history = History::new();
    for (place, exchange) in exchanges.iter().enumerate() {
        match exchange {
            Exchange::User(words) => {
                history.push_back(Arc::new(Message::user("w ".repeat(*words), &ids, &clock)))
            }
            Exchange::Answer(words) => {
                history.push_back(Arc::new(Message::assistant("w ".repeat(*words), &ids, &clock)));
            }
            Exchange::Tools(count, words) => {
                push_tools(&mut history, place, *count, *words, false);
            }
            Exchange::UserBetween(words) => push_tools(&mut history, place, 1, *words, true),
        }
    }
    history
}

fn push_tools(history: &mut History, place: usize, count: usize, words: usize, is_interrupted: bool) {
    let (ids, clock) = (CountingIds::default(), clock());
    let id = |call: usize| format!("call-{place}-{call}");
    let calls = (0..count).map(|call| ToolCall {
        tool_call_id: id(call),
        tool_name: "look".to_owned(),
        arguments: raw("{}"),
        extra: Extra::new(),
    });
    let body = Body::Assistant { content: Vec::new(), tool_calls: Some(calls.collect()) };
    history.push_back(Arc::new(Message::new(body, &ids, &clock)));
    if is_interrupted {
        history.push_back(Arc::new(Message::user("wait", &ids, &clock)));
    }
    let result = raw(&format!("\"{}\"", "w ".repeat(words)));
    let results = (0..count).map(|call| ToolResult::success(id(call), result.clone())).collect();
    history.push_back(Arc::new(Message::tool_results(results, &ids, &clock)));
}

/// Fails if a result lacks its call, or if a cut window does not begin with a user message.
fn assert_valid_window(messages: &History, start: usize) {
    let mut called = HashSet::new();
    for message in messages {
        called.extend(message.tool_calls().iter().map(|call| call.tool_call_id.clone()));
        for result in message.results() {
            assert!(called.contains(&result.tool_call_id), "a result without its call");
        }
    }
    if start > 0 {
        assert_eq!(messages[0].kind(), MessageKind::User);
    }
}

/// True if a user turn begins here and every later result has its call.
fn is_boundary(messages: &History, place: usize) -> bool {
    let is_user = |place: usize| messages[place].kind() == MessageKind::User;
    let mut called = HashSet::new();
    let whole = messages.iter().skip(place).all(|message| {
        called.extend(message.tool_calls().iter().map(|call| call.tool_call_id.clone()));
        message.results().iter().all(|result| called.contains(&result.tool_call_id))
    });
    whole && is_user(place) && !is_user(place - 1)
}

fn count_tokens(message: &Arc<Message>) -> Result<u64, UppError> {
    count_message(message, None)
}

proptest! {
    #[test]
    fn a_window_is_the_longest_valid_end_of_the_history_within_its_limits(
        past in any_exchanges(),
        run in any_exchanges(),
        tokens in proptest::option::of(0..400_u64),
        turns in proptest::option::of(1..6_usize),
    ) {
        let mut messages = history_of(&past);
        let begins = messages.len();
        messages.push_back(Arc::new(Message::user("now", &CountingIds::default(), &clock())));
        let mut rest = history_of(&run);
        // Ids of calls are unique.
        rest.retain(|message| message.kind() == MessageKind::Assistant && !message.has_tool_calls());
        messages.extend(rest);

        let window = cut(&messages, begins, Limit { tokens, turns }, count_tokens).unwrap();

        let window_messages = messages.clone().skip(window.start);
        assert_valid_window(&window_messages, window.start);
        prop_assert!(window.start <= begins);
        let sum: u64 = window_messages.iter().map(|message| count_tokens(message).unwrap()).sum();
        if let Some(most) = tokens {
            prop_assert_eq!(window.tokens, sum);
            prop_assert_eq!(window.overflows, sum > most);
            if window.overflows {
                // The window has only the current turn and the messages that its results need.
                let next = cut(&messages, begins, Limit { tokens: Some(0), turns: Some(1) }, count_tokens).unwrap();
                prop_assert_eq!(window.start, next.start);
            }
        }
        if let (Some(most), true) = (turns, window.start > 0) {
            let starts = window_messages.iter().enumerate().filter(|(place, message)| {
                let before = place.checked_sub(1).and_then(|before| window_messages.get(before));
                message.kind() == MessageKind::User && before.is_none_or(|before| before.kind() != MessageKind::User)
            });
            // A user message between a call and its result does not begin a turn.
            let between = past.iter().filter(|exchange| matches!(exchange, Exchange::UserBetween(_))).count();
            prop_assert!(starts.count() <= most + between);
        }
        // One more turn would exceed a limit.
        if window.start > 0 && !window.overflows {
            let wider = (0..window.start).rev().find(|place| *place == 0 || is_boundary(&messages, *place));
            let wider = wider.unwrap();
            let sum: u64 = messages.clone().skip(wider).iter().map(|message| count_tokens(message).unwrap()).sum();
            let too_many = turns.is_some();
            prop_assert!(too_many || sum > tokens.unwrap_or(u64::MAX), "there was room from {wider} on");
        }
    }

    #[test]
    fn a_token_estimate_is_monotonic_and_subadditive(text in "\\PC{0,80}", more in "\\PC{0,20}") {
        let whole = format!("{text}{more}");
        prop_assert!(tokens_of(&whole) >= tokens_of(&text));
        prop_assert!(tokens_of(&whole) <= tokens_of(&text) + tokens_of(&more));
    }
}

#[test]
fn memory_changes_the_request_and_not_the_turn() {
    let history =
        history_of(&[Exchange::User(9), Exchange::Answer(9), Exchange::User(9), Exchange::Answer(9)]);
    let mut memory = Memory::default();
    memory.max_turns = Some(2);
    let (agent, model) = agent_with_middleware(
        ScriptModel::new([Answer::text("x"), Answer::text("y")]),
        vec![Arc::new(memory)],
    );

    let turn = block_on(agent.run_with_history(history.clone(), "now", context())).unwrap();

    let sent: Vec<ModelRequest> = model.requests.lock().unwrap().clone();
    assert_eq!(sent[0].messages.len(), 3);
    assert!(Arc::ptr_eq(&sent[0].messages[0], &history[2]));
    assert_eq!(turn.messages.len(), 2);
}
