//! Reports of progress, in the order in which the server sends them.
//!
//! rmcp handles each notification in a task of its own, so a report could be handled after the result that follows it,
//! or before its call is known. Here a call is registered before its request is sent, and a report goes to the call
//! before the next message of the server is read. The call is forgotten when its result is read.

use std::collections::HashMap;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _, GetMeta as _,
    JsonRpcMessage, ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::mpsc;

/// Where the reports of a request go: an extension of the request, which is not sent.
#[derive(Debug, Clone)]
struct Reader(mpsc::Sender<Value>);

/// Says where the reports of a request go.
pub(super) fn read_reports(request: &mut ClientRequest, reader: mpsc::Sender<Value>) {
    request.extensions_mut().insert(Reader(reader));
}

/// A transport that hands over the reports of progress that it receives.
pub(super) struct Reporting<T> {
    inner: T,
    calls: HashMap<RequestId, (ProgressToken, mpsc::Sender<Value>)>,
}

impl<T> Reporting<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, calls: HashMap::new() }
    }

    fn sending(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(sent) => {
                let reader = sent.request.extensions().get::<Reader>();
                let token = sent.request.get_meta().get_progress_token();
                if let Some((Reader(reader), token)) = reader.zip(token) {
                    self.calls.insert(sent.id.clone(), (token, reader.clone()));
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

    fn received(&mut self, message: &ServerJsonRpcMessage) {
        match message {
            JsonRpcMessage::Notification(received) => {
                let ServerNotification::ProgressNotification(report) = &received.notification else { return };
                let token = &report.params.progress_token;
                let Some((_, reader)) = self.calls.values().find(|(of_call, _)| of_call == token) else {
                    return;
                };
                let report = serde_json::to_value(&report.params).unwrap_or(Value::Null);
                // A reader that is too slow misses reports, not the result.
                let _sent = reader.try_send(report);
            }
            JsonRpcMessage::Response(received) => {
                self.calls.remove(&received.id);
            }
            JsonRpcMessage::Error(received) => {
                self.calls.retain(|id, _| Some(id) != received.id.as_ref());
            }
            JsonRpcMessage::Request(_) => {}
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
        let message = self.inner.receive().await?;
        self.received(&message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
