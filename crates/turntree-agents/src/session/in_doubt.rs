//! Tool calls in doubt: their process ended while they ran, so they may have been executed.
//!
//! A session that is saved during a run says so ([`UnfinishedRun::active`](crate::session::UnfinishedRun)). When it is
//! loaded, the calls that were open then are in doubt, because they start after a save and nothing is saved before they
//! end. Exceptions are calls of idempotent tools, calls that were not approved yet, and calls of sub-agents, whose own
//! sessions continue and can have calls in doubt.
//!
//! Spec: decisions A112, A113.

use std::any::Any;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::driver::driver::Driver;
use crate::host::tool::Tool;
use crate::machine::machine::Machine;
use crate::machine::open_calls::OpenCall;
use crate::machine::state::RunState;
use crate::session::checkpoint::SubAgentStates;
use crate::session::error::SessionError;
use crate::session::json::SessionSnapshot;
use crate::session::session::Session;
use crate::session::state::SessionState;
use crate::session::sub_agent::{has_guarded_tool, has_idempotent_tool, is_of_call, is_of_message};
use crate::session::unfinished_run::UnfinishedRun;
use crate::sub_agent::SubAgent;
use crate::types::action::Stamp;
use crate::types::approval::ApprovalRequired;
use crate::types::failure;
use crate::types::resolution::Resolution;
use turntree_core::message::{Message, ToolCall};
use turntree_upp::UppError;

/// A call in doubt and where its state is.
struct CallInDoubt {
    /// The keys of the sub-agents' sessions that contain the call, outermost first.
    path: Vec<Box<str>>,
    /// The index of the call in its response.
    position: usize,
    call: Arc<ToolCall>,
    is_of_known_agent: bool,
}

/// The unfinished run of a session or of a sub-agent's session.
pub(super) struct Level<'a> {
    pub(super) path: Vec<Box<str>>,
    /// `None` if only a strategy of the application knows the agent.
    agent: Option<Agent>,
    /// The session of the sub-agent that the level is.
    session: Option<&'a SessionSnapshot>,
    /// The tools of the run, with those of its toolsets, if they are known.
    tools: Option<&'a Arc<[Tool]>>,
    pub(super) run: &'a RunState,
    is_interrupted: bool,
    sub_agents: &'a SubAgentStates,
}

impl Session {
    /// Returns the calls in doubt that are not resolved: those of the session in call order, then those of its sub-agents.
    /// Empty while a run is active.
    pub fn in_doubt(&self) -> Vec<Arc<ToolCall>> {
        let state = self.shared.state();
        if state.running.is_some() {
            return Vec::new();
        }
        calls_of(&self.calls_in_doubt(&state))
    }

    /// Says what happened to a call in doubt, or that it is to be repeated. If several calls have this id, the first
    /// unresolved one is resolved. Nothing runs before [`Self::resume`]. [`Self::save`] saves the resolution.
    ///
    /// # Errors
    /// [`SessionError::RunActive`], [`SessionError::NotInDoubt`] and [`SessionError::AlreadyDecided`].
    pub fn resolve(&self, call_id: &str, resolution: Resolution) -> Result<(), SessionError> {
        let mut state = self.shared.state();
        if state.running.is_some() {
            return Err(SessionError::RunActive { id: Arc::clone(self.id()) });
        }
        let in_doubt = self.calls_in_doubt(&state);
        let Some(found) = in_doubt.iter().find(|found| found.call.tool_call_id == call_id) else {
            let (call_id, session) = (call_id.to_owned(), Arc::clone(self.id()));
            let run = state.unfinished.as_ref().and_then(|unfinished| unfinished.run.as_ref());
            let resolved = run.map(RunState::resolved_calls).unwrap_or_default();
            return Err(if resolved.iter().any(|call| call.tool_call_id == call_id) {
                SessionError::AlreadyDecided { call_id, session }
            } else {
                SessionError::NotInDoubt { call_id, session, in_doubt: calls_of(&in_doubt) }
            });
        };
        let CallInDoubt { path, position, .. } = found;
        if let Some(run) = run_of(&mut state, path) {
            run.resolve(*position, resolution);
        }
        state.updated_at = self.shared.clock.now();
        Ok(())
    }

