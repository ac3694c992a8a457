//! Actions as requests of Cedar: the names are those of `turntree.cedarschema`.

use std::collections::BTreeMap;

use serde_json::Value;
use turntree_cedar::{Fact, Request, Resource};

use super::action::{Action, ActionKind};
use super::context::Context;
use crate::derive::git::Git;
use crate::derive::writes::{Change, writes};
use crate::shell::{Command, Script, Word};

/// The longest text of a fact, in characters.
const MAX_TEXT: usize = 32 * 1024;

/// The most requests of one action.
const MAX_REQUESTS: usize = 1_000;

/// The requests of an action.
#[derive(Debug)]
pub(super) struct Requests {
    pub requests: Vec<Request>,
    /// Whether there are more.
    pub is_cut: bool,
}

/// The requests of an action.
pub(super) fn requests(action: &Action, context: &Context<'_>) -> Requests {
    let mut makes = Makes { action, context, branches: BTreeMap::new(), requests: Vec::new(), is_cut: false };
    match &action.kind {
        ActionKind::Shell { script, .. } => makes.script(script),
        ActionKind::Edit { added, .. } => {
            for path in &action.paths {
                makes.file(
                    "edit",
                    Some(path.as_str()),
                    vec![("change", "write".into()), ("added", cut(added))],
                );
            }
        }
        ActionKind::Read => {
            for path in &action.paths {
                makes.file("read", Some(path.as_str()), Vec::new());
            }
        }
        ActionKind::Mcp { server, tool, arguments } => {
            let facts = vec![("server", server.as_str().into()), ("tool", tool.as_str().into())];
            makes.tool("mcp", format!("{server}/{tool}"), arguments, facts);
        }
        ActionKind::Other { tool, arguments } => {
            makes.tool("other", tool.clone(), arguments, vec![("tool", tool.as_str().into())]);
        }
    }
    Requests { requests: makes.requests, is_cut: makes.is_cut }
}

/// A long text is known in part.
fn cut(text: &str) -> Fact {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => Fact::PartOfText(text.get(..end).unwrap_or_default().to_owned()),
        None => Fact::Text(text.to_owned()),
    }
}

/// Makes the requests of one action.
#[derive(Debug)]
struct Makes<'a> {
    action: &'a Action,
    context: &'a Context<'a>,
    /// The branches of working directories: they are read from files.
    branches: BTreeMap<String, String>,
    requests: Vec<Request>,
    is_cut: bool,
}

impl Makes<'_> {
    fn push(
        &mut self,
        action: &'static str,
        resource: Resource,
        cwd: Option<&str>,
        facts: Vec<(&'static str, Fact)>,
    ) {
        if self.requests.len() >= MAX_REQUESTS {
            self.is_cut = true;
            return;
        }
        let Action { agent, session, harness, .. } = self.action;
        let (agent, session, harness) = (agent.clone(), session.clone(), harness.clone());
        let repo = self.context.project.root.to_string_lossy().into_owned();
        let branch = Fact::maybe(cwd.map(|cwd| self.branch(cwd)));
        let mut request = Request { agent, session, harness, repo, action, resource, facts };
        request.facts.extend([("cwd", Fact::maybe(cwd)), ("branch", branch)]);
        self.requests.push(request);
    }

    fn branch(&mut self, cwd: &str) -> String {
        let context = self.context;
        let known = self.branches.entry(cwd.to_owned());
        known.or_insert_with(|| context.branch(cwd).unwrap_or_default()).clone()
    }

    fn script(&mut self, script: &Script) {
        for command in &script.commands {
            self.command(command);
        }
        if !script.unknown.is_empty() {
            let mut facts = program(&[Word::unknown()], "direct", Fact::Unknown, Fact::Unknown);
            facts.push(("program", Fact::Unknown));
            let resource = Resource { kind: "program", name: None, is_inside: false };
            self.push("shell", resource, None, facts);
        }
        for write in writes(script) {
            let change = match write.change {
                Change::Write => "write",
                Change::Remove => "remove",
                Change::RemoveTree => "remove-tree",
            };
            self.file("edit", write.path.as_deref(), vec![("change", change.into())]);
        }
    }

    fn command(&mut self, command: &Command) {
        let wrappers = Fact::Texts(command.wrappers.clone());
        let variables = command.environment.iter().map(|(name, _)| name.clone()).collect();
        let mut facts = program(&command.argv, command.via.as_str(), wrappers, Fact::Texts(variables));
        if let Some(git) = Git::of(command) {
            facts.push(("git", git_facts(&git)));
        }
        let name = command.program();
        facts.push(("program", Fact::maybe(name.as_deref())));
        let resource = Resource { kind: "program", name, is_inside: false };
        self.push("shell", resource, command.cwd.as_deref(), facts);
    }

    /// A request about a file; `None` if the path is not known.
    fn file(&mut self, action: &'static str, path: Option<&str>, mut facts: Vec<(&'static str, Fact)>) {
        let place = path.map(|path| self.context.place(path));
        let name = place.as_ref().map(|place| place.relative.clone().unwrap_or_else(|| place.real.clone()));
        facts.push(("path", Fact::maybe(name.as_deref())));
        let flag = |flag: Option<bool>| flag.map_or(Fact::Unknown, Fact::Flag);
        facts.push(("is_main_checkout", flag(place.as_ref().map(|place| place.is_main_checkout))));
        facts.push(("is_inside", flag(place.as_ref().map(|place| place.is_inside))));
        let is_inside = place.is_some_and(|place| place.is_inside);
        let action_cwd = self.action.cwd.clone();
        self.push(action, Resource { kind: "file", name, is_inside }, Some(&action_cwd), facts);
    }

    fn tool(
        &mut self,
        action: &'static str,
        name: String,
        arguments: &Value,
        mut facts: Vec<(&'static str, Fact)>,
    ) {
        facts.push(("arguments", cut(&arguments.to_string())));
        let cwd = self.action.cwd.clone();
        self.push(action, Resource { kind: "tool", name: Some(name), is_inside: true }, Some(&cwd), facts);
    }
}

fn program(argv: &[Word], via: &'static str, wrappers: Fact, variables: Fact) -> Vec<(&'static str, Fact)> {
    let known = |word: &Word| word.value().map(str::to_owned);
    let arguments = argv.get(1..).unwrap_or_default();
    let texts: Vec<String> = arguments.iter().filter_map(known).collect();
    let words: Vec<String> = argv.iter().filter_map(known).collect();
    let line = words.join(" ");
    let (texts, line) = if words.len() == argv.len() {
        (Fact::Texts(texts), cut(&line))
    } else {
        (Fact::PartOfTexts(texts), Fact::PartOfText(line.chars().take(MAX_TEXT).collect()))
    };
    vec![
        ("arguments", texts),
        ("line", line),
        ("via", via.into()),
        ("wrappers", wrappers),
        ("variables", variables),
    ]
}

fn git_facts(git: &Git) -> Fact {
    let is_known = git.verb.is_some() && !git.has_unknown();
    let is_push = git.verb.as_deref() == Some("push");
    let forces = is_push && git.forces();
    let branches = if is_push { git.pushed() } else { Vec::new() };
    Fact::Record(vec![
        ("verb", Fact::maybe(git.verb.as_deref())),
        ("forces", if is_known || forces { Fact::Flag(forces) } else { Fact::Unknown }),
        ("branches", if is_known { Fact::Texts(branches) } else { Fact::Unknown }),
    ])
}
