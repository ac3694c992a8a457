//! Lossless conversion from and to the messages of UPP.
//!
//! A message becomes one action for each run of texts and files, each reasoning block, each call and each result, in
//! order. The first action of a message stores the message's id and provider metadata in `metadata.turntree`; the other
//! actions store the index of their message. A message that its actions cannot reproduce is stored verbatim.
//!
//! Spec: UPP-1.2 §3, §4.

mod blocks;
mod from_upp;
mod message_metadata;
mod to_upp;

pub use from_upp::{UppOptions, assistant, from_upp};
