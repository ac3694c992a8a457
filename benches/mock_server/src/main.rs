//! A model provider without delay, so that a benchmark measures the client.
//!
//! Implements OpenAI Chat Completions (`/v1/chat/completions`) and Responses (`/v1/responses`), as JSON or as
//! server-sent events if the request has `"stream": true`. The name of the model selects the answer:
//!
//! | model | answer |
//! |---|---|
//! | `plain` | one short text |
//! | `tool` | a call of `add(a=2, b=3)`; after a tool result, one short text |
//! | `stream-500` | a text of 500 deltas |
//! | `stream-500-paced` | the same, one delta each millisecond, each in its own write |
//!
//! Computes every body before the first request. Prints its port, and exits when stdin closes:
//! `mock_server [port]`; port 0, the default, is any free port.

mod answers;
mod body;
mod chat;
mod request;
mod responses;

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::answers::{Answers, Api};
use crate::body::Body;
use crate::request::Selection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    // One worker, because the client that is measured uses the other cores.
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(run(port))
}

async fn run(port: u16) -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?.port())?;
    stdout.flush()?;

    let answers = Arc::new(Answers::precompute());
    tokio::select! {
        result = tokio::spawn(accept(listener, answers)) => Ok(result??),
        () = stdin_closed() => Ok(()),
    }
}

async fn accept(listener: TcpListener, answers: Arc<Answers>) -> std::io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        // Without it each small response waits 40 ms for a delayed acknowledgement.
        socket.set_nodelay(true)?;
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&answers), request));
            // Errors of a client that disconnects are ignored.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn answer(answers: Arc<Answers>, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let api = match request.uri().path() {
        "/v1/chat/completions" => Api::Chat,
        "/v1/responses" => Api::Responses,
        path => return Ok(refuse(StatusCode::NOT_FOUND, &format!("no such path: {path}"))),
    };
    if request.method() != Method::POST {
        return Ok(refuse(StatusCode::METHOD_NOT_ALLOWED, "use POST"));
    }

    let bytes = request.into_body().collect().await?.to_bytes();
    let selection = match serde_json::from_slice::<Selection<'_>>(&bytes) {
        Ok(selection) => selection,
        Err(error) => return Ok(refuse(StatusCode::BAD_REQUEST, &error.to_string())),
    };
    Ok(match answers.find(api, &selection) {
        Some(body) => respond(StatusCode::OK, body),
        None => refuse(StatusCode::NOT_FOUND, &format!("the model `{}` does not exist", selection.model)),
    })
}

/// An error in the format of OpenAI.
fn refuse(status: StatusCode, message: &str) -> Response<Body> {
    let error = serde_json::json!({
        "error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}
    });
    respond(status, Body::json(&error))
}

fn respond(status: StatusCode, body: Body) -> Response<Body> {
    let kind = if body.is_events() { "text/event-stream; charset=utf-8" } else { "application/json" };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Returns at the end of stdin, which closes when the parent process exits.
async fn stdin_closed() {
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0; 64];
    while matches!(stdin.read(&mut buffer).await, Ok(1..)) {}
}
