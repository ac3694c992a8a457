//! One integration binary; each module is named after the room it tests.
#![cfg(test)]

mod agent_streams;
mod agents;
mod machine;
mod message;
mod support_agents;
