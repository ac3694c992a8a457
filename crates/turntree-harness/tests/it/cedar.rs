//! The user's own rules in Cedar, from file to decision.

use std::fs;
use std::path::Path;

use serde_json::json;
use turntree_harness::policy::cedar::CedarRules;
use turntree_harness::policy::policies::Policies;
use turntree_harness::policy::{audit, commit, replay};
use turntree_harness::{Action, Decision, Gate, HarnessError, Outcome, Project, config, explain, hooks};

use crate::support::{Repository, git};

const RULES: &str = r#"
@id("user.no-production")
@reason("production is changed by the pipeline")
@remedy("open a merge request")
forbid (principal, action == Action::"shell", resource)
when { context.program == "kubectl" && context.arguments.contains("prod") };

@id("user.api")
@outcome("ask")
@reason("the interface is frozen")
@remedy("write a proposal")
forbid (principal, action == Action::"edit", resource)
when { context.path like "api/*" };

@id("user.tickets")
@level("recommended")
@reason("tickets are closed by people")
@remedy("write a comment")
forbid (principal, action == Action::"mcp", resource == Resource::"tracker/close");
"#;

fn gate_of(repository: &Repository) -> Gate {
    Gate::load(&Project::find(&repository.tree()).unwrap()).unwrap()
}

fn with(text: &str) -> (Repository, Gate) {
    let repository = Repository::new();
    fs::create_dir_all(repository.main().join("policies")).unwrap();
    fs::write(repository.main().join("policies/team.cedar"), text).unwrap();
    let gate = gate_of(&repository);
    (repository, gate)
}

fn shell(gate: &Gate, command: &str) -> Decision {
    let cwd = gate.project().worktree.display().to_string();
    gate.check(&Action::shell(command, &cwd, None)).unwrap()
}

fn ids(decision: &Decision) -> Vec<&str> {
    decision.rules.iter().map(|matched| matched.finding.rule.as_ref()).collect()
}

#[test]
fn a_rule_in_cedar_decides_about_every_command_wherever_it_stands() {
    let (_repository, gate) = with(RULES);

    let denied = shell(&gate, "cd /tmp; sh -c 'sudo kubectl delete pod prod' | cat");

    assert_eq!((denied.outcome, ids(&denied).contains(&"user.no-production")), (Outcome::Deny, true));
    let denied = shell(&gate, "kubectl get pods prod");
    assert_eq!(denied.reason(), Some("production is changed by the pipeline"));
    assert_eq!(denied.remedy(), Some("open a merge request"));
    assert_eq!(shell(&gate, "kubectl get pods test").outcome, Outcome::Allow);
    assert_eq!(shell(&gate, "echo kubectl prod").outcome, Outcome::Allow);
    // A word that is not known may be the one.
    assert_eq!(shell(&gate, "kubectl get pods $WHERE").outcome, Outcome::Ask);
    assert_eq!(shell(&gate, "kubectl get $WHAT prod").outcome, Outcome::Deny);
}

#[test]
fn a_rule_about_paths_sees_edits_and_what_commands_write() {
    let (repository, gate) = with(RULES);
    let cwd = repository.tree().display().to_string();

    assert_eq!(gate.check(&Action::edit(&["api/a.rs"], "x", &cwd)).unwrap().outcome, Outcome::Ask);
    assert_eq!(ids(&shell(&gate, "echo x > api/a.rs")), ["user.api"]);
    assert_eq!(ids(&shell(&gate, "rm src/../api/a.rs")), ["user.api"]);
    assert_eq!(shell(&gate, "echo x > other.rs").outcome, Outcome::Allow);
    let close = gate.check(&Action::mcp("tracker", "close", json!({"id": 1}), &cwd)).unwrap();
    assert_eq!((close.outcome, ids(&close)), (Outcome::Warn, vec!["user.tickets"]));
}

