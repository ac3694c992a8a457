//! Several users of a file who write at the same time.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use turntree_store::engines::sqlite::database::Database;
use turntree_store::engines::sqlite::{Schema, SqliteOptions};

use crate::support::{Stop, TempFolder, block_on};

static SCHEMA: Schema = Schema {
    name: "file of a test",
    application_id: 1,
    migrations: &["CREATE TABLE numbers (number INTEGER NOT NULL) STRICT;"],
    page_size: 4096,
    checkpoint_pages: 1000,
    keeps_log: false,
};

fn insert(database: &Database, duration: Duration) {
    let work = move |connection: &rusqlite::Connection| {
        connection.execute("INSERT INTO numbers VALUES (1)", [])?;
        thread::sleep(duration);
        Ok(())
    };
    block_on(database.write(None, work)).unwrap();
}

/// A file is empty, or it has all of its schema: nobody sees a part of what another user writes.
#[test]
fn many_users_create_a_file_at_once() {
    let folder = TempFolder::new();
    for number in 0..50 {
        let path = folder.path().join(format!("{number}.db"));
        let all_are_ready = Barrier::new(4);
        let create = || {
            let database = Database::open(&path, SqliteOptions::default(), &SCHEMA).unwrap();
            all_are_ready.wait();
            insert(&database, Duration::ZERO);
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(create);
            }
        });
    }
}

/// Two threads keep one user busy: when its transaction ends, after 200 ms, the next one waits already.
#[test]
fn a_writer_without_a_break_lets_others_write() {
    let folder = TempFolder::new();
    let open = || Database::open(&folder.path().join("s.db"), SqliteOptions::default(), &SCHEMA).unwrap();
    let (busy, other) = (open(), open());
    let stop = Stop::default();
    let write_on = || {
        while !stop.is_set() {
            insert(&busy, Duration::from_millis(200));
        }
    };

    let longest = thread::scope(|scope| {
        let _running = stop.on_drop();
        scope.spawn(write_on);
        scope.spawn(write_on);
        // The first transactions create the file.
        insert(&other, Duration::ZERO);
        let write = |_| {
            // The busy user has the lock in the meantime.
            thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            insert(&other, Duration::ZERO);
            start.elapsed()
        };
        (0..10).map(write).max()
    });

    // Without breaks the other user waits for up to a minute.
    assert!(longest < Some(Duration::from_secs(10)), "{longest:?}");
}
