//! A project: its gate, its coordination, its worktrees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::convert::json::{document_text, json_to_python};
use crate::error::{OrRaise as _, value_error};
use turntree_harness::config::Config;
use turntree_harness::coordination::Coordination;
use turntree_harness::coordination::claims::{Lease, Mode};
use turntree_harness::coordination::liveness::AgentLock;
use turntree_harness::coordination::slots::Slot;
use turntree_harness::coordination::worktrees::Worktree;
use turntree_harness::hooks;
use turntree_harness::policy::decision::{Decision, Finding, Level, Matched, Outcome};
use turntree_harness::policy::policies::Policies;
use turntree_harness::policy::user::Examples;
use turntree_harness::policy::{audit, commit, overrides, replay};
use turntree_harness::{Action, Gate, HarnessError, Project, explain};

/// The native half of a project of `turntree.harness`. Operations return dicts.
#[pyclass(frozen, module = "turntree._core")]
#[derive(Debug)]
pub(crate) struct HarnessCore {
    gate: Gate,
    work: Coordination,
    /// The locks of agents that are this process.
    locks: Mutex<BTreeMap<String, AgentLock>>,
}

/// A finding of a rule of the caller.
#[derive(Debug, Deserialize)]
struct Found {
    id: String,
    level: Level,
    outcome: Outcome,
    reason: String,
    remedy: String,
}

impl Found {
    fn matched(self) -> Matched {
        let Self { id, level, outcome, reason, remedy } = self;
        let finding = Finding { rule: id.into(), outcome, reason, remedy };
        Matched { outcome: level.outcome(outcome), finding, level }
    }
}

/// Entries of the audit, as Python has them.
fn recorded(entries: &Bound<'_, PyAny>) -> PyResult<Vec<audit::Entry>> {
    serde_json::from_str(&document_text(entries, "entries")?).map_err(value_error)
}

fn decision_json(decision: &Decision) -> Value {
    let mut value = decision.to_json();
    if let Some(object) = value.as_object_mut() {
        object.insert("message".to_owned(), decision.message().into());
    }
    value
}

/// The examples of a rule, and those that have another outcome.
fn tested(gate: &Gate, id: &str, examples: &Examples) -> Value {
    let groups = [
        (Outcome::Allow, &examples.allow),
        (Outcome::Warn, &examples.warn),
        (Outcome::Ask, &examples.ask),
        (Outcome::Deny, &examples.deny),
    ];
    let cwd = gate.project().worktree.to_string_lossy();
    let (mut count, mut wrong) = (0_u64, Vec::new());
    for (wanted, text) in
        groups.into_iter().flat_map(|(wanted, texts)| texts.iter().map(move |text| (wanted, text)))
    {
        count += 1;
        let action = match serde_json::from_str::<Value>(text) {
            Ok(json) if json.is_object() => Action::from_json(&json, &cwd, gate.home()),
            _ => Ok(Action::shell(text, &cwd, gate.home())),
        };
        let got = action.map(|action| {
            gate.find(id, &action).iter().map(|finding| finding.outcome).max().unwrap_or_default()
        });
        match got {
            Ok(got) if got == wanted => {}
            Ok(got) => wrong.push(json!({"example": text, "wanted": wanted, "got": got})),
            Err(error) => wrong.push(json!({"example": text, "wanted": wanted, "got": error.to_string()})),
        }
    }
    json!({"id": id, "count": count, "wrong": wrong})
}

/// Runs an operation without the GIL and returns its JSON as Python objects.
fn answer(py: Python<'_>, work: impl FnOnce() -> Result<Value, HarnessError> + Send) -> PyResult<Py<PyAny>> {
    let value = py.detach(work).or_raise(py)?;
    json_to_python(py, &value.to_string())
}

fn lease_json(lease: &Lease) -> Value {
    json!({
        "id": lease.id, "resource": lease.resource, "owner": lease.owner, "mode": lease.mode, "token": lease.token,
        "expires_at": lease.expires_at,
    })
}

fn worktree_json(worktree: &Worktree) -> Value {
    json!({"name": worktree.name, "branch": worktree.branch, "path": worktree.path.to_string_lossy()})
}

fn lease_of(id: String, resource: String, owner: String) -> Lease {
    Lease { id, resource, owner, mode: String::new(), token: 0, expires_at: 0 }
}

fn milliseconds(seconds: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "out of range becomes the nearest number")]
    let milliseconds = (seconds * 1_000.0) as i64;
    milliseconds
}

