//! Image generation and editing.
//!
//! | file | content |
//! |---|---|
//! | `types` | request, result and events |
//! | `model` | the trait [`ImageModel`] |
//! | `dialect` | vendors' formats without I/O, and the model that uses one over HTTP |
//! | `calls` | checks and runs a call |
//!
//! Spec: UPP-1.2 §16

pub mod calls;
pub mod dialect;
pub mod model;
pub mod types;

pub use calls::{ImageStream, edit, generate, stream};
pub use dialect::{HttpImageModel, ImageDecoder, ImageDialect};
pub use model::{ImageModel, ImageSteps};
pub use types::{
    EditSource, GeneratedImage, ImageCapabilities, ImageComplete, ImageEvent, ImagePreview, ImageRequest,
    ImageResult, ImageUsage,
};
