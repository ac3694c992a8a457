//! Bridge.
