//! The cost of a JSON Schema from an untrusted source, before it is compiled and before a value is validated.
//!
//! The number of steps of a validation can be exponential: combinators (`anyOf`, …) evaluate their branches again to list
//! errors, references multiply branches, and each level of a recursive type multiplies them again. The validator has no
//! limit of steps, so the steps are counted first: [`SchemaCost::of`] refuses schemas that are too expensive for every
//! value, [`SchemaCost::check`] and [`SchemaCost::can_list_errors`] count those
//! of one value.
//!
//! The estimate is an upper bound up to a constant factor. A step takes 10 to 50 ns.

mod graph;
mod instance;
mod pattern;

use std::collections::HashMap;

use serde_json::Value;

use graph::{Graph, Rule, Selector};
use instance::Instance;

/// Maximum number of steps of a validation: about a second.
pub(super) const MAX_STEPS: u64 = 50_000_000;

/// Maximum number of steps to list the errors of an invalid value. These steps are slower, because they create errors.
const MAX_ERROR_STEPS: u64 = 1_000_000;

/// Maximum number of pairs of subschema and value that an exact count visits: about 100 MB.
const MAX_PAIRS: usize = 1_000_000;

/// Maximum number of subschemas that apply to one value through each other. Each needs stack.
const MAX_CHAIN: usize = 1_000;

/// Steps to look up the result of a recursive subschema, which the validator caches.
const LOOKUP: u64 = 32;

/// The costs of a subschema, in steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    /// To decide whether a value is valid.
    valid: u64,
    /// To collect what `unevaluatedProperties` and `unevaluatedItems` need.
    evaluated: u64,
    /// To list the errors of an invalid value.
    errors: u64,
}

impl Cost {
    /// Adds the cost of a subschema.
    fn add(&mut self, rule: Rule, below: Self) {
        let add = |total: &mut u64, steps: u64| *total = total.saturating_add(steps);
        let again = below.valid.saturating_mul(2);
        add(&mut self.valid, below.valid);
        add(&mut self.errors, below.errors);
        if rule == Rule::Choice {
            add(&mut self.errors, again);
        }
        add(&mut self.evaluated, again.saturating_add(below.evaluated));
    }

    /// Adds the cost of keywords that need to know what the others evaluated.
    fn add_unevaluated(&mut self) {
        self.valid = self.valid.saturating_add(self.evaluated);
        self.errors = self.errors.saturating_add(self.evaluated);
    }
}

/// The costs of a schema.
#[derive(Debug)]
pub(super) struct SchemaCost {
    graph: Graph,
    /// The cost of the whole schema for one value, if every subschema applied to it; recursion is counted once.
    whole: Cost,
    /// As `whole`, for each byte of the value's text: patterns.
    per_byte: u64,
    /// The length of the longest chain of subschemas that apply to one value.
    chain: usize,
    /// The most expensive place, as a JSON pointer.
    place: String,
}

