//! Which JSON Schemas vendors enforce.

/// The JSON Schemas that a vendor enforces. Every object is closed: `additionalProperties` is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaRules {
    /// True if every member is required. An optional member is then sent as one that may be null.
    pub requires_all: bool,
    /// True if definitions may refer to themselves.
    pub recursive: bool,
    /// The constraints that the vendor enforces. Others become part of the description.
    pub constraints: &'static [&'static str],
    /// The values of `format` that the vendor knows.
    pub formats: &'static [&'static str],
    /// The largest `minItems` that the vendor enforces.
    pub max_min_items: Option<u64>,
}

const NUMBERS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

impl SchemaRules {
    /// OpenAI, and the hosts with its APIs.
    pub const OPENAI: Self = Self {
        requires_all: true,
        recursive: true,
        constraints: &[
            NUMBERS[0], NUMBERS[1], NUMBERS[2], NUMBERS[3], NUMBERS[4], "pattern", "format", "minItems",
            "maxItems",
        ],
        formats: &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
        max_min_items: None,
    };

    /// Cerebras: as OpenAI, without the constraints of texts and lists.
    pub const CEREBRAS: Self =
        Self { constraints: &[NUMBERS[0], NUMBERS[1], NUMBERS[4]], formats: &[], ..Self::OPENAI };

    /// Anthropic: members may be optional, but no type may contain itself.
    pub const ANTHROPIC: Self = Self {
        requires_all: false,
        recursive: false,
        constraints: &["format", "minItems"],
        formats: &[
            "date-time",
            "time",
            "date",
            "duration",
            "email",
            "hostname",
            "uri",
            "ipv4",
            "ipv6",
            "uuid",
        ],
        max_min_items: Some(1),
    };
}
