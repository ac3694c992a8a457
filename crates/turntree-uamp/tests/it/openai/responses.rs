//! Responses.

use http::Method;
use serde_json::{Value, json};
use turntree_agents::Tool;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::message::Body as MessageBody;
use turntree_core::message::{ContentBlock, ToolCall};
use turntree_server::{BearerTokens, Body, Principal, Service, TestClient};
use turntree_uamp::service::{AgentService, Site};
use turntree_uamp::wires;
use turntree_upp::providers::scripted::Reply;

use super::{arguments, client, definition, scripted, with};
use crate::service::service_of;

const PATH: &str = "/v1/responses";

fn tools() -> Value {
    json!([{ "type": "function", "name": "locate", "parameters": { "type": "object" } }])
}

fn input(text: &str) -> Value {
    json!({ "model": "weather", "input": text })
}

async fn post(client: &TestClient, request: &Value) -> Value {
    let response = client.post(PATH, request).await.unwrap();
    assert_eq!(response.status.as_u16(), 200, "{}", response.text());
    response.json()
}

fn text_of(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap_or_default()
}

/// The names and the data of the events of a streamed response.
async fn events(client: &TestClient, request: Value) -> Vec<(String, Value)> {
    let request = with(request, json!({ "stream": true }));
    let response = client.send(client.request(Method::POST, PATH, Body::json(&request))).await.unwrap();
    let text = response.text();
    let events = text.split("\n\n").filter_map(|event| {
        let (name, data) = event.split_once('\n')?;
        let data = serde_json::from_str(data.strip_prefix("data: ")?).ok()?;
        Some((name.strip_prefix("event: ")?.to_owned(), data))
    });
    events.collect()
}

#[tokio::test]
async fn a_response_in_one_piece_has_its_output_and_its_usage() {
    let client = client(vec![Reply::from("hello you")]);
    let body = post(&client, &input("hi")).await;
    assert!(body["id"].as_str().unwrap().starts_with("resp_"), "{body}");
    assert_eq!((&body["object"], &body["status"]), (&"response".into(), &"completed".into()));
    assert_eq!((text_of(&body), &body["error"]), ("hello you", &Value::Null));
    assert_eq!((&body["usage"]["input_tokens"], &body["usage"]["output_tokens"]), (&1.into(), &2.into()));
}

