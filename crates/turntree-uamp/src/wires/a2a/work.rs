//! Works on tasks: one run of the agent for each message.
//!
//! The work is a task of the runtime: it continues without its client. What it has done is stored before readers see that
//! it has ended.

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turntree_agents::Session;
use turntree_agents::types::Verdict;
use turntree_core::message::Message as UppMessage;
use turntree_core::runtime;
use turntree_server::Principal;

use super::error::{A2aError, ErrorKind};
use super::live::LiveTask;
use super::model::{StreamEvent, TaskState};
use super::push::Notifier;
use super::store::TaskStore;
use crate::agent::{AgentRun, ConversationError, RunInput, RunOptions, RunRequest, ServedAgent};
use crate::service::Site;
use crate::session::AgentOutput;
use crate::types::{ErrorCode, ErrorDetails};
use crate::wires::openai::payment;

/// How often a server writes the task that it works on, so that others see that it has not crashed.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(20);

/// How many tasks a server works on at the same time, unless the application says.
const MAX_LIVE: usize = 10_000;

/// What the agent must do.
#[derive(Debug)]
pub(super) enum Step {
    /// Answer messages of the client.
    Answer(Vec<UppMessage>),
    /// Continue after decisions on calls.
    Decide(Vec<(String, Verdict)>),
}

/// Everything that the work on a task needs.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) site: Arc<Site>,
    pub(super) agent: Arc<ServedAgent>,
    pub(super) principal: Option<Principal>,
    pub(super) store: TaskStore,
    pub(super) allow_private_webhooks: bool,
    /// The payment token of the request.
    pub(super) payment_token: Option<Arc<str>>,
}

/// The tasks that the server works on. Work on one conversation is done one after the other.
#[derive(Debug)]
pub(super) struct Workshop {
    /// The tasks that the server works on, and those that have just ended.
    live: Mutex<HashMap<String, Arc<LiveTask>>>,
    conversations: Mutex<HashMap<String, Weak<Semaphore>>>,
    max_live: usize,
}

impl Default for Workshop {
    fn default() -> Self {
        Self::new(MAX_LIVE)
    }
}

impl Workshop {
    /// A server that works on at most this many tasks at the same time.
    pub(super) fn new(max_live: usize) -> Self {
        Self { live: Mutex::default(), conversations: Mutex::default(), max_live }
    }

    /// The task that the server works on or has just worked on.
    pub(super) fn find(&self, task_id: &str) -> Option<Arc<LiveTask>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).get(task_id).cloned()
    }

    /// Makes room for one more task: tasks that have ended are kept for readers only while there is room for them.
    ///
    /// # Errors
    /// The server works on too many tasks.
    pub(super) fn check_room(&self) -> Result<(), A2aError> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.len() >= self.max_live {
            live.retain(|_, task| !task.has_ended());
        }
        if live.len() < self.max_live {
            return Ok(());
        }
        Err(A2aError::new(ErrorKind::Internal, "the server works on too many tasks; try again later"))
    }

    /// The turn of a conversation.
    fn turns(&self, conversation: String) -> Arc<Semaphore> {
        let mut conversations = self.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = conversations.get(&conversation).and_then(Weak::upgrade) {
            return turns;
        }
        if conversations.len() >= self.max_live {
            conversations.retain(|_, turns| turns.strong_count() > 0);
        }
        let turns = Arc::new(Semaphore::new(1));
        conversations.insert(conversation, Arc::downgrade(&turns));
        turns
    }

    /// Begins to work on a stored task.
    pub(super) fn start(self: &Arc<Self>, job: Job, live: &Arc<LiveTask>, step: Step, version: u64) {
        let task = live.task();
        self.live.lock().unwrap_or_else(PoisonError::into_inner).insert(task.id.clone(), Arc::clone(live));
        let turns = self.turns(format!("{} {}", job.store.scope(), task.context_id));
        let (workshop, live) = (Arc::clone(self), Arc::clone(live));
        let keep = job.site.options.resume_window;
        let work = async move {
            let notifier = Notifier::new(job.allow_private_webhooks);
            let mut work = Work { job, live: Arc::clone(&live), version, notifier };
            match work.wait_for_turn(turns).await {
                Turn::Begins(permit) => {
                    work.perform(step).await;
                    drop(permit);
                }
                Turn::Cancelled => work.finish_cancelled().await,
                Turn::Lost => {}
            }
            drop(work);
            // Readers that have lost their connection read the end.
            runtime::sleep(keep).await;
            workshop.forget(&task.id, &live);
        };
        runtime::spawn(work).detach();
    }

    fn forget(&self, task_id: &str, live: &Arc<LiveTask>) {
        let mut tasks = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.get(task_id).is_some_and(|found| Arc::ptr_eq(found, live)) {
            tasks.remove(task_id);
        }
    }

    /// Cancels all work, when the server shuts down.
    pub(super) fn shutdown(&self) {
        for live in self.live.lock().unwrap_or_else(PoisonError::into_inner).values() {
            live.cancellation.cancel();
        }
    }
}

