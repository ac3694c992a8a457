//! Ids of sessions: any text of 1 to 200 printable characters.

use std::collections::BTreeSet;

use bytes::Bytes;
use turntree_store::digest::Digest;
use turntree_store::engine::Append;

use crate::support::{Fixture, append_after, blob, list, query, read_texts};

#[rustfmt::skip]
const SHORT: &[&str] = &[
    "a", "A", "a/b", "a\\b", "/", "..", ".", "../../etc/passwd", "/etc/passwd", "~", "C:\\x", "con", "NUL",
    "aux.log", "a.", "a ", " a", "'", "\"", "'; DROP TABLE entries; --", "%2F", "%", "_", "*", "?", "[a]",
    "{a}", "a:b", "1:a", "|", "<>", "#", "&", "$HOME", "`x`", "-rf", "--", "a\u{301}", "\u{e1}", "ß", "ss",
    "İ", "i", "ı", "🦀", "日本語", "שלום", "a{b}c", "{}", "info", "log", "blobs", "0", "00", "1e3", "null",
    "true",
];

fn ids() -> Vec<String> {
    let mut ids: Vec<String> = SHORT.iter().copied().map(str::to_owned).collect();
    for text in ["x", "/", "🦀", "%", "é"] {
        ids.push(text.repeat(200));
        ids.push(text.repeat(199));
    }
    // Long ids that differ only at the end, or only in case.
    ids.push(format!("{}1", "y".repeat(199)));
    ids.push(format!("{}2", "y".repeat(199)));
    ids.push(format!("{}Y", "y".repeat(199)));
    ids.push("Y".repeat(200));
    ids
}

pub(crate) async fn any_printable_id_names_its_own_session(fixture: Fixture) {
    let engine = fixture.engine;
    let ids = ids();
    for id in &ids {
        let append = Append { blobs: vec![blob(id.as_bytes())], ..append_after(None, id, id.as_bytes()) };
        engine.append(append).await.unwrap_or_else(|error| panic!("{id:?}: {error}"));
    }

    let listed: BTreeSet<String> = list(&*engine, query(7)).await.into_iter().collect();
    assert_eq!(listed, ids.iter().cloned().collect());
    for id in &ids {
        assert_eq!(read_texts(&*engine, id).await.unwrap(), [id.as_str()], "{id:?}");
        let blobs = engine.blobs(id, vec![Digest::of(id.as_bytes())]).await.unwrap();
        assert_eq!(blobs, [Some(Bytes::copy_from_slice(id.as_bytes()))], "{id:?}");
    }
    assert_eq!(engine.check().await.unwrap(), []);
    for (index, id) in ids.iter().enumerate() {
        assert!(engine.delete(id).await.unwrap(), "{id:?}");
        if let Some(next) = ids.get(index + 1) {
            assert!(engine.head(next).await.unwrap().is_some(), "{id:?} deleted {next:?}");
        }
    }
    assert!(list(&*engine, query(7)).await.is_empty());
}

pub(crate) async fn an_id_is_no_pattern(fixture: Fixture) {
    let engine = fixture.engine;
    engine.append(append_after(None, "abc", b"x")).await.unwrap();

    for id in ["%", "_bc", "*", "?bc", "[a]bc", "ABC", "abc ", "abc%00", ""] {
        assert_eq!(engine.head(id).await.unwrap(), None, "{id:?}");
        assert!(!engine.delete(id).await.unwrap(), "{id:?}");
    }
}
