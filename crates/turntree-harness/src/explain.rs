//! Where the values of the configuration come from.

use std::fs;

use serde_json::{Map, Value};

use crate::config::{Config, schema};
use crate::error::HarnessError;
use crate::policy::evaluator::Evaluator;
use crate::policy::policies::Policies;
use crate::policy::rules::BuiltIn;
use crate::project::{CONFIG_FILE, Project};
use crate::toml_file;

/// A key of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The key: `policy.behind_warn`, or `policy.levels.` and the id of a rule.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// The value without a file.
    pub default: Value,
    /// Where the value comes from: the path of the file, for a rule in Cedar with the line, or `default`.
    pub origin: String,
    /// What it means.
    pub description: String,
}

/// All keys of the configuration of a project, and the levels of its rules, or those that begin with a text.
///
/// # Errors
/// [`HarnessError::Invalid`] if no key begins with it, and those of [`Policies::load`].
pub fn explain(project: &Project, prefix: &str) -> Result<Vec<Explained>, HarnessError> {
    let file = project.root.join(CONFIG_FILE);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let given = toml_file::parse::<Value>(&file, &text).unwrap_or_default();
    let json = |config: &Config| serde_json::to_value(config).unwrap_or_default();
    let (values, defaults, schema) = (json(&project.config), json(&Config::default()), schema());
    let mut found = Vec::new();
    for (table, keys) in tables(&values) {
        for (name, value) in keys {
            let key = format!("{table}.{name}");
            let is_given = given.get(table).and_then(|table| table.get(name)).is_some();
            let origin = if is_given { file.display().to_string() } else { "default".to_owned() };
            let default = defaults.get(table).and_then(|table| table.get(name)).cloned().unwrap_or_default();
            let description = describe(&schema, table, name).unwrap_or_default().to_owned();
            found.push(Explained { key, value: value.clone(), default, origin, description });
        }
    }
    found.extend(levels(project, &file.display().to_string())?);
    found.retain(|explained| explained.key.starts_with(prefix));
    if found.is_empty() {
        return Err(HarnessError::Invalid(format!(
            "key: no key begins with \"{prefix}\"; `turntree config explain` shows all"
        )));
    }
    Ok(found)
}

/// The level of each rule.
fn levels(project: &Project, file: &str) -> Result<Vec<Explained>, HarnessError> {
    let policies = Policies::load(&project.root.join(&project.config.policy.folder))?;
    let built_in: &dyn Evaluator = &BuiltIn;
    let rules = std::iter::once(built_in).chain(policies.evaluators()).flat_map(Evaluator::rules);
    let explained = rules.map(|rule| {
        let given = project.config.policy.levels.get(rule.id);
        let origin = match (given, policies.origin(rule.id)) {
            (Some(_), _) => file.to_owned(),
            (None, Some(origin)) => origin.to_string(),
            (None, None) => "default".to_owned(),
        };
        let json = |setting| serde_json::to_value(setting).unwrap_or_default();
        Explained {
            key: format!("policy.levels.{}", rule.id),
            value: json(given.copied().unwrap_or(rule.setting)),
            default: json(rule.setting),
            origin,
            description: rule.summary.to_owned(),
        }
    });
    Ok(explained.collect())
}

fn tables(values: &Value) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
    let tables = values.as_object().into_iter().flatten();
    tables.filter_map(|(name, table)| Some((name.as_str(), table.as_object()?)))
}

fn describe<'a>(schema: &'a Value, table: &str, name: &str) -> Option<&'a str> {
    let reference = schema.pointer(&format!("/properties/{table}"))?;
    let path = reference.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    let table = path.map_or(Some(reference), |path| schema.pointer(path))?;
    table.pointer(&format!("/properties/{name}/description"))?.as_str()
}
