//! The tools of an application behind rmcp.

use std::fmt;
use std::sync::Arc;

use futures_util::future::{Either, select};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode, ErrorData, Implementation,
    ListToolsResult, PaginatedRequestParams, ProgressToken, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{ServerInfo, ServerPort};
use crate::error::PortError;

/// How many reports of progress of one call wait; later ones are dropped.
const PROGRESS_BUFFER: usize = 64;

/// The handler of one connection.
#[derive(Clone)]
pub(super) struct ToolService {
    info: ServerInfo,
    port: Arc<dyn ServerPort>,
}

impl fmt::Debug for ToolService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ToolService").field("info", &self.info).finish_non_exhaustive()
    }
}

impl ToolService {
    pub(super) const fn new(info: ServerInfo, port: Arc<dyn ServerPort>) -> Self {
        Self { info, port }
    }
}

impl ServerHandler for ToolService {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let implementation = Implementation::new(self.info.name.clone(), self.info.version.clone());
        let config = ServerConfig::new(capabilities).with_server_info(implementation);
        match &self.info.instructions {
            Some(instructions) => config.with_instructions(instructions.clone()),
            None => config,
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let read = |tool: super::ServedTool| serde_json::from_value::<Tool>(tool.0);
        let tools: Result<Vec<Tool>, _> = self.port.tools().into_iter().map(read).collect();
        let invalid = |error: serde_json::Error| ErrorData::internal_error(error.to_string(), None);
        Ok(ListToolsResult::with_all_items(tools.map_err(invalid)?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let (sender, mut reports) = mpsc::channel(PROGRESS_BUFFER);
        let mut call = self.port.call(request.name.into_owned(), arguments, sender);
        let token = context.meta.get_progress_token();
        let working = async {
            let result = loop {
                match select(Box::pin(reports.recv()), call.as_mut()).await {
                    Either::Left((Some(report), _)) => notify(&context.peer, token.as_ref(), report).await,
                    Either::Left((None, call)) => break call.await,
                    Either::Right((result, _)) => break result,
                }
            };
            // What was reported before the result is sent before it.
            while let Ok(report) = reports.try_recv() {
                notify(&context.peer, token.as_ref(), report).await;
            }
            result
        };
        let result = context.ct.run_until_cancelled(working).await;
        let cancelled = || ErrorData::internal_error("the call was cancelled", None);
        let refused = |error: PortError| ErrorData::new(ErrorCode(error.code), error.message, None);
        let result = result.ok_or_else(cancelled)?.map_err(refused)?;
        let result: CallToolResult = serde_json::from_value(result)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(result.into())
    }
}

/// Sends a report, if the client asks for reports: `progress`, and optionally `total` and `message`.
async fn notify(peer: &Peer<RoleServer>, token: Option<&ProgressToken>, mut report: Value) {
    let Some(token) = token else { return };
    if let Some(members) = report.as_object_mut() {
        members.insert("progressToken".to_owned(), json!(token));
    }
    let notification = json!({ "method": "notifications/progress", "params": report });
    match serde_json::from_value(notification) {
        Ok(notification) => drop(peer.send_notification(notification).await),
        Err(error) => log::debug!(target: "turntree.mcp", "a report of progress is not sent: {error}"),
    }
}
