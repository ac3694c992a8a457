//! Tool calls of a session's run that wait for approval: listing, approving, denying and discarding them.
//!
//! Calls are decided between runs. A decision is stored in the state of the unfinished run, so it is part of the session's
//! JSON; [`Session::resume`] carries it out.
//!
//! Spec: UPP-1.2 §10.4.

use std::sync::Arc;

use crate::session::error::SessionError;
use crate::session::in_doubt::{Level, run_of};
use crate::session::session::Session;
use crate::session::state::SessionState;
use crate::types::Verdict;
use crate::types::approval::Undecidable;
use turntree_core::json::RawJson;
use turntree_core::message::ToolCall;

impl Session {
    /// Returns the calls that wait for approval, with the arguments that the tools would receive: those of the session in
    /// order, then those of its sub-agents, at any depth.
    pub fn pending(&self) -> Vec<Arc<ToolCall>> {
        self.pending_calls(&self.shared.state())
    }

    fn pending_calls(&self, state: &SessionState) -> Vec<Arc<ToolCall>> {
        self.levels(state).iter().flat_map(|level| level.run.pending_approvals()).collect()
    }

    /// Approves or denies a pending call. If two calls have the same id, the first undecided one is decided. `arguments`, a JSON object, replaces the arguments of the call. Nothing runs before [`Self::resume`].
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
        let pending = self.pending_calls(&state);
        let waits = |level: &&Level<'_>| {
            level.run.pending_approvals().iter().any(|call| call.tool_call_id == call_id)
        };
        let path = self.levels(&state).iter().find(waits).map(|level| level.path.clone()).unwrap_or_default();
        let decided = run_of(&mut state, &path)
            .map_or(Err(Undecidable::Unknown), |run| run.decide(call_id, verdict, arguments));
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

    /// Returns true if decisions about calls of sub-agents have not been carried out.
    pub(super) fn has_inner_decisions(&self) -> bool {
        self.levels(&self.shared.state()).iter().skip(1).any(|level| level.run.has_decisions())
    }

    /// Rejects a new run that would drop calls which wait for approval, are in doubt, or are decided and have not run.
    pub(super) fn check_decisions(&self) -> Result<(), SessionError> {
        let state = self.shared.state();
        if state.unfinished.is_none() {
            return Ok(());
        }
        let (in_doubt, resolved) = self.open_doubts(&state);
        let levels = self.levels(&state);
        let pending: Vec<_> = levels.iter().flat_map(|level| level.run.pending_approvals()).collect();
        let mut decided: Vec<_> = levels.iter().flat_map(|level| level.run.decided_calls()).collect();
        decided.extend(resolved);
        if pending.is_empty() && decided.is_empty() && in_doubt.is_empty() {
            return Ok(());
        }
        Err(SessionError::OpenApprovals { id: Arc::clone(self.id()), pending, decided, in_doubt })
    }
}
