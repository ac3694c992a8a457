//! A session on a server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use turntree_core::secret::Secret;

use super::error::ClientError;
use super::reply::{error_of, result_of};
use super::running::RunningCall;
use super::{Sent, UaipClient};

/// A session on a server. The tools and the stage are those of the last response.
///
/// Actions of one session run one after the other on the server.
#[derive(Debug)]
pub struct ClientSession {
    client: UaipClient,
    id: Secret,
    workflow: String,
    stages: Vec<String>,
    /// True for servers of version 0.4.
    is_reference: bool,
    current: Mutex<Current>,
}

/// An action that may be sent again.
#[derive(Debug)]
pub(super) struct ActionRequest {
    body: Value,
    key: String,
}

/// What the last response says.
#[derive(Debug, Clone, Default)]
struct Current {
    stage: String,
    tools: Arc<Vec<Value>>,
    version: Option<u64>,
    is_terminal: bool,
    has_ended: bool,
}

impl ClientSession {
    pub(super) async fn start(client: UaipClient, body: &Value) -> Result<Self, ClientError> {
        let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
        let missing = |key: &str| ClientError::Protocol { reason: format!("the response has no \"{key}\"") };
        let stages = body.get("stages").and_then(Value::as_array);
        let names = stages.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let session = Self {
            id: Secret::new(text("session_id").ok_or_else(|| missing("session_id"))?),
            workflow: text("workflow").ok_or_else(|| missing("workflow"))?,
            stages: names.collect(),
            is_reference: stages.is_none(),
            current: Mutex::new(Current {
                stage: text("initial_stage").ok_or_else(|| missing("initial_stage"))?,
                ..Current::default()
            }),
            client,
        };
        // The first tools.
        session.execute("handshake", Map::new()).await?;
        Ok(session)
    }

    /// The id. It is a secret: who knows it can use the session.
    pub const fn id(&self) -> &Secret {
        &self.id
    }

    /// The name of the workflow.
    pub fn workflow(&self) -> &str {
        &self.workflow
    }

    /// The names of all stages; empty from servers that do not send them.
    pub fn stages(&self) -> &[String] {
        &self.stages
    }

    /// The current stage.
    pub fn stage(&self) -> String {
        self.current().stage.clone()
    }

    /// The tools that can be called now, as `{name, description, input_schema}`.
    pub fn tools(&self) -> Arc<Vec<Value>> {
        Arc::clone(&self.current().tools)
    }

    /// The version of the session, if the server sends it.
    pub fn version(&self) -> Option<u64> {
        self.current().version
    }

    /// True if no transition leaves the current stage.
    pub fn is_terminal(&self) -> bool {
        self.current().is_terminal
    }

    /// True after [`Self::end`].
    pub fn has_ended(&self) -> bool {
        self.current().has_ended
    }

    /// Calls a task of the current stage. Returns its result.
    ///
    /// # Errors
    /// [`ClientError::TaskFailed`] if the task has failed, [`ClientError::Refused`] with the code of the server.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request. The server may have run the task.
    pub async fn call(&self, task: &str, args: Map<String, Value>) -> Result<Value, ClientError> {
        let body = self
            .execute("method_call", members([("task", json!(task)), ("args", Value::Object(args))]))
            .await?;
        Ok(result_of(&body))
    }

    /// Calls a task of the current stage, and reads its progress while it runs.
    ///
    /// Servers of version 0.4 report none.
    ///
    /// # Errors
    /// As for [`Self::call`], if the server refuses the call before the task runs.
    ///
    /// # Cancel safety
    /// As for [`Self::call`]; dropping the running call cancels the request too.
    pub async fn start_call(
        self: &Arc<Self>,
        task: &str,
        args: Map<String, Value>,
    ) -> Result<RunningCall, ClientError> {
        let rest = members([("task", json!(task)), ("args", Value::Object(args))]);
        let request = self.request("method_call", rest)?;
        match self.client.stream(&self.sent(&request)).await {
            Ok(frames) => Ok(RunningCall::new(Arc::clone(self), request, frames)),
            Err(error) => Err(self.note_refusal(error)),
        }
    }

