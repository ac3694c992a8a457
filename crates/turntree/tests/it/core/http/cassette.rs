//! Cassettes: exchanges recorded from a loopback server and replayed without it.

use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use serde_json::{Value, json as value};
use turntree::core::http::cassette::{Cassette, CassetteError, CassetteMode, CassetteOptions, RedactionHook};
use turntree::core::http::{ExponentialBackoff, HostFailure};
use turntree::core::secret::Secret;

use super::*;

const KEY: &str = "sk-live-abcdefghijklmnop0123456789";

/// The path of a cassette in the build folder; each test uses its own name.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassette");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.json"));
    let _ = std::fs::remove_file(&path);
    path
}

fn with(mode: CassetteMode, path: &Path) -> Cassette {
    Cassette::open(path, CassetteOptions { mode, ..CassetteOptions::default() }).unwrap()
}

fn using(cassette: &Cassette) -> HttpClient {
    client(&config()).layer(cassette)
}

async fn post(url: &str, body: &Value, cassette: &Cassette) -> Result<HttpResponse, HttpError> {
    let request = HttpRequest::post(url, body.to_string())
        .header("Content-Type", "application/json")
        .header("X-Strange", "not for the file")
        .bearer(&Secret::from(KEY))
        .response_type(ResponseType::Json);
    using(cassette).send(request, &quick_retries(), &CancellationToken::new()).await
}

async fn stream(url: &str, cassette: &Cassette) -> Result<EventStream, HttpError> {
    let request = HttpRequest::post(url, "{}").response_type(ResponseType::EventStream);
    using(cassette).stream(request, &quick_retries(), &CancellationToken::new(), EventData::default()).await
}

