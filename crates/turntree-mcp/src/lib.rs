//! The Model Context Protocol (MCP): clients of servers, and servers of tools.
//!
//! Messages, sessions and the state of connections are those of the official SDK, `rmcp`; only this crate names it.
//! Requests over HTTP go through [`Transport`](turntree_core::http::Transport), and servers answer through
//! [`Application`](turntree_server::Application). Parameters and results cross the border of this crate as JSON values.
//!
//! | module | content |
//! |---|---|
//! | [`client`] | connections to servers: as a child process, over Streamable HTTP, over the HTTP transport of 2024 |
//! | [`server`] | tools as a server: over standard streams and as an application of `turntree-server` |
//! | [`error`] | errors of both |

pub mod client;
pub mod error;
pub mod server;

pub use self::client::{
    CallEvent, CallKey, Client, ClientOptions, ClientPort, Endpoint, HttpEndpoint, RunningCall, StdioCommand,
};
pub use self::error::{McpError, PortError};
pub use self::server::{McpService, ServedTool, ServerInfo, ServerPort, serve_stdio};
