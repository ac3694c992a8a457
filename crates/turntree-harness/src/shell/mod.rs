//! What a shell command does, as facts: bash text in, the commands that it would run out.
//!
//! | module | content |
//! |---|---|
//! | [`facts`] | commands, words, redirects: what the parser finds |
//! | `word` | quotes, escapes, variables and braces of one word |
//! | `tree` | the syntax tree walked in source order |
//! | `scope` | variables and the working directory at each point |
//! | `wrappers` | `env`, `sudo`, `xargs`, `find -exec` and others that run another command |
//! | `carriers` | commands in settings of git, variables, options of `tar` and others |
//! | `git_aliases` | aliases of git, given with a command or configured |
//! | `nested` | `sh -c`, `eval`, here-documents and pipes into a shell |
//!
//! A value that the text does not determine is *unknown*, which is a value of its own: rules decide what an unknown word
//! in a dangerous place means. Nothing here recurses over the input.

mod carriers;
pub mod facts;
mod git_aliases;
mod nested;
mod scope;
mod tree;
mod word;
mod wrappers;

pub use facts::{Command, Redirect, Script, Stdin, Via, Word};
pub use git_aliases::ReadGitAliases;
pub use nested::analyze;
pub use scope::Surroundings;
