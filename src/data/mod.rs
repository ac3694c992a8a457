//! Data classes: Python handles on Rust values, with the methods of Pydantic models.
//!
//! [`handle`] holds the base class, [`class_parsers`] has the parser and the schema of each class, [`levels`] how
//! deep each may be, [`methods`] the methods that they share, [`dump`] the formats of `model_dump` and reprs.

mod class_parsers;
mod dump;
mod handle;
pub(crate) mod levels;
mod methods;

pub(crate) use class_parsers::{_restore, ClassRegistry, extract, parse};
pub(crate) use handle::{Data, DataClass, value_of};