/// The time until the next heartbeat.
type Beat = BoxFuture<'static, ()>;

/// How the wait for the turn of a conversation ends.
enum Turn {
    /// It is the turn of this task.
    Begins(Option<OwnedSemaphorePermit>),
    /// The client has cancelled the task.
    Cancelled,
    /// Another server has changed the task, or the store failed.
    Lost,
}

/// What the work waits for.
enum Happening {
    Output(Option<AgentOutput>),
    Cancelled,
    Beat,
}

/// The work on one task.
struct Work {
    job: Job,
    live: Arc<LiveTask>,
    version: u64,
    notifier: Notifier,
}

impl Work {
    /// Waits until the earlier tasks of the conversation have ended. Other servers see meanwhile that this one is alive.
    async fn wait_for_turn(&mut self, turns: Arc<Semaphore>) -> Turn {
        let live = Arc::clone(&self.live);
        let (mut turn, mut cancelled) = (pin!(turns.acquire_owned()), pin!(live.cancellation.cancelled()));
        loop {
            let beat = pin!(runtime::sleep(HEARTBEAT));
            match select(turn.as_mut(), select(cancelled.as_mut(), beat)).await {
                // A semaphore that is closed gives no permit; none is closed.
                Either::Left((permit, _)) => return Turn::Begins(permit.ok()),
                Either::Right((Either::Left(_), _)) => return Turn::Cancelled,
                Either::Right((Either::Right(_), _)) => {
                    if !self.store().await {
                        return Turn::Lost;
                    }
                }
            }
        }
    }

    async fn perform(&mut self, step: Step) {
        let now = self.job.site.clock.now();
        let working = self.live.change(|machine| machine.begin(now));
        if !self.store().await {
            return;
        }
        self.announce(working, false).await;
        let Job { site, agent, principal, payment_token, .. } = &self.job;
        let task_id = self.live.task().id;
        let (principal, token) = (principal.as_ref(), payment_token.clone());
        if let Err(error) = payment::check(site, agent, principal, &task_id, token).await {
            let details = ErrorDetails::new(ErrorCode::PaymentRequired, error.to_string());
            self.finish(AgentOutput::Failed(Box::new(details))).await;
            return;
        }
        let run = match self.open(step).await {
            Ok(run) => run,
            Err(error) => {
                log::error!("A2A: the conversation of a task cannot be opened: {error}");
                let details = ErrorDetails::new(ErrorCode::InternalError, error.to_string());
                self.finish(AgentOutput::Failed(Box::new(details))).await;
                return;
            }
        };
        self.follow(run).await;
    }

    /// Opens the conversation and starts the run.
    async fn open(&self, step: Step) -> Result<AgentRun, ConversationError> {
        let Job { site, agent, principal, .. } = &self.job;
        let context_id = self.live.task().context_id;
        let session = site.conversations.open(agent.agent(), principal.as_ref(), &context_id).await?;
        let input = match step {
            Step::Answer(messages) => {
                discard_unfinished(&session)?;
                let input = site.conversations.append(&session, messages, false)?;
                RunInput::Session { session, input }
            }
            Step::Decide(decisions) => {
                for (call_id, verdict) in decisions {
                    session.decide_shown(&call_id, verdict)?;
                }
                RunInput::Resume { session }
            }
        };
        let options = RunOptions { principal: principal.clone(), ..RunOptions::default() };
        Ok(AgentRun::start(RunRequest { agent: Arc::clone(agent), input, options }))
    }

