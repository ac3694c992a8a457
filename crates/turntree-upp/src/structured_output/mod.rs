//! Structured output of vendors that enforce schemas: what is sent, and how the output is read.
//!
//! | file | content |
//! |---|---|
//! | `rules` | which JSON Schemas a vendor enforces, as data |
//! | `close` | a schema in the form that a vendor enforces |
//! | `fold` | the combination of `allOf` and `$ref` with the members beside them |
//! | `tool_schema` | the schemas of tools |
//! | `read` | removes the nulls that stand for members that were left out |
//!
//! Spec: UPP-1.2 §10.5

mod close;
mod fold;
mod read;
mod rules;
mod tool_schema;

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::UppError;
use crate::request::ModelRequest;
use turntree_core::json::RawJson;

pub use close::{OpenSchema, closed};
pub use read::without_placeholders;
pub use rules::SchemaRules;
pub use tool_schema::closed_for_tool;

/// Replaces the structure of a request by one that the vendor enforces.
///
/// `strict` is the caller's choice: `None` sends a schema that cannot be closed unchanged, without enforcement;
/// `Some(false)` sends every schema so. Dialects read the decision from [`ModelRequest::strict`].
///
/// # Errors
/// [`ErrorCode::InvalidRequest`](crate::ErrorCode::InvalidRequest) if `strict` is `Some(true)` and the schema cannot be
/// closed.
pub fn settle<'a>(
    request: Cow<'a, ModelRequest>,
    provider: &str,
    rules: Option<&SchemaRules>,
    strict: Option<bool>,
) -> Result<Cow<'a, ModelRequest>, UppError> {
    let Some(rules) = rules else { return Ok(request) };
    let Some(structure) = request.structure.as_deref() else { return Ok(unenforced(request, strict)) };
    let structure = match strict {
        Some(false) => None,
        _ => match closed(structure, rules) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(open) if strict == Some(true) => return Err(refused(provider, &open)),
            Err(_) => None,
        },
    };
    let mut request = request.into_owned();
    request.strict = Some(structure.is_some());
    request.structure = structure.or(request.structure);
    Ok(Cow::Owned(request))
}

/// A request without structured output, for which the caller's choice is about the schemas of tools.
fn unenforced(request: Cow<'_, ModelRequest>, strict: Option<bool>) -> Cow<'_, ModelRequest> {
    if strict != Some(false) || request.tools.is_empty() {
        return request;
    }
    let mut request = request.into_owned();
    request.strict = strict;
    Cow::Owned(request)
}

fn refused(provider: &str, open: &OpenSchema) -> UppError {
    let message = format!(
        "structure: {provider} cannot enforce this schema: {open}; use a type with named members, or leave \
         strict_schemas out to send the schema without enforcement"
    );
    UppError::invalid_request(provider, message)
}

/// The output of a request, as its own schema describes it.
pub fn output(schema: &RawJson, data: RawJson) -> RawJson {
    without_placeholders(schema, &data).unwrap_or(data)
}
