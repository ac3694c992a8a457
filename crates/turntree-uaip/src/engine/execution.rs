//! The state machine of one action.

use std::sync::Arc;

use serde_json::{Map, Value};
use turntree_agents::types::Violation;

use super::action::{Action, Call, CallFailure, CallKind, CallResult};
use super::limits::Limits;
use super::outcome::{Failure, Outcome, Refusal, Reply};
use super::rules;
use super::session::{Session, SessionStatus};
use crate::definition::{Propagated, Stage, Workflow};

/// What must be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Call a function of the application, and feed its result.
    Call(Box<Call>),
    /// The action is done.
    Done(Box<Outcome>),
}

/// The engine was used in the wrong way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A result was fed that is not the result of the last call.
    #[error("the execution expects {expected}; feed the result of the call that it has returned last")]
    UnexpectedResult {
        /// What is expected.
        expected: &'static str,
    },
    /// The session is of another workflow, or of a stage that the workflow no longer has.
    #[error(
        "the session is in stage \"{stage}\" of workflow \"{workflow}\", which does not exist; has the workflow changed?"
    )]
    UnknownStage {
        /// The workflow of the session.
        workflow: String,
        /// The stage of the session.
        stage: String,
    },
}

/// Executes one action of one session.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use serde_json::json;
/// use turntree_uaip::engine::{CallResult, Reply};
/// use turntree_uaip::{Action, Execution, Limits, Step, Workflow};
///
/// let definition = json!({"name": "store", "stages": [{"name": "cart", "tasks": [{"name": "total"}]}]});
/// let workflow = Arc::new(Workflow::new(serde_json::from_value(definition)?)?);
/// let (_, step) = Execution::initialize(&workflow, Limits::default());
/// let Step::Done(created) = step else { unreachable!() };
///
/// let action = Action::MethodCall { task: "total".to_owned(), args: serde_json::Map::new() };
/// let (mut execution, step) = Execution::begin(&workflow, created.session, action, Limits::default())?;
/// let Step::Call(call) = step else { unreachable!() };
/// let step = execution.feed(CallResult::Done { value: json!(3), state: call.state })?;
///
/// let Step::Done(outcome) = step else { unreachable!() };
/// assert_eq!(outcome.reply, Reply::TaskDone { task: "total".to_owned(), result: json!(3) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Execution {
    workflow: Arc<Workflow>,
    limits: Limits,
    /// The session as it was before the action.
    before: Session,
    /// The session with the changes of the steps that are done.
    after: Session,
    phase: Phase,
}

/// Which call the execution waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Task {
        task: String,
    },
    Prerequisites {
        to: String,
    },
    Guard {
        to: String,
    },
    Exit {
        to: String,
    },
    /// `from` is `None` for the initial stage of a new session.
    Enter {
        from: Option<String>,
    },
    Done,
}

impl Execution {
    /// Creates a session. The hook of the initial stage may have to be called first; if it fails, there is no session.
    pub fn initialize(workflow: &Arc<Workflow>, limits: Limits) -> (Self, Step) {
        let session = Session::new(workflow);
        let mut execution = Self {
            workflow: Arc::clone(workflow),
            limits,
            before: session.clone(),
            after: session,
            phase: Phase::Done,
        };
        let step = execution.enter(None);
        (execution, step)
    }

    /// Begins an action.
    ///
    /// # Errors
    /// [`EngineError::UnknownStage`] if the session does not belong to the workflow.
    pub fn begin(
        workflow: &Arc<Workflow>,
        session: Session,
        action: Action,
        limits: Limits,
    ) -> Result<(Self, Step), EngineError> {
        if session.workflow != workflow.name() || workflow.stage(&session.stage).is_none() {
            return Err(EngineError::UnknownStage { workflow: session.workflow, stage: session.stage });
        }
        let mut execution = Self {
            workflow: Arc::clone(workflow),
            limits,
            before: session.clone(),
            after: session,
            phase: Phase::Done,
        };
        let step = match action {
            Action::MethodCall { task, args } => execution.call_task(task, args),
            Action::StageTransition { stage } => execution.leave(stage),
            Action::StateInput { updates } => Ok(execution.update(updates)),
            Action::Handshake => Ok(execution.unchanged(Reply::Handshake)),
            Action::TerminateSession { .. } => execution.terminate(),
        };
        let step = step.unwrap_or_else(|refusal| execution.unchanged(Reply::Refused(refusal)));
        Ok((execution, step))
    }

