//! Sessions and trees as sources of conversions: the history of their current node becomes a thread.

use turntree_agents::session::SessionSnapshot;
use turntree_agents::tree::ThreadTree;
use turntree_core::json::check_utf8;
use turntree_thread_protocol::bulk::{Format, Settings};
use turntree_thread_protocol::convert::pydantic_ai::ProfileKind;
use turntree_thread_protocol::convert::upp::{UppOptions, assistant, from_upp};
use turntree_thread_protocol::{Thread, ThreadError};

/// The formats of turntree itself. They are only read.
pub(super) static SOURCES: &[Format] = &[
    Format {
        name: "session",
        read: Some(read_session),
        write: None,
        write_whole: None,
        looks_like: |hints| !hints.list && hints.has("threadTree"),
    },
    Format {
        name: "tree",
        read: Some(read_tree),
        write: None,
        write_whole: None,
        looks_like: |hints| !hints.list && hints.has("rootId") && hints.has("nodes"),
    },
];

fn read_session(document: &[u8], settings: &Settings) -> Result<Thread, ThreadError> {
    let session = SessionSnapshot::from_json(check_utf8(document)?, settings.limits())?;
    Ok(current_branch(&session.tree, session.id.to_string(), settings))
}

fn read_tree(document: &[u8], settings: &Settings) -> Result<Thread, ThreadError> {
    let tree = ThreadTree::from_json(check_utf8(document)?, settings.limits())?;
    let id = tree.current().id.to_string();
    Ok(current_branch(&tree, id, settings))
}

fn current_branch(tree: &ThreadTree, thread_id: String, settings: &Settings) -> Thread {
    let full = settings.import.profile == ProfileKind::Full;
    from_upp(tree.history().iter(), &UppOptions { agent: assistant(), thread_id, title: None, full })
}
