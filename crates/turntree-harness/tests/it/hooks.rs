//! Events of harnesses and the replies to them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use turntree_harness::hooks::adapter::adapters;
use turntree_harness::hooks::{HookReply, handle, late};

use crate::support::Repository;

/// The fixture of a harness with a command in it: `tests/data/hooks/<harness>.json`.
fn event(harness: &str, command: &str, cwd: &Path) -> Vec<u8> {
    let file = format!("{}/tests/data/hooks/{harness}.json", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(file).unwrap();
    let quoted = serde_json::to_string(command).unwrap();
    text.replace("\"COMMAND\"", &quoted).replace("CWD", &cwd.display().to_string()).into_bytes()
}

fn denies(reply: &HookReply) -> bool {
    reply.exit == 2 || reply.stdout.contains("\"deny\"")
}

#[test]
fn the_adapters_are_valid() {
    let names: Vec<&str> = adapters().iter().map(|adapter| adapter.name.as_str()).collect();

    assert_eq!(names, ["claude", "factory", "codex", "cursor", "opencode", "generic"]);
}

#[test]
fn every_harness_blocks_a_denied_command_and_passes_an_allowed_one() {
    let repository = Repository::new();
    let tree = repository.tree();
    for adapter in adapters() {
        let denied = handle(&adapter.name, &event(&adapter.name, "git push --force", &tree), &tree);
        let allowed = handle(&adapter.name, &event(&adapter.name, "cargo test", &tree), &tree);

        assert!(denies(&denied), "{}: {denied:?}", adapter.name);
        let text = format!("{}{}", denied.stdout, denied.stderr);
        assert!(text.contains("git.force-push") && text.contains("Instead:"), "{}: {text}", adapter.name);
        assert!(!denies(&allowed) && allowed.exit == 0, "{}: {allowed:?}", adapter.name);
    }
}

#[test]
fn a_question_is_asked_where_the_harness_can_ask_and_denied_elsewhere() {
    let repository = Repository::new();
    let tree = repository.tree();
    let reply = |harness: &str| handle(harness, &event(harness, "npm publish", &tree), &tree);

    let claude: Value = serde_json::from_str(&reply("claude").stdout).unwrap();
    assert_eq!(claude["hookSpecificOutput"]["permissionDecision"], "ask");
    let cursor: Value = serde_json::from_str(&reply("cursor").stdout).unwrap();
    assert_eq!(cursor["permission"], "ask");
    assert_eq!(reply("codex").exit, 2);
    assert!(denies(&reply("opencode")));
}

#[test]
fn an_edit_of_a_file_that_another_session_edits_is_denied() {
    let repository = Repository::new();
    let tree = repository.tree();
    let edit = |session: &str| {
        let event = json!({"hook_event_name": "PreToolUse", "session_id": session, "cwd": tree, "tool_name": "Edit",
            "tool_input": {"file_path": tree.join("a.rs"), "new_string": "x"}});
        handle("claude", event.to_string().as_bytes(), &tree)
    };
    assert_eq!(edit("one").exit, 0);
    assert_eq!(edit("one").exit, 0);

    let second = edit("two");
    assert_eq!(second.exit, 2);
    assert!(
        second.stderr.contains("coordination.collision") && second.stderr.contains("claude:one"),
        "{}",
        second.stderr
    );

    let end = json!({"hook_event_name": "SessionEnd", "session_id": "one", "cwd": tree});
    handle("claude", end.to_string().as_bytes(), &tree);

    assert_eq!(edit("two").exit, 0);
}

#[test]
fn a_session_starts_with_rules_and_where_to_work() {
    let repository = Repository::new();
    let start = json!({"hook_event_name": "SessionStart", "session_id": "a", "cwd": repository.main(), "source": "startup"});

    let reply = handle("claude", start.to_string().as_bytes(), &repository.main());

    assert_eq!(reply.exit, 0);
    assert!(
        reply.stdout.contains("turntree worktree create") && reply.stdout.contains("git.force-push"),
        "{}",
        reply.stdout
    );
}

#[test]
fn the_end_of_a_turn_is_stopped_once_if_files_are_uncommitted() {
    let repository = Repository::new();
    let tree = repository.tree();
    fs::write(tree.join("b.rs"), "").unwrap();
    let stop = json!({"hook_event_name": "Stop", "session_id": "a", "cwd": tree}).to_string();

    assert_eq!(handle("claude", stop.as_bytes(), &tree).exit, 2);
    assert_eq!(handle("claude", stop.as_bytes(), &tree).exit, 0);
}

#[test]
fn a_tool_call_that_cannot_be_checked_is_blocked_and_context_fails_open() {
    let repository = Repository::new();
    let tree = repository.tree();
    fs::create_dir_all(repository.main().join(".turntree")).unwrap();
    fs::write(
        repository.main().join(".turntree/state.db"),
        "this is not a database, it is a text of some length",
    )
    .unwrap();

    for adapter in adapters() {
        assert!(
            denies(&handle(&adapter.name, &event(&adapter.name, "ls", &tree), &tree)),
            "{}",
            adapter.name
        );
    }
    let start = json!({"hook_event_name": "SessionStart", "session_id": "a", "cwd": tree}).to_string();

    assert_eq!(handle("claude", start.as_bytes(), &tree), HookReply::default());
}

#[test]
fn an_event_that_is_late_ends_as_the_fail_table_says() {
    let tree = Path::new("/");
    for adapter in adapters() {
        let name = adapter.name.as_str();
        assert!(denies(&late(name, &event(name, "ls", tree))), "{name}");
        assert!(denies(&late(name, b"")), "{name}");
    }
    let start = json!({"hook_event_name": "SessionStart", "session_id": "a", "cwd": tree}).to_string();
    assert_eq!(late("claude", start.as_bytes()), HookReply::default());
}

#[cfg(unix)]
mod program {
    use std::io::{PipeWriter, Write as _};
    use std::process::{Child, Command, Output, Stdio};

    use super::*;

    /// The hook program with a deadline in milliseconds, and its input, which begins with an event.
    fn start(deadline: &str, event: &[u8]) -> (Child, PipeWriter) {
        let (input, mut writer) = std::io::pipe().unwrap();
        // Before the start: the program may end before this thread goes on.
        writer.write_all(event).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_turntree-hook"))
            .args(["--harness", "claude"])
            .env("TURNTREE_HOOK_DEADLINE_MS", deadline)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        (child, writer)
    }

    fn blocked(output: &Output) -> String {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        text
    }

    #[test]
    fn an_event_that_never_ends_blocks_at_the_deadline() {
        // Held open: the program waits for the rest.
        let (child, input) = start("50", b"{\"hook_event_name\": \"PreToolUse\",");

        let output = child.wait_with_output().unwrap();

        assert!(blocked(&output).contains("it took too long"));
        drop(input);
    }

    #[test]
    fn a_call_that_is_not_decided_at_the_deadline_is_blocked() {
        let repository = Repository::new();
        fs::create_dir_all(repository.main().join("policies")).unwrap();
        let rule = r#"[[rule]]
            id = "user.slow"
            reason = "r"
            remedy = "m"
            timeout_ms = 30000
            enforcer = ["sh", "-c", "exec sleep 30"]
        "#;
        fs::write(repository.main().join("policies/a.policy.toml"), rule).unwrap();
        let (child, input) = start("300", &event("claude", "ls", &repository.tree()));
        drop(input);

        let output = child.wait_with_output().unwrap();

        assert!(blocked(&output).contains("it took too long"));
    }
}

#[test]
fn an_unknown_harness_blocks() {
    assert_eq!(handle("vim", b"{}", Path::new("/")).exit, 2);
}

/// One repository for all cases.
static SHARED: std::sync::LazyLock<Repository> = std::sync::LazyLock::new(Repository::new);

/// 64 cases, or as many as `PROPTEST_CASES` says.
fn config() -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        default
    } else {
        ProptestConfig { cases: 64, ..default }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn arbitrary_bytes_never_pass_as_a_tool_call(bytes in proptest::collection::vec(any::<u8>(), 0..200), index in 0_usize..6) {
        let name = adapters()[index].name.as_str();

        let reply = handle(name, &bytes, Path::new("/nonexistent"));

        prop_assert!(denies(&reply), "{name}: {reply:?}");
    }

    #[test]
    fn arbitrary_bytes_around_a_denied_event_never_make_it_pass(
        before in proptest::collection::vec(any::<u8>(), 0..20), after in proptest::collection::vec(any::<u8>(), 0..20),
        key in "[a-z_]{12}", value in any::<String>(), index in 0_usize..6,
    ) {
        let name = adapters()[index].name.as_str();
        let cwd = &SHARED.tree();
        let denied = String::from_utf8(event(name, "git push --force", cwd)).unwrap();
        let extra = format!("{{{}:{},", json!(key), json!(value));
        let wrapped = denied.replacen('{', &extra, 1);

        prop_assert!(denies(&handle(name, wrapped.as_bytes(), cwd)), "{name}: {wrapped}");
        let bytes = [&before[..], denied.trim().as_bytes(), &after[..]].concat();
        prop_assert!(denies(&handle(name, &bytes, cwd)), "{name}: {bytes:?}");
    }

    #[test]
    fn arbitrary_commands_never_panic_and_a_denied_command_behind_them_stays_denied(text in "[ a-z$(){}'\"`;|&<>\\\\\n-]{0,60}") {
        use turntree_harness::shell::{Surroundings, analyze};

        let script = analyze(&format!("{text}\ngit push --force"), &Surroundings::default());

        let is_found = script.commands.iter().any(|command| command.program().as_deref() == Some("git"));
        let is_unknown = !script.unknown.is_empty();
        let is_swallowed = text.contains(['\'', '"', '`', '<', '\\', '(', '{', '$', '-', '|', '&']);
        prop_assert!(is_found || is_unknown || is_swallowed, "{script:?}");
    }
}
