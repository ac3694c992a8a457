//! The stage of git hooks: what is about to be committed or pushed.

use std::path::{Path, PathBuf};

use turntree_core::runtime::environment;

use super::action::Action;
use super::context::{OtherAgent, Others};
use super::decision::Decision;
use super::gate::Gate;
use super::overrides;
use super::rules::Stage;
use crate::error::HarnessError;
use crate::git::{run, run_on};

/// The harness of actions that git's hooks decide about.
pub(super) const GIT: &str = "git";

/// A hook of git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitHook {
    /// Before a commit.
    PreCommit,
    /// Before a push.
    PrePush,
}

impl GitHook {
    /// The hook with a name.
    ///
    /// # Errors
    /// [`HarnessError::Invalid`] for another name.
    pub fn named(name: &str) -> Result<Self, HarnessError> {
        match name {
            "pre-commit" => Ok(Self::PreCommit),
            "pre-push" => Ok(Self::PrePush),
            _ => Err(HarnessError::Invalid(format!(
                "hook: expected \"pre-commit\" or \"pre-push\", got \"{name}\""
            ))),
        }
    }
}

/// What git's hook knows: nothing of other agents, and the index of the commit. `git commit -a` and `git commit FILE` make
/// one of their own and name it in `GIT_INDEX_FILE`; that of the working tree does not have what they commit.
#[derive(Debug)]
struct Hook {
    index: Option<PathBuf>,
}

impl Hook {
    fn of_environment(folder: &Path) -> Self {
        let named = environment("GIT_INDEX_FILE").filter(|name| !name.is_empty());
        let path = |name: String| std::path::absolute(folder.join(&name)).unwrap_or_else(|_| name.into());
        Self { index: named.map(path) }
    }
}

impl Others for Hook {
    fn on_file(&self, _relative: &str, _agent: &str) -> Option<OtherAgent> {
        None
    }

    fn index(&self) -> Option<&Path> {
        self.index.as_deref()
    }
}

/// Decides about a commit or a push by the rules of this stage, and records the decision: rules for review, secrets in
/// added lines, and users' rules with `stage = "commit"`.
///
/// # Errors
/// The errors of git and of the state file.
pub fn check(gate: &Gate, hook: GitHook, folder: &Path) -> Result<Decision, HarnessError> {
    let cwd = folder.to_string_lossy();
    let known = Hook::of_environment(folder);
    let command = match hook {
        GitHook::PreCommit => "git commit",
        GitHook::PrePush => "git push",
    };
    let mut actions = vec![Action::shell(command, &cwd, gate.home())];
    if hook == GitHook::PreCommit {
        let cached = |options: &[&str]| {
            run_on(known.index(), folder, &[&["diff", "--cached", "--no-ext-diff"], options].concat())
        };
        let names = cached(&["--name-only", "--diff-filter=d", "-z"])?;
        let names: Vec<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
        let patch = cached(&["-U0", "--no-color"])?;
        actions.push(Action::edit(&names, &added(&patch), &top(folder)?));
    }
    let exceptions = overrides::active(gate.state(), gate.project().now())?;
    let is_asked = |id: &str, stage: Stage| stage != Stage::Pre || id == "secrets.literal";
    let mut all = Decision::default();
    for action in &mut actions {
        GIT.clone_into(&mut action.harness);
        let decision = gate.decide_some(action, &exceptions, &known, &is_asked);
        gate.record(action, &decision)?;
        all.policy_set.clone_from(&decision.policy_set);
        all.latency_us += decision.latency_us;
        all.rules.extend(decision.rules);
        all.shadow.extend(decision.shadow);
    }
    all.settle();
    Ok(all)
}

fn top(folder: &Path) -> Result<String, HarnessError> {
    Ok(run(folder, &["rev-parse", "--show-toplevel"])?.trim_end().to_owned())
}

/// The added lines of a patch.
fn added(patch: &str) -> String {
    let lines = patch.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++ "));
    lines.filter_map(|line| line.get(1..)).collect::<Vec<_>>().join("\n")
}
