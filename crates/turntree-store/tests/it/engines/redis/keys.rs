//! The keys: their names, versions, damage; errors that the server reports.

use turntree_store::engine::{Append, Engine as _, Replace};
use turntree_store::error::StoreError;

use super::{Prefix, call, engine};
use crate::services::{own_server, service};
use crate::support::{append_after, blob, block_on, entry_after, info, read_texts, write};

#[test]
fn all_keys_of_a_session_have_one_hash_tag() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let prefix = Prefix::new(&url);
    let engine = engine(&url, &prefix.name);
    for id in ["a", "}{", "{x}", "b"] {
        block_on(engine.append(Append { blobs: vec![blob(b"x")], ..append_after(None, id, b"1") })).unwrap();
    }

    let keys = prefix.keys();
    let format = format!("{}:format", prefix.name);
    assert!(keys.contains(&format));
    for id in ["a", "}{", "{x}", "b"] {
        let own: Vec<&String> = keys.iter().filter(|key| key.ends_with(&format!(":{id}"))).collect();
        assert_eq!(own.len(), 3, "{own:?}");
        let tags: Vec<&str> = own.iter().map(|key| key.split(['{', '}']).nth(1).unwrap()).collect();
        assert!(tags.iter().all(|tag| *tag == tags[0] && tag.len() == 2), "{own:?}");
        assert!(keys.contains(&format!("{}:{{{}}}:index", prefix.name, tags[0])));
    }
}

#[test]
fn a_deleted_session_leaves_no_key() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let prefix = Prefix::new(&url);
    let engine = engine(&url, &prefix.name);
    let append = Append { blobs: vec![blob(b"a")], ..append_after(None, "s", b"secret one") };
    block_on(engine.append(append)).unwrap();

    block_on(engine.delete("s")).unwrap();

    assert_eq!(prefix.keys(), [format!("{}:format", prefix.name)]);
}

#[test]
fn stores_with_different_prefixes_share_nothing() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let (first, second) = (Prefix::new(&url), Prefix::new(&url));
    block_on(write(&*engine(&url, &first.name), "s", &[b"1"]));

    let other = engine(&format!("{url}?prefix={}", second.name), &second.name);

    assert_eq!(block_on(other.head("s")).unwrap(), None);
    assert_eq!(block_on(other.check()).unwrap(), []);
}

#[test]
fn a_newer_format_is_refused_and_left_as_it_is() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let prefix = Prefix::new(&url);
    block_on(write(&*engine(&url, &prefix.name), "s", &[b"1"]));
    prefix.command::<()>("SET {p}:format 99");

    let newer = engine(&url, &prefix.name);

    let error = block_on(newer.head("s")).unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, supported: 1, .. }), "{error:?}");
    prefix.command::<()>("SET {p}:format 1");
    assert_eq!(block_on(read_texts(&*newer, "s")).unwrap(), ["1"]);
}

#[test]
fn damage_is_found_and_named() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let prefix = Prefix::new(&url);
    let engine = engine(&url, &prefix.name);
    for id in ["fine", "no-log", "end", "more", "no-head", "unlisted", "listed"] {
        block_on(write(&*engine, id, &[b"1", b"2", b"3"]));
    }
    let keys = prefix.keys();
    let key = |kind: &str, id: &str| {
        keys.iter()
            .find(|key| key.contains(&format!(":{kind}:")) && key.ends_with(&format!(":{id}")))
            .unwrap()
    };
    let index = |id: &str| key("head", id).replace(&format!("head:{id}"), "index");
    prefix.command::<()>(&format!("DEL {}", key("log", "no-log")));
    prefix.command::<()>(&format!("RPOP {}", key("log", "end")));
    prefix.command::<()>(&format!("LPUSH {} x", key("log", "more")));
    prefix.command::<()>(&format!("DEL {}", key("head", "no-head")));
    let place: String = prefix.command(&format!("HGET {} place", key("head", "unlisted")));
    prefix.command::<()>(&format!("ZREM {} {place}", index("unlisted")));
    prefix.command::<()>(&format!("ZADD {} 0 0000000000000000listed", index("listed")));

    let issues = block_on(engine.check()).unwrap();

    let found: Vec<&str> = issues.iter().map(|issue| issue.session.as_deref().unwrap()).collect();
    assert_eq!(found, ["end", "listed", "more", "no-head", "no-log", "unlisted"], "{issues:?}");
    for id in ["no-log", "end", "more", "no-head"] {
        let error = block_on(engine.read(id)).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(id), "{error}");
    }
    assert_eq!(block_on(read_texts(&*engine, "fine")).unwrap(), ["1", "2", "3"]);
}

#[test]
fn a_server_without_memory_is_full_and_a_replica_is_read_only() {
    let Some(server) = own_server("redis") else { return };
    let url = server.variable("TURNTREE_TEST_REDIS");
    let engine = engine(&url, "p");
    let head = block_on(write(&*engine, "s", &[b"1"]));
    let set = |command: &str| {
        call::<()>(&url, command.split(' ').map(|word| word.as_bytes().to_vec()).collect());
    };
    let append = || append_after(head, "s", b"2");
    let replace = |number: u8| Replace {
        expected: block_on(engine.head("s")).unwrap(),
        entries: vec![entry_after(None, "s", &[number])],
        revision: 10 + u64::from(number),
        blobs: Vec::new(),
        info: info("s"),
    };

    set("CONFIG SET maxmemory 1");
    let error = block_on(engine.append(append())).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("no space"), "{error}");
    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["1"]);

    set("CONFIG SET maxmemory 0");
    set("REPLICAOF 127.0.0.1 9");
    for result in [block_on(engine.append(append())), block_on(engine.replace(replace(0)))] {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        assert!(error.to_string().contains("read-only"), "{error}");
    }
    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["1"]);

    set("REPLICAOF NO ONE");
    block_on(engine.append(append())).unwrap();
    // Pruning frees memory: it is done when the memory is full.
    set("CONFIG SET maxmemory 1");
    block_on(engine.replace(replace(1))).unwrap();
    assert_eq!(block_on(engine.head("s")).unwrap().unwrap().revision, 11);
    assert_eq!(block_on(engine.check()).unwrap(), []);
}
