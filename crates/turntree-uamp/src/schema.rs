//! The JSON Schemas (2020-12) of the events.
//!
//! They describe what this package reads: members that clients in use do not send are not required, although the
//! specification requires them (`event_id`, `uamp_version`). Unknown members and unknown types are valid.

use serde_json::Value;
use turntree_core::json::schema::document;

use crate::event::{ClientEvent, ServerEvent, SystemEvent};

/// The schema of the events of clients.
pub fn client_event() -> Value {
    document::<ClientEvent>()
}

/// The schema of the events of servers.
pub fn server_event() -> Value {
    document::<ServerEvent>()
}

/// The schema of the events inside an application.
pub fn system_event() -> Value {
    document::<SystemEvent>()
}
