//! Many sessions, and connections that come and go.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use turntree_core::ids::RandomIds;
use turntree_uamp::wires::uamp::UampLimits;
use turntree_upp::providers::scripted::Reply;

use super::{Service, Socket, agent, eventually, service, text_of};
use crate::service::site_of;

/// One agent for each socket, so that the order of replies does not matter.
fn hosted(sockets: usize, sessions: usize, words: usize) -> Service {
    let text = "word ".repeat(words);
    let agents = (0..sockets).map(|index| {
        let replies = (0..sessions).map(|_| Reply::from(text.clone())).collect();
        agent(&format!("a{index}"), replies).0
    });
    let mut site = site_of(agents);
    site.options.resume_window = Duration::from_millis(100);
    site.ids = std::sync::Arc::new(RandomIds);
    service(site, UampLimits::default())
}

/// Runs one response in each session of each socket, and returns how many deltas came.
async fn run(hosted: &Service, sockets: usize, sessions: usize, words: usize) -> usize {
    let one = async |index: usize| {
        let mut socket = Socket::open(&hosted.service, "/ws").await;
        let mut ids = Vec::new();
        for _ in 0..sessions {
            ids.push(socket.create(json!({"agent": format!("a{index}")})).await);
        }
        for id in &ids {
            socket.ask(id, "write").await;
        }
        let (mut open, mut events) = (sessions, Vec::new());
        while open > 0 {
            let event = socket.event().await;
            open -= usize::from(event["type"] == "response.done");
            events.push(event);
        }
        for id in &ids {
            let own: Vec<_> =
                events.iter().filter(|event| event["session_id"] == json!(id)).cloned().collect();
            assert_eq!(text_of(&own), "word ".repeat(words), "a delta is lost");
            let mut seqs = own.iter().filter_map(|event| event["seq"].as_u64());
            assert!(seqs.next() == Some(3) && seqs.zip(4..).all(|(seq, expected)| seq == expected));
        }
        events.iter().filter(|event| event["type"] == "response.delta").count()
    };
    join_all((0..sockets).map(one)).await.into_iter().sum()
}

#[tokio::test]
async fn many_sessions_share_connections_without_loss() {
    let hosted = hosted(10, 10, 40);
    run(&hosted, 10, 10, 40).await;
    eventually(|| hosted.wire.session_count() == 0).await;
}

/// 2000 sessions on 200 connections; prints the deltas per second. Meaningful in a release build.
#[tokio::test]
#[ignore = "takes minutes in a debug build"]
async fn two_thousand_sessions_on_two_hundred_connections() {
    let hosted = hosted(200, 10, 200);
    let started = Instant::now();
    let deltas = run(&hosted, 200, 10, 200).await;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{deltas} deltas in {seconds:.2} s on one core: {:.0}/s",
        f64::from(u32::try_from(deltas).unwrap()) / seconds
    );
    eventually(|| hosted.wire.session_count() == 0).await;
}

#[tokio::test]
async fn connections_that_are_aborted_leave_no_sessions() {
    let hosted = hosted(1, 2000, 5);
    for round in 0..500 {
        let mut socket = Socket::open(&hosted.service, "/ws").await;
        let id = socket.create(json!({})).await;
        if round % 2 == 0 {
            socket.ask(&id, "hi").await;
        }
    }
    eventually(|| hosted.wire.session_count() == 0).await;
}
