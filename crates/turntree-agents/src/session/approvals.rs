//! Tool calls of a session's run that wait for approval: listing, approving, denying and discarding them.
//!
//! Calls are decided between runs. A decision is stored in the state of the unfinished run, so it is part of the session's
//! JSON; [`Session::resume`] carries it out.
//!
//! Spec: UPP-1.2 §10.4.

use std::sync::Arc;

use crate::machine::state::RunState;
use crate::session::error::SessionError;
use crate::session::session::Session;
use crate::types::Verdict;
use crate::types::approval::Undecidable;
use turntree_core::json::RawJson;
use turntree_core::message::ToolCall;

impl Session {
    /// Returns the calls that wait for approval, in order, with the arguments that the tools would receive.
    pub fn pending(&self) -> Vec<Arc<ToolCall>> {
        let state = self.shared.state();
        let run = state.unfinished.as_ref().and_then(|unfinished| unfinished.run.as_ref());
        run.map(RunState::pending_approvals).unwrap_or_default()
    }

    /// Approves or denies a pending call. If two calls of one response have the same id, the first undecided one
    /// is decided. `arguments`, a JSON object, replaces the arguments of the call. Nothing runs before [`Self::resume`].
    ///
    /// # Errors
    /// [`SessionError::RunActive`], [`SessionError::NotPending`] and [`SessionError::AlreadyDecided`].
    pub fn decide(
        &self,
        call_id: &str,
        verdict: Verdict,
        arguments: Option<RawJson>,
    ) -> Result<(), SessionError> {
        let mut state = self.shared.state();
        if state.running.is_some() {
            return Err(SessionError::RunActive { id: Arc::clone(self.id()) });
        }
        let run = state.unfinished.as_mut().and_then(|unfinished| unfinished.run.as_mut());
        let pending = run.as_ref().map(|run| run.pending_approvals()).unwrap_or_default();
        let decided = run.map_or(Err(Undecidable::Unknown), |run| run.decide(call_id, verdict, arguments));
        decided.map_err(|error| {
            let (call_id, session) = (call_id.to_owned(), Arc::clone(self.id()));
            match error {
                Undecidable::Unknown => SessionError::NotPending { call_id, session, pending },
                Undecidable::Decided => SessionError::AlreadyDecided { call_id, session },
            }
        })?;
        state.updated_at = self.shared.clock.now();
        Ok(())
    }

    /// Discards the unfinished run: one that failed, was cancelled, was restored, or waits for approvals. The tree does
    /// not change. Returns true if there was such a run.
    ///
    /// # Errors
    /// [`SessionError::RunActive`].
    pub fn discard(&self) -> Result<bool, SessionError> {
        let mut state = self.shared.state();
        if state.running.is_some() {
            return Err(SessionError::RunActive { id: Arc::clone(self.id()) });
        }
        let discarded = state.unfinished.take().is_some();
        if discarded {
            state.updated_at = self.shared.clock.now();
        }
        Ok(discarded)
    }

    /// Rejects a new run that would drop calls which wait for approval, are in doubt, or are decided and have not run.
    pub(super) fn check_decisions(&self) -> Result<(), SessionError> {
        let state = self.shared.state();
        let run = state.unfinished.as_ref().and_then(|unfinished| unfinished.run.as_ref());
        let Some(run) = run else { return Ok(()) };
        let (in_doubt, resolved) = self.open_doubts(&state);
        let (pending, mut decided) = (run.pending_approvals(), run.decided_calls());
        decided.extend(resolved);
        if pending.is_empty() && decided.is_empty() && in_doubt.is_empty() {
            return Ok(());
        }
        Err(SessionError::OpenApprovals { id: Arc::clone(self.id()), pending, decided, in_doubt })
    }
}
