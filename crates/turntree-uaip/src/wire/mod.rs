//! Requests and responses as JSON, in both profiles. No I/O.
//!
//! | module | content |
//! |---|---|
//! | [`profile`] | the profiles: `strict` and `reference` |
//! | [`request`] | bodies of requests |
//! | [`error`] | errors with their status and code |
//! | [`response`] | outcomes as responses |
//! | [`tools`] | the tools that an agent may call next |
//! | [`view`] | workflows and sessions as JSON |
//! | [`openapi`] | the OpenAPI document of a server |
//! | `python_text` | values as Python writes them, for the reference profile |
//! | `error_text` | sentences and lists of errors |

pub mod error;
mod error_text;
pub mod openapi;
mod openapi_parts;
pub mod profile;
mod python_text;
pub mod request;
pub mod response;
pub mod tools;
pub mod view;

pub use error::WireError;
pub use openapi::openapi;
pub use profile::Profile;
pub use python_text::python_text;
pub use request::Envelope;
pub use response::WireResponse;