#[test]
fn levels_shadow_and_exceptions_hold_for_them() {
    let (repository, _) = with(RULES);
    let file = repository.main().join("turntree.toml");
    fs::write(&file, "[policy.levels]\n\"user.no-production\" = \"shadow\"\n\"user.api\" = \"off\"\n")
        .unwrap();
    let gate = gate_of(&repository);

    let decision = shell(&gate, "kubectl get prod > api/x");

    assert_eq!(decision.outcome, Outcome::Allow);
    assert_eq!(decision.shadow[0].rule, "user.no-production");
    let keys = explain::explain(gate.project(), "policy.levels.user.").unwrap();
    let shown: Vec<_> = keys.iter().map(|key| (key.key.as_str(), key.value.as_str().unwrap())).collect();
    assert_eq!(
        shown,
        [
            ("policy.levels.user.no-production", "shadow"),
            ("policy.levels.user.api", "off"),
            ("policy.levels.user.tickets", "recommended"),
        ]
    );
    assert!(keys[0].origin.ends_with("turntree.toml"), "{keys:?}");
    assert!(keys[2].origin.ends_with("team.cedar:15"), "{keys:?}");
}

#[test]
fn a_replay_and_the_audit_know_them() {
    let (repository, gate) = with(RULES);
    let before = shell(&gate, "kubectl get prod");
    shell(&gate, "kubectl get test");
    let entries = audit::entries(gate.state(), 10).unwrap();
    assert_eq!(entries[1].rules[0]["id"], "user.no-production");
    let other = repository.main().join("other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("a.cedar"), RULES.replace("\"prod\"", "\"test\"")).unwrap();

    let policies = Policies::load(&other).unwrap();
    let found = replay::replay(
        &gate.clone().with(gate.project(), policies.clone()),
        &entries,
        &replay::CallersRules::default(),
    );

    let changes: Vec<_> = found.changes.iter().map(|change| change.after.as_str()).collect();
    assert_eq!((found.count, changes), (2, vec!["deny", "allow"]));
    let after = gate.clone().with(gate.project(), policies).decide(
        &Action::shell("ls", "/", None),
        &[],
        &turntree_harness::policy::context::Alone,
    );
    assert_ne!(before.policy_set, after.policy_set);
}

#[test]
fn a_rule_of_the_stage_of_commits_is_asked_by_git_alone() {
    let (repository, gate) = with(
        "@id(\"user.frozen\") @stage(\"commit\") @reason(\"r\") @remedy(\"m\")\n\
         forbid (principal, action == Action::\"edit\", resource) \
         when { context has added && context.added like \"*FIXME*\" };",
    );
    let cwd = repository.tree().display().to_string();
    fs::write(repository.tree().join("a.md"), "FIXME\n").unwrap();
    git(&repository.tree(), &["add", "."]);

    let denied = commit::check(&gate, commit::GitHook::PreCommit, &repository.tree()).unwrap();

    assert_eq!((denied.outcome, ids(&denied)), (Outcome::Deny, vec!["user.frozen"]));
    assert_eq!(gate.check(&Action::edit(&["a.md"], "FIXME", &cwd)).unwrap().outcome, Outcome::Allow);
}

