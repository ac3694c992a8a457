//! Policies: facts in, a decision with a reason and a remedy out.
//!
//! | module | content |
//! |---|---|
//! | [`decision`] | outcomes, levels, findings |
//! | [`action`] | what an agent wants to do |
//! | [`context`] | what is known around it: project, branch, protected files |
//! | [`rules`] | the built-in rules |
//! | [`gate`] | asks the rules, applies levels and overrides, records |
//! | [`audit`] | the append-only record with its hash chain |
//! | [`overrides`] | exceptions for a time |

pub mod action;
pub mod audit;
pub mod context;
pub mod decision;
pub mod gate;
pub mod overrides;
pub mod rules;
