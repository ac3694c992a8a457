//! `turntree.uamp`: agents on the wires that clients speak.
//!
//! | module | content |
//! |---|---|
//! | [`host`] | runs agents on the event loop of a server |
//! | [`store`] | stores written in Python, for requests on network threads |
//! | [`client`] | clients; signatures |
//! | [`acp`] | agents over standard streams |
//! | [`serve`] | native servers and ASGI applications of agents |

pub(crate) mod acp;
pub(crate) mod client;
mod host;
pub(crate) mod serve;
mod store;
