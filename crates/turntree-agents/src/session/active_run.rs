//! Runs of a session: in line, from what is known, into the tree.

use std::pin::pin;
use std::sync::Arc;
use std::thread::ThreadId;

use futures_util::future::{BoxFuture, Either, select};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::driver::run_loop::{Driver, RunRecorder, drive};
use crate::driver::stream::{AgentStream, Listener};
use crate::host::run_context::RunContext;
use crate::machine::machine::Machine;
use crate::machine::state::RunState;
use crate::session::checkpoint::shared_history::Record;
use crate::session::checkpoint::{Checkpoint, Place, Stand, SubAgentStates};
use crate::session::error::SessionError;
use crate::session::session::{CheckpointInterval, SaveInterval, Session, Shared};
use crate::session::state::Unfinished;
use crate::session::sub_agent::Child;
use crate::tree::thread_tree::ThreadTree;
use crate::types::UapData;
use crate::types::action::{Action, ActionResult, Boundary};
use crate::types::event::{AgentStreamEvent, CheckpointMade, SubAgentRun, UapEvent};
use crate::types::execution_state::ExecutionState;
use turntree_core::json::{Extra, RawObject};
use turntree_core::message::message::History;
use turntree_core::message::{Message, Turn};
use turntree_upp::UppError;
use turntree_upp::llm::Input;

/// What a run is to do.
#[derive(Debug)]
enum Task {
    /// Answer this.
    Say(Input),
    /// Go on where the last run stopped.
    Resume,
}

/// What a run goes on from.
struct Start {
    place: Place,
    before: History,
    /// Everything that was said, `before` at its end.
    history: History,
}

impl Start {
    fn new(mut history: History, place: Place, before: History) -> Self {
        history.extend(before.iter().cloned());
        Self { place, before, history }
    }
}

/// A run that has been let in. However it ends, the book holds where it can go on.
struct Work {
    shared: Arc<Shared>,
    machine: Machine,
    driver: Driver,
    place: Place,
    before: History,
}

impl Work {
    /// Writes down where the run stands. A run that is failing stands where its keeper last saw it.
    fn keep(&self) {
        self.shared.keep(self.machine.state());
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.keep();
    }
}

/// The line of a session, held; and the mark that a run is under way.
struct AtWork {
    shared: Arc<Shared>,
    _line: tokio::sync::OwnedMutexGuard<()>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.shared.book().running = None;
    }
}

/// Tells that an event loop of this thread drives a run, from its first poll on.
struct OnLoop {
    shared: Arc<Shared>,
    thread: ThreadId,
}

impl OnLoop {
    fn new(shared: &Arc<Shared>) -> Self {
        let thread = std::thread::current().id();
        shared.book().loops.push(thread);
        Self { shared: Arc::clone(shared), thread }
    }
}

impl Drop for OnLoop {
    fn drop(&mut self) {
        let loops = &mut self.shared.book().loops;
        if let Some(place) = loops.iter().position(|thread| *thread == self.thread) {
            loops.swap_remove(place);
        }
    }
}

impl Session {
    /// Runs the agent with what was said before, and adds the turn to the current node. Waits for runs that were asked
    /// for before.
    ///
    /// # Errors
    /// [`SessionError::Run`]: the tree is as before, and [`Self::resume`] goes on after the last tool or model call that
    /// succeeded. [`SessionError::Reentrant`] where `context` is from inside a run of this session.
    /// [`SessionError::NotSaved`]: the turn is in the tree, the store has failed.
    ///
    /// # Cancel safety
    /// Dropped anywhere, it leaves the session as after a failed run; dropped while the session is saved, the turn is in
    /// the tree.
    pub async fn run(
        &self,
        input: impl Into<Input> + Send,
        context: RunContext,
    ) -> Result<Arc<Turn>, SessionError> {
        self.check_entry(&context)?;
        self.clone().perform(Task::Say(input.into()), context, None).await
    }