#[tokio::test]
async fn the_events_of_a_response_have_an_order_and_sequence_numbers() {
    let reply =
        Reply::message(vec![ContentBlock::reasoning("because"), ContentBlock::text("so it is")], vec![]);
    let client = client(vec![reply]);
    let events = events(&client, input("why")).await;

    for (number, (name, data)) in events.iter().enumerate() {
        assert_eq!((&data["sequence_number"], data["type"].as_str()), (&number.into(), Some(name.as_str())));
    }
    let mut names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let deltas = events.iter().filter(|(name, _)| name == "response.output_text.delta");
    let text: String = deltas.filter_map(|(_, data)| data["delta"].as_str()).collect();
    let (_, last) = events.last().unwrap();
    assert_eq!(
        (text.as_str(), &last["response"]["output"][1]["content"][0]["text"]),
        ("so it is", &"so it is".into())
    );
    assert!(last["response"]["usage"]["total_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn each_response_can_be_continued_several_times() {
    let (model, agent) = scripted(["one", "two", "three"].map(Reply::from).into(), Vec::new());
    let client = TestClient::new(service_of([agent]));
    let first = post(&client, &with(input("a"), json!({ "instructions": "be brief" }))).await;
    let second = post(&client, &with(input("b"), json!({ "previous_response_id": first["id"] }))).await;
    let third = post(&client, &with(input("c"), json!({ "previous_response_id": first["id"] }))).await;
    assert_eq!((text_of(&second), text_of(&third)), ("two", "three"));

    let requests = model.requests();
    let texts = |request: usize| {
        let messages = requests[request].messages.iter();
        messages.map(|message| message.text()).collect::<Vec<_>>()
    };
    assert_eq!(
        (texts(1), texts(2)),
        (
            vec!["a".to_owned(), "one".to_owned(), "b".to_owned()],
            vec!["a".to_owned(), "one".to_owned(), "c".to_owned()],
        )
    );
    assert!(format!("{:?}", requests[0].system).contains("be brief"));
    assert!(!format!("{:?}", requests[1].system).contains("be brief"), "instructions are not carried over");
}

#[tokio::test]
async fn a_conversation_goes_on_with_its_last_response_also_on_another_server() {
    let (model, agent) = scripted(["one", "two"].map(Reply::from).into(), Vec::new());
    let service = service_of([agent]);
    let members = json!({ "conversation": { "id": "trip to Rome" } });
    let first = post(&TestClient::new(service.clone()), &with(input("a"), members.clone())).await;
    assert_eq!(first["conversation"]["id"], "trip to Rome");

    let (agents, conversations) = (service.site().agents.clone(), service.site().conversations.clone());
    let again = AgentService::new(Site::new(agents, conversations), wires::all());
    let other = TestClient::new(again);
    post(&other, &with(input("b"), members)).await;
    assert_eq!(model.requests()[1].messages.len(), 3);
    let path = format!("{PATH}/{}", first["id"].as_str().unwrap().replace(' ', "%20"));
    assert_eq!(other.get(&path).await.unwrap().json(), first);
}

#[tokio::test]
async fn calls_are_handed_back_and_their_outputs_continue_the_response() {
    let (model, agent) =
        scripted(vec![Reply::tool_call("locate", arguments()), Reply::from("in Rome")], Vec::new());
    let client = TestClient::new(service_of([agent]));
    let events = events(&client, with(input("where"), json!({ "tools": tools() }))).await;
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names[2..],
        [
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let response = &events.last().unwrap().1["response"];
    let call = &response["output"][0];
    assert_eq!((&call["type"], &call["name"]), (&"function_call".into(), &"locate".into()));
    assert!(response["usage"]["total_tokens"].as_u64().unwrap() > 0, "{response}");

    let output = json!([{ "type": "function_call_output", "call_id": call["call_id"], "output": "Rome" }]);
    let members = json!({ "previous_response_id": response["id"], "input": output, "tools": tools() });
    let body = post(&client, &members).await;
    assert_eq!(text_of(&body), "in Rome");
    let requests = model.requests();
    let messages: Vec<_> = requests[1].messages.iter().collect();
    let MessageBody::ToolResult { results } = &messages[2].body else { panic!("{messages:?}") };
    assert_eq!(results[0].result.as_string().as_deref(), Some("Rome"));

    let members = json!({ "previous_response_id": response["id"], "input": "never mind" });
    let refused = client.post(PATH, &members).await.unwrap();
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]["param"]), (400, &"input".into()));
}

#[tokio::test]
async fn results_of_server_tools_in_the_same_step_are_kept() {
    let tool = Tool::new(definition("add")).with_function(|_| async { Ok(RawJson::from_str_value("7")) });
    let call = |id: &str, name: &str| ToolCall {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        arguments: arguments(),
        extra: Extra::default(),
    };
    let both = Reply::message(Vec::new(), vec![call("s", "add"), call("c", "locate")]);
    let (model, agent) = scripted(vec![both, Reply::from("done")], vec![tool]);
    let client = TestClient::new(service_of([agent]));
    let first = post(&client, &with(input("go"), json!({ "tools": tools() }))).await;
    assert_eq!(first["output"].as_array().unwrap().len(), 1, "{first}");
    let output = json!([{ "type": "function_call_output", "call_id": "c", "output": "Rome" }]);
    let members = json!({ "previous_response_id": first["id"], "input": output, "tools": tools() });
    assert_eq!(text_of(&post(&client, &members).await), "done");
    let requests = model.requests();
    let last = requests[1].messages.iter().last().unwrap();
    let ids: Vec<&str> = last.results().iter().map(|result| result.tool_call_id.as_str()).collect();
    assert_eq!(ids, ["s", "c"], "{last:?}");
}

