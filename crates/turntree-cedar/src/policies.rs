//! Files of policies, parsed and asked.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use cedar_policy::ffi::DetailedError;
use cedar_policy::{ActionConstraint, Effect, PolicyId, PolicySet, Schema, ValidationMode, Validator};

use crate::SCHEMA;
use crate::error::CedarError;
use crate::request::{ACTIONS, Question, Request};
use crate::statements::{Statement, split};

/// The most policies.
const MAX_POLICIES: usize = 1_000;

/// What to do about an error that Cedar has no advice for.
const REMEDY: &str = "`turntree config schema --cedar` shows what policies can ask about";

/// A policy that can match: a `forbid`, or the first `permit` of a file, which stands for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The value of its annotation `@id`.
    pub id: String,
    /// The file.
    pub file: String,
    /// The line of its first character.
    pub line: usize,
    /// All annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Policy {
    /// An error of this policy.
    pub fn error(&self, message: impl Into<String>, remedy: impl Into<String>) -> CedarError {
        CedarError::at(&self.file, self.line, message, remedy).of(&self.id)
    }
}

/// What a policy says about a request. A `permit` matches if no `permit` of its file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// It may match: that depends on what is not known.
    Perhaps,
    /// It could not be evaluated.
    Failed,
    /// It matches.
    Matches,
}

/// Policies by the actions that their scopes accept. Most policies are about one action, and most requests about another.
#[derive(Debug, Clone, Default)]
struct ByAction(BTreeMap<&'static str, PolicySet>);

impl ByAction {
    fn add(&mut self, policy: &cedar_policy::Policy) -> Result<(), Box<cedar_policy::PolicySetError>> {
        let constraint = policy.action_constraint();
        for action in ACTIONS.into_iter().filter(|action| accepts(&constraint, action)) {
            self.0.entry(action).or_default().add(policy.clone()).map_err(Box::new)?;
        }
        Ok(())
    }

    fn of(&self, action: &str) -> Option<&PolicySet> {
        self.0.get(action)
    }
}

fn accepts(constraint: &ActionConstraint, action: &str) -> bool {
    let is_named = |uid: &cedar_policy::EntityUid| AsRef::<str>::as_ref(uid.id()) == action;
    match constraint {
        ActionConstraint::Any => true,
        ActionConstraint::In(uids) => uids.iter().any(is_named),
        ActionConstraint::Eq(uid) => is_named(uid),
    }
}

/// The permits of a file.
#[derive(Debug, Clone, Default)]
struct Permits {
    /// The place of the first one in the list.
    first: usize,
    count: usize,
    policies: ByAction,
}

/// Parsed policies.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    listed: Vec<Policy>,
    forbids: ByAction,
    /// For each file that has some.
    permits: Vec<Permits>,
}

impl Policies {
    /// Parses files, given by name and text, and checks them against the schema.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, CedarError> {
        Self::parse_with(Loader::default(), files)
    }

    /// As [`Self::parse`], without the check against the schema, which takes longer than all the rest: for files that have
    /// passed it.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_checked<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, CedarError> {
        Self::parse_with(Loader { is_checked: true, ..Loader::default() }, files)
    }

    fn parse_with<'a>(
        mut loader: Loader,
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, CedarError> {
        for (file, text) in files {
            let mut permits = None;
            for statement in &split(file, text)? {
                loader.add(file, statement, &mut permits)?;
            }
            loader.policies.permits.extend(permits);
        }
        Ok(loader.policies)
    }

    /// The policies that can match, in the order of the files.
    pub fn list(&self) -> &[Policy] {
        &self.listed
    }

    /// Asks the policies. The answers have the places of the policies in the list; those that say nothing are left out.
    ///
    /// Of a fact that is known in part, a policy is asked twice: as if the rest were not there, and as if it were unknown.
    pub fn ask(&self, request: &Request) -> BTreeMap<usize, Answer> {
        let mut answers = BTreeMap::new();
        if !self.listed.is_empty() {
            self.ask_once(request, false, &mut answers);
            if request.has_parts() {
                self.ask_once(request, true, &mut answers);
            }
        }
        answers
    }

    /// The permits of each file that has some, with the place of the first one in the list.
    fn permits_of<'a>(&'a self, action: &'a str) -> impl Iterator<Item = (usize, Option<&'a PolicySet>)> {
        self.permits.iter().map(move |file| (file.first, file.policies.of(action)))
    }

    fn ask_once(&self, request: &Request, takes_parts: bool, answers: &mut BTreeMap<usize, Answer>) {
        let mut add = |at: usize, answer: Answer| {
            let known = answers.entry(at).or_insert(answer);
            *known = answer.max(*known);
        };
        let forbids = self.forbids.of(request.action);
        let permits = || self.permits_of(request.action);
        // What no permit is about, no permit allows.
        permits().filter(|(_, set)| set.is_none()).for_each(|(first, _)| add(first, Answer::Matches));
        if forbids.is_none() && permits().all(|(_, set)| set.is_none()) {
            return;
        }
        let Some(question) = request.question(takes_parts) else {
            (0..self.listed.len()).for_each(|at| add(at, Answer::Failed));
            return;
        };
        if let Some(forbids) = forbids {
            ask_forbids(&question, forbids, &mut add);
        }
        for (first, permits) in permits().filter_map(|(first, set)| Some((first, set?))) {
            let response = question.ask(permits);
            if response.definitely_satisfied().next().is_none() {
                let is_open = response.nontrivial_residuals().next().is_some();
                add(first, if is_open { Answer::Perhaps } else { Answer::Matches });
            }
        }
    }
}