    /// Reads the run until its end.
    async fn follow(&mut self, mut run: AgentRun) {
        let mut beat: Beat = Box::pin(runtime::sleep(HEARTBEAT));
        let mut cancelled = false;
        loop {
            match self.wait(&mut run, &mut beat, cancelled).await {
                Happening::Cancelled => {
                    cancelled = true;
                    run.control().cancel();
                }
                Happening::Beat => {
                    beat = Box::pin(runtime::sleep(HEARTBEAT));
                    if !self.store().await {
                        return;
                    }
                }
                Happening::Output(None) => break,
                Happening::Output(Some(last @ (AgentOutput::Done | AgentOutput::Failed(_)))) => {
                    // The run ends after it has saved the session.
                    while run.next().await.is_some() {}
                    self.finish(last).await;
                    return;
                }
                Happening::Output(Some(output)) => {
                    let now = self.job.site.clock.now();
                    let events = self.live.change(|machine| machine.push(output, now));
                    self.live.publish(events, false);
                }
            }
        }
        self.finish_cancelled().await;
    }

    /// Waits for the run, for the client who cancels it, or for the next heartbeat.
    async fn wait(&self, run: &mut AgentRun, beat: &mut Beat, was_cancelled: bool) -> Happening {
        let cancelled = async {
            if was_cancelled {
                pending::<()>().await;
            }
            self.live.cancellation.cancelled().await;
        };
        match select(pin!(run.next()), select(pin!(cancelled), beat)).await {
            Either::Left((output, _)) => Happening::Output(output),
            Either::Right((Either::Left(_), _)) => Happening::Cancelled,
            Either::Right((Either::Right(_), _)) => Happening::Beat,
        }
    }

    async fn finish(&mut self, last: AgentOutput) {
        let now = self.job.site.clock.now();
        let events = self.live.change(|machine| machine.push(last, now));
        if self.store().await {
            for event in events {
                self.announce(event, true).await;
            }
        }
    }

    async fn finish_cancelled(&mut self) {
        let now = self.job.site.clock.now();
        let event = self.live.change(|machine| machine.cancel(now));
        if self.store().await {
            self.announce(event, true).await;
        }
    }

    /// Stores the task. Returns false if the work must end: another server has changed the task, or the store failed.
    async fn store(&mut self) -> bool {
        let now = self.job.site.clock.now();
        let task = self.live.task();
        match self.job.store.update(&task, self.version, now).await {
            Ok(true) => {
                self.version += 1;
                true
            }
            Ok(false) => {
                if let Ok(Some((stored, _))) = self.job.store.load(&task.id, now).await {
                    let event = self.live.change(|machine| machine.adopt(stored.task));
                    self.live.publish([event], true);
                } else {
                    self.live.publish([], true);
                }
                false
            }
            Err(error) => {
                let details = ErrorDetails::new(ErrorCode::InternalError, error.message);
                let event = self.live.change(|machine| machine.fail(&details, now));
                self.live.publish([event], true);
                false
            }
        }
    }

    /// Tells readers and webhooks a change of state.
    async fn announce(&mut self, event: StreamEvent, ended: bool) {
        let task = self.live.task();
        self.live.publish([event.clone()], ended);
        let now = self.job.site.clock.now();
        match self.job.store.configs(&task.id, now).await {
            Ok(configs) if configs.is_empty() => {}
            Ok(configs) => self.notifier.tell(configs, event, StreamEvent::Task(task)),
            Err(error) => log::warn!("A2A: the webhooks of the task {} cannot be read: {error}", task.id),
        }
    }
}

/// A new message replaces a run that has failed. Calls that wait for approval belong to another task: they are kept, and
/// the session refuses the message.
fn discard_unfinished(session: &Session) -> Result<(), ConversationError> {
    if session.pending().is_empty() && session.in_doubt().is_empty() {
        session.discard()?;
    }
    Ok(())
}

/// The state of a stored task. A task whose server has crashed has failed.
pub(super) fn state_now(state: TaskState, alive_at: i64, now: i64) -> TaskState {
    let silent = now.saturating_sub(alive_at);
    let limit = i64::try_from(HEARTBEAT.as_micros()).unwrap_or(i64::MAX).saturating_mul(3);
    let is_open = matches!(state, TaskState::Submitted | TaskState::Working);
    if is_open && silent > limit { TaskState::Failed } else { state }
}
