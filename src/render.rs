//! Renders documents for people: detects the kind of document and writes its transcript.

use crate::prelude::*;
use pyo3::exceptions::PyValueError;

use crate::error::ToException as _;
use turntree_agents::session::SessionSnapshot;
use turntree_agents::tree::ThreadTree;
use turntree_core::json::{ParseError, check_utf8};
use turntree_core::limits::Limits;
use turntree_core::render::{Transcript, visible_lines};
use turntree_thread_protocol::ThreadError;
use turntree_thread_protocol::bulk::{Settings, format};

/// Render a document as text, text with colours, or a page of HTML.
#[pyfunction]
#[pyo3(signature = (data, *, style, what, from_, name))]
pub(crate) fn _render(
    py: Python<'_>,
    data: &[u8],
    style: &str,
    what: &str,
    from_: Option<&str>,
    name: Option<&str>,
) -> PyResult<String> {
    let transcript = py.detach(|| transcript(data, from_));
    let mut transcript = transcript.map_err(|error| match error {
        Unreadable::Document(error) => error.to_exception(py),
        Unreadable::Tree(error) | Unreadable::Json(error) => error.to_exception(py),
        Unreadable::Unknown => PyValueError::new_err(format!(
            "{}: not a document that turntree shows: a thread, a history of Pydantic AI, a session or a tree",
            name.unwrap_or("the input")
        )),
    })?;
    if what == "tree" {
        if transcript.drawing.is_empty() {
            let name = name.unwrap_or("the input");
            return Err(PyValueError::new_err(format!("{name}: has no branches; \"show\" shows it")));
        }
        transcript.entries.clear();
    }
    Ok(py.detach(|| match style {
        "html" => transcript.html(),
        "terminal-html" => visible_lines(&transcript.html()).into_owned(),
        style => transcript.text(style == "ansi"),
    }))
}

enum Unreadable {
    Document(ThreadError),
    Tree(ParseError),
    Json(ParseError),
    Unknown,
}

fn transcript(data: &[u8], from: Option<&str>) -> Result<Transcript, Unreadable> {
    let sketch = format::FormatHints::of(data);
    let has = |key: &str| sketch.as_ref().is_some_and(|sketch| !sketch.list && sketch.has(key));
    let text = || check_utf8(data).map_err(Unreadable::Tree);
    if from == Some("session") || (from.is_none() && has("threadTree")) {
        let session = SessionSnapshot::from_json(text()?, &Limits::default()).map_err(Unreadable::Tree)?;
        return Ok(session.tree.transcript(&format!("Session {}", session.id)));
    }
    if from == Some("tree") || (from.is_none() && has("rootId")) {
        let tree = ThreadTree::from_json(text()?, &Limits::default()).map_err(Unreadable::Tree)?;
        return Ok(tree.transcript("Tree"));
    }
    let settings = Settings::default();
    let format = from.map_or_else(|| settings.detect(data), |name| settings.source(name));
    let format = format.and_then(|format| format.read);
    let read =
        format.ok_or_else(|| format::json_error(data).map_or(Unreadable::Unknown, Unreadable::Json))?;
    let data = data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(data);
    Ok(read(data, &settings).map_err(Unreadable::Document)?.transcript())
}
