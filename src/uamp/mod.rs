//! `turntree.uamp`: agents on the wires that clients speak.
//!
//! | module | content |
//! |---|---|
//! | [`host`] | runs agents on the event loop of a server |
//! | [`store`] | stores written in Python, for requests on network threads |
//! | [`client`] | clients; signatures |
//! | [`serve`] | native servers and ASGI applications of agents |

pub(crate) mod client;
mod host;
pub(crate) mod serve;
mod store;
