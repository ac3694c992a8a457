//! Wires that several vendors share.