    /// Goes on with the run that failed, was cancelled or was restored. Nothing that has succeeded is done again: neither
    /// model calls whose answers wanted tools, nor tools that have answered.
    ///
    /// # Errors
    /// [`SessionError::NothingToResume`], and those of [`Self::run`].
    ///
    /// # Cancel safety
    /// As [`Self::run`].
    pub async fn resume(&self, context: RunContext) -> Result<Arc<Turn>, SessionError> {
        self.check_entry(&context)?;
        self.clone().perform(Task::Resume, context, None).await
    }

    /// As [`Self::run`], with somebody listening. The turn is in the tree when the stream has ended, or has been aborted:
    /// then what there is of it. Nothing happens before it is polled; a stream that is held and not polled holds the
    /// session up.
    ///
    /// # Errors
    /// [`SessionError::Reentrant`]. Those of [`Self::run`] come from the stream.
    pub fn stream(&self, input: impl Into<Input>, context: RunContext) -> Result<AgentStream, SessionError> {
        self.check_entry(&context)?;
        Ok(self.listened(Task::Say(input.into()), context))
    }

    /// As [`Self::resume`], with somebody listening.
    ///
    /// # Errors
    /// As [`Self::stream`].
    pub fn resume_stream(&self, context: RunContext) -> Result<AgentStream, SessionError> {
        self.check_entry(&context)?;
        Ok(self.listened(Task::Resume, context))
    }

    fn listened(&self, task: Task, context: RunContext) -> AgentStream {
        let session = self.clone();
        let outer = context.cancellation.clone();
        AgentStream::of(outer.as_ref(), self.shared.agent.structure(), |listener| {
            Box::pin(async move { Ok(session.perform(task, context, Some(listener)).await?) })
        })
    }

    /// A run that is started with the context of a run of this session would wait for that one.
    fn check_entry(&self, context: &RunContext) -> Result<(), SessionError> {
        if context.session_id.as_ref() == Some(self.id()) {
            return Err(SessionError::Reentrant { id: Arc::clone(self.id()) });
        }
        Ok(())
    }

    async fn perform(
        self,
        task: Task,
        context: RunContext,
        listener: Option<Listener>,
    ) -> Result<Arc<Turn>, SessionError> {
        let stop = listener.as_ref().map(|listener| &listener.cancellation).or(context.cancellation.as_ref());
        let _on_loop = self.entry.on_loop.then(|| OnLoop::new(&self.shared));
        let Some(at_work) = self.enter(stop).await else {
            return self.turned_away(task, context).await;
        };
        let mut work = self.begin(task, context)?;
        if self.saves_at_start(work.machine.state()) {
            self.save().await?;
        }
        if let Some(listener) = &listener {
            work.driver = listener.attach(work.driver.clone());
        }
        let outcome = drive(&mut work.machine, &work.driver).await;
        let turn = match outcome {
            Ok(turn) => turn,
            Err(error) => {
                work.keep();
                // The error of the run is what counts; a store that fails too is heard of at the next save.
                let _saved = self.save().await;
                return Err(error.into());
            }
        };
        self.commit(&work, &turn);
        let saved = self.save().await;
        drop(at_work);
        match saved {
            Ok(()) => Ok(turn),
            Err(SessionError::Store(error)) => Err(SessionError::NotSaved { turn, error }),
            Err(other) => Err(other),
        }
    }

    /// Waits in line. `None` when the run is stopped before.
    async fn enter(&self, stop: Option<&CancellationToken>) -> Option<AtWork> {
        let entry = Arc::clone(&self.shared.line).lock_owned();
        let line = match stop {
            None => entry.await,
            Some(stop) => match select(pin!(entry), pin!(stop.cancelled())).await {
                Either::Left((line, _)) => line,
                Either::Right(_) => return None,
            },
        };
        let ticket = self.entry.ticket.unwrap_or_else(|| self.shared.ticket());
        self.shared.book().running = Some(ticket);
        Some(AtWork { shared: Arc::clone(&self.shared), _line: line })
    }