    /// Takes the result of the last call.
    ///
    /// # Errors
    /// [`EngineError::UnexpectedResult`] if no call was asked for, or another kind of call.
    pub fn feed(&mut self, result: CallResult) -> Result<Step, EngineError> {
        let phase = std::mem::replace(&mut self.phase, Phase::Done);
        let expected = match (&phase, result) {
            (Phase::Done, _) => "no result, because it is done",
            (_, CallResult::Failed(failure)) => return Ok(self.failed(&phase, failure)),
            (Phase::Guard { to }, CallResult::Guard { allowed: false }) => {
                let refusal = Refusal::TransitionDenied { to: to.clone() };
                return Ok(self.unchanged(Reply::Refused(refusal)));
            }
            (Phase::Guard { to }, CallResult::Guard { allowed: true }) => return Ok(self.exit(to.clone())),
            (Phase::Prerequisites { to }, CallResult::Prerequisites { violations }) => {
                return Ok(self.validated(to.clone(), violations));
            }
            (Phase::Prerequisites { .. }, _) => "the violations of prerequisites",
            (Phase::Guard { .. }, _) => "the decision of a guard",
            (_, CallResult::Guard { .. } | CallResult::Prerequisites { .. }) => {
                "the result of a task or a hook"
            }
            (_, CallResult::Done { value, state }) => {
                let before = self.after.clone();
                self.after.store(state);
                let violations = rules::check_written(&self.workflow, &before, &self.after, self.limits);
                if !violations.is_empty() {
                    return Ok(self.unchanged(Reply::Failed(Failure::InvalidState { violations })));
                }
                return Ok(self.proceed(phase, value));
            }
        };
        self.phase = phase;
        Err(EngineError::UnexpectedResult { expected })
    }

    fn proceed(&mut self, phase: Phase, value: Value) -> Step {
        match phase {
            Phase::Task { task } => self.finish_task(task, value),
            Phase::Exit { to } => self.arrive(to),
            Phase::Enter { from } => self.entered(from),
            Phase::Prerequisites { .. } | Phase::Guard { .. } | Phase::Done => {
                self.unchanged(Reply::Handshake)
            }
        }
    }

    fn stage(&self) -> Option<&Stage> {
        self.workflow.stage(&self.after.stage)
    }

    fn call(&self, kind: CallKind) -> Step {
        let state = self.after.working_state(&self.workflow);
        Step::Call(Box::new(Call { kind, state, timeout: None }))
    }

    fn call_task(&mut self, task: String, args: Map<String, Value>) -> Result<Step, Refusal> {
        let stage = self.stage();
        let Some(definition) = stage.and_then(|stage| stage.task(&task)) else {
            let allowed = stage.map(Stage::task_names).unwrap_or_default();
            let allowed = allowed.into_iter().map(str::to_owned).collect();
            return Err(Refusal::TaskNotInStage { task, allowed });
        };
        rules::check_args(definition, &args, self.limits)?;
        let timeout = definition.timeout;
        let state = self.after.working_state(&self.workflow);
        let kind = CallKind::Task { stage: self.after.stage.clone(), task: task.clone(), args };
        self.phase = Phase::Task { task };
        Ok(Step::Call(Box::new(Call { kind, state, timeout })))
    }

    fn finish_task(&mut self, task: String, result: Value) -> Step {
        let definition = self.stage().and_then(|stage| stage.task(&task));
        let violations = definition.map(|definition| rules::check_result(definition, &result, self.limits));
        match violations {
            Some(violations) if !violations.is_empty() => {
                self.unchanged(Reply::Failed(Failure::InvalidResult { task, violations }))
            }
            _ => self.changed(Reply::TaskDone { task, result }),
        }
    }

    /// Checks a transition: the graph, what the target needs, and then its guard.
    fn leave(&mut self, to: String) -> Result<Step, Refusal> {
        let stage = self.stage();
        if stage.is_none_or(|stage| stage.transition(&to).is_none()) {
            let allowed = stage.map(Stage::exits).unwrap_or_default();
            let allowed = allowed.into_iter().map(str::to_owned).collect();
            return Err(Refusal::InvalidTransition { to, allowed });
        }
        if let Some(target) = self.workflow.stage(&to) {
            rules::check_prerequisites(target, &self.after.working_state(&self.workflow))?;
        }
        if self.workflow.stage(&to).is_some_and(Stage::validates_prerequisites) {
            self.phase = Phase::Prerequisites { to: to.clone() };
            return Ok(self.call(CallKind::Prerequisites { stage: to }));
        }
        Ok(self.guard(to))
    }

    /// Goes on with the values of prerequisites that the application has validated.
    fn validated(&mut self, to: String, violations: Vec<Violation>) -> Step {
        if violations.is_empty() {
            return self.guard(to);
        }
        let refusal = Refusal::MissingPrerequisites { stage: to, missing: Vec::new(), violations };
        self.unchanged(Reply::Refused(refusal))
    }

    /// Asks the guard of a transition, if it has one.
    fn guard(&mut self, to: String) -> Step {
        let transition = self.stage().and_then(|stage| stage.transition(&to));
        if !transition.is_some_and(|transition| transition.guarded) {
            return self.exit(to);
        }
        let kind = CallKind::Guard { from: self.after.stage.clone(), to: to.clone() };
        self.phase = Phase::Guard { to };
        self.call(kind)
    }