fn ask_forbids(question: &Question, forbids: &PolicySet, add: &mut impl FnMut(usize, Answer)) {
    let place = |id: &PolicyId| AsRef::<str>::as_ref(id).parse::<usize>().ok();
    let response = question.ask(forbids);
    let satisfied = response.definitely_satisfied().filter_map(|policy| place(policy.id()));
    satisfied.for_each(|at| add(at, Answer::Matches));
    response.definitely_errored().filter_map(place).for_each(|at| add(at, Answer::Failed));
    let open = response.nontrivial_residuals().filter_map(|policy| place(policy.id()));
    open.for_each(|at| add(at, Answer::Perhaps));
}

/// Reads files.
#[derive(Debug, Default)]
struct Loader {
    policies: Policies,
    ids: BTreeSet<String>,
    /// Whether the files have passed the check against the schema.
    is_checked: bool,
    /// Made for the first policy: a project without policies does not need it.
    validator: Option<Validator>,
}

impl Loader {
    fn add(
        &mut self,
        file: &str,
        statement: &Statement<'_>,
        permits: &mut Option<Permits>,
    ) -> Result<(), CedarError> {
        let at = self.policies.listed.len();
        let wrong =
            |error: &DetailedError| CedarError::cedar(file, statement.line, statement.text, error, REMEDY);
        let parsed = cedar_policy::Policy::parse(Some(PolicyId::new(at.to_string())), statement.text)
            .map_err(|errors| wrong(&DetailedError::from(&errors)))?;
        let annotations: BTreeMap<String, String> =
            parsed.annotations().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let id = annotations.get("id").cloned().unwrap_or_default();
        let policy = Policy { id, file: file.to_owned(), line: first_line(statement), annotations };
        if at >= MAX_POLICIES {
            return Err(policy.error(format!("more than {MAX_POLICIES} policies"), "remove some"));
        }
        if !self.is_checked {
            self.validate(&parsed, &wrong).map_err(|error| error.of(&policy.id))?;
        }
        if let (Effect::Permit, Some(others)) = (parsed.effect(), permits.as_mut()) {
            if !policy.annotations.is_empty() {
                let remedy = "give them to the first `permit` of the file, which stands for all";
                return Err(policy.error("a further `permit` has annotations", remedy));
            }
            others.count += 1;
            let id = PolicyId::new(format!("more-{}", others.count));
            return insert(&mut others.policies, &parsed.new_id(id), &wrong);
        }
        if !policy.id.is_empty() && !self.ids.insert(policy.id.clone()) {
            return Err(policy.error("another policy has this id", "rename one"));
        }
        if parsed.effect() == Effect::Permit {
            let file = permits.insert(Permits { first: at, ..Permits::default() });
            insert(&mut file.policies, &parsed, &wrong)?;
        } else {
            insert(&mut self.policies.forbids, &parsed, &wrong)?;
        }
        self.policies.listed.push(policy);
        Ok(())
    }

    /// Checks a policy against the schema. A warning is an error: a policy that can never match, or whose letters look
    /// like others, must not be taken for a guard.
    fn validate(
        &mut self,
        policy: &cedar_policy::Policy,
        wrong: &dyn Fn(&DetailedError) -> CedarError,
    ) -> Result<(), CedarError> {
        let mut set = PolicySet::new();
        set.add(policy.clone()).map_err(|error| wrong(&DetailedError::from(&error)))?;
        let validator = match &mut self.validator {
            Some(validator) => validator,
            none => {
                let schema = Schema::from_str(SCHEMA).map_err(|error| wrong(&DetailedError::from(&error)))?;
                none.insert(Validator::new(schema))
            }
        };
        let result = validator.validate(&set, ValidationMode::Strict);
        if let Some(error) = result.validation_errors().next() {
            return Err(wrong(&DetailedError::from(error)));
        }
        let warning = result.validation_warnings().next();
        warning.map_or(Ok(()), |warning| Err(wrong(&DetailedError::from(warning))))
    }
}

fn insert(
    policies: &mut ByAction,
    policy: &cedar_policy::Policy,
    wrong: &dyn Fn(&DetailedError) -> CedarError,
) -> Result<(), CedarError> {
    policies.add(policy).map_err(|error| wrong(&DetailedError::from(&*error)))
}

/// The line of the first character that is no space and no comment.
fn first_line(statement: &Statement<'_>) -> usize {
    let blank = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with("//");
    statement.line.saturating_add(statement.text.lines().take_while(blank).count())
}
