//! What differs between harnesses, as data: `adapters.json`.

use std::sync::LazyLock;

use serde::Deserialize;

/// How a harness reads a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplyForm {
    /// Exit 2 with the reason on the error output; JSON with `hookSpecificOutput` for questions and context.
    Claude,
    /// Exit 2 with the reason on the error output; it has no questions.
    Codex,
    /// JSON with `permission`.
    Cursor,
    /// JSON with `decision`, which the plugin turns into an exception.
    Plugin,
    /// JSON with `decision`, exit 2 for a denial.
    Generic,
}

/// A harness.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Its name.
    pub name: String,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// How it reads a reply.
    pub reply: ReplyForm,
    /// Keys of an event that name its kind; the first that is there counts.
    pub event_keys: Vec<String>,
    /// The names of events and our kinds.
    pub events: Vec<(String, String)>,
    /// Keys of the session.
    pub session_keys: Vec<String>,
    /// Keys of the tool's name.
    pub tool_keys: Vec<String>,
    /// Keys of the tool's arguments. None: they are in the event itself.
    pub input_keys: Vec<String>,
    /// The names of tools that run a shell.
    pub shell_tools: Vec<String>,
    /// The names of tools that change files.
    pub edit_tools: Vec<String>,
    /// The names of tools that read a file.
    pub read_tools: Vec<String>,
    /// What `status` says about how far this harness can be guarded.
    pub note: String,
}

static ADAPTERS: LazyLock<Vec<Adapter>> = LazyLock::new(|| {
    // The test `the_adapters_are_valid` reads the file; a program that cannot read it has none, and denies.
    serde_json::from_str(include_str!("adapters.json")).unwrap_or_default()
});

/// All harnesses.
pub fn adapters() -> &'static [Adapter] {
    &ADAPTERS
}

/// The harness with a name.
pub fn find(name: &str) -> Option<&'static Adapter> {
    let name = name.to_lowercase();
    adapters().iter().find(|adapter| adapter.name == name || adapter.aliases.contains(&name))
}
