//! Tests of policies in Cedar through the public API.

#![cfg(test)]

mod policies;
mod texts;
