//! Data classes: Python handles on Rust values, with the methods of Pydantic models.
//!
//! [`handle`] holds the base class, [`registry`] knows each class, [`methods`] has the methods they share, [`dump`] the
//! formats of `model_dump` and reprs.

mod dump;
mod handle;
mod methods;
mod registry;

pub(crate) use handle::{Data, DataClass, value_of};
pub(crate) use registry::{_restore, ClassRegistry, extract, parse};
