//! Who decides about calls whose approval says "ask": the functions `on_approval` of a run, and of the runs that call it.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

use super::functions::{ASK, Function, ON_APPROVAL};
use super::host_conversions::wrong_result;
use crate::bridge::gc::GcRoots;
use crate::convert::json::to_raw;
use turntree_agents::host::Approval;

/// The functions that decide, as indexes in the roots of the run.
#[derive(Debug, Clone, Default)]
pub(super) struct Approvers {
    /// The function of the run or of its session. It replaces that of the agent.
    of_run: Option<usize>,
    /// The functions of the runs that call this one, innermost first.
    of_callers: Arc<[usize]>,
}

impl Approvers {
    /// The function of a run or of its session, if there is one, and those of the runs that contain it.
    pub(super) fn new(of_run: Option<usize>, of_callers: impl IntoIterator<Item = usize>) -> Self {
        Self { of_run, of_callers: of_callers.into_iter().collect() }
    }

    /// The functions for runs inside this one, in the order in which they are asked: a tuple, or `None` without functions.
    /// `of_agent`: the function of the agent.
    pub(super) fn callables(
        &self,
        py: Python<'_>,
        of_agent: Option<Function>,
        roots: &GcRoots,
    ) -> PyResult<Option<Py<PyTuple>>> {
        let of_agent =
            of_agent.filter(|_| self.of_run.is_none()).map(|function| Ok(function.into_callable()));
        let others = self.of_run.iter().chain(self.of_callers.iter());
        let others = others.map(|index| roots.get(py, *index).map(Bound::unbind));
        let all = of_agent.into_iter().chain(others).collect::<PyResult<Vec<_>>>()?;
        if all.is_empty() { Ok(None) } else { PyTuple::new(py, all).map(|all| Some(all.unbind())) }
    }

    /// The functions for a sub-agent of a run that has these: the run asks after the sub-agent itself.
    ///
    /// `of_agent`: the function of the calling agent.
    pub(super) fn of_sub_agent(&self, of_agent: Option<Function>, roots: &GcRoots) -> Self {
        let own = self.of_run.or_else(|| of_agent.map(|function| roots.add(function.into_callable())));
        let of_callers = own.into_iter().chain(self.of_callers.iter().copied()).collect();
        Self { of_run: None, of_callers }
    }

    /// The functions in the order in which they are asked. `of_agent`: the function of the agent.
    ///
    /// # Errors
    /// `TypeError` if one of them is not a function.
    pub(super) fn functions(
        &self,
        py: Python<'_>,
        of_agent: Option<Function>,
        roots: &GcRoots,
    ) -> PyResult<Vec<Function>> {
        let of_agent = of_agent.filter(|_| self.of_run.is_none()).map(Ok);
        let others = self.of_run.iter().chain(self.of_callers.iter());
        let others = others.map(|index| Function::new(&roots.get(py, *index)?, ON_APPROVAL));
        of_agent.into_iter().chain(others).collect()
    }
}

/// Converts the decision of `on_approval`. Anything that is not clearly an approval is an error.
pub(super) fn decision_from(value: &Bound<'_, PyAny>) -> PyResult<Approval> {
    if let Ok(decision) = value.cast::<PyBool>() {
        return Ok(if decision.is_true() { Approval::Granted } else { Approval::Denied });
    }
    if value.is_instance_of::<PyDict>() {
        return to_raw(value, "arguments").map(Approval::GrantedWith);
    }
    match value.cast::<PyString>() {
        Ok(word) if word.to_str().is_ok_and(|word| word == ASK) => Ok(Approval::Ask),
        _ => Err(wrong_result(value, ON_APPROVAL, "True, False, \"ask\" or a dict of new arguments")),
    }
}
