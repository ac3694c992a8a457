//! One prompt: runs of the agent until the turn ends, with questions for permission between them.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use turntree_agents::Session;
use turntree_agents::types::Verdict;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::Message;

use super::connection::{OpenSession, Shared};
use super::content;
use super::json_rpc::RpcError;
use super::outbox::lock;
use super::updates::Updates;
use crate::agent::{AgentRun, ConversationError, RunInput, RunOptions, RunRequest, pending_approvals};
use crate::session::AgentOutput;
use crate::types::{ErrorCode, ErrorDetails, ToolCall};
use crate::wires::openai::payment;

/// The beginnings of the errors of runs that have called tools too often, as UPP-1.2 §10.3 defines it, or handoffs.
const TOO_MANY_ROUNDS: [&str; 2] =
    ["Tool execution exceeded maximum iterations", "Handoffs exceeded their maximum"];

/// A prompt that runs.
#[derive(Debug)]
pub(super) struct Prompt {
    shared: Arc<Shared>,
    session: Arc<OpenSession>,
    cancellation: CancellationToken,
    updates: Updates,
}

/// How a run ended.
enum Ended {
    Done,
    Cancelled,
    Failed(Box<ErrorDetails>),
}

/// What the user has decided on a call.
enum Decision {
    Made(Verdict),
    Cancelled,
}

impl Prompt {
    pub(super) fn new(
        shared: Arc<Shared>,
        session: Arc<OpenSession>,
        cancellation: CancellationToken,
    ) -> Self {
        let updates = Updates::new(shared.agent.agent());
        Self { shared, session, cancellation, updates }
    }

    /// Runs until the turn ends.
    ///
    /// # Errors
    /// The agent or the store failed.
    pub(super) async fn run(mut self, message: Message) -> Result<Value, RpcError> {
        let (site, agent) = (Arc::clone(&self.shared.site), Arc::clone(&self.shared.agent));
        let title = content::title(&message);
        let now = site.clock.now();
        let listed = self.shared.index.change(&self.session.id, now, |record| {
            record.updated_at = now;
            record.title = record.title.take().or_else(|| title.clone());
        });
        // The list is not needed to answer; a failure is logged.
        let _ = listed.await;
        let principal = self.shared.principal.as_ref();
        // The protocol has no payments: a client cannot pay.
        let paid = payment::check(&site, &agent, principal, &site.ids.string(), None).await;
        if let Err(error) = paid {
            return self.failed(ErrorDetails::new(ErrorCode::PaymentRequired, error.to_string()));
        }
        let session = site.conversations.open(agent.agent(), principal, &self.session.id).await;
        let session = session.map_err(|error| failed(&error))?;
        // A new prompt replaces a run that has failed, or whose calls were never decided: none of them is executed.
        session.discard().map_err(|error| failed(&error.into()))?;
        let input = site.conversations.append(&session, vec![message], false);
        let input = input.map_err(|error| failed(&error))?;
        let mut input = RunInput::Session { session: session.clone(), input };
        loop {
            let request = RunRequest { agent: Arc::clone(&agent), input, options: self.options() };
            let error = match self.follow(AgentRun::start(request)).await {
                _ if self.cancellation.is_cancelled() => return Ok(self.stopped("cancelled")),
                Ended::Done => return Ok(self.stopped("end_turn")),
                Ended::Cancelled => return Ok(self.stopped("cancelled")),
                Ended::Failed(error) => error,
            };
            let calls = pending_approvals(&error);
            if calls.is_empty() {
                return self.failed(*error);
            }
            if !self.decide(&session, &calls).await? {
                self.abandon(session).await;
                return Ok(self.stopped("cancelled"));
            }
            input = RunInput::Resume { session: session.clone() };
        }
    }

    fn options(&self) -> RunOptions {
        let mut metadata = RawObject::new();
        let about = json!({ "sessionId": &*self.session.id, "cwd": self.session.cwd });
        if let Ok(about) = RawJson::from_value(&about) {
            metadata.insert("acp", about);
        }
        let principal = self.shared.principal.clone();
        RunOptions { metadata: Arc::new(metadata), principal, ..RunOptions::default() }
    }

    /// Sends the output of a run until it has ended, with its tools and its cleanup.
    async fn follow(&mut self, mut run: AgentRun) -> Ended {
        let control = run.control().clone();
        let mut is_cancelled = false;
        let mut ended = Ended::Cancelled;
        loop {
            let output = if is_cancelled {
                run.next().await
            } else {
                match select(pin!(run.next()), pin!(self.cancellation.cancelled())).await {
                    Either::Left((output, _)) => output,
                    Either::Right(_) => {
                        is_cancelled = true;
                        control.cancel();
                        continue;
                    }
                }
            };
            match output {
                // The run has saved the session.
                None => return ended,
                Some(AgentOutput::Done) => ended = Ended::Done,
                Some(AgentOutput::Failed(error)) => ended = Ended::Failed(error),
                Some(_) if is_cancelled => {}
                Some(output) => {
                    for update in self.updates.push(output) {
                        self.shared.update(&self.session.id, &update).await;
                    }
                }
            }
        }
    }

