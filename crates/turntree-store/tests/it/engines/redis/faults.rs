//! Servers that restart, connections that are cut, many sessions at once.

use std::thread;
use std::time::{Duration, Instant};

use turntree_store::engine::{Append, Engine as _, Head, Replace};
use turntree_store::engines::redis::{RedisEngine, RedisOptions};

use super::{Prefix, engine, options};
use crate::faults::{assert_unavailable, survive_restarts};
use crate::proxy::{Cut, Proxy};
use crate::services::{own_server, service};
use crate::support::{append_after, blob, block_on, entry_after, head_of, info, read_texts, write};

#[test]
fn a_server_that_is_killed_and_restarted_loses_nothing_that_was_acknowledged() {
    let Some(server) = own_server("redis") else { return };
    let engine = engine(&server.variable("TURNTREE_TEST_REDIS"), "p");

    survive_restarts(&*engine, &server);
}

/// An engine whose connection goes through a proxy. It waits for the connection for `connect_timeout`.
fn through_proxy(url: &str, prefix: &str, connect_timeout: Duration) -> (Proxy, RedisEngine) {
    let (user, address) = url.rsplit_once('@').unwrap();
    let (host, database) = address.split_once('/').unwrap();
    let proxy = Proxy::start(host.to_owned());
    let options = RedisOptions { connect_timeout, ..options(prefix) };
    let engine =
        RedisEngine::connect(&format!("{user}@127.0.0.1:{}/{database}", proxy.port), options).unwrap();
    (proxy, engine)
}

#[test]
fn a_write_whose_connection_is_cut_is_done_as_a_whole_or_not_at_all() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let prefix = Prefix::new(&url);
    let (proxy, engine) = through_proxy(&url, &prefix.name, Duration::from_secs(30));
    let head = block_on(write(&engine, "s", &[b"one"]));
    let append = |data: &[u8]| Append { blobs: vec![blob(data)], ..append_after(head, "s", data) };

    proxy.cut(Cut::Request(b"second entry"));
    assert_unavailable(block_on(engine.append(append(b"the second entry"))));
    assert_eq!(block_on(engine.head("s")).unwrap(), head);
    assert_eq!(block_on(engine.blobs("s", vec![blob(b"the second entry").address])).unwrap(), [None]);

    proxy.cut(Cut::Response(b"third entry"));
    let third = append(b"the third entry");
    let after = Some(head_of(&third));
    assert_unavailable(block_on(engine.append(third)));
    assert_eq!(block_on(engine.head("s")).unwrap(), after);
    assert_eq!(block_on(read_texts(&engine, "s")).unwrap(), ["one", "the third entry"]);

    let replace = |head: Option<Head>| Replace {
        expected: head,
        entries: vec![entry_after(None, "s", b"pruned")],
        revision: 3,
        blobs: Vec::new(),
        info: info("s"),
    };
    // The first use of a script has two requests: the server does not have it yet.
    block_on(engine.replace(Replace { info: info("t"), ..replace(None) })).unwrap();
    proxy.cut(Cut::Request(b"pruned"));
    assert_unavailable(block_on(engine.replace(replace(after))));
    assert_eq!(block_on(engine.head("s")).unwrap(), after);
    proxy.cut(Cut::Response(b"pruned"));
    assert_unavailable(block_on(engine.replace(replace(after))));
    assert_eq!(block_on(read_texts(&engine, "s")).unwrap(), ["pruned"]);
    assert_eq!(block_on(engine.check()).unwrap(), []);
    assert_eq!(proxy.cuts(), 4);
}

#[test]
fn a_read_whose_connection_is_cut_is_repeated() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let prefix = Prefix::new(&url);
    let (proxy, engine) = through_proxy(&url, &prefix.name, Duration::from_secs(30));
    let head = block_on(write(&engine, "the session", &[b"one"]));

    for cut in [Cut::Request(b"the session"), Cut::Response(b"the session")] {
        proxy.cut(cut);
        assert_eq!(block_on(engine.head("the session")).unwrap(), head);
        proxy.cut(cut);
        assert_eq!(block_on(read_texts(&engine, "the session")).unwrap(), ["one"]);
    }
    assert_eq!(proxy.cuts(), 4);
}

#[test]
fn a_server_that_does_not_answer_is_given_up_after_the_timeout() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let prefix = Prefix::new(&url);
    let (proxy, engine) = through_proxy(&url, &prefix.name, Duration::from_secs(2));
    proxy.freeze();
    let start = Instant::now();

    assert_unavailable(block_on(engine.head("s")));

    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn thirty_two_sessions_share_the_connection() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let prefix = Prefix::new(&url);
    let engine = engine(&url, &prefix.name);

    thread::scope(|scope| {
        for number in 0..32 {
            let engine = &engine;
            scope.spawn(move || block_on(write(&**engine, &format!("s{number}"), &[b"1", b"2", b"3", b"4"])));
        }
    });

    for number in 0..32 {
        assert_eq!(block_on(read_texts(&*engine, &format!("s{number}"))).unwrap(), ["1", "2", "3", "4"]);
    }
    assert_eq!(block_on(engine.check()).unwrap(), []);
}
