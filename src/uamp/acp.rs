//! Agents over the standard streams of the process: `turntree.uamp.acp_stdio`.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

use crate::prelude::*;
use pyo3::exceptions::PyRuntimeError;
use pyo3::types::PyList;
use tokio_util::sync::CancellationToken;

use super::serve::{Served, Settings};
use crate::bridge::coroutine::Coroutine;
use crate::bridge::gil::{self, lock};
use crate::server::event_loop::ServerLoop;
use turntree_uamp::wires::acp::stdio;

/// The standard streams of the process as streams of a protocol.
///
/// They are copied when this is made: what is connected to the descriptors 0 and 1 later does not matter.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct AcpStdio {
    streams: Mutex<Option<(File, File)>>,
    stop: CancellationToken,
}

#[pymethods]
impl AcpStdio {
    #[new]
    fn new() -> PyResult<Self> {
        let streams = (input()?, output()?);
        Ok(Self { streams: Mutex::new(Some(streams)), stop: CancellationToken::new() })
    }

    /// Return a coroutine that serves the only agent of a list until the input ends, or until ``stop``.
    fn serve(
        &self,
        py: Python<'_>,
        agents: &Bound<'_, PyList>,
        store: &Bound<'_, PyAny>,
        settings: Settings,
    ) -> PyResult<Coroutine> {
        let served = Served::new(agents, store, settings, None)?;
        let site = Arc::new(served.site(&ServerLoop::capture(py, false)?)?);
        let Some(agent) = site.agents.only().cloned() else {
            return Err(PyRuntimeError::new_err("the standard streams serve one agent"));
        };
        let Some((input, output)) = lock(&self.streams).take() else {
            return Err(PyRuntimeError::new_err("the standard streams are served already"));
        };
        let stop = self.stop.clone();
        Ok(Coroutine::new("acp_stdio", served.roots().clone(), async move {
            stdio::serve(site, agent, input, output, stop).await;
            gil::require_held(|py| Ok(py.None()))
        }))
    }

    /// End the coroutine as if the input had ended. It may be called from any thread.
    fn stop(&self) {
        self.stop.cancel();
    }
}

#[cfg(unix)]
fn input() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

#[cfg(unix)]
fn output() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

#[cfg(windows)]
fn input() -> io::Result<File> {
    use std::os::windows::io::AsHandle as _;
    Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
}

#[cfg(windows)]
fn output() -> io::Result<File> {
    use std::os::windows::io::AsHandle as _;
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}
