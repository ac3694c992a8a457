//! Structured output in sessions: checkpoints and resumed runs around a repair.

use std::sync::Arc;

use turntree::agents::session::CheckpointInterval;
use turntree::agents::{Session, SessionError};
use turntree::upp::ErrorCode;

use super::{Fixture, ids_of, options};
use crate::support::agents::{Answer, ScriptModel, block_on, raw};

const CITY: &str = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#;

/// A session with this script and structured output with repair.
fn fixture(script: &[Answer]) -> (Fixture, Arc<ScriptModel>) {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let model = Arc::new(ScriptModel::new(script.to_vec()));
    let agent = fixture.agent.with(&*fixture.ids, |options| {
        options.model = Some(Arc::clone(&model) as _);
        options.structure = Some(Arc::new(raw(CITY)));
        options.structure_repair = true;
    });
    let session = Session::new(agent.clone(), options(&fixture.ids, CheckpointInterval::Step)).unwrap();
    (Fixture { agent, session, ..fixture }, model)
}

fn request_count(model: &ScriptModel) -> usize {
    model.requests.lock().unwrap().len()
}

#[test]
fn a_repair_is_a_step_and_its_messages_go_into_the_tree() {
    let fits = Answer::text("…").with_data(r#"{"name":"Tokyo"}"#);
    let (fixture, _) = fixture(&[Answer::text("…").with_data("{}"), fits.clone()]);

    let turn = block_on(fixture.session.run("city", fixture.context())).unwrap();

    assert_eq!((turn.data.clone(), turn.cycles), (fits.data, 2));
    let steps: Vec<_> = fixture.session.checkpoints().iter().map(|checkpoint| checkpoint.step()).collect();
    assert_eq!(steps, [1, 2]);
    let history = fixture.session.tree().snapshot().history();
    assert_eq!(ids_of(&history), turn.messages.iter().map(|message| message.id.clone()).collect::<Vec<_>>());
}

#[test]
fn a_run_restored_before_its_repair_repairs_in_another_process() {
    let fits = Answer::text("…").with_data(r#"{"name":"Tokyo"}"#);
    let (fixture, model) = fixture(&[Answer::text("…").with_data("{}"), fits.clone()]);
    block_on(fixture.session.run("city", fixture.context())).unwrap();
    let first = Arc::clone(&fixture.session.checkpoints()[0]);
    block_on(fixture.session.restore(&first.id)).unwrap();

    let turn = block_on(fixture.reloaded().resume(fixture.context())).unwrap();

    assert_eq!((turn.data.clone(), turn.cycles, request_count(&model)), (fits.data, 2, 3));
}

#[test]
fn a_run_resumed_after_its_repair_does_not_repair_again() {
    let script =
        [Answer::text("…").with_data("{}"), Answer::calls(&["echo"]), Answer::text("…").with_data("[1]")];
    let (fixture, model) = fixture(&script);
    let failure = |outcome: Result<_, SessionError>| match outcome {
        Err(SessionError::Run(error)) => error,
        other => panic!("{other:?}"),
    };
    let error = failure(block_on(fixture.session.run("city", fixture.context())));
    assert_eq!((error.code, request_count(&model)), (ErrorCode::InvalidResponse, 3));
    let middle = Arc::clone(&fixture.session.checkpoints()[1]);

    let again = failure(block_on(fixture.reloaded().resume(fixture.context())));
    assert_eq!(
        (again.code, request_count(&model)),
        (ErrorCode::InvalidResponse, 4),
        "the invalid response is dropped and requested again"
    );

    block_on(fixture.session.restore(&middle.id)).unwrap();
    let again = failure(block_on(fixture.reloaded().resume(fixture.context())));
    assert_eq!((again.code, request_count(&model)), (ErrorCode::InvalidResponse, 5));
}
