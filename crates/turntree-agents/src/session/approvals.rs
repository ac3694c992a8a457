//! Calls of a session's run that wait for a decision: which they are, and what was decided. UPP-1.2 §10.4.
//!
//! Decisions are taken between runs. They stand in the book, in the state of the run that is not finished, so they are
//! part of the session's JSON; [`Session::resume`] carries them out.

use std::sync::Arc;

use crate::machine::state::RunState;
use crate::session::error::SessionError;
use crate::session::session::Session;
use crate::types::Verdict;
use crate::types::approval::Undecidable;
use turntree_core::json::RawJson;
use turntree_core::message::ToolCall;

impl Session {
    /// The calls that wait for a decision, in their order, with the arguments that the tools would get.
    pub fn pending(&self) -> Vec<Arc<ToolCall>> {
        let book = self.shared.book();
        let run = book.unfinished.as_ref().and_then(|unfinished| unfinished.run.as_ref());
        run.map(RunState::pending_approvals).unwrap_or_default()
    }

    /// Decides about a pending call; where vendors give two calls of one answer the same id, about the first of them.
    /// `arguments`, a JSON object, replace those of the call. Nothing runs before [`Self::resume`].
    ///
    /// # Errors
    /// [`SessionError::UnderWay`] while a run is; [`SessionError::NotPending`] and [`SessionError::Decided`].
    pub fn decide(
        &self,
        call_id: &str,
        verdict: Verdict,
        arguments: Option<RawJson>,
    ) -> Result<(), SessionError> {
        let mut book = self.shared.book();
        if book.running.is_some() {
            return Err(SessionError::UnderWay { id: Arc::clone(self.id()) });
        }
        let run = book.unfinished.as_mut().and_then(|unfinished| unfinished.run.as_mut());
        let asked = run.as_ref().map(|run| run.pending_approvals()).unwrap_or_default();
        let decided = run.map_or(Err(Undecidable::Unknown), |run| run.decide(call_id, verdict, arguments));
        decided.map_err(|error| {
            let (call_id, session) = (call_id.to_owned(), Arc::clone(self.id()));
            match error {
                Undecidable::Unknown => SessionError::NotPending { call_id, session, pending: asked },
                Undecidable::Decided => SessionError::Decided { call_id, session },
            }
        })?;
        book.updated_at = self.shared.clock.now();
        Ok(())
    }

    /// Gives up the run that is not finished: one that failed, was cancelled, was restored, or waits for decisions. Nothing
    /// of it was in the tree. Gives whether there was one.
    ///
    /// # Errors
    /// [`SessionError::UnderWay`] while it is.
    pub fn discard(&self) -> Result<bool, SessionError> {
        let mut book = self.shared.book();
        if book.running.is_some() {
            return Err(SessionError::UnderWay { id: Arc::clone(self.id()) });
        }
        let discarded = book.unfinished.take().is_some();
        if discarded {
            book.updated_at = self.shared.clock.now();
        }
        Ok(discarded)
    }

    /// Refuses what would drop calls that somebody was asked about.
    pub(super) fn check_decisions(&self) -> Result<(), SessionError> {
        let book = self.shared.book();
        let run = book.unfinished.as_ref().and_then(|unfinished| unfinished.run.as_ref());
        let Some(run) = run else { return Ok(()) };
        let (asked, decided) = (run.pending_approvals(), run.decided_calls());
        if asked.is_empty() && decided.is_empty() {
            return Ok(());
        }
        Err(SessionError::Undecided { id: Arc::clone(self.id()), asked, decided })
    }
}
