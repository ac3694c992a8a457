//! Servers that restart, connections that are cut, many sessions at once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use turntree_store::engine::{Append, Engine as _, Head, Replace};
use turntree_store::engines::postgres::{PostgresEngine, PostgresOptions};

use super::{Schema, begin, engine, options, query_text};
use crate::faults::{assert_unavailable, survive_restarts, wait_for};
use crate::proxy::{Cut, Proxy};
use crate::services::{own_server, service};
use crate::support::{append_after, blob, block_on, entry_after, head_of, info, read_texts, texts, write};

#[test]
fn a_server_that_is_killed_and_restarted_loses_nothing_that_was_acknowledged() {
    let Some(server) = own_server("postgres") else { return };
    let engine = engine(&server.variable("TURNTREE_TEST_POSTGRES"), "sessions");

    survive_restarts(&*engine, &server);
}

/// An engine whose connections go through a proxy, unencrypted so that the proxy can read them. It waits for a connection
/// for `connect_timeout` seconds.
fn through_proxy(url: &str, schema: &str, connect_timeout: u32) -> (Proxy, PostgresEngine) {
    let (user, address) = url.rsplit_once('@').unwrap();
    let (host, database) = address.split_once('/').unwrap();
    let proxy = Proxy::start(host.to_owned());
    let parameters = format!("sslmode=disable&connect_timeout={connect_timeout}");
    let url = format!("{user}@127.0.0.1:{}/{database}?{parameters}", proxy.port);
    let engine = PostgresEngine::connect(&url, options(schema)).unwrap();
    (proxy, engine)
}

#[test]
fn an_append_whose_connection_is_cut_is_done_as_a_whole_or_not_at_all() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let (proxy, engine) = through_proxy(&url, &schema.name, 30);
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
    assert!(block_on(engine.blobs("s", vec![blob(b"the third entry").address])).unwrap()[0].is_some());

    block_on(engine.append(append_after(after, "s", b"last"))).unwrap();
    assert_eq!(block_on(read_texts(&engine, "s")).unwrap(), ["one", "the third entry", "last"]);
    assert_eq!(proxy.cuts(), 2);
}

#[test]
fn a_transaction_whose_connection_is_cut_is_done_as_a_whole_or_not_at_all() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let (proxy, engine) = through_proxy(&url, &schema.name, 30);
    let head = block_on(write(&engine, "s", &[b"one", b"two"]));
    let replace = |head: Option<Head>| Replace {
        expected: head,
        entries: vec![entry_after(None, "s", b"pruned")],
        revision: 3,
        blobs: vec![blob(b"new blob")],
        info: info("s"),
    };

    for text in [b"new blob".as_slice(), b"COMMIT"] {
        proxy.cut(Cut::Request(text));
        assert_unavailable(block_on(engine.replace(replace(head))));
        assert_eq!(block_on(engine.head("s")).unwrap(), head);
        assert_eq!(block_on(read_texts(&engine, "s")).unwrap(), ["one", "two"]);
    }
    proxy.cut(Cut::Response(b"COMMIT"));
    assert_unavailable(block_on(engine.replace(replace(head))));

    assert_eq!(block_on(read_texts(&engine, "s")).unwrap(), ["pruned"]);
    assert_eq!(block_on(engine.head("s")).unwrap().unwrap().revision, 3);
    assert_eq!(block_on(engine.check()).unwrap(), []);
    assert_eq!(proxy.cuts(), 3);
}

#[test]
fn a_read_whose_connection_is_cut_is_repeated() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let (proxy, engine) = through_proxy(&url, &schema.name, 30);
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
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let (proxy, engine) = through_proxy(&url, &schema.name, 2);
    proxy.freeze();
    let start = Instant::now();

    let error = block_on(engine.head("s")).unwrap_err();

    assert!(error.to_string().contains("within 2 s"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn thirty_two_sessions_share_a_few_connections() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let name = &schema.name;
    let options = PostgresOptions { max_connections: 3, ..options(name) };
    let engine = PostgresEngine::connect(&format!("{url}?application_name={name}"), options).unwrap();
    let most = AtomicUsize::new(0);
    let running = AtomicUsize::new(32);
    let sql = format!("SELECT count(*)::text FROM pg_stat_activity WHERE application_name = '{name}'");

    thread::scope(|scope| {
        for number in 0..32 {
            let (engine, running) = (&engine, &running);
            scope.spawn(move || {
                block_on(write(engine, &format!("s{number}"), &[b"1", b"2", b"3", b"4"]));
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        loop {
            let is_last = running.load(Ordering::Relaxed) == 0;
            most.fetch_max(query_text(&url, &sql).parse().unwrap(), Ordering::Relaxed);
            if is_last {
                break;
            }
        }
    });

    let mut seen = HashSet::new();
    for number in 0..32 {
        let id = format!("s{number}");
        let log = block_on(engine.read(&id)).unwrap().unwrap();
        assert_eq!(texts(&id, &log), ["1", "2", "3", "4"]);
        seen.insert(log.head().unwrap().digest);
    }
    assert_eq!(seen.len(), 32);
    assert!((1..=3).contains(&most.load(Ordering::Relaxed)), "{most:?} connections");
    block_on(engine.close()).unwrap();
    wait_for("a closed store keeps its connections", || query_text(&url, &sql) == "0");
}

#[test]
fn connections_that_the_server_has_ended_are_replaced() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let name = &schema.name;
    let engine = engine(&format!("{url}?application_name={name}"), name);
    let mut head = block_on(write(&*engine, "s", &[b"0"]));
    let count = format!("SELECT count(*)::text FROM pg_stat_activity WHERE application_name = '{name}'");

    for number in 1..=5 {
        schema.execute(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
        ));
        // The processes end later than the statement.
        wait_for("the connections go on", || query_text(&url, &count) == "0");
        assert_eq!(block_on(engine.head("s")).unwrap(), head);
        let append = append_after(head, "s", number.to_string().as_bytes());
        head = Some(head_of(&append));
        block_on(engine.append(append)).unwrap();
    }

    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["0", "1", "2", "3", "4", "5"]);
}

#[test]
fn an_append_that_was_dropped_does_not_land_after_the_head_was_read() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let name = &schema.name;
    let engine = engine(&format!("{url}?application_name={name}"), name);
    let head = block_on(write(&*engine, "s", &[b"one"]));
    let lock = format!("SELECT FROM {name}.turntree_sessions WHERE id = 's' FOR UPDATE");
    let waiting = format!(
        "SELECT count(*)::text FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event_type = 'Lock'"
    );

    let locked = begin(&url, &lock);
    let mut append = engine.append(append_after(head, "s", b"late"));
    wait_for("the append does not wait", || {
        assert!((&mut append).now_or_never().is_none());
        query_text(&url, &waiting) == "1"
    });
    drop(append);
    assert_eq!(block_on(engine.head("s")).unwrap(), head);
    drop(locked);

    block_on(engine.append(append_after(head, "s", b"two"))).unwrap();
    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["one", "two"]);
}