    /// Asks the toolsets of the agent before a run with open calls is resumed: their tools say whether calls can be
    /// repeated.
    pub(super) async fn ask_toolsets(
        &self,
        machine: &mut Machine,
        driver: &mut Driver,
        cancellation: Option<&CancellationToken>,
    ) -> Result<(), SessionError> {
        if driver.ports.toolsets.is_none() || machine.state().open_calls().is_empty() {
            return Ok(());
        }
        let token = cancellation.map_or_else(CancellationToken::new, CancellationToken::child_token);
        // A toolset that was dropped before it has returned may still work elsewhere.
        let guard = token.clone().drop_guard();
        let asked = Box::pin(driver.ask_toolsets(machine, &token));
        let tools = match select(pin!(token.cancelled()), asked).await {
            Either::Left(_) => return Err(UppError::cancelled(driver.model.provider()).into()),
            Either::Right((tools, _)) => tools.map_err(UppError::from)?,
        };
        guard.disarm();
        self.shared.state().tools = Some(Arc::clone(&tools));
        driver.tools = tools;
        driver.config.has_current_tools = true;
        Ok(())
    }

    /// Returns the error of a run that cannot be resumed because calls are in doubt.
    pub(super) fn check_in_doubt(&self, machine: &Machine, driver: &Driver) -> Result<(), SessionError> {
        // A strategy knows the agents that it runs. Their sessions are checked when it resumes them.
        let is_known = |found: &CallInDoubt| found.is_of_known_agent;
        let mut in_doubt = self.calls_in_doubt(&self.shared.state());
        in_doubt.retain(is_known);
        let calls = calls_of(&in_doubt);
        if calls.is_empty() {
            return Ok(());
        }
        let required = ApprovalRequired { calls, is_in_doubt: true, session_id: Some(Arc::clone(self.id())) };
        let provider = driver.model.provider();
        let error = UppError::invalid_request(provider, required.to_string()).with_cause(required);
        let stamp = Stamp { id: driver.host.ids().string(), at: driver.host.clock().now() };
        Err(SessionError::Run(match machine.turn_in_doubt(stamp) {
            Ok(turn) => failure::attach(error, turn),
            Err(_) => error,
        }))
    }

    /// Returns the calls in doubt, also while a run is starting.
    fn calls_in_doubt(&self, state: &SessionState) -> Vec<CallInDoubt> {
        let mut found = Vec::new();
        for level in self.levels(state) {
            let open = level.run.open_calls();
            found.extend(open.iter().filter(|open| level.is_in_doubt(open)).map(|open| CallInDoubt {
                path: level.path.clone(),
                position: open.position,
                call: Arc::clone(&open.call),
                is_of_known_agent: level.agent.is_some(),
            }));
        }
        found
    }

    /// Returns the unfinished run, and those of the sub-agents that its open calls continue, outermost first.
    pub(super) fn levels<'a>(&self, state: &'a SessionState) -> Vec<Level<'a>> {
        if state.unfinished.is_none() {
            return Vec::new();
        }
        let agent = Some(self.agent.clone());
        let outermost = Level::of(Vec::new(), agent, state.unfinished.as_ref(), &state.sub_agents);
        let outermost = outermost.map(|level| Level { tools: state.tools.as_ref(), ..level });
        let mut waiting: VecDeque<_> = outermost.into_iter().collect();
        let mut levels = Vec::new();
        while let Some(level) = waiting.pop_front() {
            level.push_sub_agents(&mut waiting);
            level.push_strategy_runs(&mut waiting);
            levels.push(level);
        }
        levels
    }

    /// Returns the calls in doubt and the resolved calls whose resolution has not been carried out.
    pub(super) fn open_doubts(&self, state: &SessionState) -> (Vec<Arc<ToolCall>>, Vec<Arc<ToolCall>>) {
        let run = state.unfinished.as_ref().and_then(|unfinished| unfinished.run.as_ref());
        (calls_of(&self.calls_in_doubt(state)), run.map(RunState::resolved_calls).unwrap_or_default())
    }
}

impl<'a> Level<'a> {
    fn of(
        path: Vec<Box<str>>,
        agent: Option<Agent>,
        unfinished: Option<&'a UnfinishedRun>,
        sub_agents: &'a SubAgentStates,
    ) -> Option<Self> {
        let unfinished = unfinished?;
        let (run, is_interrupted) = (unfinished.run.as_ref()?, unfinished.active);
        Some(Self { path, agent, session: None, tools: None, run, is_interrupted, sub_agents })
    }

    fn tool(&self, call: &OpenCall) -> Option<&Tool> {
        let tools = self.tools.or_else(|| self.agent.as_ref().map(Agent::tools))?;
        tools.iter().find(|tool| tool.definition.name == call.call.tool_name)
    }

