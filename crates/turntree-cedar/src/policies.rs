//! Files of policies, parsed and asked.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use cedar_policy::ffi::DetailedError;
use cedar_policy::{Authorizer, Effect, PolicyId, PolicySet, Schema, ValidationMode, Validator};

use crate::SCHEMA;
use crate::error::CedarError;
use crate::request::Request;
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

/// Parsed policies.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    listed: Vec<Policy>,
    forbids: PolicySet,
    /// For each file with permits: the place of the first one in the list, and all of them.
    permits: Vec<(usize, PolicySet)>,
}

impl Policies {
    /// Parses files, given by name and text, and checks them against the schema.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, CedarError> {
        let mut loader = Loader::default();
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

    fn ask_once(&self, request: &Request, takes_parts: bool, answers: &mut BTreeMap<usize, Answer>) {
        let mut add = |at: usize, answer: Answer| {
            let known = answers.entry(at).or_insert(answer);
            *known = answer.max(*known);
        };
        let Some(question) = request.question(takes_parts) else {
            (0..self.listed.len()).for_each(|at| add(at, Answer::Failed));
            return;
        };
        let authorizer = Authorizer::new();
        let asked = |set| authorizer.is_authorized_partial(&question.request, set, &question.entities);
        let place = |id: &PolicyId| AsRef::<str>::as_ref(id).parse::<usize>().ok();
        let response = asked(&self.forbids);
        response
            .definitely_satisfied()
            .filter_map(|policy| place(policy.id()))
            .for_each(|at| add(at, Answer::Matches));
        response.definitely_errored().filter_map(place).for_each(|at| add(at, Answer::Failed));
        response
            .nontrivial_residuals()
            .filter_map(|policy| place(policy.id()))
            .for_each(|at| add(at, Answer::Perhaps));
        for (first, permits) in &self.permits {
            let response = asked(permits);
            if response.definitely_satisfied().next().is_none() {
                let is_open = response.nontrivial_residuals().next().is_some();
                add(*first, if is_open { Answer::Perhaps } else { Answer::Matches });
            }
        }
    }
}

/// The permits of a file: the place of the first one in the list, and all of them.
type Permits = Option<(usize, PolicySet)>;

/// Reads files.
#[derive(Debug, Default)]
struct Loader {
    policies: Policies,
    ids: BTreeSet<String>,
    /// Made for the first policy: a project without policies does not need it.
    validator: Option<Validator>,
}

impl Loader {
    fn add(
        &mut self,
        file: &str,
        statement: &Statement<'_>,
        permits: &mut Permits,
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
        self.validate(&parsed, &wrong).map_err(|error| error.of(&policy.id))?;
        if let (Effect::Permit, Some((_, others))) = (parsed.effect(), permits.as_mut()) {
            if !policy.annotations.is_empty() {
                let remedy = "give them to the first `permit` of the file, which stands for all";
                return Err(policy.error("a further `permit` has annotations", remedy));
            }
            let number = others.num_of_policies();
            return insert(others, parsed.new_id(PolicyId::new(format!("more-{number}"))), &wrong);
        }
        if !policy.id.is_empty() && !self.ids.insert(policy.id.clone()) {
            return Err(policy.error("another policy has this id", "rename one"));
        }
        if parsed.effect() == Effect::Permit {
            let mut set = PolicySet::new();
            insert(&mut set, parsed, &wrong)?;
            *permits = Some((at, set));
        } else {
            insert(&mut self.policies.forbids, parsed, &wrong)?;
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
        insert(&mut set, policy.clone(), wrong)?;
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
    set: &mut PolicySet,
    policy: cedar_policy::Policy,
    wrong: &dyn Fn(&DetailedError) -> CedarError,
) -> Result<(), CedarError> {
    set.add(policy).map_err(|error| wrong(&DetailedError::from(&error)))
}

/// The line of the first character that is no space and no comment.
fn first_line(statement: &Statement<'_>) -> usize {
    let blank = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with("//");
    statement.line.saturating_add(statement.text.lines().take_while(blank).count())
}
