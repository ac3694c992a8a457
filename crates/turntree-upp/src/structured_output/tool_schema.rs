//! Schemas of tools, for APIs that enforce the schema of every tool unless the request says otherwise.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::close::closed;
use super::rules::SchemaRules;
use turntree_core::json::RawJson;

/// The schemas that are remembered. A conversation sends the same tools with each request.
const MOST_KNOWN: usize = 512;

/// A longer schema is derived again for each request.
const LONGEST_KNOWN: usize = 64 * 1024;

/// `None` for schemas that are not enforced.
static KNOWN: Mutex<BTreeMap<Box<str>, Option<RawJson>>> = Mutex::new(BTreeMap::new());

/// The schema of a tool's arguments in the form that OpenAI enforces. `None` if that form describes other arguments: the
/// schema has optional members, which the model would have to fill, or is open.
pub fn closed_for_tool(parameters: &RawJson) -> Option<RawJson> {
    let text = parameters.get();
    if text.len() > LONGEST_KNOWN {
        return derived(parameters);
    }
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
    known.unwrap_or_else(|| {
        let schema = derived(parameters);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(text.into(), schema.clone());
        schema
    })
}

fn derived(parameters: &RawJson) -> Option<RawJson> {
    const OPTIONAL: SchemaRules = SchemaRules { requires_all: false, ..SchemaRules::OPENAI };
    let schema = closed(parameters, &SchemaRules::OPENAI).ok()?;
    let with_optional = closed(parameters, &OPTIONAL).ok()?;
    (schema == with_optional).then_some(schema)
}