    /// Asks the user about calls. Returns false if the prompt was cancelled.
    async fn decide(&mut self, session: &Session, calls: &[ToolCall]) -> Result<bool, RpcError> {
        for call in calls {
            let cancelled = self.cancellation.clone();
            let decision = {
                let asked = pin!(self.ask(call));
                match select(asked, pin!(cancelled.cancelled())).await {
                    Either::Left((decision, _)) => decision,
                    Either::Right(_) => Decision::Cancelled,
                }
            };
            let Decision::Made(verdict) = decision else { return Ok(false) };
            session.decide_shown(&call.id, verdict).map_err(|error| failed(&error.into()))?;
        }
        Ok(true)
    }

    /// Asks the user about a call, unless the user has decided on the tool for the whole session.
    async fn ask(&mut self, call: &ToolCall) -> Decision {
        let known = lock(&self.session.permissions).get(&call.name).copied();
        if let Some(is_allowed) = known {
            return Decision::Made(verdict(is_allowed));
        }
        let (before, tool_call) = self.updates.asked(call);
        for update in before {
            self.shared.update(&self.session.id, &update).await;
        }
        let params = json!({
            "sessionId": &*self.session.id,
            "toolCall": tool_call,
            "options": [
                { "optionId": "allow_once", "name": "Allow", "kind": "allow_once" },
                { "optionId": "allow_always", "name": format!("Always allow {}", call.name), "kind": "allow_always" },
                { "optionId": "reject_once", "name": "Reject", "kind": "reject_once" },
                { "optionId": "reject_always", "name": format!("Always reject {}", call.name), "kind": "reject_always" },
            ],
        });
        let answer = self.shared.ask(&self.session.id, "session/request_permission", &params).await;
        let outcome = match &answer {
            // The client has gone.
            None => return Decision::Cancelled,
            Some(Err(error)) => {
                let reason = format!("the client could not ask for permission: {}", error.message);
                return Decision::Made(Verdict::Denied { reason: Some(reason) });
            }
            Some(Ok(answer)) => answer.get("outcome").unwrap_or(&Value::Null),
        };
        if outcome.get("outcome").and_then(Value::as_str) == Some("cancelled") {
            return Decision::Cancelled;
        }
        let (is_allowed, is_lasting) = match outcome.get("optionId").and_then(Value::as_str) {
            Some("allow_once") => (true, false),
            Some("allow_always") => (true, true),
            Some("reject_always") => (false, true),
            Some("reject_once") => (false, false),
            _ => {
                let reason = Some("the client answered with an unknown option".to_owned());
                return Decision::Made(Verdict::Denied { reason });
            }
        };
        if is_lasting {
            lock(&self.session.permissions).insert(call.name.clone(), is_allowed);
        }
        Decision::Made(verdict(is_allowed))
    }

    /// Ends a run whose calls the user did not decide. Denying and aborting it keeps the prompt in the conversation; a
    /// session without its calls would not know what the user has asked.
    async fn abandon(&self, session: Session) {
        for call in session.pending() {
            let reason = Some("the user has cancelled the prompt".to_owned());
            // A call that is decided by now needs nothing.
            let _ = session.decide_call(&call, Verdict::Denied { reason }, None);
        }
        let input = RunInput::Resume { session };
        let agent = Arc::clone(&self.shared.agent);
        let mut run = AgentRun::start(RunRequest { agent, input, options: self.options() });
        run.control().cancel();
        while run.next().await.is_some() {}
    }

    fn stopped(&self, reason: &str) -> Value {
        json!({ "stopReason": reason, "usage": self.updates.usage() })
    }

    /// Errors that the protocol has as reasons to stop; the others are errors of the request.
    fn failed(&self, error: ErrorDetails) -> Result<Value, RpcError> {
        let details = error.details.as_ref().and_then(RawObject::from_raw).unwrap_or_default();
        let code = details.get("code").and_then(RawJson::as_string).unwrap_or_default();
        match code.as_str() {
            "CONTENT_FILTERED" => return Ok(self.stopped("refusal")),
            "CONTEXT_LENGTH_EXCEEDED" => return Ok(self.stopped("max_tokens")),
            _ if TOO_MANY_ROUNDS.iter().any(|text| error.message.starts_with(text)) => {
                return Ok(self.stopped("max_turn_requests"));
            }
            _ => {}
        }
        let data = Some(json!({ "code": error.code.as_str(), "modelError": code }));
        Err(RpcError { data, ..RpcError::internal(error.message) })
    }
}

const fn verdict(is_allowed: bool) -> Verdict {
    if is_allowed { Verdict::Approved } else { Verdict::Denied { reason: None } }
}

/// The conversation cannot be used.
fn failed(error: &ConversationError) -> RpcError {
    log::error!("ACP: a prompt failed: {error}");
    match error {
        ConversationError::Store(_) => {
            RpcError::internal("the store of conversations failed; try again later")
        }
        error => RpcError::internal(error.to_string()),
    }
}
