//! The user's own rules, enforcers, replays, the stage of git hooks, the published schemas.

use std::fs;
use std::path::Path;

use serde_json::Value;
use turntree_harness::policy::decision::{Finding, Level, Matched};
use turntree_harness::policy::policies::Policies;
use turntree_harness::policy::{audit, commit, replay};
use turntree_harness::{Action, Gate, HarnessError, Outcome, Project, config, explain};

use crate::support::{Repository, git};

const RULE: &str = r#"
[[rule]]
id = "user.no-production"
reason = "production is changed by the pipeline"
remedy = "open a merge request"
[rule.when]
programs = ["kubectl", "helm"]
arguments = ["--context=prod*"]
"#;

fn with_rule(text: &str) -> (Repository, Gate) {
    let repository = Repository::new();
    let folder = repository.main().join("policies");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("team.policy.toml"), text).unwrap();
    let gate = Gate::load(&Project::find(&repository.tree()).unwrap()).unwrap();
    (repository, gate)
}

fn shell(gate: &Gate, command: &str) -> (Outcome, Vec<String>) {
    let cwd = gate.project().worktree.display().to_string();
    let decision = gate.check(&Action::shell(command, &cwd, None)).unwrap();
    (decision.outcome, decision.rules.iter().map(|matched| matched.finding.rule.to_string()).collect())
}

#[test]
fn a_rule_of_the_user_denies_what_matches_all_its_conditions() {
    let (_repository, gate) = with_rule(RULE);

    let denied = shell(&gate, "sh -c 'kubectl --context=prod-eu get pods'");

    assert_eq!(denied, (Outcome::Deny, vec!["user.no-production".to_owned()]));
    assert_eq!(shell(&gate, "kubectl --context=test get pods").0, Outcome::Allow);
    // A word that is not known may be the one.
    assert_eq!(shell(&gate, "kubectl $CONTEXT get pods").0, Outcome::Ask);
}

#[test]
fn the_configuration_sets_the_level_of_a_users_rule() {
    let (repository, _) = with_rule(RULE);
    let file = repository.main().join("turntree.toml");
    fs::write(file, "[policy.levels]\n\"user.no-production\" = \"shadow\"\n").unwrap();
    let gate = Gate::load(&Project::find(&repository.tree()).unwrap()).unwrap();
    let cwd = repository.tree().display().to_string();

    let decision = gate.check(&Action::shell("helm --context=prod list", &cwd, None)).unwrap();

    assert_eq!(decision.outcome, Outcome::Allow);
    assert_eq!(decision.shadow[0].rule, "user.no-production");
}

#[test]
fn a_rule_about_paths_sees_edits_and_redirects() {
    let rule = "[[rule]]\nid = \"user.frozen\"\noutcome = \"ask\"\nreason = \"r\"\nremedy = \"m\"\n[rule.when]\npaths = [\"api/**\"]\n";
    let (repository, gate) = with_rule(rule);
    let cwd = repository.tree().display().to_string();

    assert_eq!(gate.check(&Action::edit(&["api/a.rs"], "x", &cwd)).unwrap().outcome, Outcome::Ask);
    assert_eq!(shell(&gate, "echo x > api/a.rs").0, Outcome::Ask);
    assert_eq!(shell(&gate, "echo x > other.rs").0, Outcome::Allow);
}

#[test]
fn a_policy_file_that_is_not_valid_names_the_file_and_stops_tool_calls() {
    let repository = Repository::new();
    let folder = repository.main().join("policies");
    fs::create_dir_all(&folder).unwrap();
    for (text, words) in [
        ("[[rule]]\nid = \"git.mine\"\nreason = \"r\"\nremedy = \"m\"\n", "user."),
        ("[[rule]]\nid = \"user.a\"\nreson = \"r\"\n", "reson"),
        (
            "[[rule]]\nid = \"user.a\"\nreason = \"r\"\nremedy = \"m\"\nwhen = {arguments = [\"x\"]}\n",
            "programs",
        ),
    ] {
        fs::write(folder.join("a.policy.toml"), text).unwrap();
        let error = Gate::load(&Project::find(&repository.tree()).unwrap()).unwrap_err();
        assert!(error.to_string().contains("a.policy.toml") && error.to_string().contains(words), "{error}");
    }
    let event = serde_json::json!({"hook_event_name": "PreToolUse", "cwd": repository.tree(), "tool_name": "Bash",
        "tool_input": {"command": "ls"}});

    let reply = turntree_harness::hooks::handle("claude", event.to_string().as_bytes(), Path::new("/"));

    assert_eq!(reply.exit, 2);
}

