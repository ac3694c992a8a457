//! What Anthropic's models support, by their names.

/// The families of models that enforce schemas from a version on: `claude-sonnet-4-5`.
const FAMILIES: [&str; 3] = ["claude-opus-", "claude-sonnet-", "claude-haiku-"];

/// The first version that enforces schemas.
const FIRST_ENFORCING: (u32, u32) = (4, 5);

/// True if the model enforces schemas of structured output.
pub(in crate::dialects) fn enforces_schemas(model_id: &str) -> bool {
    version(model_id).is_some_and(|version| version >= FIRST_ENFORCING)
}

/// The most tokens that models can write, by the beginnings of their names; the first one that fits is used.
const MOST_TOKENS: [(&str, u64); 10] = [
    ("claude-3-5-", 8192),
    ("claude-3-7-", 64_000),
    ("claude-3-", FEW_TOKENS),
    ("claude-2", FEW_TOKENS),
    ("claude-instant", FEW_TOKENS),
    ("claude-opus-4-0", 32_000),
    ("claude-opus-4-1", 32_000),
    // A date follows, as in `claude-opus-4-20250514`.
    ("claude-opus-4-2", 32_000),
    ("claude-", 64_000),
    ("grok-", 64_000),
];

/// The most tokens of an answer that any model accepts.
const FEW_TOKENS: u64 = 4096;

/// The most tokens of an answer of this model; a number that any model accepts if its name is unknown.
pub(super) fn most_tokens(model_id: &str) -> u64 {
    // Gateways put the name of the vendor before that of the model.
    let start = ["claude-", "grok-"].iter().find_map(|family| model_id.find(family)).unwrap_or_default();
    let name = model_id.get(start..).unwrap_or(model_id);
    let known = MOST_TOKENS.iter().find(|(beginning, _)| name.starts_with(beginning));
    known.map_or(FEW_TOKENS, |(_, most)| *most)
}

/// Major and minor version of a model: `claude-sonnet-4-5-20250929` is (4, 5), `claude-opus-4-20250514` is (4, 0).
fn version(model_id: &str) -> Option<(u32, u32)> {
    let rest = FAMILIES.iter().find_map(|family| model_id.strip_prefix(family))?;
    let mut numbers = rest.split(['-', '.', '@']).map_while(|part| part.parse::<u32>().ok());
    let is_version = |number: &u32| *number < 100;
    let major = numbers.next().filter(is_version)?;
    Some((major, numbers.next().filter(is_version).unwrap_or_default()))
}
