//! The extension module `turntree._core`: Python bindings only.
//!
//! One file per Python concept, with the names that users see. Code here converts arguments, calls a crate and converts the
//! result; decisions about the domain belong in the crates. Imports point down these layers:
//!
//! | layer | files |
//! |---|---|
//! | registration | this file |
//! | agents, sessions, trees; workflows; agents on servers; servers; the harness layer | [`agents`]; [`uaip`]; [`uamp`]; [`server`]; [`harness`] |
//! | models; documents of ThreadProtocol | [`upp`]; [`thread_protocol`], [`render`] |
//! | messages and threads | [`thread`], [`message`], [`records`], [`media`], [`content`] |
//! | data classes and conversions | [`data`], [`to_python`], [`time`], [`convert`] |
//! | exceptions | [`python_exception`], [`error`] |
//! | futures, event loops, the GIL | [`bridge`] |

#![expect(
    clippy::doc_markdown,
    reason = "docstrings of Python classes name arguments and exceptions in Google style"
)]

use crate::prelude::*;

mod agents;
mod bridge;
mod content;
mod convert;
mod data;
mod error;
mod harness;
mod mcp;
mod media;
mod message;
mod prelude;
mod python_exception;
mod records;
mod render;
mod server;
mod store;
mod stream_events;
mod thread;
mod thread_protocol;
mod time;
mod to_python;
mod uaip;
mod uamp;
mod upp;

/// Documents and streams are many small values. With the system's allocator a conversion takes a quarter longer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native module behind the package `turntree`.
#[pymodule(gil_used = true)]
mod _core {
    use crate::prelude::*;

    use super::agents::{checkpoint, events, state, tree};
    use super::data::ClassRegistry;
    use super::upp::{embedding, image};
    use super::{content, media, message, records, thread};

    #[pymodule_export]
    use super::agents::{
        agent_core::AgentCore,
        llm::LlmCore,
        middleware::{builtin::AgentMiddleware, context::MiddlewareContext},
        parent_run::_approvers,
        run_context::RunContext,
        session::SessionCore,
        strategy::StrategyContext,
        stream::AgentStream,
        tool_context::ToolContext,
        usage_meter::UsageMeter,
    };
    #[pymodule_export]
    use super::data::{_restore, Data};
    #[pymodule_export]
    use super::harness::core::{HarnessCore, harness_hook, harness_schemas};
    #[pymodule_export]
    use super::mcp::{
        client::McpClientCore,
        server::{mcp_server, mcp_stdio},
    };
    #[pymodule_export]
    use super::server::{asgi::AsgiCore, jwt::PyJwtAuthenticator, native::ServerCore};
    #[pymodule_export]
    use super::store::{import::ImportCore, progress::StoreProgress, store::StoreCore};
    #[pymodule_export]
    use super::uaip::{
        client::{UaipClientCore, UaipSessionCore},
        serve::{uaip_asgi, uaip_openapi, uaip_server},
        state::PyState,
        workflow::WorkflowCore,
    };
    #[pymodule_export]
    use super::uamp::{
        a2a::A2aClientCore,
        acp::AcpStdio,
        client::{UampClientCore, UampSessionCore, uamp_verify},
        daemon::UampDaemonCore,
        serve::{uamp_asgi, uamp_server},
    };
    #[pymodule_export]
    use super::upp::{
        api_call::{VendorApi, sign_rs256},
        config::ProviderConfig,
        custom::EventSink,
        keys::{DynamicKey, KeyStrategy, RoundRobinKeys, WeightedKeys},
        media_models::{EmbeddingModelCore, ImageModelCore},
        middleware::{
            builtin::Middleware,
            chain::MiddlewareChain,
            context::CallContext,
            pubsub::{MemoryPubsub, SubscriptionCore},
            request::{CallRequest, CallResponse},
            state::CallState,
        },
        model::{ModelReference, custom_model, recorded_model, scripted},
        prices::{price_rows, set_price_rows, tokens_cost},
        recorded::ModelCall,
        replay::{Replay, replay},
        request::ModelRequest,
        request_guard::guard_requests,
        result_stream::ResultStream,
        retry::{ExponentialBackoff, LinearBackoff, NoRetry, RetryAfterStrategy, RetryStrategy, TokenBucket},
        routing::{fallback_model, router_model},
        scripted::PyReply,
        transport::{NetworkResponse, TransportCall},
    };

    macro_rules! data_classes {
        ($module:ident, $registry:ident: $($class:ty),* $(,)?) => {
            $( $module.add_class::<$class>()?; $registry.add::<$class>($module.py()); )*
        };
    }

    #[cfg(feature = "bridge-selftest")]
    #[pymodule_export]
    use super::bridge::selftest::_bridge_selftest;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::bridge::install(module.py())?;
        super::upp::error::register_converter(super::agents::error::run_exception);
        super::upp::omissions::install();
        super::upp::unsupported_settings::install();
        let fields = module.py().import("turntree._dataclass")?.getattr("Fields")?.call0()?;
        module.py().get_type::<Data>().setattr("__dataclass_fields__", fields)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let mut registry = ClassRegistry::default();
        data_classes!(module, registry:
            content::Text, content::Reasoning, media::Image, media::Document, media::Audio, media::Video,
            content::BinaryData, content::CodeExecution, message::Message, message::UserMessage, message::AssistantMessage,
            message::ToolResultMessage, records::ToolCall, records::ToolResult, records::ToolExecution,
            records::CycleUsage, records::TokenUsage, records::Turn, thread::Thread, tree::ThreadTree, tree::ThreadNode, tree::ThreadDiff,
            checkpoint::Checkpoint, state::PlanStep, state::PyExecutionState,
            events::AgentStreamEvent, events::UapEvent, events::SubAgentRun,
            embedding::Embedding, embedding::EmbeddingUsage, embedding::EmbeddingResult, embedding::EmbeddingProgress,
            image::GeneratedImage, image::ImageUsage, image::ImageResult, image::ImageEvent,
        );
        super::stream_events::register(module, &mut registry)?;
        super::thread_protocol::register(module, &mut registry)?;
        super::uamp::data::register(module, &mut registry)?;
        module.add_function(wrap_pyfunction!(super::render::_render, module)?)?;
        registry.install(module.py());
        Ok(())
    }
}