#[tokio::test]
async fn a_response_that_is_not_stored_or_was_deleted_is_not_found() {
    let client = client(["one", "two"].map(Reply::from).into());
    let stored = post(&client, &input("a")).await;
    let other = post(&client, &with(input("a"), json!({ "store": false }))).await;
    let path = |response: &Value| format!("{PATH}/{}", response["id"].as_str().unwrap());
    assert_eq!(client.get(&path(&stored)).await.unwrap().json(), stored);
    assert_eq!(client.get(&path(&other)).await.unwrap().status.as_u16(), 404);
    assert_eq!(client.get(&format!("{PATH}/resp_1")).await.unwrap().status.as_u16(), 404);

    let deleted = client.delete(&path(&stored)).await.unwrap().json();
    assert_eq!(deleted["deleted"], true);
    assert_eq!(client.get(&path(&stored)).await.unwrap().status.as_u16(), 404);
    let members = json!({ "previous_response_id": stored["id"] });
    let response = client.post(PATH, &with(input("b"), members)).await.unwrap();
    let error = &response.json()["error"];
    assert_eq!((response.status.as_u16(), &error["code"]), (404, &"previous_response_not_found".into()));
}

#[tokio::test]
async fn a_principal_does_not_see_the_responses_of_another_one() {
    let tokens =
        BearerTokens::new([("a".into(), Principal::new("ada")), ("b".into(), Principal::new("bob"))]);
    let (_, agent) = scripted(vec![Reply::from("one")], Vec::new());
    let client = TestClient::for_service(Service::new(service_of([agent])).with_authenticator(tokens));
    let (ada, bob) = (client.clone().with_token("a"), client.with_token("b"));
    let response = post(&ada, &input("a")).await;
    let path = format!("{PATH}/{}", response["id"].as_str().unwrap());
    assert_eq!(bob.get(&path).await.unwrap().status.as_u16(), 404);
    assert_eq!(ada.get(&path).await.unwrap().status.as_u16(), 200);
}

#[tokio::test]
async fn invalid_requests_name_the_parameter() {
    let client = client(Vec::new());
    let cases = [
        (json!({}), "input"),
        (json!({ "input": [] }), "input"),
        (with(input("a"), json!({ "background": true })), "background"),
        (json!({ "input": [{ "type": "item_reference", "id": "x" }] }), "input[0].type"),
        (
            json!({ "input": [{ "role": "user", "content": [{ "type": "text?" }] }] }),
            "input[0].content[0].type",
        ),
        (json!({ "input": [{ "type": "function_call", "name": "a" }] }), "input[0].call_id"),
        (with(input("a"), json!({ "tools": [{ "type": "web_search" }] })), "tools[0].type"),
        (
            with(input("a"), json!({ "previous_response_id": "x", "conversation": "y" })),
            "previous_response_id",
        ),
        (with(input("a"), json!({ "text": { "format": { "type": "json_schema" } } })), "text.format.schema"),
    ];
    for (request, param) in cases {
        let response = client.post(PATH, &request).await.unwrap();
        let error = &response.json()["error"];
        assert_eq!((response.status.as_u16(), &error["param"]), (400, &param.into()), "{error}");
    }
}

#[tokio::test]
async fn a_streamed_response_can_be_cancelled_by_its_id() {
    let tool = Tool::new(definition("hang")).with_function(|_| std::future::pending());
    let (_, agent) = scripted(vec![Reply::tool_call("hang", arguments())], vec![tool]);
    let client = TestClient::new(service_of([agent]));
    let request = with(input("go"), json!({ "stream": true }));
    let request = client.request(Method::POST, PATH, Body::json(&request));
    let mut body = client.stream(request).await.into_body();
    let first = String::from_utf8(body.next().await.unwrap().unwrap().to_vec()).unwrap();
    let data = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let id = serde_json::from_str::<Value>(data).unwrap()["response"]["id"].as_str().unwrap().to_owned();

    let path = format!("{PATH}/{id}/cancel");
    assert_eq!(client.post(&path, &json!({})).await.unwrap().json()["status"], "cancelled");
    let rest = String::from_utf8(body.bytes().await.unwrap().to_vec()).unwrap();
    assert!(
        rest.contains("event: response.incomplete") && rest.contains(r#""status":"cancelled""#),
        "{rest}"
    );
    assert_eq!(client.post(&path, &json!({})).await.unwrap().status.as_u16(), 400);
}

#[tokio::test]
async fn a_failure_is_the_last_event() {
    let client = client(Vec::new());
    let events = events(&client, input("a")).await;
    let (name, data) = events.last().unwrap();
    assert_eq!((name.as_str(), &data["response"]["status"]), ("response.failed", &"failed".into()));
    assert_eq!(data["response"]["error"]["code"], "server_error");
}