    /// What a run gives that was stopped while it stood in line: its input, and no answer. The session has not changed.
    async fn turned_away(&self, task: Task, context: RunContext) -> Result<Arc<Turn>, SessionError> {
        let Task::Say(input) = task else { return Err(UppError::cancelled("").into()) };
        let stopped = CancellationToken::new();
        stopped.cancel();
        let context = RunContext { cancellation: Some(stopped), ..context };
        let (mut machine, driver) = self.shared.agent.prepare(History::new(), input, context)?;
        Ok(drive(&mut machine, &driver).await?)
    }

    /// Whether a run is saved before it does anything: what it was asked, and what people decided, outlives a crash.
    fn saves_at_start(&self, state: &RunState) -> bool {
        self.persistence.is_some()
            && (self.save_interval != SaveInterval::Turn || !state.decided_calls().is_empty())
    }

    /// A machine that knows what was said, and a driver that keeps its state in the book.
    fn begin(&self, task: Task, context: RunContext) -> Result<Work, SessionError> {
        let shared = &self.shared;
        let middleware_state = Some(Arc::clone(&shared.middleware_state));
        let context = RunContext { session_id: Some(Arc::clone(&shared.id)), middleware_state, ..context };
        let (start, (mut machine, mut driver)) = match task {
            Task::Say(input) => {
                self.check_decisions()?;
                let start = self.start_here();
                let prepared = shared.agent.prepare(start.history.clone(), input, context)?;
                shared.book().sub_agents = SubAgentStates::default();
                (start, prepared)
            }
            Task::Resume => {
                let (start, run) = self.start_where_it_stopped()?;
                let prepared = shared.agent.resume(start.history.clone(), run, context)?;
                (start, prepared)
            }
        };
        if matches!(machine.next(), Action::Checkpoint(_)) {
            // It stands where it was kept.
            let _fits = machine.feed(ActionResult::Continue);
        }
        let Start { place, before, .. } = start;
        driver.keeper = Some(Arc::new(RunKeeper {
            shared: Arc::clone(shared),
            place: place.clone(),
            before: before.clone(),
            record: Arc::default(),
            session: self.clone(),
        }));
        let run = Some(machine.state().clone());
        shared.book().unfinished = Some(Unfinished {
            place: place.clone(),
            before: before.clone(),
            run,
            restored: false,
            sub_agents: SubAgentStates::default(),
        });
        Ok(Work { shared: Arc::clone(shared), machine, driver, place, before })
    }

    /// A new run: from the current node, and from what was restored there.
    fn start_here(&self) -> Start {
        let book = self.shared.book();
        let tree = self.shared.tree.snapshot();
        let node = tree.current();
        let place = Place { node: node.id.clone(), length: Some(node.thread.messages.len()) };
        let restored = book.unfinished.as_ref().filter(|left| left.restored && left.place == place);
        let before = restored.map(Unfinished::messages).unwrap_or_default();
        Start::new(tree.history(), place, before)
    }

    /// The run that is not finished: from where it began, with its state.
    fn start_where_it_stopped(&self) -> Result<(Start, RunState), SessionError> {
        let nothing = || SessionError::NothingToResume { id: Arc::clone(self.id()) };
        let left = self.unfinished().ok_or_else(nothing)?;
        let mut run = left.run.ok_or_else(nothing)?;
        run.retry();
        let history = history_at(&self.shared.tree.snapshot(), &left.place)?;
        Ok((Start::new(history, left.place, left.before), run))
    }

