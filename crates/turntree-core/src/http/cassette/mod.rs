//! Cassettes: exchanges recorded in a file and played instead of sent.
//!
//! A [`Cassette`] is a [`TransportLayer`](super::TransportLayer): the client's retries, limits, decoding and errors run
//! as they do over the network. A file contains no credentials (see `redact`), and playing needs none.
//!
//! | file | contents, from the lowest layer to the highest |
//! |---|---|
//! | `file` | the file format: types, read, write |
//! | `redact` | removes credentials from what is recorded |
//! | `request` | a request as it is recorded and compared |
//! | `matcher` | compares a request with a recorded one |
//! | `lock` | merges the writes of several recorders of one file |
//! | `cassette` | an open cassette: its exchanges and their state |
//! | `player` | the transport that plays |
//! | `recorder` | the transport that records |

#[expect(clippy::module_inception, reason = "the module is named after its type")]
mod cassette;
mod file;
mod lock;
mod matcher;
mod player;
mod recorder;
mod redact;
mod request;

pub use self::cassette::{Cassette, CassetteMode, CassetteOptions, UnusedExchange};
pub use self::file::CassetteError;
pub use self::player::PlaybackTransport;
pub use self::recorder::RecordingTransport;
pub use self::redact::RedactionHook;
