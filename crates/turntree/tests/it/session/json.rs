//! Sessions as JSON documents: the sample of the specification, refused documents, preserved members.

use std::collections::HashSet;
use std::sync::Arc;

use turntree::agents::session::{CheckpointInterval, SessionSnapshot};
use turntree::agents::{Session, SessionError};
use turntree::core::json;
use turntree::core::limits::Limits;
use turntree::message::Message;

use super::{Fixture, texts};
use crate::support::agents::{block_on, clock, raw};

/// The sample of UAP-1.0 §13.5, with messages in place of its ellipses.
const SAMPLE: &str = r#"{
  "version": "1.0.0", "id": "sess_abc123", "agentId": "agent_xyz789",
  "createdAt": "2024-01-15T10:30:00.000Z", "updatedAt": "2024-01-15T10:35:00.000Z",
  "threadTree": { "rootId": "node_root", "currentId": "node_branch1", "nodes": [
    { "id": "node_root", "parentId": null, "name": "main", "children": ["node_branch1"], "metadata": {},
      "thread": { "id": "thread_001", "messages": [
        { "id": "m1", "type": "user", "content": [{"type": "text", "text": "Hi"}], "timestamp": "2024-01-15T10:30:00.000Z" }] } },
    { "id": "node_branch1", "parentId": "node_root", "name": "alternative", "children": [], "metadata": {},
      "thread": { "id": "thread_002", "messages": [] } } ] },
  "checkpoints": [
    { "id": "cp_001", "sessionId": "sess_abc123", "timestamp": "2024-01-15T10:32:00.000Z", "step": 3, "threadId": "node_root",
      "state": { "step": 3, "messages": [
        { "id": "m1", "type": "user", "content": [{"type": "text", "text": "Hi"}], "timestamp": "2024-01-15T10:30:00.000Z" },
        { "id": "m2", "type": "user", "content": [{"type": "text", "text": "there"}], "timestamp": "2024-01-15T10:30:00.000Z" }],
        "metadata": { "taskComplete": false }, "reasoning": ["First, I need to...", "Now I should..."],
        "plan": [{ "id": "1", "description": "Look", "dependsOn": [], "status": "in_progress" }], "mood": "calm" },
      "subAgentStates": {}, "metadata": {}, "newer": 1.50 } ],
  "metadata": { "task": "Implement feature X" }, "newer": [1.0]
}"#;

fn read(text: &str) -> Result<SessionSnapshot, String> {
    SessionSnapshot::from_json(text, &Limits::default()).map_err(|error| error.to_string())
}

#[test]
fn the_sample_of_the_specification_loads_and_can_be_restored() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let session = fixture.load(SAMPLE);
    let state = session.checkpoints()[0].state();
    assert_eq!((state.step, state.messages.len()), (3, 2));
    assert_eq!(state.reasoning.map(|reasoning| reasoning.len()), Some(2));
    assert_eq!(state.plan.map(|plan| plan[0].status.as_str()), Some("in_progress"));
    assert_eq!(state.metadata.get("taskComplete"), Some(&raw("false")));

    block_on(session.restore("cp_001")).unwrap();

    // `m1` is in the thread already, `m2` is not.
    assert_eq!(texts(&session), ["Hi"]);
    assert!(!session.is_resumable());
    block_on(session.run("more", fixture.context())).unwrap();
    assert_eq!(texts(&session), ["Hi", "there", "more", "answer to more"]);
}

#[test]
fn unknown_members_and_ids_round_trip() {
    let fixture = Fixture::new(CheckpointInterval::Step);

    let written = fixture.load(SAMPLE).to_json().unwrap();

    for member in [
        r#""newer":1.50"#,
        r#""newer":[1.0]"#,
        r#""mood":"calm""#,
        "sess_abc123",
        "agent_xyz789",
        "thread_002",
    ] {
        assert!(written.contains(member), "{member} is not in {written}");
    }
    assert_eq!(
        read(&written),
        read(SAMPLE).map(|snapshot| {
            let mut snapshot = snapshot;
            snapshot.updated_at = read(&written).unwrap().updated_at;
            snapshot
        })
    );
}

