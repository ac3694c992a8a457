//! The protocols in which agents are served.
//!
//! | module | protocol |
//! |---|---|
//! | [`discovery`] | `/info`, `/capabilities`, `/agents` |
//! | [`uamp`] | UAMP's own: WebSocket, server-sent events, batches |
//! | [`keys`] | `/.well-known/jwks.json` |
//! | [`a2a`] | A2A at `/` and `/a2a`, cards below `/.well-known` |
//! | [`acp`] | ACP at `/acp`, and over standard streams |
//! | [`ag_ui`] | AG-UI at `/ag-ui` |
//! | [`realtime`] | OpenAI's Realtime protocol at `/realtime` |
//! | [`openai`] | `/chat/completions`, `/responses`, `/models` |

pub mod a2a;
pub mod acp;
pub mod ag_ui;
pub mod discovery;
pub mod keys;
mod media;
pub mod openai;
pub mod realtime;
pub mod uamp;

use turntree_core::limits::Limits;

use crate::service::Wire;

/// Limits on the JSON of a request of a foreign protocol. The server limits its size. The schemas and arguments in it must
/// leave room for the levels around them in a session.
const BODY_LIMITS: Limits = Limits { bytes: 1 << 30, depth: 128, values: 1_000_000 };

/// All wires of a server, in the order in which they are asked.
pub fn all() -> Vec<Box<dyn Wire>> {
    vec![
        Box::new(discovery::Discovery),
        Box::new(keys::Keys),
        Box::new(uamp::Uamp::default()),
        Box::new(a2a::A2a::default()),
        Box::new(acp::Acp::default()),
        Box::new(ag_ui::AgUi),
        Box::new(openai::OpenAi::default()),
        Box::new(realtime::Realtime),
    ]
}
