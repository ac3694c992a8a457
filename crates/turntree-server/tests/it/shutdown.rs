//! Graceful shutdown.

use http::{StatusCode, Version};
use tokio::net::TcpStream;
use turntree_server::{Server, ServerConfig, Service};

use crate::application::{
    Behaviours, PATIENCE, RawClient, SOON, config, http_client, limits, next, serve, serve_with,
};

#[tokio::test]
async fn open_requests_are_answered_and_new_connections_refused() {
    let (behaviours, mut events) = Behaviours::new();
    let config = ServerConfig { drain: PATIENCE, ..ServerConfig::default() };
    let server = Server::start(Service::new(behaviours.clone()), config).await.unwrap();
    let address = server.address();
    let idle = TcpStream::connect(address).await.unwrap();
    let open = tokio::spawn(http_client(Version::HTTP_11).get(format!("{}/finish", server.url())).send());
    assert_eq!(next(&mut events).await, "/finish");

    let shutdown = tokio::spawn(server.shutdown());
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    behaviours.finish.notify_one();

    let answer = open.await.unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    tokio::time::timeout(PATIENCE / 2, shutdown).await.expect("the idle connection was not closed").unwrap();
    drop(idle);
}

#[tokio::test]
async fn a_request_that_outlives_the_drain_limit_is_dropped() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let (server, _, mut events) = serve_with(ServerConfig { drain: SOON, ..config() }, limits()).await;
        let client = http_client(version);
        let open = tokio::spawn(client.get(format!("{}/hang", server.url())).send());
        assert_eq!(next(&mut events).await, "/hang");

        tokio::time::timeout(PATIENCE, server.shutdown()).await.unwrap();

        assert_eq!(next(&mut events).await, "dropped hang");
        open.await.unwrap().expect_err("answered");
    }
}

#[tokio::test]
async fn dropping_the_server_closes_its_connections() {
    let (server, _, mut events) = serve().await;
    let mut client = RawClient::connect(server.address()).await;
    client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(next(&mut events).await, "/hang");

    drop(server);

    assert_eq!(client.read_to_end().await, "");
    assert_eq!(next(&mut events).await, "dropped hang");
}
