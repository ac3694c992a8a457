//! Calls of tasks that wait for the decision of a person.
//!
//! A call is named by its session, task and arguments. The decision about it is stored, so that it outlives the process; it
//! is for one call, and is used up in the transaction of the action.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use turntree_store::StoreError;

use super::Inner;
use super::runner::CallContext;
use crate::definition::Workflow;
use crate::engine::{CallKind, Outcome, Reply, Step};
use crate::store::{PendingApproval, StoredSession, UsedApproval, approval_id};

/// A call of a task that may need an approval.
#[derive(Debug)]
pub(super) struct AskedCall {
    workflow: Arc<Workflow>,
    id: String,
    task: String,
    args: Map<String, Value>,
    /// The stored decision, which this call uses.
    used: Option<UsedApproval>,
}

impl AskedCall {
    /// The call of a step; `None` for tasks that need no approval.
    pub(super) fn of(workflow: &Arc<Workflow>, step: &Step, session_id: &str) -> Option<Self> {
        let Step::Call(call) = step else { return None };
        let CallKind::Task { stage, task, args } = &call.kind else { return None };
        if !workflow.stage(stage)?.task(task)?.approval {
            return None;
        }
        let (task, args) = (task.clone(), args.clone());
        let id = approval_id(session_id, &task, &args);
        Some(Self { workflow: Arc::clone(workflow), id, task, args, used: None })
    }

    /// The decision that the call has used.
    pub(super) fn into_used(self) -> Option<UsedApproval> {
        self.used
    }
}

impl Inner {
    /// Reads the decision about a call.
    pub(super) async fn load_decision(
        &self,
        asked: Option<&mut AskedCall>,
        context: &mut CallContext,
    ) -> Result<(), StoreError> {
        let Some(asked) = asked else { return Ok(()) };
        if let Some((used, decision)) = self.store.decision(&asked.id, self.now()).await? {
            asked.used = Some(used);
            context.approval = Some(decision);
        }
        Ok(())
    }

    /// Stores a call that waits for a decision, and tells the client its id.
    pub(super) async fn keep_pending(
        &self,
        asked: Option<&AskedCall>,
        outcome: &mut Outcome,
        stored: &StoredSession,
    ) -> Result<(), StoreError> {
        let (Some(asked), Reply::ApprovalRequired { request, .. }) = (asked, &mut outcome.reply) else {
            return Ok(());
        };
        *request = json!({"id": asked.id, "task": asked.task, "arguments": asked.args});
        let pending = PendingApproval {
            id: asked.id.clone(),
            task: asked.task.clone(),
            arguments: asked.args.clone(),
            expires_at: stored.expires_at,
        };
        self.store.add_pending(asked.workflow.name(), pending, self.now()).await
    }
}
