//! A service in process, with tasks that are Rust functions.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Method, header};
use serde_json::{Value, json};
use turntree_core::ids::RandomIds;
use turntree_core::time::{Clock, Timestamp};
use turntree_server::{Body, TestClient, TestResponse};
use turntree_store::Engine;
use turntree_store::engines::memory::MemoryEngine;
use turntree_uaip::engine::{Call, CallKind, CallResult};
use turntree_uaip::{CallContext, ServiceOptions, SessionStore, TaskRunner, Workflow, WorkflowService};

use super::workflow;

type Function = Arc<dyn Fn(Call, CallContext) -> BoxFuture<'static, CallResult> + Send + Sync>;

/// Tasks and hooks by name: `add`, `enter cart`, `exit cart`, `cart -> checkout`; or `store/add`, those of one workflow.
/// Others return `null`.
#[derive(Default, Clone)]
pub(crate) struct Functions(HashMap<String, Function>);

impl Functions {
    /// Adds a function that answers at once.
    pub(crate) fn on(
        mut self,
        name: &str,
        function: impl Fn(Call) -> CallResult + Send + Sync + 'static,
    ) -> Self {
        let function =
            move |call, _| -> BoxFuture<'static, CallResult> { Box::pin(std::future::ready(function(call))) };
        self.0.insert(name.to_owned(), Arc::new(function));
        self
    }

    /// Adds an asynchronous function.
    pub(crate) fn on_async<F>(
        mut self,
        name: &str,
        function: impl Fn(Call, CallContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = CallResult> + Send + 'static,
    {
        let function =
            move |call, context| -> BoxFuture<'static, CallResult> { Box::pin(function(call, context)) };
        self.0.insert(name.to_owned(), Arc::new(function));
        self
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl TaskRunner for Functions {
    fn call(
        &self,
        workflow: Arc<Workflow>,
        call: Call,
        context: CallContext,
    ) -> BoxFuture<'static, CallResult> {
        let name = match &call.kind {
            CallKind::Task { task, .. } => task.clone(),
            CallKind::Guard { from, to } => format!("{from} -> {to}"),
            CallKind::Prerequisites { stage } => format!("prerequisites {stage}"),
            CallKind::OnExit { stage } => format!("exit {stage}"),
            CallKind::OnEnter { stage } => format!("enter {stage}"),
        };
        let of_workflow = self.0.get(&format!("{}/{name}", workflow.name()));
        match of_workflow.or_else(|| self.0.get(&name)) {
            Some(function) => function(call, context),
            None => Box::pin(std::future::ready(super::no_op(call))),
        }
    }
}

/// The result of a task that has written what it wanted.
pub(crate) fn returns(call: Call, value: Value) -> CallResult {
    CallResult::Done { value, state: call.state }
}

/// A clock that tests set.
#[derive(Debug)]
pub(crate) struct TestClock(Mutex<i64>);

impl TestClock {
    pub(crate) fn advance(&self, duration: Duration) {
        *self.0.lock().unwrap() += i64::try_from(duration.as_micros()).unwrap();
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microseconds(*self.0.lock().unwrap())
    }
}

/// A service with its client.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) service: Arc<WorkflowService>,
    pub(crate) client: TestClient,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) store: SessionStore,
}

impl Server {
    /// Serves one workflow from memory.
    pub(crate) fn new(definition: Value, functions: Functions) -> Self {
        Self::with(vec![workflow(definition)], functions, ServiceOptions::default())
    }

    pub(crate) fn with(workflows: Vec<Arc<Workflow>>, functions: Functions, options: ServiceOptions) -> Self {
        Self::on(Arc::new(MemoryEngine::new()), workflows, functions, options)
    }

    pub(crate) fn on(
        engine: Arc<dyn Engine>,
        workflows: Vec<Arc<Workflow>>,
        functions: Functions,
        options: ServiceOptions,
    ) -> Self {
        let clock = Arc::new(TestClock(Mutex::new(1_700_000_000_000_000)));
        let store = SessionStore::new(engine).unwrap();
        let service = WorkflowService::new(
            workflows,
            Arc::new(functions),
            store.clone(),
            options,
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::new(RandomIds),
        );
        let service = Arc::new(service.unwrap());
        Self { client: TestClient::new(Arc::clone(&service)), service, clock, store }
    }

    /// Creates a session. Returns its id.
    pub(crate) async fn open(&self, workflow: &str) -> String {
        let response = self.client.post("/initialize", &json!({"workflow_name": workflow})).await.unwrap();
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["session_id"].as_str().unwrap().to_owned()
    }

    /// Sends a body to `/execute`, with headers.
    pub(crate) async fn execute(
        &self,
        session: &str,
        body: Value,
        headers: &[(&'static str, &str)],
    ) -> TestResponse {
        self.send("/execute", session, &serde_json::to_vec(&body).unwrap(), headers).await
    }

    pub(crate) async fn send(
        &self,
        path: &str,
        session: &str,
        body: &[u8],
        headers: &[(&'static str, &str)],
    ) -> TestResponse {
        let mut request = self.client.request(Method::POST, path, Body::full(body.to_vec()));
        request.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        if !session.is_empty() {
            request.headers_mut().insert("x-session-id", session.parse().unwrap());
        }
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        self.client.send(request).await.unwrap()
    }

    /// Executes an action, and returns the status with the body.
    pub(crate) async fn action(&self, session: &str, body: Value) -> (u16, Value) {
        let response = self.execute(session, body, &[]).await;
        (response.status.as_u16(), response.json())
    }
}

pub(crate) fn method_call(task: &str, args: Value) -> Value {
    let mut body = json!({"workflow_name": "store", "action": "method_call", "task": task});
    body["args"] = args;
    body
}

pub(crate) fn transition(stage: &str) -> Value {
    json!({"workflow_name": "store", "action": "stage_transition", "stage": stage})
}

pub(crate) fn state_input(updates: Value) -> Value {
    let mut body = json!({"workflow_name": "store", "action": "state_input"});
    body["state_updates"] = updates;
    body
}

/// The names of the tools in a body.
pub(crate) fn tool_names(body: &Value) -> Vec<&str> {
    body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}
