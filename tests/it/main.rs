//! One integration binary; each module is named after the room it tests.
#![cfg(test)]

mod anthropic;
mod dialects;
mod message;
mod responses;
