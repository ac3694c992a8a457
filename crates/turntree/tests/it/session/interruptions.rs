//! Random runs that are dropped at any point, any number of times, and resumed in the same or in another process: they end
//! like an uninterrupted run and repeat no finished work.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use turntree::agents::host::{Approval, HookSet};
use turntree::agents::session::CheckpointInterval;
use turntree::agents::types::Verdict;
use turntree::agents::types::approval_required;
use turntree::agents::{Session, SessionError};
use turntree::message::{Body, ToolExecution, Turn};

use super::{Fixture, options, poll_at_most, texts};
use crate::support::agents::{Answer, ScriptModel, TestHost, block_on};
use crate::support::with_cases;

/// For each process the number of polls before it is killed, and whether the session then moves through JSON.
type Kills = Vec<(usize, bool)>;

fn scripts() -> impl Strategy<Value = Vec<Answer>> {
    let tools = prop_oneof![Just("echo"), Just("slow"), Just("fail"), Just("guarded"), Just("owl")];
    let round = proptest::collection::vec(tools, 1..4).prop_map(|names| Answer::calls(&names));
    proptest::collection::vec(round, 0..4).prop_map(|mut script| {
        script.push(Answer::text("Done."));
        script
    })
}

struct Trial {
    fixture: Fixture,
    model: Arc<ScriptModel>,
}

impl Trial {
    fn new(script: &[Answer], approval: Approval) -> Self {
        let fixture = Fixture::new(CheckpointInterval::Step);
        let host = Arc::new(TestHost { approval, hooks: HookSet::all(), ..TestHost::default() });
        let model = Arc::new(ScriptModel::new(script.to_vec()));
        let agent =
            fixture.agent.with(&*fixture.ids, |options| options.model = Some(Arc::clone(&model) as _));
        let session = Session::new(agent.clone(), options(&fixture.ids, CheckpointInterval::Step)).unwrap();
        Self { fixture: Fixture { host, agent, session, ..fixture }, model }
    }

    /// Runs or resumes until the run ends. Approves every pending call.
    fn finish(&self, session: &Session) -> Arc<Turn> {
        loop {
            let outcome = if session.is_resumable() {
                block_on(session.resume(self.fixture.context()))
            } else {
                block_on(session.run("go", self.fixture.context()))
            };
            match outcome {
                Ok(turn) => return turn,
                Err(SessionError::Run(error)) if approval_required(&error).is_some() => approve_all(session),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Runs the session through the kills.
    fn run_with_kills(&self, kills: &Kills) -> Session {
        let mut session = self.fixture.session.clone();
        for (polls, moves) in kills {
            let context = self.fixture.context();
            if session.is_resumable() {
                let _dropped = poll_at_most(Box::pin(session.resume(context)).as_mut(), *polls);
            } else if texts(&session).is_empty() {
                let _dropped = poll_at_most(Box::pin(session.run("go", context)).as_mut(), *polls);
            }
            approve_all(&session);
            if *moves {
                session = self.fixture.load(&session.to_json().unwrap());
            }
        }
        session
    }

    /// The number of tools that ran to their end.
    fn tools_finished(&self) -> usize {
        self.fixture.tools_run().len() - self.fixture.host.dropped_tools.load(Ordering::Relaxed)
    }

    /// The number of model calls that returned.
    fn answers(&self) -> usize {
        self.model.requests.lock().unwrap().len() - self.model.dropped.load(Ordering::Relaxed)
    }
}

fn approve_all(session: &Session) {
    for call in session.pending() {
        session.decide_call(&call, Verdict::Approved, None).unwrap();
    }
}

/// A turn without ids, times and the order in which tools finished, which differ between runs.
fn comparable(turn: &Turn) -> (Vec<Body>, Vec<ToolExecution>, u32, String) {
    let mut records = turn.tool_executions.clone();
    records.sort_by(|one, other| one.tool_call_id.cmp(&other.tool_call_id));
    let bodies = turn.messages.iter().map(|message| message.body.clone()).collect();
    (bodies, records, turn.cycles, format!("{:?}", turn.usage))
}

proptest! {
    #![proptest_config(with_cases(96))]

    #[test]
    fn a_run_killed_and_resumed_anywhere_ends_like_an_uninterrupted_run(
        script in scripts(),
        asks in any::<bool>(),
        kills in proptest::collection::vec((0..60_usize, any::<bool>()), 0..6),
    ) {
        let expected = block_on({
            let trial = Trial::new(&script, Approval::Granted);
            async move { trial.fixture.session.run("go", trial.fixture.context()).await.unwrap() }
        });
        let trial = Trial::new(&script, if asks { Approval::Ask } else { Approval::Granted });

        let session = trial.run_with_kills(&kills);
        let has_ended = !texts(&session).is_empty();
        let turn = if has_ended { None } else { Some(trial.finish(&session)) };

        if let Some(turn) = &turn {
            prop_assert_eq!(comparable(turn), comparable(&expected));
        }
        prop_assert_eq!(texts(&session).len(), expected.messages.len());
        let ran = expected.tool_executions.iter().filter(|record| record.tool_name != "owl").count();
        prop_assert_eq!(trial.tools_finished(), ran);
        prop_assert_eq!(trial.answers(), expected.cycles as usize);
        prop_assert!(!session.is_resumable());
    }
}
