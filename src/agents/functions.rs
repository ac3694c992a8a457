//! The Python functions of an agent: tools, approval handlers and hooks.

use std::collections::HashMap;
use std::time::Duration;

use crate::prelude::*;
use pyo3::intern;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyString, PyTuple};

use super::agent_core::AgentCore;
use crate::bridge::call::{Arguments, Call, CallMode, call};
use crate::bridge::cleanup::DEFAULT_TIMEOUT;
use crate::bridge::context::CallerContext;
use crate::bridge::gc::Collect;
use crate::error::wrong_type;
use turntree_agents::host::HookSet;

/// One tool: the object, how to call it, and who approves its calls.
pub(crate) struct ToolFunction {
    pub(super) tool: Py<PyAny>,
    pub(super) mode: CallMode,
    pub(super) takes_context: bool,
    pub(super) approval: Option<Approver>,
    /// The agent that the tool runs, if it is a sub-agent.
    pub(super) agent: Option<Py<AgentCore>>,
}

/// Who approves the calls of a tool.
pub(super) enum Approver {
    /// A function, called before each tool call.
    Function(Function),
    /// As [`Self::Function`], for a function that also receives the context of the call: the method `_approve` of a tool.
    WithContext(Function),
    /// A person. The run waits for the decision.
    Person,
}

impl Approver {
    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Function(function) => Self::Function(function.clone_ref(py)),
            Self::WithContext(function) => Self::WithContext(function.clone_ref(py)),
            Self::Person => Self::Person,
        }
    }

    fn new(approval: &Bound<'_, PyAny>) -> PyResult<Self> {
        match approval.cast::<PyString>() {
            Ok(word) if word.to_str().is_ok_and(|word| word == ASK) => Ok(Self::Person),
            _ => Ok(Self::Function(Function::new(approval, "approval")?)),
        }
    }
}

/// The approval value that leaves the decision to a person.
pub(super) const ASK: &str = "ask";

/// A function of the application and how to call it.
pub(super) struct Function {
    callable: Py<PyAny>,
    mode: CallMode,
}

impl Function {
    /// Reads a function; async functions run as tasks, others where they are called. `what` names it in the error.
    pub(super) fn new(callable: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        if !callable.is_callable() {
            return Err(wrong_type(callable, what, "a function"));
        }
        Ok(Self { mode: CallMode::of(callable, true)?, callable: callable.clone().unbind() })
    }

    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { callable: self.callable.clone_ref(py), mode: self.mode }
    }

    /// The Python function.
    pub(super) fn into_callable(self) -> Py<PyAny> {
        self.callable
    }

    /// Calls the function when the returned future is polled.
    pub(super) fn call(self, positional: Bound<'_, PyTuple>, caller: &CallerContext) -> Call {
        let arguments = Arguments { positional: positional.unbind(), keywords: None };
        call(self.callable, arguments, self.mode, caller)
    }
}

impl ToolFunction {
    /// Reads a `Tool`.
    ///
    /// # Errors
    /// Those of the tool's attributes.
    pub(crate) fn new(tool: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mode = match tool.getattr("_mode")?.extract::<&str>()? {
            "async" => CallMode::Task,
            "inline" => CallMode::Inline,
            _ => CallMode::Thread,
        };
        let approval = tool.getattr("approval")?;
        let with_context = tool.getattr_opt("_approve")?;
        let approval = match with_context.filter(|_| !approval.is_none()) {
            Some(function) => Some(Approver::WithContext(Function::new(&function, "approval")?)),
            None if approval.is_none() => None,
            None => Some(Approver::new(&approval)?),
        };
        Ok(Self {
            tool: tool.clone().unbind(),
            mode,
            takes_context: tool.getattr("_takes_context")?.extract()?,
            approval,
            agent: agent_of(tool)?,
        })
    }

    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            tool: self.tool.clone_ref(py),
            mode: self.mode,
            takes_context: self.takes_context,
            approval: self.approval.as_ref().map(|approval| approval.clone_ref(py)),
            agent: self.agent.as_ref().map(|agent| agent.clone_ref(py)),
        }
    }
}

/// Returns the agent that a tool runs, if it is a sub-agent.
fn agent_of(tool: &Bound<'_, PyAny>) -> PyResult<Option<Py<AgentCore>>> {
    let agent = tool.getattr_opt(intern!(tool.py(), "_sub_agent"))?;
    let agent =
        agent.filter(|agent| !agent.is_none()).map(|agent| Ok(agent.cast_into::<AgentCore>()?.unbind()));
    agent.transpose()
}

/// All functions of an agent.
#[derive(Default)]
pub(crate) struct Functions {
    pub(super) tools: Vec<ToolFunction>,
    pub(super) hooks: HashMap<&'static str, Function>,
    pub(super) set: HookSet,
    /// The type of the structured answer. It checks JSON text and builds values from it.
    pub(super) answer: Option<Py<PyAny>>,
    /// Returns the Python agent, for middleware.
    pub(super) owner: Option<Py<PyAny>>,
    /// How long a run waits for cancelled functions; `None`: [`DEFAULT_TIMEOUT`].
    cleanup_timeout: Option<Duration>,
}

/// The name of the function that executes a run with a strategy written in Python.
pub(super) const EXECUTE: &str = "execute";