    /// The run is over: its turn goes into the tree, and the book says so. No `await` is in between.
    fn commit(&self, work: &Work, turn: &Arc<Turn>) {
        let shared = &self.shared;
        let mut book = shared.book();
        let mut tree = shared.tree.lock();
        let node = work.place.node.as_str();
        let said = work.before.iter().chain(&turn.messages).cloned();
        // Nodes are never taken away, so this one is there.
        let _there = tree.push_to(node, said, &*shared.clock);
        let length = tree.node(node).map_or(0, |node| node.thread.messages.len());
        drop(tree);
        book.finish(&work.place, turn, length);
        book.unfinished = None;
        book.updated_at = shared.clock.now();
        if shared.interval == CheckpointInterval::Turn {
            let state = ExecutionState {
                messages: turn.messages.iter().cloned().collect(),
                ..work.machine.state().execution_state()
            };
            let step = state.step;
            let place = Place { node: work.place.node.clone(), length: Some(length) };
            let sub_agents = book.sub_agents.clone();
            let checkpoint = Checkpoint {
                sub_agent_states: sub_agents,
                ..shared.checkpoint(place, History::new(), Stand::Told(Box::new(state)))
            };
            let id = checkpoint.id.to_string();
            book.add(checkpoint);
            drop(book);
            if let Some(events) = &work.driver.events {
                let made = CheckpointMade { checkpoint_id: id, extra: Extra::new() };
                let agent_id = Arc::clone(&work.driver.identity.agent_id);
                let event = UapEvent { step, agent_id, data: UapData::Checkpoint(made) };
                events.push(AgentStreamEvent::Uap(event));
            }
        }
    }
}

impl Shared {
    /// Writes down where the run that is under way can go on, unless it cannot.
    fn keep(&self, state: &RunState) {
        if state.is_over() {
            return;
        }
        if let Some(unfinished) = &mut self.book().unfinished {
            unfinished.run = Some(state.clone());
        }
    }

    fn checkpoint(&self, place: Place, before: History, stand: Stand) -> Checkpoint {
        Checkpoint {
            id: self.ids.string().into(),
            session_id: Arc::clone(&self.id),
            timestamp: self.clock.now(),
            place,
            before,
            sub_agent_states: SubAgentStates::default(),
            metadata: RawObject::new(),
            extra: Extra::new(),
            reserved: RawObject::new(),
            stand,
        }
    }
}

/// Keeps the state of one run in the book.
struct RunKeeper {
    shared: Arc<Shared>,
    place: Place,
    before: History,
    record: Arc<Record>,
    session: Session,
}

impl RunRecorder for RunKeeper {
    fn keep(&self, boundary: Boundary, state: &RunState) -> Option<String> {
        let shared = &self.shared;
        let mut book = shared.book();
        if let Some(unfinished) = &mut book.unfinished {
            unfinished.run = Some(state.clone());
        }
        let is_kept = matches!(boundary, Boundary::StepEnded | Boundary::Planned);
        if !is_kept || shared.interval != CheckpointInterval::Step {
            return None;
        }
        let stand = Stand::Unfinished(Box::new(self.record.point(state)), Extra::new());
        let checkpoint = Checkpoint {
            sub_agent_states: book.sub_agents.clone(),
            ..shared.checkpoint(self.place.clone(), self.before.clone(), stand)
        };
        let id = checkpoint.id.to_string();
        book.add(checkpoint);
        Some(id)
    }

    fn child(&self, agent: &Agent, run: &SubAgentRun, message: &Message) -> Option<Child> {
        Child::open(&self.shared, agent, run, message)
    }

    fn fails(&self, state: &RunState) {
        self.shared.keep(state);
    }

    fn save(&self, boundary: Boundary, state: &RunState) -> Option<BoxFuture<'_, Result<(), UppError>>> {
        let session = &self.session;
        session.persistence.as_ref()?;
        let approved = || state.last_execution().is_some_and(|last| last.approved == Some(true));
        let wanted = match session.save_interval {
            SaveInterval::Tool => true,
            SaveInterval::Step if boundary == Boundary::StepEnded => true,
            SaveInterval::Step | SaveInterval::Turn => boundary == Boundary::ToolFinished && approved(),
        };
        wanted.then(|| Box::pin(async move { Ok(session.save().await?) }) as _)
    }
}

/// What was said up to a place.
fn history_at(tree: &ThreadTree, place: &Place) -> Result<History, SessionError> {
    let node = place.node.as_str();
    let history = tree.history_of(node)?;
    let own = tree.node(node).map_or(0, |node| node.thread.messages.len());
    let after = own.saturating_sub(place.length.unwrap_or(own));
    Ok(history.take(history.len().saturating_sub(after)))
}
