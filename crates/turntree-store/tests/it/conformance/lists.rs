//! Lists of sessions: order, filters, pages.

use turntree_store::engine::{Append, Engine, Head, SessionQuery, SessionStatus};
use turntree_store::error::StoreError;

use crate::support::{Fixture, append_after, head_of, list, query, time};

/// Appends an entry at a time, and returns the head.
async fn touch(engine: &dyn Engine, id: &str, head: Option<Head>, at: i64) -> Option<Head> {
    let mut append = append_after(head, id, b"x");
    append.info.updated_at = time(at);
    let head = head_of(&append);
    engine.append(append).await.unwrap();
    Some(head)
}

pub(crate) async fn the_most_recently_updated_session_is_first(fixture: Fixture) {
    let engine = fixture.engine;
    let old = touch(&*engine, "old", None, 10).await;
    for (id, at) in [("b", 20), ("a", 20), ("é", 20), ("B", 20), ("negative", -1), ("new", 30)] {
        touch(&*engine, id, None, at).await;
    }

    // Those with the same time are in the order of their UTF-8 bytes.
    assert_eq!(list(&*engine, query(100)).await, ["new", "B", "a", "b", "é", "old", "negative"]);
    touch(&*engine, "old", old, 40).await;
    assert_eq!(list(&*engine, query(100)).await, ["old", "new", "B", "a", "b", "é", "negative"]);
}

pub(crate) async fn pages_have_each_session_once(fixture: Fixture) {
    let engine = fixture.engine;
    for number in 0..23 {
        // Many with the same time.
        touch(&*engine, &format!("s{number:02}"), None, number / 5).await;
    }
    let all = list(&*engine, query(100)).await;

    assert_eq!(all.len(), 23);
    for limit in [1, 2, 5, 7, 22, 23, 24] {
        assert_eq!(list(&*engine, query(limit)).await, all, "pages of {limit}");
    }
    assert_eq!(engine.sessions(query(23)).await.unwrap().next, None);
    assert_eq!(engine.sessions(query(usize::MAX)).await.unwrap().sessions.len(), 23);
}

pub(crate) async fn filters_select_sessions(fixture: Fixture) {
    let engine = fixture.engine;
    for number in 0..12_u8 {
        let id = format!("s{number:02}");
        let mut append: Append = append_after(None, &id, b"x");
        append.info.agent = ["x", "y", "x'%_"][usize::from(number % 3)].into();
        append.info.status = SessionStatus::ALL[usize::from(number / 4)];
        append.info.updated_at = time(i64::from(number));
        engine.append(append).await.unwrap();
    }
    let cases = [
        (SessionQuery { agent: Some("x".to_owned()), ..query(2) }, vec!["s09", "s06", "s03", "s00"]),
        (SessionQuery { agent: Some("x'%_".to_owned()), ..query(3) }, vec!["s11", "s08", "s05", "s02"]),
        (SessionQuery { agent: Some("%".to_owned()), ..query(3) }, vec![]),
        (
            SessionQuery { status: Some(SessionStatus::Unfinished), ..query(3) },
            vec!["s07", "s06", "s05", "s04"],
        ),
        (
            SessionQuery { agent: Some("y".to_owned()), status: Some(SessionStatus::Waiting), ..query(1) },
            vec!["s10"],
        ),
        (SessionQuery { updated_after: Some(time(9)), ..query(1) }, vec!["s11", "s10"]),
        (SessionQuery { updated_before: Some(time(1)), ..query(1) }, vec!["s01", "s00"]),
        (
            SessionQuery { updated_after: Some(time(3)), updated_before: Some(time(5)), ..query(5) },
            vec!["s05", "s04"],
        ),
        (SessionQuery { updated_after: Some(time(5)), updated_before: Some(time(3)), ..query(5) }, vec![]),
    ];

    for (query, expected) in cases {
        let name = format!("{query:?}");
        assert_eq!(list(&*engine, query).await, expected, "{name}");
    }
}

pub(crate) async fn pages_are_stable_while_sessions_change(fixture: Fixture) {
    let engine = fixture.engine;
    let mut heads = Vec::new();
    for number in 0..10 {
        heads.push(touch(&*engine, &format!("s{number}"), None, number).await);
    }
    let first = engine.sessions(query(3)).await.unwrap();
    let ids: Vec<&str> = first.sessions.iter().map(|info| &*info.id).collect();
    assert_eq!(ids, ["s9", "s8", "s7"]);

    // The last session of the page goes, one of it moves, one is new.
    engine.delete("s7").await.unwrap();
    touch(&*engine, "s8", heads[8], 50).await;
    touch(&*engine, "new", None, 60).await;

    let rest = list(&*engine, SessionQuery { after: first.next, ..query(3) }).await;
    assert_eq!(rest, ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
}

pub(crate) async fn a_wrong_position_or_limit_is_invalid(fixture: Fixture) {
    let engine = fixture.engine;
    touch(&*engine, "s", None, 1).await;

    for after in ["", "s", "x:s", "1", "99999999999999999999:s"] {
        let query = SessionQuery { after: Some(after.to_owned()), ..query(1) };
        let error = engine.sessions(query).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid(_)), "{after:?}: {error}");
    }
    assert!(matches!(engine.sessions(query(0)).await, Err(StoreError::Invalid(_))));
}

pub(crate) async fn deleted_sessions_are_not_listed(fixture: Fixture) {
    let engine = fixture.engine;
    for id in ["a", "b", "c"] {
        touch(&*engine, id, None, 1).await;
    }
    engine.delete("b").await.unwrap();

    assert_eq!(list(&*engine, query(10)).await, ["a", "c"]);
}
