//! The client, against our server and against servers of version 0.4, in process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::StatusCode;
use serde_json::{Value, json};
use turntree_core::http::{
    HttpClient, HttpConfig, PreparedRequest, ResponseBody, Transport, TransportError, TransportFuture,
    TransportResponse,
};
use turntree_core::ids::RandomIds;
use turntree_server::{Body, Connection, Request, Service};
use turntree_uaip::client::CallEvent;
use turntree_uaip::engine::{CallFailure, CallResult};
use turntree_uaip::{ClientError, Progress, UaipClient};

use crate::support::service::{Functions, Server, returns};
use crate::support::{object, shop};

/// Sends requests to a service. The responses to the first requests with a chosen path are lost.
#[derive(Debug, Clone)]
struct InProcess {
    service: Service,
    lost: Arc<Mutex<Vec<&'static str>>>,
    requests: Arc<AtomicUsize>,
}

impl Transport for InProcess {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let this = self.clone();
        Box::pin(async move {
            this.requests.fetch_add(1, Ordering::SeqCst);
            let path = request.url.path().to_owned();
            let mut sent = Request::new(Body::full(request.body));
            *sent.method_mut() = request.method;
            *sent.uri_mut() = path.parse().unwrap();
            *sent.headers_mut() = request.headers;
            let (parts, body) = this.service.call(sent, Connection::default()).await.into_parts();
            let is_lost = {
                let mut lost = this.lost.lock().unwrap();
                let found = lost.iter().position(|lost| *lost == path);
                found.map(|index| lost.remove(index)).is_some()
            };
            if is_lost {
                let message = "connection reset".to_owned();
                return Err(TransportError::Network { message, source: None });
            }
            let mut response = TransportResponse::new(ResponseBody::from(body.bytes().await.unwrap()));
            *response.status_mut() = parts.status;
            *response.headers_mut() = parts.headers;
            Ok(response)
        })
    }
}

fn client_of(transport: impl Transport + 'static) -> UaipClient {
    let http = HttpClient::new(Arc::new(transport), &HttpConfig::default());
    UaipClient::new("http://uaip.test/", None, http, Arc::new(RandomIds))
}

fn connect(functions: Functions) -> (UaipClient, InProcess) {
    let server = Server::new(shop(), functions);
    let service = Service::new(Arc::clone(&server.service));
    let transport = InProcess { service, lost: Arc::default(), requests: Arc::default() };
    (client_of(transport.clone()), transport)
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_session_walks_through_a_workflow() {
    let functions = Functions::default().on("search", |call| returns(call, json!(["tea"])));
    let (client, _) = connect(functions);
    let session = client.open(Some("store")).await.unwrap();
    assert_eq!((session.stage(), session.version()), ("browse".to_owned(), Some(0)));
    assert_eq!(names(&session.tools()), ["search", "transition_stage", "terminate_session"]);

    assert_eq!(session.call("search", object(json!({"text": "tea"}))).await.unwrap(), json!(["tea"]));
    session.go("cart").await.unwrap();
    let refused = session.go("checkout").await.unwrap_err();
    assert_eq!((refused.code(), refused.status()), ("missing_prerequisites", Some(422)));
    assert_eq!(names(&session.tools()).last(), Some(&"provide_state"));
    session.provide(object(json!({"user.email": "a@b.c", "quantity": 2}))).await.unwrap();
    session.go("checkout").await.unwrap();
    assert_eq!(session.stage(), "checkout");
    assert_eq!(session.state().await.unwrap(), object(json!({"user.email": "a@b.c", "quantity": 2})));
    session.go("done").await.unwrap();
    assert!(session.is_terminal());

    session.end().await.unwrap();
    assert!(matches!(session.go("cart").await, Err(ClientError::Ended)));
}

#[tokio::test]
async fn errors_have_the_code_of_the_server() {
    let functions = Functions::default()
        .on("search", |_| CallResult::Failed(CallFailure::Task("the shop is closed".to_owned())));
    let (client, _) = connect(functions);
    let unknown = client.open(Some("zz")).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.status()), ("workflow_not_found", Some(404)));
    let session = client.open(None).await.unwrap();

    let hidden = session.call("pay", object(json!({}))).await.unwrap_err();
    assert_eq!((hidden.code(), hidden.status()), ("task_not_in_stage", Some(422)));
    let failed = session.call("search", object(json!({"text": "tea"}))).await.unwrap_err();
    assert!(matches!(&failed, ClientError::TaskFailed { message, .. } if message == "the shop is closed"));
    assert_eq!(failed.code(), "task_error");
}

