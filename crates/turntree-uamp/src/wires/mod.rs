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
mod body_limits;
pub mod discovery;
pub mod keys;
mod media;
pub mod openai;
pub mod realtime;
pub mod uamp;

use crate::service::Wire;

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
