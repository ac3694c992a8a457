//! One integration binary; each module is named after the room it tests.

mod message;
