//! Tests of `turntree-agents`: agents, `llm()`, strategies, the state machine, middleware and spans.

mod agent;
mod custom_strategies;
mod handoffs;
mod llm;
mod llm_middleware;
mod machine;
mod memory;
mod middleware;
mod plan;
mod react;
mod streams;
mod structure_budget;
mod sub_agents;
mod toolsets;
mod trace;
