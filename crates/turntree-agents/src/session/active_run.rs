//! Executes a session's runs: queued one at a time, resumed from saved state, committed to the tree.

use std::pin::pin;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};
use tokio_util::sync::CancellationToken;

use crate::driver::driver::Driver;
use crate::driver::stop::{Stop, stop};
use crate::driver::stream::{AgentStream, Listener};
use crate::handoff::{active_agent, last_agent};
use crate::host::host::Host;
use crate::host::run_context::RunContext;
use crate::machine::machine::Machine;
use crate::machine::state::RunState;
use crate::session::checkpoint::{Checkpoint, CheckpointState, SubAgentStates};
use crate::session::error::SessionError;
use crate::session::options::{CheckpointInterval, SaveInterval};
use crate::session::recorder::SessionRecorder;
use crate::session::session::{Session, Shared};
use crate::session::unfinished_run::UnfinishedRun;
use crate::tree::position::TreePosition;
use crate::types::action::{Action, ActionResult};
use crate::types::event::{AgentStreamEvent, CheckpointMade, UapData, UapEvent};
use crate::types::execution_state::ExecutionState;
use turntree_core::json::Extra;
use turntree_core::message::Turn;
use turntree_core::message::message::History;
use turntree_core::persistence::PersistenceError;
use turntree_core::time::Timestamp;
use turntree_upp::llm::Input;
use turntree_upp::{ErrorCode, UppError};

/// How long a run with a maximum duration waits for its last save, if less of its time is left.
const LAST_SAVE: Duration = Duration::from_secs(5);

/// The task of a run.
#[derive(Debug)]
enum Task {
    /// Runs the agent with an input.
    Run(Input),
    /// Resumes the unfinished run.
    Resume,
}

/// The tree position and the history that a run starts from.
struct StartingPoint {
    position: TreePosition,
    uncommitted: History,
    /// All earlier messages; `uncommitted` is the end of it.
    history: History,
}

impl StartingPoint {
    fn new(mut history: History, position: TreePosition, uncommitted: History) -> Self {
        history.extend(uncommitted.iter().cloned());
        Self { position, uncommitted, history }
    }
}

/// The run that a session executes now. Dropping it records the state to resume from.
struct ActiveRun {
    shared: Arc<Shared>,
    machine: Machine,
    driver: Driver,
    position: TreePosition,
    uncommitted: History,
    /// True if the turn is in the tree: there is nothing to resume.
    is_committed: bool,
}

impl ActiveRun {
    /// Records that the run has ended, and its state. Does not replace what the recorder has stored for a run that is
    /// failing.
    fn record_end(&self) {
        self.shared.record_end(self.machine.state());
    }

    /// The error of a run that took too long to be saved at its start.
    fn timed_out(&self, session: &Session, late: &PersistenceError) -> SessionError {
        let error = self.machine.with_turn_so_far(self.driver.timeout_error());
        session.not_saved(error, late)
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        if !self.is_committed {
            self.record_end();
        }
    }
}

/// The lock that lets one run of a session execute at a time. Dropping it lets the next one start.
struct RunGuard {
    shared: Arc<Shared>,
    _lock: tokio::sync::OwnedMutexGuard<()>,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.shared.state().running = None;
    }
}

/// Marks this thread as one whose event loop polls a run, from the run's first poll until it ends.
struct EventLoopMark {
    shared: Arc<Shared>,
    thread: ThreadId,
}

impl EventLoopMark {
    fn new(shared: &Arc<Shared>) -> Self {
        let thread = std::thread::current().id();
        shared.state().event_loop_threads.push(thread);
        Self { shared: Arc::clone(shared), thread }
    }
}

impl Drop for EventLoopMark {
    fn drop(&mut self) {
        let threads = &mut self.shared.state().event_loop_threads;
        if let Some(index) = threads.iter().position(|thread| *thread == self.thread) {
            threads.swap_remove(index);
        }
    }
}