    fn is_in_doubt(&self, call: &OpenCall) -> bool {
        if !self.is_interrupted || call.has_failed {
            return false;
        }
        let response = self.run.open_response();
        if self.agent.is_none() && response.is_some_and(|response| self.session_of(response, call).is_some())
        {
            return false;
        }
        let name = call.call.tool_name.as_str();
        if let (None, Some(session)) = (&self.agent, self.session) {
            let never_started = !call.is_approved && has_guarded_tool(session, name);
            if never_started || has_idempotent_tool(session, name) {
                return false;
            }
        }
        if let Some(tool) = self.tool(call) {
            let has_started = call.is_approved || !tool.requires_approval;
            return has_started && !tool.idempotent && tool.agent.is_none();
        }
        // A tool that the toolsets no longer have cannot be repeated. If they were not asked yet, the run knows.
        let is_among = |names: &[Arc<str>]| names.iter().any(|known| **known == *name);
        let has_started = call.is_approved || !is_among(&self.run.guarded_tools);
        self.tools.is_some() || has_started && !is_among(&self.run.idempotent_tools)
    }

    /// Returns the session of the sub-agent that a call of the response continues, and its key.
    fn session_of(&self, response: &Message, call: &OpenCall) -> Option<(&'a str, &'a SessionSnapshot)> {
        let mut sessions = self.sub_agents.iter().map(|(key, session)| (key, &**session));
        sessions.find(|(_, session)| is_of_call(session, &response.id, &call.call.tool_call_id))
    }

    /// Adds the sessions of the sub-agents that the open calls continue, also those of the parts of a strategy.
    fn push_sub_agents(&self, levels: &mut VecDeque<Self>) {
        let mut runs = vec![self.run];
        while let Some(run) = runs.pop() {
            runs.extend(run.parts.iter().rev());
            let Some(response) = run.open_response() else { continue };
            for call in &run.open_calls() {
                let Some((key, session)) = self.session_of(response, call) else { continue };
                let agent = self.tool(call).and_then(|tool| {
                    let agent: &dyn Any = &**tool.agent.as_ref()?;
                    Some(agent.downcast_ref::<SubAgent>()?.agent().clone())
                });
                if agent.is_some() || self.agent.is_none() {
                    self.push(key, agent, session, levels);
                }
            }
        }
    }

    /// Adds the sessions of the runs that the strategy of the application has started.
    fn push_strategy_runs(&self, levels: &mut VecDeque<Self>) {
        let Some(input) = self.run.input_of_strategy() else { return };
        for (key, session) in self.sub_agents.iter().filter(|(_, session)| is_of_message(session, &input.id))
        {
            self.push(key, None, session, levels);
        }
    }

    fn push(
        &self,
        key: &str,
        agent: Option<Agent>,
        session: &'a SessionSnapshot,
        levels: &mut VecDeque<Self>,
    ) {
        let Some(unfinished) = &session.unfinished else { return };
        let path = self.path.iter().cloned().chain([key.into()]).collect();
        let level = Level::of(path, agent, Some(unfinished), &unfinished.sub_agents);
        levels.extend(level.map(|level| Level { session: Some(session), ..level }));
    }
}

fn calls_of(in_doubt: &[CallInDoubt]) -> Vec<Arc<ToolCall>> {
    in_doubt.iter().map(|found| Arc::clone(&found.call)).collect()
}

/// Returns the unfinished run of the session, or of the sub-agent's session at `path` in it.
pub(super) fn run_of<'a>(state: &'a mut SessionState, path: &[Box<str>]) -> Option<&'a mut RunState> {
    match path.split_first() {
        None => state.unfinished.as_mut().and_then(|unfinished| unfinished.run.as_mut()),
        Some((first, inner)) => state.sub_agents.get_mut(first).and_then(|session| run_at(session, inner)),
    }
}

/// Returns the run of the sub-agent's session at `path` inside `session`.
fn run_at<'a>(session: &'a mut Arc<SessionSnapshot>, path: &[Box<str>]) -> Option<&'a mut RunState> {
    let mut unfinished = Arc::make_mut(session).unfinished.as_mut()?;
    for key in path {
        unfinished = Arc::make_mut(unfinished.sub_agents.get_mut(key)?).unfinished.as_mut()?;
    }
    unfinished.run.as_mut()
}
