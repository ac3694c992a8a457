//! What a client answers to the messages of a server.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, CustomResult, ErrorCode, ErrorData, Implementation,
    ProgressToken, ServerNotification, ServerRequest,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{ClientOptions, ClientPort};

/// How many reports wait for the registration of their calls; older ones are dropped.
const EARLY_REPORTS: usize = 64;

/// The calls that wait for progress.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    registered: HashMap<ProgressToken, mpsc::Sender<Value>>,
    /// Reports of calls that are not registered: a fast server sends them before the request's token is known here.
    early: VecDeque<(ProgressToken, Value)>,
}

/// Forgets a call when it is over.
pub(super) struct Registered {
    registry: Arc<Progress>,
    token: ProgressToken,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.lock().registered.remove(&self.token);
    }
}

impl Progress {
    pub(super) fn register(
        self: &Arc<Self>,
        token: ProgressToken,
        sender: mpsc::Sender<Value>,
    ) -> Registered {
        let mut calls = self.lock();
        for (_, report) in calls.early.iter().filter(|(early, _)| *early == token) {
            let _sent = sender.try_send(report.clone());
        }
        calls.early.retain(|(early, _)| *early != token);
        calls.registered.insert(token.clone(), sender);
        drop(calls);
        Registered { registry: Arc::clone(self), token }
    }

    fn report(&self, token: &ProgressToken, report: Value) {
        let mut calls = self.lock();
        if let Some(sender) = calls.registered.get(token) {
            // A reader that is too slow misses reports, not the result.
            let _sent = sender.try_send(report);
        } else {
            calls.early.push_back((token.clone(), report));
            if calls.early.len() > EARLY_REPORTS {
                calls.early.pop_front();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The service of rmcp behind a [`Client`](super::Client).
#[derive(Debug)]
pub(super) struct ClientService {
    config: ClientConfig,
    port: Arc<dyn ClientPort>,
    progress: Arc<Progress>,
}

impl ClientService {
    pub(super) fn new(options: &ClientOptions, port: Arc<dyn ClientPort>) -> Self {
        let mut declared = Map::new();
        let asked = [("sampling", options.sampling), ("roots", options.roots)];
        for (name, _) in asked.into_iter().filter(|(_, is_declared)| *is_declared) {
            declared.insert(name.to_owned(), Value::Object(Map::new()));
        }
        if options.elicitation {
            let modes = serde_json::json!({ "form": {}, "url": {} });
            declared.insert("elicitation".to_owned(), modes);
        }
        let capabilities: ClientCapabilities =
            serde_json::from_value(Value::Object(declared)).unwrap_or_default();
        let (name, version) = options.client.clone();
        let config = ClientConfig::new(capabilities, Implementation::new(name, version));
        Self { config, port, progress: Arc::default() }
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl Service<RoleClient> for ClientService {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if let ServerRequest::PingRequest(_) = request {
            return Ok(ClientResult::empty(()));
        }
        let (method, params) = parts(&request)?;
        let answering = self.port.request(method.clone(), params);
        let answer = context.ct.run_until_cancelled(answering).await;
        let cancelled = || internal("the request was cancelled".to_owned());
        let answer = answer
            .ok_or_else(cancelled)?
            .map_err(|error| ErrorData::new(ErrorCode(error.code), error.message, None))?;
        result_of(&method, answer).map_err(|error| internal(error.to_string()))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        if let ServerNotification::ProgressNotification(progress) = &notification {
            let token = progress.params.progress_token.clone();
            let report = serde_json::to_value(&progress.params).unwrap_or(Value::Null);
            self.progress.report(&token, report);
            return Ok(());
        }
        let (method, params) = parts(&notification)?;
        self.port.notification(method, params);
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}

/// The method and the parameters of a message.
fn parts(message: &impl serde::Serialize) -> Result<(String, Value), ErrorData> {
    let mut message = serde_json::to_value(message).map_err(|error| internal(error.to_string()))?;
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
    let params = message.get_mut("params").map(Value::take).unwrap_or_default();
    Ok((method, params))
}

fn result_of(method: &str, answer: Value) -> Result<ClientResult, serde_json::Error> {
    Ok(match method {
        "sampling/createMessage" => ClientResult::CreateMessageResult(serde_json::from_value(answer)?),
        "roots/list" => ClientResult::ListRootsResult(serde_json::from_value(answer)?),
        "elicitation/create" => ClientResult::ElicitResult(serde_json::from_value(answer)?),
        _ => ClientResult::CustomResult(CustomResult(answer)),
    })
}

fn internal(message: String) -> ErrorData {
    ErrorData::internal_error(message, None)
}
