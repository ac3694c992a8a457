//! The client: sessions with agents over one WebSocket connection, which is made again when it is lost.
//!
//! | module | content |
//! |---|---|
//! | [`core`] | what the client knows and sends, without I/O |
//! | [`connection`] | the connection as a task, and the handles of clients and sessions |
//! | [`socket`] | makes a WebSocket connection |
//! | [`error`] | the errors of the client |

pub mod connection;
pub mod core;
pub mod error;
pub(crate) mod socket;

pub use connection::{ClientOptions, ClientResponse, ClientSession, UampClient};
pub use core::{ClientCore, Output, ResponseInput, SessionKey};
pub use error::ClientError;
