//! `turntree.mcp`: clients of MCP servers, and tools as a server.
//!
//! | module | content |
//! |---|---|
//! | [`client`] | connections, and what servers ask of the application |
//! | [`server`] | functions of Python as the tools of a server |

pub(crate) mod client;
pub(crate) mod server;

use crate::prelude::*;
use pyo3::intern;

use crate::convert::json::json_to_python;
use crate::error::{ToException, build};
use turntree_mcp::McpError;

/// `turntree.mcp.McpError`.
impl ToException for McpError {
    fn to_exception(&self, py: Python<'_>) -> PyErr {
        let (kind, code, data) = match self {
            Self::Refused { code, data, .. } => ("refused", Some(*code), data.as_ref()),
            Self::Timeout { .. } => ("timeout", None, None),
            Self::Closed { .. } => ("closed", None, None),
            Self::Unauthorized { .. } => ("unauthorized", None, None),
            Self::Start { .. } | Self::Connect { .. } | Self::Serve { .. } => ("connect", None, None),
            Self::Invalid { .. } => ("invalid", None, None),
            _ => ("protocol", None, None),
        };
        build((|| {
            let class = py.import(intern!(py, "turntree.mcp._errors"))?.getattr(intern!(py, "McpError"))?;
            let data = data.map(|data| json_to_python(py, &data.to_string())).transpose()?;
            class.call1((self.to_string(), kind, code, data))
        })())
    }
}
