//! The tables: creation, versions, damage; errors that the server reports.

use std::thread;

use turntree_store::engine::{Append, Engine as _, SessionStatus, Synchronous};
use turntree_store::engines::postgres::{PostgresEngine, PostgresOptions};
use turntree_store::error::StoreError;

use super::{Schema, engine, execute, query_text};
use crate::services::{service, unique};
use crate::support::{append_after, blob, block_on, read_texts, write};

#[test]
fn several_processes_may_create_the_tables_at_once() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);

    thread::scope(|scope| {
        for number in 0..8 {
            let (url, schema) = (&url, &schema.name);
            scope.spawn(move || {
                // An engine of its own has connections of its own.
                let id = format!("s{number}");
                block_on(write(&*engine(url, schema), &id, &[b"1", b"2"]));
            });
        }
    });

    let engine = engine(&url, &schema.name);
    for number in 0..8 {
        assert_eq!(block_on(read_texts(&*engine, &format!("s{number}"))).unwrap(), ["1", "2"]);
    }
}

#[test]
fn the_name_of_a_schema_may_be_any_text() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let name = format!("a'b\"c {}; DROP", unique("d"));

    let engine = engine(&url, &name);
    block_on(write(&*engine, "s", &[b"1"]));

    assert_eq!(block_on(engine.check()).unwrap(), []);
    assert_eq!(
        query_text(&url, &format!("SELECT count(*)::text FROM {}.turntree_entries", quoted(&name))),
        "1"
    );
    execute(&url, &format!("DROP SCHEMA {} CASCADE", quoted(&name)));
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let name = &schema.name;
    block_on(write(&*engine(&url, name), "s", &[b"1"]));
    schema.execute(&format!("UPDATE {name}.turntree_schema SET version = 99"));

    let newer = engine(&url, name);

    let error = block_on(newer.head("s")).unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, supported: 3, .. }), "{error:?}");
    assert!(error.to_string().contains("install a newer version"), "{error}");
    assert!(block_on(newer.append(append_after(None, "t", b"x"))).is_err());
    schema.execute(&format!("UPDATE {name}.turntree_schema SET version = 3"));
    assert_eq!(block_on(read_texts(&*newer, "s")).unwrap(), ["1"]);
}

#[test]
fn a_schema_of_version_1_is_changed_to_the_newest() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let name = &schema.name;
    block_on(write(&*engine(&url, name), "s", &[b"1"]));
    schema.execute(&format!(
        "DROP TABLE {name}.turntree_runs, {name}.turntree_leases, {name}.turntree_record_entries, {name}.turntree_records; UPDATE {name}.turntree_schema SET version = 1"
    ));

    let newer = engine(&url, name);

    assert_eq!(block_on(read_texts(&*newer, "s")).unwrap(), ["1"]);
    assert!(block_on(newer.queue().unwrap().run("r")).unwrap().is_none());
}

#[test]
fn damage_is_found_and_named() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let name = &schema.name;
    let engine = engine(&url, name);
    for id in ["fine", "gap", "end", "digest", "empty"] {
        block_on(write(&*engine, id, &[b"1", b"2", b"3"]));
    }
    let entries = |id: &str| {
        format!(
            "{name}.turntree_entries WHERE session = (SELECT key FROM {name}.turntree_sessions WHERE id = '{id}')"
        )
    };
    schema.execute(&format!("DELETE FROM {} AND revision = 2", entries("gap")));
    schema.execute(&format!("DELETE FROM {} AND revision = 3", entries("end")));
    schema.execute(&format!("DELETE FROM {}", entries("empty")));
    schema.execute(&format!("UPDATE {name}.turntree_sessions SET digest = '\\x00' WHERE id = 'digest'"));
    schema.execute(&format!(
        "ALTER TABLE {name}.turntree_blobs DROP CONSTRAINT turntree_blobs_session_fkey;
         INSERT INTO {name}.turntree_blobs VALUES (-1, '\\x00', '\\x00')"
    ));

    let issues = block_on(engine.check()).unwrap();

    let found: Vec<Option<&str>> = issues.iter().map(|issue| issue.session.as_deref()).collect();
    assert_eq!(found, [None, Some("digest"), Some("empty"), Some("end"), Some("gap")], "{issues:?}");
    for id in ["gap", "end", "empty"] {
        let error = block_on(engine.read(id)).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(id) && error.to_string().contains("missing"), "{error}");
    }
    assert!(matches!(block_on(engine.head("digest")), Err(StoreError::Corrupt { .. })));
    assert_eq!(block_on(read_texts(&*engine, "fine")).unwrap(), ["1", "2", "3"]);
}