#[cfg(unix)]
mod enforcers {
    use super::*;

    fn asked(script: &str, level: &str) -> (Outcome, String) {
        let rule = format!(
            "[[rule]]\nid = \"user.program\"\nlevel = \"{level}\"\nreason = \"no\"\nremedy = \"m\"\ntimeout_ms = 30000\n\
             enforcer = [\"sh\", \"-c\", '''{script}''', \"sh\"]\n[rule.when]\nprograms = [\"deploy\"]\n"
        );
        let (repository, gate) = with_rule(&rule);
        let cwd = repository.tree().display().to_string();
        let decision = gate.check(&Action::shell("deploy now", &cwd, None)).unwrap();
        (decision.outcome, decision.reason().unwrap_or_default().to_owned())
    }

    #[test]
    fn the_exit_status_decides_and_the_reply_has_the_reason() {
        assert_eq!(asked("exit 0", "required").0, Outcome::Allow);
        assert_eq!(asked("exit 2", "required"), (Outcome::Deny, "no".to_owned()));
        let reply = r#"echo "{\"allowed\": false, \"reason\": \"it is Friday\"}"; exit 2"#;
        assert_eq!(asked(reply, "required"), (Outcome::Deny, "it is Friday".to_owned()));
    }

    #[test]
    fn a_process_that_it_leaves_behind_hides_no_reply() {
        let left = r#"sleep 30 & echo "{\"allowed\": false, \"reason\": \"it is Friday\"}"; exit 0"#;
        assert_eq!(asked(left, "required"), (Outcome::Deny, "it is Friday".to_owned()));
        assert_eq!(asked("sleep 30 & exit 0", "required").0, Outcome::Allow);
    }

    #[test]
    fn a_reply_that_is_too_long_is_a_failure_and_not_a_permission() {
        let long = r#"echo '{"allowed": false, "reason": "'; head -c 300000 /dev/zero | tr '\0' x; echo '"}'; exit 0"#;
        let (outcome, reason) = asked(long, "required");
        assert_eq!(outcome, Outcome::Deny);
        assert!(reason.contains("more than 65536 bytes"), "{reason}");
    }

    #[test]
    fn it_gets_the_tool_and_the_facts() {
        let script = r#"case "$1 $2 $3 $4" in "--operation shell --args "*deploy*) exit 2;; esac"#;
        assert_eq!(asked(script, "required").0, Outcome::Deny);
    }

    #[test]
    fn a_failure_denies_at_the_level_required_and_warns_below_it() {
        assert_eq!(asked("exit 7", "required").0, Outcome::Deny);
        assert_eq!(asked("exit 7", "recommended").0, Outcome::Warn);
        assert!(asked("kill -9 $$", "required").1.contains("could not decide"));
    }

    #[test]
    fn one_that_takes_too_long_is_ended() {
        let rule = "[[rule]]\nid = \"user.slow\"\nreason = \"no\"\nremedy = \"m\"\ntimeout_ms = 50\n\
             enforcer = [\"sleep\", \"60\"]\n";
        let (_repository, gate) = with_rule(rule);

        // `sleep` gets options that it does not know, or waits: it fails either way.
        assert_eq!(shell(&gate, "ls").0, Outcome::Deny);
    }
}

#[test]
fn a_replay_shows_what_new_rules_would_change() {
    let (repository, gate) = with_rule("");
    shell(&gate, "helm --context=prod list");
    shell(&gate, "git push --force");
    shell(&gate, "ls");
    let folder = repository.main().join("new");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.policy.toml"), RULE).unwrap();
    let entries = audit::entries(gate.state(), 100).unwrap();

    let none = replay::CallersRules::default();
    let same = replay::replay(&gate, &entries, &none);
    let project = gate.project().clone();
    let other = replay::replay(&gate.with(&project, Policies::load(&folder).unwrap()), &entries, &none);

    assert_eq!((same.count, same.changes.len()), (3, 0));
    assert_eq!(other.changes.len(), 1);
    let change = &other.changes[0];
    assert_eq!((change.before.as_str(), change.after.as_str()), ("allow", "deny"));
    assert_eq!(change.subject, "helm --context=prod list");
}

