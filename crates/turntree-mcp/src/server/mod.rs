//! Tools as an MCP server.

mod http;
mod service;

use std::fmt;

use futures_util::future::BoxFuture;
use rmcp::service::{ServerInitializeError, ServiceExt as _};
use serde_json::Value;
use tokio::sync::mpsc;
use turntree_core::runtime;

pub use self::http::McpService;
use self::service::ToolService;
use crate::error::{McpError, PortError};
use std::sync::Arc;

/// What a server says of itself.
#[derive(Debug, Clone, Default)]
pub struct ServerInfo {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// How the tools are used, for the model of the client.
    pub instructions: Option<String>,
}

/// The definition of a tool: `name`, `description` and `inputSchema`, and optionally other members of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedTool(pub Value);

/// The tools of an application.
pub trait ServerPort: fmt::Debug + Send + Sync + 'static {
    /// The tools, in the order in which clients see them.
    fn tools(&self) -> Vec<ServedTool>;

    /// Calls a tool, and returns the members of `CallToolResult`. Reports of progress go to `progress`.
    ///
    /// # Cancel safety
    /// The future is dropped when the client cancels the call or disconnects.
    fn call(
        &self,
        name: String,
        arguments: Value,
        progress: mpsc::Sender<Value>,
    ) -> BoxFuture<'static, Result<Value, PortError>>;
}

/// Serves one client over the standard streams of this process, until its input ends.
///
/// # Errors
/// [`McpError::Serve`] if the client does not begin as the protocol demands.
///
/// # Cancel safety
/// Dropping the future ends the connection.
pub async fn serve_stdio(info: ServerInfo, port: Arc<dyn ServerPort>) -> Result<(), McpError> {
    let serving = runtime::spawn(async move {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        let failed = |reason: String| McpError::Serve { reason };
        let running = ToolService::new(info, port).serve(streams).await;
        let running = running.map_err(|error| failed(beginning(&error)))?;
        running.waiting().await.map(drop).map_err(|error| failed(error.to_string()))
    });
    serving.await.map_err(|error| McpError::Serve { reason: error.to_string() })?
}

/// Why a client has not begun.
fn beginning(error: &ServerInitializeError) -> String {
    match error {
        ServerInitializeError::ConnectionClosed(_) => {
            "standard input ended before its first message; a client starts this program and writes to it"
                .to_owned()
        }
        other => other.to_string(),
    }
}
