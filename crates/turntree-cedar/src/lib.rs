//! Cedar policies about the actions of coding agents: files of policies and a request in, the policies that match out.
//!
//! The crate knows requests and annotations, and nothing of levels, projects or hooks. It is the only one that uses
//! `cedar-policy`.
//!
//! | module | content |
//! |---|---|
//! | [`request`] | what is asked: who does what, with facts of which some may not be known |
//! | [`policies`] | files parsed, checked against [`SCHEMA`], and asked |
//! | `statements` | the statements of a file, within limits that the parser can bear |
//! | [`error`] | what is wrong with a file |

pub mod error;
pub mod policies;
pub mod request;
mod statements;

pub use error::CedarError;
pub use policies::{Answer, Policies, Policy};
pub use request::{ACTIONS, Fact, Request, Resource};

/// The schema of requests, in Cedar's syntax.
pub const SCHEMA: &str = include_str!("turntree.cedarschema");
