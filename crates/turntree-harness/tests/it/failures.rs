//! What happens to events that cannot be handled as usual: by the kind of the event.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use turntree_harness::hooks::adapter::adapters;
use turntree_harness::hooks::pipeline::MAX_EVENT;
use turntree_harness::hooks::{HookReply, Invocation, handle, late};
use turntree_harness::policy::audit;
use turntree_harness::{Gate, Project};

use crate::support::Repository;

fn named<'a>(harness: &'a str, event: &'a str) -> Invocation<'a> {
    Invocation { harness, event: Some(event) }
}

fn denies(reply: &HookReply) -> bool {
    reply.exit == 2 || reply.stdout.contains("\"deny\"")
}

/// An event of Claude Code of a tool call, before or after it.
fn event(name: &str, command: &str, cwd: &Path) -> Value {
    json!({"session_id": "s", "cwd": cwd, "hook_event_name": name, "tool_name": "Bash",
        "tool_input": {"command": command}})
}

/// Files that are not valid, each with a word of the error.
const BROKEN: &[(&str, &str)] = &[
    ("[policy\nprotected_branches = [\"release/*\"]\n", "TOML"),
    ("[policy]\nprotected_branches = \"release/*\"\n", "protected_branches"),
    ("[policy]\nprotected_branchs = [\"release/*\"]\n", "protected_branchs"),
    ("[policy.levels]\n\"git.push\" = \"required\"\n", "git.push"),
    ("[policy]\nbehind_deny = -1\n", "behind_deny"),
];

#[test]
fn a_configuration_that_is_not_valid_never_turns_a_denial_into_consent() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    let check =
        |command: &str| handle("claude", event("PreToolUse", command, &tree).to_string().as_bytes(), &tree);
    let push = "git push origin HEAD:release/1";
    fs::write(main.join("turntree.toml"), "[policy]\nprotected_branches = [\"release/*\"]\n").unwrap();
    assert_eq!(check(push).exit, 2);

    for (text, word) in BROKEN {
        fs::write(main.join("turntree.toml"), text).unwrap();

        let asked = check(push);
        assert!(asked.exit == 0 && asked.stdout.contains("\"ask\""), "{text}: {asked:?}");
        assert!(
            asked.stdout.contains("harness.configuration") && asked.stdout.contains(word),
            "{text}: {asked:?}"
        );
        // What the defaults deny stays denied, and the question does not replace the reason.
        let denied = check("git push --force");
        assert!(denied.exit == 2 && denied.stderr.contains("git.force-push"), "{text}: {denied:?}");
        let edit = json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": tree, "tool_name": "Read",
            "tool_input": {"file_path": tree.join("a.rs")}});
        assert!(handle("claude", edit.to_string().as_bytes(), &tree).stdout.contains("\"ask\""));
    }
}

#[test]
fn a_harness_without_questions_denies_while_the_configuration_is_not_valid() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    fs::write(main.join("turntree.toml"), "[policy\n").unwrap();

    let codex = handle("codex", event("PreToolUse", "ls", &tree).to_string().as_bytes(), &tree);
    let plugin =
        json!({"event": "tool.execute.before", "tool": "bash", "args": {"command": "ls"}, "directory": tree});

    assert!(codex.exit == 2 && codex.stderr.contains("turntree.toml"), "{codex:?}");
    assert!(denies(&handle("opencode", plugin.to_string().as_bytes(), &tree)));
}

#[test]
fn a_configuration_that_cannot_be_read_counts_as_not_valid() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    let check = || handle("claude", event("PreToolUse", "ls", &tree).to_string().as_bytes(), &tree);
    assert_eq!(check(), HookReply::default());

    fs::create_dir(main.join("turntree.toml")).unwrap();
    assert!(check().stdout.contains("\"ask\""));
    fs::remove_dir(main.join("turntree.toml")).unwrap();
    fs::write(main.join("turntree.toml"), b"\xff\xfe").unwrap();
    assert!(check().stdout.contains("\"ask\""));
    fs::remove_file(main.join("turntree.toml")).unwrap();
    std::os::unix::fs::symlink("missing.toml", main.join("turntree.toml")).unwrap();
    assert!(check().stdout.contains("\"ask\""));
}

