//! What Anthropic's models support, by their names.

/// The families of models that enforce schemas from a version on: `claude-sonnet-4-5`.
const FAMILIES: [&str; 3] = ["claude-opus-", "claude-sonnet-", "claude-haiku-"];

/// The first version that enforces schemas.
const FIRST_ENFORCING: (u32, u32) = (4, 5);

/// True if the model enforces schemas of structured output.
pub(super) fn enforces_schemas(model_id: &str) -> bool {
    version(model_id).is_some_and(|version| version >= FIRST_ENFORCING)
}

/// Major and minor version of a model: `claude-sonnet-4-5-20250929` is (4, 5), `claude-opus-4-20250514` is (4, 0).
fn version(model_id: &str) -> Option<(u32, u32)> {
    let rest = FAMILIES.iter().find_map(|family| model_id.strip_prefix(family))?;
    let mut numbers = rest.split(['-', '.', '@']).map_while(|part| part.parse::<u32>().ok());
    let is_version = |number: &u32| *number < 100;
    let major = numbers.next().filter(is_version)?;
    Some((major, numbers.next().filter(is_version).unwrap_or_default()))
}
