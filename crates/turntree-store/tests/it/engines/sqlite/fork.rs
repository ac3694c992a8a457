//! A store that is open at a fork.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use turntree_store::engine::Engine;
use turntree_store::engines::sqlite::SqliteEngine;

use super::engine_at;
use crate::support::{Stop, TempFolder, append_after, block_on, fork, head_of, read_texts, write};

fn wait_for(path: &Path) {
    while !path.exists() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn parent_and_child_use_an_open_store_after_a_fork() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("s.db"));
    let head = block_on(write(&*engine, "s", &[b"before"]));
    let child_engine = Arc::clone(&engine);

    let wait = fork(move || {
        block_on(async {
            assert_eq!(read_texts(&*child_engine, "s").await.unwrap(), ["before"]);
            child_engine.append(append_after(head, "s", b"child")).await.unwrap();
            write(&*child_engine, "t", &[b"1", b"2"]).await;
        });
    });
    block_on(write(&*engine, "u", &[b"1", b"2"]));
    wait();

    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["before", "child"]);
    assert_eq!(block_on(read_texts(&*engine, "t")).unwrap(), ["1", "2"]);
    crate::support::assert_conflict(block_on(engine.append(append_after(head, "s", b"late"))), "s", false);
}

/// A connection that the child has inherited would let the parent delete the log that the child writes.
#[test]
fn what_a_child_writes_survives_the_close_of_the_parent() {
    let folder = TempFolder::new();
    let path = folder.path().join("s.db");
    let (opened, closed) = (folder.path().join("opened"), folder.path().join("closed"));
    let engine = engine_at(&path);
    let head = block_on(write(&*engine, "s", &[b"before"])).unwrap();
    let child_engine = Arc::clone(&engine);

    let wait = {
        let (opened, closed) = (opened.clone(), closed.clone());
        fork(move || {
            let append = append_after(Some(head), "s", b"1");
            let head = head_of(&append);
            block_on(child_engine.append(append)).unwrap();
            fs::write(opened, "").unwrap();
            wait_for(&closed);
            block_on(child_engine.append(append_after(Some(head), "s", b"2"))).unwrap();
            // It ends without closing the store, as a killed process does.
        })
    };
    wait_for(&opened);
    block_on(engine.append(append_after(None, "t", b"parent"))).unwrap();
    block_on(engine.close()).unwrap();
    fs::write(&closed, "").unwrap();
    wait();

    let engine = engine_at(&path);
    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["before", "1", "2"]);
    assert_eq!(block_on(engine.check()).unwrap(), []);
}

/// Appends to one session until told to stop. Returns the number of entries.
fn append_until(engine: &SqliteEngine, id: &str, stop: &Stop) -> usize {
    let mut head = block_on(engine.head(id)).unwrap();
    let mut count = 0;
    while !stop.is_set() {
        let append = append_after(head, id, b"x");
        head = Some(head_of(&append));
        block_on(engine.append(append)).unwrap();
        count += 1;
    }
    count
}

#[test]
fn forks_under_load_lose_nothing() {
    let folder = TempFolder::new();
    let engine = engine_at(&folder.path().join("s.db"));
    let stop = Stop::default();

    let counts: Vec<usize> = thread::scope(|scope| {
        let ids = ["a", "b", "c"];
        let writers = ids.map(|id| scope.spawn(|| append_until(&engine, id, &stop)));
        let running = stop.on_drop();
        for number in 0..5 {
            let child_engine = Arc::clone(&engine);
            let wait = fork(move || {
                block_on(write(&*child_engine, &format!("child{number}"), &[b"1", b"2", b"3"]));
            });
            wait();
        }
        drop(running);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });

    for (id, count) in ["a", "b", "c"].into_iter().zip(counts) {
        assert_eq!(block_on(read_texts(&*engine, id)).unwrap().len(), count);
    }
    for number in 0..5 {
        assert_eq!(block_on(read_texts(&*engine, &format!("child{number}"))).unwrap(), ["1", "2", "3"]);
    }
}
