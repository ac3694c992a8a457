//! Signatures of requests to Amazon, version 4.
//!
//! | file | content |
//! |---|---|
//! | `signing` | a transport that signs each attempt |
//! | `credentials` | where the credentials are found |
//! | `platform` | files, environment, programs and HTTP for the sources of credentials |

mod credentials;
mod platform;
mod signing;

pub use credentials::AwsCredentials;
pub use signing::AwsSigning;
