//! Reports of progress, in the order in which the server sends them, and the calls that requests of the server belong to.
//!
//! rmcp handles each notification in a task of its own, so a report could be handled after the result that follows it,
//! or before its call is known. Here a call is registered before its request is sent, and a report goes to the call
//! before the next message of the server is read. The call is forgotten when its result is read.
//!
//! rmcp marks a request of the server with the id of the call on whose stream it arrived, if the transport has streams.
//! The ids are rmcp's; here they become the keys of the application.

use std::collections::HashMap;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _, GetMeta as _,
    JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::InboundStreamOrigin;
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::mpsc;

use super::CallKey;

/// Where the reports of a request go, and its key: an extension of the request, which is not sent.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    pub(super) reports: mpsc::Sender<Value>,
    pub(super) key: Option<CallKey>,
}

impl Listener {
    /// Follows a request that is about to be sent.
    pub(super) fn follow(self, request: &mut ClientRequest) {
        request.extensions_mut().insert(self);
    }
}

/// A transport that hands over the reports of progress that it receives, and marks requests of the server with a [`CallKey`].
pub(super) struct Reporting<T> {
    inner: T,
    calls: HashMap<RequestId, (ProgressToken, Listener)>,
}

impl<T> Reporting<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, calls: HashMap::new() }
    }

    fn sending(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(sent) => {
                let listener = sent.request.extensions().get::<Listener>();
                let token = sent.request.get_meta().get_progress_token();
                if let Some((listener, token)) = listener.zip(token) {
                    self.calls.insert(sent.id.clone(), (token, listener.clone()));
                }
            }
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification {
                    self.calls.retain(|id, _| Some(id) != cancelled.params.request_id.as_ref());
                }
            }
            _ => {}
        }
    }

    fn received(&mut self, message: &mut ServerJsonRpcMessage) {
        match message {
            JsonRpcMessage::Notification(received) => {
                let ServerNotification::ProgressNotification(report) = &received.notification else { return };
                let token = &report.params.progress_token;
                let Some((_, listener)) = self.calls.values().find(|(of_call, _)| of_call == token) else {
                    return;
                };
                let report = serde_json::to_value(&report.params).unwrap_or(Value::Null);
                // A reader that is too slow misses reports, not the result.
                let _sent = listener.reports.try_send(report);
            }
            JsonRpcMessage::Response(received) => {
                self.calls.remove(&received.id);
            }
            JsonRpcMessage::Error(received) => {
                self.calls.retain(|id, _| Some(id) != received.id.as_ref());
            }
            JsonRpcMessage::Request(received) => {
                let extensions = received.request.extensions_mut();
                let Some(InboundStreamOrigin::OutboundRequest(id)) = extensions.get() else { return };
                if let Some(key) = self.calls.get(id).and_then(|(_, listener)| listener.key) {
                    extensions.insert(key);
                }
            }
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Reporting<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.sending(&message);
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let mut message = self.inner.receive().await?;
        self.received(&mut message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
