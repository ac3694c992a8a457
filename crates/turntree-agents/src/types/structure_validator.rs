//! Compiles a JSON Schema from an untrusted source, and validates values, with limits on the work.

use std::fmt::{self, Display, Write as _};
use std::thread;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::schema_cost::SchemaCost;
use super::structure::{MAX_MESSAGE_LENGTH, Violation};
use turntree_core::computation::compute;
use turntree_core::json::{RawJson, describe_part};
use turntree_core::limits::Limits;

/// Maximum size of a compiled pattern in bytes; `\p{L}{1,50}` takes 1.5 MB.
const PATTERN_SIZE: usize = 2 << 20;

/// Maximum number of steps back while a pattern with lookaround is matched: about a millisecond.
const BACKTRACKS: usize = 20_000;

/// Validations with more steps run without the interpreter lock.
const LONG: u64 = 10_000;

/// Stack of a compilation in bytes: 128 levels of keywords.
const COMPILER_STACK: usize = 16 << 20;

/// Stack of one subschema that is applied, in bytes.
const FRAME: usize = 4 << 10;

/// Number of frames that every thread has room for.
const FEW_FRAMES: usize = 96;

/// Maximum stack of a validation in bytes.
const MAX_STACK: usize = 256 << 20;

/// A compiled schema.
pub(super) struct StructureValidator {
    validator: Validator,
    cost: SchemaCost,
}

impl StructureValidator {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The place and the rule of a schema that is not valid, too deep or too expensive.
    pub(super) fn of(schema: &RawJson) -> Result<Self, String> {
        Limits::PAYLOAD.check(schema.get()).map_err(|error| error.to_string())?;
        on_stack(COMPILER_STACK, || Self::compile(schema))?
    }

    fn compile(schema: &RawJson) -> Result<Self, String> {
        let schema = schema.to::<Value>().map_err(|error| describe_part(&error))?;
        let cost = SchemaCost::of(&schema)?;
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(PATTERN_SIZE);
        // An untrusted schema must not cause requests.
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        let validator = options.build(&schema).map_err(|error| shortened(&error))?;
        Ok(Self { validator, cost })
    }

    /// The violations of a value.
    pub(super) fn violations(&self, value: &RawJson) -> Vec<Violation> {
        let levels = [8, 32, 127]
            .into_iter()
            .find(|depth| Limits { depth: *depth, ..Limits::PAYLOAD }.check(value.get()).is_ok());
        let Some(levels) = levels else {
            return vec![Violation::new("", "depth", "the nesting is too deep")];
        };
        let frames = self.cost.frames(levels);
        if frames <= FEW_FRAMES {
            return self.parsed(value);
        }
        let stack = frames.saturating_mul(FRAME).clamp(1 << 20, MAX_STACK);
        let violations = on_stack(stack, || self.parsed(value));
        violations.unwrap_or_else(|reason| vec![Violation::new("", "budget", &reason)])
    }

    fn parsed(&self, value: &RawJson) -> Vec<Violation> {
        let Ok(tree) = value.to::<Value>() else {
            return vec![Violation::new("", "depth", "the nesting is too deep")];
        };
        let bytes = value.get().len();
        let steps = self.cost.estimate(&tree, bytes);
        if steps <= LONG {
            return self.checked(&tree, bytes, steps);
        }
        let mut violations = Vec::new();
        compute(&mut || violations = self.checked(&tree, bytes, steps));
        violations
    }

    fn checked(&self, tree: &Value, bytes: usize, steps: u64) -> Vec<Violation> {
        if let Err(reason) = self.cost.check(tree, steps) {
            return vec![Violation::new("", "budget", &reason)];
        }
        if self.validator.is_valid(tree) {
            return Vec::new();
        }
        if !self.cost.can_list_errors(tree, bytes) {
            let reason = "it does not match the schema; to list the reasons takes too many steps";
            return vec![Violation::new("", "budget", reason)];
        }
        let errors = self.validator.iter_errors(tree);
        errors
            .map(|error| {
                Violation::new(error.instance_path().as_str(), error.kind().keyword(), &shortened(&error))
            })
            .collect()
    }
}

/// Runs a computation on a thread with a stack of this size, without the interpreter lock.
fn on_stack<R: Send>(bytes: usize, work: impl FnOnce() -> R + Send) -> Result<R, String> {
    let mut work = Some(work);
    let mut result = Err("the computation did not run".to_owned());
    compute(&mut || {
        let Some(work) = work.take() else { return };
        result = thread::scope(|scope| {
            let named = thread::Builder::new().name("turntree-schema".to_owned()).stack_size(bytes);
            let running = named.spawn_scoped(scope, work).map_err(|error| format!("no thread: {error}"))?;
            running.join().map_err(|_| "the JSON Schema library failed".to_owned())
        });
    });
    result
}

/// The text of an error, which contains the value: the beginning.
fn shortened(error: &dyn Display) -> String {
    struct Beginning(String);
    impl fmt::Write for Beginning {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            if self.0.len() > 4 * MAX_MESSAGE_LENGTH { Err(fmt::Error) } else { self.0.write_str(text) }
        }
    }
    let mut beginning = Beginning(String::new());
    // An error means that the text is long enough.
    let _ = write!(beginning, "{error}");
    Violation::new("", "", &beginning.0).message
}
