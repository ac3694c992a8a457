//! A session as a task: its state machine, the agent's run, the payment gate and the time limits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use turntree_core::{json, runtime};

use super::limits::UampLimits;
use super::runs::RunPlace;
use super::table::{Command, SessionHandle, SessionTable};
use crate::agent::AgentRun;
use crate::event::ServerEvent;
use crate::payments::PaymentRequest;
use crate::session::{AgentOutput, Effect, PaymentOutcome, SessionCore, WaitsFor};
use crate::types::{ErrorCode, ErrorDetails, Payment};

/// Text that is joined to one delta for a client that reads slowly.
const MAX_JOINED: usize = 64 << 10;

/// A time limit: what the session waits for, or a client that is not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Detached,
    Waiting(WaitsFor),
}

/// What happens next.
enum Wake {
    Command(Option<Command>),
    Started(Result<AgentRun, ErrorDetails>),
    Output(Option<AgentOutput>),
    Payment(PaymentOutcome),
    ClientChanged,
    Limit(Limit),
}

/// What the session does for its active response.
#[derive(Default)]
enum Work {
    #[default]
    Nothing,
    Payment(BoxFuture<'static, PaymentOutcome>),
    Starting(BoxFuture<'static, Result<AgentRun, ErrorDetails>>),
    Running(AgentRun),
}

/// A session that runs.
pub(super) struct HostedSession {
    core: SessionCore,
    handle: Arc<SessionHandle>,
    table: Arc<SessionTable>,
    place: RunPlace,
    limits: UampLimits,
    /// The response that the work belongs to.
    response: String,
    work: Work,
    /// The run before, which may still save.
    previous: Option<AgentRun>,
    timer: Option<(Limit, BoxFuture<'static, ()>)>,
    /// True if the agent waits for results of all its calls.
    awaits_client: bool,
    ends_when_idle: bool,
}

impl HostedSession {
    /// A session with the effects of its creation.
    pub(super) fn new(
        core: SessionCore,
        opening: Vec<Effect>,
        handle: Arc<SessionHandle>,
        table: Arc<SessionTable>,
        place: RunPlace,
        limits: UampLimits,
    ) -> Self {
        let mut session = Self {
            core,
            handle,
            table,
            place,
            limits,
            response: String::new(),
            work: Work::Nothing,
            previous: None,
            timer: None,
            awaits_client: false,
            ends_when_idle: false,
        };
        session.apply(opening);
        session
    }

    /// Runs until the session ends.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let log = Arc::clone(&self.handle.log);
        while !self.core.is_closed() {
            if self.ends_when_idle {
                if self.core.is_idle() {
                    break;
                }
                log.set_stopped(self.stopped());
            }
            self.arm();
            let mut changed = std::pin::pin!(log.changed());
            let wake =
                std::future::poll_fn(|context| self.poll(&mut commands, changed.as_mut(), context)).await;
            if matches!(wake, Wake::Command(None)) {
                break;
            }
            self.on(wake);
        }
        self.table.remove(&self.handle);
        log.close();
    }

    fn poll(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
        changed: Pin<&mut impl Future<Output = ()>>,
        context: &mut Context<'_>,
    ) -> Poll<Wake> {
        if let Poll::Ready(command) = commands.poll_recv(context) {
            return Poll::Ready(Wake::Command(command));
        }
        let is_full = self.handle.log.is_full();
        match &mut self.work {
            Work::Nothing => {}
            Work::Payment(payment) => {
                if let Poll::Ready(outcome) = payment.as_mut().poll(context) {
                    return Poll::Ready(Wake::Payment(outcome));
                }
            }
            Work::Starting(start) => {
                if let Poll::Ready(run) = start.as_mut().poll(context) {
                    return Poll::Ready(Wake::Started(run));
                }
            }
            // The agent waits for a client that reads slowly.
            Work::Running(_) if is_full => {}
            Work::Running(run) => {
                if let Poll::Ready(output) = run.poll_next_unpin(context) {
                    return Poll::Ready(Wake::Output(output));
                }
            }
        }
        if changed.poll(context).is_ready() {
            return Poll::Ready(Wake::ClientChanged);
        }
        let Some((limit, timer)) = &mut self.timer else { return Poll::Pending };
        timer.as_mut().poll(context).map(|()| Wake::Limit(*limit))
    }

    /// Sets the time limit of what the session waits for, if that has changed.
    fn arm(&mut self) {
        let limit = if self.handle.log.is_attached() || self.ends_when_idle && !self.is_stopped() {
            match self.core.waits_for() {
                WaitsFor::Agent => None,
                waits_for => Some(Limit::Waiting(waits_for)),
            }
        } else {
            Some(Limit::Detached)
        };
        if self.timer.as_ref().map(|(limit, _)| *limit) == limit {
            return;
        }
        self.timer = limit.map(|limit| {
            let timer: BoxFuture<'static, ()> = Box::pin(runtime::sleep(self.duration(limit)));
            (limit, timer)
        });
    }

    fn duration(&self, limit: Limit) -> Duration {
        match limit {
            Limit::Waiting(WaitsFor::ToolResults) => self.limits.tool,
            Limit::Waiting(WaitsFor::Payment) => self.limits.payment,
            Limit::Waiting(WaitsFor::Client | WaitsFor::Agent) => self.limits.idle,
            Limit::Detached => self.place.site.options.resume_window,
        }
    }

    /// What a request that is answered at once cannot go on without.
    fn stopped(&self) -> Option<WaitsFor> {
        match self.core.waits_for() {
            WaitsFor::ToolResults if self.awaits_client => Some(WaitsFor::ToolResults),
            WaitsFor::Payment => Some(WaitsFor::Payment),
            _ => None,
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped().is_some()
    }

    fn on(&mut self, wake: Wake) {
        let effects = match wake {
            Wake::Command(None) | Wake::ClientChanged => Vec::new(),
            Wake::Command(Some(command)) => self.on_command(command),
            Wake::Payment(outcome) => {
                self.work = Work::Nothing;
                self.core.on_payment(&self.response, outcome)
            }
            Wake::Started(Ok(run)) => {
                self.work = Work::Running(run);
                Vec::new()
            }
            Wake::Started(Err(error)) => {
                self.work = Work::Nothing;
                self.core.on_output(&self.response, AgentOutput::Failed(Box::new(error)))
            }
            Wake::Output(Some(output)) => return self.on_output(output),
            Wake::Output(None) => {
                self.work = Work::Nothing;
                // After an end this has no effect.
                let error = ErrorDetails::new(ErrorCode::InternalError, "the agent ended without an answer");
                self.core.on_output(&self.response, AgentOutput::Failed(Box::new(error)))
            }
            Wake::Limit(Limit::Detached) => self.core.end(Some("timeout")),
            Wake::Limit(Limit::Waiting(waits_for)) => {
                self.timer = None;
                self.core.on_timeout(waits_for)
            }
        };
        self.apply(effects);
    }

    fn on_command(&mut self, command: Command) -> Vec<Effect> {
        // Every sign of life of the client starts the time limit anew.
        self.timer = None;
        match command {
            Command::Event(event) => self.core.on(event),
            Command::Renew(event, expires_at) => {
                self.core.set_token_expiry(expires_at);
                self.core.on(event)
            }
            Command::Announce(expires_at, answer) => {
                self.core.set_token_expiry(expires_at);
                // The client that asked may have gone.
                drop(answer.send(self.core.announce_again()));
                Vec::new()
            }
            Command::Broadcast(event) => self.core.on_broadcast(event),
            Command::Refuse(code, message, reply_to) => {
                vec![self.core.session_error(code, message, reply_to)]
            }
            Command::EndWhenIdle(answer) => {
                self.ends_when_idle = true;
                self.handle.log.set_stopped(self.stopped());
                // The client that asked may have gone.
                let _ = answer.send(());
                Vec::new()
            }
            Command::End(reason) => self.core.end(Some(reason)),
        }
    }

    /// Passes output on. For a client that reads slowly, pieces of text that wait become one.
    fn on_output(&mut self, output: AgentOutput) {
        let mut next = Some(output);
        while let Some(mut output) = next.take() {
            if self.handle.log.is_under_pressure()
                && let AgentOutput::Text(text) = &mut output
                && let Work::Running(run) = &mut self.work
            {
                while text.len() < MAX_JOINED
                    && let Some(more) = run.try_next()
                {
                    match more {
                        AgentOutput::Text(more) => text.push_str(&more),
                        other => {
                            next = Some(other);
                            break;
                        }
                    }
                }
            }
            self.awaits_client |= matches!(output, AgentOutput::AwaitingClient);
            let is_end = matches!(output, AgentOutput::Done | AgentOutput::Failed(_));
            if is_end && let Work::Running(run) = std::mem::take(&mut self.work) {
                self.previous = Some(run);
            }
            let effects = self.core.on_output(&self.response, output);
            self.apply(effects);
        }
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(event) => {
                    let seq = crate::event::Envelope::seq(&event).unwrap_or_default();
                    if matches!(event, ServerEvent::ResponseCreated(_)) {
                        self.handle.response_began.store(seq.saturating_sub(1), Ordering::Relaxed);
                    }
                    self.handle.log.append(seq, json::write(&event).unwrap_or_default());
                }
                Effect::Broadcast(event) => self.table.broadcast(&self.handle, &event),
                Effect::CheckPayment { response_id, payment_token } => {
                    self.work = self.payment(&response_id, payment_token, None);
                    self.response = response_id;
                }
                Effect::SubmitPayment { response_id, payment } => {
                    self.work = self.payment(&response_id, None, Some(*payment));
                }
                Effect::Start(request) => {
                    self.response.clone_from(&request.response_id);
                    self.awaits_client = false;
                    let run = self.place.run.take();
                    let place = RunPlace { run, ..self.place.clone() };
                    let start = place.start(self.previous.take(), *request);
                    self.work = Work::Starting(Box::pin(start));
                }
                Effect::Resume { results, .. } => {
                    self.awaits_client = false;
                    if let Work::Running(run) = &self.work {
                        for result in results {
                            run.control().resolve(result);
                        }
                    }
                }
                Effect::Cancel { .. } => {
                    if let Work::Running(run) = std::mem::take(&mut self.work) {
                        run.control().cancel();
                        self.previous = Some(run);
                    }
                }
                Effect::Close => {}
            }
        }
    }

    /// Asks the payment gate.
    fn payment(&self, response_id: &str, payment_token: Option<String>, payment: Option<Payment>) -> Work {
        let Some(gate) = self.place.site.payment_gate.clone() else {
            return Work::Payment(Box::pin(std::future::ready(PaymentOutcome::NotRequired)));
        };
        let request = PaymentRequest {
            agent: Arc::clone(self.place.agent.name()),
            principal: self.place.principal.clone(),
            session_id: Some(Arc::clone(&self.handle.id)),
            response_id: response_id.into(),
            payment_token: payment_token.map(Into::into),
        };
        Work::Payment(Box::pin(async move {
            let outcome = match payment {
                None => gate.required(&request).await.map(|requirements| {
                    requirements.map_or(PaymentOutcome::NotRequired, |requirements| {
                        PaymentOutcome::Required(Box::new(requirements))
                    })
                }),
                Some(payment) => gate
                    .submit(payment, &request)
                    .await
                    .map(|receipt| PaymentOutcome::Accepted(Box::new(receipt))),
            };
            outcome.unwrap_or_else(|refusal| PaymentOutcome::Refused(Box::new(refusal)))
        }))
    }
}
