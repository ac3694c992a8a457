//! Handoffs: agents that give the conversation to one another.

use std::sync::Arc;

use proptest::prelude::*;
use turntree::agents::handoff::{HandoffOptions, agent_of_response};
use turntree::agents::host::{FunctionHost, RunContext};
use turntree::agents::{Agent, AgentOptions, Session, SessionOptions};
use turntree::core::ids::CountingIds;
use turntree::message::Turn;
use turntree::upp::UppError;

use crate::support::agents::{Answer, ScriptModel, block_on, clock};
use crate::support::with_cases;

/// How often a run can be handed over.
const MOST: usize = 10;

fn name(index: usize) -> String {
    format!("a{index}")
}

/// The script of a conversation that is handed over `length` times before the answer. The answer at `failing` fails.
fn script(length: usize, failing: Option<usize>) -> Arc<ScriptModel> {
    let calls = (1..=length).map(|index| Answer::calls(&[&format!("transfer_to_{}", name(index))]));
    let answers = calls.chain([Answer::text("done")]).enumerate().map(|(index, answer)| match failing {
        Some(failing) if failing == index => Err(UppError::invalid_response("scripted", "broken")),
        _ => Ok(answer),
    });
    Arc::new(ScriptModel::failing(answers))
}

/// A chain of agents; each can hand the conversation to the next one. Returns the first.
fn chain(length: usize, model: &Arc<ScriptModel>) -> Agent {
    let mut next: Option<Agent> = None;
    for index in (0..=length).rev() {
        let options = AgentOptions {
            model: Some(Arc::clone(model) as _),
            tools: next.iter().map(|agent| agent.to_handoff(HandoffOptions::default())).collect(),
            id: Some(name(index).into()),
            name: Some(name(index).into()),
            ..AgentOptions::default()
        };
        next = Some(Agent::new(options, &CountingIds::default()));
    }
    next.unwrap()
}

fn context(agent: &Agent) -> RunContext {
    let host = FunctionHost::new(Arc::clone(agent.tools()));
    RunContext::new(Arc::new(host.with_sources(Arc::new(clock()), Arc::new(CountingIds::default()))))
}

/// The names and texts of the responses of a turn.
fn responses(turn: &Turn) -> Vec<(Option<String>, String)> {
    let responses = turn.messages.iter().filter(|message| message.results().is_empty()).skip(1);
    responses.map(|message| (agent_of_response(message), message.text())).collect()
}

proptest! {
    #![proptest_config(with_cases(48))]

    #[test]
    fn a_run_is_handed_over_at_most_ten_times_and_resumes_with_the_agent_that_has_it(
        length in 0_usize..14,
        failing in 0_usize..15,
    ) {
        let whole = chain(length, &script(length, None));
        let expected = block_on(whole.run("go", context(&whole))).unwrap();

        let broken = chain(length, &script(length, Some(failing)));
        let session = Session::new(broken.clone(), SessionOptions::default()).unwrap();
        let turn = if let Ok(turn) = block_on(session.run("go", context(&broken))) {
            turn
        } else {
            let snapshot = session.snapshot().unwrap();
            let session = Session::from_snapshot(snapshot, whole.clone(), SessionOptions::default());
            block_on(session.resume(context(&whole))).unwrap()
        };

        prop_assert_eq!(responses(&turn), responses(&expected));
        let last = name(length.min(MOST));
        let named = (length > 0).then_some(last);
        prop_assert_eq!(agent_of_response(turn.response()), named);
        prop_assert_eq!(turn.response().text(), "done");
        let handed = turn.tool_executions.iter().filter(|done| !done.is_error).count();
        prop_assert_eq!(handed, length.min(MOST));
    }
}
