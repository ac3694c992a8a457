//! Creates sessions, executes their actions, and stores the outcomes. No HTTP.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use turntree_store::StoreError;

use super::Inner;
use super::approvals::AskedCall;
use super::calls::Finished;
use super::options::after;
use super::queue::Turn;
use super::runner::{CallContext, ProgressSender};
use crate::definition::Workflow;
use crate::engine::{Action, CallKind, Execution, Failure, Outcome, Reply, Session, SessionStatus, Step};
use crate::store::{
    ActionEntry, ChangedKey, Commit, ResponseKey, StoredResponse, StoredSession, digest_of_value,
};
use crate::wire::view::session_view;
use crate::wire::{Envelope, Profile, WireError, WireResponse};

/// What a request says beside its action.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestInfo {
    pub(super) principal: Option<String>,
    pub(super) profile: Profile,
    pub(super) idempotency_key: Option<String>,
    /// The digest of the body.
    pub(super) body_digest: String,
    pub(super) if_match: Option<String>,
}

/// The action of a request.
#[derive(Debug)]
pub(super) enum Requested {
    /// It is read from the body after the session was found.
    Body(Envelope),
    /// The path says it.
    Action(Action),
}

/// An action that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    // Other actions of the session wait as long as this exists.
    _turn: Turn,
    session_id: String,
    info: RequestInfo,
    workflow: Arc<Workflow>,
    stored: StoredSession,
    entry: ActionEntry,
    execution: Execution,
    step: Step,
}

impl Begun {
    /// True if a task must be called.
    pub(super) fn waits_for_task(&self) -> bool {
        matches!(&self.step, Step::Call(call) if matches!(call.kind, CallKind::Task { .. }))
    }
}

fn error(info: &RequestInfo, error: &WireError) -> WireResponse {
    WireResponse::of_error(info.profile, error, None)
}

impl Inner {
    pub(super) fn workflow(&self, name: &str) -> Result<&Arc<Workflow>, WireError> {
        self.by_name.get(name).ok_or_else(|| WireError::WorkflowNotFound { name: name.to_owned() })
    }

    fn store_error(&self, error: &StoreError) -> WireError {
        let correlation_id = self.ids.string();
        log::error!(target: "turntree.uaip", "{correlation_id}: {error}");
        WireError::StoreUnavailable { correlation_id }
    }

    fn internal(&self, reason: &dyn std::fmt::Display) -> WireError {
        let correlation_id = self.ids.string();
        log::error!(target: "turntree.uaip", "{correlation_id}: {reason}");
        WireError::Internal { correlation_id }
    }

    fn context(&self, session_id: &str, info: &RequestInfo, progress: ProgressSender) -> CallContext {
        CallContext {
            session_id: session_id.into(),
            principal: info.principal.as_deref().map(Arc::from),
            idempotency_key: info.idempotency_key.as_deref().map(Arc::from),
            correlation_id: self.ids.string().into(),
            approval: None,
            progress,
        }
    }

    /// The response to an earlier request with the same key.
    async fn replay(
        &self,
        key: Option<&ResponseKey>,
        info: &RequestInfo,
    ) -> Result<Option<WireResponse>, WireError> {
        let Some(key) = key else { return Ok(None) };
        let found = self.store.response(key, self.now()).await.map_err(|error| self.store_error(&error))?;
        match found {
            None => Ok(None),
            Some(response) if response.principal != info.principal => Err(WireError::SessionNotFound),
            Some(response) if response.request != info.body_digest => Err(WireError::IdempotencyKeyReused),
            Some(response) => {
                Ok(Some(WireResponse { status: response.status, body: response.body, header: None }))
            }
        }
    }

    /// Creates a session.
    pub(super) async fn initialize(&self, workflow: &Arc<Workflow>, info: &RequestInfo) -> WireResponse {
        let created = self.try_initialize(workflow, info).await;
        created.unwrap_or_else(|problem| error(info, &problem))
    }

    async fn try_initialize(
        &self,
        workflow: &Arc<Workflow>,
        info: &RequestInfo,
    ) -> Result<WireResponse, WireError> {
        let key = info.idempotency_key.as_deref();
        let key = key.map(|key| ResponseKey::of_principal(info.principal.as_deref(), key));
        if let Some(response) = self.replay(key.as_ref(), info).await? {
            return Ok(response);
        }
        let session_id = self.ids.string();
        let context = self.context(&session_id, info, ProgressSender::default());
        let empty = Session::new(workflow);
        let (execution, step) = Execution::initialize(workflow, self.options.limits);
        let finished = self.run(workflow, execution, step, &context).await;
        let outcome = finished.map_err(|error| self.internal(&error))?.outcome;
        if let Reply::Failed(failure) = &outcome.reply {
            return Err(initialize_error(failure, &context.correlation_id));
        }
        let response = WireResponse::initialized(workflow, &session_id);
        let now = self.now();
        let session = StoredSession {
            principal: info.principal.clone(),
            created_at: now,
            updated_at: now,
            expires_at: self.options.expiry(now, now),
            record_version: 0,
            session: outcome.session,
        };
        let entry = ActionEntry {
            principal: info.principal.clone(),
            changes: ChangedKey::between(&empty, &session.session),
            ..ActionEntry::new(now, "initialize", &session.session.stage)
        };
        let stored = key.clone().map(|key| (key, self.stored_response(info, &response)));
        let commit = Commit { session_id, session, entry, response: stored, approval: None };
        if self.store.commit(commit, now).await.map_err(|error| self.store_error(&error))? {
            return Ok(response);
        }
        // Another request with the same key was faster.
        self.replay(key.as_ref(), info).await?.ok_or(WireError::ChangedElsewhere)
    }

