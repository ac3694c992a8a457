//! The specification and each decision on it, over HTTP in process. Tests have the number of the decision in their names.

mod envelope;
mod lifecycle;
mod reference;
mod results;
mod rules;
mod streams;
mod vectors;
mod views;