#[tokio::test(start_paused = true)]
async fn an_action_whose_response_is_lost_runs_once() {
    let functions = Functions::default().on("search", |mut call| {
        let count = call.state.get("count").and_then(Value::as_i64).unwrap_or_default() + 1;
        call.state.set("count", json!(count));
        returns(call, json!(count))
    });
    let (client, transport) = connect(functions);
    let session = client.open(None).await.unwrap();
    let before = transport.requests.load(Ordering::SeqCst);
    transport.lost.lock().unwrap().extend(["/execute", "/execute"]);

    let result = session.call("search", object(json!({"text": "tea"}))).await.unwrap();

    assert_eq!((result, transport.requests.load(Ordering::SeqCst) - before), (json!(1), 3));
    assert_eq!(session.version(), Some(1));
}

#[tokio::test]
async fn the_progress_of_a_task_is_read_before_its_result() {
    let functions = Functions::default().on_async("search", |call, context| async move {
        for number in 1..=3 {
            context.progress.report(Progress { data: Some(json!(number)), ..Progress::default() });
            tokio::task::yield_now().await;
        }
        returns(call, json!(["tea"]))
    });
    let (client, _) = connect(functions);
    let session = Arc::new(client.open(None).await.unwrap());
    let mut running = session.start_call("search", object(json!({"text": "tea"}))).await.unwrap();

    for number in 1..=3 {
        let progress = Progress { data: Some(json!(number)), ..Progress::default() };
        assert_eq!(running.next().await.unwrap(), CallEvent::Progress(progress));
    }
    assert_eq!(running.next().await.unwrap(), CallEvent::Result(json!(["tea"])));
    assert_eq!(running.next().await.unwrap_err().code(), "invalid_response");

    let refused = session.start_call("pay", object(json!({}))).await.unwrap_err();
    assert_eq!((refused.code(), refused.status()), ("task_not_in_stage", Some(422)));
}

/// A server of version 0.4: no stages in the response, status 200 for everything.
#[derive(Debug, Clone, Default)]
struct Version4 {
    requests: Arc<AtomicUsize>,
    is_broken: bool,
}

impl Transport for Version4 {
    fn send(&self, request: PreparedRequest) -> TransportFuture {
        let count = self.requests.fetch_add(1, Ordering::SeqCst);
        let is_broken = self.is_broken && count > 1;
        Box::pin(async move {
            if is_broken {
                return Err(TransportError::Network { message: "connection reset".to_owned(), source: None });
            }
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let text = |content: &str| json!({"content": content, "tools": [{"name": "search"}]});
            let answer = match (request.url.path(), body["action"].as_str(), body["stage"].as_str()) {
                ("/initialize", ..) => {
                    json!({"session_id": "s", "workflow": "store", "initial_stage": "browse"})
                }
                (_, Some("handshake"), _) => text("Session started successfully."),
                (_, Some("method_call"), _) => {
                    text("Task 'search' executed successfully.\n\nResult:\n['tea']")
                }
                (_, Some("stage_transition"), Some("cart")) => {
                    text("Successfully transitioned from 'browse' to 'cart'.")
                }
                (_, Some("stage_transition"), Some("checkout")) => {
                    json!({"content": "State is missing.", "tools": [{"name": "provide_state"}]})
                }
                _ => text("Error: no.\n\nAllowed options: cart"),
            };
            let mut response =
                TransportResponse::new(ResponseBody::from(bytes::Bytes::from(answer.to_string())));
            *response.status_mut() = StatusCode::OK;
            response.headers_mut().insert("content-type", "application/json".parse().unwrap());
            Ok(response)
        })
    }
}

#[tokio::test]
async fn servers_of_version_4_are_understood() {
    let session = client_of(Version4::default()).open(Some("store")).await.unwrap();

    assert_eq!(session.call("search", object(json!({}))).await.unwrap(), json!("['tea']"));
    session.go("cart").await.unwrap();
    assert_eq!(session.stage(), "cart");
    let refused = session.go("nowhere").await.unwrap_err();
    assert_eq!((refused.code(), refused.status(), session.stage()), ("error", Some(200), "cart".to_owned()));
    assert_eq!(session.go("checkout").await.unwrap_err().code(), "missing_prerequisites");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_twice_to_servers_of_version_4() {
    let transport = Version4 { is_broken: true, ..Version4::default() };
    let session = client_of(transport.clone()).open(Some("store")).await.unwrap();

    let error = session.call("search", object(json!({}))).await.unwrap_err();

    assert_eq!(error.code(), "connection_failed");
    assert_eq!(transport.requests.load(Ordering::SeqCst), 3);
}
