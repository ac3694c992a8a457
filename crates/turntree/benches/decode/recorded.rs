//! Recorded bodies, from `$TURNTREE_CORPUS/provider-traffic/<vendor>.<api>/*.json`.

use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
struct Exchange {
    format: String,
    response: Response,
}

#[derive(Deserialize)]
struct Response {
    body: serde_json::Value,
}

/// The streamed bodies of one API, in the order of their file names; empty without a corpus.
pub(super) fn bodies(api: &str) -> Vec<String> {
    let Some(corpus) = std::env::var_os("TURNTREE_CORPUS") else { return Vec::new() };
    let folder = Path::new(&corpus).join("provider-traffic").join(api);
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = files.map(|file| file.path()).collect();
    paths.sort();
    let exchanges = paths.iter().filter_map(|path| std::fs::read(path).ok());
    let exchanges = exchanges.filter_map(|bytes| serde_json::from_slice::<Exchange>(&bytes).ok());
    let streamed = exchanges.filter(|exchange| exchange.format == "sse");
    streamed.filter_map(|exchange| exchange.response.body.as_str().map(str::to_owned)).collect()
}