impl Session {
    /// Runs the agent with the history of the current node, and appends the turn to that node. Waits until earlier
    /// runs of the session have ended; the maximum duration of the run includes this.
    ///
    /// # Errors
    /// - [`SessionError::Run`]: the run failed. The tree has not changed; [`Self::resume`] continues after the last
    ///   successful tool or model call.
    /// - [`SessionError::Reentrant`]: `context` comes from a run of this session.
    /// - [`SessionError::NotSaved`]: the turn is in the tree, but the store failed, or did not finish in the time of the
    ///   run.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the session as after a failed run. If it is dropped while the session is being saved,
    /// the turn is in the tree.
    pub async fn run(
        &self,
        input: impl Into<Input> + Send,
        context: RunContext,
    ) -> Result<Arc<Turn>, SessionError> {
        self.check_not_reentrant(&context)?;
        self.clone().execute(Task::Run(input.into()), context, None).await
    }

    /// Resumes the run that failed, was cancelled or was restored, or whose process ended. Successful work is not repeated:
    /// neither model calls that requested tools, nor tools that have returned.
    ///
    /// # Errors
    /// [`SessionError::NothingToResume`], and those of [`Self::run`]. If calls are in doubt, nothing runs and the error is
    /// that of a run that waits for approval; see [`Self::resolve`].
    ///
    /// # Cancel safety
    /// As for [`Self::run`].
    pub async fn resume(&self, context: RunContext) -> Result<Arc<Turn>, SessionError> {
        self.check_not_reentrant(&context)?;
        self.clone().execute(Task::Resume, context, None).await
    }

    /// Runs the agent as [`Self::run`] does and streams its events. When the stream has ended, the turn is in the tree;
    /// when it was aborted, the partial turn is. The run starts with the first poll. A stream that is started but no
    /// longer polled blocks the session's later runs.
    ///
    /// # Errors
    /// [`SessionError::Reentrant`]. The stream reports the errors of [`Self::run`].
    pub fn stream(&self, input: impl Into<Input>, context: RunContext) -> Result<AgentStream, SessionError> {
        self.check_not_reentrant(&context)?;
        Ok(self.start_stream(Task::Run(input.into()), context))
    }

    /// Resumes as [`Self::resume`] does and streams the events.
    ///
    /// # Errors
    /// As for [`Self::stream`].
    pub fn resume_stream(&self, context: RunContext) -> Result<AgentStream, SessionError> {
        self.check_not_reentrant(&context)?;
        Ok(self.start_stream(Task::Resume, context))
    }

    fn start_stream(&self, task: Task, context: RunContext) -> AgentStream {
        let session = self.clone();
        let outer = context.cancellation.clone();
        AgentStream::of(outer.as_ref(), self.agent.structure(), |listener| {
            Box::pin(async move { Ok(session.execute(task, context, Some(listener)).await?) })
        })
    }

    /// Rejects a context that comes from a run of this session: the new run would wait for that run forever.
    fn check_not_reentrant(&self, context: &RunContext) -> Result<(), SessionError> {
        if context.session_id.as_ref() == Some(self.id()) {
            return Err(SessionError::Reentrant { id: Arc::clone(self.id()) });
        }
        Ok(())
    }

    async fn execute(
        self,
        task: Task,
        context: RunContext,
        listener: Option<Listener>,
    ) -> Result<Arc<Turn>, SessionError> {
        let cancellation = listener
            .as_ref()
            .map(|listener| &listener.cancellation)
            .or(context.cancellation.as_ref())
            .cloned();
        let _mark = self.entry.on_event_loop.then(|| EventLoopMark::new(&self.shared));
        let timeout = context.overrides.as_ref().and_then(|overrides| overrides.timeout);
        let mut began = timeout.map(|_| context.host.clock().now());
        let guard = match self.wait_for_turn(&task, &*context.host, cancellation.as_ref(), timeout).await {
            Ok(guard) => guard,
            Err(Stop::Aborted) => return self.cancelled_in_queue(task, context).await,
            Err(Stop::TimedOut) => return Err(self.timed_out_in_queue(task, context).await),
        };
        let mut run = self.begin(task, context, cancellation.as_ref()).await?;
        if self.saves_at_start(run.machine.state()) {
            let saved = self.save_in_time(&run.driver, run.driver.time_left(began)).await;
            saved.map_err(|late| run.timed_out(&self, &late))??;
        }
        run.driver.config.time_left = run.driver.time_left(began);
        began = run.driver.beginning();
        if let Some(listener) = &listener {
            run.driver = listener.attach(run.driver.clone());
        }
        let turn = match run.driver.run(&mut run.machine).await {
            Ok(turn) => turn,
            Err(error) => {
                run.record_end();
                // Report the error of the run. If the store fails too, the next save reports it.
                return Err(match self.save_at_end(&run.driver, began).await {
                    Ok(_reported_by_next) => error.into(),
                    Err(late) => self.not_saved(error, &late),
                });
            }
        };
        self.commit(&run, &turn);
        run.is_committed = true;
        let saved = self.save_at_end(&run.driver, began).await;
        drop(guard);
        match saved {
            Ok(Ok(())) => Ok(turn),
            Ok(Err(SessionError::Store { id, error })) => Err(SessionError::NotSaved { id, turn, error }),
            Ok(Err(other)) => Err(other),
            Err(error) => Err(SessionError::NotSaved { id: Arc::clone(self.id()), turn, error }),
        }
    }