#[pymethods]
impl HarnessCore {
    /// Open the project of a folder.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(move || {
            let project = Project::find(&path)?;
            let gate = Gate::load(&project)?;
            let work = Coordination::new(&project, gate.state().clone());
            Ok::<_, HarnessError>(Self { gate, work, locks: Mutex::default() })
        })
        .or_raise(py)
    }

    /// Return the folders and the branch of the project.
    fn info(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let project = self.gate.project();
        let layout = project.layout.as_ref();
        let info = json!({
            "root": project.root.to_string_lossy(),
            "worktree": project.worktree.to_string_lossy(),
            "state": project.state_folder().to_string_lossy(),
            "branch": layout.and_then(turntree_harness::git::Layout::branch),
            "is_linked": layout.is_some_and(turntree_harness::git::Layout::is_linked),
        });
        json_to_python(py, &info.to_string())
    }

    /// Decide about an action, with findings of the caller's rules. It is recorded unless `record` is false.
    #[pyo3(signature = (action, cwd, more=None, record=true))]
    fn check(
        &self,
        py: Python<'_>,
        action: &Bound<'_, PyAny>,
        cwd: &str,
        more: Option<&Bound<'_, PyAny>>,
        record: bool,
    ) -> PyResult<Py<PyAny>> {
        let text = document_text(action, "action")?;
        let action: Value = serde_json::from_str(&text).map_err(value_error)?;
        let more = more.map_or(Ok("[]".to_owned()), |more| document_text(more, "more"))?;
        let more: Vec<Found> = serde_json::from_str(&more).map_err(value_error)?;
        answer(py, || {
            let action = Action::from_json(&action, cwd, self.gate.home())?;
            let more = more.into_iter().map(Found::matched).collect();
            let decision = if record {
                self.gate.check_with(&action, more)?
            } else {
                self.gate.preview_with(&action, more)?
            };
            Ok(decision_json(&decision))
        })
    }

    /// Decide about what is about to be committed or pushed, and record the decision.
    fn check_commit(&self, py: Python<'_>, hook: &str, folder: &str) -> PyResult<Py<PyAny>> {
        answer(py, || {
            Ok(decision_json(&commit::check(&self.gate, commit::GitHook::named(hook)?, Path::new(folder))?))
        })
    }

    /// Run the examples of the user's rules; return the rules with what is wrong.
    #[pyo3(signature = (folder=None))]
    fn test_policies(&self, py: Python<'_>, folder: Option<PathBuf>) -> PyResult<Py<PyAny>> {
        answer(py, move || {
            let gate = match &folder {
                Some(folder) => self.gate.clone().with(self.gate.project(), Policies::load(folder)?),
                None => self.gate.clone(),
            };
            let examples = gate.policies().examples().into_iter();
            Ok(examples.map(|(id, examples)| tested(&gate, id, examples)).collect())
        })
    }

    /// Return the actions of recorded decisions, or None for those that cannot be decided again.
    #[staticmethod]
    fn recorded_actions(py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let entries = recorded(entries)?;
        answer(py, || Ok(json!(replay::actions(&entries))))
    }

    /// Decide about recorded actions again, with what the caller's rules find in each; return what would change.
    #[pyo3(signature = (entries=None, limit=1000, config=None, folder=None, ids=None, found=None))]
    #[expect(clippy::too_many_arguments, reason = "they are those of Gate.replay")]
    fn replay(
        &self,
        py: Python<'_>,
        entries: Option<&Bound<'_, PyAny>>,
        limit: u32,
        config: Option<PathBuf>,
        folder: Option<PathBuf>,
        ids: Option<Vec<String>>,
        found: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let entries = entries.map(recorded).transpose()?;
        let found = found.map_or(Ok("[]".to_owned()), |found| document_text(found, "found"))?;
        let found: Vec<Vec<Found>> = serde_json::from_str(&found).map_err(value_error)?;
        let found = found.into_iter().map(|found| found.into_iter().map(Found::matched).collect()).collect();
        let callers = replay::CallersRules { ids: ids.unwrap_or_default(), found };
        answer(py, move || {
            let mut project = self.gate.project().clone();
            if let Some(file) = &config {
                project.config = Config::load(file)?.into();
            }
            let rules = match &folder {
                Some(folder) => Policies::load(folder)?,
                None => Policies::load(&project.root.join(&project.config.policy.folder))?,
            };
            let entries = entries.map_or_else(|| audit::entries(self.gate.state(), limit), Ok)?;
            let found = replay::replay(&self.gate.clone().with(&project, rules), &entries, &callers);
            let change = |change: &replay::Change| {
                json!({
                    "number": change.number, "subject": change.subject, "before": change.before, "after": change.after,
                    "rules": change.rules,
                })
            };
            let changes: Vec<Value> = found.changes.iter().map(change).collect();
            Ok(json!({
                "count": found.count, "skipped": found.skipped, "changes": changes, "not_asked": found.not_asked,
            }))
        })
    }

    /// Say where the values of the configuration come from.
    fn explain(&self, py: Python<'_>, prefix: &str) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let keys = explain::explain(self.gate.project(), prefix)?.into_iter();
            let key = |key: explain::Explained| {
                json!({
                    "key": key.key, "value": key.value, "default": key.default, "origin": key.origin,
                    "description": key.description,
                })
            };
            Ok(keys.map(key).collect())
        })
    }

    /// List the rules and their levels.
    fn rules(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rules: Vec<Value> = self
            .gate
            .rules()
            .into_iter()
            .map(|(rule, setting)| {
                json!({"id": rule.id, "level": setting, "stage": rule.stage.as_str(), "summary": rule.summary})
            })
            .collect();
        json_to_python(py, &Value::from(rules).to_string())
    }

    /// Return the newest decisions.
    fn audit(&self, py: Python<'_>, limit: u32) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let entries = audit::entries(self.gate.state(), limit)?;
            Ok(json!(entries))
        })
    }

    /// Check the chain of the audit; return the number of entries.
    fn verify_audit(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| audit::verify(self.gate.state())).or_raise(py)
    }

    /// Let a rule warn for a time.
    fn override_rule(
        &self,
        py: Python<'_>,
        rule: &str,
        reason: &str,
        author: &str,
        seconds: u32,
    ) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let added =
                overrides::add(self.gate.project(), self.gate.state(), rule, reason, author, seconds)?;
            Ok(json!({"id": added.id, "rule": added.rule, "reason": added.reason, "until": added.until}))
        })
    }

    /// Claim a resource.
    fn claim(
        &self,
        py: Python<'_>,
        owner: &str,
        resource: &str,
        exclusive: bool,
        ttl: f64,
    ) -> PyResult<Py<PyAny>> {
        let mode = if exclusive { Mode::Exclusive } else { Mode::Shared };
        answer(py, || Ok(lease_json(&self.work.claim(owner, resource, mode, milliseconds(ttl))?)))
    }

    /// Extend a lease.
    fn renew(&self, py: Python<'_>, lease: String, ttl: f64) -> PyResult<bool> {
        let lease = lease_of(lease, String::new(), String::new());
        py.detach(|| self.work.renew(&lease, milliseconds(ttl))).or_raise(py)
    }

    /// Release a lease.
    fn release(&self, py: Python<'_>, lease: String, resource: String, owner: String) -> PyResult<bool> {
        let lease = lease_of(lease, resource, owner);
        py.detach(|| self.work.release(&lease)).or_raise(py)
    }

    /// Say whether a lease still protects its resource.
    fn is_valid(&self, py: Python<'_>, lease: String) -> PyResult<bool> {
        let lease = lease_of(lease, String::new(), String::new());
        py.detach(|| self.work.is_valid(&lease)).or_raise(py)
    }

    /// List the leases.
    fn claims(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        answer(py, || Ok(self.work.claims()?.iter().map(lease_json).collect()))
    }

    /// Register an agent. One that is this process has a lock as long as the process runs.
    fn register(&self, py: Python<'_>, agent: &str, harness: &str, own: bool) -> PyResult<()> {
        py.detach(|| {
            if !own {
                AgentLock::forget(&self.gate.project().state_folder(), agent);
                return self.work.register(agent, harness, "");
            }
            self.work.register_own(agent, harness)?;
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            if !locks.contains_key(agent)
                && let Some(lock) = AgentLock::take(&self.gate.project().state_folder(), agent)?
            {
                locks.insert(agent.to_owned(), lock);
            }
            Ok::<_, HarnessError>(())
        })
        .or_raise(py)
    }

    /// End an agent.
    fn leave(&self, py: Python<'_>, agent: &str) -> PyResult<()> {
        py.detach(|| {
            let lock = self.locks.lock().unwrap_or_else(PoisonError::into_inner).remove(agent);
            if let Some(lock) = lock {
                lock.remove();
            }
            self.work.leave(agent)
        })
        .or_raise(py)
    }

    /// List the agents.
    fn agents(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let agents = self.work.agents()?.into_iter();
            let agents = agents.map(|agent| {
                json!({
                    "id": agent.id, "harness": agent.harness, "worktree": agent.worktree, "status": agent.status,
                    "last_seen_at": agent.last_seen_at, "is_live": agent.is_live,
                })
            });
            Ok(agents.collect())
        })
    }

    /// Announce work; return what others have announced that overlaps, the risk and what to do.
    fn announce(
        &self,
        py: Python<'_>,
        agent: &str,
        resource: &str,
        intent: &str,
        note: &str,
    ) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let overlaps = self.work.announce(agent, resource, intent, note)?;
            Ok(json!(overlaps))
        })
    }

    /// Return the name of a resource in claims and announcements.
    fn resource_name(&self, resource: &str) -> String {
        self.work.resource_name(resource)
    }

    /// End an announcement.
    fn complete(&self, py: Python<'_>, agent: &str, resource: &str) -> PyResult<bool> {
        py.detach(|| self.work.complete(agent, resource)).or_raise(py)
    }

    /// Send a message; return its id.
    fn send(
        &self,
        py: Python<'_>,
        agent: &str,
        to: Option<&str>,
        channel: &str,
        text: &str,
    ) -> PyResult<String> {
        py.detach(|| self.work.send(agent, to, channel, text, 5)).or_raise(py)
    }

    /// Take the unread messages of an agent.
    fn inbox(&self, py: Python<'_>, agent: &str) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let messages = self.work.inbox(agent)?.into_iter();
            let messages = messages.map(|message| {
                json!({
                    "id": message.id, "channel": message.channel, "sender": message.from, "to": message.to,
                    "text": message.text, "at": message.at,
                })
            });
            Ok(messages.collect())
        })
    }

    /// Post on the board; return the id.
    fn post(&self, py: Python<'_>, agent: &str, kind: &str, text: &str) -> PyResult<String> {
        py.detach(|| self.work.post(agent, kind, text)).or_raise(py)
    }

    /// Return the newest posts of the board.
    fn board(&self, py: Python<'_>, limit: u32) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let posts = self.work.board(limit)?.into_iter();
            let post = |post: turntree_harness::coordination::messages::Post| json!({"id": post.id, "agent": post.agent, "kind": post.kind, "text": post.text, "at": post.at});
            Ok(posts.map(post).collect())
        })
    }

    /// Take a slot of a model; return its id, or None if all are taken.
    fn take_slot(
        &self,
        py: Python<'_>,
        target: &str,
        agent: &str,
        ceiling: u32,
        ttl: f64,
    ) -> PyResult<Option<String>> {
        let slot =
            py.detach(|| self.work.take_slot(target, agent, ceiling, milliseconds(ttl))).or_raise(py)?;
        Ok(slot.map(|slot| slot.id))
    }

    /// Give a slot back.
    fn give_slot(&self, py: Python<'_>, slot: String, target: String, exhausted: bool) -> PyResult<()> {
        let slot = Slot { id: slot, target, expires_at: 0 };
        py.detach(|| self.work.give_slot(&slot, exhausted)).or_raise(py)
    }

    /// Create a worktree.
    fn create_worktree(&self, py: Python<'_>, name: &str, base: Option<&str>) -> PyResult<Py<PyAny>> {
        answer(py, || Ok(worktree_json(&self.work.create_worktree(name, base)?)))
    }

    /// List the worktrees.
    fn worktrees(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        answer(py, || Ok(self.work.worktrees()?.iter().map(worktree_json).collect()))
    }

    /// Remove a worktree.
    fn remove_worktree(&self, py: Python<'_>, name: &str, force: bool) -> PyResult<()> {
        py.detach(|| self.work.remove_worktree(name, force)).or_raise(py)
    }

    /// Return which branches of working trees would conflict, and an order in which to merge them.
    fn forecast_all(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let found = self.work.forecast_all()?;
            let pairs: Vec<Value> = found
                .conflicts
                .iter()
                .map(|conflict| json!({"ours": conflict.ours, "theirs": conflict.theirs, "files": conflict.files}))
                .collect();
            Ok(json!({"conflicts": pairs, "order": found.order}))
        })
    }

    /// Return the files in which two branches would conflict.
    fn forecast(&self, py: Python<'_>, ours: &str, theirs: &str) -> PyResult<Vec<String>> {
        py.detach(|| self.work.forecast(ours, theirs)).or_raise(py)
    }
}

/// Return the JSON Schemas of `turntree.toml` and of policy files, and the schema of Cedar policies.
#[pyfunction]
pub(crate) fn harness_schemas(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let schemas = json!({
        "turntree.toml": turntree_harness::config::schema(), "policy": turntree_harness::config::policy_schema(),
        "cedar": turntree_harness::config::cedar_schema(),
    });
    json_to_python(py, &schemas.to_string())
}

/// Handle one event of a harness, which an argument may name; return exit status, output and error output.
#[pyfunction]
#[pyo3(signature = (harness, event, cwd, name=None))]
pub(crate) fn harness_hook(
    py: Python<'_>,
    harness: &str,
    event: &[u8],
    cwd: PathBuf,
    name: Option<&str>,
) -> (i32, String, String) {
    let invocation = hooks::Invocation { harness, event: name };
    let reply = py.detach(move || hooks::handle(invocation, event, &cwd));
    (reply.exit, reply.stdout, reply.stderr)
}
