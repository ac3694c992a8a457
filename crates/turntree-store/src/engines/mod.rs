//! The engines: where logs are stored.
//!
//! | module | content |
//! |---|---|
//! | [`encrypted`] | encrypted, in one of the others |
//! | [`file`] | in a folder, one file for each session |
//! | [`memory`] | in the memory of the process |
//! | [`postgres`] | in a PostgreSQL database |
//! | [`redis`] | in a Redis server |
//! | [`sqlite`] | in one SQLite file |

pub mod encrypted;
pub mod file;
pub mod memory;
mod network;
pub mod postgres;
pub mod redis;
pub mod sqlite;
