//! A project: its gate, its coordination, its worktrees.

use std::path::PathBuf;

use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::convert::json::{document_text, json_to_python};
use crate::error::{OrRaise as _, value_error};
use turntree_harness::coordination::Coordination;
use turntree_harness::coordination::claims::{Lease, Mode};
use turntree_harness::coordination::slots::Slot;
use turntree_harness::coordination::worktrees::Worktree;
use turntree_harness::hooks;
use turntree_harness::policy::{audit, overrides};
use turntree_harness::{Action, Gate, HarnessError, Project};

/// The native half of a project of `turntree.harness`. Operations return dicts.
#[pyclass(frozen, module = "turntree._core")]
#[derive(Debug)]
pub(crate) struct HarnessCore {
    gate: Gate,
    work: Coordination,
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
            Ok::<_, HarnessError>(Self { gate, work })
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

    /// Decide about an action and record the decision.
    fn check(&self, py: Python<'_>, action: &Bound<'_, PyAny>, cwd: &str) -> PyResult<Py<PyAny>> {
        let text = document_text(action, "action")?;
        let action: Value = serde_json::from_str(&text).map_err(value_error)?;
        answer(py, || {
            let action = Action::from_json(&action, cwd, self.gate.home())?;
            let decision = self.gate.check(&action)?;
            let mut value = decision.to_json();
            if let Some(object) = value.as_object_mut() {
                object.insert("message".to_owned(), decision.message().into());
            }
            Ok(value)
        })
    }

    /// List the rules and their levels.
    fn rules(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rules: Vec<Value> = self
            .gate
            .rules()
            .into_iter()
            .map(|(rule, setting)| {
                let level = setting
                    .map_or(rule.level.as_str().to_owned(), |setting| format!("{setting:?}").to_lowercase());
                json!({"id": rule.id, "level": level, "stage": rule.stage.as_str(), "summary": rule.summary})
            })
            .collect();
        json_to_python(py, &Value::from(rules).to_string())
    }

    /// Return the newest decisions.
    fn audit(&self, py: Python<'_>, limit: u32) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let entries = audit::entries(self.gate.state(), limit)?;
            let entry = |entry: audit::Entry| {
                json!({
                    "number": entry.number, "at": entry.at, "session": entry.session, "agent": entry.agent,
                    "harness": entry.harness, "tool": entry.tool, "facts": entry.facts, "outcome": entry.outcome,
                    "rules": entry.rules, "hash": entry.hash,
                })
            };
            Ok(entries.into_iter().map(entry).collect())
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

    /// Register an agent.
    fn register(&self, py: Python<'_>, agent: &str, harness: &str) -> PyResult<()> {
        py.detach(|| self.work.register(agent, harness, "")).or_raise(py)
    }

    /// End an agent.
    fn leave(&self, py: Python<'_>, agent: &str) -> PyResult<()> {
        py.detach(|| self.work.leave(agent)).or_raise(py)
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

    /// Announce work; return what others have announced for the resource.
    fn announce(
        &self,
        py: Python<'_>,
        agent: &str,
        resource: &str,
        intent: &str,
        note: &str,
    ) -> PyResult<Py<PyAny>> {
        answer(py, || {
            let others = self.work.announce(agent, resource, intent, note)?.into_iter();
            let others = others.map(|other| {
                json!({"agent": other.agent, "resource": other.resource, "intent": other.intent, "note": other.note, "at": other.at})
            });
            Ok(others.collect())
        })
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

    /// Return the files in which two branches would conflict.
    fn forecast(&self, py: Python<'_>, ours: &str, theirs: &str) -> PyResult<Vec<String>> {
        py.detach(|| self.work.forecast(ours, theirs)).or_raise(py)
    }
}

/// Handle one event of a harness; return exit status, output and error output.
#[pyfunction]
pub(crate) fn harness_hook(
    py: Python<'_>,
    harness: &str,
    event: &[u8],
    cwd: PathBuf,
) -> (i32, String, String) {
    let reply = py.detach(move || hooks::handle(harness, event, &cwd));
    (reply.exit, reply.stdout, reply.stderr)
}