    fn exit(&mut self, to: String) -> Step {
        if !self.stage().is_some_and(|stage| stage.on_exit) {
            return self.arrive(to);
        }
        self.phase = Phase::Exit { to };
        self.call(CallKind::OnExit { stage: self.after.stage.clone() })
    }

    /// Moves to a stage, and copies what the transition propagates.
    fn arrive(&mut self, to: String) -> Step {
        let from = std::mem::replace(&mut self.after.stage, to);
        if self.workflow.has_stage_stores() {
            let source = self.after.stages.get(from.as_str()).cloned().unwrap_or_default();
            let copied = match self.workflow.propagated(&from, &self.after.stage) {
                Propagated::All => source,
                Propagated::None => crate::state::State::default(),
                Propagated::Keys(keys) => source.subset(keys),
            };
            self.after.stages.entry(self.after.stage.as_str().into()).or_default().merge(&copied);
        }
        self.enter(Some(from))
    }

    fn enter(&mut self, from: Option<String>) -> Step {
        if !self.stage().is_some_and(|stage| stage.on_enter) {
            return self.entered(from);
        }
        self.phase = Phase::Enter { from };
        self.call(CallKind::OnEnter { stage: self.after.stage.clone() })
    }

    fn entered(&mut self, from: Option<String>) -> Step {
        if self.stage().is_some_and(|stage| stage.complete_on_enter) {
            self.after.status = SessionStatus::Completed;
        }
        // Stores of stages are copies: a transition may make the state larger than its limit.
        if let Err(violation) = rules::check_size(&self.after, self.limits) {
            return self.unchanged(Reply::Failed(Failure::InvalidState { violations: vec![violation] }));
        }
        let to = self.after.stage.clone();
        self.changed(from.map_or(Reply::Initialized, |from| Reply::Moved { from, to }))
    }

    fn update(&mut self, updates: Map<String, Value>) -> Step {
        if let Err(refusal) = rules::check_updates(&self.workflow, &updates, self.limits) {
            return self.unchanged(Reply::Refused(refusal));
        }
        let keys: Vec<String> = updates.keys().cloned().collect();
        if keys.is_empty() {
            return self.unchanged(Reply::Updated { keys });
        }
        for (key, value) in updates {
            self.after.state.set(key, value);
        }
        if let Err(violation) = rules::check_size(&self.after, self.limits) {
            let refusal = Refusal::InvalidStateValue { violations: vec![violation] };
            return self.unchanged(Reply::Refused(refusal));
        }
        self.changed(Reply::Updated { keys })
    }

    fn terminate(&mut self) -> Result<Step, Refusal> {
        let is_terminal = self.stage().is_some_and(Stage::is_terminal);
        let is_completed = self.after.status == SessionStatus::Completed;
        if self.workflow.require_terminal() && !is_terminal && !is_completed {
            let terminal = self.workflow.stages().iter().filter(|stage| stage.is_terminal());
            let terminal = terminal.map(|stage| stage.name.clone()).collect();
            return Err(Refusal::NotTerminal { terminal });
        }
        self.after.status = SessionStatus::Terminated;
        Ok(self.changed(Reply::Terminated))
    }

    fn failed(&mut self, phase: &Phase, failure: CallFailure) -> Step {
        let reply = match (phase, failure) {
            (Phase::Task { task }, CallFailure::InvalidArgs(violations)) => {
                Reply::Refused(Refusal::InvalidArgs { task: task.clone(), violations })
            }
            (Phase::Task { task }, CallFailure::ApprovalRequired { request }) => {
                Reply::ApprovalRequired { task: task.clone(), request }
            }
            (_, CallFailure::Task(message)) => Reply::Failed(Failure::Message(message)),
            (_, CallFailure::Internal { correlation_id }) => {
                Reply::Failed(Failure::Internal { correlation_id })
            }
            (_, CallFailure::Timeout { limit }) => Reply::Failed(Failure::Timeout { limit }),
            (_, CallFailure::InvalidArgs(violations)) => Reply::Failed(Failure::InvalidState { violations }),
            (_, CallFailure::ApprovalRequired { .. }) => {
                Reply::Failed(Failure::Message("only tasks can ask for approval".to_owned()))
            }
        };
        self.unchanged(reply)
    }

    fn changed(&mut self, reply: Reply) -> Step {
        // A new session has version 0.
        if reply != Reply::Initialized {
            self.after.version = self.before.version.saturating_add(1);
        }
        Step::Done(Box::new(Outcome { session: self.after.clone(), is_changed: true, reply }))
    }

    fn unchanged(&mut self, reply: Reply) -> Step {
        Step::Done(Box::new(Outcome { session: self.before.clone(), is_changed: false, reply }))
    }
}