#[test]
fn a_replay_asks_the_rules_of_the_caller_and_names_those_that_were_not_asked() {
    let (_repository, gate) = with_rule("");
    let finding = |rule: &'static str| {
        let (reason, remedy) = ("r".to_owned(), "m".to_owned());
        let finding = Finding { rule: rule.into(), outcome: Outcome::Deny, reason, remedy };
        Matched { finding, level: Level::Required, outcome: Outcome::Deny }
    };
    let cwd = gate.project().worktree.display().to_string();
    let action = |command: &str| Action::shell(command, &cwd, None);
    gate.check_with(&action("make a"), vec![finding("user.mine")]).unwrap();
    gate.check_with(&action("make b"), vec![finding("user.gone")]).unwrap();
    gate.check_with(&action("make c"), vec![finding("coordination.other")]).unwrap();
    let mut commit = action("git commit");
    commit.harness = "git".to_owned();
    gate.check_with(&commit, vec![finding("user.at-commit")]).unwrap();
    let entries = audit::entries(gate.state(), 100).unwrap();

    let actions = replay::actions(&entries);
    let found = actions.iter().map(|action| match action {
        Some(action) if action["command"] == "make a" => vec![finding("user.mine")],
        _ => Vec::new(),
    });
    let callers = replay::CallersRules { ids: vec!["user.mine".to_owned()], found: found.collect() };
    let replay = replay::replay(&gate, &entries, &callers);

    assert_eq!(actions.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!((replay.count, replay.skipped), (2, 2));
    assert_eq!(replay.not_asked, ["coordination.other", "user.at-commit", "user.gone"]);
    assert_eq!(replay.changes.len(), 1);
    assert_eq!(replay.changes[0].subject, "make b");
}

#[test]
fn a_commit_of_a_secret_is_denied_and_recorded() {
    let rule = "[[rule]]\nid = \"user.frozen\"\nstage = \"commit\"\nreason = \"r\"\nremedy = \"m\"\n[rule.when]\npaths = [\"api/**\"]\n";
    let (repository, gate) = with_rule(rule);
    let tree = repository.tree();
    let check = || commit::check(&gate, commit::GitHook::PreCommit, &tree).unwrap();
    fs::write(tree.join("notes.md"), "fine\n").unwrap();
    git(&tree, &["add", "."]);
    assert_eq!(check().outcome, Outcome::Allow);

    fs::write(tree.join("notes.md"), "key = AKIAQ3EGRIVKX7ZP5T2M\n").unwrap();
    fs::create_dir_all(tree.join("api")).unwrap();
    fs::write(tree.join("api/a.md"), "x\n").unwrap();
    git(&tree, &["add", "."]);
    let denied = check();

    let ids: Vec<&str> = denied.rules.iter().map(|matched| matched.finding.rule.as_ref()).collect();
    assert_eq!(denied.outcome, Outcome::Deny);
    assert!(ids.contains(&"secrets.literal") && ids.contains(&"user.frozen"), "{ids:?}");
    // A rule of that stage says nothing before actions.
    assert_eq!(shell(&gate, "echo x > api/b.md").0, Outcome::Allow);
    assert!(audit::verify(gate.state()).is_ok());
}

#[test]
fn a_key_of_the_configuration_is_explained_with_its_origin() {
    let repository = Repository::new();
    let file = repository.main().join("turntree.toml");
    fs::write(&file, "[policy]\nbehind_warn = 7\n").unwrap();
    let project = Project::find(&repository.tree()).unwrap();

    let keys = explain::explain(&project, "policy.behind").unwrap();

    let [warn, deny] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!((warn.value.as_u64(), warn.default.as_u64()), (Some(7), Some(50)));
    assert!(warn.origin.ends_with("turntree.toml") && deny.origin == "default");
    assert!(warn.description.contains("Commits behind"), "{warn:?}");
    assert!(matches!(explain::explain(&project, "nothing"), Err(HarnessError::Invalid(_))));
}

/// `TURNTREE_UPDATE_SCHEMAS=1` writes the files.
#[test]
fn the_published_schemas_are_the_generated_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    for (name, schema) in [("turntree.toml", config::schema()), ("policy.toml", config::policy_schema())] {
        let file = folder.join(format!("{name}.schema.json"));
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("TURNTREE_UPDATE_SCHEMAS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let published: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(published, schema, "{}: TURNTREE_UPDATE_SCHEMAS=1 cargo test … writes it", file.display());
    }
}
