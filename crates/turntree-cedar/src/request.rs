//! What is asked: who does what, with the facts of the action.

use std::collections::HashSet;
use std::str::FromStr;

use cedar_policy::{
    Authorizer, Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, PartialResponse, PolicySet,
    RestrictedExpression,
};

/// The actions of the schema. None is a group of others.
pub const ACTIONS: [&str; 5] = ["shell", "edit", "read", "mcp", "other"];

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fact {
    /// A text.
    Text(String),
    /// True or false.
    Flag(bool),
    /// A set of texts.
    Texts(Vec<String>),
    /// Facts with names.
    Record(Vec<(&'static str, Self)>),
    /// A text of which only this is known.
    PartOfText(String),
    /// A set of texts of which only these are known.
    PartOfTexts(Vec<String>),
    /// A value that is not known.
    Unknown,
}

impl Fact {
    /// A text, or an unknown value.
    pub fn maybe(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Unknown, |text| Self::Text(text.into()))
    }

    fn is_part(&self) -> bool {
        matches!(self, Self::PartOfText(_) | Self::PartOfTexts(_))
    }
}

impl From<&str> for Fact {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What an action is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// `program`, `file` or `tool`.
    pub kind: &'static str,
    /// Its name; `None` if it is not known.
    pub name: Option<String>,
    /// Whether it belongs to the project.
    pub is_inside: bool,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// The agent.
    pub agent: String,
    /// Its session.
    pub session: String,
    /// Its harness.
    pub harness: String,
    /// The folder of the project.
    pub repo: String,
    /// The name of the action in the schema.
    pub action: &'static str,
    /// What the action is about.
    pub resource: Resource,
    /// The facts, by the names of the schema.
    pub facts: Vec<(&'static str, Fact)>,
}

/// A request in Cedar's types.
#[derive(Debug)]
pub(crate) struct Question {
    pub request: cedar_policy::Request,
    pub entities: Entities,
}

impl Question {
    /// What policies say to it.
    pub(crate) fn ask(&self, policies: &PolicySet) -> PartialResponse {
        Authorizer::new().is_authorized_partial(&self.request, policies, &self.entities)
    }
}

impl Request {
    /// Whether a fact is known in part.
    pub(crate) fn has_parts(&self) -> bool {
        self.facts.iter().any(|(_, fact)| fact.is_part())
    }

    /// The request in Cedar's types; what is known in part is taken for the whole, or for unknown. `None` if Cedar does not
    /// accept it, which happens to no request of the schema.
    pub(crate) fn question(&self, takes_parts: bool) -> Option<Question> {
        let (session, agent) = (uid("Session", &self.session)?, uid("Agent", &self.agent)?);
        let repo = uid("Repo", &self.repo)?;
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let harness = [("harness".to_owned(), text(&self.harness))].into();
        let kind = [("kind".to_owned(), text(self.resource.kind))].into();
        let parents = self.resource.is_inside.then(|| repo.clone()).into_iter().collect();
        let resource = uid("Resource", self.resource.name.as_deref().unwrap_or_default())?;
        let mut entities = vec![
            Entity::new_no_attrs(session.clone(), HashSet::new()),
            Entity::new(agent.clone(), harness, [session].into()).ok()?,
            Entity::new_no_attrs(repo, HashSet::new()),
        ];
        let builder = cedar_policy::Request::builder().principal(agent).action(uid("Action", self.action)?);
        let builder = if self.resource.name.is_some() {
            entities.push(Entity::new(resource.clone(), kind, parents).ok()?);
            builder.resource(resource)
        } else {
            builder.unknown_resource_with_type(EntityTypeName::from_str("Resource").ok()?)
        };
        let pairs =
            self.facts.iter().map(|(name, fact)| Some(((*name).to_owned(), value(name, fact, takes_parts)?)));
        let context = Context::from_pairs(pairs.collect::<Option<Vec<_>>>()?).ok()?;
        let request = builder.context(context).build();
        Some(Question { request, entities: Entities::from_entities(entities, None).ok()? })
    }
}

fn uid(kind: &str, id: &str) -> Option<EntityUid> {
    Some(EntityUid::from_type_name_and_id(EntityTypeName::from_str(kind).ok()?, EntityId::new(id)))
}

/// Facts are two levels deep at most: this does not recurse over data.
fn value(name: &str, fact: &Fact, takes_parts: bool) -> Option<RestrictedExpression> {
    let Fact::Record(fields) = fact else { return Some(scalar(name, fact, takes_parts)) };
    let field = |(field, fact): &(&str, Fact)| {
        ((*field).to_owned(), scalar(&format!("{name}.{field}"), fact, takes_parts))
    };
    RestrictedExpression::new_record(fields.iter().map(field)).ok()
}

fn scalar(name: &str, fact: &Fact, takes_parts: bool) -> RestrictedExpression {
    match fact {
        Fact::Flag(flag) => RestrictedExpression::new_bool(*flag),
        _ if fact.is_part() && !takes_parts => RestrictedExpression::new_unknown(name),
        Fact::Text(text) | Fact::PartOfText(text) => RestrictedExpression::new_string(text.clone()),
        Fact::Texts(texts) | Fact::PartOfTexts(texts) => {
            RestrictedExpression::new_set(texts.iter().cloned().map(RestrictedExpression::new_string))
        }
        Fact::Record(_) | Fact::Unknown => RestrictedExpression::new_unknown(name),
    }
}