    fn stored_response(&self, info: &RequestInfo, response: &WireResponse) -> StoredResponse {
        StoredResponse {
            request: info.body_digest.clone(),
            principal: info.principal.clone(),
            status: response.status,
            body: response.body.clone(),
            expires_at: after(self.now(), self.options.idempotency_ttl),
        }
    }

    /// Reads a session of a principal that is not over.
    async fn find(&self, session_id: &str, info: &RequestInfo) -> Result<StoredSession, WireError> {
        let found = self.store.session(session_id, self.now()).await;
        let found = found.map_err(|error| self.store_error(&error))?;
        let is_visible = |stored: &StoredSession| {
            stored.principal == info.principal && stored.session.status != SessionStatus::Terminated
        };
        found.filter(is_visible).ok_or(WireError::SessionNotFound)
    }

    /// Begins an action: everything that is checked before a function of the application is called.
    ///
    /// # Errors
    /// The response, if there is nothing to run.
    pub(super) async fn begin(
        &self,
        session_id: String,
        requested: Requested,
        info: RequestInfo,
    ) -> Result<Begun, WireResponse> {
        let Some(turn) = self.queues.enter(&session_id).await else {
            return Err(error(&info, &WireError::QueueFull { limit: self.queues.depth() }));
        };
        let key = info.idempotency_key.as_deref().map(|key| ResponseKey::of_session(&session_id, key));
        match self.replay(key.as_ref(), &info).await {
            Ok(None) => {}
            Ok(Some(response)) => return Err(response),
            Err(problem) => return Err(error(&info, &problem)),
        }
        let stored = self.find(&session_id, &info).await.map_err(|problem| error(&info, &problem))?;
        let workflow = self.workflow(&stored.session.workflow);
        let workflow = Arc::clone(workflow.map_err(|_| error(&info, &WireError::SessionNotFound))?);
        let action = self.action_of(requested, &workflow, &stored.session, &info)?;
        check_version(&info, &stored.session).map_err(|problem| {
            WireResponse::of_error(info.profile, &problem, Some((&workflow, &stored.session)))
        })?;
        let entry = entry_of(&action, &stored, &info);
        let begun = Execution::begin(&workflow, stored.session.clone(), action, self.options.limits);
        let (execution, step) = begun.map_err(|reason| error(&info, &self.internal(&reason)))?;
        Ok(Begun { _turn: turn, session_id, info, workflow, stored, entry, execution, step })
    }

    /// Reads the action. In the reference profile an action of the wrong shape is answered with status 200.
    fn action_of(
        &self,
        requested: Requested,
        workflow: &Workflow,
        session: &Session,
        info: &RequestInfo,
    ) -> Result<Action, WireResponse> {
        let envelope = match requested {
            Requested::Action(action) => return Ok(action),
            Requested::Body(envelope) => envelope,
        };
        let only = self.only().map(|workflow| workflow.name());
        if envelope.workflow_name(only) != Ok(workflow.name()) {
            return Err(error(info, &WireError::SessionNotFound));
        }
        envelope.action().map_err(|problem| {
            if info.profile == Profile::Reference && !problem.is_envelope() {
                return WireResponse::of_malformed_action(&problem, workflow, session);
            }
            WireResponse::of_error(info.profile, &problem, Some((workflow, session)))
        })
    }

