//! `turntree._core.UsageMeter`: counts what runs use, and compares it with limits.

use crate::prelude::*;

use turntree_agents::types::{Limits, UsageMeter as CoreMeter};

/// Counts what one or more runs use together, and ends them at a limit.
#[pyclass(frozen, module = "turntree._core")]
pub(crate) struct UsageMeter(CoreMeter);

impl UsageMeter {
    /// The meter. Clones count together.
    pub(super) const fn core(&self) -> &CoreMeter {
        &self.0
    }
}

#[pymethods]
impl UsageMeter {
    #[new]
    #[pyo3(signature = (*, requests, input_tokens, output_tokens, total_tokens, tool_calls, cost, seconds))]
    fn new(
        requests: Option<u64>,
        input_tokens: Option<u64>,
        output_tokens: Option<u64>,
        total_tokens: Option<u64>,
        tool_calls: Option<u64>,
        cost: Option<f64>,
        seconds: Option<f64>,
    ) -> Self {
        let limits =
            Limits { requests, input_tokens, output_tokens, total_tokens, tool_calls, cost, seconds };
        Self(CoreMeter::new(limits))
    }
}
