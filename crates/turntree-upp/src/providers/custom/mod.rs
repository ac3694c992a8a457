//! Models made of functions of the application.
//!
//! | file | content |
//! |---|---|
//! | `model` | [`CustomModel`]: a language model of `generate`, `stream` or both |
//! | `stream` | runs a `stream` function and completes its events |
//! | `event_queue` | the queue between that function and the reader |
//! | `media` | embedding and image models |
//!
//! Spec: UPP-1.2 §9

pub mod event_queue;
pub mod media;
pub mod model;
mod stream;

pub use event_queue::{EventSender, StreamClosed};
pub use media::{CustomEmbeddingModel, CustomImageModel, EmbedFunction, ImageFunction};
pub use model::{CustomModel, CustomResponse, GenerateFunction, StreamFunction};
