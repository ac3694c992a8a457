//! Structured answers in sessions: the round that repairs one is a run like any other, to checkpoint and to take up.

use std::sync::Arc;

use turntree::agents::session::CheckpointInterval;
use turntree::agents::{Session, SessionError};
use turntree::upp::ErrorCode;

use super::{World, ids_of, options};
use crate::support::agents::{Answer, ScriptModel, block_on, raw};

const CITY: &str = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#;

/// A session whose model answers by the script, and has one repair.
fn world(script: &[Answer]) -> (World, Arc<ScriptModel>) {
    let world = World::new(CheckpointInterval::Step);
    let model = Arc::new(ScriptModel::new(script.to_vec()));
    let agent = world.agent.with(&*world.ids, |options| {
        options.model = Some(Arc::clone(&model) as _);
        options.structure = Some(Arc::new(raw(CITY)));
        options.structure_repair = true;
    });
    let session = Session::new(agent.clone(), options(&world.ids, CheckpointInterval::Step)).unwrap();
    (World { agent, session, ..world }, model)
}

fn asked(model: &ScriptModel) -> usize {
    model.requests.lock().unwrap().len()
}

#[test]
fn a_repair_is_a_step_and_its_messages_go_into_the_tree() {
    let fits = Answer::text("…").with_data(r#"{"name":"Tokyo"}"#);
    let (world, _) = world(&[Answer::text("…").with_data("{}"), fits.clone()]);

    let turn = block_on(world.session.run("city", world.context())).unwrap();

    assert_eq!((turn.data.clone(), turn.cycles), (fits.data, 2));
    let steps: Vec<_> = world.session.checkpoints().iter().map(|checkpoint| checkpoint.step()).collect();
    assert_eq!(steps, [1, 2]);
    let history = world.session.tree().snapshot().history();
    assert_eq!(ids_of(&history), turn.messages.iter().map(|message| message.id.clone()).collect::<Vec<_>>());
}

#[test]
fn a_run_restored_before_its_repair_is_repaired_in_another_process() {
    let fits = Answer::text("…").with_data(r#"{"name":"Tokyo"}"#);
    let (world, model) = world(&[Answer::text("…").with_data("{}"), fits.clone()]);
    block_on(world.session.run("city", world.context())).unwrap();
    let first = Arc::clone(&world.session.checkpoints()[0]);
    block_on(world.session.restore(&first.id)).unwrap();

    let turn = block_on(world.reloaded().resume(world.context())).unwrap();

    assert_eq!((turn.data.clone(), turn.cycles, asked(&model)), (fits.data, 2, 3));
}

#[test]
fn a_run_taken_up_in_its_repair_has_no_second_one() {
    let script =
        [Answer::text("…").with_data("{}"), Answer::calls(&["echo"]), Answer::text("…").with_data("[1]")];
    let (world, model) = world(&script);
    let failure = |outcome: Result<_, SessionError>| match outcome {
        Err(SessionError::Run(error)) => error,
        other => panic!("{other:?}"),
    };
    let error = failure(block_on(world.session.run("city", world.context())));
    assert_eq!((error.code, asked(&model)), (ErrorCode::InvalidResponse, 3));
    let middle = Arc::clone(&world.session.checkpoints()[1]);

    let again = failure(block_on(world.reloaded().resume(world.context())));
    assert_eq!((again.code, asked(&model)), (ErrorCode::InvalidResponse, 3), "the answer is there already");

    block_on(world.session.restore(&middle.id)).unwrap();
    let again = failure(block_on(world.reloaded().resume(world.context())));
    assert_eq!((again.code, asked(&model)), (ErrorCode::InvalidResponse, 4));
}
