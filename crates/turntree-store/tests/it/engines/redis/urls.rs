//! URLs, TLS, and what errors say of them.

use turntree_store::engine::Engine as _;
use turntree_store::engines::redis::{RedisEngine, RedisOptions};
use turntree_store::error::StoreError;

use super::{Prefix, engine};
use crate::services::service;
use crate::support::{append_after, block_on, read_texts, write};

fn connect(url: &str) -> Result<RedisEngine, StoreError> {
    RedisEngine::connect(url, RedisOptions::default())
}

#[test]
fn the_name_has_host_and_database_only() {
    for (url, name) in [
        ("redis://:pass@cache.example", "cache.example/0"),
        ("rediss://me:p%40ss@cache.example:6379/3", "cache.example/3"),
        ("redis://me:pass@[::1]:7000/1?prefix=x&protocol=resp3", "::1:7000/1"),
    ] {
        let engine = connect(url).unwrap();
        assert_eq!(&*engine.name(), format!("Redis store \"{name}\""), "{url}");
        let debug = format!("{engine:?}");
        assert!(!debug.contains("pass") && !debug.contains("p@ss"), "{debug}");
    }
}

#[test]
fn an_invalid_url_is_refused_without_its_text() {
    for url in [
        "",
        "SECRET",
        "http://:SECRET@h/0",
        "redis://",
        "redis://:SECRET@h:port",
        "redis://:SECRET@h:99999",
        "redis://:12/SECRET@h/0",
        "redis://:12#SECRET@h/0",
        "redis://:12?SECRET@h/0",
        "redis://:SECRET@h/SECRET",
        "redis://:SECRET@h/0?unknown=SECRET",
        "redis://:SECRET@h/0?prefix=",
        "redis://:SECRET@h/0?prefix=a{b}",
        "redis://:SECRET@h/0?protocol=SECRET",
        "rediss://:SECRET@h/0#insecure",
        "rediss://:SECRET@h/0?ssl_ca_certs=/nowhere/root.crt",
        "redis://:SECRET@h/0?ssl_ca_certs=/nowhere/root.crt",
    ] {
        let Err(error) = connect(url) else { panic!("{url} is accepted") };
        assert!(matches!(error, StoreError::Invalid(_)), "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("SECRET"), "{error}");
    }
    let options = RedisOptions { prefix: Some("a}".to_owned()), ..RedisOptions::default() };
    assert!(matches!(RedisEngine::connect("redis://h", options), Err(StoreError::Invalid(_))));
}

#[test]
fn a_wrong_password_host_or_database_is_named_without_the_password() {
    let Some(url) = service("TURNTREE_TEST_REDIS") else { return };
    let (_, address) = url.rsplit_once('@').unwrap();
    let (host, _) = address.split_once('/').unwrap();
    let cases = [
        (format!("redis://:PASS@{address}"), "authentication failed"),
        (format!("redis://nobody:PASS@{address}"), "authentication failed"),
        (format!("redis://{address}"), "NOAUTH"),
        (format!("redis://:secret@{host}/9999"), "out of range"),
        ("redis://:PASS@127.0.0.1:9".to_owned(), "refused"),
        ("redis://:PASS@host.invalid".to_owned(), "host.invalid"),
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

#[test]
fn tls_trusts_the_authorities_of_the_option_only() {
    let (Some(url), Some(authority)) = (service("TURNTREE_TEST_REDIS_TLS"), service("TURNTREE_TEST_CA"))
    else {
        return;
    };
    let prefix = Prefix::new(&service("TURNTREE_TEST_REDIS").unwrap());
    let trusting = engine(&format!("{url}?ssl_ca_certs={authority}"), &prefix.name);

    block_on(write(&*trusting, "s", &[b"1"]));

    assert_eq!(block_on(read_texts(&*trusting, "s")).unwrap(), ["1"]);
    let error = block_on(engine(&url, &prefix.name).head("s")).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}
