//! Python objects as toolsets: tools that can change between the steps of a run.

use std::fmt;
use std::sync::Arc;

use crate::prelude::*;
use futures_util::future::BoxFuture;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::types::{PyList, PyTuple};

use super::functions::ToolFunction;
use super::host::PyHost;
use super::host_conversions::{exception_of, is_cancellation, value_of};
use super::inputs::core_tool;
use crate::bridge::callbacks::{Callbacks, PyCallback};
use crate::bridge::gc::{GcRoots, WeakGcRoots};
use crate::bridge::gil;
use crate::convert::text::text_of;
use turntree_agents::Tool as CoreTool;
use turntree_agents::host::{
    HostError, HostErrorKind, ToolBinding, ToolInvocation, Toolset, ToolsetContext as CoreContext,
};

/// The toolsets of an agent, from pairs of a name and a function. `callbacks` shows the functions to the garbage collector.
pub(super) fn toolsets_from(
    toolsets: &Bound<'_, PyList>,
    callbacks: &mut Callbacks,
) -> PyResult<Vec<Arc<dyn Toolset>>> {
    let mut list: Vec<Arc<dyn Toolset>> = Vec::with_capacity(toolsets.len());
    for pair in toolsets {
        let (name, function): (String, Bound<'_, PyAny>) = text_of(&pair, "toolsets")?;
        let tools = PyCallback::new(&function)?;
        callbacks.functions.push(Arc::clone(&tools));
        list.push(Arc::new(PyToolset { name, tools }));
    }
    Ok(list)
}

/// A Python object with a method `tools`.
struct PyToolset {
    name: String,
    tools: Arc<PyCallback>,
}

impl fmt::Debug for PyToolset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl Toolset for PyToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, context: &'a Arc<CoreContext>) -> BoxFuture<'a, Result<Vec<CoreTool>, HostError>> {
        let started = gil::require_held(|py| {
            let host = host_of(context)?;
            let argument = host.run_context(py, context)?;
            let arguments = PyTuple::new(py, [argument])?.unbind();
            let call = self.tools.call_from(py, arguments, &host.call_site().caller(py)?)?;
            Ok(call.named(format!("toolset '{}'", self.name)))
        });
        Box::pin(async move {
            let tools = value_of(started, |value| self.read(value, host_of(context)?.roots())).await;
            tools.map_err(|error| self.explain(error))
        })
    }
}

impl PyToolset {
    /// Adds a note with the toolset's name to the exception of its method, which the run raises unchanged.
    fn explain(&self, error: HostError) -> HostError {
        let note = format!("raised by `tools` of toolset '{}'", self.name);
        gil::if_held(|py| {
            let exception = exception_of(py, &error);
            // An exception that forbids notes is raised without one.
            let _noted = exception.call_method1(py, intern!(py, "add_note"), (note,));
        });
        // A cancelled run drops the future of the toolset. `CancelledError` of another task is an error of the toolset.
        match error.kind {
            HostErrorKind::Fatal if is_cancellation(&error) => {
                HostError { kind: HostErrorKind::Raised, ..error }
            }
            _ => error,
        }
    }

    /// Converts the tools that the Python method returns. The run holds the objects in its roots.
    fn read(&self, value: &Bound<'_, PyAny>, roots: &GcRoots) -> PyResult<Vec<CoreTool>> {
        let py = value.py();
        let convert = py.import(intern!(py, "turntree._toolsets"))?.getattr(intern!(py, "tools_of"))?;
        let tools = convert.call1((&*self.name, value))?.cast_into::<PyList>()?;
        let slot = roots.add(tools.clone().into_any().unbind());
        let held = Arc::new(HeldTools { roots: roots.downgrade(), slot });
        let convert = |(index, tool): (usize, Bound<'_, PyAny>)| {
            let binding: ToolBinding = Arc::new(ToolOfToolset { held: Arc::clone(&held), index });
            Ok(core_tool(&tool, &ToolFunction::new(&tool)?)?.with_binding(binding))
        };
        tools.iter().enumerate().map(convert).collect()
    }
}

/// Returns the host of the run. A run of a Python agent always has it.
fn host_of(context: &CoreContext) -> PyResult<&PyHost> {
    let host = context.host.as_any().and_then(|host| host.downcast_ref::<PyHost>());
    host.ok_or_else(|| {
        PyRuntimeError::new_err("a toolset that is written in Python runs with its own agent only")
    })
}

/// The list of tools that a toolset has returned, in the roots of the run. Dropping it removes the list.
struct HeldTools {
    // Weak, because the context of a tool call can outlive the run.
    roots: WeakGcRoots,
    slot: usize,
}

impl Drop for HeldTools {
    fn drop(&mut self) {
        if let Some(roots) = self.roots.upgrade() {
            roots.remove(self.slot);
        }
    }
}

/// One tool of a toolset: the Python object is an item of a list in the roots of the run.
struct ToolOfToolset {
    held: Arc<HeldTools>,
    index: usize,
}

/// Returns the function of the called tool if a toolset has returned it; `None` for the agent's own tools.
pub(super) fn function_of_toolset(
    py: Python<'_>,
    invocation: &ToolInvocation,
) -> PyResult<Option<ToolFunction>> {
    let binding = invocation.binding.as_deref();
    let Some(tool) = binding.and_then(|binding| binding.downcast_ref::<ToolOfToolset>()) else {
        return Ok(None);
    };
    let ended = || PyRuntimeError::new_err("the run of this tool is over");
    let roots = tool.held.roots.upgrade().ok_or_else(ended)?;
    let tools = roots.get(py, tool.held.slot)?.cast_into::<PyList>()?;
    ToolFunction::new(&tools.get_item(tool.index)?).map(Some)
}
