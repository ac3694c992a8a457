//! The native server over real sockets.

#![cfg(test)]

mod application;
mod authentication;
mod http1;
mod http2;
mod jwt;
mod shutdown;
mod websocket;
