//! Tasks as server-sent events.

use serde_json::{Value, json};
use turntree_uaip::Progress;
use turntree_uaip::engine::CallResult;

use crate::support::service::{Functions, Server, method_call, returns, transition};
use crate::support::shop;

/// The events of a body: name and data.
fn events(text: &str) -> Vec<(String, Value)> {
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    let read = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    blocks
        .map(|block| (read(block, "event:"), serde_json::from_str(&read(block, "data:")).unwrap()))
        .collect()
}

fn reporting() -> Functions {
    Functions::default().on_async("search", |mut call, context| async move {
        for step in ["one", "two"] {
            let progress = Progress { step: Some(step.to_owned()), ..Progress::default() };
            context.progress.report(progress);
            tokio::task::yield_now().await;
        }
        let data = json!({"left": 0});
        context.progress.report(Progress { data: Some(data), ..Progress::default() });
        call.state.set("found", json!(1));
        returns(call, json!("tea"))
    })
}

#[tokio::test]
async fn a19_a22_progress_is_streamed_before_one_result() {
    let server = Server::new(shop(), reporting());
    let id = server.open("store").await;

    let search = method_call("search", json!({"text": "tea"}));
    let response = server.execute(&id, search, &[("accept", "text/event-stream")]).await;

    assert_eq!((response.status.as_u16(), response.header("content-type")), (200, Some("text/event-stream")));
    let events = events(&response.text());
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["progress", "progress", "progress", "result"]);
    assert_eq!((&events[0].1, &events[2].1), (&json!({"step": "one"}), &json!({"data": {"left": 0}})));
    let result = &events[3].1;
    assert_eq!(
        (&result["result"], &result["status"], &result["state_version"]),
        (&json!("tea"), &json!("ok"), &json!(1))
    );
}

#[tokio::test]
async fn a22_refusals_before_the_task_keep_their_status() {
    let server = Server::new(shop(), reporting());
    let id = server.open("store").await;
    let accept = [("accept", "text/event-stream")];

    let refused = server.execute(&id, method_call("pay", json!({})), &accept).await;
    assert_eq!((refused.status.as_u16(), refused.header("content-type")), (422, Some("application/json")));
    let moved = server.execute(&id, transition("cart"), &accept).await;
    assert_eq!(moved.json()["current_stage"], json!("cart"));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_in_a_stream_is_its_result() {
    let functions = Functions::default().on_async("search", |_, _| std::future::pending::<CallResult>());
    let server = Server::new(shop(), functions);
    let id = server.open("store").await;

    let search = method_call("search", json!({"text": "tea"}));
    let response = server.execute(&id, search, &[("accept", "text/event-stream")]).await;

    let events = events(&response.text().replace(": keep-alive\n\n", ""));
    assert_eq!((events.len(), &events[0].0[..], &events[0].1["code"]), (1, "result", &json!("task_timeout")));
}