    /// Waits until earlier runs have ended, and the cleanup of their cancelled calls.
    ///
    /// # Errors
    /// The run is cancelled before, or its time is over.
    async fn wait_for_turn(
        &self,
        task: &Task,
        host: &dyn Host,
        cancellation: Option<&CancellationToken>,
        timeout: Option<Duration>,
    ) -> Result<RunGuard, Stop> {
        let locked = async {
            let lock = Arc::clone(&self.shared.run_lock).lock_owned().await;
            if let Some(earlier) = host.earlier_calls(matches!(task, Task::Resume)) {
                earlier.await;
            }
            lock
        };
        let timer = timeout.map(|timeout| host.timer(timeout));
        let lock = match (cancellation, timer) {
            (None, None) => locked.await,
            (cancellation, timer) => match select(pin!(locked), stop(cancellation, timer)).await {
                Either::Left((lock, _)) => lock,
                Either::Right((stopped, _)) => return Err(stopped),
            },
        };
        let ticket = self.entry.ticket.unwrap_or_else(|| self.shared.new_ticket());
        self.shared.state().running = Some(ticket);
        Ok(RunGuard { shared: Arc::clone(&self.shared), _lock: lock })
    }

    /// Returns the result of a run that was cancelled while it waited: a turn with the input and without a response. The
    /// session does not change.
    fn cancelled_in_queue(
        &self,
        task: Task,
        context: RunContext,
    ) -> BoxFuture<'_, Result<Arc<Turn>, SessionError>> {
        Box::pin(async move {
            let Task::Run(input) = task else { return Err(UppError::cancelled("").into()) };
            let (mut machine, driver) = self.agent.prepare(History::new(), input, cancelled(context))?;
            Ok(driver.run(&mut machine).await?)
        })
    }

    /// The error of a run whose time was over while it waited, with a turn that has the input. The session does not change.
    fn timed_out_in_queue(&self, task: Task, context: RunContext) -> BoxFuture<'_, SessionError> {
        Box::pin(async move {
            let timeout = context.overrides.as_ref().and_then(|overrides| overrides.timeout);
            let (seconds, id) = (timeout.unwrap_or_default().as_secs_f64(), self.id());
            let message = format!(
                "the run has not begun within {seconds} s: an earlier run of session \"{id}\" is under way; wait for \
                 it, cancel it, or raise timeout"
            );
            let error = |provider: &str| UppError::new(ErrorCode::Timeout, provider, message);
            let Task::Run(input) = task else { return error("").into() };
            match self.agent.prepare(History::new(), input, cancelled(context)) {
                Ok((mut machine, driver)) => {
                    // It takes over the input, and ends.
                    let _cancelled = driver.run(&mut machine).await;
                    machine.with_turn_so_far(error(driver.model.provider())).into()
                }
                Err(error) => error.into(),
            }
        })
    }

    /// Saves the session after a run. The session of a sub-agent is saved with the result of its tool call.
    ///
    /// # Errors
    /// As for [`Self::save_in_time`]. The time is what is left of the run's, but at least [`LAST_SAVE`]: a run that took
    /// too long is saved too.
    async fn save_at_end(
        &self,
        driver: &Driver,
        began: Option<Timestamp>,
    ) -> Result<Result<(), SessionError>, PersistenceError> {
        if self.caller.is_some() {
            return Ok(Ok(()));
        }
        self.save_in_time(driver, driver.time_left(began).map(|left| left.max(LAST_SAVE))).await
    }

    /// Saves the session, and waits for the store as long as the run may take. The store may still finish later.
    ///
    /// # Errors
    /// The store has not finished in time. The inner result is that of [`Self::save`].
    async fn save_in_time(
        &self,
        driver: &Driver,
        time: Option<Duration>,
    ) -> Result<Result<(), SessionError>, PersistenceError> {
        let Some(time) = time else { return Ok(self.save().await) };
        // The store first: one that does not wait is done, whatever is left.
        match select(pin!(self.save()), driver.host.timer(time)).await {
            Either::Left((saved, _)) => Ok(saved),
            Either::Right(_) => {
                // What was left of the run's time is no round number, unlike the time that the application gave.
                let tenths = (time.as_secs_f64() * 10.0).round() / 10.0;
                Err(PersistenceError::new(format!("the store has not finished within {tenths} s")))
            }
        }
    }

    /// The error of a run that the store did not save either.
    fn not_saved(&self, mut error: UppError, late: &PersistenceError) -> SessionError {
        let unsaved = SessionError::Store { id: Arc::clone(self.id()), error: late.clone() };
        error.message = format!("{}; {unsaved}", error.message);
        error.into()
    }

    /// Returns true if the session is saved before the run starts, so that a crash loses neither the input nor the
    /// decisions about calls.
    fn saves_at_start(&self, state: &RunState) -> bool {
        let has_decisions = || state.has_decisions() || self.has_inner_decisions();
        self.has_store() && (self.save_interval != SaveInterval::Turn || has_decisions())
    }

    /// Creates the machine with the session's history, and a driver that records the run's state in the session.
    ///
    /// Future and result are boxed: they are large, and a run of a sub-agent is polled on the stack of its caller.
    fn begin<'a>(
        &'a self,
        task: Task,
        context: RunContext,
        cancellation: Option<&'a CancellationToken>,
    ) -> BoxFuture<'a, Result<Box<ActiveRun>, SessionError>> {
        Box::pin(async move { self.start(task, context, cancellation).await.map(Box::new) })
    }

    async fn start(
        &self,
        task: Task,
        context: RunContext,
        cancellation: Option<&CancellationToken>,
    ) -> Result<ActiveRun, SessionError> {
        let shared = &self.shared;
        let session_id = Some(Arc::clone(self.id()));
        let middleware_state = Some(Arc::clone(&shared.middleware_state));
        let mut context = RunContext { session_id, middleware_state, ..context };
        let preceding = std::mem::take(&mut context.preceding);
        let after = |history: &History| joined(&preceding, history);
        let is_resumed = matches!(task, Task::Resume);
        let active;
        let (start, (mut machine, mut driver)) = match task {
            Task::Run(input) => {
                self.check_decisions()?;
                let start = self.start_of_new_run();
                let (agent, context) =
                    active_agent(&self.agent, last_agent(&self.agent, &start.history), context)?;
                let prepared = agent.prepare(after(&start.history), input, context)?;
                active = agent;
                shared.state().sub_agents = SubAgentStates::default();
                (start, prepared)
            }
            Task::Resume => {
                let (start, run) = self.start_of_unfinished_run()?;
                let name =
                    run.agent().map(ToString::to_string).or_else(|| last_agent(&self.agent, &start.history));
                let (agent, context) = active_agent(&self.agent, name, context)?;
                let (mut machine, mut driver) = agent.resume(after(&start.history), run, context)?;
                active = agent;
                let session = self.with_agent(active.clone());
                session.ask_toolsets(&mut machine, &mut driver, cancellation).await?;
                session.check_in_doubt(&machine, &driver)?;
                (start, (machine, driver))
            }
        };
        if matches!(machine.next(), Action::Checkpoint(_)) {
            // The run stopped at this boundary, and its state was recorded there.
            let _accepted = machine.feed(ActionResult::Continue);
        }
        let StartingPoint { position, uncommitted, .. } = start;
        let recorder =
            SessionRecorder::new(self.with_agent(active), position.clone(), uncommitted.clone(), is_resumed);
        driver.ports.recorder = Some(Arc::new(recorder));
        shared.state().unfinished = Some(UnfinishedRun {
            position: position.clone(),
            uncommitted: uncommitted.clone(),
            run: Some(machine.state().clone()),
            active: true,
            restored: false,
            sub_agents: SubAgentStates::default(),
        });
        let shared = Arc::clone(shared);
        Ok(ActiveRun { shared, machine, driver, position, uncommitted, is_committed: false })
    }

    /// Starts at the current node, after the messages of a checkpoint that was restored there.
    fn start_of_new_run(&self) -> StartingPoint {
        let state = self.shared.state();
        let tree = self.shared.tree.snapshot();
        let position = tree.current_position();
        let restored = state.unfinished.as_ref().filter(|run| run.restored && run.position == position);
        let uncommitted = restored.map(UnfinishedRun::messages).unwrap_or_default();
        StartingPoint::new(tree.history(), position, uncommitted)
    }

    /// Starts where the unfinished run started, and returns that run's state.
    fn start_of_unfinished_run(&self) -> Result<(StartingPoint, RunState), SessionError> {
        let nothing = || SessionError::NothingToResume { id: Arc::clone(self.id()) };
        let unfinished = self.unfinished().ok_or_else(nothing)?;
        let mut run = unfinished.run.ok_or_else(nothing)?;
        run.retry();
        let history = self.shared.tree.snapshot().history_up_to(&unfinished.position)?;
        Ok((StartingPoint::new(history, unfinished.position, unfinished.uncommitted), run))
    }

    /// Appends the turn of a finished run to the tree and clears the unfinished run. Contains no `await`, so both
    /// happen or neither.
    fn commit(&self, run: &ActiveRun, turn: &Arc<Turn>) {
        let shared = &self.shared;
        let mut state = shared.state();
        let mut tree = shared.tree.lock();
        let node = run.position.node.as_str();
        let messages = run.uncommitted.iter().chain(&turn.messages).cloned();
        // Nodes are never removed, so the node exists.
        let _exists = tree.push_to(node, messages, &*shared.clock);
        let length = tree.node(node).map_or(0, |node| node.thread.messages.len());
        drop(tree);
        state.finish_checkpoint(&run.position, turn, length);
        state.unfinished = None;
        state.updated_at = shared.clock.now();
        if shared.header.interval != CheckpointInterval::Turn {
            return;
        }
        let execution = ExecutionState {
            messages: turn.messages.iter().cloned().collect(),
            ..run.machine.state().execution_state()
        };
        let step = execution.step;
        let position = TreePosition { node: run.position.node.clone(), length: Some(length) };
        let finished = CheckpointState::Finished(execution.into());
        let checkpoint = Checkpoint {
            sub_agent_states: state.sub_agents.clone(),
            ..shared.checkpoint(position, History::new(), finished)
        };
        let id = checkpoint.id.to_string();
        state.add_checkpoint(checkpoint);
        drop(state);
        if let Some(events) = &run.driver.ports.events {
            let made = CheckpointMade { checkpoint_id: id, extra: Extra::new() };
            let agent_id = Arc::clone(&run.driver.identity.agent_id);
            let event = UapEvent { step, agent_id, data: UapData::Checkpoint(made) };
            self.send_when_saved(events, AgentStreamEvent::Uap(event));
        }
    }
}

/// A history after the messages that precede it.
fn joined(preceding: &History, history: &History) -> History {
    if preceding.is_empty() { history.clone() } else { preceding.iter().chain(history).cloned().collect() }
}

/// The context of a run that ends before its first step.
fn cancelled(context: RunContext) -> RunContext {
    let cancellation = CancellationToken::new();
    cancellation.cancel();
    RunContext { cancellation: Some(cancellation), ..context }
}
