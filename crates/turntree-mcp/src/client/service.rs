//! What a client answers to the messages of a server.

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, CustomResult, ErrorCode, ErrorData, Implementation,
    ServerNotification, ServerRequest,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service};
use serde_json::{Map, Value};

use super::{CallKey, ClientOptions, ClientPort};

/// The service of rmcp behind a [`Client`](super::Client).
#[derive(Debug)]
pub(super) struct ClientService {
    config: ClientConfig,
    port: Arc<dyn ClientPort>,
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
        Self { config, port }
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
        let call = context.extensions.get::<CallKey>().copied();
        let answering = self.port.request(method.clone(), params, call);
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
        // The transport has handed over reports of progress.
        if let ServerNotification::ProgressNotification(_) = notification {
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