#[test]
fn a_file_that_is_not_valid_stops_tool_calls_and_says_where_and_what_to_do() {
    let repository = Repository::new();
    let folder = repository.main().join("policies");
    fs::create_dir_all(&folder).unwrap();
    let rest = "forbid (principal, action, resource);";
    for (head, words) in [
        ("", "a.cedar:2: expected \"user.\" and a name in @id"),
        ("@id(\"git.x\")", "@id(\"user.NAME\")"),
        ("@id(\"user.a\") @reason(\"r\")", "a.cedar:2: user.a: @remedy is missing"),
        (
            "@id(\"user.a\") @reason(\"r\") @remedy(\"m\") @levle(\"off\")",
            "no annotation is called \"@levle\"",
        ),
        ("@id(\"user.a\") @reason(\"r\") @remedy(\"m\") @level(\"of\")", "@level is \"of\"; expected"),
        ("@id(\"user.a\") @reason(\"r\") @remedy(\"m\") @outcome(\"allow\")", "@outcome is \"allow\""),
        ("@id(\"user.a\") permit;", "a.cedar:2"),
    ] {
        fs::write(folder.join("a.cedar"), format!("// Ours.\n{head}\n{rest}").replace("\n\n", "\n")).unwrap();
        let error = Gate::load(&Project::find(&repository.tree()).unwrap()).unwrap_err();
        assert!(matches!(error, HarnessError::Invalid(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let event = json!({"hook_event_name": "PreToolUse", "cwd": repository.tree(), "tool_name": "Bash",
        "tool_input": {"command": "ls"}});

    let reply = hooks::handle("claude", event.to_string().as_bytes(), Path::new("/"));

    assert_eq!(reply.exit, 2);
    assert!(reply.stderr.contains("a.cedar:2"), "{}", reply.stderr);
}

#[test]
fn files_that_were_valid_are_not_checked_again() {
    let (repository, gate) = with(RULES);
    let marker = repository.main().join(".turntree/policies.checked");
    let file = gate.project().root.join("policies/team.cedar");
    let digest = |text: &str| CedarRules::digest(&[(file.display().to_string(), text.to_owned())]);
    assert_eq!(fs::read_to_string(&marker).unwrap(), digest(RULES));
    assert_eq!(ids(&shell(&gate_of(&repository), "kubectl get prod")), ["user.no-production"]);

    // The marker is about other files: a rule about what does not exist is refused, as before.
    let wrong = RULES.replace("context.program", "context.programme");
    fs::write(&file, &wrong).unwrap();
    assert!(Gate::load(gate.project()).unwrap_err().to_string().contains("programme"));
    assert_eq!(fs::read_to_string(&marker).unwrap(), digest(RULES));

    // A forged one lets it pass, and the rule denies what it cannot decide about.
    fs::write(&marker, digest(&wrong)).unwrap();
    let denied = shell(&gate_of(&repository), "ls");
    assert_eq!((denied.outcome, denied.reason()), (Outcome::Deny, Some("the rule could not be evaluated")));
}

#[test]
fn a_marker_that_cannot_be_written_is_no_error() {
    let (repository, gate) = with(RULES);
    let marker = repository.main().join(".turntree/policies.checked");
    fs::remove_file(&marker).unwrap();
    fs::create_dir(&marker).unwrap();
    fs::write(marker.join("full"), "").unwrap();

    assert_eq!(shell(&gate_of(&repository), "kubectl get prod").outcome, Outcome::Deny);

    let left = fs::read_dir(gate.project().state_folder()).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    assert!(names.into_iter().all(|name| !name.contains("new-")));
}

#[test]
fn an_id_stands_once_in_all_files() {
    let repository = Repository::new();
    let folder = repository.main().join("policies");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.cedar"), RULES).unwrap();
    fs::write(folder.join("b.policy.toml"), "[[rule]]\nid = \"user.api\"\nreason = \"r\"\nremedy = \"m\"\n")
        .unwrap();

    let error = Policies::load(&folder).unwrap_err().to_string();

    assert!(error.contains("a.cedar:8: user.api") && error.contains("rename one"), "{error}");
}

#[test]
fn agents_do_not_edit_policies() {
    let (repository, gate) = with(RULES);
    let cwd = repository.tree().display().to_string();

    let edit = gate.check(&Action::edit(&["policies/team.cedar"], "x", &cwd)).unwrap();

    assert!(ids(&edit).contains(&"harness.self-protect"), "{edit:?}");
    assert!(ids(&shell(&gate, "rm policies/TEAM.cedar")).contains(&"harness.self-protect"));
}

#[test]
fn a_permit_lists_all_that_is_allowed() {
    let (repository, gate) = with(
        r#"@id("user.only") @reason("this agent reads") @remedy("ask for more")
           permit (principal, action == Action::"shell", resource) when { ["ls", "cat"].contains(context.program) };
           permit (principal, action == Action::"read", resource);"#,
    );
    let cwd = repository.tree().display().to_string();

    assert_eq!(shell(&gate, "ls | cat").outcome, Outcome::Allow);
    assert_eq!(ids(&shell(&gate, "ls | wc -l")), ["user.only"]);
    assert_eq!(gate.check(&Action::edit(&["a.rs"], "x", &cwd)).unwrap().outcome, Outcome::Deny);
    assert_eq!(gate.check(&Action::read(&["a.rs"], &cwd)).unwrap().outcome, Outcome::Allow);
}

#[test]
fn a_command_with_too_many_parts_is_not_decided() {
    let (_repository, gate) = with(RULES);

    let decision = shell(&gate, &"ls a; ".repeat(1_001));

    assert!(
        decision.rules.iter().any(|matched| matched.finding.rule == "user.no-production"),
        "{decision:?}"
    );
    assert_eq!(decision.outcome, Outcome::Deny);
}

#[test]
fn the_published_schema_is_that_of_the_program() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/turntree.cedarschema");

    assert_eq!(fs::read_to_string(file).unwrap(), config::cedar_schema());
}
