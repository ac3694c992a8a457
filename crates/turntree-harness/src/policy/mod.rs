//! Policies: facts in, a decision with a reason and a remedy out.
//!
//! | module | content |
//! |---|---|
//! | [`decision`] | outcomes, levels, findings |
//! | [`action`] | what an agent wants to do |
//! | [`context`] | what is known around it: project, branch, protected files |
//! | [`evaluator`] | rules of one kind |
//! | [`rules`] | the built-in rules |
//! | [`gate`] | asks the rules, applies levels and overrides, records |
//! | [`audit`] | the append-only record with its hash chain |
//! | [`overrides`] | exceptions for a time |
//! | [`policies`] | the user's own rules, from files |
//! | [`user`], [`cedar`], `cedar_request` | those in TOML; those in Cedar, and actions as requests of Cedar |
//! | [`enforcers`], `program_output` | programs that decide for them; what they write |
//! | [`commit`] | the stage of git hooks |
//! | [`replay`] | recorded decisions, decided again |

pub mod action;
pub mod audit;
pub mod cedar;
mod cedar_request;
pub mod commit;
pub mod context;
pub mod decision;
pub mod enforcers;
pub mod evaluator;
pub mod gate;
pub mod overrides;
pub mod policies;
mod program_output;
pub mod replay;
pub mod rules;
pub mod user;