#[test]
fn a_link_to_a_missing_configuration_counts_as_not_valid_outside_of_repositories() {
    let folder = std::env::temp_dir().join(format!("turntree-{}", std::process::id()));
    fs::create_dir_all(folder.join("inner")).unwrap();
    let link = folder.join("turntree.toml");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink("missing.toml", &link).unwrap();

    let cwd = folder.join("inner");
    let reply = handle("claude", event("PreToolUse", "ls", &cwd).to_string().as_bytes(), &cwd);

    assert!(reply.stdout.contains("harness.configuration"), "{reply:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_configuration_that_is_not_valid_is_in_the_context_and_in_the_audit() {
    let repository = Repository::new();
    let (main, tree) = (repository.main(), repository.tree());
    fs::write(main.join("turntree.toml"), "[policy]\nbehind = 1\n").unwrap();

    let start = json!({"hook_event_name": "SessionStart", "session_id": "s", "cwd": tree}).to_string();
    let reply = handle("claude", start.as_bytes(), &tree);
    handle("claude", event("PreToolUse", "ls", &tree).to_string().as_bytes(), &tree);

    assert!(reply.exit == 0 && reply.stdout.contains("turntree.toml is not valid"), "{reply:?}");
    fs::remove_file(main.join("turntree.toml")).unwrap();
    let gate = Gate::load(&Project::find(&tree).unwrap()).unwrap();
    let entry = audit::entries(gate.state(), 1).unwrap().remove(0);
    assert_eq!((entry.outcome.as_str(), &entry.rules[0]["id"]), ("ask", &json!("harness.configuration")));
    assert_eq!(audit::verify(gate.state()).unwrap(), 1);
}

/// An event with an output that makes it as long as wanted, before or after the name.
fn padded(name: &str, length: usize, is_name_first: bool) -> Vec<u8> {
    let output = "\\u0041\\\\\\\"{[".repeat(length / 12);
    let name = format!("\"hook_event_name\": \"{name}\"");
    let rest = format!("\"tool_name\": \"Bash\", \"tool_response\": {{\"stdout\": [\"{output}\"]}}");
    if is_name_first { format!("{{{name}, {rest}}}") } else { format!("{{{rest}, {name}}}") }.into_bytes()
}

#[test]
fn an_event_that_is_too_large_ends_by_its_kind() {
    let cwd = Path::new("/");
    let large = MAX_EVENT + 1_000;
    for name in ["PostToolUse", "SessionStart", "UserPromptSubmit", "Stop", "Notification"] {
        assert_eq!(handle("claude", &padded(name, large, true), cwd), HookReply::default(), "{name}");
    }
    for name in ["PreToolUse", "PermissionRequest"] {
        let reply = handle("claude", &padded(name, large, true), cwd);
        assert!(denies(&reply) && reply.stderr.contains("larger than 10 MiB"), "{name}: {reply:?}");
    }
    // Its name is behind what is read.
    let unnamed = padded("PostToolUse", large, false);
    let read = &unnamed[..=MAX_EVENT];
    assert!(denies(&handle("claude", read, cwd)));
    assert_eq!(handle(named("claude", "post-tool"), read, cwd), HookReply::default());
    assert!(denies(&handle(named("claude", "pre-tool"), &padded("PostToolUse", large, true), cwd)));
}

#[test]
fn an_event_that_is_not_json_ends_by_its_kind() {
    let cwd = Path::new("/");
    let deep = |name: &str| {
        format!("{{\"hook_event_name\": \"{name}\", \"tool_response\": {}", "[{\"a\":".repeat(100_000))
            .into_bytes()
    };
    let not_text = |name: &str| {
        [format!("{{\"hook_event_name\": \"{name}\", \"tool_response\": \"").as_bytes(), b"\xff\xc0\"}"]
            .concat()
    };
    let cut = |name: &str| format!("{{\"hook_event_name\": \"{name}\", \"tool_resp").into_bytes();
    for make in [&deep as &dyn Fn(&str) -> Vec<u8>, &not_text, &cut] {
        assert_eq!(handle("claude", &make("PostToolUse"), cwd), HookReply::default());
        assert!(denies(&handle("claude", &make("PreToolUse"), cwd)));
        assert!(denies(&late("claude", &make("PreToolUse"))));
        assert_eq!(late("claude", &make("PostToolUse")), HookReply::default());
    }
}

#[test]
fn of_two_names_that_one_event_has_that_of_a_tool_call_counts() {
    let both =
        b"{\"hook_event_name\": \"PostToolUse\", \"hook_event_name\": \"PreToolUse\", \"tool_response\": \"";

    assert!(denies(&handle("claude", both, Path::new("/"))));
    // What a tool gets or returns is no name of the event.
    let inner = b"{\"tool_input\": {\"hook_event_name\": \"PostToolUse\"}, \"tool_name\": \"Bash\", \"x";
    assert!(denies(&handle("claude", inner, Path::new("/"))));
}

#[test]
fn an_argument_names_an_event_that_has_no_name() {
    let repository = Repository::new();
    let tree = repository.tree();
    for adapter in adapters() {
        let harness = adapter.name.as_str();
        let mut event = json!({"cwd": tree, "directory": tree});
        let names = (adapter.tool_keys[0].as_str(), adapter.input_keys[0].as_str());
        event[names.0] = "bash".into();
        event[names.1] = json!({"command": "git push --force"});
        let event = event.to_string();
        for argument in ["pre-tool", "pre_tool"] {
            let reply = handle(named(harness, argument), event.as_bytes(), &tree);
            let text = format!("{}{}", reply.stdout, reply.stderr);
            assert!(denies(&reply) && text.contains("git.force-push"), "{harness}: {reply:?}");
        }
        assert!(denies(&handle(harness, event.as_bytes(), &tree)), "{harness}");
        let reply = handle(named(harness, "post-tool"), event.as_bytes(), &tree);
        assert!(!denies(&reply), "{harness}: {reply:?}");
    }
}

#[test]
fn an_argument_that_names_no_event_is_refused_as_the_fail_table_says() {
    let repository = Repository::new();
    let tree = repository.tree();
    let check = |event: Value| handle(named("claude", "pre-toll"), event.to_string().as_bytes(), &tree);

    let unnamed = check(json!({"cwd": tree, "tool_name": "Bash", "tool_input": {"command": "ls"}}));
    let before = check(event("PreToolUse", "ls", &tree));
    let after = check(event("PostToolUse", "ls", &tree));

    for reply in [&unnamed, &before, &after] {
        assert!(
            reply.stderr.contains("no event \"pre-toll\"") && reply.stderr.contains("pre-tool,"),
            "{reply:?}"
        );
    }
    assert_eq!([unnamed.exit, before.exit, after.exit], [2, 2, 0]);
}

#[test]
fn an_argument_that_contradicts_the_event_blocks_tool_calls_only() {
    let repository = Repository::new();
    let tree = repository.tree();
    let check = |argument: &str, name: &str| {
        handle(named("claude", argument), event(name, "ls", &tree).to_string().as_bytes(), &tree)
    };

    for (argument, name) in
        [("post-tool", "PreToolUse"), ("stop", "PermissionRequest"), ("pre-tool", "PostToolUse")]
    {
        let reply = check(argument, name);
        assert!(
            reply.exit == 2 && reply.stderr.contains("correct the command"),
            "{argument} {name}: {reply:?}"
        );
    }
    // The name of the event counts.
    let start = json!({"hook_event_name": "SessionStart", "session_id": "a", "cwd": tree}).to_string();
    assert!(handle(named("claude", "stop"), start.as_bytes(), &tree).stdout.contains("Active rules"));
    assert_eq!(check("pre-tool", "PermissionRequest"), HookReply::default());
    assert_eq!(check("PreToolUse", "PreToolUse"), HookReply::default());
}

#[cfg(unix)]
mod program {
    use std::io::Write as _;
    use std::process::{Command, Output, Stdio};
    use std::thread;

    use super::*;

    /// Runs the hook program. What it does not read is lost.
    fn run(arguments: &[&str], input: Vec<u8>) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_turntree-hook"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = thread::spawn(move || stdin.write_all(&input).is_ok());
        let output = child.wait_with_output().unwrap();
        assert!(writer.join().unwrap(), "the program has not read its input");
        output
    }

    fn status(arguments: &[&str], input: Vec<u8>) -> Option<i32> {
        run(arguments, input).status.code()
    }

    #[test]
    fn the_program_ends_large_events_by_their_kind_and_reads_all_of_them() {
        let large = 30 * 1024 * 1024;

        assert_eq!(status(&["--harness", "claude"], padded("PostToolUse", large, true)), Some(0));
        assert_eq!(status(&["--harness", "claude"], padded("PreToolUse", large, true)), Some(2));
        assert_eq!(status(&["--harness=claude", "post-tool"], padded("PostToolUse", large, false)), Some(0));
    }

    #[test]
    fn the_program_checks_its_arguments() {
        let repository = Repository::new();
        let tree = repository.tree();
        let unnamed =
            json!({"cwd": tree, "tool_name": "Bash", "tool_input": {"command": "git push --force"}});
        let event = |name: &str| event(name, "ls", &tree).to_string().into_bytes();

        let named = run(&["pre-tool", "--harness", "claude"], unnamed.to_string().into_bytes());
        assert_eq!(named.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&named.stderr).contains("git.force-push"));
        for wrong in [&["pre-toll"] as &[&str], &["pre-tool", "stop"], &["--fast"], &["--harnes", "claude"]] {
            let output = run(wrong, event("PreToolUse"));
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(2) && text.contains("no event"), "{wrong:?}: {text}");
            assert_eq!(status(wrong, event("PostToolUse")), Some(0), "{wrong:?}");
        }
        assert_eq!(status(&["--harness"], event("PostToolUse")), Some(2));
        assert_eq!(status(&["pre-tool"], event("PreToolUse")), Some(0));
    }
}
