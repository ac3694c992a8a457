//! The engines that the conformance suite tests, and what is special to each.

mod encrypted;
mod file;
mod memory;
mod pgbouncer;
mod postgres;
mod redis;
mod sqlite;
