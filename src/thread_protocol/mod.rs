//! ThreadProtocol as Python classes: documents, actions, content, and conversions from and to Pydantic AI and the AI SDK.

use crate::prelude::*;
use pyo3::types::PyModule;

use super::data::ClassRegistry;

pub(crate) mod actions;
mod agents;
mod arrow;
pub(crate) mod bulk;
mod bulk_files;
pub(crate) mod content;
pub(crate) mod document;
mod edit;
pub(crate) mod error;
mod issues;
mod lists;
mod options;
pub(crate) mod pydantic_ai;
mod saved;
mod shared;
mod upp;
pub(crate) mod vercel_ui;
mod versions;

/// Adds the classes and functions of ThreadProtocol to the native module.
pub(crate) fn register(module: &Bound<'_, PyModule>, registry: &mut ClassRegistry) -> PyResult<()> {
    macro_rules! data_classes {
        ($($class:ty),* $(,)?) => {
            $( module.add_class::<$class>()?; registry.add::<$class>(module.py()); )*
        };
    }
    data_classes!(
        agents::AgentConfig,
        issues::Issue,
        versions::Change,
        actions::UserMessageAction,
        actions::AssistantMessageAction,
        actions::ThinkingAction,
        actions::ToolCallAction,
        actions::ToolReturnAction,
        actions::SystemAction,
        actions::OtherAction,
        actions::Usage,
        actions::ThinkingUsage,
        content::TextContent,
        content::ImageContent,
        content::FileContent,
        content::AudioContent,
        content::VideoContent,
        content::Attachment,
        bulk::DocumentIssue,
        bulk::Report,
    );
    module.add_function(wrap_pyfunction!(bulk::_convert_lines, module)?)?;
    module.add_function(wrap_pyfunction!(bulk::_convert_files, module)?)?;
    module.add_function(wrap_pyfunction!(bulk::_formats, module)?)?;
    module.add_class::<bulk_files::UnfinishedFile>()?;
    module.add_class::<arrow::ArrowColumn>()?;
    module.add_function(wrap_pyfunction!(arrow::_convert_column, module)?)?;
    // Both protocols have a `Thread`, and the native module has one namespace.
    module.add("ProtocolThread", module.py().get_type::<document::Thread>())?;
    registry.add::<document::Thread>(module.py());
    module.add_class::<vercel_ui::UiStreamReader>()?;
    module.add_class::<vercel_ui::UiLiveStream>()?;
    module.add_function(wrap_pyfunction!(vercel_ui::from_ui_messages, module)?)?;
    module.add_function(wrap_pyfunction!(vercel_ui::ui_stream_headers, module)?)?;
    module.add_function(wrap_pyfunction!(upp::thread_from_upp, module)?)?;
    module.add_function(wrap_pyfunction!(versions::pydantic_ai_version, module)?)?;
    module.add_function(wrap_pyfunction!(versions::downgrade_pydantic_ai, module)?)?;
    module.add_function(wrap_pyfunction!(pydantic_ai::from_pydantic_ai, module)?)
}
