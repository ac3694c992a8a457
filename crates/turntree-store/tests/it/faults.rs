//! Faults that the engines of several servers are tested with.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use turntree_store::engine::Engine;
use turntree_store::error::StoreError;

use crate::services::OwnServer;
use crate::support::{Stop, append_after, block_on, head_of, read_texts};

/// Appends entries until it is told to stop. Returns the texts of those that were acknowledged or found afterwards.
async fn append_until(engine: &dyn Engine, id: &str, stop: &Stop, acknowledged: &AtomicUsize) -> Vec<String> {
    let (mut head, mut written, mut number) = (None, Vec::new(), 0);
    while !stop.is_set() {
        number += 1;
        let text = format!("{id}.{number}");
        let append = append_after(head, id, text.as_bytes());
        let after = head_of(&append);
        match engine.append(append).await {
            Ok(()) => {}
            // Whether it was done is not known: the store says it when it is back.
            Err(StoreError::Unavailable { .. }) => {
                let stored = loop {
                    match engine.head(id).await {
                        Ok(stored) => break stored,
                        Err(StoreError::Unavailable { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                };
                if stored == head {
                    continue;
                }
                assert_eq!(stored, Some(after), "an acknowledged entry of {id} is lost");
            }
            Err(error) => panic!("{error}"),
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
        written.push(text);
        head = Some(after);
    }
    written
}

/// Waits up to 60 s.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Kills a server three times while eight writers append. No acknowledged entry may be lost, and the writers go on.
pub(crate) fn survive_restarts(engine: &dyn Engine, server: &OwnServer) {
    let (stop, acknowledged) = (Stop::default(), AtomicUsize::new(0));

    let written: Vec<(String, Vec<String>)> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let (stop, acknowledged) = (&stop, &acknowledged);
                scope.spawn(move || {
                    let id = format!("s{number}");
                    let written = block_on(append_until(engine, &id, stop, acknowledged));
                    (id, written)
                })
            })
            .collect();
        let running = stop.on_drop();
        for _ in 0..3 {
            let before = acknowledged.load(Ordering::Relaxed);
            wait_for("the writers do not go on", || acknowledged.load(Ordering::Relaxed) >= before + 100);
            server.kill();
            server.start_again();
        }
        let before = acknowledged.load(Ordering::Relaxed);
        wait_for("the writers do not recover", || acknowledged.load(Ordering::Relaxed) >= before + 100);
        drop(running);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });

    for (id, written) in written {
        assert_eq!(block_on(read_texts(engine, &id)).unwrap(), written);
    }
    assert_eq!(block_on(engine.check()).unwrap(), []);
}

/// Asserts that an operation has failed with `Unavailable`.
#[track_caller]
pub(crate) fn assert_unavailable<T: Debug>(result: Result<T, StoreError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}