fn document(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test]
async fn recorded_exchanges_replay_without_the_server() {
    let path = file("round_trip");
    let refusal = response("429 Slow", &[("Retry-After", "0"), ("Set-Cookie", "session=1")], "slow down");
    let answers = [refusal, json(r#"{ "n": 1 }"#), json(r#"{"n":2}"#)];
    let server = Server::start(answers).await;
    let url = server.url("/v1/chat?key=AbCdEfGh&x=1");
    let recording = with(CassetteMode::Record, &path);

    let first = post(&url, &value!({"a": 1, "b": [1, 2]}), &recording).await.unwrap();
    let second = post(&url, &value!({"a": 1, "b": [1, 2]}), &recording).await.unwrap();
    recording.save().unwrap();
    drop(server);

    let playing = with(CassetteMode::Replay, &path);
    let url = url.replace("AbCdEfGh", "another-key");
    // Other order of members, another spelling of a number, another key in the query.
    let again = post(&url, &value!({"b": [1, 2.0], "a": 1}), &playing).await.unwrap();
    assert_eq!(playing.unused().len(), 1);
    let further = post(&url, &value!({"a": 1, "b": [1, 2]}), &playing).await.unwrap();

    assert_eq!((first.body, second.body.clone()), ("{ \"n\": 1 }".into(), "{\"n\":2}".into()));
    assert_eq!((again.body, further.body), ("{\"n\":1}".into(), second.body));
    assert_eq!(again.headers.get("x-request-id").unwrap(), "req_7");
    assert_eq!((playing.len(), playing.played(), playing.unused().len()), (3, 3, 0));
}

#[tokio::test]
async fn a_cassette_contains_no_credentials() {
    let path = file("secrets");
    let echo =
        format!(r#"{{"echo":"you sent {KEY}","api_key":"plain","list":["xai-0123456789012345678901"]}}"#);
    let headers = [("Content-Type", "application/json"), ("Set-Cookie", "session=1"), ("X-Account", "acme")];
    let server = Server::start([response("200 OK", &headers, &echo)]).await;
    let url = server.url("/v1?api-key=hidden-in-query").replace("http://", "http://me:pass-word@");
    let recording = with(CassetteMode::Record, &path);

    let body =
        value!({"prompt": format!("my key is {KEY} and AIza{}", "x".repeat(35)), "task-sk-1": "sk-short"});
    let answer = post(&url, &body, &recording).await.unwrap();
    recording.save().unwrap();

    assert!(
        String::from_utf8_lossy(&answer.body).contains(KEY),
        "the caller receives the unredacted response"
    );
    let text = std::fs::read_to_string(&path).unwrap();
    for secret in
        [KEY, "AIza", "xai-", "hidden-in-query", "pass-word", "plain", "session", "acme", "X-Strange"]
    {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains("sk-short"), "short strings with a key prefix are preserved");
    assert_eq!(document(&path)["exchanges"][0]["response"]["body"]["json"]["api_key"], "REDACTED");
}

#[tokio::test]
async fn streams_replay_with_their_chunks_and_network_errors() {
    let path = file("stream");
    let whole = vec![event_stream(), chunk("data: 1\n\nda"), chunk("ta: hé\n\n"), last_chunk()];
    let broken =
        vec![event_stream(), chunk("data: 3\n\n"), Step::Wait(Duration::from_millis(50)), Step::Reset];
    let server = Server::start([whole, broken]).await;
    let url = server.url("/v1/chat");
    let recording = with(CassetteMode::Record, &path);

    drain(stream(&url, &recording).await.unwrap()).await;
    let (_, original) = drain(stream(&url, &recording).await.unwrap()).await;
    recording.save().unwrap();
    drop(server);

    let playing = with(CassetteMode::Replay, &path);
    let (items, error) = drain(stream(&url, &playing).await.unwrap()).await;
    assert_eq!((items, error.is_none()), (vec!["1".to_owned(), "hé".to_owned()], true));
    let (items, error) = drain(stream(&url, &playing).await.unwrap()).await;
    assert_eq!(items, ["3"]);
    assert!(matches!(original, Some(StreamError::Http(HttpError::Network { .. }))), "{original:?}");
    assert!(matches!(error, Some(StreamError::Http(HttpError::Network { .. }))), "{error:?}");
    let chunks = &document(&path)["exchanges"][0]["response"]["body"]["chunks"];
    assert_eq!(*chunks, value!(["data: 1\n\nda", "ta: hé\n\n"]));
}

#[tokio::test(start_paused = true)]
async fn recorded_failures_are_replayed_and_retried() {
    let path = file("failures");
    let exchange = |end: Value| {
        let mut exchange =
            value!({"request": {"method": "POST", "url": "https://host.invalid/v1", "body": {"json": {}}}});
        exchange.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
        exchange
    };
    let text = value!({"format": "turntree.replay", "version": 1, "exchanges": [
        exchange(value!({"failure": {"kind": "network", "message": "connection refused"}})),
        exchange(value!({"failure": {"kind": "headers_timeout", "message": ""}})),
        exchange(value!({"response": {"status": 503, "headers": {"retry-after": "20"}}})),
        exchange(value!({"response": {"status": 200, "headers": {"content-type": "application/json"},
                                      "body": {"base64": "eyJvayI6MX0="}}})),
    ]});
    std::fs::write(&path, text.to_string()).unwrap();
    let playing = with(CassetteMode::Replay, &path);
    let retries = RetryPolicy::new(ExponentialBackoff { jitter: false, ..ExponentialBackoff::default() });
    let started = tokio::time::Instant::now();

    let request = HttpRequest::post("https://host.invalid/v1", "{}").response_type(ResponseType::Json);
    let answer = using(&playing).send(request, &retries, &CancellationToken::new()).await.unwrap();

    assert_eq!(answer.body, "{\"ok\":1}");
    assert_eq!(started.elapsed().as_secs(), 1 + 2 + 20);
}

#[tokio::test]
async fn an_unmatched_request_names_the_nearest_exchange_and_the_differences() {
    let path = file("unmatched");
    let server = Server::start([json("1"), json("2")]).await;
    let recording = with(CassetteMode::Record, &path);
    let body = value!({"model": "m", "messages": [{"role": "user", "content": "Hello"}], "id": "a"});
    post(&server.url("/v1/embed"), &value!({}), &recording).await.unwrap();
    post(&server.url("/v1/chat"), &body, &recording).await.unwrap();
    recording.save().unwrap();
    let url = server.url("/v1/chat");
    drop(server);

    let playing = with(CassetteMode::Replay, &path);
    let unmatched =
        value!({"model": "m", "messages": [{"role": "user", "content": "Bye"}], "id": "b", "seed": 1});
    let error = post(&url, &unmatched, &playing).await.unwrap_err();
    let message = error.to_string();

    assert!(matches!(error, HttpError::Rejected { .. }), "{error:?}");
    for part in [
        "the nearest is exchange 1",
        r#"/messages/0/content (recorded "Hello", requested "Bye")"#,
        r#"/id (recorded "a", requested "b")"#,
        "/seed (not recorded, requested 1)",
        "unmatched.json",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let ignore = ["/id", "/seed", "/messages/*/content"].map(str::to_owned).to_vec();
    let lenient =
        Cassette::open(&path, CassetteOptions { ignore, repeat: true, ..Default::default() }).unwrap();
    for _ in 0..2 {
        assert_eq!(post(&url, &unmatched, &lenient).await.unwrap().body, "2");
    }
    post(&url, &body, &playing).await.unwrap();
    let spent = post(&url, &body, &playing).await.unwrap_err().to_string();
    assert!(spent.contains("exchange 1 matches and has been played already"), "{spent}");
    playing.rewind();
    assert_eq!(post(&url, &body, &playing).await.unwrap().body, "2");
}

#[tokio::test]
async fn parallel_requests_are_recorded_and_replayed_in_request_order() {
    let path = file("parallel");
    let slow = |text: &str, wait| [vec![Step::Wait(Duration::from_millis(wait))], json(text)].concat();
    let server = Server::start([slow("0", 60), slow("1", 30), json("2")]).await;
    let url = server.url("/v1/chat");
    let recording = with(CassetteMode::Record, &path);
    let ask = |cassette: Cassette, url: String| async move {
        let all = (0..3).map(|n| {
            let (url, cassette) = (url.clone(), cassette.clone());
            async move { post(&url, &value!({"n": n}), &cassette).await.unwrap().body }
        });
        join_all(all).await
    };

    let original = ask(recording.clone(), url.clone()).await;
    recording.save().unwrap();
    drop(server);

    let file = document(&path);
    let order: Vec<_> =
        (0..3).map(|n| file["exchanges"][n]["request"]["body"]["json"]["n"].clone()).collect();
    assert_eq!(order, [0, 1, 2]);
    for _ in 0..5 {
        assert_eq!(ask(with(CassetteMode::Replay, &path), url.clone()).await, original);
    }
}

#[tokio::test]
async fn auto_mode_sends_missing_requests_and_preserves_unknown_members() {
    let path = file("auto");
    std::fs::write(&path, r#"{"format":"turntree.replay","version":1,"exchanges":[],"note":"keep me"}"#)
        .unwrap();
    let server = Server::start([json("1"), json("2")]).await;
    let url = server.url("/v1");

    for bodies in [&[1][..], &[1, 2][..], &[2, 1][..]] {
        let cassette = with(CassetteMode::Auto, &path);
        for n in bodies {
            assert_eq!(post(&url, &value!(n), &cassette).await.unwrap().body, n.to_string());
        }
        cassette.save().unwrap();
    }

    assert_eq!(server.requests().len(), 2);
    assert_eq!(document(&path)["note"], "keep me");
    assert_eq!(document(&path)["exchanges"].as_array().unwrap().len(), 2);
}

#[test]
fn invalid_cassettes_are_refused_with_a_reason() {
    let path = file("broken");
    let open = |text: &[u8]| {
        std::fs::write(&path, text).unwrap();
        Cassette::open(&path, CassetteOptions::default()).unwrap_err().to_string()
    };
    let head =
        r#"{"format":"turntree.replay","version":1,"exchanges":[{"request":{"method":"GET","url":"u"}"#;
    let cases = [
        (b"\xff\xfe".to_vec(), "not UTF-8"),
        (head.into(), "truncated"),
        ("nonsense".into(), "not JSON"),
        ("{}".into(), "\"format\""),
        (r#"{"format":"turntree.replay","version":2,"exchanges":[]}"#.into(), "upgrade"),
        (r#"{"format":"turntree.replay","version":1}"#.into(), "exchanges"),
        (format!("{head}}}]}}").into_bytes(), "neither a response nor a failure"),
        (format!(r#"{head},"response":{{"status":20}}}}]}}"#).into_bytes(), "20 is not an HTTP status"),
        (format!(r#"{head},"response":{{"status":"x"}}}}]}}"#).into_bytes(), "exchanges[0].response.status"),
        (
            format!(r#"{head},"response":{{"status":200,"body":{{"base64":"?"}}}}}}]}}"#).into_bytes(),
            "base64",
        ),
    ];
    for (text, reason) in cases {
        let message = open(&text);
        assert!(message.contains(reason) && message.contains("broken.json"), "{reason} in {message}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Cassette::open(&path, CassetteOptions::default()), Err(CassetteError::Missing { .. })));
    let ignore =
        CassetteOptions { mode: CassetteMode::Record, ignore: vec!["a/b".to_owned()], ..Default::default() };
    assert!(matches!(Cassette::open(&path, ignore), Err(CassetteError::Pointer { .. })));
}

#[tokio::test]
async fn a_failed_write_is_an_error_and_leaves_no_temporary_files() {
    let server = Server::start([json("1")]).await;
    let folder = file("folder");
    // What an earlier run has left when it was killed.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("in_the_way.json")).unwrap();
    let recording = with(CassetteMode::Record, &folder.join("in_the_way.json"));

    let refused = post(&server.url("/"), &value!({}), &recording).await.unwrap_err();
    let error = recording.save().unwrap_err();

    assert!(refused.to_string().contains("in_the_way.json"), "{refused}");
    assert!(matches!(error, CassetteError::File { action: "write", .. }), "{error}");
    // A background write may still be running.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while std::fs::read_dir(&folder).unwrap().count() > 1 {
        assert!(tokio::time::Instant::now() < deadline, "a temporary file remains");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_stream_whose_recording_is_not_written_ends_with_the_error() {
    let folder = file("stream_folder");
    std::fs::create_dir_all(folder.join("in_the_way.json")).unwrap();
    let done = "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n";
    // The rest of the second body does not arrive while the client waits for it.
    let endless = vec![event_stream(), chunk(done), Step::AwaitHangUp];
    let server = Server::start([vec![event_stream(), chunk(done), last_chunk()], endless]).await;
    for _ in 0..2 {
        let recording = with(CassetteMode::Record, &folder.join("in_the_way.json"));

        let (items, error) = drain(stream(&server.url("/"), &recording).await.unwrap()).await;

        let message = match error {
            Some(StreamError::Http(error @ HttpError::Rejected { .. })) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(items, ["1"], "the last item is the end of the stream");
        assert!(message.contains("in_the_way.json"), "{message}");
    }
}

#[tokio::test]
async fn a_redaction_hook_replaces_text_in_requests_and_responses() {
    let path = file("hook");
    let server = Server::start([json(r#"{"name":"Ada"}"#)]).await;
    let hook = |exchange: Value| {
        let text = exchange.to_string().replace("Ada", "Name");
        serde_json::from_str(&text).map_err(HostFailure::new)
    };
    let options =
        |mode| CassetteOptions { mode, redact: Some(std::sync::Arc::new(hook)), ..Default::default() };
    let recording = Cassette::open(&path, options(CassetteMode::Record)).unwrap();

    post(&server.url("/v1"), &value!({"user": "Ada"}), &recording).await.unwrap();
    recording.save().unwrap();
    let playing = Cassette::open(&path, options(CassetteMode::Replay)).unwrap();
    let answer = post(&server.url("/v1"), &value!({"user": "Ada"}), &playing).await.unwrap();

    assert!(!std::fs::read_to_string(&path).unwrap().contains("Ada"));
    assert_eq!(answer.body, r#"{"name":"Name"}"#);
}

#[tokio::test]
async fn a_failing_redaction_hook_fails_the_request_or_the_save() {
    let server = Server::start([json("1")]).await;
    let failure = HostFailure::new(std::io::Error::other("no such name"));
    for fails_at_request in [true, false] {
        let own = failure.clone();
        let hook = move |exchange: Value| {
            if exchange.get("response").is_some() || fails_at_request {
                Err(own.clone())
            } else {
                Ok(exchange)
            }
        };
        let redact: Option<RedactionHook> = Some(std::sync::Arc::new(hook));
        let path = file("failing_hook");
        let options = CassetteOptions { mode: CassetteMode::Record, redact, ..Default::default() };
        let recording = Cassette::open(&path, options).unwrap();

        let answer = post(&server.url("/v1"), &value!({}), &recording).await;

        if fails_at_request {
            assert!(matches!(answer.unwrap_err(), HttpError::Host(own) if own == failure));
        } else {
            answer.unwrap();
            let error = recording.save().unwrap_err();
            assert_eq!(error, CassetteError::Hook { path: path.clone(), failure: failure.clone() });
        }
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn two_recorders_of_one_file_preserve_the_exchanges_of_each_other() {
    for mode in [CassetteMode::Auto, CassetteMode::Record] {
        let path = file("shared");
        let server = Server::start((0..5).map(|number| json(&number.to_string()))).await;
        let url = server.url("/v1");
        let old = with(CassetteMode::Auto, &path);
        post(&url, &value!("old"), &old).await.unwrap();
        old.save().unwrap();

        let (one, two) = (with(mode, &path), with(mode, &path));
        post(&url, &value!("a"), &one).await.unwrap();
        one.save().unwrap();
        post(&url, &value!("b"), &two).await.unwrap();
        two.save().unwrap();
        post(&url, &value!("c"), &one).await.unwrap();
        one.save().unwrap();

        let exchanges = document(&path)["exchanges"].as_array().unwrap().clone();
        let mut bodies: Vec<_> = exchanges.iter().map(|e| e["request"]["body"]["json"].clone()).collect();
        bodies.sort_by_key(Value::to_string);
        let expected =
            if mode == CassetteMode::Auto { vec!["a", "b", "c", "old"] } else { vec!["a", "b", "c"] };
        assert_eq!(bodies, expected, "{mode:?}");
        let folder = path.parent().unwrap();
        assert!(!folder.join("shared.json.lock").exists());
    }
}

#[tokio::test]
async fn concurrent_recorders_lose_no_exchange() {
    let path = file("crowd");
    let server = Server::start((0..24).map(|number| json(&number.to_string()))).await;
    let url = server.url("/v1");
    let recorders: Vec<Cassette> = (0..8).map(|_| with(CassetteMode::Auto, &path)).collect();

    join_all((0..24).map(|number| {
        let (recorder, url) = (recorders[number % 8].clone(), url.clone());
        async move { post(&url, &value!(number), &recorder).await.unwrap() }
    }))
    .await;
    tokio::task::spawn_blocking(move || {
        std::thread::scope(|scope| {
            for recorder in &recorders {
                scope.spawn(|| recorder.save().unwrap());
            }
        });
    })
    .await
    .unwrap();

    let mut indexes: Vec<_> =
        with(CassetteMode::Replay, &path).unused().into_iter().map(|unused| unused.index).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, (0..24).collect::<Vec<_>>());
}

#[tokio::test]
async fn secrets_in_binary_bodies_are_redacted_and_other_bytes_preserved() {
    let path = file("bytes");
    let body = [b"\xff\x00key=".as_slice(), KEY.as_bytes(), b"\xe9sk-proj-0123456789abcdef\xfe"].concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let server = Server::start([vec![Step::Send(head.into_bytes()), Step::Send(body.clone())]]).await;
    let recording = with(CassetteMode::Record, &path);

    let original = post(&server.url("/v1"), &value!({}), &recording).await.unwrap();
    recording.save().unwrap();

    let encoded = document(&path)["exchanges"][0]["response"]["body"]["base64"].as_str().unwrap().to_owned();
    let redacted = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).unwrap();
    assert_eq!(original.body, body);
    assert_eq!(redacted, b"\xff\x00key=REDACTED\xe9REDACTED\xfe");
}
