//! Messages of the provider layer (UPP-1.2 §3–4): in, out, and nothing lost.
//!
//! A message becomes the actions of what is said in it: thinking, text and files in order, calls and results one action
//! each. The first action of a message keeps in `metadata.turntree` what no action says (ids, vendor facts), the others
//! the place of their message. A message that does not come back equal from that is kept whole.

mod blocks;
mod from_upp;
mod message_metadata;
mod to_upp;

pub use from_upp::{UppOptions, assistant, from_upp};
