//! Facts that follow from a command's words: files that are written, what git does.

pub mod git;
pub mod writes;
