//! Runs of any script, dropped anywhere, any number of times, here and in other processes: they end as if nothing had
//! happened, and nothing that was finished is done again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use turntree::agents::host::{Approval, HookSet};
use turntree::agents::session::CheckpointInterval;
use turntree::agents::types::Verdict;
use turntree::agents::types::approval_required;
use turntree::agents::{Session, SessionError};
use turntree::message::{Body, ToolExecution, Turn};

use super::{World, options, poll_at_most, said};
use crate::support::agents::{Answer, ScriptModel, TestHost, block_on};

/// One process after another: how often each polls before it is killed, and whether the next one reads JSON.
type Lives = Vec<(usize, bool)>;

fn scripts() -> impl Strategy<Value = Vec<Answer>> {
    let tools = prop_oneof![Just("echo"), Just("slow"), Just("fail"), Just("guarded"), Just("owl")];
    let round = proptest::collection::vec(tools, 1..4).prop_map(|names| Answer::calls(&names));
    proptest::collection::vec(round, 0..4).prop_map(|mut script| {
        script.push(Answer::text("Done."));
        script
    })
}

struct Trial {
    world: World,
    model: Arc<ScriptModel>,
}

impl Trial {
    fn new(script: &[Answer], approval: Approval) -> Self {
        let world = World::new(CheckpointInterval::Step);
        let host = Arc::new(TestHost { approval, hooks: HookSet::all(), ..TestHost::default() });
        let model = Arc::new(ScriptModel::new(script.to_vec()));
        let agent = world.agent.with(&*world.ids, |options| options.model = Some(Arc::clone(&model) as _));
        let session = Session::new(agent.clone(), options(&world.ids, CheckpointInterval::Step)).unwrap();
        Self { world: World { host, agent, session, ..world }, model }
    }

    /// Goes on until the run has ended. Every pending call is let through.
    fn finish(&self, session: &Session) -> Arc<Turn> {
        loop {
            let outcome = if session.is_resumable() {
                block_on(session.resume(self.world.context()))
            } else {
                block_on(session.run("go", self.world.context()))
            };
            match outcome {
                Ok(turn) => return turn,
                Err(SessionError::Run(error)) if approval_required(&error).is_some() => approve_all(session),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// What is there after some processes were killed in the middle of their work.
    fn live(&self, lives: &Lives) -> Session {
        let mut session = self.world.session.clone();
        for (polls, moves) in lives {
            let context = self.world.context();
            if session.is_resumable() {
                let _cut = poll_at_most(Box::pin(session.resume(context)).as_mut(), *polls);
            } else if said(&session).is_empty() {
                let _cut = poll_at_most(Box::pin(session.run("go", context)).as_mut(), *polls);
            }
            approve_all(&session);
            if *moves {
                session = self.world.load(&session.to_json().unwrap());
            }
        }
        session
    }

    /// Tools that were run to their end.
    fn tools_finished(&self) -> usize {
        self.world.tools_run().len() - self.world.host.dropped_tools.load(Ordering::Relaxed)
    }

    /// Calls of the model that were answered.
    fn answers(&self) -> usize {
        self.model.requests.lock().unwrap().len() - self.model.dropped.load(Ordering::Relaxed)
    }
}

fn approve_all(session: &Session) {
    for call in session.pending() {
        session.decide(&call.tool_call_id, Verdict::Approved, None).unwrap();
    }
}

/// A turn without what differs from run to run: ids and times, and the order in which tools finished.
fn essence(turn: &Turn) -> (Vec<Body>, Vec<ToolExecution>, u32, String) {
    let mut records = turn.tool_executions.clone();
    records.sort_by(|one, other| one.tool_call_id.cmp(&other.tool_call_id));
    let bodies = turn.messages.iter().map(|message| message.body.clone()).collect();
    (bodies, records, turn.cycles, format!("{:?}", turn.usage))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_run_killed_anywhere_ends_as_if_nothing_had_happened(
        script in scripts(),
        asks in any::<bool>(),
        lives in proptest::collection::vec((0..60_usize, any::<bool>()), 0..6),
    ) {
        let expected = block_on({
            let trial = Trial::new(&script, Approval::Granted);
            async move { trial.world.session.run("go", trial.world.context()).await.unwrap() }
        });
        let trial = Trial::new(&script, if asks { Approval::Ask } else { Approval::Granted });

        let session = trial.live(&lives);
        let ended_alive = !said(&session).is_empty();
        let turn = if ended_alive { None } else { Some(trial.finish(&session)) };

        if let Some(turn) = &turn {
            prop_assert_eq!(essence(turn), essence(&expected));
        }
        prop_assert_eq!(said(&session).len(), expected.messages.len());
        let ran = expected.tool_executions.iter().filter(|record| record.tool_name != "owl").count();
        prop_assert_eq!(trial.tools_finished(), ran);
        prop_assert_eq!(trial.answers(), expected.cycles as usize);
        prop_assert!(!session.is_resumable());
    }
}
