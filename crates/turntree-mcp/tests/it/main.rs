//! A client and a server of this crate with each other, in process.

#![cfg(test)]

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use turntree_core::http::{
    PreparedRequest, ResponseBody, Transport, TransportError, TransportFuture, TransportResponse,
};
use turntree_mcp::{
    CallEvent, CallKey, Client, ClientOptions, ClientPort, Endpoint, HttpEndpoint, McpError, McpService,
    PortError, ServedTool, ServerInfo, ServerPort,
};
use turntree_server::{Application, Body, Request, RequestContext};

/// How many reports each call makes: all fit into the queues on the way.
const REPORTS: u32 = 20;

#[derive(Debug)]
struct Adder;

impl ServerPort for Adder {
    fn tools(&self) -> Vec<ServedTool> {
        vec![ServedTool(json!({ "name": "add", "description": "Add.", "inputSchema": { "type": "object" } }))]
    }

    fn call(
        &self,
        name: String,
        arguments: Value,
        progress: mpsc::Sender<Value>,
    ) -> BoxFuture<'static, Result<Value, PortError>> {
        Box::pin(async move {
            if name != "add" {
                return Err(PortError { code: -32602, message: format!("there is no tool {name}") });
            }
            let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
            for number in 1..=REPORTS {
                progress.send(json!({ "progress": number, "total": REPORTS })).await.unwrap();
            }
            Ok(
                json!({ "content": [{ "type": "text", "text": sum.to_string() }], "structuredContent": { "sum": sum } }),
            )
        })
    }
}

#[derive(Debug)]
struct Silent;

impl ClientPort for Silent {
    fn request(
        &self,
        method: String,
        _params: Value,
        _call: Option<CallKey>,
    ) -> BoxFuture<'static, Result<Value, PortError>> {
        Box::pin(async move { Err(PortError::internal(method)) })
    }

    fn notification(&self, _method: String, _params: Value) {}
}

/// Sends requests to an application of this process.
struct InProcess(Arc<McpService>);

impl fmt::Debug for InProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InProcess")
    }
}

impl Transport for InProcess {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let service = Arc::clone(&self.0);
        Box::pin(async move {
            let mut inner = Request::new(Body::full(request.body));
            *inner.method_mut() = request.method;
            *inner.uri_mut() = request.url.as_str().parse().unwrap();
            *inner.headers_mut() = request.headers;
            inner.headers_mut().insert("host", "localhost".parse().unwrap());
            let (parts, body) = service.call(inner, RequestContext::default()).await.into_parts();
            let chunks = futures_util::stream::unfold(body, |mut body| async move {
                let chunk = body.next().await?;
                let failed = |error: turntree_server::ServerError| TransportError::Rejected {
                    message: error.to_string(),
                };
                Some((chunk.map_err(failed), body))
            });
            Ok(TransportResponse::from_parts(parts, ResponseBody::new(chunks)))
        })
    }
}

async fn connected() -> Client {
    let info = ServerInfo { name: "adder".to_owned(), version: "1".to_owned(), instructions: None };
    let service = Arc::new(McpService::new(info, Arc::new(Adder), true));
    let endpoint =
        HttpEndpoint::new("http://localhost/mcp", &[], None, Arc::new(InProcess(service))).unwrap();
    Client::connect(Endpoint::Http(endpoint), ClientOptions::default(), Arc::new(Silent)).await.unwrap()
}

#[tokio::test]
async fn a_client_lists_and_calls_the_tools_of_a_server() {
    let client = connected().await;

    let tools = client.call("tools/list".to_owned(), json!({})).await.unwrap();
    let params = json!({ "name": "add", "arguments": { "a": 2, "b": 3 } });
    let result = client.call("tools/call".to_owned(), params).await.unwrap();

    assert_eq!(client.server()["serverInfo"]["name"], "adder");
    assert_eq!(tools["tools"][0]["name"], "add");
    assert_eq!(result["structuredContent"], json!({ "sum": 5 }));
    client.close().await;
}

#[tokio::test]
async fn an_error_of_the_server_has_its_code() {
    let client = connected().await;

    let error = client.call("tools/call".to_owned(), json!({ "name": "no" })).await.unwrap_err();

    assert!(matches!(error, McpError::Refused { code: -32602, .. }), "{error}");
}

#[tokio::test]
async fn every_report_comes_before_its_result_and_in_order() {
    let client = connected().await;

    for _ in 0..50 {
        let params = json!({ "name": "add", "arguments": { "a": 2, "b": 3 } });
        let mut call = client.start_call("tools/call".to_owned(), params, None);
        let mut reports = Vec::new();
        while let CallEvent::Progress(report) = call.next().await.unwrap() {
            reports.push(report["progress"].as_f64().unwrap());
        }
        assert_eq!(reports, (1..=REPORTS).map(f64::from).collect::<Vec<_>>());
    }
    client.close().await;
}

#[test]
fn an_invalid_address_is_refused() {
    let info = ServerInfo::default();
    let transport = Arc::new(InProcess(Arc::new(McpService::new(info, Arc::new(Adder), true))));

    let error = HttpEndpoint::new("example.com", &[], None, transport).unwrap_err();

    assert!(error.to_string().contains("https://example.com/mcp"), "{error}");
}
