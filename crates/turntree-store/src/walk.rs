//! Lists all sessions of a store.

use std::collections::HashSet;

use crate::engine::{Engine, SessionInfo, SessionQuery};
use crate::error::StoreError;

/// The number of sessions of a page.
const PAGE: usize = 500;

/// How often the list is read at most. A session that changes while pages are read moves to the front, so that a later
/// page does not have it; the next pass finds it.
const MAX_PASSES: usize = 10;

/// Returns the sessions that a query selects, each once.
///
/// # Errors
/// Those of [`Engine::sessions`].
pub(crate) async fn all_sessions(
    engine: &dyn Engine,
    query: SessionQuery,
) -> Result<Vec<SessionInfo>, StoreError> {
    let (mut sessions, mut known) = (Vec::new(), HashSet::new());
    for _ in 0..MAX_PASSES {
        let before = known.len();
        let mut after = None;
        loop {
            let page = engine.sessions(SessionQuery { limit: PAGE, after, ..query.clone() }).await?;
            sessions.extend(page.sessions.into_iter().filter(|info| known.insert(info.id.clone())));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // The second pass of a store without other writers finds nothing new.
        if known.len() == before || (before == 0 && known.len() < PAGE) {
            break;
        }
    }
    Ok(sessions)
}
