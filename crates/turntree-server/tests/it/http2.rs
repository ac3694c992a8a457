//! HTTP/2 with prior knowledge.

use http::{StatusCode, Version};

use crate::application::{http_client, next, serve};

#[tokio::test]
async fn requests_share_one_connection() {
    let (server, behaviours, mut events) = serve().await;
    let client = http_client(Version::HTTP_2);

    let waiting = tokio::spawn(client.get(format!("{}/finish", server.url())).send());
    assert_eq!(next(&mut events).await, "/finish");
    let echo = client.post(format!("{}/echo", server.url())).body("hello").send().await.unwrap();
    assert_eq!((echo.version(), echo.status()), (Version::HTTP_2, StatusCode::OK));
    assert_eq!(echo.text().await.unwrap(), "hello");
    behaviours.finish.notify_one();

    assert_eq!(waiting.await.unwrap().unwrap().text().await.unwrap(), "finished");
}

#[tokio::test]
async fn a_reset_stream_drops_its_request_only() {
    let (server, _, mut events) = serve().await;
    let client = http_client(Version::HTTP_2);

    let hanging = tokio::spawn(client.get(format!("{}/hang", server.url())).send());
    assert_eq!(next(&mut events).await, "/hang");
    hanging.abort();
    assert_eq!(next(&mut events).await, "dropped hang");

    let who = client.get(format!("{}/who", server.url())).send().await.unwrap();
    assert_eq!(who.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let (server, ..) = serve().await;

    let answer = http_client(Version::HTTP_2)
        .post(format!("{}/echo", server.url()))
        .body("x".repeat(1025))
        .send()
        .await
        .unwrap();

    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}
