//! The runs of agents that a strategy of the application starts in a session.
//!
//! Each of them has a session of its own, which is stored with that of the calling run, as for sub-agents. A strategy that
//! is resumed executes again from its start: the runs that have ended return their turns, and the others continue. So the
//! strategy must start the same runs in the same order.
//!
//! Spec: UAP-1.0 §5.5, decisions A73, A74

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::host::agent_tool::AgentTool;
use crate::host::recorder::{ChildTask, ChildTurn, RunRecorder, SubAgentFailure, SubAgentSession};
use crate::host::strategy::StrategyEvents;
use crate::machine::state::RunState;
use crate::types::action::Boundary;
use crate::types::approval::{ApprovalRequired, approval_required};
use crate::types::event::{AgentStreamEvent, CheckpointMade, SubAgentRun, UapData, UapEvent};
use crate::types::parent_run::ParentRun;
use turntree_core::json::{Extra, RawJson};
use turntree_core::message::{Message, TokenUsage, Turn};
use turntree_upp::UppError;

/// The member of a run's metadata with the name of the strategy that has started it.
pub(crate) const STRATEGY: &str = "strategy";
/// The member of a run's metadata with the name of its agent, if it has one.
pub(crate) const AGENT_NAME: &str = "agentName";

/// The runs that one execution of a strategy starts.
pub(crate) struct StrategyRuns {
    recorder: Arc<dyn RunRecorder>,
    parent: Arc<ParentRun>,
    strategy: Arc<str>,
    /// The state of the calling run while the strategy executes.
    state: RunState,
    input: Arc<Message>,
    events: Option<StrategyEvents>,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    started: u32,
    finished: u32,
    /// What the runs that have stopped wait for.
    waits_for: Option<ApprovalRequired>,
    /// True if the strategy has ended: later runs are not part of it.
    has_ended: bool,
}

/// A run that a strategy starts, before it begins.
pub(crate) struct StrategyRun {
    runs: Arc<StrategyRuns>,
    agent: Arc<str>,
    session: Box<dyn SubAgentSession>,
}

impl fmt::Debug for StrategyRuns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StrategyRuns").field("strategy", &self.strategy).finish_non_exhaustive()
    }
}

impl fmt::Debug for StrategyRun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StrategyRun").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl StrategyRuns {
    /// The runs of a strategy that executes the run with this state. `None` if the run has no input.
    pub(crate) fn new(
        recorder: &Arc<dyn RunRecorder>,
        parent: &Arc<ParentRun>,
        strategy: &str,
        state: &RunState,
        events: Option<StrategyEvents>,
    ) -> Option<Arc<Self>> {
        let input = Arc::clone(state.messages().last()?);
        Some(Arc::new(Self {
            recorder: Arc::clone(recorder),
            parent: Arc::clone(parent),
            strategy: strategy.into(),
            state: state.clone(),
            input,
            events,
            progress: Mutex::default(),
        }))
    }

    /// Opens the session of the next run. `None` if the strategy has ended.
    pub(crate) fn open(
        self: &Arc<Self>,
        agent: &dyn AgentTool,
        agent_id: &Arc<str>,
        name: Option<&Arc<str>>,
        turn_id: Arc<str>,
    ) -> Option<StrategyRun> {
        let number = {
            let mut progress = self.progress();
            if progress.has_ended {
                return None;
            }
            progress.started = progress.started.saturating_add(1);
            progress.started
        };
        let identity = &self.parent.identity;
        let mut extra = Extra::new();
        extra.insert(STRATEGY, RawJson::from_str_value(&self.strategy));
        if let Some(name) = name {
            extra.insert(AGENT_NAME, RawJson::from_str_value(name));
        }
        let run = SubAgentRun {
            agent_id: Arc::clone(agent_id),
            turn_id,
            parent_agent_id: Some(Arc::clone(&identity.agent_id)),
            parent_turn_id: Some(Arc::clone(&identity.turn_id)),
            tool_name: Arc::clone(&self.strategy),
            tool_call_id: format!("{}/{number}", self.strategy).into(),
            depth: identity.depth.saturating_add(1),
            extra,
        };
        let session = self.recorder.open_child(agent, &run, &self.input)?;
        Some(StrategyRun { runs: Arc::clone(self), agent: Arc::clone(name.unwrap_or(agent_id)), session })
    }

    /// Ends the runs of the strategy. Returns what those that have stopped wait for.
    pub(crate) fn end(&self) -> Option<ApprovalRequired> {
        let mut progress = self.progress();
        progress.has_ended = true;
        progress.waits_for.take()
    }

    /// Records that a run has ended: makes a checkpoint, from which the strategy can be resumed, and saves it.
    async fn record_end(&self) -> Result<(), UppError> {
        let step = {
            let mut progress = self.progress();
            if progress.has_ended {
                return Ok(());
            }
            progress.finished = progress.finished.saturating_add(1);
            progress.finished
        };
        let mut state = self.state.clone();
        state.step = step;
        let recorded = self.recorder.record(Boundary::StepEnded, &state);
        if let Some(saving) = self.recorder.save(Boundary::StepEnded, &state) {
            saving.await?;
        }
        if let (Some(checkpoint_id), Some(events)) = (recorded, &self.events) {
            let data = UapData::Checkpoint(CheckpointMade { checkpoint_id, extra: Extra::new() });
            let agent_id = Arc::clone(&self.parent.identity.agent_id);
            events.push(AgentStreamEvent::Uap(UapEvent { step, agent_id, data })).await;
        }
        Ok(())
    }

    /// Counts the usage of a run that had ended before the strategy was resumed.
    fn count(&self, agent: &Arc<str>, turn: &Turn) {
        self.progress().finished += 1;
        self.parent.usage.add(agent, [&turn.usage], &turn.tool_executions);
        if let Some(meter) = &self.parent.meter {
            let calls = turn.usage.cycles.as_ref().map_or(1, Vec::len);
            let others =
                std::iter::repeat_n(TokenUsage::default(), calls.saturating_sub(1)).collect::<Vec<_>>();
            meter.restore(std::iter::once(&turn.usage).chain(&others), turn.tool_executions.len());
        }
    }

    /// Remembers what a run that has stopped waits for.
    fn record_stop(&self, failure: &SubAgentFailure) {
        let Some(required) = approval_required(&failure.error) else { return };
        let mut progress = self.progress();
        match &mut progress.waits_for {
            None => progress.waits_for = Some(required.clone()),
            Some(known) => {
                known.calls.extend(required.calls.iter().cloned());
                known.is_in_doubt |= required.is_in_doubt;
            }
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StrategyRun {
    /// Runs the agent, resumes its run, or returns the turn of the run that has ended.
    ///
    /// # Errors
    /// Those of the run.
    ///
    /// # Cancel safety
    /// Dropping the future stops the run; the session can resume it.
    pub(crate) async fn run(self, task: ChildTask) -> Result<Arc<Turn>, UppError> {
        let Self { runs, agent, session } = self;
        match session.run_turn(task).await {
            Ok(ChildTurn { turn, is_stored: true }) => {
                runs.count(&agent, &turn);
                Ok(turn)
            }
            Ok(ChildTurn { turn, .. }) => {
                runs.record_end().await?;
                Ok(turn)
            }
            Err(failure) => {
                runs.record_stop(&failure);
                Err(failure.error)
            }
        }
    }
}
