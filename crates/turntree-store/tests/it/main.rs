//! One integration test binary.

#![cfg(test)]

mod conformance;
mod engines;
mod faults;
mod proxy;
mod services;
mod support;