impl SchemaCost {
    /// The costs of a schema.
    ///
    /// # Errors
    /// The place and the rule, for a schema that is too expensive to compile or for every value.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let graph = Graph::of(schema)?;
        let Totals { whole, per_byte, chain, place } = totals(&graph);
        if chain > MAX_CHAIN {
            return Err(format!("{place}: more than {MAX_CHAIN} subschemas apply to one value; inline some"));
        }
        if whole.valid > MAX_STEPS {
            return Err(format!(
                "{place}: validation takes more than {MAX_STEPS} steps for every value; reduce the nesting of anyOf, \
                 oneOf, allOf and unevaluatedProperties, and the number of references to the same definition"
            ));
        }
        Ok(Self { graph, whole, per_byte, chain, place })
    }

    /// Frames of the stack that a validation needs, for a value with `depth` levels.
    pub(super) const fn frames(&self, depth: usize) -> usize {
        (self.chain + 2).saturating_mul(depth + 1)
    }

    /// The number of steps to validate a value, as a quick estimate. `bytes` is the length of its text.
    pub(super) fn estimate(&self, value: &Value, bytes: usize) -> u64 {
        let recursive = count(self.graph.recursive).saturating_add(1);
        let steps = self.whole.valid.saturating_mul(Instance::count(value));
        steps.saturating_add(self.per_byte.saturating_mul(count(bytes))).saturating_mul(recursive)
    }

    /// Checks the number of steps that decide whether a value is valid. `estimate`: that of [`Self::estimate`].
    ///
    /// # Errors
    /// The place and the rule.
    pub(super) fn check(&self, value: &Value, estimate: u64) -> Result<(), String> {
        if self.graph.has_unique && Instance::comparisons(value) > MAX_STEPS {
            return Err(format!(
                "uniqueItems takes more than {MAX_STEPS} comparisons; remove it from the schema"
            ));
        }
        if estimate <= MAX_STEPS || self.exact(value).is_some_and(|cost| cost.valid <= MAX_STEPS) {
            return Ok(());
        }
        let place = if self.place.is_empty() { "the root" } else { &self.place };
        Err(format!(
            "the validation takes more than {MAX_STEPS} steps, most of them for {place} of the schema; simplify it"
        ))
    }

    /// True if the errors of an invalid value can be listed. Otherwise the value is only known to be invalid.
    pub(super) fn can_list_errors(&self, value: &Value, bytes: usize) -> bool {
        let steps = self.whole.errors.saturating_mul(Instance::count(value));
        let steps = steps.saturating_add(self.per_byte.saturating_mul(count(bytes)));
        (self.graph.recursive == 0 && steps <= MAX_ERROR_STEPS)
            || self.exact(value).is_some_and(|cost| cost.errors <= MAX_ERROR_STEPS)
    }

    /// The cost for one value; `None` if too many pairs of subschema and value must be visited. Not recursive.
    fn exact(&self, value: &Value) -> Option<Cost> {
        let instance = Instance::of(value);
        let mut known: HashMap<(usize, usize), Cost> = HashMap::new();
        let mut recursive = 0_u64;
        let mut stack = vec![(0_usize, 0_usize, false)];
        while let Some((schema, place, is_entered)) = stack.pop() {
            if known.contains_key(&(schema, place)) {
                continue;
            }
            let node = self.graph.nodes.get(schema)?;
            if !is_entered {
                if known.len() + stack.len() > MAX_PAIRS {
                    return None;
                }
                stack.push((schema, place, true));
                for edge in &node.edges {
                    instance.selected(&edge.selector, place, |selected| {
                        if !known.contains_key(&(edge.target, selected)) {
                            stack.push((edge.target, selected, false));
                        }
                    });
                }
                continue;
            }
            let text = node.per_byte.saturating_mul(instance.text(place));
            let mut cost = Cost::default();
            for edge in &node.edges {
                instance.selected(&edge.selector, place, |selected| {
                    let below = known.get(&(edge.target, selected)).copied().unwrap_or_default();
                    cost.add(edge.rule, below);
                });
            }
            if node.has_unevaluated {
                cost.add_unevaluated();
            }
            cost.valid = cost.valid.saturating_add(node.own).saturating_add(text);
            cost.errors = cost.errors.saturating_add(node.own).saturating_add(text);
            if node.is_recursive {
                recursive = recursive.saturating_add(cost.valid);
                cost.valid = LOOKUP;
            }
            known.insert((schema, place), cost);
        }
        let mut cost = *known.get(&(0, 0))?;
        cost.valid = cost.valid.saturating_add(recursive);
        Some(cost)
    }
}

/// A number as steps.
pub(super) fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

struct Totals {
    whole: Cost,
    per_byte: u64,
    chain: usize,
    place: String,
}

/// What is known about a subschema once the subschemas below it are known.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    cost: Cost,
    per_byte: u64,
    chain: usize,
}

/// The weights of the schema as if it was a tree: a reference costs what its target costs, except a recursive one.
fn totals(graph: &Graph) -> Totals {
    let mut weights = vec![Weight::default(); graph.nodes.len()];
    let mut heaviest = (0, 0);
    for schema in &graph.bottom_up {
        let Some(node) = graph.nodes.get(*schema) else { continue };
        let mut weight = Weight { cost: Cost::default(), per_byte: node.per_byte, chain: 1 };
        for edge in &node.edges {
            let below = weights.get(edge.target).copied().unwrap_or_default();
            let is_recursive =
                edge.is_back || graph.nodes.get(edge.target).is_some_and(|node| node.is_recursive);
            if edge.selector == Selector::Here {
                weight.chain = weight.chain.max(below.chain.saturating_add(1));
            }
            if is_recursive {
                let lookup = Cost { valid: LOOKUP, evaluated: LOOKUP, errors: LOOKUP };
                weight.cost.add(edge.rule, lookup);
            } else {
                weight.cost.add(edge.rule, below.cost);
                weight.per_byte = weight.per_byte.saturating_add(below.per_byte);
            }
        }
        if node.has_unevaluated {
            weight.cost.add_unevaluated();
        }
        weight.cost.valid = weight.cost.valid.saturating_add(node.own);
        weight.cost.errors = weight.cost.errors.saturating_add(node.own);
        // The root is the most expensive place of every schema, and a reference costs what its target costs.
        if *schema != 0 && node.edges.len() > 1 && weight.cost.valid > heaviest.0 {
            heaviest = (weight.cost.valid, *schema);
        }
        if let Some(slot) = weights.get_mut(*schema) {
            *slot = weight;
        }
    }
    let recursive = graph.nodes.iter().zip(&weights).skip(1).filter(|(node, _)| node.is_recursive);
    let mut root = weights.first().copied().unwrap_or_default();
    for (_, weight) in recursive {
        root.cost.valid = root.cost.valid.saturating_add(weight.cost.valid);
        root.per_byte = root.per_byte.saturating_add(weight.per_byte);
    }
    let place = graph.nodes.get(heaviest.1).map(|node| node.pointer.clone()).unwrap_or_default();
    let chain = weights.iter().map(|weight| weight.chain).max().unwrap_or_default();
    Totals { whole: root.cost, per_byte: root.per_byte, chain, place }
}
