//! HTTP/2 connections of clients that attack: frames written by hand (RFC 9113 §10.5).

use std::time::Duration;

use http::{StatusCode, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use turntree_server::{Server, ServerConfig, Service};

use crate::application::{Behaviours, PATIENCE, http_client, next, serve};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Types of frames.
const HEADERS: u8 = 0x1;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const CONTINUATION: u8 = 0x9;

/// The flag of a frame that answers one of the other side.
const ACK: u8 = 0x1;

/// Frames that are written at once.
const BATCH: usize = 1000;

fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
}

/// A connection whose preface and settings are sent.
async fn connect(server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // The server's answers fill it soon.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address()).await.unwrap();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, &[])].concat()).await.unwrap();
    stream
}

/// Writes until the server ends the connection.
async fn write_until_closed(stream: &mut TcpStream, bytes: &[u8]) {
    let writing = async { while stream.write_all(bytes).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, writing).await.expect("the connection is open");
}

async fn assert_others_are_answered(server: &Server) {
    let who = http_client(Version::HTTP_11).get(format!("{}/who", server.url())).send();
    let answer = tokio::time::timeout(PATIENCE, who).await.expect("no answer").unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_client_that_floods_and_does_not_read_the_answers_is_disconnected() {
    for flood in [frame(SETTINGS, 0, &[]), frame(PING, 0, &[0; 8])] {
        let (behaviours, _events) = Behaviours::new();
        let config = ServerConfig { write_timeout: Duration::from_millis(300), ..ServerConfig::default() };
        let server = Server::start(Service::new(behaviours), config).await.unwrap();
        let mut stream = connect(&server).await;

        write_until_closed(&mut stream, &flood.repeat(BATCH)).await;

        assert_others_are_answered(&server).await;
    }
}

#[tokio::test]
async fn a_flood_of_settings_whose_answers_are_read_leaves_other_connections_alone() {
    const FLOOD: usize = 20;
    let (server, ..) = serve().await;
    let (mut reader, mut writer) = connect(&server).await.into_split();

    let flooding = async {
        let frames = frame(SETTINGS, 0, &[]).repeat(BATCH);
        for _ in 0..FLOOD {
            writer.write_all(&frames).await.unwrap();
        }
    };
    // Each is acknowledged, in addition to the first one.
    let reading = async {
        let mut acknowledged = 0;
        while acknowledged < FLOOD * BATCH + 1 {
            let mut head = [0; 9];
            reader.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            reader.read_exact(&mut vec![0; usize::try_from(length).unwrap()]).await.unwrap();
            acknowledged += usize::from((head[3], head[4]) == (SETTINGS, ACK));
        }
    };
    let others = async {
        for _ in 0..5 {
            assert_others_are_answered(&server).await;
        }
    };

    let all = async { tokio::join!(flooding, reading, others) };
    tokio::time::timeout(PATIENCE, all).await.expect("an answer is missing");
}

#[tokio::test]
async fn a_head_that_never_ends_is_refused_before_the_application_sees_it() {
    // Nothing in it, and indexed headers (`:method: GET`), each within the largest frame.
    for block in [Vec::new(), vec![0x82; 16 * 1024]] {
        let (server, _, mut events) = serve().await;
        let mut stream = connect(&server).await;
        stream.write_all(&frame(HEADERS, 1, &[0x82])).await.unwrap();

        write_until_closed(&mut stream, &frame(CONTINUATION, 1, &block).repeat(BATCH / 100)).await;

        assert_others_are_answered(&server).await;
        assert_eq!(next(&mut events).await, "/who");
    }
}

#[tokio::test]
async fn a_client_that_stops_within_a_head_is_disconnected() {
    let (behaviours, mut events) = Behaviours::new();
    let config = ServerConfig { ping_interval: Duration::from_millis(100), ..ServerConfig::default() };
    let server = Server::start(Service::new(behaviours), config).await.unwrap();
    let mut stream = connect(&server).await;
    stream.write_all(&frame(HEADERS, 1, &[0x82])).await.unwrap();

    let mut answers = Vec::new();
    // A reset is an end as well.
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answers)).await;

    drop(ended.expect("the connection is open"));
    assert_others_are_answered(&server).await;
    assert_eq!(next(&mut events).await, "/who");
}