#[test]
fn reserved_members_of_newer_versions_round_trip() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let text =
        SAMPLE.replace(r#""task": "Implement feature X""#, r#""turntree": {"later": {"a":1.50}}"#).replace(
            r#""subAgentStates": {}, "metadata": {}"#,
            r#""metadata": {"turntree": {"hint": [1.0], "messages": 1}}"#,
        );

    let written = fixture.load(&text).to_json().unwrap();

    assert!(written.contains(r#""turntree":{"messages":1,"hint":[1.0]}"#), "{written}");
    assert!(written.contains(r#""turntree":{"later":{"a":1.50}}"#), "{written}");
    assert_eq!(fixture.load(&written).to_json().unwrap(), written);
}

#[test]
fn the_version_is_checked_before_the_other_members() {
    for (version, fits) in [
        ("\"1.0.0\"", true),
        ("\"1.0.7\"", true),
        ("\"1.1.0\"", false),
        ("\"2.0.0\"", false),
        ("\"1.0\"", false),
        ("1", false),
    ] {
        let text = SAMPLE.replace("\"version\": \"1.0.0\"", &format!("\"version\": {version}"));
        assert_eq!(read(&text).is_ok(), fits, "{version}");
    }
    let other = r#"{"version":"2.0.0","turns":[]}"#;
    assert_eq!(
        read(other).unwrap_err(),
        "/version: the session is of UAP \"2.0.0\"; this version of turntree reads \"1.0.x\""
    );
    assert!(read("{}").unwrap_err().starts_with("/version: the version of UAP is missing"));
}

#[test]
fn a_checkpoint_whose_messages_were_removed_is_read_and_cannot_be_restored() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("0", fixture.context())).unwrap();
    let root = fixture.session.tree().snapshot().root().id.to_string();
    fixture.session.tree().lock().clear(&root, &clock()).unwrap();

    let again = fixture.reloaded();

    assert_eq!(again.to_json().unwrap(), fixture.session.to_json().unwrap());
    let id = again.checkpoints()[0].id.to_string();
    let refused = block_on(again.restore(&id)).unwrap_err();
    assert!(matches!(refused, SessionError::MessagesRemoved { needed: 2, found: 0, .. }), "{refused}");
}

#[test]
fn invalid_documents_are_refused_with_a_json_pointer() {
    let cases = [
        (r#""id": "sess_abc123""#, r#""id": """#, "/id: "),
        (r#""rootId": "node_root""#, r#""rootId": "x""#, "/threadTree/rootId: "),
        (r#""id": "cp_001""#, r#""id": """#, "/checkpoints/0/id: "),
        (r#""threadId": "node_root""#, r#""threadId": "x""#, "/checkpoints/0/threadId: "),
        (r#""step": 3, "threadId""#, r#""step": 4, "threadId""#, "/checkpoints/0/step: "),
        (r#""sessionId": "sess_abc123""#, r#""sessionId": "x""#, "/checkpoints/0/sessionId: "),
        (r#""status": "in_progress""#, r#""status": "lost""#, "/checkpoints/0/state/plan/0/status: "),
        (
            r#""subAgentStates": {}"#,
            r#""subAgentStates": {"call_1": {"version": "1.0.0", "id": "x"}}"#,
            "/checkpoints/0/subAgentStates/call_1: ",
        ),
        (
            r#""task": "Implement feature X""#,
            r#""turntree": {"currentCheckpointId": "x"}"#,
            "/metadata/turntree/currentCheckpointId: ",
        ),
    ];
    for (old, new, place) in cases {
        assert!(SAMPLE.contains(old), "{old}");
        let error = read(&SAMPLE.replacen(old, new, 1)).unwrap_err();
        assert!(error.starts_with(place), "{error} is not at {place}");
    }
    let deep = format!("{{\"version\":\"1.0.0\",\"x\":{}{}}}", "[".repeat(300), "]".repeat(300));
    assert!(read(&deep).unwrap_err().contains("nested deeper"));
}

#[test]
fn a_run_state_of_another_version_is_refused_with_a_remedy() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("1", fixture.context())).unwrap();
    let text = fixture.session.to_json().unwrap();
    let complete = json::write(&*fixture.session.checkpoints()[0]).unwrap();
    let shared = (text.clone(), r#""state":{"version":1,"#, "snapshot/state");
    let by_itself = (with_checkpoint(&text, &complete), r#""run":{"version":1,"#, "run");

    for (text, member, path) in [shared, by_itself] {
        assert!(text.contains(member), "{member} is not in {text}");
        let error = read(&text.replacen(member, &member.replace('1', "7"), 1)).unwrap_err();

        assert_eq!(
            error,
            format!(
                "/checkpoints/0/metadata/turntree/{path}/version: the state of a run has version 7; this version reads \
                 1; load it with the version that wrote it and finish the run there, or remove this member: the \
                 checkpoint remains and cannot be resumed"
            )
        );
    }
}

/// The JSON of a session with another first checkpoint.
fn with_checkpoint(session: &str, checkpoint: &str) -> String {
    let mut session: serde_json::Value = serde_json::from_str(session).unwrap();
    session["checkpoints"][0] = serde_json::from_str(checkpoint).unwrap();
    session.to_string()
}

#[test]
fn ids_that_are_not_uuids_fail_only_check_ids() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    block_on(fixture.session.run("one", fixture.context())).unwrap();

    assert!(fixture.session.snapshot().unwrap().check_ids().is_ok());
    let error = read(SAMPLE).unwrap().check_ids().unwrap_err();
    assert_eq!(error.to_string(), "/id: \"sess_abc123\" is not a UUIDv4");
}

#[test]
fn checkpoints_contain_the_sessions_of_sub_agents() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let child = Fixture::new(CheckpointInterval::Step);
    block_on(child.session.run("child", child.context())).unwrap();
    let state = std::sync::Arc::new(child.session.snapshot().unwrap());
    let mut run = Box::pin(fixture.session.run("2", fixture.context()));
    assert!(super::poll_at_most(run.as_mut(), 3).is_none());
    fixture.session.add_sub_agent("call-1-0", std::sync::Arc::clone(&state));
    fixture.session.add_sub_agent("call-1-0", std::sync::Arc::clone(&state));
    block_on(run).unwrap();

    let loaded = fixture.reloaded();

    let states = &loaded.checkpoints()[0].sub_agent_states;
    assert_eq!(states.get("call-1-0").map(|child| **child == *state), Some(true));
    assert_eq!(states.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>(), ["call-1-0", &*state.id]);
    assert_eq!(loaded.to_json().unwrap(), fixture.session.to_json().unwrap());
}

/// The addresses of all messages of a session: those of the tree first.
fn addresses(session: &Session) -> Vec<*const Message> {
    let tree = session.tree().snapshot();
    let mut addresses: Vec<_> =
        tree.nodes().flat_map(|node| &node.thread.messages).map(Arc::as_ptr).collect();
    for checkpoint in session.checkpoints() {
        addresses.extend(checkpoint.state().messages.iter().map(Arc::as_ptr));
    }
    addresses
}

#[test]
fn a_loaded_session_has_each_message_once() {
    let fixture = Fixture::new(CheckpointInterval::Step);
    let session = &fixture.session;
    for input in ["one", "two", "three"] {
        block_on(session.run(input, fixture.context())).unwrap();
    }
    let distinct = |session: &Session| addresses(session).into_iter().collect::<HashSet<_>>().len();

    let loaded = fixture.load(&session.to_json().unwrap());

    assert_eq!(distinct(&loaded), distinct(session));
    assert_eq!(addresses(&loaded).len(), addresses(session).len());
}