    /// Moves to another stage.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub async fn go(&self, stage: &str) -> Result<(), ClientError> {
        let body = self.execute("stage_transition", members([("stage", json!(stage))])).await?;
        if !body.contains_key("current_stage") {
            stage.clone_into(&mut self.current().stage);
        }
        Ok(())
    }

    /// Writes values of the state.
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub async fn provide(&self, updates: Map<String, Value>) -> Result<(), ClientError> {
        self.execute("state_input", members([("state_updates", Value::Object(updates))])).await.map(drop)
    }

    /// Ends the session. Later actions fail with [`ClientError::Ended`].
    ///
    /// # Errors
    /// As for [`Self::call`].
    pub async fn end(&self) -> Result<(), ClientError> {
        if self.has_ended() {
            return Ok(());
        }
        self.execute("terminate_session", Map::new()).await?;
        let mut current = self.current();
        current.has_ended = true;
        current.tools = Arc::default();
        Ok(())
    }

    /// Reads the state that agents may see.
    ///
    /// # Errors
    /// [`ClientError::Refused`] from servers of version 0.4, which do not show it.
    pub async fn state(&self) -> Result<Map<String, Value>, ClientError> {
        let body = self.client.get(&format!("/sessions/{}", self.id.expose())).await?;
        Ok(body.get("state").and_then(Value::as_object).cloned().unwrap_or_default())
    }

    /// Executes an action. Returns the body of its response.
    async fn execute(
        &self,
        action: &str,
        rest: Map<String, Value>,
    ) -> Result<Map<String, Value>, ClientError> {
        let request = self.request(action, rest)?;
        self.repeat(&request).await
    }

    /// An action with the key under which the server runs it once.
    fn request(&self, action: &str, rest: Map<String, Value>) -> Result<ActionRequest, ClientError> {
        if self.has_ended() {
            return Err(ClientError::Ended);
        }
        let mut body = members([("workflow_name", json!(self.workflow)), ("action", json!(action))]);
        body.extend(rest);
        Ok(ActionRequest { body: Value::Object(body), key: self.client.key() })
    }

    fn sent(&self, request: &ActionRequest) -> Sent<'_> {
        Sent {
            path: "/execute",
            body: request.body.clone(),
            session: Some(&self.id),
            key: request.key.clone(),
            repeats: !self.is_reference,
        }
    }

    /// True if the server runs a request once that is sent twice.
    pub(super) const fn repeats(&self) -> bool {
        !self.is_reference
    }

    /// Sends an action and waits for its response. Returns the body.
    pub(super) async fn repeat(&self, request: &ActionRequest) -> Result<Map<String, Value>, ClientError> {
        match self.client.send(&self.sent(request)).await {
            Ok(body) => self.answer(body),
            Err(error) => Err(self.note_refusal(error)),
        }
    }

    /// Reads the body of a response.
    pub(super) fn answer(&self, body: Value) -> Result<Map<String, Value>, ClientError> {
        let Value::Object(body) = body else {
            return Err(ClientError::Protocol { reason: "the response is not an object".to_owned() });
        };
        self.note(&body);
        error_of(&body).map_or(Ok(body), Err)
    }

    fn note_refusal(&self, error: ClientError) -> ClientError {
        if let ClientError::Refused { body, .. } = &error {
            self.note(body);
        }
        error
    }

    /// Takes over the tools and the stage of a response.
    fn note(&self, body: &Map<String, Value>) {
        let mut current = self.current();
        if let Some(tools) = body.get("tools").and_then(Value::as_array) {
            current.tools = Arc::new(tools.clone());
        }
        if let Some(stage) = body.get("current_stage").and_then(Value::as_str) {
            stage.clone_into(&mut current.stage);
        }
        if let Some(is_terminal) = body.get("terminal").and_then(Value::as_bool) {
            current.is_terminal = is_terminal;
        }
        current.version = body.get("state_version").and_then(Value::as_u64).or(current.version);
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // No operation panics between two changes that belong together.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
