//! `turntree.harness`: policies, hooks and coordination for coding agents.
//!
//! | module | content |
//! |---|---|
//! | [`core`] | a project: its gate, its coordination, its worktrees |

pub(crate) mod core;

use crate::prelude::*;
use pyo3::intern;

use crate::convert::json::json_to_python;
use crate::error::{ToException, build};
use turntree_harness::HarnessError;

/// `turntree.harness.HarnessError` and its subclasses.
impl ToException for HarnessError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        build((|| {
            let module = py.import(intern!(py, "turntree.harness._errors"))?;
            let class = |name: &str| module.getattr(name);
            let message = self.to_string();
            match self {
                Self::PolicyViolation(decision) => {
                    let decision = json_to_python(py, &decision.to_json().to_string())?;
                    class("PolicyViolation")?.call1((message, decision))
                }
                Self::ClaimConflict { resource, holder, expires_at } => {
                    class("ClaimConflict")?.call1((message, resource, holder, *expires_at))
                }
                Self::StoreBusy(_) => class("StoreBusy")?.call1((message,)),
                Self::IntegrityViolation(_) => class("IntegrityViolation")?.call1((message,)),
                _ => class("HarnessError")?.call1((message,)),
            }
        })())
    }
}