/// The name of the function that decides about calls whose approval says [`ASK`].
pub(super) const ON_APPROVAL: &str = "on_approval";

/// The names of the hooks, with the flags that report them to the driver.
const HOOKS: [(&str, HookSet); 16] = [
    // The host calls it, not the driver.
    (ON_APPROVAL, HookSet::empty()),
    ("on_tool_call", HookSet::TOOL_CALL),
    ("on_before_call", HookSet::BEFORE_CALL),
    ("on_after_call", HookSet::AFTER_CALL),
    ("on_tool_error", HookSet::TOOL_ERROR),
    ("on_max_iterations", HookSet::MAX_ITERATIONS),
    ("on_step_start", HookSet::STEP_START),
    ("on_reason", HookSet::REASON),
    ("on_act", HookSet::ACT),
    ("on_observe", HookSet::OBSERVE),
    ("on_step_end", HookSet::STEP_END),
    ("stop_condition", HookSet::STOP_CONDITION),
    ("on_complete", HookSet::COMPLETE),
    ("on_error", HookSet::ERROR),
    ("system_prompt", HookSet::SYSTEM_PROMPT),
    ("validate_output", HookSet::VALIDATE_OUTPUT),
];

impl Functions {
    /// Reads the functions of an agent. `hooks` maps names to functions or `None`.
    ///
    /// # Errors
    /// `TypeError` for a hook that is not a function.
    pub(crate) fn new(tools: Vec<ToolFunction>, hooks: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut functions = Self { tools, ..Self::default() };
        for (name, flag) in HOOKS {
            if let Some(hook) = hooks.get_item(name)?.filter(|hook| !hook.is_none()) {
                functions.hooks.insert(name, Function::new(&hook, name)?);
                functions.set |= flag;
            }
        }
        Ok(functions)
    }

    /// Sets how long a run waits for cancelled functions.
    #[must_use]
    pub(super) fn with_cleanup_timeout(self, cleanup_timeout: Option<Duration>) -> Self {
        Self { cleanup_timeout, ..self }
    }

    /// How long a run waits for cancelled functions.
    pub(super) fn cleanup_timeout(&self) -> Duration {
        self.cleanup_timeout.unwrap_or(DEFAULT_TIMEOUT)
    }

    /// Adds the type of the structured answer, if it is more than a JSON Schema.
    #[must_use]
    pub(crate) fn with_answer(mut self, answer: Option<Py<PyAny>>) -> Self {
        if answer.is_some() {
            self.set |= HookSet::CHECK_ANSWER;
        }
        Self { answer, ..self }
    }

    /// Sets the function that returns the Python agent, and returns the earlier one.
    pub(crate) fn set_owner(&mut self, owner: Py<PyAny>) -> Option<Py<PyAny>> {
        self.owner.replace(owner)
    }

    /// Adds the function that executes a run.
    ///
    /// # Errors
    /// `TypeError` if it is not a function.
    pub(super) fn with_execute(mut self, execute: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if let Some(execute) = execute {
            self.hooks.insert(EXECUTE, Function::new(execute, EXECUTE)?);
        }
        Ok(self)
    }

    /// Copies the tools and the hooks of tool use, without the hooks of steps. The copy has its own references, because
    /// the garbage collector counts them.
    pub(super) fn without_steps(&self, py: Python<'_>) -> Self {
        let set = self.set
            & (HookSet::TOOL_USE | HookSet::CHECK_ANSWER | HookSet::SYSTEM_PROMPT | HookSet::VALIDATE_OUTPUT);
        let is_included =
            |name: &str| HOOKS.iter().any(|(known, flag)| *known == name && set.contains(*flag));
        let hooks = self.hooks.iter().filter(|(name, _)| is_included(name));
        Self {
            tools: self.tools.iter().map(|tool| tool.clone_ref(py)).collect(),
            hooks: hooks.map(|(name, hook)| (*name, hook.clone_ref(py))).collect(),
            set,
            answer: self.answer.as_ref().map(|answer| answer.clone_ref(py)),
            owner: self.owner.as_ref().map(|owner| owner.clone_ref(py)),
            cleanup_timeout: self.cleanup_timeout,
        }
    }
}

impl Functions {
    /// Copies the functions without the type of the structured answer, for a run whose answer has another schema.
    pub(super) fn without_answer(&self, py: Python<'_>) -> Self {
        Self {
            tools: self.tools.iter().map(|tool| tool.clone_ref(py)).collect(),
            hooks: self.hooks.iter().map(|(name, hook)| (*name, hook.clone_ref(py))).collect(),
            set: self.set - HookSet::CHECK_ANSWER,
            answer: None,
            owner: self.owner.as_ref().map(|owner| owner.clone_ref(py)),
            cleanup_timeout: self.cleanup_timeout,
        }
    }
}

impl Collect for Functions {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.answer)?;
        visit.call(&self.owner)?;
        for tool in &self.tools {
            visit.call(&tool.tool)?;
            visit.call(&tool.agent)?;
            if let Some(Approver::Function(approval)) = &tool.approval {
                visit.call(&approval.callable)?;
            }
        }
        self.hooks.values().try_for_each(|hook| visit.call(&hook.callable))
    }
}
