//! Streamable HTTP as an application of `turntree-server`.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::tower::StreamableHttpService;
use tokio::sync::mpsc;
use turntree_core::runtime;
use turntree_server::{Application, Body, Request, RequestContext, Response, ServerError};

use super::service::ToolService;
use super::{ServerInfo, ServerPort};

/// How many chunks of a response wait for the connection.
const BODY_BUFFER: usize = 8;

/// Serves the tools of an application at every path.
pub struct McpService {
    inner: StreamableHttpService<ToolService, LocalSessionManager>,
    config: StreamableHttpServerConfig,
}

impl fmt::Debug for McpService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("McpService")
    }
}

impl McpService {
    /// A service. `local_only` refuses requests whose `Host` is another than the loopback interface's, so that web pages
    /// cannot reach a server of this machine by DNS rebinding.
    pub fn new(info: ServerInfo, port: Arc<dyn ServerPort>, local_only: bool) -> Self {
        let mut config = StreamableHttpServerConfig::default();
        if !local_only {
            config = config.disable_allowed_hosts();
        }
        let handler = ToolService::new(info, port);
        let inner = StreamableHttpService::new(move || Ok(handler.clone()), Arc::default(), config.clone());
        Self { inner, config }
    }
}

impl Application for McpService {
    fn call(&self, request: Request, _context: RequestContext) -> BoxFuture<'_, Response> {
        let inner = self.inner.clone();
        Box::pin(async move {
            // rmcp starts tasks and timers; an ASGI server polls this future outside of the runtime.
            let handled = runtime::spawn(async move { inner.handle(request).await }).await;
            match handled {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    Response::from_parts(parts, pumped(body))
                }
                Err(error) => Body::text(error.to_string()).into_response(StatusCode::INTERNAL_SERVER_ERROR),
            }
        })
    }

    fn shutdown(&self) {
        self.config.cancellation_token.cancel();
    }
}

/// A body that is read on the runtime.
fn pumped<B>(body: B) -> Body
where
    B: http_body::Body<Data = bytes::Bytes> + Send + Unpin + 'static,
    B::Error: fmt::Display + Send,
{
    let length = body.size_hint().exact();
    let (sender, receiver) = mpsc::channel(BODY_BUFFER);
    let task = runtime::spawn(async move {
        let mut body = body;
        loop {
            let frame =
                std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await;
            let Some(Ok(frame)) = frame else { return };
            let Ok(data) = frame.into_data() else { continue };
            if sender.send(data).await.is_err() {
                return;
            }
        }
    });
    let chunks = stream::unfold((receiver, task), |(mut receiver, task)| async move {
        receiver.recv().await.map(|chunk| (Ok::<_, ServerError>(chunk), (receiver, task)))
    });
    Body::stream_with_length(chunks.boxed(), length)
}
