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
use crate::types::approval::{GuardedCall, PendingCall};
use turntree_core::json::RawJson;
use turntree_core::message::ToolCall;
use uuid::Uuid;

/// A call that waits for approval, or whose decision has not been carried out, and the path of its run.
type Guarded = (Arc<[Box<str>]>, GuardedCall);

/// The calls with this id.
fn with_id<'a>(guarded: &'a [Guarded], id: &str) -> impl Iterator<Item = &'a Guarded> {
    guarded.iter().filter(move |(_, call)| call.call.tool_call_id == id)
}

impl Session {
    /// Returns the calls that wait for approval, with the arguments that the tools would receive: those of the session in
    /// order, then those of its sub-agents, at any depth.
    pub fn pending(&self) -> Vec<Arc<ToolCall>> {
        self.pending_calls(&self.shared.state())
    }

    fn pending_calls(&self, state: &SessionState) -> Vec<Arc<ToolCall>> {
        self.levels(state).iter().flat_map(|level| level.run.pending_approvals()).collect()
    }

    /// Returns the calls of [`Self::pending`], each with what tells it apart from the others.
    pub fn pending_by_key(&self) -> Vec<PendingCall> {
        let state = self.shared.state();
        let guarded = self.guarded_calls(&state);
        let outermost = state.unfinished.as_ref().and_then(|unfinished| unfinished.run.as_ref());
        let describe = |(path, call): &Guarded| {
            let id = &*call.call.tool_call_id;
            let shares_id = with_id(&guarded, id).nth(1).is_some();
            // Readers of the stream know the calls of the outermost agent by their ids.
            let is_taken = if path.is_empty() {
                with_id(&guarded, id).filter(|(path, _)| path.is_empty()).nth(1).is_some()
            } else {
                shares_id || outermost.is_some_and(|run| run.has_made_call(id))
            };
            let shown_id = if is_taken { call.key.to_string() } else { id.to_owned() };
            PendingCall { key: call.key, call: Arc::clone(&call.call), shares_id, shown_id }
        };
        guarded.iter().filter(|(_, call)| !call.is_decided).map(describe).collect()
    }

    /// Approves or denies the pending call with this [`PendingCall::shown_id`]. Otherwise as [`Self::decide`].
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn decide_shown(&self, shown_id: &str, verdict: Verdict) -> Result<(), SessionError> {
        let shown = self.pending_by_key().into_iter().find(|pending| pending.shown_id == shown_id);
        let id = shown.map_or_else(|| shown_id.to_owned(), |pending| pending.key.to_string());
        self.decide(&id, verdict, None)
    }

    /// Returns the calls that wait for approval, or whose decision has not been carried out, with the path of their run.
    fn guarded_calls(&self, state: &SessionState) -> Vec<Guarded> {
        let of_level = |level: Level<'_>| {
            let path = Arc::<[_]>::from(level.path);
            level.run.guarded_calls().into_iter().map(move |call| (Arc::clone(&path), call))
        };
        self.levels(state).into_iter().flat_map(of_level).collect()
    }

    /// Approves or denies the pending call with this id, or with this key of [`Self::pending_by_key`]. `arguments`, a JSON
    /// object, replaces the arguments of the call. Nothing runs before [`Self::resume`].
    ///
    /// # Errors
    /// [`SessionError::RunActive`], [`SessionError::NotPending`], [`SessionError::AlreadyDecided`], and
    /// [`SessionError::SameIds`] if several calls have the id.
    pub fn decide(
        &self,
        call_id: &str,
        verdict: Verdict,
        arguments: Option<RawJson>,
    ) -> Result<(), SessionError> {
        let key = Uuid::try_parse(call_id).ok();
        let has_key = |(_, call): &Guarded| Some(call.key) == key;
        self.decide_found(call_id, verdict, arguments, |guarded| guarded.iter().position(has_key))
    }

    /// Approves or denies a call of [`Self::pending`], also if another one has the same id. A call that is none of them,
    /// because its arguments are others, counts as its id. Otherwise as [`Self::decide`].
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn decide_call(
        &self,
        call: &Arc<ToolCall>,
        verdict: Verdict,
        arguments: Option<RawJson>,
    ) -> Result<(), SessionError> {
        self.decide_found(&call.tool_call_id, verdict, arguments, |guarded| {
            let is_same = |(_, guarded): &Guarded| Arc::ptr_eq(&guarded.call, call);
            let is_open = |(_, guarded): &Guarded| !guarded.is_decided;
            let is_equal = |(_, guarded): &Guarded| guarded.call == *call;
            let find = |found: &dyn Fn(&Guarded) -> bool| guarded.iter().position(found);
            find(&|guarded| is_open(guarded) && is_same(guarded))
                .or_else(|| find(&|guarded| is_open(guarded) && is_equal(guarded)))
                .or_else(|| find(&is_same))
        })
    }

    /// Decides the call that `find` finds, otherwise the one with this id.
    fn decide_found(
        &self,
        call_id: &str,
        verdict: Verdict,
        arguments: Option<RawJson>,
        find: impl FnOnce(&[Guarded]) -> Option<usize>,
    ) -> Result<(), SessionError> {
        let mut state = self.shared.state();
        if state.running.is_some() {
            return Err(SessionError::RunActive { id: Arc::clone(self.id()) });
        }
        let guarded = self.guarded_calls(&state);
        let found = match find(&guarded) {
            Some(index) => guarded.get(index),
            None => self.only_with_id(&state, &guarded, call_id)?,
        };
        let Some((path, call)) = found.filter(|(_, call)| !call.is_decided) else {
            let session = Arc::clone(self.id());
            return Err(SessionError::AlreadyDecided { call_id: call_id.to_owned(), session });
        };
        if let Some(run) = run_of(&mut state, path) {
            run.decide(call.key, verdict, arguments);
        }
        state.updated_at = self.shared.clock.now();
        Ok(())
    }

    /// Returns the only call with this id; `None` if it has run, or all calls with the id are decided.
    fn only_with_id<'a>(
        &self,
        state: &SessionState,
        guarded: &'a [Guarded],
        call_id: &str,
    ) -> Result<Option<&'a Guarded>, SessionError> {
        let calls: Vec<_> = with_id(guarded, call_id).collect();
        if let [only] = calls.as_slice() {
            return Ok(Some(only));
        }
        let pending = calls.iter().filter(|(_, call)| !call.is_decided);
        let pending: Vec<_> = pending.map(|(_, call)| Arc::clone(&call.call)).collect();
        if !pending.is_empty() {
            let (call_id, session) = (call_id.to_owned(), Arc::clone(self.id()));
            return Err(SessionError::SameIds { call_id, session, pending });
        }
        // A call that has run is decided, too.
        if !calls.is_empty() || self.levels(state).iter().any(|level| level.run.has_call(call_id)) {
            return Ok(None);
        }
        let (call_id, session) = (call_id.to_owned(), Arc::clone(self.id()));
        Err(SessionError::NotPending { call_id, session, pending: self.pending_calls(state) })
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
