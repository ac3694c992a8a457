//! `turntree.uamp`: agents on the wires that clients speak.
//!
//! | module | content |
//! |---|---|
//! | [`daemon`] | agents at a router |
//! | [`host`] | runs agents on the event loop of a server |
//! | [`payments`] | payment gates written in Python |
//! | [`store`] | stores written in Python, for requests on network threads |
//! | [`client`] | clients; signatures |
//! | [`data`] | events and their types as data classes |
//! | [`a2a`] | the client of A2A agents |
//! | [`acp`] | agents over standard streams |
//! | [`serve`] | native servers and ASGI applications of agents |

pub(crate) mod a2a;
pub(crate) mod acp;
pub(crate) mod client;
pub(crate) mod daemon;
pub(crate) mod data;
mod host;
mod payments;
pub(crate) mod serve;
mod store;
