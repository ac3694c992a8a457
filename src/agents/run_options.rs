//! The options of one run, as the Python half passes them: a dict that it has checked.

use std::sync::Arc;
use std::time::Duration;

use crate::prelude::*;
use pyo3::types::PyDict;

use super::usage_meter::UsageMeter;
use crate::bridge::gc::GcRoots;
use crate::convert::json::to_raw_object;
use crate::error::value_error;
use crate::upp::model::ModelReference;
use turntree_agents::host::{RunContext, RunOverrides};
use turntree_agents::types::UsageMeter as CoreMeter;
use turntree_core::json::RawObject;
use turntree_upp::ProviderConfig;

/// The options of one run.
#[derive(Default)]
pub(super) struct RunOptions {
    /// The object that the application lends to the functions of the run.
    pub(super) deps: Option<Py<PyAny>>,
    /// The function that decides about calls whose approval says "ask".
    pub(super) on_approval: Option<Py<PyAny>>,
    /// The metadata that the run starts with.
    pub(super) metadata: Option<RawObject>,
    /// The Python object of the model.
    model: Option<Py<PyAny>>,
    overrides: Option<Box<RunOverrides>>,
    meter: Option<CoreMeter>,
}

impl RunOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// `TypeError` for parameters or metadata that are not JSON; the message names the path.
    pub(super) fn read(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let Some(options) = options else { return Ok(Self::default()) };
        let get = |name: &str| Ok::<_, PyErr>(options.get_item(name)?.filter(|value| !value.is_none()));
        let model = get("model")?.map(Bound::cast_into::<ModelReference>).transpose()?;
        let params = get("params")?.map(|params| to_raw_object(&params, "params")).transpose()?;
        let timeout = get("timeout")?.map(|seconds| seconds.extract::<f64>()).transpose()?;
        let timeout = timeout.map(Duration::try_from_secs_f64).transpose().map_err(value_error)?;
        let meter = get("limits")?.map(Bound::cast_into::<UsageMeter>).transpose()?;
        Ok(Self {
            deps: get("deps")?.map(Bound::unbind),
            on_approval: get("on_approval")?.map(Bound::unbind),
            metadata: get("metadata")?.map(|metadata| to_raw_object(&metadata, "metadata")).transpose()?,
            overrides: Some(Box::new(RunOverrides {
                // The configuration of the agent belongs to the agent's model.
                model: model.as_ref().map(|model| model.get().bind(&ProviderConfig::default())),
                params: params.map(Arc::new),
                timeout,
            })),
            model: model.map(|model| model.into_any().unbind()),
            meter: meter.map(|meter| meter.get().core().clone()),
        })
    }

    /// The metadata that a run starts with: `base` and that of the options.
    pub(super) fn metadata(&mut self, base: Arc<RawObject>) -> Arc<RawObject> {
        let Some(metadata) = self.metadata.take() else { return base };
        let mut merged = Arc::unwrap_or_clone(base);
        for (name, value) in metadata.iter() {
            merged.insert(name, value.clone());
        }
        Arc::new(merged)
    }

    /// Applies the options to the context of a run. `roots` keep the model alive.
    pub(super) fn apply(self, roots: &GcRoots, context: RunContext) -> RunContext {
        if let Some(model) = self.model {
            roots.add(model);
        }
        let meter = match self.meter {
            Some(own) => Some(Arc::new(own.inside(context.meter))),
            None => context.meter,
        };
        RunContext { overrides: self.overrides, meter, ..context }
    }
}