    /// Performs the calls of an action, and stores what it has changed.
    pub(super) async fn finish(&self, begun: Begun, progress: ProgressSender) -> WireResponse {
        let Begun { _turn, session_id, info, workflow, stored, mut entry, execution, step } = begun;
        let mut context = self.context(&session_id, &info, progress);
        let mut asked = AskedCall::of(&workflow, &step, &session_id);
        if let Err(reason) = self.load_decision(asked.as_mut(), &mut context).await {
            return error(&info, &self.store_error(&reason));
        }
        let mut finished = match self.run(&workflow, execution, step, &context).await {
            Ok(finished) => finished,
            Err(reason) => return error(&info, &self.internal(&reason)),
        };
        if let Err(reason) = self.keep_pending(asked.as_ref(), &mut finished.outcome, &stored).await {
            return error(&info, &self.store_error(&reason));
        }
        let response = WireResponse::of_outcome(info.profile, &workflow, &session_id, &finished.outcome)
            .with_correlation_id(&finished.outcome, &context.correlation_id);
        let Finished { outcome, has_called } = finished;
        let has_failed = has_called && matches!(outcome.reply, Reply::Failed(_));
        if !outcome.is_changed && !has_failed {
            return response;
        }
        let now = self.now();
        entry.at = now;
        entry.outcome = outcome_name(&outcome).to_owned();
        entry.state_version = outcome.session.version;
        entry.changes = ChangedKey::between(&stored.session, &outcome.session);
        // A request that was too slow may be sent again: nothing of it was stored.
        let is_final = !matches!(outcome.reply, Reply::Failed(Failure::Timeout { .. }));
        let key = info.idempotency_key.as_deref().filter(|_| is_final);
        let key = key.map(|key| ResponseKey::of_session(&session_id, key));
        let session = StoredSession {
            session: outcome.session,
            updated_at: now,
            expires_at: self.options.expiry(stored.created_at, now),
            ..stored
        };
        let response_of_key = key.clone().map(|key| (key, self.stored_response(&info, &response)));
        let approval = asked.and_then(AskedCall::into_used);
        let commit = Commit { session_id, session, entry, response: response_of_key, approval };
        match self.store.commit(commit, now).await {
            Ok(true) => response,
            Err(reason) => error(&info, &self.store_error(&reason)),
            Ok(false) => match self.replay(key.as_ref(), &info).await {
                Ok(Some(response)) => response,
                Ok(None) => error(&info, &WireError::ChangedElsewhere),
                Err(problem) => error(&info, &problem),
            },
        }
    }

    /// The body of `GET /sessions/{id}`.
    pub(super) async fn view(&self, session_id: &str, info: &RequestInfo) -> Result<WireResponse, WireError> {
        let stored = self.find(session_id, info).await?;
        let workflow = self.workflow(&stored.session.workflow).map_err(|_| WireError::SessionNotFound)?;
        let mut view: Map<String, Value> = session_view(workflow, session_id, &stored.session);
        for (name, time) in [
            ("created_at", stored.created_at),
            ("updated_at", stored.updated_at),
            ("expires_at", stored.expires_at),
        ] {
            view.insert(name.to_owned(), json!(time));
        }
        Ok(WireResponse::ok(Value::Object(view)))
    }
}

fn check_version(info: &RequestInfo, session: &Session) -> Result<(), WireError> {
    match &info.if_match {
        Some(expected) if *expected != session.version.to_string() => {
            Err(WireError::VersionConflict { expected: expected.clone(), found: session.version })
        }
        _ => Ok(()),
    }
}

fn initialize_error(failure: &Failure, correlation_id: &str) -> WireError {
    let (message, correlation_id) = match failure {
        Failure::Timeout { limit } => return WireError::TaskTimeout { limit: *limit },
        Failure::Message(message) => (message.chars().take(1_000).collect(), None),
        Failure::Internal { correlation_id } => {
            (internal_message(correlation_id), Some(correlation_id.clone()))
        }
        Failure::InvalidResult { .. } | Failure::InvalidState { .. } => {
            (internal_message(correlation_id), Some(correlation_id.to_owned()))
        }
    };
    WireError::InitializeFailed { message, correlation_id }
}

fn internal_message(correlation_id: &str) -> String {
    format!("the application has failed (correlation id {correlation_id})")
}

/// The entry of the log, as far as it is known before the action runs.
fn entry_of(action: &Action, stored: &StoredSession, info: &RequestInfo) -> ActionEntry {
    let (target, args) = match action {
        Action::MethodCall { task, args } => {
            (Some(task.clone()), Some(digest_of_value(&Value::Object(args.clone()))))
        }
        Action::StageTransition { stage } => (Some(stage.clone()), None),
        Action::StateInput { .. } | Action::Handshake | Action::TerminateSession { .. } => (None, None),
    };
    ActionEntry {
        principal: info.principal.clone(),
        target,
        args,
        ..ActionEntry::new(stored.updated_at, action.name(), &stored.session.stage)
    }
}

const fn outcome_name(outcome: &Outcome) -> &'static str {
    match &outcome.reply {
        Reply::Terminated => "terminated",
        Reply::Failed(Failure::Timeout { .. }) => "timeout",
        Reply::Failed(_) => "task_error",
        Reply::Refused(_) => "refused",
        Reply::ApprovalRequired { .. } => "approval_required",
        Reply::Initialized
        | Reply::TaskDone { .. }
        | Reply::Moved { .. }
        | Reply::Updated { .. }
        | Reply::Handshake => "ok",
    }
}
