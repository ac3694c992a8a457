//! URLs, TLS, and what errors say of them.

use turntree_store::engine::Engine as _;
use turntree_store::engines::postgres::{PostgresEngine, PostgresOptions};
use turntree_store::error::StoreError;

use super::{Schema, query_text};
use crate::services::service;
use crate::support::{append_after, block_on};

fn connect(url: &str) -> Result<PostgresEngine, StoreError> {
    PostgresEngine::connect(url, PostgresOptions::default())
}

#[test]
fn the_name_has_host_and_database_only() {
    for (url, name) in [
        ("postgresql://me:pass@db.example/app", "db.example/app"),
        ("postgres://me:pass@db.example:5432/app?sslmode=disable", "db.example/app"),
        ("postgresql://me:p%40ss@db.example:5433", "db.example:5433/me"),
        ("postgresql://me:pass@a,b:5433/app", "a,b:5433/app"),
        ("postgresql://me@/app?host=%2Frun%2Fpostgresql", "/run/postgresql/app"),
        ("postgresql://me:pass@[::1]:6000/app?schema=x", "::1:6000/app"),
    ] {
        let engine = connect(url).unwrap();
        assert_eq!(&*engine.name(), format!("PostgreSQL store \"{name}\""), "{url}");
        let debug = format!("{engine:?}");
        assert!(!debug.contains("pass") && !debug.contains("p@ss"), "{debug}");
    }
}

#[test]
fn an_invalid_url_is_refused_without_its_text() {
    let long_schema = format!("postgresql://me:SECRET@h/d?schema={}", "x".repeat(64));
    for url in [
        "",
        "SECRET",
        "mysql://me:SECRET@h/d",
        "postgresql:///d",
        "postgresql://me:SECRET@h:port/d",
        "postgresql://me:SECRET@h:99999/d",
        "postgresql://me:12/SECRET@h/d",
        "postgresql://me:12#SECRET@h/d",
        "postgresql://me:12?SECRET@h/d",
        "postgresql://me:12@SECRET@h/d",
        "postgresql://me:SECRET@h/d?sslmode",
        "postgresql://me:SECRET@h/d?sslmode=SECRET",
        "postgresql://me:SECRET@h/d?sslmode=%4",
        "postgresql://me:SECRET@h/d?sslmode=verify-ca",
        "postgresql://me:SECRET@h/d?sslmode=require&sslrootcert=system",
        "postgresql://me:SECRET@h/d?sslrootcert=/nowhere/root.crt",
        "postgresql://me:SECRET@h/d?unknown=SECRET",
        "postgresql://me:SECRET@h/d?connect_timeout=SECRET",
        "postgresql://me:SECRET@h/d?schema=",
        "postgresql://me:SECRET@h/d?pooler=SECRET",
        "postgresql://me:SECRET@h/d?schema=%00",
        &long_schema,
    ] {
        let Err(error) = connect(url) else { panic!("{url} is accepted") };
        assert!(matches!(error, StoreError::Invalid(_)), "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("SECRET"), "{error}");
    }
    let options = PostgresOptions { schema: Some(String::new()), ..PostgresOptions::default() };
    assert!(matches!(PostgresEngine::connect("postgresql://h/d", options), Err(StoreError::Invalid(_))));
}

#[test]
fn a_wrong_password_host_or_database_is_named_without_the_password() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let (_, address) = url.rsplit_once('@').unwrap();
    let (host, _) = address.split_once('/').unwrap();
    let cases = [
        (format!("postgresql://turntree:PASS@{address}"), "password authentication failed"),
        (format!("postgresql://nobody:PASS@{address}"), "password authentication failed"),
        (format!("postgresql://turntree@{address}"), "password missing"),
        (format!("postgresql://turntree:secret@{host}/nowhere"), "database \"nowhere\" does not exist"),
        ("postgresql://turntree:PASS@127.0.0.1:9/d".to_owned(), "refused"),
        ("postgresql://turntree:PASS@host.invalid/d".to_owned(), "host.invalid"),
    ];
    for (url, expected) in cases {
        let engine = connect(&url).unwrap();
        for error in [
            block_on(engine.append(append_after(None, "s", b"x"))).unwrap_err(),
            block_on(engine.head("s")).unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(expected), "{text}");
            assert!(!text.contains("PASS") && !text.contains("secret"), "{text}");
        }
    }
}

/// Writes with some options, and returns whether the connection was encrypted.
fn write_with(url: &str, options: &str) -> Result<bool, StoreError> {
    let schema = Schema::new(url);
    let separator = if url.contains('?') { '&' } else { '?' };
    let name = &schema.name;
    let url_with = format!("{url}{separator}schema={name}&application_name={name}{options}");
    let engine = connect(&url_with)?;
    block_on(engine.append(append_after(None, "s", b"x")))?;
    let sql = format!(
        "SELECT bool_and(ssl)::text FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = '{name}'"
    );
    Ok(query_text(url, &sql) == "true")
}

#[test]
fn sslmode_chooses_encryption_and_which_servers_are_trusted() {
    let Some(url) = service("TURNTREE_TEST_POSTGRES") else { return };
    let root = format!("&sslrootcert={}", service("TURNTREE_TEST_CA").unwrap());

    assert_eq!(write_with(&url, "&sslmode=disable"), Ok(false));
    assert_eq!(write_with(&url, ""), Ok(true));
    assert_eq!(write_with(&url, "&sslmode=require"), Ok(true));
    assert_eq!(write_with(&url, &format!("&sslmode=require{root}")), Ok(true));
    assert_eq!(write_with(&url, &format!("&sslmode=verify-full{root}")), Ok(true));
    assert_eq!(write_with(&url, &format!("&sslmode=verify-full{root}&channel_binding=require")), Ok(true));
    let error = write_with(&url, "&sslmode=verify-full").unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");

    // The certificate is for localhost and 127.0.0.1.
    let other_name = |options: &str| {
        let schema = Schema::new(&url);
        let url = format!(
            "{}?hostaddr=127.0.0.1&schema={}{options}",
            url.replace("127.0.0.1", "other"),
            schema.name
        );
        block_on(connect(&url)?.append(append_after(None, "s", b"x")))
    };
    other_name(&format!("&sslmode=verify-ca{root}")).unwrap();
    let error = other_name(&format!("&sslmode=verify-full{root}")).unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
}