#[test]
fn a_read_only_database_is_read_and_not_written() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let head = block_on(write(&*engine(&url, &schema.name), "s", &[b"1"]));

    let read_only = engine(&format!("{url}?options=-c%20default_transaction_read_only%3Don"), &schema.name);

    assert_eq!(block_on(read_texts(&*read_only, "s")).unwrap(), ["1"]);
    let errors = [
        block_on(read_only.append(append_after(head, "s", b"2"))).unwrap_err(),
        block_on(read_only.append(append_after(None, "t", b"1"))).unwrap_err(),
        block_on(read_only.delete("s")).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        assert!(error.to_string().contains("read-only"), "{error}");
    }
    // There are no tables, and they cannot be created.
    let error = block_on(
        engine(&format!("{url}?options=-c%20default_transaction_read_only%3Don"), "absent").head("s"),
    );
    assert!(matches!(error, Err(StoreError::ReadOnly { .. })), "{error:?}");
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_stored() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let name = &schema.name;
    let engine = engine(&url, name);
    let head = block_on(write(&*engine, "s", &[b"1"]));
    // What the server raises when the file of a table cannot grow.
    schema.execute(&format!(
        "CREATE FUNCTION {name}.is_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'could not extend file: No space left on device';
         END $$;
         CREATE TRIGGER is_full BEFORE INSERT ON {name}.turntree_blobs FOR EACH ROW EXECUTE FUNCTION {name}.is_full()"
    ));

    let append = Append { blobs: vec![blob(b"a")], ..append_after(head, "s", b"2") };
    let error = block_on(engine.append(append)).unwrap_err();

    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("no space left"), "{error}");
    assert_eq!(block_on(engine.head("s")).unwrap(), head);
    assert_eq!(block_on(read_texts(&*engine, "s")).unwrap(), ["1"]);
    block_on(engine.append(append_after(head, "s", b"2"))).unwrap();
}

#[test]
fn a_database_with_another_encoding_is_refused() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let database = unique("latin");
    execute(&url, &format!("CREATE DATABASE {database} ENCODING 'LATIN1' TEMPLATE template0"));
    let engine = engine(&url.replace("/postgres", &format!("/{database}")), "public");

    let error = block_on(engine.head("s")).unwrap_err().to_string();

    block_on(engine.close()).unwrap();
    execute(&url, &format!("DROP DATABASE {database} WITH (FORCE)"));
    assert!(error.contains("LATIN1") && error.contains("UTF8"), "{error}");
}

#[test]
fn values_that_the_database_cannot_store_are_refused() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let schema = Schema::new(&url);
    let engine = engine(&url, &schema.name);
    let mut zero = append_after(None, "s", b"x");
    zero.info.agent = "a\0b".into();
    let mut large = append_after(None, "s", b"x");
    large.info.bytes = u64::MAX;
    let fence = Append { fence: Some(u64::MAX), ..append_after(None, "s", b"x") };

    for append in [zero, large, fence] {
        let error = block_on(engine.append(append)).unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
    }
    assert_eq!(block_on(engine.head("s")).unwrap(), None);
}

#[test]
fn commits_are_synchronous_unless_the_option_says_otherwise() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let cases = [
        ("on", Synchronous::Full, "on"),
        ("off", Synchronous::Full, "on"),
        ("remote_apply", Synchronous::Full, "remote_apply"),
        ("on", Synchronous::Normal, "off"),
    ];
    for (server, synchronous, expected) in cases {
        let schema = Schema::new(&url);
        let name = &schema.name;
        let url = format!("{url}?options=-c%20synchronous_commit%3D{server}");
        let options =
            PostgresOptions { synchronous, schema: Some(name.clone()), ..PostgresOptions::default() };
        let engine = PostgresEngine::connect(&url, options).unwrap();
        block_on(write(&engine, "s", &[b"1"]));
        // The status of the session says what the writing connection had set.
        schema.execute(&format!(
            "ALTER TABLE {name}.turntree_sessions DROP CONSTRAINT turntree_sessions_status_check;
             CREATE FUNCTION {name}.setting() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 NEW.agent = current_setting('synchronous_commit'); RETURN NEW;
             END $$;
             CREATE TRIGGER setting BEFORE INSERT ON {name}.turntree_sessions
                 FOR EACH ROW EXECUTE FUNCTION {name}.setting()"
        ));

        block_on(write(&engine, "t", &[b"1"]));

        let log = block_on(engine.read("t")).unwrap().unwrap();
        assert_eq!((&*log.info.agent, log.info.status), (expected, SessionStatus::Idle));
    }
}
